/* SPDX-License-Identifier: MIT */
/*
 * elfsym: ELF files and their symbol tables, through libelf; no other file here includes its
 * headers. Files are read, not mapped: one cut short while in use gives an error and no signal.
 */
#include <fcntl.h>
#include <gelf.h>
#include <libelf.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sym/sym_priv.h"

#define MAX_SYMBOLS (1u << 26)
#define MAX_NOTES   (1u << 16)
#define RANK_FUNC   32
#define RANK_SIZED  16

static int range_cmp(const void *pa, const void *pb)
{
	const struct ipt_elf_range *a = pa, *b = pb;

	return a->lo < b->lo ? -1 : a->lo > b->lo;
}

static void add_range(struct ipt_elf_ranges *r, uint64_t lo, uint64_t size, uint64_t off)
{
	struct ipt_elf_range *n;

	if (!size || lo + size < lo)
		return;
	n = ipt_vec_push(r);
	n->lo = lo;
	n->hi = lo + size;
	n->off = off;
}

/* Contents of a section; NULL when there are none. libelf refuses what lies beyond the file. */
static Elf_Data *sec_data(Elf_Scn *scn)
{
	GElf_Shdr sh;
	Elf_Data *d;

	if (!gelf_getshdr(scn, &sh) || sh.sh_type == SHT_NOBITS || (sh.sh_flags & SHF_COMPRESSED))
		return NULL;
	d = elf_getdata(scn, NULL);
	return d && d->d_buf && d->d_size ? d : NULL;
}

static const char *sec_name(const struct ipt_elf *e, const GElf_Shdr *sh)
{
	size_t strndx;
	const char *name = NULL;

	if (elf_getshdrstrndx(e->handle, &strndx) == 0)
		name = elf_strptr(e->handle, strndx, sh->sh_name);
	return name ? name : "";
}

static Elf_Scn *sec_by_name(const struct ipt_elf *e, const char *name)
{
	Elf_Scn *scn = NULL;
	GElf_Shdr sh;

	while ((scn = elf_nextscn(e->handle, scn)))
		if (gelf_getshdr(scn, &sh) && strcmp(sec_name(e, &sh), name) == 0)
			return scn;
	return NULL;
}

static void read_ranges(struct ipt_elf *e)
{
	Elf_Scn *scn = NULL;
	GElf_Shdr sh;
	GElf_Phdr ph;
	size_t n = 0;

	if (elf_getphdrnum(e->handle, &n) != 0)
		n = 0;
	for (size_t i = 0; i < n && i < 65536; i++)
		if (gelf_getphdr(e->handle, (int)i, &ph) && ph.p_type == PT_LOAD &&
		    (ph.p_flags & PF_X))
			add_range(&e->load, ph.p_vaddr, ph.p_memsz, ph.p_offset);
	while ((scn = elf_nextscn(e->handle, scn)))
		if (gelf_getshdr(scn, &sh) && (sh.sh_flags & SHF_EXECINSTR) &&
		    (sh.sh_flags & SHF_ALLOC))
			add_range(&e->text, sh.sh_addr, sh.sh_size, sh.sh_offset);
	if (!e->text.n)
		for (size_t i = 0; i < e->load.n; i++)
			*ipt_vec_push(&e->text) = e->load.v[i];
	if (e->text.n)
		qsort(e->text.v, e->text.n, sizeof(*e->text.v), range_cmp);
}

static bool notes_build_id(struct ipt_elf *e, Elf_Data *d)
{
	GElf_Nhdr nh;
	size_t off = 0, name, desc;

	for (unsigned i = 0; d && i < MAX_NOTES; i++) {
		off = gelf_getnote(d, off, &nh, &name, &desc);
		if (!off)
			return false;
		if (nh.n_type != NT_GNU_BUILD_ID || nh.n_namesz != 4 || nh.n_descsz < 2 ||
		    nh.n_descsz > sizeof(e->build_id) ||
		    memcmp((char *)d->d_buf + name, "GNU", 4) != 0)
			continue;
		memcpy(e->build_id, (char *)d->d_buf + desc, nh.n_descsz);
		e->n_build_id = nh.n_descsz;
		return true;
	}
	return false;
}

