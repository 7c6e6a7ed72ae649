/* SPDX-License-Identifier: MIT */
/*
 * One walk over the packets before a decoder runs: where tracing was switched on and off, packets
 * that libipt does not know, breakpoints that the files do not show, a cut tail.
 */
#include <stdlib.h>

#include "flow/priv.h"

#define MAX_INT3  4096
#define MAX_NOTES 65536

struct walk {
	struct scan *s;
	const struct ipt_code *code;
	size_t pos;
	struct ipt_pkt_ctx ctx;
	struct ipt_lastip lastip;
	enum ipt_xmode mode;
	bool in_psb;
	/* breakpoint inference */
	bool on;         /* a TIP.PGE, and no flow since */
	bool off_silent; /* ... then TIP.PGD without IP and without FUP */
	uint64_t pge_off, pge_ip;
	size_t epoch;
};

uint64_t ipt_flow_before(const uint64_t *v, size_t n, uint64_t off)
{
	size_t lo = 0, hi = n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (v[mid] < off)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo ? v[lo - 1] : UINT64_MAX;
}

uint64_t ipt_flow_from(const uint64_t *v, size_t n, uint64_t off)
{
	size_t lo = 0, hi = n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (v[mid] < off)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < n ? v[lo] : UINT64_MAX;
}

const struct int3 *ipt_flow_int3(const struct scan *s, uint64_t pge_off)
{
	size_t lo = 0, hi = s->int3.n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (s->int3.v[mid].pge_off < pge_off)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < s->int3.n && s->int3.v[lo].pge_off == pge_off ? &s->int3.v[lo] : NULL;
}

static void note(struct scan *s, uint64_t off, const char *text)
{
	struct scan_note *n;

	if (s->notes.n >= MAX_NOTES)
		return;
	n = ipt_vec_push(&s->notes);
	n->off = off;
	snprintf(n->text, sizeof(n->text), "%s", text);
}

/* Left at once without a trace of why, and gone on at the same address: the kernel was entered by
 * the instruction itself. The file has no such instruction there, so a breakpoint was. */
static void infer_int3(struct walk *w, uint64_t ip)
{
	struct scan *s = w->s;
	struct ipt_insn insn;
	uint8_t bytes[IPT_INSN_MAX];
	struct int3 *b;
	char text[120];
	size_t n;

	if (s->int3.n >= MAX_INT3 || !w->code)
		return;
	while (ipt_code_epoch_off(w->code, w->epoch + 1) <= w->pge_off &&
	       w->epoch + 1 < ipt_code_n_epochs(w->code))
		w->epoch++;
	/* Where the sideband tells of a change in between, it knows the code of both times. */
	if (ipt_code_epoch_off(w->code, w->epoch + 1) <= w->pos)
		return;
	n = ipt_code_read_at(w->code, w->epoch, ip, bytes, sizeof(bytes));
	if (!n || ipt_x86_decode(&insn, bytes, n, ip, w->mode))
		return;
	if (insn.iclass == IPT_IC_FAR_CALL || insn.iclass == IPT_IC_FAR_RET ||
	    insn.iclass == IPT_IC_FAR_JMP)
		return;
	b = ipt_vec_push(&s->int3);
	b->pge_off = w->pge_off;
	b->ip = ip;
	snprintf(text, sizeof(text), "breakpoint at 0x%llx that the file does not show",
		 (unsigned long long)ip);
	note(s, w->pge_off, text);
}

static void take_pge(struct walk *w, bool has_ip, uint64_t ip)
{
	if (has_ip && w->off_silent && ip == w->pge_ip)
		infer_int3(w, ip);
	*ipt_vec_push(&w->s->pge) = w->pos;
	w->on = has_ip;
	w->off_silent = false;
	w->pge_off = w->pos;
	w->pge_ip = ip;
}

/* Is the FUP at @pos the source of a branch of its own (TIP after it)? */
static bool fup_has_tip(const struct walk *w, size_t pos)
{
	struct ipt_pkt_ctx ctx = w->ctx;
	struct ipt_pkt pkt;
	bool seen = false;

	for (int i = 0; i < 16; i++) {
		if (ipt_pkt_decode(&pkt, w->s->p + pos, w->s->n - pos, &ctx))
			return false;
		switch (pkt.kind) {
		case IPT_PKT_FUP:
			if (seen)
				return false;
			seen = true;
			break;
		case IPT_PKT_TIP:
		case IPT_PKT_TIP_PGD: return seen;
		case IPT_PKT_TNT:
		case IPT_PKT_TNT64:
		case IPT_PKT_TIP_PGE:
		case IPT_PKT_PSB:
		case IPT_PKT_OVF: return false;
		default: break;
		}
		pos += pkt.len;
	}
	return false;
}

/* PAD takes the packet's place in a copy. One that has a FUP of its own becomes EXSTOP with IP:
 * the FUP then has an owner that libipt knows, and IP compression stays in step. */
