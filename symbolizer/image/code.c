/* SPDX-License-Identifier: MIT */
/*
 * A thread's code in time: its epochs, and reads of the current one.
 *
 * A record names the thread, or an AT record that comes later does. Where none does, the change
 * applies at the thread's next position that is known, or at the end of its stream: what the thread
 * ran before is then read with the code it had when it was last seen. Such an epoch is not exact,
 * except where the next position is that of an AT record, which speaks for all changes before its
 * own. Positions that go back are taken as the last one.
 */
#include <stdlib.h>

#include "image/priv.h"

struct state {
	struct ipt_epoch pub; /* maps are filled in when they are asked for */
	const struct node *root;
	uint32_t program; /* goes up at exec */
	const struct ipt_map **array;
};

struct ipt_code {
	struct arena arena;
	struct ipt_images *im;
	uint32_t pid, tid, gen;
	uint64_t pt_bytes;
	IPT_VEC(struct state) epochs;
	IPT_VEC(range_vec) dirty; /* of each program */
	size_t current;
};

static struct state *top(struct ipt_code *c)
{
	return &c->epochs.v[c->epochs.n - 1];
}

/* A state that begins at @off: the last one when it begins there too. */
static struct state *state_at(struct ipt_code *c, uint64_t off, bool exact)
{
	struct state *s = top(c), *n;

	off = ipt_max_u64(off, s->pub.pt_off);
	if (s->pub.pt_off == off) {
		s->pub.exact = s->pub.exact && exact;
		return s;
	}
	n = ipt_vec_push(&c->epochs);
	s = n - 1;
	n->root = s->root;
	n->program = s->program;
	n->pub.pt_off = off;
	n->pub.exact = exact;
	return n;
}

struct place {
	uint64_t off;
	bool exact;
	bool all; /* it is that of all earlier changes which have none */
};

static struct place place_of(const struct ipt_sb_hdr *h, bool all)
{
	return (struct place){h->pt_off, !(h->flags & IPT_SB_F_BOUNDED), all};
}

/* This thread's position in a record itself: false when it does not say. */
static bool named(const struct ipt_code *c, const struct ipt_rec *r, struct place *at)
{
	struct ipt_rec_map rm;
	struct ipt_sb_range range;
	struct ipt_sb_pos p;
	struct ipt_cur pos;

	if (r->h.tid == c->tid && r->h.gen == c->gen) {
		*at = place_of(&r->h, false);
		return true;
	}
	if (r->h.type == IPT_SB_EXEC)
		return false;
	if (r->h.type == IPT_SB_MAP || r->h.type == IPT_SB_CODE) {
		if (ipt_rec_map_parse(&rm, r))
			return false;
		pos = rm.pos;
	} else if (ipt_rec_range_parse(&range, &pos, r)) {
		return false;
	}
	while (ipt_rec_pos_next(&pos, &p)) {
		if (p.tid == c->tid && p.gen == c->gen) {
			*at = (struct place){p.pt_off, !(p.flags & IPT_SB_F_BOUNDED), false};
			return true;
		}
	}
	return false;
}

/* The same, or told later by an AT record. */
static bool position(const struct ipt_code *c, const struct ipt_rec *r, struct place *at)
{
	const struct ipt_rec *later;

	if (named(c, r, at))
		return true;
	later = ipt_store_at(c->im->st, r->h.seq, c->tid, c->gen);
	if (later)
		*at = place_of(&later->h, true);
	return later != NULL;
}

static bool only_adds(const struct node *t, const struct change *ch)
{
	return ch->map[0] && !ipt_image_overlaps(t, ch->start, ch->end);
}

static void apply(struct ipt_code *c, struct state *s, const struct change *ch)
{
	struct edit e = {&c->arena, &c->im->next_id, &c->dirty.v[s->program]};

	s->root = ipt_image_apply(&e, s->root, ch);
}

static bool changes_nothing(const struct node *t, const struct change *ch)
{
	return !ch->map[0] && !ipt_image_overlaps(t, ch->start, ch->end);
}

