/* SPDX-License-Identifier: MIT */
/*
 * sym: the front. A module is a file with its symbols and debug data; a view is a module at one
 * load bias and owns the functions handed out, so that all maps of a file at one place share them.
 */
#include <stdlib.h>

#include "sym/sym_priv.h"

#define CACHE_BITS 12

struct module {
	const char *path, *name; /* interned */
	struct ipt_elf *elf;     /* NULL: no file */
	struct ipt_elf *debug, *alt;
	struct ipt_dwarf *dwarf;
	bool dwarf_tried, warned;
	struct view *views;
};

struct view {
	struct view *next;
	struct module *mod;
	uint64_t bias;           /* run-time minus link-time address */
	struct ipt_func **funcs; /* by symbol */
	struct ipt_u64map gaps;  /* functions without name by run-time start */
};

struct cached {
	uint64_t va;
	const struct ipt_map *map;
	const struct ipt_func *func;
};

struct ipt_sym {
	struct ipt_sym_cfg cfg;
	struct ipt_store *st; /* lent */
	struct ipt_diag diag; /* only its sink is used */
	struct ipt_intern *in;
	struct ipt_sources *sources;
	struct ipt_u64map modules; /* by interned key */
	struct ipt_u64map views;   /* by map id */
	struct ipt_u64map demangled;
	struct ipt_func *unknown;
	uint32_t n_funcs;
	struct {
		struct ipt_func **v;
		size_t n, cap;
	} all;
	struct cached cache[1u << CACHE_BITS];
};

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash && slash[1] ? slash + 1 : path;
}

static struct ipt_func *func_new(struct ipt_sym *s, const char *name, const char *linkage)
{
	struct ipt_func *f = ipt_xcalloc(1, sizeof(*f));

	f->name = name;
	f->linkage = linkage;
	f->id = ++s->n_funcs;
	*ipt_vec_push(&s->all) = f;
	return f;
}

static void search_copy(struct ipt_sym *s, const char *const *search)
{
	size_t n = 0;
	const char **copy;

	if (!search)
		return;
	while (search[n])
		n++;
	copy = ipt_xcalloc(n + 1, sizeof(*copy));
	for (size_t i = 0; i < n; i++)
		copy[i] = ipt_intern_str(s->in, search[i]);
	s->cfg.search = copy;
}

int ipt_sym_new(struct ipt_sym **out, struct ipt_store *st, const struct ipt_sym_cfg *cfg,
		struct ipt_diag *diag)
{
	struct ipt_sym *s = ipt_xcalloc(1, sizeof(*s));

	if (cfg)
		s->cfg = *cfg;
	if (diag) {
		s->diag.warn = diag->warn;
		s->diag.warn_arg = diag->warn_arg;
	}
	s->st = st;
	s->in = ipt_intern_new();
	s->sources = ipt_sources_new();
	s->cfg.search = NULL;
	search_copy(s, cfg ? cfg->search : NULL);
	s->unknown = func_new(s, "[unknown]", "[unknown]");
	s->unknown->module = s->unknown->path = "[unknown]";
	s->unknown->hi = UINT64_MAX;
	s->unknown->anon = true;
	*out = s;
	return 0;
}

static void module_free(struct module *m)
{
	while (m->views) {
		struct view *v = m->views;

		m->views = v->next;
		free(v->funcs);
		ipt_u64map_fini(&v->gaps);
		free(v);
	}
	ipt_dwarf_close(m->dwarf);
	ipt_elf_close(m->elf);
	ipt_elf_close(m->debug);
	ipt_elf_close(m->alt);
	free(m);
}

void ipt_sym_free(struct ipt_sym *s)
{
	size_t it = 0;
	uint64_t key;
	void *v;

	if (!s)
		return;
	while (ipt_u64map_next(&s->modules, &it, &key, &v))
		module_free(v);
	for (size_t i = 0; i < s->all.n; i++)
		free(s->all.v[i]);
	ipt_vec_fini(&s->all);
	ipt_u64map_fini(&s->modules);
	ipt_u64map_fini(&s->views);
	ipt_u64map_fini(&s->demangled);
	ipt_sources_free(s->sources);
	ipt_intern_free(s->in);
	free((void *)(uintptr_t)s->cfg.search);
	free(s);
}

/* --- modules --- */

static bool has_image(const struct ipt_map *map)
{
	for (size_t i = 0; i < IPT_IMAGE_ID_LEN; i++)
		if (map->image[i])
			return true;
	return false;
}

