/* SPDX-License-Identifier: MIT */
/*
 * What is to be recorded, of --only and --exclude: names of modules and functions become ranges of
 * each file, found once, and those become ranges of each address space.
 */
#include <errno.h>
#include <fnmatch.h>
#include <stdlib.h>

#include "session/priv.h"
#include "sym/sym.h"

struct part { /* of a file */
	uint64_t off, size;
	bool exclude;
};

struct filed { /* a file that was looked at */
	char *path;
	uint64_t inode;
	uint32_t dev_major, dev_minor;
	IPT_VEC(struct part) parts;
};

struct name {
	const char *text; /* lent */
	char *func;       /* of FUNC@MODULE; NULL: module or function; owned */
	const char *module;
	bool exclude, found;
};

struct filter {
	bool any_only;
	IPT_VEC(struct name) names;
	IPT_VEC(struct filed *) files;
};

static void add_names(struct filter *f, const char *const *texts, bool exclude)
{
	for (; texts && *texts; texts++) {
		struct name *n = ipt_vec_push(&f->names);
		const char *at = strrchr(*texts, '@');

		*n = (struct name){.text = *texts, .exclude = exclude};
		f->any_only |= !exclude;
		if (!at || at == *texts || !at[1] || !strcmp(at, "@plt"))
			continue;
		n->func = ipt_xasprintf("%.*s", (int)(at - *texts), *texts);
		n->module = at + 1;
	}
}

struct filter *ipt_filter_new(const struct ipt_record_opts *o)
{
	struct filter *f;

	if (!(o->only && o->only[0]) && !(o->exclude && o->exclude[0]))
		return NULL;
	f = ipt_xcalloc(1, sizeof(*f));
	add_names(f, o->only, false);
	add_names(f, o->exclude, true);
	return f;
}

void ipt_filter_free(struct filter *f)
{
	if (!f)
		return;
	for (size_t i = 0; i < f->names.n; i++)
		free(f->names.v[i].func);
	for (size_t i = 0; i < f->files.n; i++) {
		free(f->files.v[i]->path);
		ipt_vec_fini(&f->files.v[i]->parts);
		free(f->files.v[i]);
	}
	ipt_vec_fini(&f->names);
	ipt_vec_fini(&f->files);
	free(f);
}

void ipt_filter_end(struct sess *s)
{
	const struct filter *f = s->filter;

	for (size_t i = 0; f && i < f->names.n; i++) {
		const struct name *n = &f->names.v[i];

		if (!n->found)
			ipt_sess_warn(s,
				      "--%s %s: nothing of this name was mapped: no module (file "
				      "name or path), and no function with a symbol",
				      n->exclude ? "exclude" : "only", n->text);
	}
}

/* --- files --- */

static bool module_is(const struct amap *m, const char *pattern)
{
	const char *base = strrchr(m->path, '/');

	if (m->kind == IPT_SB_MAP_ANON)
		return fnmatch(pattern, "[anon]", 0) == 0 || !strcmp(pattern, "[anon]");
	if (!strcmp(pattern, m->path) || fnmatch(pattern, m->path, FNM_PATHNAME) == 0)
		return true;
	return base && (!strcmp(pattern, base + 1) || fnmatch(pattern, base + 1, 0) == 0);
}

static void add_part(struct filed *d, struct name *n, uint64_t off, uint64_t size)
{
	*ipt_vec_push(&d->parts) = (struct part){off, size, n->exclude};
	n->found = true;
}

struct look { /* for functions */
	struct filter *f;
	struct filed *d;
	const struct amap *m;
};

static void look_at(void *arg, const struct ipt_sym_def *def)
{
	const struct look *l = arg;

	for (size_t i = 0; i < l->f->names.n; i++) {
		struct name *n = &l->f->names.v[i];

		if (n->module ? module_is(l->m, n->module) : !module_is(l->m, n->text)) {
			if (ipt_sym_is_called(def->linkage, n->func ? n->func : n->text))
				add_part(l->d, n, def->off, def->size);
		}
	}
}

static bool wants_functions(const struct filter *f, const struct amap *m)
{
	for (size_t i = 0; i < f->names.n; i++) {
		const struct name *n = &f->names.v[i];

		if (n->module ? module_is(m, n->module) : !module_is(m, n->text))
			return m->kind != IPT_SB_MAP_ANON;
	}
	return false;
}

