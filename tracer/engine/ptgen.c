/* SPDX-License-Identifier: MIT */
/*
 * Branches in, PT bytes out: what the hardware would write for user-mode tracing. Leaves to its
 * callers to know when user code starts and ends. Nothing is deferred behind a TIP: pending TNT
 * bits go out before any other packet, one of the orders SDM "Deferred TIPs" allows.
 */
#include <stdlib.h>

#include "engine/engine.h"

#define RET_DEPTH  64
#define LONG_TNT   47 /* outcomes of a long TNT packet */
#define PSB_MARGIN 32 /* most bytes written between two looks at whether a PSB is due */
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
	struct ret_stack comp; /* popped by compressed RETs */
	unsigned int n_out;
	uint8_t out[OUT_MAX];
};

static void stack_push(struct ret_stack *s, uint64_t ip)
{
	s->ip[s->top] = ip;
	s->top = (s->top + 1) % RET_DEPTH;
	if (s->n < RET_DEPTH)
		s->n++;
}

static bool stack_top_is(const struct ret_stack *s, uint64_t ip)
{
	return s->n && s->ip[(s->top + RET_DEPTH - 1) % RET_DEPTH] == ip;
}

static void stack_pop(struct ret_stack *s)
{
	if (!s->n)
		return;
	s->top = (s->top + RET_DEPTH - 1) % RET_DEPTH;
	s->n--;
}

static void put(struct ipt_ptgen *g, const struct ipt_pkt *pkt)
{
	size_t len = 0;
	int err = ipt_pkt_encode(g->out + g->n_out, OUT_MAX - g->n_out, &len, pkt);

	ipt_assert(!err, "ptgen made a packet that cannot be written");
	g->n_out += (unsigned int)len;
}

static void put_kind(struct ipt_ptgen *g, enum ipt_pkt_kind kind)
{
	put(g, &(struct ipt_pkt){.kind = kind});
}

/* Bytes of an IP by its compression; SDM "IP Compression". */
static const uint8_t ip_bytes[8] = {0, 2, 4, 6, 6, 0, 8, 0};

/* TIP, TIP.PGE, TIP.PGD and FUP; their usual forms without a branch that would be hard to predict.
 */
static inline void put_ip_op(struct ipt_ptgen *g, uint8_t op, uint64_t ip)
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
	g->out[g->n_out] = (uint8_t)(ipc << 5 | op);
	memcpy(g->out + g->n_out + 1, &payload, sizeof(payload));
	g->n_out += 1u + size;
}

static void put_ip(struct ipt_ptgen *g, enum ipt_pkt_kind kind, uint64_t ip)
{
	put_ip_op(g, kind == IPT_PKT_TIP ? 0x0d : kind == IPT_PKT_TIP_PGE ? 0x11 : 0x1d, ip);
}

static void put_tsc(struct ipt_ptgen *g, uint64_t tsc)
{
	if (!g->cfg.no_tsc)
		put(g, &(struct ipt_pkt){.kind = IPT_PKT_TSC, .tsc = tsc & ((1ull << 56) - 1)});
}

static void put_mode(struct ipt_ptgen *g, enum ipt_xmode mode)
{
	struct ipt_pkt pkt = {.kind = IPT_PKT_MODE_EXEC};

	pkt.mode_exec.cs_l = mode == IPT_X64;
	pkt.mode_exec.cs_d = mode == IPT_X32;
	put(g, &pkt);
	g->mode = mode;
	g->mode_known = true;
}

/* What is pending. SDM "Taken/Not-taken (TNT) Packet": a stop bit above the oldest outcome. */
static inline void put_tnt(struct ipt_ptgen *g)
{
	uint64_t v = 1ull << g->n_tnt | g->tnt;
	bool is_long = g->n_tnt > 6;
	uint64_t bytes = is_long ? v << 16 | 0xa302 : v << 1;

	/* Which form it is, or none, is as good as random: no branch depends on it. */
	memcpy(g->out + g->n_out, &bytes, sizeof(bytes));
	g->n_out += is_long ? 8 : g->n_tnt != 0;
	g->tnt = 0;
	g->n_tnt = 0;
}

