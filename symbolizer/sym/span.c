/* SPDX-License-Identifier: MIT */
/* span: nested address ranges to a flat list that a binary search reads. */
#include <stdlib.h>

#include "sym/sym_priv.h"

static int span_cmp(const void *pa, const void *pb)
{
	const struct ipt_span *a = pa, *b = pb;

	if (a->lo != b->lo)
		return a->lo < b->lo ? -1 : 1;
	if (a->hi != b->hi)
		return a->hi > b->hi ? -1 : 1;
	return a->val < b->val ? -1 : a->val > b->val;
}

static void seg_emit(struct ipt_segs *out, uint64_t lo, uint32_t val)
{
	struct ipt_seg *g;

	if (out->n && out->v[out->n - 1].lo == lo) {
		out->v[out->n - 1].val = val;
		return;
	}
	g = ipt_vec_push(out);
	g->lo = lo;
	g->val = val;
}

/* Close all open spans that end at or before @to. */
static void span_close(struct ipt_spans *open, uint64_t to, struct ipt_segs *out)
{
	while (open->n && open->v[open->n - 1].hi <= to) {
		uint64_t at = open->v[open->n - 1].hi;

		while (open->n && open->v[open->n - 1].hi <= at)
			open->n--;
		seg_emit(out, at, open->n ? open->v[open->n - 1].val : IPT_SEG_NONE);
	}
}

void ipt_span_flatten(struct ipt_spans *spans, struct ipt_segs *out)
{
	struct ipt_spans open = {0};

	if (spans->n)
		qsort(spans->v, spans->n, sizeof(*spans->v), span_cmp);
	for (size_t i = 0; i < spans->n; i++) {
		const struct ipt_span *s = &spans->v[i];

		if (s->lo >= s->hi)
			continue;
		span_close(&open, s->lo, out);
		seg_emit(out, s->lo, s->val);
		*ipt_vec_push(&open) = *s;
	}
	span_close(&open, UINT64_MAX, out);
	ipt_vec_fini(&open);
}

size_t ipt_seg_find(const struct ipt_segs *s, uint64_t va)
{
	size_t lo = 0, hi = s->n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (s->v[mid].lo <= va)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}