/* Code bytes that begin with an ELF header are a whole image: the vDSO, or a file kept entire. */
static struct ipt_elf *elf_of_image(struct ipt_sym *s, const struct ipt_map *map)
{
	struct ipt_elf *e = NULL;
	const uint8_t *p = map->bytes;
	size_t n = map->end - map->start;

	if (map->image_off && s->st && has_image(map) && map->image_off == map->pgoff) {
		if (ipt_store_image(s->st, map->image, &p, &n, NULL) != 0)
			return NULL;
	} else if (map->image_off) {
		return NULL;
	}
	if (!p || n < 64 || memcmp(p, "\177ELF", 4) != 0)
		return NULL;
	return ipt_elf_open_mem(&e, p, n, map->path, NULL) == 0 ? e : NULL;
}

static void module_open(struct ipt_sym *s, struct module *m, const struct ipt_map *map)
{
	bool replaced = false;

	if (map->kind == IPT_SB_MAP_FILE)
		m->elf = ipt_sym_find_elf(&s->cfg, map, &replaced);
	if (!m->elf && (map->kind == IPT_SB_MAP_FILE || map->kind == IPT_SB_MAP_VDSO))
		m->elf = elf_of_image(s, map);
	if (!m->elf && replaced)
		ipt_diag_warn(&s->diag, "%s: not the file that was traced; its symbols are unused",
			      map->path);
	if (!m->elf)
		return;
	if (m->elf->fd >= 0)
		m->debug = ipt_sym_find_debug(&s->cfg, m->elf);
	ipt_elf_symbols(m->elf, m->debug);
}

static const char *map_path(const struct ipt_map *map)
{
	if (map->kind == IPT_SB_MAP_VDSO)
		return "[vdso]";
	if (map->kind == IPT_SB_MAP_VSYSCALL)
		return "[vsyscall]";
	if (map->kind == IPT_SB_MAP_ANON || !map->path || !map->path[0])
		return map->path && map->path[0] == '[' ? map->path : "[anon]";
	return map->path;
}

/* What makes two maps the same file. */
static const char *module_key(struct ipt_sym *s, const struct ipt_map *map)
{
	struct ipt_buf b = {0};
	const char *key;

	ipt_buf_printf(&b, "%u|", map->kind);
	for (size_t i = 0; i < map->n_build_id; i++)
		ipt_buf_printf(&b, "%02x", map->build_id[i]);
	if (map->kind == IPT_SB_MAP_ANON)
		ipt_buf_printf(&b, "|%u", map->id);
	else if (!map->n_build_id)
		ipt_buf_printf(&b, "|%llu|%x:%x|", (unsigned long long)map->inode, map->dev_major,
			       map->dev_minor);
	if (!map->n_build_id && !map->inode)
		for (size_t i = 0; i < IPT_IMAGE_ID_LEN; i++)
			ipt_buf_printf(&b, "%02x", map->image[i]);
	ipt_buf_printf(&b, "|%s", map_path(map));
	key = ipt_intern_strn(s->in, (char *)b.data, b.len);
	ipt_buf_fini(&b);
	return key;
}

static struct module *module_of(struct ipt_sym *s, const struct ipt_map *map)
{
	const char *key = module_key(s, map);
	struct module *m = ipt_u64map_get(&s->modules, (uintptr_t)key);

	if (m)
		return m;
	m = ipt_xcalloc(1, sizeof(*m));
	m->path = ipt_intern_str(s->in, map_path(map));
	m->name = ipt_intern_str(s->in, base_name(m->path));
	module_open(s, m, map);
	ipt_u64map_put(&s->modules, (uintptr_t)key, m);
	return m;
}

/* Without a matching segment (a debug file whose offsets mean nothing): the first one is taken to
 * begin where the map does. */
static uint64_t bias_of(const struct module *m, const struct ipt_map *map)
{
	uint64_t va;

	if (!m->elf)
		return map->start - map->pgoff;
	if (ipt_elf_link_addr(m->elf, map->pgoff, &va))
		return map->start - va;
	if (m->elf->load.n)
		return map->start - (m->elf->load.v[0].lo & ~4095ULL);
	return map->start - map->pgoff;
}

static struct view *view_of(struct ipt_sym *s, const struct ipt_map *map)
{
	struct view *v = ipt_u64map_get(&s->views, map->id);
	struct module *m;
	uint64_t bias;