static void add_bit(struct ipt_ptgen *g, bool taken)
{
	g->tnt = g->tnt << 1 | taken;
	if (++g->n_tnt >= g->max_tnt)
		put_tnt(g);
}

static void __attribute__((noinline)) give(struct ipt_ptgen *g)
{
	g->sink(g->arg, g->out, g->n_out);
	g->pos += g->n_out;
	g->n_out = 0;
}

static inline void hand_over(struct ipt_ptgen *g)
{
	if (g->n_out && (!g->batch || g->n_out >= OUT_MAX - OUT_ROOM))
		give(g);
}

static bool is_psb_due(const struct ipt_ptgen *g)
{
	return g->psb_due || g->pos + g->n_out - g->psb_at + PSB_MARGIN > g->cfg.psb_bytes;
}

static void forget_calls(struct ipt_ptgen *g)
{
	g->all.n = 0;
	g->comp.n = 0;
}

/* SDM "PSB+": while packets are enabled the state of the CPU at @ip, else the time only. The IP in
 * it is never compressed against anything before the PSB. */
static void put_psb_plus(struct ipt_ptgen *g, uint64_t ip, uint64_t tsc)
{
	put_tnt(g);
	g->psb_at = g->pos + g->n_out;
	g->psb_due = false;
	put_kind(g, IPT_PKT_PSB);
	ipt_lastip_reset(&g->last);
	forget_calls(g);
	put_tsc(g, tsc);
	if (g->cfg.cbr)
		put(g, &(struct ipt_pkt){.kind = IPT_PKT_CBR, .cbr = g->cfg.cbr});
	if (g->enabled) {
		put_mode(g, g->mode);
		put_kind(g, IPT_PKT_MODE_TSX);
		g->last.valid = false;
		put_ip(g, IPT_PKT_FUP, ip);
	} else {
		g->mode_known = false;
	}
	put_kind(g, IPT_PKT_PSBEND);
}

struct ipt_ptgen *ipt_ptgen_new(const struct ipt_ptgen_cfg *cfg, ipt_ptgen_sink sink, void *arg)
{
	struct ipt_ptgen *g = ipt_xcalloc(1, sizeof(*g));

	g->cfg = *cfg;
	g->sink = sink;
	g->arg = arg;
	if (!g->cfg.psb_bytes)
		g->cfg.psb_bytes = 4096;
	if (g->cfg.psb_bytes < 128)
		g->cfg.psb_bytes = 128;
	g->max_tnt = cfg->long_tnt ? LONG_TNT : 6;
	g->psb_due = true;
	g->bmi2 = __builtin_cpu_supports("bmi2");
	return g;
}

void ipt_ptgen_free(struct ipt_ptgen *g)
{
	free(g);
}

void ipt_ptgen_enable(struct ipt_ptgen *g, uint64_t ip, enum ipt_xmode mode, uint64_t tsc)
{
	ipt_assert(!g->enabled, "enable while enabled");
	if (is_psb_due(g))
		put_psb_plus(g, 0, tsc);
	else
		put_tsc(g, tsc);
	if (!g->mode_known || g->mode != mode)
		put_mode(g, mode);
	put_ip(g, IPT_PKT_TIP_PGE, ip);
	g->enabled = true;
	hand_over(g);
}

void ipt_ptgen_enable_outside(struct ipt_ptgen *g)
{
	ipt_assert(!g->enabled, "enable while enabled");
	g->enabled = g->outside = true;
}

void ipt_ptgen_leave(struct ipt_ptgen *g, uint64_t next, bool branch)
{
	ipt_assert(g->enabled && !g->outside, "leave while not inside");
	put_tnt(g);
	if (branch) {
		put_ip_op(g, OP_TIP_PGD, next);
	} else {
		put_ip(g, IPT_PKT_FUP, next);
		put_kind(g, IPT_PKT_TIP_PGD);
	}
	g->outside = true;
	hand_over(g);
}

/* Calls from before may have returned meanwhile. */
void ipt_ptgen_come(struct ipt_ptgen *g, uint64_t next, enum ipt_xmode mode, uint64_t tsc)
{
	ipt_assert(g->enabled && g->outside, "come while not outside");
	g->enabled = g->outside = false;
	forget_calls(g);
	ipt_ptgen_enable(g, next, mode, tsc);
}