/* The vDSO is no file: its code bytes are all there is of it. */
static uint8_t *bytes_of(const struct aspace *as, const struct amap *m)
{
	uint8_t *p;

	if (m->kind != IPT_SB_MAP_VDSO)
		return NULL;
	p = ipt_xcalloc(1, m->end - m->start);
	ipt_aspace_read(as, m->start, p, m->end - m->start);
	return p;
}

static struct filed *look_into(struct filter *f, const struct aspace *as, const struct amap *m)
{
	static const struct ipt_sym_cfg cfg;
	struct filed *d = ipt_xcalloc(1, sizeof(*d));
	struct look l = {f, d, m};
	struct ipt_map map = {.start = m->start,
			      .end = m->end,
			      .pgoff = m->pgoff,
			      .path = m->path,
			      .build_id = m->build_id,
			      .n_build_id = m->n_build_id,
			      .inode = m->inode,
			      .kind = m->kind};

	d->path = ipt_xstrdup(m->path);
	d->inode = m->inode;
	d->dev_major = m->dev_major;
	d->dev_minor = m->dev_minor;
	for (size_t i = 0; i < f->names.n; i++) {
		if (!f->names.v[i].module && module_is(m, f->names.v[i].text))
			add_part(d, &f->names.v[i], 0, UINT64_MAX);
	}
	if (wants_functions(f, m)) {
		uint8_t *bytes = bytes_of(as, m);

		map.bytes = bytes;
		ipt_sym_each(&cfg, &map, look_at, &l);
		free(bytes);
	}
	*ipt_vec_push(&f->files) = d;
	return d;
}

static const struct filed *file_of(struct filter *f, const struct aspace *as, const struct amap *m)
{
	for (size_t i = 0; i < f->files.n; i++) {
		const struct filed *d = f->files.v[i];

		if (d->inode == m->inode && d->dev_major == m->dev_major &&
		    d->dev_minor == m->dev_minor && !strcmp(d->path, m->path))
			return d;
	}
	return look_into(f, as, m);
}

/* --- address spaces --- */

static int range_cmp(const void *a, const void *b)
{
	uint64_t x = ((const struct code_range *)a)->lo, y = ((const struct code_range *)b)->lo;

	return x < y ? -1 : x > y;
}

static void merge(struct code_ranges *r)
{
	size_t n = 0;

	if (r->n)
		qsort(r->v, r->n, sizeof(*r->v), range_cmp);
	for (size_t i = 0; i < r->n; i++) {
		if (n && r->v[i].lo <= r->v[n - 1].hi)
			r->v[n - 1].hi = ipt_max_u64(r->v[n - 1].hi, r->v[i].hi);
		else
			r->v[n++] = r->v[i];
	}
	r->n = n;
}

/* Where part @p of a file lies in its mapping @m. */
static void place(struct code_ranges *r, const struct amap *m, const struct part *p)
{
	uint64_t lo = ipt_max_u64(p->off, m->pgoff), size = m->end - m->start;
	uint64_t hi = ipt_min_u64(p->size > UINT64_MAX - p->off ? UINT64_MAX : p->off + p->size,
				  m->pgoff + size);

	if (lo < hi)
		*ipt_vec_push(r) =
			(struct code_range){m->start + (lo - m->pgoff), m->start + (hi - m->pgoff)};
}

void ipt_filter_maps(struct filter *f, struct aspace *as)
{
	if (!f)
		return;
	as->only_some = f->any_only;
	as->only.n = as->excluded.n = 0;
	for (size_t i = 0; i < as->maps.n; i++) {
		const struct filed *d = file_of(f, as, &as->maps.v[i]);

		for (size_t k = 0; k < d->parts.n; k++)
			place(d->parts.v[k].exclude ? &as->excluded : &as->only, &as->maps.v[i],
			      &d->parts.v[k]);
	}
	merge(&as->only);
	merge(&as->excluded);
}

void ipt_filter_copy(struct aspace *to, const struct aspace *from)
{
	to->only_some = from->only_some;
	for (size_t i = 0; i < from->only.n; i++)
		*ipt_vec_push(&to->only) = from->only.v[i];
	for (size_t i = 0; i < from->excluded.n; i++)
		*ipt_vec_push(&to->excluded) = from->excluded.v[i];
}

static bool within(const struct code_ranges *r, uint64_t va)
{
	size_t lo = 0, hi = r->n;

	while (lo < hi) {
		size_t mid = (lo + hi) / 2;

		if (r->v[mid].hi <= va)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < r->n && r->v[lo].lo <= va;
}

bool ipt_filter_outside(const struct aspace *as, uint64_t va)
{
	return (as->only_some && !within(&as->only, va)) || within(&as->excluded, va);
}
