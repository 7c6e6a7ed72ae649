/* SPDX-License-Identifier: MIT */
/* IP compression: ours both ways, and libipt's query decoder reading what we compressed. */
#include <check.h>

#include "libipt_pkt.h"

#define N_IPS 400

static uint64_t next_ip(uint64_t ip, uint64_t *seed)
{
	static const unsigned int bits[] = {8, 16, 24, 32, 40, 47, 48, 64};
	unsigned int n = bits[rnd(seed) >> 61];
	uint64_t mask = n == 64 ? ~0ull : (1ull << n) - 1;

	return (ip & ~mask) | (rnd(seed) & mask);
}

static void put(struct ipt_buf *b, const struct ipt_pkt *k)
{
	uint8_t p[IPT_PKT_MAX];
	size_t len = 0;

	ck_assert_int_eq(ipt_pkt_encode(p, sizeof(p), &len, k), 0);
	ipt_buf_append(b, p, len);
}

START_TEST(expanding_gives_back_what_was_compressed)
{
	uint64_t seed = 3 + (uint64_t)_i, ip = 0, got = 0;
	struct ipt_lastip enc = {0}, dec = {0};

	for (int i = 0; i < 20000; i++) {
		struct ipt_pkt k = {.kind = IPT_PKT_TIP};

		ip = next_ip(ip, &seed);
		if (i % 1000 == 0)
			ipt_lastip_reset(&enc), ipt_lastip_reset(&dec);
		if (i % 1000 == 500)
			enc.valid = false;
		k.ip.ipc = ipt_lastip_compress(&enc, ip, &k.ip.ip);
		ck_assert(ipt_lastip_update(&dec, &k, &got));
		ck_assert_uint_eq(got, ip);
	}
}
END_TEST

START_TEST(libipt_expands_to_the_same_addresses)
{
	uint64_t seed = 1000 + (uint64_t)_i, ips[N_IPS], ip = 0x400000;
	struct ipt_lastip l = {0};
	struct pt_query_decoder *d;
	struct pt_config cfg;
	struct ipt_buf b = {0};
	int status, n = 0;

	put(&b, &(struct ipt_pkt){.kind = IPT_PKT_PSB});
	put(&b, &(struct ipt_pkt){.kind = IPT_PKT_PSBEND});
	ipt_lastip_reset(&l);
	for (int i = 0; i < N_IPS; i++) {
		struct ipt_pkt k = {.kind = IPT_PKT_TIP_PGE};

		ips[i] = ip = next_ip(ip, &seed);
		k.ip.ipc = ipt_lastip_compress(&l, ip, &k.ip.ip);
		put(&b, &k);
		put(&b, &(struct ipt_pkt){.kind = IPT_PKT_TIP_PGD});
	}
	pt_config_init(&cfg);
	cfg.begin = b.data;
	cfg.end = b.data + b.len;
	d = pt_qry_alloc_decoder(&cfg);
	status = pt_qry_sync_forward(d, &ip);
	while (status >= 0 && status & pts_event_pending) {
		struct pt_event ev;

		status = pt_qry_event(d, &ev, sizeof(ev));
		if (ev.type == ptev_enabled) {
			ck_assert_int_lt(n, N_IPS);
			ck_assert_uint_eq(ev.variant.enabled.ip, ips[n]);
			n++;
		}
	}
	ck_assert_int_eq(n, N_IPS);
	pt_qry_free_decoder(d);
	ipt_buf_fini(&b);
}
END_TEST

START_TEST(the_shortest_form_is_chosen)
{
	static const struct {
		uint64_t last, ip;
		enum ipt_ipc ipc;
	} rows[] = {
		{0x401000, 0x40beef, IPT_IPC_UPDATE16},
		{0x401000, 0x501000, IPT_IPC_UPDATE32},
		{0x401000, 0x7f0000001000, IPT_IPC_SEXT48},
		{0x401000, 0xffffffff81000000, IPT_IPC_SEXT48},
		{0x1234000000000000, 0x1234800000000000, IPT_IPC_UPDATE48},
		{0x401000, 0x1234800000000000, IPT_IPC_FULL},
	};
	struct ipt_lastip l = {rows[_i].last, true};
	uint64_t payload;

	ck_assert_int_eq(ipt_lastip_compress(&l, rows[_i].ip, &payload), rows[_i].ipc);
	ck_assert_uint_eq(l.ip, rows[_i].ip);
}
END_TEST

START_TEST(a_suppressed_ip_changes_nothing)
{
	struct ipt_lastip l = {0x401000, true};
	struct ipt_pkt k = {.kind = IPT_PKT_TIP_PGD};
	uint64_t ip = 0xcd;

	ck_assert(!ipt_lastip_update(&l, &k, &ip));
	ck_assert_uint_eq(ip, 0xcd);
	ck_assert_uint_eq(l.ip, 0x401000);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("lastip");
	TCase *tc = tcase_create("all");
	SRunner *r;
	int failed;

	tcase_add_loop_test(tc, expanding_gives_back_what_was_compressed, 0, 5);
	tcase_add_loop_test(tc, libipt_expands_to_the_same_addresses, 0, 20);
	tcase_add_loop_test(tc, the_shortest_form_is_chosen, 0, 6);
	tcase_add_test(tc, a_suppressed_ip_changes_nothing);
	suite_add_tcase(s, tc);
	r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