bool ipt_ptgen_outside(const struct ipt_ptgen *g)
{
	return g->outside;
}

/* User code ends: true when it ends outside. */
static bool end_outside(struct ipt_ptgen *g)
{
	bool was = g->outside;

	if (was)
		g->enabled = g->outside = false;
	return was;
}

/* @tsc is not written: the enable that follows tells the time. */
void ipt_ptgen_disable(struct ipt_ptgen *g, uint64_t tsc)
{
	(void)tsc;
	ipt_assert(g->enabled, "disable while disabled");
	if (end_outside(g))
		return;
	put_tnt(g);
	put_kind(g, IPT_PKT_TIP_PGD); /* IP suppressed: the kernel's address is not ours to tell */
	g->enabled = false;
	hand_over(g);
}

void ipt_ptgen_async(struct ipt_ptgen *g, uint64_t ip, uint64_t tsc)
{
	(void)tsc;
	ipt_assert(g->enabled, "async while disabled");
	if (end_outside(g))
		return;
	put_tnt(g);
	put_ip(g, IPT_PKT_FUP, ip);
	put_kind(g, IPT_PKT_TIP_PGD);
	g->enabled = false;
	hand_over(g);
}

static void put_tip(struct ipt_ptgen *g, uint64_t next)
{
	put_tnt(g);
	put_ip(g, IPT_PKT_TIP, next);
}

/* A call to the next instruction only reads the IP; SDM "Indirect Transfer Compression for Returns
 * (RET)" leaves it out. */
static void do_call(struct ipt_ptgen *g, const struct ipt_insn *insn, uint64_t ip)
{
	uint64_t ret = ip + insn->len;

	if (g->cfg.noretcomp)
		return;
	if (g->mode != IPT_X64)
		ret = (uint32_t)ret;
	if (insn->iclass == IPT_IC_CALL && insn->target == ret)
		return;
	stack_push(&g->all, ret);
	stack_push(&g->comp, ret);
}

static void do_ret(struct ipt_ptgen *g, uint64_t next)
{
	bool same = stack_top_is(&g->all, next) && stack_top_is(&g->comp, next);

	stack_pop(&g->all);
	if (same) {
		stack_pop(&g->comp);
		add_bit(g, true);
	} else {
		put_tip(g, next);
	}
}

static void do_far(struct ipt_ptgen *g, uint64_t next, enum ipt_xmode next_mode)
{
	put_tnt(g);
	if (next_mode != g->mode)
		put_mode(g, next_mode);
	put_ip(g, IPT_PKT_TIP, next);
}

/* Does the instruction make a packet? Not those that always enter the kernel. */
static bool makes_packet(const struct ipt_insn *insn)
{
	switch (insn->iclass) {
	case IPT_IC_COND:
	case IPT_IC_JMP_IND:
	case IPT_IC_CALL_IND:
	case IPT_IC_RET:
	case IPT_IC_FAR_RET:
	case IPT_IC_FAR_JMP: return true;
	case IPT_IC_FAR_CALL: return insn->sub == IPT_IS_NONE;
	default: return false;
	}
}

void ipt_ptgen_insn(struct ipt_ptgen *g, const struct ipt_insn *insn, uint64_t ip, uint64_t next,
		    enum ipt_xmode next_mode, uint64_t tsc)
{
	if (g->outside)
		return;
	if (insn->iclass == IPT_IC_CALL) {
		do_call(g, insn, ip);
		return;
	}
	if (!makes_packet(insn))
		return;
	if (is_psb_due(g))
		put_psb_plus(g, ip, tsc);
	switch (insn->iclass) {
	case IPT_IC_COND: add_bit(g, next != ip + insn->len); break;
	case IPT_IC_RET: do_ret(g, next); break;
	case IPT_IC_CALL_IND:
		do_call(g, insn, ip);
		put_tip(g, next);
		break;
	case IPT_IC_JMP_IND: put_tip(g, next); break;
	default: do_far(g, next, next_mode); break;
	}
	hand_over(g);
}