/* Index of the first change beyond @seq. */
static size_t first_beyond(const struct space *s, uint64_t seq)
{
	size_t lo = 0, hi = s->changes.n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (s->changes.v[mid].seq <= seq)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

/* Apply changes @from to @to at one place. */
static void apply_at(struct ipt_code *c, const struct space *s, size_t from, size_t to,
		     uint64_t off, bool exact)
{
	struct state *st;

	if (from >= to)
		return;
	st = state_at(c, off, exact);
	for (; from < to; from++)
		apply(c, st, &s->changes.v[from]);
}

/* Apply all changes of @s with first < seq < end. */
static void run_space(struct ipt_code *c, const struct space *s, uint64_t first, uint64_t end)
{
	size_t wait = SIZE_MAX; /* first change that waits */
	size_t i;

	for (i = first_beyond(s, first); i < s->changes.n && s->changes.v[i].seq < end; i++) {
		const struct change *ch = &s->changes.v[i];
		struct place at;

		if (wait == SIZE_MAX) {
			if (changes_nothing(top(c)->root, ch))
				continue;
			if (only_adds(top(c)->root, ch)) {
				apply(c, top(c), ch);
				continue;
			}
		}
		if (!position(c, ch->rec, &at)) {
			wait = wait == SIZE_MAX ? i : wait;
			continue;
		}
		apply_at(c, s, wait, i, at.off, at.all && at.exact);
		wait = SIZE_MAX;
		apply_at(c, s, i, i + 1, at.off, at.exact);
	}
	apply_at(c, s, wait, i, c->pt_bytes, false);
}

static const struct birth *find_birth(const struct ipt_images *im, uint64_t seq)
{
	size_t lo = 0, hi = im->births.n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (im->births.v[mid].seq < seq)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < im->births.n && im->births.v[lo].seq == seq ? &im->births.v[lo] : NULL;
}

/* A new program: other threads of the process end there, so only a known position counts. */
static bool run_exec(struct ipt_code *c, const struct ipt_rec *exec)
{
	struct state *s;
	struct place at;

	if (!named(c, exec, &at))
		return false;
	s = state_at(c, at.off, at.exact);
	s->root = NULL;
	s->program++;
	ipt_vec_push(&c->dirty);
	return true;
}

static void run_all(struct ipt_code *c, const struct ipt_thread_info *t)
{
	const struct proc *p = ipt_u64map_get(&c->im->procs, t->pid);
	long i;

	if (!p)
		return;
	i = ipt_image_tenure(p, t->start_seq);
	if (i < 0)
		i = 0;
	for (; (size_t)i < p->tenures.n; i++) {
		const struct tenure *ten = &p->tenures.v[i];
		uint64_t end = t->end_seq;

		if (ten->seq >= t->end_seq)
			break;
		if (ten->seq > t->start_seq && ten->exec && !run_exec(c, ten->exec))
			break;
		/* A later leader of the same pid is another process. */
		if (ten->seq > t->start_seq && !ten->exec)
			break;
		if ((size_t)i + 1 < p->tenures.n)
			end = ipt_min_u64(end, ten[1].seq);
		run_space(c, ten->space, ipt_max_u64(ten->seq, t->start_seq), end);
	}
}

int ipt_code_new(struct ipt_code **out, struct ipt_images *im, const struct ipt_thread_info *t,
		 struct ipt_diag *diag)
{
	struct ipt_code *c = ipt_xcalloc(1, sizeof(*c));
	const struct birth *b = find_birth(im, t->start_seq);
	struct state *s;

	(void)diag;
	c->im = im;
	c->pid = t->pid;
	c->tid = t->tid;
	c->gen = t->gen;
	c->pt_bytes = t->pt_bytes;
	ipt_vec_push(&c->dirty);
	s = ipt_vec_push(&c->epochs);
	s->pub.exact = true;
	s->root = b ? b->root : NULL;
	run_all(c, t);
	*out = c;
	return 0;
}

void ipt_code_free(struct ipt_code *c)
{
	if (!c)
		return;
	for (size_t i = 0; i < c->epochs.n; i++)
		free(c->epochs.v[i].array);
	for (size_t i = 0; i < c->dirty.n; i++)
		ipt_vec_fini(&c->dirty.v[i]);
	ipt_vec_fini(&c->dirty);
	ipt_vec_fini(&c->epochs);
	ipt_image_arena_fini(&c->arena);
	free(c);
}

size_t ipt_code_n_epochs(const struct ipt_code *c)
{
	return c->epochs.n;
}

static size_t count(const struct node *t)
{
	return t ? count(t->left) + 1 + count(t->right) : 0;
}

static size_t fill(const struct node *t, const struct ipt_map **v, size_t n)
{
	if (!t)
		return n;
	n = fill(t->left, v, n);
	v[n++] = t->map;
	return fill(t->right, v, n);
}

const struct ipt_epoch *ipt_code_epoch(const struct ipt_code *c, size_t i)
{
	struct state *s;

	if (i >= c->epochs.n)
		return NULL;
	/* The array is only a copy of what the tree says, made for who asks. */
	s = &c->epochs.v[i];
	if (!s->array) {
		s->pub.n_maps = count(s->root);
		s->array = ipt_xcalloc(s->pub.n_maps + 1, sizeof(*s->array));
		fill(s->root, s->array, 0);
		s->pub.maps = s->array;
	}
	return &s->pub;
}

uint64_t ipt_code_epoch_off(const struct ipt_code *c, size_t i)
{
	return i < c->epochs.n ? c->epochs.v[i].pub.pt_off : UINT64_MAX;
}

uint32_t ipt_code_program(const struct ipt_code *c, size_t i)
{
	return i < c->epochs.n ? c->epochs.v[i].program : 0;
}

void ipt_code_seek(struct ipt_code *c, size_t i)
{
	if (i < c->epochs.n)
		c->current = i;
}

size_t ipt_code_current(const struct ipt_code *c)
{
	return c->current;
}

const struct ipt_map *ipt_code_map(const struct ipt_code *c, uint64_t va)
{
	return ipt_image_find(c->epochs.v[c->current].root, va);
}

size_t ipt_code_read_at(const struct ipt_code *c, size_t epoch, uint64_t va, uint8_t *out, size_t n)
{
	size_t done = 0;

	if (epoch >= c->epochs.n)
		return 0;
	while (done < n) {
		const struct ipt_map *m = ipt_image_find(c->epochs.v[epoch].root, va + done);
		size_t part;

		if (!m || !m->bytes)
			break;
		part = (size_t)ipt_min_u64(n - done, m->end - (va + done));
		memcpy(out + done, m->bytes + (va + done - m->start), part);
		done += part;
	}
	return done;
}

size_t ipt_code_read(const struct ipt_code *c, uint64_t va, uint8_t *out, size_t n)
{
	return ipt_code_read_at(c, c->current, va, out, n);
}

static int by_start(const void *a, const void *b)
{
	const struct ipt_sb_range *x = a, *y = b;

	return x->start < y->start ? -1 : x->start > y->start;
}

size_t ipt_code_stable(const struct ipt_code *c, uint32_t program, const struct ipt_map **out,
		       size_t cap)
{
	size_t last = c->epochs.n, n = 0, d = 0, kept = 0;
	const struct ipt_epoch *e;
	range_vec *dirty;
	uint64_t reach = 0; /* end of all dirty ranges that start before the map's end */

	while (last > 0 && c->epochs.v[last - 1].program != program)
		last--;
	if (!last || program >= c->dirty.n)
		return 0;
	e = ipt_code_epoch(c, last - 1);
	dirty = &c->dirty.v[program];
	if (dirty->n)
		qsort(dirty->v, dirty->n, sizeof(*dirty->v), by_start);
	for (n = 0; n < e->n_maps && kept < cap; n++) {
		const struct ipt_map *m = e->maps[n];

		for (; d < dirty->n && dirty->v[d].start < m->end; d++)
			reach = ipt_max_u64(reach, dirty->v[d].end);
		if (reach <= m->start && m->bytes)
			out[kept++] = m;
	}
	return kept;
}
