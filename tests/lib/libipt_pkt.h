/* SPDX-License-Identifier: MIT */
/* Our packets as libipt's and random packets: the bridge of the tests that compare the two. */
#ifndef LIBIPT_PKT_H
#define LIBIPT_PKT_H

#include <intel-pt.h>
#include <stdlib.h>

#include "pt/pt.h"

static inline uint64_t rnd(uint64_t *s)
{
	*s ^= *s << 13;
	*s ^= *s >> 7;
	*s ^= *s << 17;
	return *s * 0x2545f4914f6cdd1dull;
}

/* A number of a random count of bits up to @bits, so that small ones are seen too. */
static inline uint64_t rnd_bits(uint64_t *s, unsigned int bits)
{
	unsigned int n = (unsigned int)(rnd(s) >> 33) % (bits + 1);

	return n ? rnd(s) >> (64 - n) : 0;
}

static inline void lp_ip(struct pt_packet *o, enum pt_packet_type type, const struct ipt_pkt *k)
{
	o->type = type;
	o->payload.ip.ipc = (enum pt_ip_compression)k->ip.ipc;
	o->payload.ip.ip = k->ip.ip;
}

static inline void lp_tnt(struct pt_packet *o, enum pt_packet_type type, const struct ipt_pkt *k)
{
	o->type = type;
	o->payload.tnt.bit_size = k->tnt.n_bits;
	o->payload.tnt.payload = k->tnt.bits;
}

static inline bool lp_power(struct pt_packet *o, const struct ipt_pkt *k)
{
	switch ((int)k->kind) {
	case IPT_PKT_EXSTOP:
		o->type = ppt_exstop;
		o->payload.exstop.ip = k->exstop.ip;
		return true;
	case IPT_PKT_MWAIT:
		o->type = ppt_mwait;
		o->payload.mwait.hints = k->mwait.hints;
		o->payload.mwait.ext = k->mwait.ext;
		return true;
	case IPT_PKT_PWRE:
		o->type = ppt_pwre;
		o->payload.pwre.state = k->pwre.state;
		o->payload.pwre.sub_state = k->pwre.sub_state;
		o->payload.pwre.hw = k->pwre.hw;
		return true;
	case IPT_PKT_PWRX:
		o->type = ppt_pwrx;
		o->payload.pwrx.last = k->pwrx.last;
		o->payload.pwrx.deepest = k->pwrx.deepest;
		o->payload.pwrx.interrupt = k->pwrx.wake & 1;
		o->payload.pwrx.store = k->pwrx.wake >> 2 & 1;
		o->payload.pwrx.autonomous = k->pwrx.wake >> 3 & 1;
		return true;
	case IPT_PKT_PTW:
		o->type = ppt_ptw;
		o->payload.ptw.payload = k->ptw.payload;
		o->payload.ptw.plc = k->ptw.size == 8;
		o->payload.ptw.ip = k->ptw.ip;
		return true;
	default: return false;
	}
}

static inline bool lp_value(struct pt_packet *o, const struct ipt_pkt *k)
{
	switch ((int)k->kind) {
	case IPT_PKT_PIP:
		o->type = ppt_pip;
		o->payload.pip.cr3 = k->pip.cr3;
		o->payload.pip.nr = k->pip.nr;
		return true;
	case IPT_PKT_MODE_EXEC:
		o->type = ppt_mode;
		o->payload.mode.leaf = pt_mol_exec;
		o->payload.mode.bits.exec.csl = k->mode_exec.cs_l;
		o->payload.mode.bits.exec.csd = k->mode_exec.cs_d;
		return true;
	case IPT_PKT_MODE_TSX:
		o->type = ppt_mode;
		o->payload.mode.leaf = pt_mol_tsx;
		o->payload.mode.bits.tsx.intx = k->mode_tsx.intx;
		o->payload.mode.bits.tsx.abrt = k->mode_tsx.abrt;
		return true;
	case IPT_PKT_TSC: o->type = ppt_tsc, o->payload.tsc.tsc = k->tsc; return true;
	case IPT_PKT_MTC: o->type = ppt_mtc, o->payload.mtc.ctc = k->mtc; return true;
	case IPT_PKT_TMA:
		o->type = ppt_tma;
		o->payload.tma.ctc = k->tma.ctc;
		o->payload.tma.fc = k->tma.fc;
		return true;
	case IPT_PKT_CYC: o->type = ppt_cyc, o->payload.cyc.value = k->cyc; return true;
	case IPT_PKT_CBR: o->type = ppt_cbr, o->payload.cbr.ratio = k->cbr; return true;
	case IPT_PKT_VMCS: o->type = ppt_vmcs, o->payload.vmcs.base = k->vmcs; return true;
	case IPT_PKT_MNT: o->type = ppt_mnt, o->payload.mnt.payload = k->mnt; return true;
	default: return lp_power(o, k);
	}
}

