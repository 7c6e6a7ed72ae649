/* SPDX-License-Identifier: MIT */
/*
 * The translations of an address space: found by address, linked to each other, and taken out when
 * their code changes. Threads run in them meanwhile: what they may read at any time is changed by
 * single aligned stores only. Nothing that a record may name is ever freed before the space.
 */
#include "priv.h"

#include <stdlib.h>

#define PAGE         4096u
#define AT_ONCE      1   /* of them before the answer: an answer costs as much as some of them */
#define AHEAD_BUDGET 48u /* traces made ahead after each one that was wanted */
#define NO_HEAD      0x8000dead00000000ull /* no target is this */
#define READY_STEP   (256u << 10)
#define REACH        0x7f000000ull

struct page_traces {
	IPT_VEC(uint32_t) v;
};

uint64_t ipt_xl_body_va(const struct ipt_xl *x, const struct trace *t)
{
	return x->clusters[t->cluster].va + t->body;
}

/* Most addresses asked for are no heads: their bit says so. */
static void *head_of(const struct ipt_xl *x, uint64_t va)
{
	if (!(x->head_bits[head_bit(va) / 64] >> head_bit(va) % 64 & 1))
		return NULL;
	return ipt_u64map_get(&x->heads, va);
}

bool ipt_xl_is_head(const struct ipt_xl *x, uint64_t va)
{
	return head_of(x, va);
}

struct trace *ipt_xl_find(const struct ipt_xl *x, uint64_t head, uint32_t *index)
{
	void *v = head_of(x, head);

	if (!v)
		return NULL;
	*index = (uint32_t)(uintptr_t)v - 1;
	return trace_at(x, *index);
}

/* --- links --- */

static void set_jump(struct ipt_xl *x, const struct xexit *e, uint64_t to)
{
	const struct cluster *cl = &x->clusters[trace_at(x, e->trace)->cluster];
	uint64_t from = cl->va + e->patch + 4;
	void *word = cl->mem + e->patch;
	int32_t rel;

	if (e->far)
		__atomic_store_n((uint64_t *)word, to, __ATOMIC_RELEASE);
	else if (ipt_xl_reaches(from, to, &rel))
		__atomic_store_n((int32_t *)word, rel, __ATOMIC_RELEASE);
}

static void want(struct ipt_xl *x, uint32_t exit)
{
	struct xexit *e = exit_at(x, exit);
	void *old = ipt_u64map_get(&x->wanted, e->target);

	e->next_in = (uint32_t)(uintptr_t)old;
	ipt_u64map_put(&x->wanted, e->target, (void *)(uintptr_t)(exit + 1));
}

void ipt_xl_link(struct ipt_xl *x, uint32_t exit, uint32_t index)
{
	struct xexit *e = exit_at(x, exit);
	struct trace *t = trace_at(x, index);

	e->linked = index + 1;
	e->next_in = t->in;
	t->in = exit + 1;
	set_jump(x, e, ipt_xl_body_va(x, t));
}

static void unlink_all(struct ipt_xl *x, struct trace *t)
{
	uint32_t next;

	for (uint32_t i = t->in; i; i = next) {
		struct xexit *e = exit_at(x, i - 1);
		const struct trace *from = trace_at(x, e->trace);

		next = e->next_in;
		e->linked = 0;
		set_jump(x, e, x->clusters[from->cluster].va + e->miss);
		want(x, i - 1);
	}
	t->in = 0;
}

/* --- the tables that threads look into --- */

static uint32_t hash_of(uint64_t va)
{
	return (uint32_t)((va + (va >> LOW_HASH_FOLD)) >> LOW_HASH_SHIFT) &
	       ((1u << LOW_HASH_BITS) - 1);
}

/* Its place, or a free one; NULL: the table is full (of what the program may have written there).
 */
static uint64_t *hash_slot(struct ipt_xl *x, uint64_t head)
{
	uint32_t i = hash_of(head);

	for (uint32_t n = 0; n < 1u << LOW_HASH_BITS; n++) {
		uint64_t *s = (uint64_t *)(void *)(x->low + LOW_HASH + 16ull * i);

		if (s[0] == head || !s[0])
			return s;
		i = (i + 1) & ((1u << LOW_HASH_BITS) - 1);
	}
	x->full = true;
	return NULL;
}