static void read_build_id(struct ipt_elf *e)
{
	Elf_Scn *scn = NULL;
	GElf_Shdr sh;
	GElf_Phdr ph;
	size_t n = 0;

	while ((scn = elf_nextscn(e->handle, scn)))
		if (gelf_getshdr(scn, &sh) && sh.sh_type == SHT_NOTE &&
		    notes_build_id(e, sec_data(scn)))
			return;
	if (elf_getphdrnum(e->handle, &n) != 0)
		return;
	for (size_t i = 0; i < n && i < 65536; i++)
		if (gelf_getphdr(e->handle, (int)i, &ph) && ph.p_type == PT_NOTE &&
		    ph.p_filesz < e->size &&
		    notes_build_id(e, elf_getdata_rawchunk(e->handle, (int64_t)ph.p_offset,
							   ph.p_filesz, ELF_T_NHDR)))
			return;
}

static int open_handle(struct ipt_elf *e, struct ipt_diag *diag)
{
	GElf_Ehdr eh;

	if (!e->handle || elf_kind(e->handle) != ELF_K_ELF || !gelf_getehdr(e->handle, &eh))
		return ipt_diag_err(diag, IPT_E_BADELF, 0, "%s: not an ELF file", e->path);
	e->is64 = gelf_getclass(e->handle) == ELFCLASS64;
	e->machine = eh.e_machine;
	read_ranges(e);
	read_build_id(e);
	return 0;
}

static struct ipt_elf *elf_new(const char *path)
{
	struct ipt_elf *e = ipt_xcalloc(1, sizeof(*e));

	elf_version(EV_CURRENT);
	e->fd = -1;
	e->path = ipt_xstrdup(path);
	e->names = ipt_intern_new();
	return e;
}

int ipt_elf_open(struct ipt_elf **out, int fd, const char *path, struct ipt_diag *diag)
{
	struct ipt_elf *e = elf_new(path);
	struct stat sb;
	int rc;

	e->fd = fd;
	if (fstat(fd, &sb) == 0)
		e->size = (uint64_t)sb.st_size;
	e->handle = elf_begin(fd, ELF_C_READ, NULL);
	rc = open_handle(e, diag);
	if (rc) {
		ipt_elf_close(e);
		e = NULL;
	}
	*out = e;
	return rc;
}

int ipt_elf_open_mem(struct ipt_elf **out, const uint8_t *p, size_t n, const char *path,
		     struct ipt_diag *diag)
{
	struct ipt_elf *e = elf_new(path);
	int rc;

	e->mem = ipt_xcalloc(1, n + 1);
	memcpy(e->mem, p, n);
	e->size = n;
	e->handle = elf_memory((char *)e->mem, n);
	rc = open_handle(e, diag);
	if (rc) {
		ipt_elf_close(e);
		e = NULL;
	}
	*out = e;
	return rc;
}

void ipt_elf_close(struct ipt_elf *e)
{
	if (!e)
		return;
	if (e->handle)
		elf_end(e->handle);
	if (e->fd >= 0)
		close(e->fd);
	ipt_vec_fini(&e->load);
	ipt_vec_fini(&e->text);
	ipt_vec_fini(&e->syms);
	ipt_vec_fini(&e->segs);
	ipt_intern_free(e->names);
	free(e->by_name);
	free(e->mem);
	free(e->path);
	free(e);
}

bool ipt_elf_link_addr(const struct ipt_elf *e, uint64_t off, uint64_t *va)
{
	for (size_t i = 0; i < e->load.n; i++) {
		const struct ipt_elf_range *r = &e->load.v[i];
		uint64_t first = r->off & ~4095ULL; /* mappings begin at a page */

		if (off >= first && off < r->off + (r->hi - r->lo)) {
			*va = r->lo + (off - r->off);
			return true;
		}
	}
	return false;
}

static bool same_at(const struct ipt_elf *e, uint64_t off, const uint8_t *p, size_t n)
{
	uint8_t buf[4096];

	if (e->mem)
		return off <= e->size && n <= e->size - off && memcmp(e->mem + off, p, n) == 0;
	return pread(e->fd, buf, n, (off_t)off) == (ssize_t)n && memcmp(buf, p, n) == 0;
}

