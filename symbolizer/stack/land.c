/* SPDX-License-Identifier: MIT */
/*
 * Where control arrives without a plain call: returns, jumps, handlers. The rules:
 *
 * - A return closes the innermost frame that waits for its address; what lies above was unwound.
 * - A landing inside a function on the stack, not at its entry, closes what lies above: longjmp and
 *   exceptions land so. A part split off by the compiler (".cold") is its function.
 * - A jump to another function is a tail call. Chains of them are bounded, and coming back to a
 *   function of the same chain closes the chain down to it, so that state machines made of jumps
 *   do not grow the stack.
 * - A return or an indirect jump into the middle of a named function that is not on the stack is
 *   another stack (fibres, goroutines): all frames end and a new first frame begins.
 */
#include "stack/stack.h"

#include "stack/stack_priv.h"

static void tail_call(struct ipt_stack *s, const struct ipt_func *func, uint64_t va)
{
	const struct ipt_func *whole = ipt_stack_whole(func);
	size_t base = ipt_stack_chain_base(s);

	for (size_t i = s->f.n; !func->anon && i > base; i--) {
		if (s->f.v[i - 1].pub.func == whole) {
			ipt_stack_pop_to(s, i, IPT_FE_TAIL);
			return;
		}
	}
	if (ipt_stack_top(s)->chain >= STACK_MAX_CHAIN)
		ipt_stack_pop(s, IPT_FE_TAIL);
	ipt_stack_push(s, func, va, IPT_FB_TAIL, ipt_stack_top(s)->pub.ret_to, 0, 0);
}

static void start_anew(struct ipt_stack *s, const struct ipt_func *func, uint64_t va)
{
	ipt_stack_pop_to(s, 0, IPT_FE_UNWOUND);
	ipt_stack_push(s, func, va, IPT_FB_START, 0, 0, 0);
}

/*
 * A cleanup of an exception ends by handing on to the unwinder, which goes on below it: frames that
 * may be landed in then. Without, the frames of a recursive function could not be told apart. All
 * where nothing hands on.
 */
static size_t below_cleanup(const struct ipt_stack *s)
{
	size_t n = s->f.n, i;

	for (i = n; i > 0 && n - i < 32; i--) {
		if (!strcmp(s->f.v[i - 1].pub.func->name, "_Unwind_Resume"))
			break;
	}
	if (!i || n - i >= 32)
		return n;
	while (i > 1 && s->f.v[i - 1].pub.begin == IPT_FB_TAIL)
		i--;
	return i >= 2 ? i - 2 : n;
}

/* Frames to keep when @va is inside a function on the stack; 0: it is not. */
static size_t landed_in(const struct ipt_stack *s, const struct ipt_func *func, uint64_t va,
			enum arrival how)
{
	const struct ipt_func *whole = ipt_stack_whole(func);
	size_t keep = how == ARRIVE_FLOW ? 0 : ipt_stack_find_site(s, va, whole);
	size_t below = below_cleanup(s);

	if (keep && keep <= below)
		return keep;
	/* Code without symbols is one stretch of many functions: that it is on the stack says
	 * little. Only unwinding lands by a return. */
	if (func->anon && how != ARRIVE_RET)
		return 0;
	for (keep = below; keep > 0; keep--) {
		if (s->f.v[keep - 1].pub.func == whole)
			return keep;
	}
	keep = ipt_stack_find_func(s, whole);
	return keep < s->f.n ? keep + 1 : 0;
}

void ipt_stack_land(struct ipt_stack *s, uint64_t va, enum arrival how)
{
	const struct ipt_func *func = ipt_stack_func_at(s, va);
	bool at_entry = va == func->lo && !func->cold && !func->anon;
	size_t keep = 0;

	if (ipt_stack_whole(func) == ipt_stack_top(s)->pub.func &&
	    !(func->anon && how == ARRIVE_INDIRECT)) {
		s->lo = func->lo;
		s->hi = func->hi;
		return;
	}
	if (s->held && how != ARRIVE_RET) {
		ipt_stack_replace(s, func, va);
		return;
	}
	if (!at_entry)
		keep = landed_in(s, func, va, how);
	if (keep) {
		bool chain = keep > ipt_stack_chain_base(s);

		ipt_stack_pop_to(s, keep, chain ? IPT_FE_TAIL : IPT_FE_UNWOUND);
		s->lo = func->lo;
		s->hi = func->hi;
	} else if (!at_entry && how != ARRIVE_FLOW && !func->anon && !func->plt) {
		start_anew(s, func, va);
	} else if (ipt_stack_whole(func) != ipt_stack_top(s)->pub.func) {
		tail_call(s, func, va);
	}
}

