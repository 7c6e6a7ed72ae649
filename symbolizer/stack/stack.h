/* SPDX-License-Identifier: MIT */
/*
 * stack: the call stack of a thread, followed from its events. Made for views: it tells of each
 * function entered and left, and how.
 */
#ifndef IPT_STACK_H
#define IPT_STACK_H

#include "base/base.h"
#include "flow/flow.h"
#include "sym/sym.h"

enum ipt_frame_begin {
	IPT_FB_CALL,
	IPT_FB_TAIL,    /* jumped to from the function above it, which its return closes too */
	IPT_FB_SIGNAL,  /* handler: runs above the interrupted frame */
	IPT_FB_START,   /* first frame of the thread, or after a gap */
	IPT_FB_INITIAL, /* from the stack taken at attach */
	IPT_FB_BELOW,   /* a return went to a caller not seen before */
};

enum ipt_frame_end {
	IPT_FE_RETURN,
	IPT_FE_TAIL,    /* closed with the return of what it jumped to */
	IPT_FE_UNWOUND, /* longjmp or exception went past it */
	IPT_FE_SIGRET,  /* sigreturn resumed the interrupted code */
	IPT_FE_LOST,    /* a gap */
	IPT_FE_OPEN,    /* the trace ended */
	IPT_FE_EXEC,
};

struct ipt_sframe {
	const struct ipt_func *func;
	uint64_t entry;     /* address at which it was entered or first seen */
	uint64_t ret_to;    /* expected return address; 0 unknown */
	uint64_t call_ip;   /* of the call instruction; 0 unknown */
	uint8_t begin;      /* enum ipt_frame_begin */
	uint64_t insns;     /* self */
	uint64_t insns_all; /* with callees that ended */
	uint64_t t0_ns;     /* clock at entry; UINT64_MAX unknown */
	void *user;         /* the view's; zero at entry */
};

struct ipt_stack;

struct ipt_stack_ops { /* all may be NULL */
	void (*enter)(void *arg, struct ipt_stack *s, struct ipt_sframe *f, size_t depth);
	/* Frames end innermost first; insns_all of @f is final. */
	void (*leave)(void *arg, struct ipt_stack *s, struct ipt_sframe *f, size_t depth,
		      enum ipt_frame_end how);
	/* @n more instructions ran in the top frame, at [ip, end). */
	void (*run)(void *arg, struct ipt_stack *s, struct ipt_sframe *f, const struct ipt_ev *run);
	/* A caller appeared below everything known: depth of all shifts by one. */
	void (*below)(void *arg, struct ipt_stack *s, struct ipt_sframe *f);
};

struct ipt_stack *ipt_stack_new(struct ipt_sym *sym, const struct ipt_code *code,
				const struct ipt_stack_ops *ops, void *arg);
void ipt_stack_free(struct ipt_stack *s);
/* Feed every event of the thread in order; GAP and THREAD end included. */
void ipt_stack_event(struct ipt_stack *s, const struct ipt_ev *ev);
size_t ipt_stack_depth(const struct ipt_stack *s);
struct ipt_sframe *ipt_stack_frame(struct ipt_stack *s, size_t i); /* 0: outermost */
uint64_t ipt_stack_now_ns(const struct ipt_stack *s); /* UINT64_MAX before the first TIME */

#endif