bool ipt_elf_holds(const struct ipt_elf *e, uint64_t off, const uint8_t *p, size_t n)
{
	size_t part;

	if (off >= e->size)
		return false;
	n = ipt_min_u64(n, e->size - off);
	part = ipt_min_u64(n, 4096);
	return same_at(e, off, p, part) &&
	       same_at(e, off + (n - part) / 2, p + (n - part) / 2, part) &&
	       same_at(e, off + n - part, p + n - part, part);
}

/* --- symbols --- */

static const struct ipt_elf_range *text_at(const struct ipt_elf *e, uint64_t va)
{
	size_t lo = 0, hi = e->text.n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (e->text.v[mid].lo <= va)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo && va < e->text.v[lo - 1].hi ? &e->text.v[lo - 1] : NULL;
}

static void add_symbol(struct ipt_elf *e, const GElf_Sym *sym, const char *name, uint32_t file)
{
	unsigned type = GELF_ST_TYPE(sym->st_info), bind = GELF_ST_BIND(sym->st_info);
	const struct ipt_elf_range *t;
	struct ipt_elf_sym *s;

	if (type != STT_FUNC && type != STT_GNU_IFUNC && type != STT_NOTYPE)
		return;
	if (sym->st_shndx == SHN_UNDEF || sym->st_shndx == SHN_ABS || sym->st_shndx == SHN_COMMON)
		return;
	if (!name || !name[0] || name[0] == '$')
		return;
	t = text_at(e, sym->st_value);
	if (!t)
		return;
	s = ipt_vec_push(&e->syms);
	s->lo = sym->st_value;
	s->hi = s->lo + ipt_min_u64(sym->st_size, t->hi - s->lo);
	s->name = name;
	s->file = bind == STB_LOCAL ? file : 0;
	s->rank = bind == STB_LOCAL ? 2 : bind == STB_WEAK ? 4 : 8;
	if (type != STT_NOTYPE)
		s->rank |= RANK_FUNC;
	if (sym->st_size)
		s->rank |= RANK_SIZED;
}

static void read_table(struct ipt_elf *e, const struct ipt_elf *from, Elf_Scn *scn)
{
	Elf_Data *d = sec_data(scn);
	uint32_t file = 1;
	GElf_Shdr sh;
	GElf_Sym sym;
	size_t n;

	if (!d || !gelf_getshdr(scn, &sh))
		return;
	n = ipt_min_u64(d->d_size / gelf_fsize(from->handle, ELF_T_SYM, 1, EV_CURRENT),
			MAX_SYMBOLS);
	for (size_t i = 1; i < n; i++) {
		if (!gelf_getsym(d, (int)i, &sym))
			break;
		if (GELF_ST_TYPE(sym.st_info) == STT_FILE)
			file++;
		else if (sym.st_shndx != SHN_UNDEF)
			add_symbol(e, &sym, elf_strptr(from->handle, sh.sh_link, sym.st_name),
				   file);
	}
}

static void read_tables(struct ipt_elf *e, const struct ipt_elf *from)
{
	Elf_Scn *scn = NULL;
	GElf_Shdr sh;

	while ((scn = elf_nextscn(from->handle, scn)))
		if (gelf_getshdr(scn, &sh) &&
		    (sh.sh_type == SHT_SYMTAB || sh.sh_type == SHT_DYNSYM))
			read_table(e, from, scn);
}

/* --- procedure linkage tables --- */

struct rels {
	struct ipt_plt_rel *v;
	size_t n, cap;
};

static int rel_cmp(const void *pa, const void *pb)
{
	const struct ipt_plt_rel *a = pa, *b = pb;

	return a->slot < b->slot ? -1 : a->slot > b->slot;
}

static bool wanted_rel(const struct ipt_elf *e, uint32_t type, bool *irelative)
{
	*irelative = type == (e->machine == EM_386 ? R_386_IRELATIVE : R_X86_64_IRELATIVE);
	if (e->machine == EM_386)
		return *irelative || type == R_386_JMP_SLOT || type == R_386_GLOB_DAT;
	return *irelative || type == R_X86_64_JUMP_SLOT || type == R_X86_64_GLOB_DAT;
}

