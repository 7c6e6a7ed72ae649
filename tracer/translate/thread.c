/* SPDX-License-Identifier: MIT */
/* One thread: its control block, its records, its requests. */
#include "priv.h"

#include <linux/futex.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NANO_TIMEOUT 20000000u
#define SPIN_ROUNDS  8000u

static uint64_t segment_va(const struct ipt_xl_thread *t, unsigned int seg)
{
	return t->ctl_va + IPT_XL_SEGMENT_BYTES * (seg + 1ull);
}

static uint8_t *at(const struct ipt_xl_thread *t, uint64_t va)
{
	return t->ctl + (va - t->ctl_va);
}

static void use_segment(struct ipt_xl_thread *t, unsigned int seg)
{
	t->segment = seg;
	t->from = segment_va(t, seg);
	slot_put64(t, SL_PTR, t->from);
	slot_put64(t, SL_LIM, t->from + IPT_XL_SEGMENT_BYTES - SEGMENT_SLACK);
}

static void epoch_begins(struct conv *c, uint32_t epoch)
{
	struct ipt_xl_thread *t =
		(struct ipt_xl_thread *)(void *)((char *)c - offsetof(struct ipt_xl_thread, c));

	t->sink.epoch(t->sink_arg, epoch);
}

struct ipt_xl_thread *ipt_xl_thread_new(struct ipt_xl *x, struct ipt_xl_pool *pool,
					struct ipt_ptgen *g, const struct ipt_xl_sink *sink,
					void *arg)
{
	struct ipt_xl_thread *t;
	int slot = ipt_xl_slot_take(x);

	if (slot < 0)
		return NULL;
	t = ipt_xcalloc(1, sizeof(*t));
	t->x = ipt_xl_get(x);
	t->pool = pool;
	t->sink = *sink;
	t->sink_arg = arg;
	t->c = (struct conv){.x = x,
			     .g = g,
			     .epoch_begins = epoch_begins,
			     .log_ip = sink->log_ip,
			     .log_arg = arg,
			     .epoch = x->epoch};
	t->slot = slot;
	t->ctl = x->slots + (uint64_t)slot * IPT_XL_SLOT_BYTES;
	t->ctl_va = x->slots_va + (uint64_t)slot * IPT_XL_SLOT_BYTES;
	t->works_tail = &t->works;
	slot_put64(t, SL_SELF, t->ctl_va);
	slot_put64(t, SL_BELL, x->low_va + LOW_BELL);
	slot_put64(t, SL_LOW, x->low_va);
	slot_put64(t, SL_TIMEOUT + 8, NANO_TIMEOUT);
	slot_put32(t, SL_SPIN, SPIN_ROUNDS);
	slot_put32(t, SL_NOSYS, x->nosys);
	use_segment(t, 0);
	return t;
}

/* The pointer is in memory that the program can write to. */
static uint64_t pointer(struct ipt_xl_thread *t)
{
	uint64_t ptr = slot_u64(t, SL_PTR);

	if (ptr >= t->from && ptr <= segment_va(t, t->segment) + IPT_XL_SEGMENT_BYTES - 64 &&
	    !(ptr & 3))
		return ptr;
	t->c.broken = true;
	slot_put64(t, SL_PTR, t->from);
	return t->from;
}

/* Records were lost: the program wrote over them, or its pointer. */
static void tell_broken(struct ipt_xl_thread *t)
{
	if (t->c.broken)
		t->sink.lost(t->sink_arg);
	t->c.broken = false;
}

/* What was converted elsewhere; the stream goes on behind it with a PSB+. */
static void hand_out(struct ipt_xl_thread *t)
{
	struct work *w;

	while ((w = ipt_xl_take_work(t))) {
		t->sink.pt(t->sink_arg, w->out.data, w->out.len);
		ipt_ptgen_seam(t->c.g, !w->outside, w->out.len);
		if (w->outside)
			ipt_ptgen_enable_outside(t->c.g);
		t->insns += w->c.insns;
		t->c.tsc = ipt_max_u64(t->c.tsc, w->c.tsc);
		t->c.broken |= w->c.broken;
		ipt_xl_free_work(t->pool, w);
	}
	tell_broken(t);
}

void ipt_xl_thread_free(struct ipt_xl_thread *t)
{
	if (!t)
		return;
	ipt_xl_wait_idle(t);
	hand_out(t);
	ipt_xl_slot_release(t->x, t->slot);
	ipt_xl_put(t->x);
	free(t);
}

bool ipt_xl_thread_inside(const struct ipt_xl_thread *t)
{
	return t->inside;
}

uint64_t ipt_xl_thread_insns(const struct ipt_xl_thread *t)
{
	return t->insns + t->c.insns;
}

uint64_t ipt_xl_thread_asks(const struct ipt_xl_thread *t)
{
	return t->asks;
}