/* False for the kinds libipt does not know. */
static inline bool lp_from(struct pt_packet *o, const struct ipt_pkt *k)
{
	memset(o, 0, sizeof(*o));
	o->size = k->len;
	switch ((int)k->kind) {
	case IPT_PKT_PAD: o->type = ppt_pad; return true;
	case IPT_PKT_PSB: o->type = ppt_psb; return true;
	case IPT_PKT_PSBEND: o->type = ppt_psbend; return true;
	case IPT_PKT_OVF: o->type = ppt_ovf; return true;
	case IPT_PKT_STOP: o->type = ppt_stop; return true;
	case IPT_PKT_TNT: lp_tnt(o, ppt_tnt_8, k); return true;
	case IPT_PKT_TNT64: lp_tnt(o, ppt_tnt_64, k); return true;
	case IPT_PKT_TIP: lp_ip(o, ppt_tip, k); return true;
	case IPT_PKT_TIP_PGE: lp_ip(o, ppt_tip_pge, k); return true;
	case IPT_PKT_TIP_PGD: lp_ip(o, ppt_tip_pgd, k); return true;
	case IPT_PKT_FUP: lp_ip(o, ppt_fup, k); return true;
	default: return lp_value(o, k);
	}
}

/* libipt's packet at @p: bytes used, or its negative code. */
static inline int lp_decode(struct pt_packet *o, const uint8_t *p, size_t n)
{
	struct pt_packet_decoder *d;
	struct pt_config cfg;
	int r;

	memset(o, 0, sizeof(*o));
	pt_config_init(&cfg);
	cfg.begin = (uint8_t *)(uintptr_t)p;
	cfg.end = cfg.begin + n;
	d = pt_pkt_alloc_decoder(&cfg);
	if (!d)
		return -pte_nomem;
	r = pt_pkt_sync_set(d, 0);
	if (r >= 0)
		r = pt_pkt_next(d, o, sizeof(*o));
	pt_pkt_free_decoder(d);
	return r;
}

static inline int lp_encode(uint8_t *p, size_t n, const struct pt_packet *k)
{
	struct pt_encoder *e;
	struct pt_config cfg;
	int r;

	pt_config_init(&cfg);
	cfg.begin = p;
	cfg.end = p + n;
	e = pt_alloc_encoder(&cfg);
	if (!e)
		return -pte_nomem;
	r = pt_enc_next(e, k);
	pt_free_encoder(e);
	return r;
}

static inline void rnd_ip(struct ipt_pkt *k, uint64_t *s)
{
	static const enum ipt_ipc ipcs[] = {IPT_IPC_SUPPRESSED, IPT_IPC_UPDATE16, IPT_IPC_UPDATE32,
					    IPT_IPC_SEXT48,     IPT_IPC_UPDATE48, IPT_IPC_FULL};
	static const uint8_t bits[] = {0, 16, 32, 48, 48, 0, 64};

	k->ip.ipc = ipcs[(rnd(s) >> 40) % IPT_ARRAY_SIZE(ipcs)];
	k->ip.ip = rnd_bits(s, bits[k->ip.ipc]);
}

static inline void rnd_tnt(struct ipt_pkt *k, uint64_t *s, unsigned int max)
{
	k->tnt.n_bits = (uint8_t)(1 + (rnd(s) >> 40) % max);
	k->tnt.bits = rnd(s) >> (64 - k->tnt.n_bits);
}

