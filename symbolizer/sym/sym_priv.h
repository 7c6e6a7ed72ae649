/* SPDX-License-Identifier: MIT */
/* What the files of sym share: address spans, ELF files, DWARF data. Not for other folders. */
#ifndef IPT_SYM_PRIV_H
#define IPT_SYM_PRIV_H

#include "sym/sym.h"

/* --- spans (span.c): nested ranges flattened to segments --- */

#define IPT_SEG_NONE UINT32_MAX

struct ipt_span {
	uint64_t lo, hi;
	uint32_t val; /* a higher one lies inside a lower one of the same range */
};
struct ipt_spans {
	struct ipt_span *v;
	size_t n, cap;
};
struct ipt_seg { /* holds from lo to the lo of the next */
	uint64_t lo;
	uint32_t val;
};
struct ipt_segs {
	struct ipt_seg *v;
	size_t n, cap;
};

/* Sort @spans and append to @out who is innermost where; the last segment is IPT_SEG_NONE. */
void ipt_span_flatten(struct ipt_spans *spans, struct ipt_segs *out);
/* Index of the segment with @va, plus 1; 0: before the first. */
size_t ipt_seg_find(const struct ipt_segs *s, uint64_t va);

/* --- ELF (elfsym.c, plt.c) --- */

struct ipt_elf_sym {
	uint64_t lo, hi;
	const char *name; /* raw, not empty */
	uint32_t file;    /* which STT_FILE a local symbol follows; 0: global */
	uint8_t rank;     /* who wins at one address */
	bool plt;
};
struct ipt_elf_syms {
	struct ipt_elf_sym *v;
	size_t n, cap;
};
struct ipt_elf_range { /* of an executable section or segment */
	uint64_t lo, hi;
	uint64_t off; /* in the file */
};
struct ipt_elf_ranges {
	struct ipt_elf_range *v;
	size_t n, cap;
};

struct ipt_elf {
	void *handle; /* Elf * */
	int fd;       /* -1: in memory */
	uint8_t *mem; /* owned; of a file in memory */
	uint64_t size;
	char *path;
	struct ipt_intern *names; /* of PLT entries */
	uint8_t build_id[64];
	size_t n_build_id;
	unsigned machine;
	bool is64;
	struct ipt_elf_ranges load; /* PT_LOAD with PF_X */
	struct ipt_elf_ranges text; /* SHF_EXECINSTR, sorted */
	/* After ipt_elf_symbols: */
	struct ipt_elf_syms syms;
	struct ipt_segs segs; /* val below text.n: only that section; else text.n + symbol */
	uint32_t *by_name;    /* symbols by name; made on first use */
};

/* @fd is taken over whatever happens. */
int ipt_elf_open(struct ipt_elf **out, int fd, const char *path, struct ipt_diag *diag);
/* @p is copied. */
int ipt_elf_open_mem(struct ipt_elf **out, const uint8_t *p, size_t n, const char *path,
		     struct ipt_diag *diag);
void ipt_elf_close(struct ipt_elf *e);
/* Read the symbols of @e and of its debug file (NULL: none), which must outlive @e. */
void ipt_elf_symbols(struct ipt_elf *e, const struct ipt_elf *debug);
/* Symbol called @name (@n bytes), rather of file @file; IPT_SEG_NONE: none. */
uint32_t ipt_elf_by_name(struct ipt_elf *e, const char *name, size_t n, uint32_t file);
/* Link-time address of a file offset inside an executable segment. */
bool ipt_elf_link_addr(const struct ipt_elf *e, uint64_t off, uint64_t *va);
/* Does the file hold @n bytes @p at @off (a sample is compared)? */
bool ipt_elf_holds(const struct ipt_elf *e, uint64_t off, const uint8_t *p, size_t n);
/* Is there DWARF that libdwarf may be trusted with? *why is set when there is some and it may not.
 */
bool ipt_elf_has_dwarf(const struct ipt_elf *e, const char **why);
/* Contents of .gnu_debuglink (name, then CRC) and .gnu_debugaltlink (name, then build-id); lent;
 * NULL: none. */
const char *ipt_elf_debuglink(const struct ipt_elf *e, uint32_t *crc);
const char *ipt_elf_altlink(const struct ipt_elf *e, const uint8_t **id, size_t *n);

struct ipt_plt_rel { /* a relocation of a GOT slot */
	uint64_t slot;
	const char *name; /* NULL: IRELATIVE */
	uint64_t addend;
};
struct ipt_plt { /* one section of entries */
	const uint8_t *p;
	size_t n;
	uint64_t va;
	uint64_t got; /* i386: what ebx holds in PIC code */
	size_t entry;
	bool is64;
	const struct ipt_plt_rel *rels; /* sorted by slot */
	size_t n_rels;
};
/* Append a symbol "name@plt" for each entry that jumps through a known slot. */
void ipt_plt_decode(const struct ipt_plt *plt, struct ipt_intern *in, struct ipt_elf_syms *out);

/* --- finding files (debugfile.c) --- */

/* Open @path read-only: a regular file or an error, never a wait. */
int ipt_sym_open_file(const char *path);
/* The ELF file of @map, NULL when there is none; *replaced: one was there but is another. */
struct ipt_elf *ipt_sym_find_elf(const struct ipt_sym_cfg *cfg, const struct ipt_map *map,
				 bool *replaced);
/* Its separate debug data, NULL when there is none. */
struct ipt_elf *ipt_sym_find_debug(const struct ipt_sym_cfg *cfg, const struct ipt_elf *e);
/* The file shared by several debug files that dwz made. */
struct ipt_elf *ipt_sym_find_alt(const struct ipt_elf *debug);

/* --- names (demangle.c) --- */

/* Demangled, malloc'ed; NULL when @name is not mangled. */
char *ipt_sym_demangle(const char *name);
/* The same without parameters. */
char *ipt_sym_demangle_name(const char *name);

/* --- DWARF (dwarf.c, dwarf_line.c, dwarf_inline.c) --- */

struct ipt_dwarf;
struct ipt_row {
	uint64_t lo, hi;
	const char *file;
	uint32_t line, column;
};

struct ipt_dwarf_cfg {
	int fd;                /* lent for the life of the ipt_dwarf */
	int alt_fd;            /* -1: none */
	uint64_t min_text;     /* no code lies below */
	struct ipt_intern *in; /* lent; holds all strings */
	bool no_demangle;
};
int ipt_dwarf_open(struct ipt_dwarf **out, const struct ipt_dwarf_cfg *cfg, struct ipt_diag *diag);
void ipt_dwarf_close(struct ipt_dwarf *d);
/* First trouble met while reading; NULL: none. */
const char *ipt_dwarf_trouble(const struct ipt_dwarf *d);
/* Row at a link-time address; NULL: none. */
const struct ipt_row *ipt_dwarf_row(struct ipt_dwarf *d, uint64_t va);
/* Frames as ipt_sym_frames; 0: nothing known. */
size_t ipt_dwarf_frames(struct ipt_dwarf *d, uint64_t va, struct ipt_frame *frames, size_t max);

/* --- source text (source.c) --- */

struct ipt_sources;
struct ipt_sources *ipt_sources_new(void);
void ipt_sources_free(struct ipt_sources *s);
/* @file: interned, its address is the key. */
const char *ipt_sources_line(struct ipt_sources *s, const char *file, uint32_t line);

#endif
