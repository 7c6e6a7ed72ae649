/* SPDX-License-Identifier: MIT */
/* All maps of a store: reads the sideband once and knows each address space at each thread's begin.
 */
#include <stdlib.h>

#include "image/priv.h"

static struct proc *proc_of(struct ipt_images *im, uint32_t pid)
{
	struct proc *p = ipt_u64map_get(&im->procs, pid);

	if (!p) {
		p = ipt_xcalloc(1, sizeof(*p));
		ipt_u64map_put(&im->procs, pid, p);
	}
	return p;
}

static struct space *new_space(struct ipt_images *im, const struct node *root)
{
	struct space *s = ipt_xcalloc(1, sizeof(*s));

	s->id = (uint32_t)im->spaces.n;
	s->root = root;
	*ipt_vec_push(&im->spaces) = s;
	return s;
}

static void move_in(struct proc *p, uint64_t seq, struct space *s, const struct ipt_rec *exec)
{
	struct tenure *t = ipt_vec_push(&p->tenures);

	t->seq = seq;
	t->space = s;
	t->exec = exec;
}

static struct space *space_now(struct ipt_images *im, uint32_t pid, uint64_t seq)
{
	struct proc *p = proc_of(im, pid);

	if (!p->tenures.n)
		move_in(p, seq, new_space(im, NULL), NULL);
	return p->tenures.v[p->tenures.n - 1].space;
}

long ipt_image_tenure(const struct proc *p, uint64_t seq)
{
	size_t lo = 0, hi = p->tenures.n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (p->tenures.v[mid].seq <= seq)
			lo = mid + 1;
		else
			hi = mid;
	}
	return (long)lo - 1;
}

static void thread_begins(struct ipt_images *im, const struct ipt_rec *r)
{
	struct ipt_sb_thread_start s;
	struct birth *b;

	if (r->n < sizeof(s))
		return;
	memcpy(&s, r->payload, sizeof(s));
	if (s.flags & IPT_SB_TF_LEADER) {
		struct proc *p = proc_of(im, r->h.pid);
		struct space *from = NULL;

		if ((s.flags & IPT_SB_TF_FORKED) && s.ppid && s.ppid != r->h.pid)
			from = space_now(im, s.ppid, r->h.seq);
		if (!from || !(s.flags & IPT_SB_TF_SHARES_VM))
			from = new_space(im, from ? from->root : NULL);
		move_in(p, r->h.seq, from, NULL);
	}
	b = ipt_vec_push(&im->births);
	b->seq = r->h.seq;
	b->root = space_now(im, r->h.pid, r->h.seq)->root;
}

/* Maps of a MAP or CODE record: the part of which the image has bytes, and the rest. */
static void make_maps(struct ipt_images *im, struct change *c, const struct ipt_rec_map *rm)
{
	struct ipt_map *m = ipt_image_alloc(&im->arena, sizeof(*m));
	uint64_t size = rm->m.end - rm->m.start, have = 0;
	const uint8_t *p;
	size_t n;

	m->start = rm->m.start;
	m->end = rm->m.end;
	m->pgoff = rm->m.pgoff;
	m->path = rm->path ? rm->path : "";
	m->build_id = rm->build_id;
	m->n_build_id = rm->m.n_build_id;
	m->inode = rm->m.inode;
	m->dev_major = rm->m.dev_major;
	m->dev_minor = rm->m.dev_minor;
	m->kind = rm->m.kind;
	memcpy(m->image, rm->m.image, sizeof(m->image));
	m->image_off = rm->m.image_off;
	m->id = ++im->next_id;
	if (!ipt_store_image(im->st, rm->m.image, &p, &n, NULL) && p && m->image_off < n) {
		have = ipt_min_u64(size, n - m->image_off);
		m->bytes = p + m->image_off;
	}
	c->map[0] = m;
	if (have && have < size) {
		struct ipt_map *rest = ipt_image_alloc(&im->arena, sizeof(*rest));

		*rest = *m;
		m->end = rest->start = m->start + have;
		rest->pgoff += have;
		rest->image_off += have;
		rest->bytes = NULL;
		rest->id = ++im->next_id;
		c->map[1] = rest;
	}
}

const struct node *ipt_image_apply(const struct edit *e, const struct node *t,
				   const struct change *c)
{
	if (!c->map[0])
		return ipt_image_clear(e, t, c->start, c->end);
	t = ipt_image_put(e, t, c->map[0]);
	return c->map[1] ? ipt_image_put(e, t, c->map[1]) : t;
}

static void space_changes(struct ipt_images *im, const struct ipt_rec *r, struct ipt_diag *diag)
{
	struct edit e = {&im->arena, &im->next_id, NULL};
	struct ipt_rec_map rm;
	struct ipt_sb_range range;
	struct ipt_cur pos;
	struct change c = {.seq = r->h.seq, .rec = r};
	bool map = r->h.type == IPT_SB_MAP || r->h.type == IPT_SB_CODE;
	struct space *s;

	if (map ? ipt_rec_map_parse(&rm, r) : ipt_rec_range_parse(&range, &pos, r)) {
		ipt_diag_warn(diag, "sideband record %llu is damaged: ignored",
			      (unsigned long long)r->h.seq);
		return;
	}
	c.start = map ? rm.m.start : range.start;
	c.end = map ? rm.m.end : range.end;
	if (c.start >= c.end) {
		ipt_diag_warn(diag, "sideband record %llu has an empty range: ignored",
			      (unsigned long long)r->h.seq);
		return;
	}
	if (map)
		make_maps(im, &c, &rm);
	s = space_now(im, r->h.pid, r->h.seq);
	s->root = ipt_image_apply(&e, s->root, &c);
	*ipt_vec_push(&s->changes) = c;
}

static void take(struct ipt_images *im, const struct ipt_rec *r, struct ipt_diag *diag)
{
	switch (r->h.type) {
	case IPT_SB_THREAD_START: thread_begins(im, r); break;
	case IPT_SB_EXEC: move_in(proc_of(im, r->h.pid), r->h.seq, new_space(im, NULL), r); break;
	case IPT_SB_MAP:
	case IPT_SB_CODE:
	case IPT_SB_UNMAP:
	case IPT_SB_PROTECT: space_changes(im, r, diag); break;
	default: break;
	}
}

int ipt_images_new(struct ipt_images **out, struct ipt_store *st, struct ipt_diag *diag)
{
	struct ipt_images *im = ipt_xcalloc(1, sizeof(*im));
	size_t n = ipt_store_n_recs(st);
	uint64_t last = 0;

	im->st = st;
	for (size_t i = 0; i < n; i++) {
		const struct ipt_rec *r = ipt_store_rec(st, i);

		/* Searches by seq need its order; a record out of order cannot be placed. */
		if (r->h.seq < last)
			continue;
		last = r->h.seq;
		take(im, r, diag);
	}
	*out = im;
	return 0;
}

void ipt_images_free(struct ipt_images *im)
{
	size_t it = 0;
	uint64_t key;
	void *v;

	if (!im)
		return;
	while (ipt_u64map_next(&im->procs, &it, &key, &v)) {
		struct proc *p = v;

		ipt_vec_fini(&p->tenures);
		free(p);
	}
	ipt_u64map_fini(&im->procs);
	for (size_t i = 0; i < im->spaces.n; i++) {
		ipt_vec_fini(&im->spaces.v[i]->changes);
		free(im->spaces.v[i]);
	}
	ipt_vec_fini(&im->spaces);
	ipt_vec_fini(&im->births);
	ipt_image_arena_fini(&im->arena);
	free(im);
}
