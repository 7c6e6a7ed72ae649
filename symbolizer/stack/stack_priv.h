/* SPDX-License-Identifier: MIT */
/* What the files of stack share: the frames and how they are moved. */
#ifndef IPT_STACK_PRIV_H
#define IPT_STACK_PRIV_H

#include "stack/stack.h"

#define STACK_MAX_DEPTH (1u << 20)
#define STACK_MAX_CHAIN 64   /* frames of one chain of tail calls */
#define STACK_FILTER    4096 /* slots of a counting filter, a power of two */
#define STACK_SITES     8192 /* call sites remembered, a power of two */
#define STACK_MAX_HELD  8    /* runs kept of a PLT stub until its target is known */

struct frame {
	struct ipt_sframe pub;
	uint64_t resume_ip; /* SIGNAL: the interrupted address; 0 unknown */
	uint32_t chain;     /* TAIL: frames of its chain below it */
};

/* A call seen before. longjmp lands where a call of setjmp returned to, so this says in which frame
 * such a landing is, also where code has no symbols. */
struct site {
	uint64_t ret_to;
	size_t depth; /* frames at the call; the caller is the last */
};

/* How control came to the next instruction. */
enum arrival {
	ARRIVE_FLOW,     /* fell through, a direct jump, or nothing is known */
	ARRIVE_INDIRECT, /* an indirect jump */
	ARRIVE_RET,      /* a return that no frame waited for */
};

struct ipt_stack {
	struct ipt_sym *sym;         /* lent */
	const struct ipt_code *code; /* lent */
	struct ipt_stack_ops ops;
	void *arg;
	IPT_VEC(struct frame) f;
	/* How many frames wait for a return address or are of a function, by hash: zero says that a
	 * search is in vain. A search that succeeds closes what it passes, so its cost is paid. */
	uint32_t by_ret[STACK_FILTER];
	uint32_t by_func[STACK_FILTER];
	struct site site[STACK_SITES];
	uint64_t now_ns;
	uint64_t over; /* calls beyond the largest depth */
	size_t n_signal;
	enum arrival arrival; /* of the next RUN */
	/* the range of addresses known to be of the top frame's function */
	uint64_t lo, hi;
	/* the top frame is a PLT stub not told of yet */
	bool held;
	size_t n_held;
	struct ipt_ev held_run[STACK_MAX_HELD];
	/* where the last DISABLE left off */
	bool disabled;
	bool disabled_by_far; /* SYNC: a system call or the like, so a sigreturn is possible */
	uint64_t resume_ip;   /* expected; 0 unknown */
	uint64_t async_ip;    /* of an ASYNC that no DISABLE followed yet */
	uint64_t run_end;
	/* a signal whose handler is to start */
	uint64_t sig_handler, sig_ip;
};

/* --- frames.c --- */

const struct ipt_func *ipt_stack_func_at(struct ipt_stack *s, uint64_t va);
/* The function a part split off by the compiler belongs to. */
const struct ipt_func *ipt_stack_whole(const struct ipt_func *f);
/* Put a frame on top; NULL when the stack is as deep as it may be. */
struct frame *ipt_stack_push(struct ipt_stack *s, const struct ipt_func *func, uint64_t entry,
			     enum ipt_frame_begin begin, uint64_t ret_to, uint64_t call_ip,
			     uint64_t resume_ip);
/* Remember a call of the top frame. */
void ipt_stack_note_site(struct ipt_stack *s, uint64_t ret_to);
/* Frames to keep when a landing at @va belongs to a frame of @func that called there; 0: unknown.
 */
size_t ipt_stack_find_site(const struct ipt_stack *s, uint64_t va, const struct ipt_func *func);
/* Close the top frame. */
void ipt_stack_pop(struct ipt_stack *s, enum ipt_frame_end how);
/* Close all frames above index @keep - 1. */
void ipt_stack_pop_to(struct ipt_stack *s, size_t keep, enum ipt_frame_end how);
/* Index of the innermost frame that waits for @ret_to; f.n when there is none. */
size_t ipt_stack_find_ret(const struct ipt_stack *s, uint64_t ret_to);
/* Index of the innermost frame of @func; f.n when there is none. */
size_t ipt_stack_find_func(const struct ipt_stack *s, const struct ipt_func *func);
/* Tell of a held frame as what it is now. */
void ipt_stack_commit(struct ipt_stack *s);
/* The held stub was left for @func: it is this function that was called. */
void ipt_stack_replace(struct ipt_stack *s, const struct ipt_func *func, uint64_t entry);
/* Count and tell of @run in the top frame. */
void ipt_stack_ran(struct ipt_stack *s, const struct ipt_ev *run);

static inline struct frame *ipt_stack_top(struct ipt_stack *s)
{
	return &s->f.v[s->f.n - 1];
}

/* Index of the frame that the top one's chain of tail calls began with. */
static inline size_t ipt_stack_chain_base(const struct ipt_stack *s)
{
	return s->f.n - 1 - s->f.v[s->f.n - 1].chain;
}

/* --- land.c --- */

/* Control is at @va without a call or a matching return: set the frames right. There is a frame. */
void ipt_stack_land(struct ipt_stack *s, uint64_t va, enum arrival how);
void ipt_stack_return(struct ipt_stack *s, uint64_t to);
/* Tracing goes on at @to after a DISABLE: a handler begins, a sigreturn ended one, or neither. */
void ipt_stack_enable(struct ipt_stack *s, uint64_t to);

#endif