void ipt_ptgen_ptwrite(struct ipt_ptgen *g, uint64_t ip, uint64_t payload, uint8_t size)
{
	struct ipt_pkt pkt = {.kind = IPT_PKT_PTW};

	ipt_assert(g->enabled, "PTWRITE while disabled");
	if (g->outside)
		return;
	put_tnt(g);
	pkt.ptw.payload = size == 8 ? payload : (uint32_t)payload;
	pkt.ptw.size = size == 8 ? 8 : 4;
	pkt.ptw.ip = true;
	put(g, &pkt);
	put_ip(g, IPT_PKT_FUP, ip);
	hand_over(g);
}

/* No time packet may be needed right here: a PSB+ follows at the next branch, which tells it and
 * makes the rest decodable by itself. */
void ipt_ptgen_overflow(struct ipt_ptgen *g, uint64_t ip, uint64_t tsc)
{
	(void)tsc;
	put_tnt(g);
	put_kind(g, IPT_PKT_OVF);
	g->last.valid = false;
	forget_calls(g);
	put_ip(g, IPT_PKT_FUP, ip);
	g->enabled = true;
	g->psb_due = true;
	hand_over(g);
}

void ipt_ptgen_batch(struct ipt_ptgen *g, bool on)
{
	g->batch = on;
	hand_over(g);
}

static inline void put_full_long(struct ipt_ptgen *g, uint64_t outcomes)
{
	uint64_t bytes = (1ull << LONG_TNT | outcomes) << 16 | 0xa302;

	memcpy(g->out + g->n_out, &bytes, sizeof(bytes));
	g->n_out += sizeof(bytes);
	g->tnt = 0;
	g->n_tnt = 0;
}

static inline void add_bits_long(struct ipt_ptgen *g, uint64_t bits, unsigned int n)
{
	while (g->n_tnt + n >= LONG_TNT) {
		n -= LONG_TNT - g->n_tnt;
		put_full_long(g, g->tnt << (LONG_TNT - g->n_tnt) | bits >> n);
		bits &= (1ull << n) - 1;
	}
	g->tnt = g->tnt << n | bits;
	g->n_tnt += n;
}

/* Six outcomes a byte, one bit from its low end, the newest in the lowest byte. */
static inline __attribute__((always_inline)) uint64_t spread(uint64_t v, bool bmi2)
{
	uint64_t out;

	if (bmi2) {
		__asm__("pdep %2, %1, %0" : "=r"(out) : "r"(v), "r"(0x7e7e7e7e7e7e7e7eull));
		return out;
	}
	v = (v & 0xffffff) | (v & 0xffffff000000) << 8;
	v = (v & 0x00000fff00000fff) | (v & 0x00fff00000fff000) << 4;
	return ((v & 0x003f003f003f003f) | (v & 0x0fc00fc00fc00fc0) << 2) << 1;
}

/* Up to 42 outcomes (and no other bits) to those pending, at most five: all full short packets at
 * once. How many there are is as good as random: eight bytes are written always, as many kept as
 * there are. */
static inline __attribute__((always_inline)) void add_bits_short(struct ipt_ptgen *g, uint64_t bits,
								 unsigned int n, bool bmi2)
{
	unsigned int total = g->n_tnt + n, full = total / 6, rest = total - 6 * full;
	uint64_t all = g->tnt << n | bits;
	uint64_t bytes = __builtin_bswap64(spread(all >> rest, bmi2) | 0x8080808080808080ull);

	/* Shifted in two steps: by 64 when there are none. */
	bytes = bytes >> (56 - 8 * full) >> 8;
	memcpy(g->out + g->n_out, &bytes, sizeof(bytes));
	g->n_out += full;
	g->n_tnt = rest;
	g->tnt = all & ((1ull << rest) - 1);
}

static inline __attribute__((always_inline)) void add_bits(struct ipt_ptgen *g, uint64_t bits,
							   unsigned int n, bool bmi2)
{
	if (g->cfg.long_tnt) {
		add_bits_long(g, bits, n);
		return;
	}
	if (__builtin_expect(n > 42, 0)) {
		add_bits_short(g, bits >> 32, n - 32, bmi2);
		bits &= 0xffffffff;
		n = 32;
	}
	add_bits_short(g, bits, n, bmi2);
}

void ipt_ptgen_bits(struct ipt_ptgen *g, uint64_t bits, unsigned int n)
{
	add_bits(g, bits, n, false);
	hand_over(g);
}