static void replace(struct walk *w, const struct ipt_pkt *pkt, bool ip)
{
	struct scan *s = w->s;

	if (!s->copy.data) {
		ipt_buf_append(&s->copy, s->p, s->n);
		s->p = s->copy.data;
	}
	memset(s->copy.data + w->pos, 0, pkt->len);
	if (ip && !fup_has_tip(w, w->pos + pkt->len)) {
		s->copy.data[w->pos] = 0x02;
		s->copy.data[w->pos + 1] = 0xe2;
		*ipt_vec_push(&s->exstop) = w->pos;
	}
}

static void unknown(struct walk *w, const struct ipt_pkt *pkt)
{
	char text[120] = "";
	bool ip = false;

	switch (pkt->kind) {
	case IPT_PKT_CFE:
		ip = pkt->cfe.ip;
		snprintf(text, sizeof(text), "control flow event: type %u, vector %u",
			 pkt->cfe.type, pkt->cfe.vector);
		break;
	case IPT_PKT_EVD:
		ip = pkt->evd.ip;
		snprintf(text, sizeof(text), "event data: type %u, 0x%llx", pkt->evd.type,
			 (unsigned long long)pkt->evd.payload);
		break;
	case IPT_PKT_BEP: ip = pkt->bep.ip; break;
	default: break;
	}
	replace(w, pkt, ip);
	if (text[0])
		note(w->s, w->pos, text);
}

static void take(struct walk *w, const struct ipt_pkt *pkt)
{
	uint64_t ip = 0;
	bool has_ip = false;

	if (pkt->kind == IPT_PKT_TIP || pkt->kind == IPT_PKT_TIP_PGE ||
	    pkt->kind == IPT_PKT_TIP_PGD || pkt->kind == IPT_PKT_FUP)
		has_ip = ipt_lastip_update(&w->lastip, pkt, &ip);
	switch (pkt->kind) {
	case IPT_PKT_PSB:
		ipt_lastip_reset(&w->lastip);
		w->in_psb = true;
		w->s->n_psb++;
		break;
	case IPT_PKT_PSBEND: w->in_psb = false; break;
	case IPT_PKT_OVF: w->on = w->off_silent = w->in_psb = false; break;
	case IPT_PKT_TNT:
	case IPT_PKT_TNT64:
	case IPT_PKT_TIP: w->on = w->off_silent = false; break;
	case IPT_PKT_FUP:
		if (!w->in_psb)
			w->on = w->off_silent = false;
		break;
	case IPT_PKT_TIP_PGD:
		*ipt_vec_push(&w->s->pgd) = w->pos;
		w->off_silent = w->on && !has_ip;
		w->on = false;
		break;
	case IPT_PKT_TIP_PGE: take_pge(w, has_ip, ip); break;
	case IPT_PKT_MODE_EXEC:
		w->mode = pkt->mode_exec.cs_l ? IPT_X64 : pkt->mode_exec.cs_d ? IPT_X32 : IPT_X16;
		break;
	case IPT_PKT_CYC: w->s->has_cyc = true; break;
	case IPT_PKT_MTC: w->s->has_mtc = true; break;
	case IPT_PKT_CFE:
	case IPT_PKT_EVD:
	case IPT_PKT_BBP:
	case IPT_PKT_BIP:
	case IPT_PKT_BEP: unknown(w, pkt); break;
	default: break;
	}
}

static void find_start(struct scan *s)
{
	size_t first = 0;

	if (ipt_psb_next(s->p, s->n, &first)) {
		s->first_psb = UINT64_MAX;
		first = s->n;
	} else {
		s->first_psb = first;
	}
	for (size_t i = 0; i < first && !s->head_data; i++)
		s->head_data = s->p[i] != 0;
}

void ipt_flow_scan(struct scan *s, const uint8_t *p, size_t n, const struct ipt_code *code)
{
	struct walk w = {.s = s, .code = code, .mode = IPT_X64};
	struct ipt_pkt pkt;
	int rc;

	s->p = p;
	s->n = n;
	s->trunc = UINT64_MAX;
	find_start(s);
	if (s->first_psb == UINT64_MAX)
		return;
	for (w.pos = s->first_psb; w.pos < n;) {
		rc = ipt_pkt_decode(&pkt, s->p + w.pos, n - w.pos, &w.ctx);
		if (!rc) {
			take(&w, &pkt);
			w.pos += pkt.len;
			continue;
		}
		if (rc == -IPT_E_TRUNC) {
			s->trunc = w.pos;
			break;
		}
		/* libipt stops there too: both go on at the next PSB. */
		w.pos++;
		w.on = w.off_silent = w.in_psb = false;
		memset(&w.ctx, 0, sizeof(w.ctx));
		if (ipt_psb_next(s->p, n, &w.pos))
			break;
	}
}

void ipt_flow_scan_fini(struct scan *s)
{
	ipt_buf_fini(&s->copy);
	ipt_vec_fini(&s->pge);
	ipt_vec_fini(&s->pgd);
	ipt_vec_fini(&s->int3);
	ipt_vec_fini(&s->notes);
	ipt_vec_fini(&s->exstop);
}