	if (v)
		return v;
	m = module_of(s, map);
	bias = bias_of(m, map);
	for (v = m->views; v; v = v->next)
		if (v->bias == bias)
			break;
	if (!v) {
		v = ipt_xcalloc(1, sizeof(*v));
		v->mod = m;
		v->bias = bias;
		if (m->elf)
			v->funcs = ipt_xcalloc(m->elf->syms.n + 1, sizeof(*v->funcs));
		v->next = m->views;
		m->views = v;
	}
	ipt_u64map_put(&s->views, map->id, v);
	return v;
}

/* --- functions --- */

/* Readable form of a symbol; the parts after '@' ("@plt") are kept as they are. */
static const char *readable(struct ipt_sym *s, const struct ipt_elf_sym *y)
{
	size_t n = strlen(y->name);
	char *bare, *name, *whole;
	const char *res;

	if (s->cfg.no_demangle || y->name[0] != '_')
		return ipt_intern_str(s->in, y->name);
	bare = ipt_xstrdup(y->name);
	if (y->plt)
		bare[n - strlen("@plt")] = '\0';
	name = ipt_sym_demangle(bare);
	whole = name ? ipt_xasprintf("%s%s", name, y->plt ? "@plt" : "") : ipt_xstrdup(y->name);
	res = ipt_intern_str(s->in, whole);
	free(bare);
	free(name);
	free(whole);
	return res;
}

static struct ipt_func *sym_func(struct ipt_sym *s, struct view *v, uint32_t i);

/* "foo.cold" and "foo.cold.3" belong to "foo", rather to one of the same source file. */
static void link_cold(struct ipt_sym *s, struct view *v, uint32_t i, struct ipt_func *f)
{
	struct ipt_elf *e = v->mod->elf;
	const struct ipt_elf_sym *y = &e->syms.v[i];
	const char *tail = strstr(y->name, ".cold");
	uint32_t parent;
	size_t seg;

	if (!tail || tail == y->name || (tail[5] && tail[5] != '.'))
		return;
	f->cold = true;
	parent = ipt_elf_by_name(e, y->name, (size_t)(tail - y->name), y->file);
	if (parent == IPT_SEG_NONE)
		return;
	seg = ipt_seg_find(&e->segs, e->syms.v[parent].lo);
	if (!seg || e->segs.v[seg - 1].val == IPT_SEG_NONE || e->segs.v[seg - 1].val < e->text.n)
		return;
	parent = e->segs.v[seg - 1].val - (uint32_t)e->text.n;
	if (!strstr(e->syms.v[parent].name, ".cold"))
		f->parent = sym_func(s, v, parent);
}

static struct ipt_func *sym_func(struct ipt_sym *s, struct view *v, uint32_t i)
{
	const struct ipt_elf_sym *y = &v->mod->elf->syms.v[i];
	struct ipt_func *f = v->funcs[i];

	if (f)
		return f;
	f = func_new(s, readable(s, y), ipt_intern_str(s->in, y->name));
	v->funcs[i] = f;
	f->module = v->mod->name;
	f->path = v->mod->path;
	f->lo = y->lo + v->bias;
	f->hi = y->hi + v->bias;
	f->plt = y->plt;
	if (!y->plt)
		link_cold(s, v, i, f);
	return f;
}

/* The stretch [lo, hi) without name; it holds an address that is asked for, and ends with its map.
 */
static struct ipt_func *gap_func(struct ipt_sym *s, struct view *v, uint64_t lo, uint64_t hi)
{
	struct ipt_func *f = ipt_u64map_get(&v->gaps, lo + 1);
	char *name;

	if (f && f->hi == hi)
		return f;
	name = ipt_xasprintf("%s+0x%llx", v->mod->name, (unsigned long long)(lo - v->bias));
	f = func_new(s, ipt_intern_str(s->in, name), NULL);
	f->linkage = f->name;
	f->module = v->mod->name;
	f->path = v->mod->path;
	f->lo = lo;
	f->hi = hi;
	f->anon = true;
	free(name);
	ipt_u64map_put(&v->gaps, lo + 1, f);
	return f;
}

static const struct ipt_func *find_func(struct ipt_sym *s, const struct ipt_map *map, uint64_t va)
{
	struct view *v = view_of(s, map);
	const struct ipt_elf *e = v->mod->elf;
	uint64_t lo = map->start, hi = map->end, link = va - v->bias, n;
	const struct ipt_func *f;
	size_t seg;

	if (va < lo || va >= hi)
		return s->unknown;
	if (!e)
		return gap_func(s, v, lo, hi);
	seg = ipt_seg_find(&e->segs, link);
	if (seg && e->segs.v[seg - 1].val != IPT_SEG_NONE && e->segs.v[seg - 1].val >= e->text.n) {
		f = sym_func(s, v, e->segs.v[seg - 1].val - (uint32_t)e->text.n);
		if (va >= f->lo && va < f->hi) /* else it wraps around: not a real file */
			return f;
	}
	if (seg) {
		n = link - e->segs.v[seg - 1].lo;
		lo = n < va - lo ? va - n : lo;
	}
	if (seg < e->segs.n) {
		n = e->segs.v[seg].lo - link;
		hi = n < hi - va ? va + n : hi;
	}
	return gap_func(s, v, lo, hi);
}

