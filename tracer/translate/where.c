/* SPDX-License-Identifier: MIT */
/* From a place in the cache to the program's own state. */
#include "priv.h"

#define ARITH_FLAGS 0x8d5u /* OF SF ZF AF PF CF in RFLAGS */

static uint64_t *gpr(struct user_regs_struct *r, unsigned int n)
{
	unsigned long long *const regs[16] = {&r->rax, &r->rcx, &r->rdx, &r->rbx, &r->rsp, &r->rbp,
					      &r->rsi, &r->rdi, &r->r8,  &r->r9,  &r->r10, &r->r11,
					      &r->r12, &r->r13, &r->r14, &r->r15};

	return (uint64_t *)(void *)regs[n];
}

/* AX as LAHF and SETO AL left it: AH is SF ZF - AF - PF - CF, AL is OF. */
static void put_flags(struct user_regs_struct *r, uint64_t ax)
{
	uint64_t f = (ax >> 8 & 0xd5) | ((ax & 1) << 11);

	r->eflags = (r->eflags & ~(uint64_t)ARITH_FLAGS) | f;
}

static bool between(uint64_t off, const uint8_t *lo, const uint8_t *hi)
{
	return off >= (uint64_t)(lo - ipt_xl_stubs) && off < (uint64_t)(hi - ipt_xl_stubs);
}

/* In the second lookup of an indirect target. */
static struct place in_lookup(const struct ipt_xl_thread *t, struct user_regs_struct *r,
			      uint64_t off)
{
	struct place p = {.kind = PLACE_RAW, .ip = r->rcx};

	if (between(off, ipt_xl_stub_lookup, ipt_xl_stub_empty))
		p.ip = off == (uint64_t)(ipt_xl_stub_lookup - ipt_xl_stubs)
			       ? r->rcx - r->rax      /* -head */
			       : r->rcx + r->rax + 1; /* head - 1 */
	if (between(off, ipt_xl_stub_probe, ipt_xl_stub_none)) {
		put_flags(r, slot_u64(t, SL_FLAGS));
		r->rdx = slot_u64(t, SL_RDX);
	}
	r->rcx = slot_u64(t, SL_RCX);
	r->rax = slot_u64(t, SL_RAX);
	return p;
}

static void put_saved(const struct ipt_xl_thread *t, struct user_regs_struct *r)
{
	put_flags(r, slot_u64(t, SL_SAVE_FL));
	r->rdx = slot_u64(t, SL_SAVE_RDX);
	r->rsi = slot_u64(t, SL_SAVE_RSI);
	r->rdi = slot_u64(t, SL_SAVE_RDI);
	r->r10 = slot_u64(t, SL_SAVE_R10);
	r->r11 = slot_u64(t, SL_SAVE_R11);
}

/* The literal {address, id} that rcx points to while a request is made. */
static uint64_t literal(const struct ipt_xl_thread *t, uint64_t va)
{
	int c = ipt_xl_cluster_of(t->x, va);
	uint64_t v = 0;

	if (c >= 0)
		memcpy(&v, t->x->clusters[c].mem + (va - t->x->clusters[c].va), sizeof(v));
	return v;
}

static struct place in_stub(const struct ipt_xl_thread *t, struct user_regs_struct *r, uint64_t off)
{
	struct place p = {.kind = PLACE_EXITED};
	bool waits;

	if (between(off, ipt_xl_stub_lookup, ipt_xl_stubs_end) &&
	    !between(off, ipt_xl_stub_wait, ipt_xl_stub_lookup))
		return in_lookup(t, r, off);
	waits = between(off, ipt_xl_stub_wait, ipt_xl_stub_lookup);
	if (!waits) {
		/* Not all of the request may be written yet: rax may be the program's still. */
		static const uint8_t *const entries[] = {ipt_xl_stub_miss, ipt_xl_stub_full,
							 ipt_xl_stub_step, ipt_xl_stub_maps,
							 ipt_xl_stub_stale};
		bool first = false;

		for (size_t i = 0; i < IPT_ARRAY_SIZE(entries); i++)
			first |= off == (uint64_t)(entries[i] - ipt_xl_stubs);
		p.ip = literal(t, r->rcx);
		if (!first)
			r->rax = slot_u64(t, SL_SAVE_RAX);
		r->rcx = slot_u64(t, SL_RCX);
		return p;
	}
	if (between(off, ipt_xl_stub_saved, ipt_xl_stub_lookup))
		put_saved(t, r);
	p.ip = slot_u64(t, SL_TARGET);
	if (slot_u32(t, SL_KIND) == SL_REQ_INDIRECT)
		p.kind = PLACE_RAW;
	r->rax = slot_u64(t, SL_SAVE_RAX);
	r->rcx = slot_u64(t, SL_SAVE_RCX);
	return p;
}