static inline void rnd_new(struct ipt_pkt *k, uint64_t *s)
{
	switch ((int)k->kind) {
	case IPT_PKT_CFE:
		k->cfe.ip = rnd_bits(s, 1);
		k->cfe.type = (uint8_t)rnd_bits(s, 5);
		k->cfe.vector = (uint8_t)rnd_bits(s, 8);
		break;
	case IPT_PKT_EVD:
		k->evd.type = (uint8_t)rnd_bits(s, 6);
		k->evd.payload = rnd_bits(s, 64);
		break;
	case IPT_PKT_BBP:
		k->bbp.sz = rnd_bits(s, 1);
		k->bbp.type = (uint8_t)rnd_bits(s, 5);
		break;
	case IPT_PKT_BIP:
		k->bip.size = rnd_bits(s, 1) ? 4 : 8;
		k->bip.id = (uint8_t)rnd_bits(s, 5);
		k->bip.payload = rnd_bits(s, k->bip.size * 8u);
		break;
	case IPT_PKT_BEP: k->bep.ip = rnd_bits(s, 1); break;
	default: break;
	}
}

static inline void rnd_power(struct ipt_pkt *k, uint64_t *s)
{
	switch ((int)k->kind) {
	case IPT_PKT_EXSTOP: k->exstop.ip = rnd_bits(s, 1); break;
	case IPT_PKT_MWAIT:
		k->mwait.hints = (uint32_t)rnd_bits(s, 32);
		k->mwait.ext = (uint32_t)rnd_bits(s, 32);
		break;
	case IPT_PKT_PWRE:
		k->pwre.hw = rnd_bits(s, 1);
		k->pwre.state = (uint8_t)rnd_bits(s, 4);
		k->pwre.sub_state = (uint8_t)rnd_bits(s, 4);
		break;
	case IPT_PKT_PWRX: /* wake bit 1 is reserved */
		k->pwrx.last = (uint8_t)rnd_bits(s, 4);
		k->pwrx.deepest = (uint8_t)rnd_bits(s, 4);
		k->pwrx.wake = rnd_bits(s, 4) & 0xd;
		break;
	case IPT_PKT_PTW:
		k->ptw.size = rnd_bits(s, 1) ? 4 : 8;
		k->ptw.ip = rnd_bits(s, 1);
		k->ptw.payload = rnd_bits(s, k->ptw.size * 8u);
		break;
	default: rnd_new(k, s); break;
	}
}

/* A packet of @kind with random legal fields; len is not set. */
static inline void rnd_pkt(struct ipt_pkt *k, enum ipt_pkt_kind kind, uint64_t *s)
{
	memset(k, 0, sizeof(*k));
	k->kind = kind;
	switch ((int)kind) {
	case IPT_PKT_TNT: rnd_tnt(k, s, 6); break;
	case IPT_PKT_TNT64: rnd_tnt(k, s, 47); break;
	case IPT_PKT_TIP:
	case IPT_PKT_TIP_PGE:
	case IPT_PKT_TIP_PGD:
	case IPT_PKT_FUP: rnd_ip(k, s); break;
	case IPT_PKT_PIP:
		k->pip.cr3 = rnd_bits(s, 47) << 5;
		k->pip.nr = rnd_bits(s, 1);
		break;
	case IPT_PKT_MODE_EXEC:
		k->mode_exec.cs_l = rnd_bits(s, 1);
		k->mode_exec.cs_d = !k->mode_exec.cs_l && rnd_bits(s, 1);
		break;
	case IPT_PKT_MODE_TSX:
		k->mode_tsx.intx = rnd_bits(s, 1);
		k->mode_tsx.abrt = !k->mode_tsx.intx && rnd_bits(s, 1);
		break;
	case IPT_PKT_TSC: k->tsc = rnd_bits(s, 56); break;
	case IPT_PKT_MTC: k->mtc = (uint8_t)rnd_bits(s, 8); break;
	case IPT_PKT_TMA:
		k->tma.ctc = (uint16_t)rnd_bits(s, 16);
		k->tma.fc = (uint16_t)rnd_bits(s, 9);
		break;
	case IPT_PKT_CYC: k->cyc = rnd_bits(s, 64); break;
	case IPT_PKT_CBR: k->cbr = (uint8_t)rnd_bits(s, 8); break;
	case IPT_PKT_VMCS: k->vmcs = rnd_bits(s, 40) << 12; break;
	case IPT_PKT_MNT: k->mnt = rnd_bits(s, 64); break;
	default: rnd_power(k, s); break;
	}
}

#endif
