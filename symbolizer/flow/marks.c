/* SPDX-License-Identifier: MIT */
/* What the sideband and our packet walk tell of a thread, in the order of its stream. */
#include <stdlib.h>

#include "flow/priv.h"

static struct mark *add(struct marks *m, uint64_t off, enum ipt_ev_kind kind)
{
	struct mark *k = ipt_vec_push(&m->v);

	k->off = off;
	k->order = m->v.n;
	k->ev.kind = kind;
	k->ev.off = off;
	return k;
}

static void add_gap(struct marks *m, const struct ipt_rec *r)
{
	struct ipt_sb_gap g;
	struct mark *k;

	if (r->n < sizeof(g))
		return;
	memcpy(&g, r->payload, sizeof(g));
	k = add(m, r->h.pt_off, IPT_EV_GAP);
	k->ev.how = (uint8_t)g.cause;
	k->ev.gap.text = ipt_rec_text(r, sizeof(g));
	k->ev.gap.resume_off = r->h.pt_off;
	k->ev.gap.lost_bytes = g.flags ? g.lost_bytes : UINT64_MAX;
}

static void add_rec(struct marks *m, const struct ipt_rec *r)
{
	static const struct {
		uint16_t type;
		uint8_t kind;
		uint16_t min; /* bytes that a view may read without asking */
	} kinds[] = {
		{IPT_SB_SIGNAL, IPT_EV_SIGNAL, sizeof(struct ipt_sb_signal)},
		{IPT_SB_SYSCALL, IPT_EV_SYSCALL, sizeof(struct ipt_sb_syscall)},
		{IPT_SB_MARK, IPT_EV_MARK, 0},
		{IPT_SB_PROBE, IPT_EV_PROBE, 0},
		{IPT_SB_STACK, IPT_EV_STACK, sizeof(struct ipt_sb_stack)},
		{IPT_SB_EXEC, IPT_EV_EXEC, sizeof(struct ipt_sb_exec)},
	};

	if (r->h.type == IPT_SB_GAP) {
		add_gap(m, r);
		return;
	}
	if (r->h.type == IPT_SB_THREAD_START)
		m->start = r;
	if (r->h.type == IPT_SB_THREAD_EXIT)
		m->exit = r;
	for (size_t i = 0; i < IPT_ARRAY_SIZE(kinds); i++) {
		if (kinds[i].type == r->h.type && r->n >= kinds[i].min)
			add(m, r->h.pt_off, kinds[i].kind)->ev.rec = r;
	}
}

static int by_offset(const void *a, const void *b)
{
	const struct mark *x = a, *y = b;

	if (x->off != y->off)
		return x->off < y->off ? -1 : 1;
	return x->order < y->order ? -1 : x->order > y->order;
}

void ipt_flow_marks_init(struct marks *m, const struct ipt_store *st,
			 const struct ipt_thread_info *t, const struct scan *s)
{
	size_t n = ipt_store_n_recs(st);

	for (size_t i = 0; i < n; i++) {
		const struct ipt_rec *r = ipt_store_rec(st, i);

		if (r->h.tid == t->tid && r->h.gen == t->gen)
			add_rec(m, r);
	}
	for (size_t i = 0; i < s->notes.n; i++)
		add(m, s->notes.v[i].off, IPT_EV_NOTE)->ev.text = s->notes.v[i].text;
	if (m->v.n)
		qsort(m->v.v, m->v.n, sizeof(*m->v.v), by_offset);
}

void ipt_flow_marks_fini(struct marks *m)
{
	ipt_vec_fini(&m->v);
}
