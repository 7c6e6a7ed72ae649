/* SPDX-License-Identifier: MIT */
/* Frames: put on, taken off, looked for. Rules of when are in land.c and stack.c. */
#include "stack/stack.h"

#include "stack/stack_priv.h"

static size_t slot_of(uint64_t key)
{
	return (size_t)((key * 0x9e3779b97f4a7c15ull) >> 52) & (STACK_FILTER - 1);
}

static size_t func_slot(const struct ipt_func *f)
{
	return slot_of((uint64_t)(uintptr_t)f);
}

const struct ipt_func *ipt_stack_func_at(struct ipt_stack *s, uint64_t va)
{
	return ipt_sym_func(s->sym, ipt_code_map(s->code, va), va);
}

const struct ipt_func *ipt_stack_whole(const struct ipt_func *f)
{
	return f->cold && f->parent ? f->parent : f;
}

/* The range in which the next RUN needs no look-up. */
static void know_top(struct ipt_stack *s)
{
	s->lo = s->hi = 0;
	if (s->f.n) {
		s->lo = ipt_stack_top(s)->pub.func->lo;
		s->hi = ipt_stack_top(s)->pub.func->hi;
	}
}

static void tell_enter(struct ipt_stack *s)
{
	struct ipt_sframe *f = &ipt_stack_top(s)->pub;

	if (f->begin == IPT_FB_BELOW && s->ops.below)
		s->ops.below(s->arg, s, f);
	if (s->ops.enter)
		s->ops.enter(s->arg, s, f, s->f.n - 1);
}

struct frame *ipt_stack_push(struct ipt_stack *s, const struct ipt_func *func, uint64_t entry,
			     enum ipt_frame_begin begin, uint64_t ret_to, uint64_t call_ip,
			     uint64_t resume_ip)
{
	uint32_t chain = 0;
	struct frame *f;

	ipt_stack_commit(s);
	if (s->f.n >= STACK_MAX_DEPTH) {
		s->over++;
		return NULL;
	}
	func = ipt_stack_whole(func);
	if (begin == IPT_FB_TAIL)
		chain = ipt_stack_top(s)->chain + 1;
	f = ipt_vec_push(&s->f);
	f->pub.func = func;
	f->pub.entry = entry;
	f->pub.begin = (uint8_t)begin;
	f->pub.ret_to = ret_to;
	f->pub.call_ip = call_ip;
	f->pub.t0_ns = s->now_ns;
	f->resume_ip = resume_ip;
	f->chain = chain;
	if (ret_to)
		s->by_ret[slot_of(ret_to)]++;
	s->by_func[func_slot(func)]++;
	s->n_signal += begin == IPT_FB_SIGNAL;
	know_top(s);
	s->held = func->plt && (begin == IPT_FB_CALL || begin == IPT_FB_TAIL);
	s->n_held = 0;
	if (!s->held)
		tell_enter(s);
	return f;
}

void ipt_stack_note_site(struct ipt_stack *s, uint64_t ret_to)
{
	s->site[(slot_of(ret_to) * 2 + (ret_to & 1)) & (STACK_SITES - 1)] =
		(struct site){ret_to, s->f.n};
}

size_t ipt_stack_find_site(const struct ipt_stack *s, uint64_t va, const struct ipt_func *func)
{
	const struct site *at = &s->site[(slot_of(va) * 2 + (va & 1)) & (STACK_SITES - 1)];

	if (at->ret_to != va || !at->depth || at->depth > s->f.n ||
	    s->f.v[at->depth - 1].pub.func != func)
		return 0;
	return at->depth;
}

void ipt_stack_pop(struct ipt_stack *s, enum ipt_frame_end how)
{
	struct frame *f;

	ipt_stack_commit(s);
	f = ipt_stack_top(s);
	if (s->ops.leave)
		s->ops.leave(s->arg, s, &f->pub, s->f.n - 1, how);
	if (f->pub.ret_to)
		s->by_ret[slot_of(f->pub.ret_to)]--;
	s->by_func[func_slot(f->pub.func)]--;
	s->n_signal -= f->pub.begin == IPT_FB_SIGNAL;
	if (s->f.n > 1)
		f[-1].pub.insns_all += f->pub.insns_all;
	s->f.n--;
	know_top(s);
}

void ipt_stack_pop_to(struct ipt_stack *s, size_t keep, enum ipt_frame_end how)
{
	s->over = 0;
	while (s->f.n > keep)
		ipt_stack_pop(s, how);
}

size_t ipt_stack_find_ret(const struct ipt_stack *s, uint64_t ret_to)
{
	if (ret_to && s->by_ret[slot_of(ret_to)])
		for (size_t i = s->f.n; i > 0; i--)
			if (s->f.v[i - 1].pub.ret_to == ret_to)
				return i - 1;
	return s->f.n;
}

size_t ipt_stack_find_func(const struct ipt_stack *s, const struct ipt_func *func)
{
	if (s->by_func[func_slot(func)])
		for (size_t i = s->f.n; i > 0; i--)
			if (s->f.v[i - 1].pub.func == func)
				return i - 1;
	return s->f.n;
}

void ipt_stack_commit(struct ipt_stack *s)
{
	if (!s->held)
		return;
	s->held = false;
	tell_enter(s);
	for (size_t i = 0; i < s->n_held; i++)
		if (s->ops.run)
			s->ops.run(s->arg, s, &ipt_stack_top(s)->pub, &s->held_run[i]);
	s->n_held = 0;
}

void ipt_stack_replace(struct ipt_stack *s, const struct ipt_func *func, uint64_t entry)
{
	struct frame *f = ipt_stack_top(s);

	s->by_func[func_slot(f->pub.func)]--;
	f->pub.func = ipt_stack_whole(func);
	f->pub.entry = entry;
	s->by_func[func_slot(f->pub.func)]++;
	know_top(s);
	if (!func->plt)
		ipt_stack_commit(s);
}

void ipt_stack_ran(struct ipt_stack *s, const struct ipt_ev *run)
{
	struct frame *f = ipt_stack_top(s);

	f->pub.insns += run->n;
	f->pub.insns_all += run->n;
	if (s->held && s->n_held == STACK_MAX_HELD)
		ipt_stack_commit(s);
	if (s->held)
		s->held_run[s->n_held++] = *run;
	else if (s->ops.run)
		s->ops.run(s->arg, s, &f->pub, run);
}
