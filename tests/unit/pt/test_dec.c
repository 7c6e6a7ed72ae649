/* SPDX-License-Identifier: MIT */
/* The decoder: byte tables of what libipt does not know, truncation, bytes that are no packet. */
#include <check.h>

#include "libipt_pkt.h"

START_TEST(packets_libipt_does_not_know_follow_the_byte_tables)
{
	static const struct {
		uint8_t n, b[11];
		struct ipt_pkt want;
	} rows[] = {
		{4, {2, 0x13, 0x85, 0x0e}, {IPT_PKT_CFE, 4, .cfe = {true, 5, 14}}},
		{4, {2, 0x13, 0x01, 0x20}, {IPT_PKT_CFE, 4, .cfe = {false, 1, 32}}},
		{11,
		 {2, 0x53, 0x3f, 8, 7, 6, 5, 4, 3, 2, 1},
		 {IPT_PKT_EVD, 11, .evd = {false, 0x3f, 0x0102030405060708}}},
		{3, {2, 0x63, 0x84}, {IPT_PKT_BBP, 3, .bbp = {true, 4}}},
		{3, {2, 0x63, 0x10}, {IPT_PKT_BBP, 3, .bbp = {false, 16}}},
		{2, {2, 0x33}, {IPT_PKT_BEP, 2, .bep = {false}}},
		{2, {2, 0xb3}, {IPT_PKT_BEP, 2, .bep = {true}}},
	};
	struct ipt_pkt_ctx ctx = {0};
	struct ipt_pkt got;

	ck_assert_int_lt((int)_i, (int)IPT_ARRAY_SIZE(rows));
	ck_assert_int_eq(ipt_pkt_decode(&got, rows[_i].b, rows[_i].n, &ctx), 0);
	ck_assert_mem_eq(&got, &rows[_i].want, sizeof(got));
}
END_TEST

START_TEST(block_items_are_read_only_inside_a_block)
{
	static const uint8_t b[] = {2,    0x63, 0x80,             /* BBP of 4-byte items */
				    0x0c, 0xaa, 0xbb, 0xcc, 0xdd, /* BIP 1 */
				    2,    0x33,                   /* BEP */
				    0x0c,                         /* TNT */
				    2,    0x63, 0x00,             /* BBP of 8-byte items */
				    0xfc, 1,    0,    0,    0,    0, 0, 0, 2}; /* BIP 31 */
	static const enum ipt_pkt_kind want[] = {IPT_PKT_BBP, IPT_PKT_BIP, IPT_PKT_BEP,
						 IPT_PKT_TNT, IPT_PKT_BBP, IPT_PKT_BIP};
	struct ipt_pkt_ctx ctx = {0};
	struct ipt_pkt k = {0};
	size_t off = 0;

	for (size_t i = 0; i < IPT_ARRAY_SIZE(want); i++) {
		ck_assert_int_eq(ipt_pkt_decode(&k, b + off, sizeof(b) - off, &ctx), 0);
		ck_assert_int_eq(k.kind, want[i]);
		off += k.len;
		if (i == 1)
			ck_assert_uint_eq(k.bip.payload, 0xddccbbaa);
	}
	ck_assert_uint_eq(off, sizeof(b));
	ck_assert_uint_eq(k.bip.id, 31);
	ck_assert_uint_eq(k.bip.payload, 0x0200000000000001);
}
END_TEST

START_TEST(every_cut_of_a_packet_is_truncated)
{
	uint64_t seed = 5 + (uint64_t)_i;

	for (int i = 0; i < 100; i++) {
		struct ipt_pkt_ctx ctx = {0};
		struct ipt_pkt k, out;
		uint8_t b[IPT_PKT_MAX];
		size_t len = 0;

		rnd_pkt(&k, (enum ipt_pkt_kind)_i, &seed);
		ctx.in_block = k.kind == IPT_PKT_BIP;
		ctx.block_item_size = k.bip.size;
		ck_assert_int_eq(ipt_pkt_encode(b, sizeof(b), &len, &k), 0);
		ck_assert_int_eq(ipt_pkt_decode(&out, b, 0, &ctx), -IPT_E_EOS);
		for (size_t n = 1; n < len; n++) {
			/* an exact heap copy: a read beyond it is seen by the sanitizer */
			uint8_t *copy = malloc(n);

			memcpy(copy, b, n);
			ck_assert_int_eq(ipt_pkt_decode(&out, copy, n, &ctx), -IPT_E_TRUNC);
			free(copy);
		}
	}
}
END_TEST

START_TEST(bytes_that_are_no_packet_are_bad)
{
	static const uint8_t rows[][16] = {
		{0x02, 0x00},
		{0x02, 0x52 | 0x40},
		{0x02, 0xc3, 0x00},
		{0xad},
		{0xed},
		{0xbd},
		{0xe1},
		{0x99, 0x40},
		{0x39},
		{0x05},
		{0x02, 0x82, 0x02, 0x83},
		{0x02, 0xa3},
		{7, 255, 255, 255, 255, 255, 255, 255, 255, 255, 254},
	};
	struct ipt_pkt_ctx ctx = {0};
	struct ipt_pkt k;

	ck_assert_int_eq(ipt_pkt_decode(&k, rows[_i], 16, &ctx), -IPT_E_BADPKT);
}
END_TEST

START_TEST(cyc_of_fifteen_bytes_is_read)
{
	static const uint8_t b[] = {0x0f, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0};
	struct ipt_pkt_ctx ctx = {0};
	struct ipt_pkt k;

	ck_assert_int_eq(ipt_pkt_decode(&k, b, sizeof(b), &ctx), 0);
	ck_assert_uint_eq(k.len, 15);
	ck_assert_uint_eq(k.cyc, 1);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("dec");
	TCase *tc = tcase_create("all");
	SRunner *r;
	int failed;

	tcase_add_loop_test(tc, packets_libipt_does_not_know_follow_the_byte_tables, 0, 7);
	tcase_add_test(tc, block_items_are_read_only_inside_a_block);
	tcase_add_loop_test(tc, every_cut_of_a_packet_is_truncated, 0, IPT_PKT_N_KINDS);
	tcase_add_loop_test(tc, bytes_that_are_no_packet_are_bad, 0, 13);
	tcase_add_test(tc, cyc_of_fifteen_bytes_is_read);
	suite_add_tcase(s, tc);
	r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