static void read_rel_section(const struct ipt_elf *e, Elf_Scn *scn, const GElf_Shdr *sh,
			     struct rels *out)
{
	Elf_Scn *syms = elf_getscn(e->handle, sh->sh_link);
	Elf_Data *d = sec_data(scn), *sd = syms && sh->sh_link ? sec_data(syms) : NULL;
	GElf_Shdr ssh = {0};
	size_t n;

	if (!d || (syms && !gelf_getshdr(syms, &ssh)))
		return;
	n = d->d_size /
	    gelf_fsize(e->handle, sh->sh_type == SHT_RELA ? ELF_T_RELA : ELF_T_REL, 1, EV_CURRENT);
	for (size_t i = 0; i < n && i < MAX_SYMBOLS; i++) {
		GElf_Rela r = {0};
		GElf_Rel rel;
		GElf_Sym sym;
		struct ipt_plt_rel *p;
		const char *name = NULL;
		bool irel;

		if (sh->sh_type == SHT_RELA && !gelf_getrela(d, (int)i, &r))
			break;
		if (sh->sh_type == SHT_REL) {
			if (!gelf_getrel(d, (int)i, &rel))
				break;
			r.r_offset = rel.r_offset;
			r.r_info = rel.r_info;
		}
		if (!wanted_rel(e, (uint32_t)GELF_R_TYPE(r.r_info), &irel))
			continue;
		if (!irel) {
			if (!sd || !gelf_getsym(sd, (int)GELF_R_SYM(r.r_info), &sym))
				continue;
			name = elf_strptr(e->handle, ssh.sh_link, sym.st_name);
			if (!name || !name[0])
				continue;
		}
		p = ipt_vec_push(out);
		p->slot = r.r_offset;
		p->name = name;
		p->addend = (uint64_t)r.r_addend;
	}
}

static void read_plt_section(struct ipt_elf *e, Elf_Scn *scn, const GElf_Shdr *sh,
			     const struct rels *rels, uint64_t got)
{
	Elf_Data *d = sec_data(scn);
	struct ipt_plt plt = {0};

	if (!d)
		return;
	plt.p = d->d_buf;
	plt.n = d->d_size;
	plt.va = sh->sh_addr;
	plt.got = got;
	plt.entry = sh->sh_entsize == 8 || sh->sh_entsize == 16 ? sh->sh_entsize : 16;
	plt.is64 = e->machine == EM_X86_64;
	plt.rels = rels->v;
	plt.n_rels = rels->n;
	ipt_plt_decode(&plt, e->names, &e->syms);
}

static void read_plt(struct ipt_elf *e)
{
	Elf_Scn *scn = NULL, *got = sec_by_name(e, ".got.plt");
	struct rels rels = {0};
	GElf_Shdr sh;
	uint64_t ebx = 0;

	if (e->machine != EM_X86_64 && e->machine != EM_386)
		return;
	if (!got)
		got = sec_by_name(e, ".got");
	if (got && gelf_getshdr(got, &sh))
		ebx = sh.sh_addr;
	while ((scn = elf_nextscn(e->handle, scn)))
		if (gelf_getshdr(scn, &sh) && (sh.sh_flags & SHF_ALLOC) &&
		    (sh.sh_type == SHT_RELA || sh.sh_type == SHT_REL))
			read_rel_section(e, scn, &sh, &rels);
	if (rels.n)
		qsort(rels.v, rels.n, sizeof(*rels.v), rel_cmp);
	while ((scn = elf_nextscn(e->handle, scn)))
		if (gelf_getshdr(scn, &sh) && (sh.sh_flags & SHF_EXECINSTR) &&
		    (strcmp(sec_name(e, &sh), ".plt") == 0 ||
		     strcmp(sec_name(e, &sh), ".iplt") == 0 ||
		     strncmp(sec_name(e, &sh), ".plt.", 5) == 0))
			read_plt_section(e, scn, &sh, &rels, ebx);
	ipt_vec_fini(&rels);
}

/* --- who owns an address --- */

static size_t underscores(const char *s)
{
	return strspn(s, "_");
}

