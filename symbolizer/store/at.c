/* SPDX-License-Identifier: MIT */
/* AT records: where threads that a change's own record does not name meet it. Sorted once, so that
 * a search costs the logarithm of their number, whatever a trace holds. */
#include <stdlib.h>

#include "internal.h"

uint64_t ipt_rec_at_seq(const struct ipt_rec *r)
{
	struct ipt_sb_at at;

	if (r->h.type != IPT_SB_AT || r->n < sizeof(at))
		return 0;
	memcpy(&at, r->payload, sizeof(at));
	return at.seq;
}

bool ipt_sb_changes_code(unsigned type)
{
	return type == IPT_SB_MAP || type == IPT_SB_UNMAP || type == IPT_SB_PROTECT ||
	       type == IPT_SB_CODE;
}

static int compare(const struct ipt_rec *r, uint32_t tid, uint32_t gen, uint64_t seq)
{
	uint64_t own = ipt_rec_at_seq(r);

	if (r->h.tid != tid)
		return r->h.tid < tid ? -1 : 1;
	if (r->h.gen != gen)
		return r->h.gen < gen ? -1 : 1;
	return own < seq ? -1 : own > seq;
}

static int by_thread(const void *a, const void *b)
{
	const struct ipt_rec *x = *(const struct ipt_rec *const *)a;
	const struct ipt_rec *y = *(const struct ipt_rec *const *)b;
	int d = compare(x, y->h.tid, y->h.gen, ipt_rec_at_seq(y));

	return d ? d : x->h.seq < y->h.seq ? -1 : x->h.seq > y->h.seq;
}

void ipt_store_sort_at(struct ipt_store *st)
{
	for (size_t i = 0; i < st->recs.n; i++) {
		const struct ipt_rec *r = &st->recs.v[i];
		uint64_t seq = ipt_rec_at_seq(r);

		/* A change that comes later cannot have been met. */
		if (seq && seq < r->h.seq)
			*ipt_vec_push(&st->at) = r;
	}
	if (st->at.n)
		qsort(st->at.v, st->at.n, sizeof(*st->at.v), by_thread);
}

const struct ipt_rec *ipt_store_at(const struct ipt_store *st, uint64_t seq, uint32_t tid,
				   uint32_t gen)
{
	size_t lo = 0, hi = st->at.n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (compare(st->at.v[mid], tid, gen, seq) < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < st->at.n && !compare(st->at.v[lo], tid, gen, seq) ? st->at.v[lo] : NULL;
}
