/* SPDX-License-Identifier: MIT */
/*
 * The call stack of a thread: takes its events in order and hands them to the rules in land.c.
 *
 * After a GAP nothing is known of the frames that were open: all end as LOST, and the next
 * instruction begins a new first frame. Returns to callers from before the gap then come as BELOW.
 */
#include "stack/stack.h"

#include <stdlib.h>

#include "stack/stack_priv.h"

struct ipt_stack *ipt_stack_new(struct ipt_sym *sym, const struct ipt_code *code,
				const struct ipt_stack_ops *ops, void *arg)
{
	struct ipt_stack *s = ipt_xcalloc(1, sizeof(*s));

	s->sym = sym;
	s->code = code;
	s->ops = *ops;
	s->arg = arg;
	s->now_ns = UINT64_MAX;
	return s;
}

void ipt_stack_free(struct ipt_stack *s)
{
	if (!s)
		return;
	ipt_vec_fini(&s->f);
	free(s);
}

static void run(struct ipt_stack *s, const struct ipt_ev *ev)
{
	uint64_t ip = ev->run.ip;

	if (!s->f.n)
		ipt_stack_push(s, ipt_stack_func_at(s, ip), ip, IPT_FB_START, 0, 0, 0);
	else if (!s->over && (ip < s->lo || ip >= s->hi ||
			      (s->arrival == ARRIVE_INDIRECT && ipt_stack_top(s)->pub.func->anon)))
		ipt_stack_land(s, ip, s->arrival);
	s->arrival = ARRIVE_FLOW;
	s->disabled = false;
	s->run_end = ev->run.end;
	ipt_stack_ran(s, ev);
}

static void call(struct ipt_stack *s, const struct ipt_ev *ev)
{
	const struct ipt_func *func;

	/* A call to the next instruction only reads the instruction pointer. */
	if (!ev->br.to || ev->br.to == ev->br.ret_to)
		return;
	func = ipt_stack_func_at(s, ev->br.to);
	ipt_stack_note_site(s, ev->br.ret_to);
	ipt_stack_push(s, func, ev->br.to, IPT_FB_CALL, ev->br.ret_to, ev->br.from, 0);
	if (!s->over) {
		/* The call may go to a part split off. */
		s->lo = func->lo;
		s->hi = func->hi;
	}
}

static void signal_record(struct ipt_stack *s, const struct ipt_rec *rec)
{
	struct ipt_sb_signal sig;

	if (!rec || rec->n < sizeof(sig))
		return;
	memcpy(&sig, rec->payload, sizeof(sig));
	if (!sig.handler)
		return;
	s->sig_handler = sig.handler;
	s->sig_ip = sig.ip ? sig.ip : s->resume_ip;
}

/* The frames that were open when tracing began, outermost first. */
static void seed(struct ipt_stack *s, const struct ipt_rec *rec)
{
	struct ipt_sb_stack st;
	const uint8_t *p;
	size_t n;

	if (!rec || rec->n < sizeof(st) || s->f.n)
		return;
	memcpy(&st, rec->payload, sizeof(st));
	p = rec->payload + sizeof(st);
	n = (size_t)ipt_min_u64(st.n, (rec->n - sizeof(st)) / 8);
	n = n < STACK_MAX_DEPTH / 2 ? n : STACK_MAX_DEPTH / 2;
	for (size_t i = n; i > 0; i--) {
		uint64_t at = 0, ret_to = 0;

		memcpy(&at, p + 8 * (i - 1), 8);
		if (i < n)
			memcpy(&ret_to, p + 8 * i, 8);
		/* A return address may be the first byte after its function. */
		ipt_stack_push(s, ipt_stack_func_at(s, at ? at - 1 : 0), at, IPT_FB_INITIAL, ret_to,
			       0, 0);
	}
	if (st.ip) {
		uint64_t ret_to = 0;

		if (n)
			memcpy(&ret_to, p, 8);
		ipt_stack_push(s, ipt_stack_func_at(s, st.ip), st.ip, IPT_FB_INITIAL, ret_to, 0, 0);
	}
}

static void disable(struct ipt_stack *s, const struct ipt_ev *ev)
{
	s->disabled = true;
	s->disabled_by_far = ev->how == IPT_DIS_SYNC;
	s->resume_ip = ev->how == IPT_DIS_ASYNC  ? s->async_ip
		       : ev->how == IPT_DIS_SYNC ? s->run_end
						 : 0;
	s->async_ip = 0;
}

static void close_all(struct ipt_stack *s, enum ipt_frame_end how)
{
	ipt_stack_pop_to(s, 0, how);
	s->arrival = ARRIVE_FLOW;
	s->disabled = false;
	s->sig_handler = 0;
	s->resume_ip = s->async_ip = 0;
}

static void enable(struct ipt_stack *s, const struct ipt_ev *ev)
{
	if (s->f.n)
		ipt_stack_enable(s, ev->br.to);
	else if (s->sig_handler && s->sig_handler == ev->br.to)
		ipt_stack_push(s, ipt_stack_func_at(s, ev->br.to), ev->br.to, IPT_FB_START, 0, 0,
			       0);
	s->disabled = false;
	s->sig_handler = 0;
}

void ipt_stack_event(struct ipt_stack *s, const struct ipt_ev *ev)
{
	switch ((enum ipt_ev_kind)ev->kind) {
	case IPT_EV_RUN: run(s, ev); break;
	case IPT_EV_CALL:
		if (s->f.n)
			call(s, ev);
		break;
	case IPT_EV_RET:
		if (s->f.n && ev->br.to)
			ipt_stack_return(s, ev->br.to);
		break;
	case IPT_EV_JUMP: s->arrival = ARRIVE_INDIRECT; break;
	case IPT_EV_ASYNC: s->async_ip = ev->br.from; break;
	case IPT_EV_ENABLE: enable(s, ev); break;
	case IPT_EV_DISABLE: disable(s, ev); break;
	case IPT_EV_TIME: s->now_ns = ev->time.ns; break;
	case IPT_EV_SIGNAL: signal_record(s, ev->rec); break;
	case IPT_EV_GAP: close_all(s, IPT_FE_LOST); break;
	case IPT_EV_MAP: s->lo = s->hi = 0; break;
	case IPT_EV_THREAD:
		if (ev->how == 1)
			close_all(s, IPT_FE_OPEN);
		break;
	case IPT_EV_STACK: seed(s, ev->rec); break;
	case IPT_EV_EXEC: close_all(s, IPT_FE_EXEC); break;
	case IPT_EV_SYSCALL:
	case IPT_EV_PTW:
	case IPT_EV_CBR:
	case IPT_EV_PROBE:
	case IPT_EV_MARK:
	case IPT_EV_NOTE:
	case IPT_EV_N_KINDS: break;
	}
}

size_t ipt_stack_depth(const struct ipt_stack *s)
{
	return s->f.n;
}

struct ipt_sframe *ipt_stack_frame(struct ipt_stack *s, size_t i)
{
	return &s->f.v[i].pub;
}

uint64_t ipt_stack_now_ns(const struct ipt_stack *s)
{
	return s->now_ns;
}