/* By address; at one address the best first. */
static int sym_cmp(const void *pa, const void *pb)
{
	const struct ipt_elf_sym *a = pa, *b = pb;
	bool va, vb;

	if (a->lo != b->lo)
		return a->lo < b->lo ? -1 : 1;
	if (a->rank != b->rank)
		return a->rank > b->rank ? -1 : 1;
	va = strchr(a->name, '@');
	vb = strchr(b->name, '@');
	if (va != vb)
		return va ? 1 : -1; /* "memcpy" rather than "memcpy@@VERSION" */
	if (underscores(a->name) != underscores(b->name))
		return underscores(a->name) < underscores(b->name) ? -1 : 1;
	return strcmp(a->name, b->name);
}

/* A symbol without size reaches to the next one or its section's end, but not inside a sized one.
 */
static void add_spans(struct ipt_elf *e, struct ipt_spans *spans)
{
	uint64_t covered = 0;

	for (size_t i = 0; i < e->syms.n; i++) {
		struct ipt_elf_sym *s = &e->syms.v[i];
		const struct ipt_elf_range *t = text_at(e, s->lo);
		size_t next = i + 1;

		if (i && e->syms.v[i - 1].lo == s->lo)
			continue;
		if (s->hi == s->lo) {
			if (s->lo < covered || !t)
				continue;
			while (next < e->syms.n && e->syms.v[next].lo == s->lo)
				next++;
			s->hi = t->hi;
			if (next < e->syms.n)
				s->hi = ipt_min_u64(s->hi, e->syms.v[next].lo);
		} else {
			covered = ipt_max_u64(covered, s->hi);
		}
		*ipt_vec_push(spans) = (struct ipt_span){s->lo, s->hi, (uint32_t)(e->text.n + i)};
	}
}

void ipt_elf_symbols(struct ipt_elf *e, const struct ipt_elf *debug)
{
	struct ipt_spans spans = {0};

	read_tables(e, e);
	if (debug)
		read_tables(e, debug);
	read_plt(e);
	if (e->syms.n)
		qsort(e->syms.v, e->syms.n, sizeof(*e->syms.v), sym_cmp);
	for (size_t i = 0; i < e->text.n; i++)
		*ipt_vec_push(&spans) =
			(struct ipt_span){e->text.v[i].lo, e->text.v[i].hi, (uint32_t)i};
	add_spans(e, &spans);
	ipt_span_flatten(&spans, &e->segs);
	ipt_vec_fini(&spans);
}

static int name_cmp(const void *pa, const void *pb, void *arg)
{
	const struct ipt_elf *e = arg;
	uint32_t a = *(const uint32_t *)pa, b = *(const uint32_t *)pb;
	int c = strcmp(e->syms.v[a].name, e->syms.v[b].name);

	return c ? c : a < b ? -1 : a > b;
}

