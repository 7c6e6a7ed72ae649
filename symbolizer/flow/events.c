/* SPDX-License-Identifier: MIT */
/*
 * From a decoder's pieces to events. Both decoders make the same events, so that one can take over
 * from the other in the middle of a stretch: the second makes the stretch again and what was
 * delivered already is skipped by count. The events since tracing was last switched on are held
 * back, because a block decoder finds an error only after it listed instructions that never ran.
 */
#include <stdlib.h>

#include "flow/priv.h"

#define HOLD_MAX  8192 /* events held */
#define HOLD_KEEP 1024 /* of them kept when the limit is reached */
#define RUN_MAX   (1u << 20)

static void send(struct out *o)
{
	if (o->n && !o->rc) {
		int rc = o->fn(o->arg, o->batch, o->n);

		if (rc < 0)
			o->rc = rc;
	}
	o->n = 0;
}

static void put(struct out *o, const struct ipt_ev *ev)
{
	if (o->n == IPT_ARRAY_SIZE(o->batch))
		send(o);
	o->batch[o->n++] = *ev;
	switch (ev->kind) {
	case IPT_EV_RUN:
		o->stats.runs++;
		o->stats.insns += ev->n;
		break;
	case IPT_EV_GAP: o->stats.gaps++; break;
	case IPT_EV_NOTE: o->stats.notes++; break;
	default: break;
	}
}

void ipt_flow_out_flush(struct out *o)
{
	send(o);
}

void ipt_flow_out_marks(struct out *o, uint64_t upto)
{
	while (o->marks.next < o->marks.v.n && o->marks.v.v[o->marks.next].off <= upto)
		put(o, &o->marks.v.v[o->marks.next++].ev);
}

/* The arbiter may tell less of a damaged stretch than was delivered: its clock is then behind. */
static bool goes_back(struct out *o, const struct ipt_ev *ev)
{
	if (ev->kind != IPT_EV_TIME)
		return false;
	if (o->timed && ev->time.tsc <= o->last_tsc)
		return true;
	o->timed = true;
	o->last_tsc = ev->time.tsc;
	return false;
}

void ipt_flow_out(struct out *o, const struct pev *pe)
{
	ipt_flow_out_marks(o, pe->at);
	if (goes_back(o, &pe->ev))
		return;
	if (pe->epoch != ipt_code_current(o->code)) {
		struct ipt_ev map = {.kind = IPT_EV_MAP, .off = pe->at};

		send(o); /* events before speak of the epoch before */
		ipt_code_seek(o->code, pe->epoch);
		put(o, &map);
	}
	put(o, &pe->ev);
}

static void deliver(struct source *s, size_t n)
{
	if (!n)
		return;
	for (size_t i = 0; i < n; i++)
		ipt_flow_out(s->out, &s->held.v[i]);
	s->delivered += n;
	s->held.n -= n;
	memmove(s->held.v, s->held.v + n, s->held.n * sizeof(*s->held.v));
}

static void hold(struct source *s, const struct pev *pe)
{
	if (s->skip) {
		s->skip--;
		s->delivered++;
		return;
	}
	if (pe->ev.kind == IPT_EV_ENABLE && s->held.n)
		deliver(s, s->held.n);
	else if (s->held.n >= HOLD_MAX)
		deliver(s, s->held.n - HOLD_KEEP);
	*ipt_vec_push(&s->held) = *pe;
}

static void close_run(struct source *s)
{
	static const uint8_t branch[] = {
		[IPT_IC_CALL] = IPT_EV_CALL, [IPT_IC_CALL_IND] = IPT_EV_CALL,
		[IPT_IC_RET] = IPT_EV_RET,   [IPT_IC_JMP_IND] = IPT_EV_JUMP,
		[IPT_IC_PTWRITE] = 0,
	};
	uint8_t kind;

	if (!s->run_open)
		return;
	s->run_open = false;
	hold(s, &s->run);
	kind = branch[s->run.ev.iclass];
	if (!kind)
		return;
	s->branch = s->run;
	memset(&s->branch.ev, 0, sizeof(s->branch.ev));
	s->branch.ev.kind = kind;
	s->branch.ev.off = s->run.ev.off;
	s->branch.ev.br.from = s->run_last;
	if (kind == IPT_EV_CALL)
		s->branch.ev.br.ret_to = s->run.ev.run.end;
	s->branch_open = true;
}

static void close_branch(struct source *s, uint64_t to)
{
	if (!s->branch_open)
		return;
	s->branch_open = false;
	s->branch.ev.br.to = to;
	hold(s, &s->branch);
}

void ipt_flow_begin(struct source *s)
{
	s->delivered = s->skip = 0;
	s->held.n = 0;
	s->run_open = s->branch_open = false;
	s->last_ip = 0;
}

void ipt_flow_again(struct source *s, const struct clock *c)
{
	uint64_t skip = s->delivered;

	ipt_flow_begin(s);
	s->skip = skip;
	s->clock = *c;
}

static bool joins(const struct source *s, const struct piece *p)
{
	if (!s->run_open || s->run.ev.run.end != p->ip || s->run.ev.how != p->mode ||
	    s->run.epoch != s->epoch || s->run.ev.n + (uint64_t)p->n > RUN_MAX)
		return false;
	return s->run.ev.iclass == IPT_IC_OTHER || s->run.ev.iclass == IPT_IC_COND ||
	       s->run.ev.iclass == IPT_IC_JMP || s->run.ev.iclass == IPT_IC_PTWRITE;
}

void ipt_flow_piece(struct source *s, const struct piece *p)
{
	if (!joins(s, p)) {
		close_run(s);
		close_branch(s, p->ip);
		memset(&s->run, 0, sizeof(s->run));
		s->run.ev.kind = IPT_EV_RUN;
		s->run.ev.how = p->mode;
		s->run.ev.run.ip = p->ip;
		s->run.at = s->at;
		s->run.epoch = s->epoch;
		s->run_open = true;
	}
	s->run.ev.n += p->n;
	s->run.ev.run.end = p->end;
	s->run.ev.iclass = p->iclass;
	s->run.ev.last_len = (uint8_t)(p->end - p->last);
	s->run.ev.off = s->at;
	s->run_last = s->last_ip = p->last;
}

void ipt_flow_time(struct source *s, uint64_t tsc)
{
	struct pev pe = {.at = s->at, .epoch = s->epoch};

	if (s->no_time || !ipt_flow_clock_tick(&s->clock, tsc, &pe.ev))
		return;
	close_run(s);
	pe.ev.off = s->at;
	/* A call's target is not known yet: the clock is told before the call. */
	hold(s, &pe);
}

void ipt_flow_event(struct source *s, const struct ipt_ev *ev, uint64_t next_ip)
{
	struct pev pe = {.ev = *ev, .at = s->at, .epoch = s->epoch};

	close_run(s);
	close_branch(s, next_ip);
	pe.ev.off = s->at;
	hold(s, &pe);
}

void ipt_flow_release(struct source *s)
{
	close_run(s);
	s->branch_open = false;
	deliver(s, s->held.n);
}

void ipt_flow_source_fini(struct source *s)
{
	ipt_vec_fini(&s->held);
}