/* Convert here and now what is recorded up to @ptr. Leaves the generator collecting. */
static void convert_here(struct ipt_xl_thread *t, uint64_t ptr, uint64_t tsc, bool hold)
{
	ipt_xl_wait_idle(t);
	hand_out(t);
	ipt_ptgen_batch(t->c.g, true);
	if (ptr > t->from)
		t->from += (uint64_t)(ipt_xl_convert(&t->c, at(t, t->from), at(t, ptr), hold) -
				      at(t, t->from));
	t->c.tsc = ipt_max_u64(t->c.tsc, tsc);
	tell_broken(t);
}

void ipt_xl_collect(struct ipt_xl_thread *t, bool all, uint64_t tsc)
{
	hand_out(t);
	if (!all)
		return;
	/* A thread that runs may stand right before the syscall that it has recorded. */
	convert_here(t, pointer(t), tsc, true);
	ipt_ptgen_batch(t->c.g, false);
}

bool ipt_xl_thread_enter(struct ipt_xl_thread *t, struct user_regs_struct *regs, uint64_t tsc)
{
	uint64_t va = ipt_xl_enter(t->x, regs->rip);

	if (!va)
		return false;
	t->c.tsc = ipt_max_u64(t->c.tsc, tsc);
	if (!ipt_ptgen_enabled(t->c.g))
		ipt_xl_user_begins(&t->c, regs->rip, outside(t->x, regs->rip));
	t->c.epoch = t->x->epoch;
	use_segment(t, t->segment);
	t->c.resume_ip = 0;
	slot_put32(t, SL_STATE, SL_STATE_NONE);
	t->app_gs = regs->gs_base;
	regs->rip = va;
	regs->gs_base = t->ctl_va;
	t->inside = true;
	return true;
}

static void settle(struct ipt_xl_thread *t, const struct place *p, uint64_t ptr)
{
	uint32_t exit;

	switch (p->kind) {
	case PLACE_UNKNOWN:
	case PLACE_EXITED: break;
	case PLACE_PART: ipt_xl_convert_part(&t->c, p->trace, p->items); break;
	case PLACE_TAKE: ipt_xl_convert_exit(&t->c, p->exit); break;
	case PLACE_RAW:
		memcpy(&exit, at(t, ptr), sizeof(exit));
		if (exit && exit < t->x->n_exits)
			ipt_xl_convert_raw(&t->c, exit, p->ip, outside(t->x, p->ip));
		break;
	}
}

bool ipt_xl_thread_leave(struct ipt_xl_thread *t, struct user_regs_struct *regs, uint64_t tsc)
{
	bool stub = regs->rip - (t->x->low_va + LOW_STUBS) < LOW_SIZE - LOW_STUBS;
	uint64_t ptr = pointer(t);
	struct place p = ipt_xl_where(t, regs);

	t->inside = t->broken = false;
	if (p.undo && ptr > t->from)
		ptr -= 4;
	convert_here(t, ptr, tsc, false);
	settle(t, &p, ptr);
	ipt_ptgen_batch(t->c.g, false);
	slot_put32(t, SL_STATE, SL_STATE_NONE);
	if (p.kind == PLACE_PART) {
		const struct trace *tr = trace_at(t->x, p.trace);
		const struct item *it = &tr->items[p.items < tr->n_items ? p.items : 0];

		regs->rip = tr->head + (uint64_t)(int64_t)it->delta;
	} else if (p.kind != PLACE_UNKNOWN) {
		regs->rip = p.ip;
	}
	if (stub)
		regs->orig_rax = (uint64_t)-1;
	regs->gs_base = t->app_gs;
	return p.kind != PLACE_UNKNOWN;
}

void ipt_xl_thread_gone(struct ipt_xl_thread *t, uint64_t tsc)
{
	t->inside = false;
	convert_here(t, pointer(t), tsc, false);
	ipt_ptgen_batch(t->c.g, false);
}

bool ipt_xl_break(struct ipt_xl_thread *t, uint64_t tsc)
{
	ipt_xl_collect(t, true, tsc);
	if (ipt_ptgen_enabled(t->c.g)) {
		ipt_ptgen_async(t->c.g, slot_u64(t, SL_TARGET), tsc);
		t->broken = true;
	}
	ipt_ptgen_flush(t->c.g);
	t->c.epoch = t->x->epoch;
	return true;
}

void ipt_xl_thread_told(struct ipt_xl_thread *t)
{
	t->c.epoch = t->x->epoch;
}

/* --- requests --- */

static enum ipt_xl_ask reply(struct ipt_xl_thread *t, uint64_t va)
{
	slot_put64(t, SL_REPLY, va);
	if (__atomic_exchange_n((uint32_t *)(void *)(t->ctl + SL_STATE), SL_STATE_DONE,
				__ATOMIC_ACQ_REL) == SL_STATE_ASLEEP)
		syscall(SYS_futex, t->ctl + SL_STATE, FUTEX_WAKE, 1, NULL, NULL, 0);
	return IPT_XL_ASK_DONE;
}

