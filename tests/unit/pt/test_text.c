/* SPDX-License-Identifier: MIT */
/* Packets as text. */
#include <check.h>

#include "libipt_pkt.h"

START_TEST(text_tells_name_and_payload)
{
	static const struct {
		struct ipt_pkt k;
		const char *want;
	} rows[] = {
		{{.kind = IPT_PKT_PSB}, "PSB"},
		{{.kind = IPT_PKT_STOP}, "TraceStop"},
		{{IPT_PKT_TNT, 1, .tnt = {5, 4}}, "TNT NTNT (4)"},
		{{IPT_PKT_TIP_PGE, 3, .ip = {0x10, IPT_IPC_UPDATE16}}, "TIP.PGE 0x7f0010"},
		{{.kind = IPT_PKT_TIP_PGD}, "TIP.PGD no ip"},
		{{IPT_PKT_MODE_EXEC, 2, .mode_exec = {.cs_l = true}}, "MODE.Exec 64"},
		{{IPT_PKT_MODE_EXEC, 2, .mode_exec = {.cs_d = true}}, "MODE.Exec 32"},
		{{IPT_PKT_TSC, 8, .tsc = 0x1234}, "TSC 0x1234"},
		{{IPT_PKT_PTW, 6, .ptw = {7, 4, true}}, "PTW 0x7 IP"},
		{{IPT_PKT_BIP, 9, .bip = {3, 9, 8}}, "BIP id 0x3 0x9"},
	};
	struct ipt_buf b = {0};

	ipt_pkt_text(&b, &rows[_i].k, 0x7f0010);
	ipt_buf_u8(&b, 0);
	ck_assert_str_eq((char *)b.data, rows[_i].want);
	ipt_buf_fini(&b);
}
END_TEST

START_TEST(every_kind_has_its_own_name_and_one_line)
{
	uint64_t seed = 9;

	for (int i = 0; i < IPT_PKT_N_KINDS; i++) {
		struct ipt_buf b = {0};
		struct ipt_pkt k;

		rnd_pkt(&k, (enum ipt_pkt_kind)i, &seed);
		ipt_pkt_text(&b, &k, 0);
		ck_assert(!memchr(b.data, '\n', b.len));
		ck_assert_uint_ge(b.len, strlen(ipt_pkt_name(k.kind)));
		for (int j = 0; j < i; j++)
			ck_assert_str_ne(ipt_pkt_name(k.kind), ipt_pkt_name((enum ipt_pkt_kind)j));
		ipt_buf_fini(&b);
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("text");
	TCase *tc = tcase_create("all");
	SRunner *r;
	int failed;

	tcase_add_loop_test(tc, text_tells_name_and_payload, 0, 10);
	tcase_add_test(tc, every_kind_has_its_own_name_and_one_line);
	suite_add_tcase(s, tc);
	r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
