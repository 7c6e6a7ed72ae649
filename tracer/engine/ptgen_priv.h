/* SPDX-License-Identifier: MIT */
/* What the files of ptgen share. */
#ifndef IPT_PTGEN_PRIV_H
#define IPT_PTGEN_PRIV_H

#include "engine/engine.h"

#define RET_DEPTH  64
#define LONG_TNT   47 /* outcomes of a long TNT packet */
#define PSB_MARGIN 48 /* most bytes written between two looks at whether a PSB is due */
#define OUT_MAX    65536
#define OP_TIP_PGD 0x01
#define OUT_ROOM   512 /* more than is written between two looks at the room left */

/*
 * Return addresses of calls since the last PSB. The hardware pops at every RET, compressed or not;
 * libipt pops at compressed ones only. Two stacks follow both, and a RET is compressed only when
 * both tops agree, so that every decoder finds its way after a return that no call made.
 */
struct ret_stack {
	uint64_t ip[RET_DEPTH];
	unsigned int top; /* next free slot, modulo RET_DEPTH */
	unsigned int n;
};

struct ipt_ptgen {
	struct ipt_ptgen_cfg cfg;
	ipt_ptgen_sink sink;
	void *arg;
	uint64_t pos;    /* bytes handed to the sink */
	uint64_t psb_at; /* position of the last PSB */
	uint64_t tnt;
	unsigned int n_tnt, max_tnt;
	bool enabled;
	bool outside; /* enabled, but no packets */
	bool psb_due; /* at the next chance, whatever the distance */
	bool batch;   /* bytes collect */
	bool bmi2;    /* the CPU has PDEP */
	bool mode_known;
	enum ipt_xmode mode;
	struct ipt_lastip last;
	struct ret_stack all;  /* popped by each RET */
	struct ret_stack comp; /* popped by compressed RETs; as `all` unless they are apart */
	bool apart;
	unsigned int n_out;
	uint8_t out[OUT_MAX];
};

static inline void stack_push(struct ret_stack *s, uint64_t ip)
{
	s->ip[s->top] = ip;
	s->top = (s->top + 1) % RET_DEPTH;
	if (s->n < RET_DEPTH)
		s->n++;
}

static inline bool stack_top_is(const struct ret_stack *s, uint64_t ip)
{
	return s->n && s->ip[(s->top + RET_DEPTH - 1) % RET_DEPTH] == ip;
}

static inline void stack_pop(struct ret_stack *s)
{
	if (!s->n)
		return;
	s->top = (s->top + RET_DEPTH - 1) % RET_DEPTH;
	s->n--;
}

#define OP_TIP 0x0d

/* Bytes of an IP by its compression; SDM "IP Compression". */
static const uint8_t ip_bytes[8] = {0, 2, 4, 6, 6, 0, 8, 0};

/* TIP, TIP.PGE, TIP.PGD and FUP; their usual forms without a branch that would be hard to predict.
 */
static inline uint8_t *put_ip_op(struct ipt_ptgen *g, uint8_t *p, uint8_t op, uint64_t ip)
{
	static const uint8_t ipc_by_size[3] = {IPT_IPC_UPDATE16, IPT_IPC_UPDATE32, IPT_IPC_SEXT48};
	uint64_t diff = ip ^ g->last.ip, payload = ip;
	unsigned int ipc, size;

	if (__builtin_expect(g->last.valid && (uint64_t)((int64_t)(ip << 16) >> 16) == ip, 1)) {
		size = (diff >> 16 != 0) + (diff >> 32 != 0);
		ipc = ipc_by_size[size];
		size = 2 * size + 2;
		g->last.ip = ip;
	} else {
		ipc = ipt_lastip_compress(&g->last, ip, &payload);
		size = ip_bytes[ipc];
	}
	p[0] = (uint8_t)(ipc << 5 | op);
	memcpy(p + 1, &payload, sizeof(payload));
	return p + 1 + size;
}

/* Does a RET to @next return to the last call, for every decoder? Pops. */
static inline bool pop_matches(struct ipt_ptgen *g, uint64_t next)
{
	bool same = stack_top_is(&g->all, next) && (!g->apart || stack_top_is(&g->comp, next));

	if (!same && !g->apart && g->all.n) {
		g->comp = g->all;
		g->apart = true;
	}
	stack_pop(&g->all);
	if (same && g->apart)
		stack_pop(&g->comp);
	return same;
}

/* A near call that returns to @ret. */
static inline void push_call(struct ipt_ptgen *g, uint64_t ret)
{
	if (g->cfg.noretcomp)
		return;
	stack_push(&g->all, ret);
	if (g->apart)
		stack_push(&g->comp, ret);
}

/* Hand over what is collected. */
void ipt_ptgen_give(struct ipt_ptgen *g);

static inline void hand_over(struct ipt_ptgen *g)
{
	if (g->n_out && (!g->batch || g->n_out >= OUT_MAX - OUT_ROOM))
		ipt_ptgen_give(g);
}

static inline bool is_psb_due(const struct ipt_ptgen *g)
{
	return g->psb_due || g->pos + g->n_out - g->psb_at + PSB_MARGIN > g->cfg.psb_bytes;
}

/* SDM "PSB+": while packets are enabled the state of the CPU at @ip, else the time only. The IP in
 * it is never compressed against anything before the PSB. Pending TNT bits go out before. */
void ipt_ptgen_put_psb(struct ipt_ptgen *g, uint64_t ip, uint64_t tsc);

#endif