static inline void add_call(struct ipt_ptgen *g, uint64_t ret)
{
	if (g->cfg.noretcomp)
		return;
	stack_push(&g->all, ret);
	stack_push(&g->comp, ret);
}

void ipt_ptgen_call(struct ipt_ptgen *g, uint64_t ret)
{
	add_call(g, ret);
}

/* Calls nested so deep pushed over the oldest entries. */
static inline void push_over(struct ipt_ptgen *g, unsigned int depth)
{
	unsigned int left = depth < RET_DEPTH ? RET_DEPTH - depth : 0;

	if (g->all.n > left)
		g->all.n = left;
	if (g->comp.n > left)
		g->comp.n = left;
}

void ipt_ptgen_ret(struct ipt_ptgen *g, uint64_t next)
{
	do_ret(g, next);
	hand_over(g);
}

void ipt_ptgen_psb(struct ipt_ptgen *g, uint64_t ip, uint64_t tsc)
{
	if (!g->outside && is_psb_due(g))
		put_psb_plus(g, ip, tsc);
	hand_over(g);
}

static inline __attribute__((always_inline)) void end_way(struct ipt_ptgen *g,
							  const struct ipt_way *w, uint64_t target)
{
	if (w->inner)
		push_over(g, w->inner);
	for (unsigned int i = 0; i < w->n_calls; i++)
		add_call(g, w->calls[i]);
	switch ((enum ipt_way_end)w->end) {
	case IPT_WAY_ON: break;
	case IPT_WAY_RET: do_ret(g, target); break;
	case IPT_WAY_CALL:
		if (w->ret)
			add_call(g, w->ret);
		put_tip(g, target);
		break;
	case IPT_WAY_JMP: put_tip(g, target); break;
	}
}

/* Position in the buffer from which on a PSB is due, or the buffer is to be handed over. */
static unsigned int out_until(const struct ipt_ptgen *g)
{
	uint64_t psb = g->psb_at + g->cfg.psb_bytes - PSB_MARGIN;
	uint64_t left = psb > g->pos ? psb - g->pos : 0;

	if (g->psb_due || !g->batch)
		return 0;
	return (unsigned int)(left < OUT_MAX - OUT_ROOM ? left : OUT_MAX - OUT_ROOM);
}

static inline __attribute__((always_inline)) void
add_ways(struct ipt_ptgen *g, const struct ipt_went *w, size_t n, uint64_t tsc, bool bmi2)
{
	unsigned int until = out_until(g);

	for (size_t i = 0; i < n; i++) {
		const struct ipt_way *way = w[i].way;

		if (__builtin_expect(g->n_out >= until, 0)) {
			hand_over(g);
			if (way->psb_ip && is_psb_due(g))
				put_psb_plus(g, way->psb_ip, tsc);
			until = out_until(g);
		}
		if (way->n_bits)
			add_bits(g, way->bits, way->n_bits, bmi2);
		if (way->more)
			end_way(g, way, w[i].target);
	}
	hand_over(g);
}

__attribute__((target("bmi2"))) static void ways_bmi2(struct ipt_ptgen *g, const struct ipt_went *w,
						      size_t n, uint64_t tsc)
{
	add_ways(g, w, n, tsc, true);
}

void ipt_ptgen_ways(struct ipt_ptgen *g, const struct ipt_went *w, size_t n, uint64_t tsc)
{
	if (g->bmi2)
		ways_bmi2(g, w, n, tsc);
	else
		add_ways(g, w, n, tsc, false);
}

void ipt_ptgen_seam(struct ipt_ptgen *g, bool enabled, uint64_t others)
{
	put_tnt(g);
	if (g->n_out)
		give(g);
	g->pos += others;
	g->psb_due = true;
	g->enabled = enabled;
	g->outside = false;
	g->mode_known = enabled;
	if (enabled)
		g->mode = IPT_X64;
	g->last.valid = false;
	forget_calls(g);
}

void ipt_ptgen_flush(struct ipt_ptgen *g)
{
	put_tnt(g);
	hand_over(g);
}

bool ipt_ptgen_enabled(const struct ipt_ptgen *g)
{
	return g->enabled;
}

uint64_t ipt_ptgen_pos(const struct ipt_ptgen *g)
{
	return g->pos + g->n_out;
}
