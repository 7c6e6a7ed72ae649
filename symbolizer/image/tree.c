/* SPDX-License-Identifier: MIT */
/* Persistent treap of maps: a change makes a new root and shares all it does not touch. */
#include <stdlib.h>

#include "image/priv.h"

#define ARENA_CHUNK (64u << 10)

struct arena_block {
	struct arena_block *next;
	size_t used, cap;
	_Alignas(16) uint8_t data[];
};

void *ipt_image_alloc(struct arena *a, size_t n)
{
	struct arena_block *b = a->head;
	void *p;

	n = (n + 15) & ~(size_t)15;
	if (!b || b->cap - b->used < n) {
		size_t cap = n > ARENA_CHUNK ? n : ARENA_CHUNK;

		b = ipt_xcalloc(1, sizeof(*b) + cap);
		b->cap = cap;
		b->next = a->head;
		a->head = b;
	}
	p = b->data + b->used;
	b->used += n;
	return p;
}

void ipt_image_arena_fini(struct arena *a)
{
	while (a->head) {
		struct arena_block *next = a->head->next;

		free(a->head);
		a->head = next;
	}
}

/* Any fixed mixing of the key gives a balanced treap; hostile starts could only unbalance it, and
 * ids are ours, so the priority comes from the id. */
static uint64_t mix(uint64_t x)
{
	x += 0x9e3779b97f4a7c15ull;
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
	return x ^ (x >> 31);
}

static struct node *new_node(const struct edit *e, const struct ipt_map *m, uint64_t prio,
			     const struct node *left, const struct node *right)
{
	struct node *n = ipt_image_alloc(e->arena, sizeof(*n));

	n->map = m;
	n->prio = prio;
	n->left = left;
	n->right = right;
	return n;
}

/* Maps that start before @key to *a, the others to *b. */
static void split(const struct edit *e, const struct node *t, uint64_t key, const struct node **a,
		  const struct node **b)
{
	const struct node *x, *y;

	if (!t) {
		*a = *b = NULL;
	} else if (t->map->start < key) {
		split(e, t->right, key, &x, &y);
		*a = x == t->right ? t : new_node(e, t->map, t->prio, t->left, x);
		*b = y;
	} else {
		split(e, t->left, key, &x, &y);
		*a = x;
		*b = y == t->left ? t : new_node(e, t->map, t->prio, y, t->right);
	}
}

static const struct node *merge(const struct edit *e, const struct node *a, const struct node *b)
{
	if (!a || !b)
		return a ? a : b;
	if (a->prio >= b->prio)
		return new_node(e, a->map, a->prio, a->left, merge(e, a->right, b));
	return new_node(e, b->map, b->prio, merge(e, a, b->left), b->right);
}

/* The part [start, end) of @m. */
static const struct ipt_map *cut(const struct edit *e, const struct ipt_map *m, uint64_t start,
				 uint64_t end)
{
	struct ipt_map *p = ipt_image_alloc(e->arena, sizeof(*p));
	uint64_t skip = start - m->start;

	*p = *m;
	p->start = start;
	p->end = end;
	p->pgoff += skip;
	p->image_off += skip;
	if (p->bytes)
		p->bytes += skip;
	p->id = __atomic_add_fetch(e->next_id, 1, __ATOMIC_RELAXED);
	return p;
}

static const struct node *one(const struct edit *e, const struct ipt_map *m)
{
	return new_node(e, m, mix(m->id), NULL, NULL);
}

static const struct ipt_map *last_map(const struct node *t)
{
	while (t && t->right)
		t = t->right;
	return t ? t->map : NULL;
}

static void note_dirty(const struct edit *e, uint64_t start, uint64_t end)
{
	struct ipt_sb_range *r;

	if (!e->dirty)
		return;
	r = ipt_vec_push(e->dirty);
	r->start = start;
	r->end = end;
}

const struct node *ipt_image_clear(const struct edit *e, const struct node *t, uint64_t start,
				   uint64_t end)
{
	const struct node *before, *mid, *after, *x;
	const struct ipt_map *first, *last, *head = NULL, *tail = NULL;

	if (!ipt_image_overlaps(t, start, end))
		return t;
	note_dirty(e, start, end);
	split(e, t, start, &before, &mid);
	split(e, mid, end, &mid, &after);
	first = last_map(before);
	if (first && first->end > start) {
		split(e, before, first->start, &before, &x);
		head = cut(e, first, first->start, start);
		if (first->end > end)
			tail = cut(e, first, end, first->end);
	}
	last = last_map(mid);
	if (last && last->end > end)
		tail = cut(e, last, end, last->end);
	if (head)
		before = merge(e, before, one(e, head));
	if (tail)
		after = merge(e, one(e, tail), after);
	return merge(e, before, after);
}

const struct node *ipt_image_put(const struct edit *e, const struct node *t,
				 const struct ipt_map *m)
{
	const struct node *a, *b;

	t = ipt_image_clear(e, t, m->start, m->end);
	split(e, t, m->start, &a, &b);
	return merge(e, merge(e, a, one(e, m)), b);
}

const struct ipt_map *ipt_image_next(const struct node *t, uint64_t va)
{
	const struct ipt_map *best = NULL;

	while (t) {
		if (t->map->end > va) {
			best = t->map;
			t = t->left;
		} else {
			t = t->right;
		}
	}
	return best;
}

const struct ipt_map *ipt_image_find(const struct node *t, uint64_t va)
{
	const struct ipt_map *m = ipt_image_next(t, va);

	return m && m->start <= va ? m : NULL;
}

bool ipt_image_overlaps(const struct node *t, uint64_t start, uint64_t end)
{
	const struct ipt_map *m = ipt_image_next(t, start);

	return m && m->start < end;
}
