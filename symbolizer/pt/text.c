/* SPDX-License-Identifier: MIT */
/* Packets as text: one line each. */
#include <inttypes.h>

#include "pt/pt.h"

const char *ipt_pkt_name(enum ipt_pkt_kind kind)
{
	static const char *const names[IPT_PKT_N_KINDS] = {
#define IPT_PKT(kind, name) name,
#include "pt/packets.def"
#undef IPT_PKT
	};

	return (unsigned int)kind < IPT_PKT_N_KINDS ? names[kind] : "?";
}

static void text_tnt(struct ipt_buf *out, const struct ipt_pkt *pkt)
{
	ipt_buf_u8(out, ' ');
	for (unsigned int i = pkt->tnt.n_bits; i-- > 0;)
		ipt_buf_u8(out, pkt->tnt.bits >> i & 1 ? 'T' : 'N');
	ipt_buf_printf(out, " (%u)", pkt->tnt.n_bits);
}

static void text_mode(struct ipt_buf *out, const struct ipt_pkt *pkt)
{
	static const char *const bits[4] = {"16", "64", "32", "?"};

	ipt_buf_printf(out, " %s%s", bits[pkt->mode_exec.cs_l | pkt->mode_exec.cs_d << 1],
		       pkt->mode_exec.iflag ? " IF" : "");
}

static void text_power(struct ipt_buf *out, const struct ipt_pkt *pkt)
{
	switch ((int)pkt->kind) {
	case IPT_PKT_EXSTOP: ipt_buf_str(out, pkt->exstop.ip ? " IP" : ""); break;
	case IPT_PKT_MWAIT:
		ipt_buf_printf(out, " hints 0x%" PRIx32 " ext 0x%" PRIx32, pkt->mwait.hints,
			       pkt->mwait.ext);
		break;
	case IPT_PKT_PWRE:
		ipt_buf_printf(out, " C%u sub %u%s", pkt->pwre.state, pkt->pwre.sub_state,
			       pkt->pwre.hw ? " hw" : "");
		break;
	case IPT_PKT_PWRX:
		ipt_buf_printf(out, " last %u deepest %u wake 0x%x", pkt->pwrx.last,
			       pkt->pwrx.deepest, pkt->pwrx.wake);
		break;
	default: break;
	}
}

static void text_block(struct ipt_buf *out, const struct ipt_pkt *pkt)
{
	switch ((int)pkt->kind) {
	case IPT_PKT_CFE:
		ipt_buf_printf(out, " type 0x%x vector 0x%x%s", pkt->cfe.type, pkt->cfe.vector,
			       pkt->cfe.ip ? " IP" : "");
		break;
	case IPT_PKT_EVD:
		ipt_buf_printf(out, " type 0x%x 0x%" PRIx64, pkt->evd.type, pkt->evd.payload);
		break;
	case IPT_PKT_BBP:
		ipt_buf_printf(out, " type 0x%x items of %u", pkt->bbp.type, pkt->bbp.sz ? 4 : 8);
		break;
	case IPT_PKT_BIP:
		ipt_buf_printf(out, " id 0x%x 0x%" PRIx64, pkt->bip.id, pkt->bip.payload);
		break;
	case IPT_PKT_BEP: ipt_buf_str(out, pkt->bep.ip ? " IP" : ""); break;
	default: text_power(out, pkt); break;
	}
}

static void text_value(struct ipt_buf *out, const struct ipt_pkt *pkt)
{
	switch ((int)pkt->kind) {
	case IPT_PKT_PIP:
		ipt_buf_printf(out, " cr3 0x%" PRIx64 "%s", pkt->pip.cr3, pkt->pip.nr ? " NR" : "");
		break;
	case IPT_PKT_TSC: ipt_buf_printf(out, " 0x%" PRIx64, pkt->tsc); break;
	case IPT_PKT_MTC: ipt_buf_printf(out, " 0x%x", pkt->mtc); break;
	case IPT_PKT_TMA:
		ipt_buf_printf(out, " ctc 0x%x fc 0x%x", pkt->tma.ctc, pkt->tma.fc);
		break;
	case IPT_PKT_CYC: ipt_buf_printf(out, " %" PRIu64, pkt->cyc); break;
	case IPT_PKT_CBR: ipt_buf_printf(out, " %u", pkt->cbr); break;
	case IPT_PKT_VMCS: ipt_buf_printf(out, " 0x%" PRIx64, pkt->vmcs); break;
	case IPT_PKT_MNT: ipt_buf_printf(out, " 0x%" PRIx64, pkt->mnt); break;
	case IPT_PKT_PTW:
		ipt_buf_printf(out, " 0x%" PRIx64 "%s", pkt->ptw.payload, pkt->ptw.ip ? " IP" : "");
		break;
	default: text_block(out, pkt); break;
	}
}

void ipt_pkt_text(struct ipt_buf *out, const struct ipt_pkt *pkt, uint64_t ip)
{
	ipt_buf_str(out, ipt_pkt_name(pkt->kind));
	switch ((int)pkt->kind) {
	case IPT_PKT_TNT:
	case IPT_PKT_TNT64: text_tnt(out, pkt); break;
	case IPT_PKT_TIP:
	case IPT_PKT_TIP_PGE:
	case IPT_PKT_TIP_PGD:
	case IPT_PKT_FUP:
		if (pkt->ip.ipc == IPT_IPC_SUPPRESSED)
			ipt_buf_str(out, " no ip");
		else
			ipt_buf_printf(out, " 0x%" PRIx64, ip);
		break;
	case IPT_PKT_MODE_EXEC: text_mode(out, pkt); break;
	case IPT_PKT_MODE_TSX:
		ipt_buf_printf(out, " intx %d abrt %d", pkt->mode_tsx.intx, pkt->mode_tsx.abrt);
		break;
	default: text_value(out, pkt); break;
	}
}
