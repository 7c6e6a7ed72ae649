/* SPDX-License-Identifier: MIT */
/*
 * ptgen against libipt's instruction decoder: random programs of real x86 bytes are walked at
 * random, the walk goes through ptgen, and libipt must list exactly the instructions walked.
 */
#include "test_ptgen_walk.h"

static void check_packets(const struct walk *w, const struct ipt_ptgen_cfg *cfg)
{
	struct ipt_pkt_ctx ctx = {0};
	struct ipt_pkt k;
	size_t off = 0, psb_at = 0;
	bool was_long = false;

	while (off < w->pt.len) {
		ck_assert_int_eq(ipt_pkt_decode(&k, w->pt.data + off, w->pt.len - off, &ctx), 0);
		if (k.kind == IPT_PKT_PSB)
			psb_at = off;
		was_long |= k.kind == IPT_PKT_TNT64;
		off += k.len;
		ck_assert_uint_le(off - psb_at, ipt_max_u64(cfg->psb_bytes, 128) + IPT_PKT_MAX);
	}
	ck_assert(cfg->long_tnt || !was_long);
	ck_assert_uint_eq(off, ipt_ptgen_pos(w->gen));
}

static void walk_and_compare(const struct ipt_ptgen_cfg *cfg, uint64_t seed, bool mixed)
{
	struct prog *p = ipt_xcalloc(1, sizeof(*p));
	struct ipt_buf got = {0};
	struct walk w;
	size_t same = 0, n;
	int err;

	make_walk(&w, p, cfg, seed, mixed);
	check_packets(&w, cfg);
	err = list(&w, &w.pt, 0, &got);
	n = got.len / 8;
	while (same < n && same < w.ips.n && !memcmp(got.data + 8 * same, &w.ips.v[same], 8))
		same++;
	ck_assert_msg(!err && same == n && same == w.ips.n,
		      "seed %lu: libipt %s, %zu of %zu walked the same, %zu listed", seed,
		      pt_errstr(pt_errcode(err)), same, w.ips.n, n);
	ipt_buf_fini(&got);
	free_walk(&w);
	free(p);
}

START_TEST(libipt_lists_exactly_the_walk)
{
	struct ipt_ptgen_cfg cfg = {.noretcomp = _i & 1,
				    .long_tnt = _i & 2,
				    .psb_bytes = _i & 4 ? 128 : 4096,
				    .no_tsc = _i & 8,
				    .cbr = _i & 4 ? 30 : 0};

	for (uint64_t seed = 1; seed <= 12; seed++)
		walk_and_compare(&cfg, seed * 7919 + (uint64_t)_i, _i & 16);
}
END_TEST

static struct ipt_insn make_insn(enum ipt_iclass iclass, uint8_t len, uint64_t target)
{
	return (struct ipt_insn){.len = len, .iclass = (uint8_t)iclass, .target = target};
}

static enum ipt_pkt_kind last_kind(const struct ipt_buf *b)
{
	struct ipt_pkt_ctx ctx = {0};
	struct ipt_pkt k = {0};

	for (size_t off = 0; off < b->len; off += k.len)
		ck_assert_int_eq(ipt_pkt_decode(&k, b->data + off, b->len - off, &ctx), 0);
	return k.kind;
}

/* Calls @depth deep, then returns all the way; counts the compressed ones. */
static unsigned int n_compressed(bool noretcomp, unsigned int depth, uint64_t wrong_at)
{
	struct ipt_ptgen_cfg cfg = {.noretcomp = noretcomp, .psb_bytes = 1 << 20};
	struct ipt_buf b = {0};
	struct ipt_ptgen *g = ipt_ptgen_new(&cfg, sink, &b);
	struct ipt_insn call = make_insn(IPT_IC_CALL, 5, 0x9000), ret = make_insn(IPT_IC_RET, 1, 0);
	unsigned int n = 0;

	ipt_ptgen_enable(g, 0x1000, IPT_X64, 1);
	for (unsigned int i = 0; i < depth; i++)
		ipt_ptgen_insn(g, &call, 0x1000 + 16 * i, 0x9000, IPT_X64, 1);
	for (unsigned int i = depth; i-- > 0;) {
		uint64_t to = i == wrong_at ? 0x5555 : 0x1000 + 16 * i + 5;

		ipt_ptgen_insn(g, &ret, 0x9000, to, IPT_X64, 1);
		ipt_ptgen_flush(g);
		n += last_kind(&b) == IPT_PKT_TNT;
	}
	ipt_ptgen_free(g);
	ipt_buf_fini(&b);
	return n;
}

