/* SPDX-License-Identifier: MIT */
/*
 * Bytes to one packet. Pure; knows nothing of IP expansion (lastip.c) or of finding PSBs (psb.c).
 * Layouts: SDM vol. 3C, "Packet Definitions".
 */
#include "pt/pt.h"

#define OPC_EXT 0x02

static uint64_t get_le(const uint8_t *p, unsigned int n_bytes)
{
	uint64_t v = 0;

	memcpy(&v, p, n_bytes);
	return v;
}

static int done(struct ipt_pkt *pkt, enum ipt_pkt_kind kind, unsigned int len)
{
	pkt->kind = kind;
	pkt->len = (uint8_t)len;
	return 0;
}

/* The highest set bit of @v is the stop bit; the branches are below it. */
static int set_tnt(struct ipt_pkt *pkt, uint64_t v)
{
	unsigned int n_bits;

	if (!v)
		return -IPT_E_BADPKT;
	n_bits = 63 - (unsigned int)__builtin_clzll(v);
	pkt->tnt.n_bits = (uint8_t)n_bits;
	pkt->tnt.bits = v & ~(1ull << n_bits);
	return 0;
}

static int dec_ip(struct ipt_pkt *pkt, enum ipt_pkt_kind kind, const uint8_t *p, size_t n)
{
	static const uint8_t sizes[8] = {0, 2, 4, 6, 6, 0xff, 8, 0xff};
	unsigned int ipc = p[0] >> 5, size = sizes[ipc];

	if (size == 0xff)
		return -IPT_E_BADPKT;
	if (n < 1 + size)
		return -IPT_E_TRUNC;
	pkt->ip.ipc = (enum ipt_ipc)ipc;
	pkt->ip.ip = get_le(p + 1, size);
	return done(pkt, kind, 1 + size);
}

static int dec_mode(struct ipt_pkt *pkt, const uint8_t *p, size_t n)
{
	if (n < 2)
		return -IPT_E_TRUNC;
	switch (p[1] >> 5) {
	case 0:
		pkt->mode_exec.cs_l = p[1] & 1;
		pkt->mode_exec.cs_d = p[1] >> 1 & 1;
		pkt->mode_exec.iflag = p[1] >> 2 & 1;
		return done(pkt, IPT_PKT_MODE_EXEC, 2);
	case 1:
		pkt->mode_tsx.intx = p[1] & 1;
		pkt->mode_tsx.abrt = p[1] >> 1 & 1;
		return done(pkt, IPT_PKT_MODE_TSX, 2);
	default: return -IPT_E_BADPKT;
	}
}

/* SDM allows up to 15 bytes; a value that does not fit 64 bits is no time any CPU counts to. */
static int dec_cyc(struct ipt_pkt *pkt, const uint8_t *p, size_t n)
{
	uint64_t v = p[0] >> 3;
	bool more = p[0] >> 2 & 1;
	unsigned int i = 1, shift = 5;

	for (; more; i++, shift += 7) {
		uint64_t part;

		if (i >= 15)
			return -IPT_E_BADPKT;
		if (i >= n)
			return -IPT_E_TRUNC;
		part = p[i] >> 1;
		more = p[i] & 1;
		if (shift >= 64 ? part != 0 : (part << shift) >> shift != part)
			return -IPT_E_BADPKT;
		if (shift < 64)
			v |= part << shift;
	}
	pkt->cyc = v;
	return done(pkt, IPT_PKT_CYC, i);
}

static int dec_psb(struct ipt_pkt *pkt, const uint8_t *p, size_t n)
{
	for (size_t i = 2; i < 16; i++) {
		if (i >= n)
			return -IPT_E_TRUNC;
		if (p[i] != (i & 1 ? 0x82 : 0x02))
			return -IPT_E_BADPKT;
	}
	return done(pkt, IPT_PKT_PSB, 16);
}

static int dec_mnt(struct ipt_pkt *pkt, const uint8_t *p, size_t n)
{
	if (n < 3)
		return -IPT_E_TRUNC;
	if (p[2] != 0x88)
		return -IPT_E_BADPKT;
	if (n < 11)
		return -IPT_E_TRUNC;
	pkt->mnt = get_le(p + 3, 8);
	return done(pkt, IPT_PKT_MNT, 11);
}

/* Opcode bits 6:5 are the payload's size, bit 7 tells of a FUP. */
static int dec_ptw(struct ipt_pkt *pkt, const uint8_t *p, size_t n)
{
	unsigned int plc = p[1] >> 5 & 3, size = plc ? 8 : 4;

	if (plc > 1)
		return -IPT_E_BADPKT;
	if (n < 2 + size)
		return -IPT_E_TRUNC;
	pkt->ptw.payload = get_le(p + 2, size);
	pkt->ptw.size = (uint8_t)size;
	pkt->ptw.ip = p[1] >> 7;
	return done(pkt, IPT_PKT_PTW, 2 + size);
}

