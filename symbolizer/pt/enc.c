/* SPDX-License-Identifier: MIT */
/* One packet to bytes. Pure. The inverse of dec.c; layouts: SDM vol. 3C, "Packet Definitions". */
#include <errno.h>

#include "pt/pt.h"

static int put_le(uint8_t *p, uint64_t v, unsigned int n_bytes)
{
	memcpy(p, &v, n_bytes);
	return (int)n_bytes;
}

/* Two opcode bytes and a payload. Returns the packet's size. */
static int put_ext(uint8_t *p, uint8_t opc, uint64_t payload, unsigned int n_bytes)
{
	p[0] = 0x02;
	p[1] = opc;
	return 2 + put_le(p + 2, payload, n_bytes);
}

static int put_op(uint8_t *p, uint8_t opc, uint64_t payload, unsigned int n_bytes)
{
	p[0] = opc;
	return 1 + put_le(p + 1, payload, n_bytes);
}

static int enc_tnt(uint8_t *p, const struct ipt_pkt *pkt)
{
	uint64_t stop = 1ull << (pkt->tnt.n_bits & 63);
	bool is_long = pkt->kind == IPT_PKT_TNT64;

	if (pkt->tnt.n_bits > (is_long ? 47 : 6) || pkt->tnt.bits >= stop)
		return -EINVAL;
	if (is_long)
		return put_ext(p, 0xa3, pkt->tnt.bits | stop, 6);
	if (!pkt->tnt.n_bits)
		return -EINVAL;
	p[0] = (uint8_t)((pkt->tnt.bits | stop) << 1);
	return 1;
}

static int enc_ip(uint8_t *p, uint8_t opc, const struct ipt_pkt *pkt)
{
	static const uint8_t sizes[8] = {0, 2, 4, 6, 6, 0xff, 8, 0xff};
	unsigned int ipc = pkt->ip.ipc, size = ipc < 8 ? sizes[ipc] : 0xff;

	if (size == 0xff || (size < 8 && pkt->ip.ip >> (8 * size)))
		return -EINVAL;
	return put_op(p, (uint8_t)(opc | ipc << 5), pkt->ip.ip, size);
}

static int enc_cyc(uint8_t *p, uint64_t v)
{
	int n = 1;

	p[0] = (uint8_t)((v & 0x1f) << 3 | 3);
	v >>= 5;
	if (v)
		p[0] |= 4;
	while (v) {
		p[n] = (uint8_t)((v & 0x7f) << 1);
		v >>= 7;
		if (v)
			p[n] |= 1;
		n++;
	}
	return n;
}

static int enc_psb(uint8_t *p)
{
	for (int i = 0; i < 16; i++)
		p[i] = i & 1 ? 0x82 : 0x02;
	return 16;
}

static int enc_mnt(uint8_t *p, uint64_t v)
{
	put_ext(p, 0xc3, 0x88, 1);
	return 3 + put_le(p + 3, v, 8);
}

static int enc_ptw(uint8_t *p, const struct ipt_pkt *pkt)
{
	unsigned int size = pkt->ptw.size;

	if ((size != 4 && size != 8) || (size == 4 && pkt->ptw.payload >> 32))
		return -EINVAL;
	return put_ext(p, (uint8_t)(0x12 | (size == 8) << 5 | pkt->ptw.ip << 7), pkt->ptw.payload,
		       size);
}

static int enc_bip(uint8_t *p, const struct ipt_pkt *pkt)
{
	unsigned int size = pkt->bip.size;

	if ((size != 4 && size != 8) || (size == 4 && pkt->bip.payload >> 32) || pkt->bip.id > 0x1f)
		return -EINVAL;
	return put_op(p, (uint8_t)(pkt->bip.id << 3 | 4), pkt->bip.payload, size);
}

static int enc_mode(uint8_t *p, const struct ipt_pkt *pkt)
{
	if (pkt->kind == IPT_PKT_MODE_TSX)
		return put_op(p, 0x99, 0x20u | pkt->mode_tsx.intx | pkt->mode_tsx.abrt << 1, 1);
	return put_op(p, 0x99,
		      pkt->mode_exec.cs_l | pkt->mode_exec.cs_d << 1 | pkt->mode_exec.iflag << 2,
		      1);
}

static int enc_evd(uint8_t *p, const struct ipt_pkt *pkt)
{
	if (pkt->evd.type > 0x3f || pkt->evd.ip)
		return -EINVAL;
	put_ext(p, 0x53, pkt->evd.type, 1);
	return 3 + put_le(p + 3, pkt->evd.payload, 8);
}

