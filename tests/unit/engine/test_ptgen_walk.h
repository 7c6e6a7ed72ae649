/* SPDX-License-Identifier: MIT */
/* Random programs of real x86 bytes, random walks through them, and libipt's listings of both. */
#ifndef TEST_PTGEN_WALK_H
#define TEST_PTGEN_WALK_H

#include <check.h>
#include <intel-pt.h>
#include <stdlib.h>

#include "engine/engine.h"
#include "libipt_pkt.h"

#define N_SLOTS    400
#define SLOT       16 /* bytes; an instruction, then a jump over the rest */
#define MODE_SHIFT 60 /* the mode is listed with the address */
#define N_STEPS    6000

enum event_kind {
	EVENT_INSN,
	EVENT_ENABLE,
	EVENT_DISABLE,
	EVENT_ASYNC,
	EVENT_FLUSH,
	EVENT_PTWRITE,
};

struct event { /* what a generator was told */
	enum event_kind kind;
	struct ipt_insn insn;
	uint64_t ip, next; /* PTWRITE: the payload */
	enum ipt_xmode mode;
	uint64_t tsc;
	bool psb; /* a PSB+ came with it */
};

struct prog {
	uint64_t base;
	uint8_t code[N_SLOTS * SLOT];
};

struct walk {
	struct prog *prog;
	struct ipt_ptgen *gen;
	struct ipt_buf pt;
	uint64_t seed;
	bool mixed; /* 32-bit and 64-bit code */
	enum ipt_xmode mode;
	uint64_t ip;
	uint64_t tsc;
	IPT_VEC(uint64_t) ips;   /* walked, with modes */
	IPT_VEC(uint64_t) calls; /* return addresses */
	IPT_VEC(struct event) events;
};

static inline void put_rel32(uint8_t *p, unsigned int op_len, uint64_t slot, uint64_t to)
{
	int32_t rel = (int32_t)((int64_t)(to * SLOT) - (int64_t)(slot * SLOT + op_len + 4));

	memcpy(p + op_len, &rel, 4);
}

/* One instruction a slot, then one-byte NOPs. Direct jumps and calls go forward only, so that no
 * loop is without packets. */
static inline void fill_slot(struct prog *p, uint64_t slot, uint64_t *seed, bool mixed)
{
	static const uint8_t plain[][4] = {
		{2, 0xff, 0xe0},       {2, 0xff, 0xd0}, {1, 0xc3},       {2, 0x0f, 0x05}, {1, 0xcc},
		{2, 0xcd, 0x80},       {2, 0xf3, 0xa4}, {3, 0xc2, 8, 0}, {2, 0xe3, 0x06}, {1, 0xc3},
		{3, 0x0f, 0x1f, 0x00}, {2, 0x74, 0x00},
	};
	uint8_t *c = p->code + slot * SLOT;
	uint64_t r = (rnd(seed) >> 20) % 24;
	uint64_t ahead = slot + 1 + (rnd(seed) >> 20) % (N_SLOTS - slot);

	memset(c, 0x90, SLOT);
	if (slot == N_SLOTS - 1 || ahead >= N_SLOTS) {
		memcpy(c, "\xff\xe0", 2);
	} else if (r < 12) {
		memcpy(c, plain[r] + 1, plain[r][0]);
	} else if (r < 16) {
		c[0] = 0x0f;
		c[1] = 0x80 | (rnd(seed) >> 60);
		put_rel32(c, 2, slot, (rnd(seed) >> 20) % N_SLOTS);
	} else if (r < 17) {
		c[0] = 0xe9;
		put_rel32(c, 1, slot, ahead);
	} else if (r < 20) {
		c[0] = 0xe8;
		put_rel32(c, 1, slot, ahead);
	} else if (r < 21) {
		memcpy(c, "\xe8\0\0\0\0",
		       5); /* to the next instruction: not for the return stack */
	} else if (r < 22) {
		memcpy(c, "\xf3\x0f\xae\xe0", 4); /* PTWRITE */
	} else if (mixed) {
		memcpy(c, r & 1 ? "\xcf\x90" : "\xff\x28", 2); /* IRET, far jump */
	}
}

