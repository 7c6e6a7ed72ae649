/* SPDX-License-Identifier: MIT */
/*
 * Any bytes are packets or clean errors, and libipt agrees on kind, size and fields where both know
 * a packet. Known differences: libipt drops the bits of a CYC beyond 64, does not read one of ten
 * bytes or more, has PWRE's HW flag at another bit than the SDM, and refuses a TMA with reserved
 * bits set.
 */
#include "libipt_pkt.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

static void must(bool cond)
{
	if (!cond)
		abort();
}

static void check_libipt(const struct ipt_pkt *k, const uint8_t *p, size_t n)
{
	struct pt_packet ours, theirs;
	int r = lp_decode(&theirs, p, n);

	if (!lp_from(&ours, k)) {
		must(r < 0 || theirs.type == ppt_unknown || k->kind == IPT_PKT_BIP);
		return;
	}
	if (k->kind == IPT_PKT_CYC && k->len > 9)
		return;
	if (k->kind == IPT_PKT_TMA && (p[4] || p[6] & 0xfe)) {
		must(r < 0);
		return;
	}
	if (k->kind == IPT_PKT_TNT64 && !k->tnt.n_bits) {
		must(r < 0);
		return;
	}
	must(r == k->len);
	if (k->kind == IPT_PKT_PWRE)
		theirs.payload.pwre.hw = ours.payload.pwre.hw;
	must(!memcmp(&ours, &theirs, sizeof(ours)));
}

static void check_encode(const struct ipt_pkt *k, const uint8_t *p, struct ipt_pkt_ctx ctx)
{
	uint8_t b[IPT_PKT_MAX];
	struct ipt_pkt again;
	size_t len = 0;

	must(!ipt_pkt_encode(b, sizeof(b), &len, k));
	must(!ipt_pkt_decode(&again, b, len, &ctx));
	again.len = k->len; /* of a CYC with leading zeroes it differs */
	must(!memcmp(&again, k, sizeof(again)));
	if (k->kind == IPT_PKT_CYC)
		return;
	must(len == k->len);
	for (size_t i = 0; i < len; i++) /* only reserved bits may be gone */
		must(!(b[i] & ~p[i]));
}

static void check_packets(const uint8_t *p, size_t n)
{
	struct ipt_pkt_ctx ctx = {0}, before;
	struct ipt_buf text = {0};
	size_t off = 0;

	while (off < n) {
		struct pt_packet theirs;
		struct ipt_pkt k;
		int err;

		before = ctx;
		err = ipt_pkt_decode(&k, p + off, n - off, &ctx);
		if (err) {
			must(err == -IPT_E_TRUNC || err == -IPT_E_BADPKT);
			must((p[off] & 3) == 3 || before.in_block ||
			     lp_decode(&theirs, p + off, n - off) < 0);
			off++;
			continue;
		}
		must(k.len && k.len <= IPT_PKT_MAX && k.len <= n - off);
		check_libipt(&k, p + off, n - off);
		check_encode(&k, p + off, before);
		text.len = 0;
		ipt_pkt_text(&text, &k, 0);
		off += k.len;
	}
	ipt_buf_fini(&text);
}

/* Both directions find the same PSBs. */
static void check_psbs(const uint8_t *p, size_t n)
{
	size_t pos = 0, back, n_fwd = 0, n_back = 0;

	while (!ipt_psb_next(p, n, &pos)) {
		must(pos <= n - 16);
		back = pos + 1;
		must(!ipt_psb_prev(p, n, &back) && back == pos);
		n_fwd++;
		pos++;
	}
	for (back = n; !ipt_psb_prev(p, n, &back);)
		n_back++;
	must(n_fwd == n_back);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	check_packets(p, n);
	check_psbs(p, n);
	return 0;
}
