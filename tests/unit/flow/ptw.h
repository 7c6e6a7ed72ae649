/* SPDX-License-Identifier: MIT */
/* Write PT by hand, packet by packet. */
#ifndef PTW_H
#define PTW_H

#include <check.h>

#include "pt/pt.h"

struct ptw {
	struct ipt_buf b;
	struct ipt_lastip l;
};

static inline uint64_t ptw_put(struct ptw *w, const struct ipt_pkt *pkt)
{
	uint64_t at = w->b.len;
	size_t n = 0;

	ck_assert_int_eq(ipt_pkt_encode(ipt_buf_reserve(&w->b, IPT_PKT_MAX), IPT_PKT_MAX, &n, pkt),
			 0);
	w->b.len += n;
	return at;
}

static inline uint64_t ptw_kind(struct ptw *w, enum ipt_pkt_kind kind)
{
	struct ipt_pkt p = {.kind = kind};

	return ptw_put(w, &p);
}

static inline uint64_t ptw_ip(struct ptw *w, enum ipt_pkt_kind kind, uint64_t ip)
{
	struct ipt_pkt p = {.kind = kind};

	p.ip.ipc = ipt_lastip_compress(&w->l, ip, &p.ip.ip);
	return ptw_put(w, &p);
}

/* TIP.PGD without IP: the kernel was entered. */
static inline uint64_t ptw_pgd(struct ptw *w)
{
	struct ipt_pkt p = {.kind = IPT_PKT_TIP_PGD};

	p.ip.ipc = IPT_IPC_SUPPRESSED;
	return ptw_put(w, &p);
}

static inline uint64_t ptw_tsc(struct ptw *w, uint64_t tsc)
{
	struct ipt_pkt p = {.kind = IPT_PKT_TSC, .tsc = tsc};

	return ptw_put(w, &p);
}

static inline uint64_t ptw_tnt(struct ptw *w, uint64_t bits, uint8_t n)
{
	struct ipt_pkt p = {.kind = IPT_PKT_TNT};

	p.tnt.bits = bits;
	p.tnt.n_bits = n;
	return ptw_put(w, &p);
}

/* PSB+ while tracing is off. */
static inline uint64_t ptw_psb(struct ptw *w)
{
	uint64_t at = ptw_kind(w, IPT_PKT_PSB);

	ipt_lastip_reset(&w->l);
	ptw_kind(w, IPT_PKT_PSBEND);
	return at;
}

/* MODE.Exec of 64-bit code, then TIP.PGE. */
static inline uint64_t ptw_pge(struct ptw *w, uint64_t ip)
{
	struct ipt_pkt p = {.kind = IPT_PKT_MODE_EXEC};

	p.mode_exec.cs_l = true;
	ptw_put(w, &p);
	return ptw_ip(w, IPT_PKT_TIP_PGE, ip);
}

#endif
