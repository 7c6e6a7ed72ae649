/* SPDX-License-Identifier: MIT */
/*
 * sym: names and lines of addresses. Lazy: a file is opened when an address of it is asked for, a
 * unit of DWARF when an address of it is. Trouble in debug data is never fatal: lib+0x123 always
 * works.
 */
#ifndef IPT_SYM_H
#define IPT_SYM_H

#include "base/base.h"
#include "image/image.h"

struct ipt_sym;

struct ipt_sym_cfg {
	const char *const *search; /* NULL-terminated folders to look for binaries and debug files
				      in; may be NULL */
	bool no_demangle;
	bool no_dwarf;
	bool no_local; /* do not read binaries by their recorded path */
};

/* @st is lent: its images serve for symbols of the vDSO and where a mapped image holds whole ELF
 * data. */
int ipt_sym_new(struct ipt_sym **out, struct ipt_store *st, const struct ipt_sym_cfg *cfg,
		struct ipt_diag *diag);
void ipt_sym_free(struct ipt_sym *s);

struct ipt_func { /* a function or a stretch without name; interned: same pointer, same function */
	const char
		*name; /* demangled; "lib.so+0x123" where unknown (then anon is true); "foo@plt" */
	const char *linkage; /* as in the symbol table; equals name where there is no mangling */
	const char *module;  /* file name without folders, "[vdso]", "[anon]" */
	const char *path;    /* full */
	uint64_t lo, hi; /* run-time range [lo, hi) in the map it was asked for; lo is its entry */
	uint32_t id;     /* from 1, dense */
	bool anon;       /* no symbol covers the address */
	bool plt;
	bool cold; /* a ".cold" part; parent is its function */
	const struct ipt_func *parent;
};

/* Function at @va of @map (NULL map: unknown code). Never NULL; cached; lives as long as @s. */
const struct ipt_func *ipt_sym_func(struct ipt_sym *s, const struct ipt_map *map, uint64_t va);

struct ipt_frame {             /* strings live as long as @s */
	const char *func;      /* demangled */
	const char *file;      /* NULL unknown */
	uint32_t line, column; /* 0 unknown */
	bool inlined;          /* this frame was inlined into the next one */
};

/* Frames at @va, innermost first: inlined ones, then the function itself. Count, at least 1, at
 * most @max. Line data from DWARF; file NULL where there is none. */
size_t ipt_sym_frames(struct ipt_sym *s, const struct ipt_map *map, uint64_t va,
		      struct ipt_frame *frames, size_t max);
/* File and line only, for hot loops; false when unknown. [*lo, *hi) is the address range that
 * shares the row. */
bool ipt_sym_line(struct ipt_sym *s, const struct ipt_map *map, uint64_t va, const char **file,
		  uint32_t *line, uint64_t *lo, uint64_t *hi);
struct ipt_sym_def {         /* a function in a file; strings are lent for the call */
	const char *linkage; /* as in the symbol table; "foo@plt" */
	uint64_t off, size;  /* in the file */
};

/*
 * Tell of every function in the file that @map maps, with those of its separate debug file. Without
 * an ipt_sym. -ENOENT when the file, or a proof that it is the one, is not to be had.
 */
int ipt_sym_each(const struct ipt_sym_cfg *cfg, const struct ipt_map *map,
		 void (*fn)(void *arg, const struct ipt_sym_def *def), void *arg);
/* Is @linkage called @pattern (fnmatch), as it is, without the part of a function that a compiler
 * made of it (".cold", ".part.0"), or demangled, with or without parameters? */
bool ipt_sym_is_called(const char *linkage, const char *pattern);

/* Text of a source line; NULL when the file is not there. Cached; lives as long as @s. */
const char *ipt_sym_source(struct ipt_sym *s, const char *file, uint32_t line);

#endif