/* Extended opcodes of a fixed size: second byte, kind, bytes of the whole packet. */
static bool ext_fixed(uint8_t opc, enum ipt_pkt_kind *kind, unsigned int *len)
{
	switch (opc) {
	case 0x03: *kind = IPT_PKT_CBR, *len = 4; return true;
	case 0x13: *kind = IPT_PKT_CFE, *len = 4; return true;
	case 0x22: *kind = IPT_PKT_PWRE, *len = 4; return true;
	case 0x23: *kind = IPT_PKT_PSBEND, *len = 2; return true;
	case 0x33:
	case 0xb3: *kind = IPT_PKT_BEP, *len = 2; return true;
	case 0x43: *kind = IPT_PKT_PIP, *len = 8; return true;
	case 0x53: *kind = IPT_PKT_EVD, *len = 11; return true;
	case 0x62:
	case 0xe2: *kind = IPT_PKT_EXSTOP, *len = 2; return true;
	case 0x63: *kind = IPT_PKT_BBP, *len = 3; return true;
	case 0x73: *kind = IPT_PKT_TMA, *len = 7; return true;
	case 0x83: *kind = IPT_PKT_STOP, *len = 2; return true;
	case 0xa2: *kind = IPT_PKT_PWRX, *len = 7; return true;
	case 0xa3: *kind = IPT_PKT_TNT64, *len = 8; return true;
	case 0xc2: *kind = IPT_PKT_MWAIT, *len = 10; return true;
	case 0xc8: *kind = IPT_PKT_VMCS, *len = 7; return true;
	case 0xf3: *kind = IPT_PKT_OVF, *len = 2; return true;
	default: return false;
	}
}

static void ext_power(struct ipt_pkt *pkt, const uint8_t *p)
{
	switch ((int)pkt->kind) {
	case IPT_PKT_MWAIT:
		pkt->mwait.hints = (uint32_t)get_le(p + 2, 4);
		pkt->mwait.ext = (uint32_t)get_le(p + 6, 4);
		break;
	case IPT_PKT_PWRE:
		pkt->pwre.hw = p[2] >> 7;
		pkt->pwre.state = p[3] >> 4;
		pkt->pwre.sub_state = p[3] & 0xf;
		break;
	case IPT_PKT_PWRX:
		pkt->pwrx.last = p[2] >> 4;
		pkt->pwrx.deepest = p[2] & 0xf;
		pkt->pwrx.wake = p[3] & 0xf;
		break;
	case IPT_PKT_EXSTOP: pkt->exstop.ip = p[1] >> 7; break;
	default: break;
	}
}

static void ext_block(struct ipt_pkt *pkt, const uint8_t *p)
{
	switch ((int)pkt->kind) {
	case IPT_PKT_CFE:
		pkt->cfe.ip = p[2] >> 7;
		pkt->cfe.type = p[2] & 0x1f;
		pkt->cfe.vector = p[3];
		break;
	case IPT_PKT_EVD: /* the packet has no IP bit: evd.ip stays false */
		pkt->evd.type = p[2] & 0x3f;
		pkt->evd.payload = get_le(p + 3, 8);
		break;
	case IPT_PKT_BBP:
		pkt->bbp.sz = p[2] >> 7;
		pkt->bbp.type = p[2] & 0x1f;
		break;
	case IPT_PKT_BEP: pkt->bep.ip = p[1] >> 7; break;
	default: ext_power(pkt, p); break;
	}
}

static int dec_ext(struct ipt_pkt *pkt, const uint8_t *p, size_t n)
{
	enum ipt_pkt_kind kind;
	unsigned int len;

	if (n < 2)
		return -IPT_E_TRUNC;
	if (p[1] == 0x82)
		return dec_psb(pkt, p, n);
	if (p[1] == 0xc3)
		return dec_mnt(pkt, p, n);
	if ((p[1] & 0x1f) == 0x12)
		return dec_ptw(pkt, p, n);
	if (!ext_fixed(p[1], &kind, &len))
		return -IPT_E_BADPKT;
	if (n < len)
		return -IPT_E_TRUNC;
	done(pkt, kind, len);
	switch ((int)kind) {
	case IPT_PKT_TNT64: return set_tnt(pkt, get_le(p + 2, 6));
	case IPT_PKT_PIP:
		pkt->pip.nr = p[2] & 1;
		pkt->pip.cr3 = get_le(p + 2, 6) >> 1 << 5;
		break;
	case IPT_PKT_CBR: pkt->cbr = p[2]; break;
	case IPT_PKT_TMA:
		pkt->tma.ctc = (uint16_t)get_le(p + 2, 2);
		pkt->tma.fc = get_le(p + 5, 2) & 0x1ff;
		break;
	case IPT_PKT_VMCS: pkt->vmcs = get_le(p + 2, 5) << 12; break;
	default: ext_block(pkt, p); break;
	}
	return 0;
}