static inline void sink(void *arg, const uint8_t *p, size_t n)
{
	ipt_buf_append(arg, p, n);
}

static inline void apply(struct ipt_ptgen *g, const struct event *e)
{
	switch (e->kind) {
	case EVENT_INSN: ipt_ptgen_insn(g, &e->insn, e->ip, e->next, e->mode, e->tsc); break;
	case EVENT_ENABLE: ipt_ptgen_enable(g, e->ip, e->mode, e->tsc); break;
	case EVENT_DISABLE: ipt_ptgen_disable(g, e->tsc); break;
	case EVENT_ASYNC: ipt_ptgen_async(g, e->ip, e->tsc); break;
	case EVENT_FLUSH: ipt_ptgen_flush(g); break;
	case EVENT_PTWRITE: ipt_ptgen_ptwrite(g, e->ip, e->next, 4); break;
	}
}

static inline void tell(struct walk *w, struct event e)
{
	size_t at = w->pt.len;

	apply(w->gen, &e);
	e.psb = !ipt_psb_next(w->pt.data, w->pt.len, &at);
	*ipt_vec_push(&w->events) = e;
}

static inline uint64_t any_slot(struct walk *w)
{
	return w->prog->base + (rnd(&w->seed) >> 20) % N_SLOTS * SLOT;
}

static inline bool chance(struct walk *w, unsigned int one_in)
{
	return (rnd(&w->seed) >> 20) % one_in == 0;
}

static inline enum ipt_xmode any_mode(struct walk *w)
{
	return !w->mixed || chance(w, 2) ? IPT_X64 : IPT_X32;
}

static inline void tell_insn(struct walk *w, const struct ipt_insn *in, uint64_t next,
			     enum ipt_xmode mode)
{
	tell(w,
	     (struct event){.insn = *in, .ip = w->ip, .next = next, .mode = mode, .tsc = w->tsc++});
}

static inline void tell_async(struct walk *w)
{
	tell(w, (struct event){.kind = EVENT_ASYNC, .ip = w->ip, .tsc = w->tsc++});
}

static inline void resume(struct walk *w, uint64_t ip, enum ipt_xmode mode)
{
	w->ip = ip;
	w->mode = mode;
	w->tsc += 100;
	tell(w, (struct event){.kind = EVENT_ENABLE, .ip = ip, .mode = mode, .tsc = w->tsc});
}

static inline uint64_t go_ret(struct walk *w)
{
	uint64_t top;

	if (!w->calls.n || chance(w, 8))
		return any_slot(w);
	if (chance(w, 20) && w->calls.n > 3)
		w->calls.n -= 2; /* as longjmp's like would */
	top = w->calls.v[--w->calls.n];
	return top;
}

static inline void enter_kernel(struct walk *w, uint64_t after)
{
	tell(w, (struct event){.kind = EVENT_DISABLE, .tsc = w->tsc++});
	if (chance(w, 5))
		resume(w, any_slot(w), any_mode(w));
	else
		resume(w, after, w->mode);
}

/* libipt applies a new mode as soon as it comes to the target's address, even when it does so
 * before the branch, on its way from the last packet. */
static inline bool was_lately_at(const struct walk *w, uint64_t ip)
{
	for (size_t i = w->ips.n, n = 0; i-- > 0 && n < 400; n++)
		if ((w->ips.v[i] & ((1ull << MODE_SHIFT) - 1)) == ip)
			return true;
	return false;
}