uint32_t ipt_elf_by_name(struct ipt_elf *e, const char *name, size_t n, uint32_t file)
{
	size_t lo = 0, hi = e->syms.n;
	uint32_t best = IPT_SEG_NONE;

	if (!e->by_name) {
		e->by_name = ipt_xcalloc(e->syms.n + 1, sizeof(*e->by_name));
		for (size_t i = 0; i < e->syms.n; i++)
			e->by_name[i] = (uint32_t)i;
		qsort_r(e->by_name, e->syms.n, sizeof(*e->by_name), name_cmp, e);
	}
	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (strncmp(e->syms.v[e->by_name[mid]].name, name, n) < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	for (; lo < e->syms.n; lo++) {
		const struct ipt_elf_sym *s = &e->syms.v[e->by_name[lo]];

		if (strncmp(s->name, name, n) != 0 || (s->name[n] && s->name[n] != '@'))
			break;
		if (s->plt)
			continue;
		if (s->file == file)
			return e->by_name[lo];
		if (best == IPT_SEG_NONE || !s->file)
			best = e->by_name[lo];
	}
	return best;
}

/* --- debug data --- */

const char *ipt_elf_debuglink(const struct ipt_elf *e, uint32_t *crc)
{
	Elf_Scn *scn = sec_by_name(e, ".gnu_debuglink");
	Elf_Data *d = scn ? sec_data(scn) : NULL;
	size_t n, at;

	if (!d)
		return NULL;
	n = strnlen(d->d_buf, d->d_size);
	at = (n + 4) & ~(size_t)3;
	if (n == d->d_size || at + 4 > d->d_size)
		return NULL;
	memcpy(crc, (char *)d->d_buf + at, 4);
	return d->d_buf;
}

const char *ipt_elf_altlink(const struct ipt_elf *e, const uint8_t **id, size_t *n)
{
	Elf_Scn *scn = sec_by_name(e, ".gnu_debugaltlink");
	Elf_Data *d = scn ? sec_data(scn) : NULL;
	size_t len;

	if (!d)
		return NULL;
	len = strnlen(d->d_buf, d->d_size);
	if (len == d->d_size)
		return NULL;
	*id = (uint8_t *)d->d_buf + len + 1;
	*n = d->d_size - len - 1;
	return d->d_buf;
}

/* Do the tables of .debug_rnglists or .debug_loclists fill the section exactly, with known headers?
 * libdwarf frees twice what it met of a bad one. */
static bool lists_are_sound(const Elf_Data *d)
{
	struct ipt_cur c = ipt_cur_make(d->d_buf, d->d_size);

	while (ipt_cur_left(&c)) {
		uint64_t len = ipt_cur_u32(&c), word = 4;
		struct ipt_cur t;
		uint8_t addr;

		if (len == UINT32_MAX) {
			len = ipt_cur_u64(&c);
			word = 8;
		}
		if (c.bad || len > ipt_cur_left(&c) || len < 8)
			return false;
		t = ipt_cur_make(c.pos, len);
		if (ipt_cur_u16(&t) != 5)
			return false;
		addr = ipt_cur_u8(&t);
		if ((addr != 4 && addr != 8) || ipt_cur_u8(&t) != 0)
			return false;
		if (ipt_cur_u32(&t) > ipt_cur_left(&t) / word)
			return false;
		ipt_cur_skip(&c, len);
	}
	return true;
}

/* Checks a list section; compressed ones are unpacked in the handle's memory. */
static bool check_lists(Elf_Scn *scn, const char *name)
{
	GElf_Shdr sh;
	Elf_Data *d;

	if (!strstr(name, "debug_rnglists") && !strstr(name, "debug_loclists"))
		return true;
	if (!gelf_getshdr(scn, &sh))
		return false;
	if ((sh.sh_flags & SHF_COMPRESSED) && elf_compress(scn, 0, 0) < 0)
		return false;
	if (strncmp(name, ".zdebug", 7) == 0 && elf_compress_gnu(scn, 0, 0) < 0)
		return false;
	d = elf_getdata(scn, NULL);
	return d && (!d->d_size || (d->d_buf && lists_are_sound(d)));
}

/* libdwarf believes section sizes before it allocates: check them against the file, and zlib's best
 * ratio (about 1030) for compressed ones. */
bool ipt_elf_has_dwarf(const struct ipt_elf *e, const char **why)
{
	Elf_Scn *scn = NULL;
	bool found = false;
	GElf_Shdr sh;
	GElf_Chdr ch;

	*why = NULL;
	if (e->fd < 0)
		return false;
	while ((scn = elf_nextscn(e->handle, scn))) {
		const char *name;

		if (!gelf_getshdr(scn, &sh))
			continue;
		name = sec_name(e, &sh);
		if (sh.sh_type == SHT_NOBITS)
			continue;
		if (sh.sh_offset > e->size || sh.sh_size > e->size - sh.sh_offset)
			*why = "a section lies beyond the file's end";
		found |= strcmp(name, ".debug_info") == 0 || strcmp(name, ".zdebug_info") == 0;
		if ((sh.sh_flags & SHF_COMPRESSED) && strncmp(name, ".debug", 6) == 0) {
			if (!gelf_getchdr(scn, &ch) || ch.ch_type != ELFCOMPRESS_ZLIB)
				*why = "debug sections compressed in an unknown way";
			else if (ch.ch_size / 1100 > sh.sh_size)
				*why = "impossible size of a compressed section";
		}
		if (!*why && !check_lists(scn, name))
			*why = "malformed range or location lists";
	}
	return found && !*why;
}
