/* SPDX-License-Identifier: MIT */
/* The encoder against our decoder and against libipt's encoder and decoder. */
#include <check.h>
#include <errno.h>

#include "libipt_pkt.h"

#define ROUNDS 2000

static struct ipt_pkt_ctx ctx_for(const struct ipt_pkt *k)
{
	return (struct ipt_pkt_ctx){k->kind == IPT_PKT_BIP,
				    k->kind == IPT_PKT_BIP ? k->bip.size : 0};
}

START_TEST(decoding_gives_back_what_was_encoded)
{
	uint64_t seed = 0x1234567 + (uint64_t)_i;

	for (int i = 0; i < ROUNDS; i++) {
		uint8_t b[IPT_PKT_MAX];
		struct ipt_pkt in, out;
		struct ipt_pkt_ctx ctx;
		size_t len = 0;

		rnd_pkt(&in, (enum ipt_pkt_kind)_i, &seed);
		ctx = ctx_for(&in);
		ck_assert_int_eq(ipt_pkt_encode(b, sizeof(b), &len, &in), 0);
		memset(&out, 0xcd, sizeof(out));
		ck_assert_int_eq(ipt_pkt_decode(&out, b, len, &ctx), 0);
		in.len = (uint8_t)len;
		ck_assert_mem_eq(&in, &out, sizeof(in));
	}
}
END_TEST

/* libipt cannot read back its own CYC above 61 bits, and has PWRE's HW flag at bit 3 of the third
 * byte, where the SDM and perf have bit 7. */
static void within_libipt(struct ipt_pkt *k)
{
	if (k->kind == IPT_PKT_CYC)
		k->cyc &= (1ull << 61) - 1;
	if (k->kind == IPT_PKT_PWRE)
		k->pwre.hw = false;
}

START_TEST(libipt_reads_and_writes_the_same_bytes)
{
	uint64_t seed = 0x7654321 + (uint64_t)_i;

	for (int i = 0; i < ROUNDS; i++) {
		uint8_t b[IPT_PKT_MAX], theirs[32];
		struct pt_packet want, got;
		struct ipt_pkt in;
		size_t len = 0;

		rnd_pkt(&in, (enum ipt_pkt_kind)_i, &seed);
		within_libipt(&in);
		ck_assert_int_eq(ipt_pkt_encode(b, sizeof(b), &len, &in), 0);
		in.len = (uint8_t)len;
		if (!lp_from(&want, &in))
			return;
		ck_assert_int_eq(lp_decode(&got, b, len), (int)len);
		ck_assert_mem_eq(&got, &want, sizeof(got));
		ck_assert_int_eq(lp_encode(theirs, sizeof(theirs), &want), (int)len);
		ck_assert_mem_eq(theirs, b, len);
	}
}
END_TEST

START_TEST(too_small_a_buffer_is_refused)
{
	uint64_t seed = 99;
	uint8_t b[IPT_PKT_MAX];
	struct ipt_pkt k;
	size_t len = 0, again = 0xcd;

	rnd_pkt(&k, (enum ipt_pkt_kind)_i, &seed);
	ck_assert_int_eq(ipt_pkt_encode(b, sizeof(b), &len, &k), 0);
	ck_assert_int_eq(ipt_pkt_encode(b, len - 1, &again, &k), -IPT_E_LIMIT);
	ck_assert_uint_eq(again, 0xcd);
}
END_TEST

START_TEST(fields_out_of_range_are_refused)
{
	const struct ipt_pkt bad[] = {
		{.kind = IPT_PKT_TNT, .tnt = {.n_bits = 7}},
		{.kind = IPT_PKT_TNT, .tnt = {.n_bits = 0}},
		{.kind = IPT_PKT_TNT, .tnt = {.n_bits = 2, .bits = 4}},
		{.kind = IPT_PKT_TNT64, .tnt = {.n_bits = 48}},
		{.kind = IPT_PKT_TIP, .ip = {.ipc = (enum ipt_ipc)5}},
		{.kind = IPT_PKT_TIP, .ip = {.ipc = (enum ipt_ipc)7}},
		{.kind = IPT_PKT_FUP, .ip = {.ipc = IPT_IPC_UPDATE16, .ip = 0x10000}},
		{.kind = IPT_PKT_PIP, .pip = {.cr3 = 1}},
		{.kind = IPT_PKT_TSC, .tsc = 1ull << 56},
		{.kind = IPT_PKT_TMA, .tma = {.fc = 0x200}},
		{.kind = IPT_PKT_VMCS, .vmcs = 1},
		{.kind = IPT_PKT_PTW, .ptw = {.size = 5}},
		{.kind = IPT_PKT_PWRX, .pwrx = {.wake = 16}},
		{.kind = IPT_PKT_BIP, .bip = {.size = 8, .id = 32}},
		{.kind = IPT_PKT_N_KINDS},
	};
	uint8_t b[IPT_PKT_MAX];
	size_t len;

	ck_assert_int_eq(ipt_pkt_encode(b, sizeof(b), &len, &bad[_i]), -EINVAL);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("enc");
	TCase *tc = tcase_create("all");
	SRunner *r;
	int failed;

	tcase_add_loop_test(tc, decoding_gives_back_what_was_encoded, 0, IPT_PKT_N_KINDS);
	tcase_add_loop_test(tc, libipt_reads_and_writes_the_same_bytes, 0, IPT_PKT_N_KINDS);
	tcase_add_loop_test(tc, too_small_a_buffer_is_refused, 0, IPT_PKT_N_KINDS);
	tcase_add_loop_test(tc, fields_out_of_range_are_refused, 0, 15);
	suite_add_tcase(s, tc);
	r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
