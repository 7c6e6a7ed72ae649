/* SPDX-License-Identifier: MIT */
/*
 * Branches in, PT bytes out: what the hardware would write for user-mode tracing. Leaves to its
 * callers to know when user code starts and ends. Nothing is deferred behind a TIP: pending TNT
 * bits go out before any other packet, one of the orders SDM "Deferred TIPs" allows.
 */
#include <stdlib.h>

#include "engine/ptgen_priv.h"

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

static void put_ip(struct ipt_ptgen *g, enum ipt_pkt_kind kind, uint64_t ip)
{
	uint8_t op = kind == IPT_PKT_TIP ? OP_TIP : kind == IPT_PKT_TIP_PGE ? 0x11 : 0x1d;
	const uint8_t *end = put_ip_op(g, g->out + g->n_out, op, ip);

	g->n_out = (unsigned int)(end - g->out);
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

void ipt_ptgen_give(struct ipt_ptgen *g)
{
	g->sink(g->arg, g->out, g->n_out);
	g->pos += g->n_out;
	g->n_out = 0;
}

static void forget_calls(struct ipt_ptgen *g)
{
	g->all.n = 0;
	g->apart = false;
}

void ipt_ptgen_put_psb(struct ipt_ptgen *g, uint64_t ip, uint64_t tsc)
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
		ipt_ptgen_put_psb(g, 0, tsc);
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
		const uint8_t *end = put_ip_op(g, g->out + g->n_out, OP_TIP_PGD, next);

		g->n_out = (unsigned int)(end - g->out);
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

	if (g->mode != IPT_X64)
		ret = (uint32_t)ret;
	if (insn->iclass == IPT_IC_CALL && insn->target == ret)
		return;
	push_call(g, ret);
}

static void do_ret(struct ipt_ptgen *g, uint64_t next)
{
	if (pop_matches(g, next))
		add_bit(g, true);
	else
		put_tip(g, next);
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
		ipt_ptgen_put_psb(g, ip, tsc);
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

void ipt_ptgen_seam(struct ipt_ptgen *g, bool enabled, uint64_t others)
{
	put_tnt(g);
	if (g->n_out)
		ipt_ptgen_give(g);
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