static int enc_power(uint8_t *p, const struct ipt_pkt *pkt)
{
	switch ((int)pkt->kind) {
	case IPT_PKT_EXSTOP: return put_ext(p, (uint8_t)(0x62 | pkt->exstop.ip << 7), 0, 0);
	case IPT_PKT_MWAIT:
		return put_ext(p, 0xc2, pkt->mwait.hints | (uint64_t)pkt->mwait.ext << 32, 8);
	case IPT_PKT_PWRE:
		if (pkt->pwre.state > 0xf || pkt->pwre.sub_state > 0xf)
			return -EINVAL;
		return put_ext(p, 0x22,
			       (uint64_t)(pkt->pwre.hw << 7 | pkt->pwre.state << 12 |
					  pkt->pwre.sub_state << 8),
			       2);
	case IPT_PKT_PWRX:
		if (pkt->pwrx.last > 0xf || pkt->pwrx.deepest > 0xf || pkt->pwrx.wake > 0xf)
			return -EINVAL;
		return put_ext(
			p, 0xa2,
			(uint64_t)(pkt->pwrx.last << 4 | pkt->pwrx.deepest | pkt->pwrx.wake << 8),
			5);
	default: return -EINVAL;
	}
}

static int enc_block(uint8_t *p, const struct ipt_pkt *pkt)
{
	switch ((int)pkt->kind) {
	case IPT_PKT_CFE:
		if (pkt->cfe.type > 0x1f)
			return -EINVAL;
		return put_ext(p, 0x13,
			       (uint64_t)(pkt->cfe.ip << 7 | pkt->cfe.type | pkt->cfe.vector << 8),
			       2);
	case IPT_PKT_EVD: return enc_evd(p, pkt);
	case IPT_PKT_BBP:
		if (pkt->bbp.type > 0x1f)
			return -EINVAL;
		return put_ext(p, 0x63, (uint64_t)(pkt->bbp.sz << 7 | pkt->bbp.type), 1);
	case IPT_PKT_BIP: return enc_bip(p, pkt);
	case IPT_PKT_BEP: return put_ext(p, (uint8_t)(0x33 | pkt->bep.ip << 7), 0, 0);
	default: return enc_power(p, pkt);
	}
}

static int enc_context(uint8_t *p, const struct ipt_pkt *pkt)
{
	switch ((int)pkt->kind) {
	case IPT_PKT_PIP:
		if (pkt->pip.cr3 & 0x1f || pkt->pip.cr3 >> 52)
			return -EINVAL;
		return put_ext(p, 0x43, pkt->pip.cr3 >> 5 << 1 | pkt->pip.nr, 6);
	case IPT_PKT_VMCS:
		if (pkt->vmcs & 0xfff || pkt->vmcs >> 52)
			return -EINVAL;
		return put_ext(p, 0xc8, pkt->vmcs >> 12, 5);
	case IPT_PKT_TSC: return pkt->tsc >> 56 ? -EINVAL : put_op(p, 0x19, pkt->tsc, 7);
	case IPT_PKT_TMA:
		if (pkt->tma.fc > 0x1ff)
			return -EINVAL;
		return put_ext(p, 0x73, pkt->tma.ctc | (uint64_t)pkt->tma.fc << 24, 5);
	case IPT_PKT_MTC: return put_op(p, 0x59, pkt->mtc, 1);
	case IPT_PKT_CBR: return put_ext(p, 0x03, pkt->cbr, 2);
	case IPT_PKT_CYC: return enc_cyc(p, pkt->cyc);
	case IPT_PKT_MNT: return enc_mnt(p, pkt->mnt);
	case IPT_PKT_PTW: return enc_ptw(p, pkt);
	default: return enc_block(p, pkt);
	}
}

static int enc_any(uint8_t *p, const struct ipt_pkt *pkt)
{
	switch ((int)pkt->kind) {
	case IPT_PKT_TNT:
	case IPT_PKT_TNT64: return enc_tnt(p, pkt);
	case IPT_PKT_TIP: return enc_ip(p, 0x0d, pkt);
	case IPT_PKT_TIP_PGE: return enc_ip(p, 0x11, pkt);
	case IPT_PKT_TIP_PGD: return enc_ip(p, 0x01, pkt);
	case IPT_PKT_FUP: return enc_ip(p, 0x1d, pkt);
	case IPT_PKT_PAD: p[0] = 0; return 1;
	case IPT_PKT_PSB: return enc_psb(p);
	case IPT_PKT_PSBEND: return put_ext(p, 0x23, 0, 0);
	case IPT_PKT_OVF: return put_ext(p, 0xf3, 0, 0);
	case IPT_PKT_STOP: return put_ext(p, 0x83, 0, 0);
	case IPT_PKT_MODE_EXEC:
	case IPT_PKT_MODE_TSX: return enc_mode(p, pkt);
	default: return enc_context(p, pkt);
	}
}

int ipt_pkt_encode(uint8_t *out, size_t cap, size_t *len, const struct ipt_pkt *pkt)
{
	uint8_t b[IPT_PKT_MAX];
	int n = enc_any(b, pkt);

	if (n < 0)
		return n;
	if ((size_t)n > cap)
		return -IPT_E_LIMIT;
	memcpy(out, b, (size_t)n);
	*len = (size_t)n;
	return 0;
}
