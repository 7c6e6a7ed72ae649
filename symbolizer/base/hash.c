/* SPDX-License-Identifier: MIT */
/* Open-addressing table keyed by u64, linear probing, backward-shift deletion. */
#include "base/base.h"

#include <stdlib.h>

struct ipt_u64slot {
	uint64_t key;
	void *value; /* NULL: free slot */
};

static size_t slot_of(const struct ipt_u64map *m, uint64_t key)
{
	key ^= key >> 32;
	key *= 0x9e3779b97f4a7c15ull;
	return (size_t)(key >> 20) & (m->cap - 1);
}

static struct ipt_u64slot *find(const struct ipt_u64map *m, uint64_t key)
{
	size_t i = slot_of(m, key);

	while (m->slots[i].value && m->slots[i].key != key)
		i = (i + 1) & (m->cap - 1);
	return &m->slots[i];
}

static void grow(struct ipt_u64map *m)
{
	struct ipt_u64map old = *m;

	m->cap = old.cap ? old.cap * 2 : 16;
	m->slots = ipt_xcalloc(m->cap, sizeof(*m->slots));
	for (size_t i = 0; i < old.cap; i++) {
		if (old.slots[i].value)
			*find(m, old.slots[i].key) = old.slots[i];
	}
	free(old.slots);
}

void ipt_u64map_fini(struct ipt_u64map *m)
{
	free(m->slots);
	*m = (struct ipt_u64map){0};
}

void *ipt_u64map_get(const struct ipt_u64map *m, uint64_t key)
{
	return m->cap ? find(m, key)->value : NULL;
}

void *ipt_u64map_put(struct ipt_u64map *m, uint64_t key, void *value)
{
	struct ipt_u64slot *s;
	void *old;

	ipt_assert(value, "NULL value in a table");
	if (m->n * 4 >= m->cap * 3)
		grow(m);
	s = find(m, key);
	old = s->value;
	s->key = key;
	s->value = value;
	m->n += !old;
	return old;
}

void *ipt_u64map_del(struct ipt_u64map *m, uint64_t key)
{
	struct ipt_u64slot *s = m->cap ? find(m, key) : NULL;
	size_t hole, i;
	void *old;

	if (!s || !s->value)
		return NULL;
	old = s->value;
	hole = i = (size_t)(s - m->slots);
	for (;;) {
		size_t home;

		i = (i + 1) & (m->cap - 1);
		if (!m->slots[i].value)
			break;
		home = slot_of(m, m->slots[i].key);
		/* Movable unless its home lies cyclically in (hole, i]. */
		if (((i - home) & (m->cap - 1)) >= ((i - hole) & (m->cap - 1))) {
			m->slots[hole] = m->slots[i];
			hole = i;
		}
	}
	m->slots[hole].value = NULL;
	m->n--;
	return old;
}

bool ipt_u64map_next(const struct ipt_u64map *m, size_t *it, uint64_t *key, void **value)
{
	for (; *it < m->cap; ++*it) {
		if (m->slots[*it].value) {
			*key = m->slots[*it].key;
			*value = m->slots[(*it)++].value;
			return true;
		}
	}
	return false;
}