static enum ipt_xl_ask to_target(struct ipt_xl_thread *t, uint64_t target, uint64_t *va)
{
	uint64_t at_va = ipt_xl_enter(t->x, target);

	*va = target;
	if (at_va) {
		/* A break for changed code ends here. */
		if (t->broken)
			ipt_xl_user_begins(&t->c, target, outside(t->x, target));
		t->broken = false;
		return reply(t, at_va);
	}
	return ipt_xl_near(t->x, target) ? IPT_XL_ASK_STEP : IPT_XL_ASK_NEAR;
}

/* The exit's id stands at the pointer: complete the record. */
static void commit_raw(struct ipt_xl_thread *t)
{
	uint64_t ptr = pointer(t), target = slot_u64(t, SL_TARGET);
	uint32_t raw = outside(t->x, target) ? ID_OUT : ID_RAW;

	memcpy(at(t, ptr + 4), &raw, sizeof(raw));
	memcpy(at(t, ptr + 8), &target, sizeof(target));
	slot_put32(t, SL_KIND, SL_REQ_MISS);
	slot_put64(t, SL_PTR, ptr + 16);
}

/* Where the jump that ends the exit's code is; a trace goes on at its body. */
static uint64_t after_full(const struct ipt_xl_thread *t)
{
	uint32_t id = slot_u32(t, SL_ID);
	const struct xexit *e;

	if (!id || (id & ~ID_TRACE) >= (id & ID_TRACE ? t->x->n_traces : t->x->n_exits))
		return 0;
	if (id & ID_TRACE)
		return ipt_xl_body_va(t->x, trace_at(t->x, id & ~ID_TRACE));
	e = exit_at(t->x, id);
	return t->x->clusters[trace_at(t->x, e->trace)->cluster].va + e->jump;
}

static void submit(struct ipt_xl_thread *t, uint64_t ptr, uint64_t tsc)
{
	ipt_ptgen_flush(t->c.g);
	ipt_xl_submit(t, at(t, t->from), at(t, ptr), t->segment);
	t->from = ptr;
	t->c.tsc = ipt_max_u64(t->c.tsc, tsc);
	t->c.resume_ip = 0; /* that syscall's return is in the work */
}

static enum ipt_xl_ask full(struct ipt_xl_thread *t, uint64_t tsc)
{
	uint64_t ptr = pointer(t);

	if (ptr > t->from) {
		/* It may meet newer code, of which it is told in order. */
		if (t->c.epoch != t->x->epoch) {
			convert_here(t, ptr, tsc, false);
			if (t->c.epoch != t->x->epoch)
				ipt_xl_begin_epoch(&t->c, slot_u64(t, SL_TARGET), t->x->epoch);
			ipt_ptgen_batch(t->c.g, false);
		} else {
			submit(t, ptr, tsc);
		}
	}
	/* The first that is free: those behind are touched when conversion lags only. */
	for (unsigned int seg = 0; seg < IPT_XL_SEGMENTS; seg++) {
		if (seg != t->segment && ipt_xl_segment_free(t, seg)) {
			uint64_t on = after_full(t);

			use_segment(t, seg);
			return on ? reply(t, on) : IPT_XL_ASK_STEP;
		}
	}
	return IPT_XL_ASK_WAIT;
}

enum ipt_xl_ask ipt_xl_serve(struct ipt_xl_thread *t, uint64_t *va, uint64_t tsc)
{
	uint32_t state = slot_u32(t, SL_STATE);
	uint64_t target;

	if (state != SL_STATE_POSTED && state != SL_STATE_ASLEEP)
		return IPT_XL_ASK_NONE;
	target = slot_u64(t, SL_TARGET);
	*va = target;
	switch (slot_u32(t, SL_KIND)) {
	case SL_REQ_INDIRECT: commit_raw(t); /* fall through */
	case SL_REQ_MISS: t->asks++; return to_target(t, target, va);
	case SL_REQ_FULL: return full(t, tsc);
	case SL_REQ_STEP: t->asks++; return IPT_XL_ASK_STEP;
	case SL_REQ_MAPS: t->asks++; return IPT_XL_ASK_MAPS;
	case SL_REQ_STALE: t->asks++; return IPT_XL_ASK_STALE;
	default: return IPT_XL_ASK_STEP;
	}
}

enum ipt_xl_ask ipt_xl_answer(struct ipt_xl_thread *t, uint64_t *va)
{
	/* All its records have been converted. */
	use_segment(t, t->segment);
	return to_target(t, slot_u64(t, SL_TARGET), va);
}