START_TEST(returns_compress_as_deep_as_the_hardware_remembers)
{
	ck_assert_uint_eq(n_compressed(false, 10, 99), 10);
	ck_assert_uint_eq(n_compressed(false, 64, 99), 64);
	ck_assert_uint_eq(n_compressed(false, 70, 99), 64);
	ck_assert_uint_eq(n_compressed(true, 10, 99), 0);
}
END_TEST

START_TEST(a_mismatched_return_is_a_tip_and_all_decoders_agree_after_it)
{
	ck_assert_uint_eq(n_compressed(false, 10, 9), 0);
	ck_assert_uint_eq(n_compressed(false, 10, 0), 9);
}
END_TEST

/* A decoder that pops at every RET has the outer call on top, libipt the inner one. */
START_TEST(a_return_is_a_tip_where_decoders_would_disagree)
{
	struct ipt_ptgen_cfg cfg = {.psb_bytes = 1 << 20};
	struct ipt_buf b = {0};
	struct ipt_ptgen *g = ipt_ptgen_new(&cfg, sink, &b);
	struct ipt_insn call = make_insn(IPT_IC_CALL, 5, 0x9000), ret = make_insn(IPT_IC_RET, 1, 0);

	ipt_ptgen_enable(g, 0x1000, IPT_X64, 1);
	ipt_ptgen_insn(g, &call, 0x1000, 0x9000, IPT_X64, 1);
	ipt_ptgen_insn(g, &call, 0x2000, 0x9000, IPT_X64, 1);
	ipt_ptgen_insn(g, &ret, 0x9000, 0x5555, IPT_X64, 1);
	ck_assert_int_eq(last_kind(&b), IPT_PKT_TIP);
	ipt_ptgen_insn(g, &ret, 0x9000, 0x2005, IPT_X64, 1);
	ipt_ptgen_flush(g);
	ck_assert_int_eq(last_kind(&b), IPT_PKT_TIP);
	ipt_ptgen_free(g);
	ipt_buf_fini(&b);
}
END_TEST

START_TEST(after_a_loss_the_stream_goes_on_at_the_given_address)
{
	struct ipt_ptgen_cfg cfg = {.psb_bytes = 4096};
	struct ipt_buf b = {0};
	struct ipt_ptgen *g = ipt_ptgen_new(&cfg, sink, &b);
	struct ipt_pkt_ctx ctx = {0};
	struct ipt_pkt k = {0};
	uint64_t ip = 0;
	bool ovf = false;
	struct ipt_lastip last = {0};

	ipt_ptgen_enable(g, 0x7f0000001000, IPT_X64, 1);
	ipt_ptgen_overflow(g, 0x7f0000002000, 2);
	for (size_t off = 0; off < b.len; off += k.len) {
		ck_assert_int_eq(ipt_pkt_decode(&k, b.data + off, b.len - off, &ctx), 0);
		ovf |= k.kind == IPT_PKT_OVF;
		if (k.kind == IPT_PKT_OVF)
			last.valid = false;
		if (k.kind == IPT_PKT_FUP)
			ck_assert(ipt_lastip_update(&last, &k, &ip));
	}
	ck_assert(ovf);
	ck_assert_uint_eq(ip, 0x7f0000002000);
	ck_assert(ipt_ptgen_enabled(g));
	ipt_ptgen_free(g);
	ipt_buf_fini(&b);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("ptgen");
	TCase *tc = tcase_create("all");
	SRunner *r;
	int failed;

	tcase_set_timeout(tc, 60);
	tcase_add_loop_test(tc, libipt_lists_exactly_the_walk, 0, 32);
	tcase_add_test(tc, returns_compress_as_deep_as_the_hardware_remembers);
	tcase_add_test(tc, a_mismatched_return_is_a_tip_and_all_decoders_agree_after_it);
	tcase_add_test(tc, a_return_is_a_tip_where_decoders_would_disagree);
	tcase_add_test(tc, after_a_loss_the_stream_goes_on_at_the_given_address);
	suite_add_tcase(s, tc);
	r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