static void publish(struct ipt_xl *x, const struct trace *t)
{
	uint64_t *s = hash_slot(x, t->head), va = x->clusters[t->cluster].va + t->code;
	uint64_t *quick = (uint64_t *)(void *)(x->low + LOW_CODE) + (t->head & 0xffff);

	if (!s)
		return;
	if (!s[0] && ++x->n_hashed > (1u << LOW_HASH_BITS) * 3 / 4)
		x->full = true;
	__atomic_store_n(&s[1], va, __ATOMIC_RELEASE);
	__atomic_store_n(&s[0], t->head, __ATOMIC_RELEASE);
	if (__atomic_load_n(quick, __ATOMIC_RELAXED) == ipt_xl_stub_va(x, ipt_xl_stub_empty))
		__atomic_store_n(quick, va, __ATOMIC_RELEASE);
}

/* --- traces by page --- */

static void index_pages(struct ipt_xl *x, uint32_t index)
{
	const struct trace *t = trace_at(x, index);
	uint64_t last = UINT64_MAX;

	for (unsigned int i = 0; i < t->n_items; i++) {
		uint64_t va = t->head + (uint64_t)(int64_t)t->items[i].delta;

		for (uint64_t p = va / PAGE; p <= (va + t->items[i].len - 1) / PAGE; p++) {
			struct page_traces *pt = ipt_u64map_get(&x->pages, p);
			uint32_t *slot;

			if (p == last)
				continue;
			last = p;
			if (!pt) {
				pt = ipt_xcalloc(1, sizeof(*pt));
				ipt_u64map_put(&x->pages, p, pt);
			}
			slot = ipt_vec_push(&pt->v);
			*slot = index;
		}
	}
}

void ipt_xl_add_head(struct ipt_xl *x, uint32_t index)
{
	const struct trace *t = trace_at(x, index);
	uint32_t next;

	ipt_u64map_put(&x->heads, t->head, (void *)(uintptr_t)(index + 1));
	x->head_bits[head_bit(t->head) / 64] |= 1ull << head_bit(t->head) % 64;
	index_pages(x, index);
	publish(x, t);
	for (uint32_t i = (uint32_t)(uintptr_t)ipt_u64map_del(&x->wanted, t->head); i; i = next) {
		next = exit_at(x, i - 1)->next_in;
		ipt_xl_link(x, i - 1, index);
	}
	for (unsigned int k = 0; k < t->n_exits; k++) {
		const struct xexit *e = exit_at(x, t->first_exit + k);
		uint32_t to;

		if (!e->patch)
			continue;
		if (ipt_xl_find(x, e->target, &to))
			ipt_xl_link(x, t->first_exit + k, to);
		else
			want(x, t->first_exit + k);
	}
}

/* No thread comes to @t any more; one inside goes on to its end. */
static void kill_trace(struct ipt_xl *x, uint32_t index)
{
	struct trace *t = trace_at(x, index);
	uint64_t *s;

	if (t->dead)
		return;
	MARK(t->dead, true);
	if (ipt_u64map_get(&x->heads, t->head) == (void *)(uintptr_t)(index + 1))
		ipt_u64map_del(&x->heads, t->head);
	unlink_all(x, t);
	s = hash_slot(x, t->head);
	if (s && s[0] == t->head)
		__atomic_store_n(&s[1], 0, __ATOMIC_RELEASE);
	__atomic_store_n((uint64_t *)(void *)(x->clusters[t->cluster].mem + t->imm), -NO_HEAD,
			 __ATOMIC_RELEASE);
}

void ipt_xl_invalidate(struct ipt_xl *x, uint64_t start, uint64_t end)
{
	uint64_t first = start / PAGE, last = (end + PAGE - 1) / PAGE;
	IPT_VEC(uint64_t) found = {0};
	size_t it = 0;
	uint64_t key;
	void *v;

	ipt_xl_forget(x, start, end);
	while (ipt_u64map_next(&x->pages, &it, &key, &v)) {
		if (key >= first && key < last)
			*(uint64_t *)ipt_vec_push(&found) = key;
	}
	for (size_t k = 0; k < found.n; k++) {
		struct page_traces *pt = ipt_u64map_del(&x->pages, found.v[k]);

		for (size_t i = 0; i < pt->v.n; i++)
			kill_trace(x, pt->v.v[i]);
		ipt_vec_fini(&pt->v);
		free(pt);
	}
	ipt_vec_fini(&found);
}