static int dec_bip(struct ipt_pkt *pkt, const uint8_t *p, size_t n, unsigned int size)
{
	if (n < 1 + size)
		return -IPT_E_TRUNC;
	pkt->bip.id = p[0] >> 3;
	pkt->bip.size = (uint8_t)size;
	pkt->bip.payload = get_le(p + 1, size);
	return done(pkt, IPT_PKT_BIP, 1 + size);
}

static int dec_even(struct ipt_pkt *pkt, const uint8_t *p, size_t n, const struct ipt_pkt_ctx *ctx)
{
	if (ctx->in_block && (p[0] & 7) == 4)
		return dec_bip(pkt, p, n, ctx->block_item_size == 4 ? 4 : 8);
	if (p[0] == OPC_EXT)
		return dec_ext(pkt, p, n);
	if (!p[0])
		return done(pkt, IPT_PKT_PAD, 1);
	done(pkt, IPT_PKT_TNT, 1);
	return set_tnt(pkt, p[0] >> 1);
}

static int dec_odd(struct ipt_pkt *pkt, const uint8_t *p, size_t n)
{
	if (p[0] & 2)
		return dec_cyc(pkt, p, n);
	switch (p[0] & 0x1f) {
	case 0x01: return dec_ip(pkt, IPT_PKT_TIP_PGD, p, n);
	case 0x0d: return dec_ip(pkt, IPT_PKT_TIP, p, n);
	case 0x11: return dec_ip(pkt, IPT_PKT_TIP_PGE, p, n);
	case 0x1d: return dec_ip(pkt, IPT_PKT_FUP, p, n);
	default: break;
	}
	switch (p[0]) {
	case 0x19:
		if (n < 8)
			return -IPT_E_TRUNC;
		pkt->tsc = get_le(p + 1, 7);
		return done(pkt, IPT_PKT_TSC, 8);
	case 0x59:
		if (n < 2)
			return -IPT_E_TRUNC;
		pkt->mtc = p[1];
		return done(pkt, IPT_PKT_MTC, 2);
	case 0x99: return dec_mode(pkt, p, n);
	default: return -IPT_E_BADPKT;
	}
}

/* A block ends at BEP; when it is cut short, with the first packet that cannot be inside one.
 * SDM "Block Begin Packet (BBP)". */
static void update_ctx(struct ipt_pkt_ctx *ctx, const struct ipt_pkt *pkt)
{
	switch (pkt->kind) {
	case IPT_PKT_BBP:
		ctx->in_block = true;
		ctx->block_item_size = pkt->bbp.sz ? 4 : 8;
		break;
	case IPT_PKT_BEP:
	case IPT_PKT_PSB:
	case IPT_PKT_PSBEND:
	case IPT_PKT_TNT:
	case IPT_PKT_TNT64:
	case IPT_PKT_TIP:
	case IPT_PKT_TIP_PGE:
	case IPT_PKT_TIP_PGD:
	case IPT_PKT_MODE_EXEC:
	case IPT_PKT_MODE_TSX:
	case IPT_PKT_PIP:
	case IPT_PKT_OVF:
	case IPT_PKT_VMCS:
	case IPT_PKT_STOP:
	case IPT_PKT_PTW:
	case IPT_PKT_MWAIT: ctx->in_block = false; break;
	case IPT_PKT_PAD:
	case IPT_PKT_FUP:
	case IPT_PKT_TSC:
	case IPT_PKT_MTC:
	case IPT_PKT_TMA:
	case IPT_PKT_CYC:
	case IPT_PKT_CBR:
	case IPT_PKT_EXSTOP:
	case IPT_PKT_PWRE:
	case IPT_PKT_PWRX:
	case IPT_PKT_MNT:
	case IPT_PKT_CFE:
	case IPT_PKT_EVD:
	case IPT_PKT_BIP:
	case IPT_PKT_N_KINDS: break;
	}
}

int ipt_pkt_decode(struct ipt_pkt *pkt, const uint8_t *p, size_t n, struct ipt_pkt_ctx *ctx)
{
	struct ipt_pkt k;
	int err;

	if (!n)
		return -IPT_E_EOS;
	memset(&k, 0, sizeof(k));
	err = p[0] & 1 ? dec_odd(&k, p, n) : dec_even(&k, p, n, ctx);
	if (err)
		return err;
	if (ctx->in_block || k.kind == IPT_PKT_BBP)
		update_ctx(ctx, &k);
	*pkt = k;
	return 0;
}