const struct ipt_func *ipt_sym_func(struct ipt_sym *s, const struct ipt_map *map, uint64_t va)
{
	struct cached *c;

	if (!map)
		return s->unknown;
	c = &s->cache[(va ^ (va >> CACHE_BITS) ^ map->id * 0x9e5u) & ((1u << CACHE_BITS) - 1)];
	if (c->va != va || c->map != map || !c->func) {
		c->func = find_func(s, map, va);
		c->va = va;
		c->map = map;
	}
	return c->func;
}

/* --- lines --- */

static void module_warn(struct ipt_sym *s, struct module *m, const char *text)
{
	if (!m->warned && text)
		ipt_diag_warn(&s->diag, "%s: debug data: %s", m->path, text);
	m->warned |= text != NULL;
}

static void dwarf_start(struct ipt_sym *s, struct module *m)
{
	const char *why = NULL, *why2 = NULL, *alt_why;
	struct ipt_elf *from = NULL;
	struct ipt_dwarf_cfg cfg = {.alt_fd = -1, .in = s->in, .no_demangle = s->cfg.no_demangle};
	struct ipt_diag diag = {0};

	m->dwarf_tried = true;
	if (!m->elf || s->cfg.no_dwarf)
		return;
	if (ipt_elf_has_dwarf(m->elf, &why))
		from = m->elf;
	else if (m->debug && ipt_elf_has_dwarf(m->debug, &why2))
		from = m->debug;
	if (!from) {
		module_warn(s, m, why ? why : why2);
		return;
	}
	m->alt = ipt_sym_find_alt(from);
	if (m->alt && ipt_elf_has_dwarf(m->alt, &alt_why))
		cfg.alt_fd = m->alt->fd;
	cfg.fd = from->fd;
	cfg.min_text = m->elf->text.n ? m->elf->text.v[0].lo : 0;
	if (ipt_dwarf_open(&m->dwarf, &cfg, &diag) != 0)
		module_warn(s, m, diag.text);
}

static struct ipt_dwarf *dwarf_of(struct ipt_sym *s, struct module *m)
{
	if (!m->dwarf_tried)
		dwarf_start(s, m);
	return m->dwarf;
}

bool ipt_sym_line(struct ipt_sym *s, const struct ipt_map *map, uint64_t va, const char **file,
		  uint32_t *line, uint64_t *lo, uint64_t *hi)
{
	const struct ipt_row *r = NULL;
	struct ipt_dwarf *d;
	struct view *v;

	if (!map)
		return false;
	v = view_of(s, map);
	d = dwarf_of(s, v->mod);
	if (d) {
		r = ipt_dwarf_row(d, va - v->bias);
		module_warn(s, v->mod, ipt_dwarf_trouble(d));
	}
	if (!r || !r->line || !r->file)
		return false;
	*file = r->file;
	*line = r->line;
	*lo = r->lo + v->bias;
	*hi = r->hi + v->bias;
	return true;
}

size_t ipt_sym_frames(struct ipt_sym *s, const struct ipt_map *map, uint64_t va,
		      struct ipt_frame *frames, size_t max)
{
	const struct ipt_func *f = ipt_sym_func(s, map, va);
	struct ipt_dwarf *d = NULL;
	struct view *v = NULL;
	size_t n = 0;

	if (!max)
		return 0;
	if (map) {
		v = view_of(s, map);
		d = dwarf_of(s, v->mod);
	}
	if (d) {
		n = ipt_dwarf_frames(d, va - v->bias, frames, max);
		module_warn(s, v->mod, ipt_dwarf_trouble(d));
	}
	if (!n) {
		memset(frames, 0, sizeof(*frames));
		n = 1;
	}
	for (size_t i = 0; i < n; i++)
		if (!frames[i].func)
			frames[i].func = f->name;
	return n;
}

const char *ipt_sym_source(struct ipt_sym *s, const char *file, uint32_t line)
{
	return file ? ipt_sources_line(s->sources, ipt_intern_str(s->in, file), line) : NULL;
}