/* --- making them --- */

static uint64_t distance(const struct cluster *cl, uint64_t va)
{
	uint64_t end = cl->va + IPT_XL_CLUSTER_BYTES;

	if (va < cl->va)
		return end - va;
	return va > end ? va - cl->va : IPT_XL_CLUSTER_BYTES;
}

int ipt_xl_cluster_for(const struct ipt_xl *x, uint64_t va)
{
	for (unsigned int i = 0; i < x->n_clusters; i++) {
		if (distance(&x->clusters[i], va) < REACH &&
		    x->clusters[i].used + 2 * BODY_MAX < IPT_XL_CLUSTER_BYTES)
			return (int)i;
	}
	return -1;
}

bool ipt_xl_near(const struct ipt_xl *x, uint64_t va)
{
	return ipt_xl_cluster_for(x, va) >= 0;
}

static void make_ready(struct cluster *cl)
{
	if (cl->used + BODY_MAX <= cl->ready || cl->ready + READY_STEP > IPT_XL_CLUSTER_BYTES)
		return;
	ipt_xl_touch(cl->mem + cl->ready, READY_STEP);
	cl->ready += READY_STEP;
}

static bool translate(struct ipt_xl *x, uint64_t head, bool hot)
{
	int cluster = ipt_xl_cluster_for(x, head);
	struct path path;
	uint32_t index = x->n_traces, old;
	struct trace **chunk = &x->trace_chunks[index / TRACE_CHUNK];

	if (cluster < 0 || index / TRACE_CHUNK + 1 >= MAX_CHUNKS ||
	    x->n_exits / EXIT_CHUNK + 1 >= MAX_CHUNKS || !ipt_xl_form(x, &path, head, hot))
		return false;
	if (!*chunk) {
		*chunk = ipt_xcalloc(TRACE_CHUNK, sizeof(**chunk));
		x->head_chunks[index / TRACE_CHUNK] = ipt_xcalloc(TRACE_CHUNK, sizeof(uint64_t));
	}
	x->head_chunks[index / TRACE_CHUNK][index % TRACE_CHUNK] = head;
	make_ready(&x->clusters[cluster]);
	ipt_xl_build(x, index, &path, (unsigned int)cluster);
	__atomic_store_n(&x->n_traces, index + 1, __ATOMIC_RELEASE);
	__atomic_store_n(&x->n_exits_whole, x->n_exits, __ATOMIC_RELEASE);
	if (ipt_xl_find(x, head, &old))
		kill_trace(x, old);
	ipt_xl_add_head(x, index);
	return true;
}

/* --- what is likely to be wanted next is made while nothing else is to be done --- */

static void add_ahead(struct ipt_xl *x, uint64_t va)
{
	if (va && !ipt_xl_is_head(x, va))
		x->ahead[x->n_ahead++ % AHEAD_MAX] = va;
}

/* Where the calls on a trace return to, its ways out, last the end of its path: the likeliest. */
static void add_ways(struct ipt_xl *x, const struct trace *t)
{
	for (unsigned int k = 0; k < t->n_items; k++) {
		if (t->items[k].event == EV_CALL)
			add_ahead(x,
				  t->head + (uint64_t)(int64_t)t->items[k].delta + t->items[k].len);
	}
	for (unsigned int k = 0; k < t->n_exits; k++) {
		const struct xexit *e = exit_at(x, t->first_exit + k);

		if (e->patch)
			add_ahead(x, e->target);
		add_ahead(x, e->w.way.ret);
	}
}

bool ipt_xl_ahead(struct ipt_xl *x)
{
	uint64_t va;
	uint32_t index;

	if (!x->n_ahead || !x->ahead_left)
		return false;
	va = x->ahead[--x->n_ahead % AHEAD_MAX];
	if (!va || ipt_xl_find(x, va, &index)) {
		x->ahead[x->n_ahead % AHEAD_MAX] = 0;
		return true;
	}
	x->ahead[x->n_ahead % AHEAD_MAX] = 0;
	x->ahead_left--;
	x->peek = true;
	if (translate(x, va, false))
		add_ways(x, ipt_xl_find(x, va, &index));
	x->peek = false;
	return true;
}

