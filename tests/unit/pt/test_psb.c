/* SPDX-License-Identifier: MIT */
/* PSB search both ways, runs longer than one PSB included. */
#include <check.h>

#include "libipt_pkt.h"

static void put_pairs(uint8_t *p, size_t at, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++) {
		p[at + 2 * i] = 0x02;
		p[at + 2 * i + 1] = 0x82;
	}
}

START_TEST(psbs_are_found_in_both_directions)
{
	static const size_t at[] = {0, 37, 100, 116, 484};
	uint8_t b[500];
	size_t pos = 0;

	memset(b, 0x82, sizeof(b));
	for (size_t i = 0; i < IPT_ARRAY_SIZE(at); i++)
		put_pairs(b, at[i], 8);
	for (size_t i = 0; i < IPT_ARRAY_SIZE(at); i++, pos++) {
		ck_assert_int_eq(ipt_psb_next(b, sizeof(b), &pos), 0);
		ck_assert_uint_eq(pos, at[i]);
	}
	ck_assert_int_eq(ipt_psb_next(b, sizeof(b), &pos), -IPT_E_EOS);
	ck_assert_uint_eq(pos, 485);
	pos = SIZE_MAX;
	for (size_t i = IPT_ARRAY_SIZE(at); i-- > 0;) {
		ck_assert_int_eq(ipt_psb_prev(b, sizeof(b), &pos), 0);
		ck_assert_uint_eq(pos, at[i]);
	}
	ck_assert_int_eq(ipt_psb_prev(b, sizeof(b), &pos), -IPT_E_EOS);
	ck_assert_uint_eq(pos, 0);
}
END_TEST

START_TEST(of_a_long_run_the_end_is_the_psb)
{
	unsigned int pairs = (unsigned int)_i;
	uint8_t b[200] = {0};
	size_t pos = 0, want = 10 + 2 * (pairs - 8);

	put_pairs(b, 10, pairs);
	ck_assert_int_eq(ipt_psb_next(b, sizeof(b), &pos), 0);
	ck_assert_uint_eq(pos, pairs == 16 ? 10 : want);
	if (pairs == 16) {
		pos++;
		ck_assert_int_eq(ipt_psb_next(b, sizeof(b), &pos), 0);
		ck_assert_uint_eq(pos, 26);
	}
	pos = sizeof(b);
	ck_assert_int_eq(ipt_psb_prev(b, sizeof(b), &pos), 0);
	ck_assert_uint_eq(pos, want);
}
END_TEST

START_TEST(a_cut_psb_is_none)
{
	uint8_t b[16];
	size_t pos = 0;

	put_pairs(b, 0, 8);
	ck_assert_int_eq(ipt_psb_next(b, 15, &pos), -IPT_E_EOS);
	ck_assert_int_eq(ipt_psb_next(b, 0, &pos), -IPT_E_EOS);
	pos = 15;
	ck_assert_int_eq(ipt_psb_prev(b, 15, &pos), -IPT_E_EOS);
	ck_assert_int_eq(ipt_psb_prev(b, 16, &pos), 0);
	ck_assert_uint_eq(pos, 0);
}
END_TEST

START_TEST(libipt_finds_the_same_psbs_in_random_bytes)
{
	uint64_t seed = 77 + (uint64_t)_i;
	struct pt_packet_decoder *d;
	struct pt_config cfg;
	uint8_t b[4096];
	size_t pos = 0;
	uint64_t theirs;

	for (size_t i = 0; i < sizeof(b); i++) /* odd bytes between: no run grows */
		b[i] = (uint8_t)(rnd(&seed) >> 56) | 1;
	for (size_t at = rnd(&seed) >> 58; at < sizeof(b) - 16; at += 17 + (rnd(&seed) >> 57))
		put_pairs(b, at, 8);
	pt_config_init(&cfg);
	cfg.begin = b;
	cfg.end = b + sizeof(b);
	d = pt_pkt_alloc_decoder(&cfg);
	while (pt_pkt_sync_forward(d) >= 0) {
		ck_assert_int_eq(pt_pkt_get_sync_offset(d, &theirs), 0);
		ck_assert_int_eq(ipt_psb_next(b, sizeof(b), &pos), 0);
		ck_assert_uint_eq(pos, theirs);
		pos++;
	}
	ck_assert_int_eq(ipt_psb_next(b, sizeof(b), &pos), -IPT_E_EOS);
	pt_pkt_free_decoder(d);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("psb");
	TCase *tc = tcase_create("all");
	SRunner *r;
	int failed;

	tcase_add_test(tc, psbs_are_found_in_both_directions);
	tcase_add_loop_test(tc, of_a_long_run_the_end_is_the_psb, 8, 17);
	tcase_add_test(tc, a_cut_psb_is_none);
	tcase_add_loop_test(tc, libipt_finds_the_same_psbs_in_random_bytes, 0, 20);
	suite_add_tcase(s, tc);
	r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
