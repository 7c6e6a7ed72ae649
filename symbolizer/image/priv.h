/* SPDX-License-Identifier: MIT */
/*
 * image, private: persistent maps of an address space.
 *
 * An address space is a treap keyed by start. A change copies only the path to it, so that every
 * former state stays whole and costs O(log n) memory a change. A program with 100,000 changes of
 * its code needs about 100 MB; no array of maps is copied.
 */
#ifndef IPT_IMAGE_PRIV_H
#define IPT_IMAGE_PRIV_H

#include "image/image.h"

struct arena_block;
struct arena { /* memory that is freed all at once */
	struct arena_block *head;
};
void *ipt_image_alloc(struct arena *a, size_t n);
void ipt_image_arena_fini(struct arena *a);

struct node { /* immutable once linked */
	const struct ipt_map *map;
	const struct node *left, *right;
	uint64_t prio;
};

typedef IPT_VEC(struct ipt_sb_range) range_vec; /* start and end only */

struct edit { /* where changes take their memory and ids from */
	struct arena *arena;
	uint32_t *next_id; /* shared by all threads: taken atomically */
	range_vec *dirty;  /* may be NULL: ranges of which code was taken away */
};

/* No map left in [start, end): boundary maps are cut. */
const struct node *ipt_image_clear(const struct edit *e, const struct node *t, uint64_t start,
				   uint64_t end);
/* Put @m, after clearing its range. */
const struct node *ipt_image_put(const struct edit *e, const struct node *t,
				 const struct ipt_map *m);
const struct ipt_map *ipt_image_find(const struct node *t, uint64_t va);
/* The map with the lowest end beyond @va, or NULL. */
const struct ipt_map *ipt_image_next(const struct node *t, uint64_t va);
bool ipt_image_overlaps(const struct node *t, uint64_t start, uint64_t end);

/* What one sideband record does to an address space. */
struct change {
	uint64_t seq;
	const struct ipt_rec *rec;
	const struct ipt_map *map[2]; /* MAP, CODE: a part with bytes and one without */
	uint64_t start, end;
};

struct space { /* an address space from its begin to exec or exit */
	uint32_t id;
	const struct node *root; /* while the records are read: its state so far */
	IPT_VEC(struct change) changes;
};

struct tenure { /* a process has a space from a record on */
	uint64_t seq;
	struct space *space;
	const struct ipt_rec *exec; /* the EXEC record that began it, or NULL */
};

struct proc {
	IPT_VEC(struct tenure) tenures;
};

struct birth { /* what a thread begins with */
	uint64_t seq;
	const struct node *root;
};

struct ipt_images {
	struct ipt_store *st; /* lent */
	struct arena arena;
	uint32_t next_id;
	struct ipt_u64map procs; /* pid: struct proc */
	IPT_VEC(struct space *) spaces;
	IPT_VEC(struct birth) births; /* by seq */
};

const struct node *ipt_image_apply(const struct edit *e, const struct node *t,
				   const struct change *c);
/* The tenure of @pid that holds at @seq, as an index; -1: none. */
long ipt_image_tenure(const struct proc *p, uint64_t seq);

#endif