static const struct point *point_of(const struct trace *tr, uint32_t off)
{
	unsigned int lo = 0, hi = tr->n_points;

	while (lo < hi) {
		unsigned int mid = (lo + hi) / 2;

		if (tr->points[mid].off <= off)
			lo = mid + 1;
		else
			hi = mid;
	}
	return &tr->points[lo ? lo - 1 : 0];
}

static void put_aside(const struct ipt_xl_thread *t, struct user_regs_struct *r,
		      const struct point *pt)
{
	if (pt->flags & PT_FLAGS)
		put_flags(r, slot_u64(t, SL_FLAGS));
	if (pt->flags & PT_R11)
		r->rax = r->r11;
	if (pt->flags & PT_RAX)
		r->rax = slot_u64(t, SL_RAX);
	if (pt->flags & PT_RCX)
		r->rcx = slot_u64(t, SL_RCX);
	if (pt->flags & PT_RDX)
		r->rdx = slot_u64(t, SL_RDX);
	if (pt->flags & PT_TMP)
		*gpr(r, pt->reg) = slot_u64(t, SL_TMP);
	if (pt->flags & PT_POPPED)
		r->rsp -= pt->aux;
	if (pt->flags & PT_PUSHED)
		r->rsp += 8;
}

static uint64_t entry_target(const struct trace *tr, const struct user_regs_struct *r,
			     uint32_t stage)
{
	switch ((enum entry_stage)stage) {
	case ENTRY_TARGET: return r->rcx;
	case ENTRY_SUM: return r->rcx - r->rax;
	case ENTRY_HEAD: break;
	}
	return tr->head;
}

struct place ipt_xl_where(const struct ipt_xl_thread *t, struct user_regs_struct *r)
{
	struct place p = {.kind = PLACE_UNKNOWN};
	struct point at;
	const struct point *pt = &at;
	const struct trace *tr;
	uint32_t index, off;

	if (r->rip - (t->x->low_va + LOW_STUBS) < LOW_SIZE - LOW_STUBS)
		return in_stub(t, r, r->rip - (t->x->low_va + LOW_STUBS));
	tr = ipt_xl_trace_of(t->x, r->rip, &index);
	if (!tr)
		return p;
	off = (uint32_t)(r->rip - t->x->clusters[tr->cluster].va) - tr->code;
	at = *point_of(tr, off);
	if (at.flags & PT_PLAIN)
		at.flags = (uint16_t)ipt_xl_plain_flags(off - at.off);
	if (pt->flags & PT_ENTRY) {
		p.kind = PLACE_RAW;
		p.ip = entry_target(tr, r, pt->aux);
	} else if (pt->flags & PT_TAKE) {
		p.kind = PLACE_TAKE;
		p.exit = pt->aux;
		p.ip = exit_at(t->x, pt->aux)->target;
	} else if (pt->flags & (PT_EXITED | PT_SYS | PT_RESUMED)) {
		p.kind = PLACE_EXITED;
		p.ip = exit_at(t->x, pt->aux)->target;
	} else {
		p.kind = PLACE_PART;
		p.trace = index;
		p.items = pt->item;
		p.undo = pt->flags & PT_UNDO;
	}
	put_aside(t, r, pt);
	if (pt->flags & (PT_SYS | PT_RESUMED))
		r->rcx = p.ip;
	return p;
}

uint64_t ipt_xl_original(const struct ipt_xl *x, uint64_t va)
{
	uint32_t index;
	const struct trace *tr = ipt_xl_trace_of(x, va, &index);
	const struct point *pt;

	if (!tr)
		return 0;
	pt = point_of(tr, (uint32_t)(va - x->clusters[tr->cluster].va) - tr->code);
	return pt->item < tr->n_items ? tr->head + (uint64_t)(int64_t)tr->items[pt->item].delta : 0;
}