static inline void step(struct walk *w)
{
	const struct prog *p = w->prog;
	uint64_t off = w->ip - p->base, after, next;
	enum ipt_xmode mode = w->mode;
	struct ipt_insn in;

	ck_assert_int_eq(ipt_x86_decode(&in, p->code + off, sizeof(p->code) - off, w->ip, w->mode),
			 0);
	after = next = w->ip + in.len;
	*ipt_vec_push(&w->ips) = w->ip | (uint64_t)w->mode << MODE_SHIFT;
	switch (in.iclass) {
	case IPT_IC_COND: next = chance(w, 2) ? in.target : after; break;
	case IPT_IC_JMP: next = in.target; break;
	case IPT_IC_CALL:
		next = in.target;
		*ipt_vec_push(&w->calls) = after;
		break;
	case IPT_IC_CALL_IND:
		next = chance(w, 8) ? after : any_slot(w);
		*ipt_vec_push(&w->calls) = after;
		break;
	case IPT_IC_JMP_IND: next = any_slot(w); break;
	case IPT_IC_RET: next = go_ret(w); break;
	case IPT_IC_FAR_RET:
	case IPT_IC_FAR_JMP:
		next = any_slot(w);
		mode = was_lately_at(w, next) ? w->mode : any_mode(w);
		break;
	case IPT_IC_PTWRITE:
		tell(w, (struct event){.kind = EVENT_PTWRITE, .ip = w->ip, .next = rnd(&w->seed)});
		break;
	default: break;
	}
	tell_insn(w, &in, next, mode);
	if (in.iclass == IPT_IC_FAR_CALL) {
		enter_kernel(w, after);
		return;
	}
	w->ip = next;
	w->mode = mode;
}

static inline void make_walk(struct walk *w, struct prog *p, const struct ipt_ptgen_cfg *cfg,
			     uint64_t seed, bool mixed)
{
	memset(w, 0, sizeof(*w));
	w->prog = p;
	w->seed = seed;
	w->mixed = mixed;
	p->base = mixed ? 0x8048000 : 0x7f3344550000;
	for (uint64_t i = 0; i < N_SLOTS; i++)
		fill_slot(p, i, &w->seed, mixed);
	w->gen = ipt_ptgen_new(cfg, sink, &w->pt);
	resume(w, p->base, any_mode(w));
	for (int i = 0; i < N_STEPS; i++) {
		if (chance(w, 60)) {
			tell_async(w);
			if (chance(w, 2))
				resume(w, any_slot(w), any_mode(w));
			else
				resume(w, w->ip, w->mode);
		}
		if (chance(w, 50))
			tell(w, (struct event){.kind = EVENT_FLUSH});
		step(w);
	}
	tell_async(w);
}

static inline void free_walk(struct walk *w)
{
	ipt_ptgen_free(w->gen);
	ipt_buf_fini(&w->pt);
	ipt_vec_fini(&w->ips);
	ipt_vec_fini(&w->calls);
	ipt_vec_fini(&w->events);
}

static inline int read_code(uint8_t *buf, size_t n, const struct pt_asid *asid, uint64_t ip,
			    void *arg)
{
	const struct prog *p = arg;
	uint64_t off = ip - p->base;

	(void)asid;
	if (off >= sizeof(p->code))
		return -pte_nomap;
	n = ipt_min_u64(n, sizeof(p->code) - off);
	memcpy(buf, p->code + off, n);
	return (int)n;
}

/* libipt's listing of @pt from its PSB at @from into @out. 0, or the error that ended it. */
static inline int list(struct walk *w, const struct ipt_buf *pt, uint64_t from, struct ipt_buf *out)
{
	struct pt_image *image = pt_image_alloc("prog");
	struct pt_insn_decoder *d;
	struct pt_config cfg;
	int status;

	pt_config_init(&cfg);
	cfg.begin = pt->data;
	cfg.end = pt->data + pt->len;
	d = pt_insn_alloc_decoder(&cfg);
	pt_image_set_callback(image, read_code, w->prog);
	pt_insn_set_image(d, image);
	status = pt_insn_sync_set(d, from);
	while (status >= 0) {
		struct pt_insn insn;

		if (status & pts_event_pending) {
			struct pt_event ev;

			status = pt_insn_event(d, &ev, sizeof(ev));
			continue;
		}
		if (status & pts_eos)
			break;
		memset(&insn, 0, sizeof(insn));
		status = pt_insn_next(d, &insn, sizeof(insn));
		if (insn.iclass != ptic_error)
			ipt_buf_u64(out, insn.ip | (uint64_t)(insn.mode - ptem_16bit)
							   << MODE_SHIFT);
	}
	pt_insn_free_decoder(d);
	pt_image_free(image);
	return status < 0 && status != -pte_eos ? status : 0;
}

#endif