uint64_t ipt_xl_enter(struct ipt_xl *x, uint64_t head)
{
	const struct trace *t;
	uint32_t index;

	t = ipt_xl_find(x, head, &index);
	if (!t && translate(x, head, false)) {
		t = ipt_xl_find(x, head, &index);
		add_ways(x, t);
		x->ahead_left = AHEAD_BUDGET;
		for (int i = 0; i < AT_ONCE && ipt_xl_ahead(x); i++)
			;
	}
	return t ? ipt_xl_body_va(x, t) : 0;
}

/* --- places --- */

int ipt_xl_cluster_of(const struct ipt_xl *x, uint64_t va)
{
	for (unsigned int i = 0; i < x->n_clusters; i++) {
		if (va - x->clusters[i].va < IPT_XL_CLUSTER_BYTES)
			return (int)i;
	}
	return -1;
}

struct trace *ipt_xl_trace_of(const struct ipt_xl *x, uint64_t va, uint32_t *index)
{
	int c = ipt_xl_cluster_of(x, va);
	const struct cluster *cl;
	size_t lo = 0, hi;

	if (c < 0)
		return NULL;
	cl = &x->clusters[c];
	hi = cl->traces.n;
	while (lo < hi) {
		size_t mid = (lo + hi) / 2;

		if (cl->va + trace_at(x, cl->traces.v[mid])->code <= va)
			lo = mid + 1;
		else
			hi = mid;
	}
	if (!lo)
		return NULL;
	*index = cl->traces.v[lo - 1];
	return va < cl->va + trace_at(x, *index)->code + trace_at(x, *index)->size
		       ? trace_at(x, *index)
		       : NULL;
}

uint32_t ipt_xl_bump(struct ipt_xl *x)
{
	return ++x->epoch;
}

bool ipt_xl_full(const struct ipt_xl *x)
{
	return x->full;
}

/* --- forming anew --- */

void ipt_xl_warm(struct ipt_xl *x, uint32_t index)
{
	struct trace *t = trace_at(x, index);
	uint32_t n;

	if (SEEN(t->queued) || SEEN(t->dead) || t->checks ||
	    SEEN(t->level) == (t->out ? 1 : HOT_LEVELS))
		return;
	MARK(t->queued, true);
	n = __atomic_fetch_add(&x->n_hot_in, 1, __ATOMIC_ACQ_REL);
	__atomic_store_n(&x->hot[n % HOT_QUEUE], index, __ATOMIC_RELEASE);
}

/* Does the path end at an indirect branch though that goes to one place mostly? */
static bool could_go_on(const struct trace *t, const struct xexit *end)
{
	uint64_t to = ipt_xl_likely(end);

	return end->kind != EXIT_DIRECT && to && t->n_items < MAX_ITEMS / 2 &&
	       ipt_xl_in_reach(t->head, to);
}

/* Does nearly all that enters it stay on its path to the end, as long as that can be? */
static bool well_formed(const struct ipt_xl *x, const struct trace *t)
{
	const struct xexit *end = NULL;
	uint64_t all = 0;

	for (unsigned int k = 0; k < t->n_exits; k++) {
		const struct xexit *e = exit_at(x, t->first_exit + k);

		all += SEEN(e->count);
		if (e->w.n_items == t->n_items && (!end || SEEN(e->count) > SEEN(end->count)))
			end = e;
	}
	return t->level && end && SEEN(end->count) > all / 2 && !could_go_on(t, end);
}

bool ipt_xl_improve(struct ipt_xl *x)
{
	uint32_t in = __atomic_load_n(&x->n_hot_in, __ATOMIC_ACQUIRE);
	bool any = in != x->n_hot_out;

	if (in - x->n_hot_out > HOT_QUEUE)
		x->n_hot_out = in - HOT_QUEUE; /* overwritten: they come again */
	for (; x->n_hot_out != in; x->n_hot_out++) {
		uint32_t index = SEEN(x->hot[x->n_hot_out % HOT_QUEUE]), now;
		struct trace *t = trace_at(x, index);
		unsigned int level = t->level + 1u;

		MARK(t->queued, false);
		if (t->dead || well_formed(x, t) || ipt_xl_full(x))
			continue;
		x->peek = true;
		if (translate(x, t->head, true))
			MARK(ipt_xl_find(x, t->head, &now)->level, (uint8_t)level);
		x->peek = false;
	}
	return any;
}