/* The frame at the top returned: with it those that it was jumped to from. */
static void close_returned(struct ipt_stack *s)
{
	enum ipt_frame_end how = IPT_FE_RETURN;
	bool tail;

	do {
		tail = ipt_stack_top(s)->pub.begin == IPT_FB_TAIL;
		ipt_stack_pop(s, how);
		how = IPT_FE_TAIL;
	} while (tail && s->f.n);
}

/* A caller that was never seen: the frames known so far were its callees. */
static void below(struct ipt_stack *s, uint64_t to)
{
	uint64_t insns_all = s->f.v[0].pub.insns_all;
	struct frame *f;

	/* What the frames above have is added only as they are closed. */
	for (size_t i = 1; i < s->f.n; i++)
		insns_all += s->f.v[i].pub.insns_all;
	close_returned(s);
	f = ipt_stack_push(s, ipt_stack_func_at(s, to), to, IPT_FB_BELOW, 0, 0, 0);
	if (f)
		f->pub.insns_all += insns_all;
}

void ipt_stack_return(struct ipt_stack *s, uint64_t to)
{
	size_t i, base;

	if (s->over) {
		s->over--;
		return;
	}
	i = ipt_stack_find_ret(s, to);
	if (i < s->f.n) {
		ipt_stack_pop_to(s, i + 1, IPT_FE_UNWOUND);
		close_returned(s);
		if (!s->f.n)
			ipt_stack_push(s, ipt_stack_func_at(s, to), to, IPT_FB_BELOW, 0, 0, 0);
		return;
	}
	base = ipt_stack_chain_base(s);
	if (s->f.v[base].pub.begin == IPT_FB_SIGNAL) {
		/* The handler returns to the code that calls sigreturn; its frame is open until
		 * the kernel has done so. */
		ipt_stack_commit(s);
		ipt_stack_push(s, ipt_stack_func_at(s, to), to, IPT_FB_TAIL, 0, 0, 0);
		return;
	}
	if (base == 0 && !s->f.v[0].pub.ret_to)
		below(s, to);
	else
		ipt_stack_land(s, to, ARRIVE_RET);
}

/* Index of the SIGNAL frame that a sigreturn to @to ends; f.n when there is none. A system call
 * that the signal interrupted may be started again: two bytes before. */
static size_t find_signal(const struct ipt_stack *s, uint64_t to)
{
	size_t innermost = s->f.n;

	for (size_t i = s->f.n; s->n_signal && i > 0; i--) {
		const struct frame *f = &s->f.v[i - 1];

		if (f->pub.begin != IPT_FB_SIGNAL)
			continue;
		if (f->resume_ip == to || f->resume_ip == to + 2)
			return i - 1;
		if (innermost == s->f.n)
			innermost = i - 1;
	}
	return innermost;
}

/* True when the sigreturn of a handler met the next signal: its frame ends though its code does
 * not go on. */
static bool ends_for_next_signal(struct ipt_stack *s, size_t sig)
{
	return s->disabled_by_far && sig < s->f.n && s->f.n == sig + 2 &&
	       ipt_stack_top(s)->pub.begin == IPT_FB_TAIL && s->f.v[sig].resume_ip == s->sig_ip;
}

static void begin_handler(struct ipt_stack *s, uint64_t to, uint64_t interrupted)
{
	size_t sig = find_signal(s, interrupted);

	if (ends_for_next_signal(s, sig))
		ipt_stack_pop_to(s, sig, IPT_FE_SIGRET);
	ipt_stack_push(s, ipt_stack_func_at(s, to), to, IPT_FB_SIGNAL, 0, 0, interrupted);
}

void ipt_stack_enable(struct ipt_stack *s, uint64_t to)
{
	const struct ipt_func *func;
	size_t sig;

	if (s->sig_handler && to == s->sig_handler) {
		begin_handler(s, to, s->sig_ip);
		return;
	}
	/* Two bytes before: a system call is started again. */
	if (!s->disabled || to == s->resume_ip || to + 2 == s->resume_ip)
		return;
	sig = s->disabled_by_far ? find_signal(s, to) : s->f.n;
	if (sig < s->f.n) {
		ipt_stack_pop_to(s, sig, IPT_FE_SIGRET);
		if (s->f.n)
			ipt_stack_land(s, to, ARRIVE_FLOW);
		return;
	}
	func = ipt_stack_func_at(s, to);
	if (s->resume_ip && to == func->lo && !func->anon && !func->cold &&
	    ipt_stack_whole(func) != ipt_stack_top(s)->pub.func) {
		/* The kernel started a function and nobody told why: a handler. */
		ipt_stack_push(s, func, to, IPT_FB_SIGNAL, 0, 0, s->resume_ip);
		return;
	}
	ipt_stack_land(s, to, ARRIVE_INDIRECT);
}
