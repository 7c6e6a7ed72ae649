/* SPDX-License-Identifier: MIT */
/* The packets view against libipt's packet decoder, over a stream with bad bytes in it. */
#include <jansson.h>

#include "libipt_pkt.h"
#include "view_run.h"

#define N_PSBS 6

static char dir[] = "/tmp/ipt-pkts-XXXXXX";
static struct ipt_store *st;
static struct ipt_buf pt;
static size_t bad_at; /* offset of bytes that are no packet */

static void put(const struct ipt_pkt *k)
{
	uint8_t b[IPT_PKT_MAX];
	size_t len = 0;

	ck_assert_int_eq(ipt_pkt_encode(b, sizeof(b), &len, k), 0);
	ipt_buf_append(&pt, b, len);
}

/* Leading bytes without PSB, then random packets libipt knows; bad bytes after the third PSB. */
static void make_stream(void)
{
	uint64_t seed = 42;

	ipt_buf_str(&pt, "lead");
	for (int i = 0; i < N_PSBS; i++) {
		put(&(struct ipt_pkt){.kind = IPT_PKT_PSB});
		for (int j = 0; j < 200; j++) {
			struct ipt_pkt k;

			rnd_pkt(&k, (enum ipt_pkt_kind)((rnd(&seed) >> 40) % IPT_PKT_CFE), &seed);
			if (k.kind == IPT_PKT_CYC)
				k.cyc &= (1ull << 61) - 1;
			if (k.kind != IPT_PKT_PSB)
				put(&k);
		}
		if (i == 2) {
			bad_at = pt.len;
			ipt_buf_str(&pt, "\xad\xad\xad");
		}
	}
}

static void setup(void)
{
	const struct ipt_session_info info = {.engine = "import", .tool = "t", .command = "import"};
	const struct ipt_writer_cfg cfg = {.dir = dir, .force = true};
	const struct ipt_sb_thread_start start = {0};
	const struct ipt_sb_thread_exit end = {0};
	struct ipt_diag diag = {0};
	struct ipt_wthread *t;
	struct ipt_writer *w;

	ck_assert_ptr_nonnull(mkdtemp(dir));
	make_stream();
	ck_assert_msg(!ipt_writer_new(&w, &cfg, &info, &diag), "%s", diag.text);
	t = ipt_writer_thread(w, 7, 8, &start, "prog", 1);
	ipt_wthread_pt(t, pt.data, pt.len);
	ipt_wthread_exit(t, &end, 2);
	ck_assert_msg(!ipt_writer_finish(w, 0, &diag), "%s", diag.text);
	ck_assert_msg(!ipt_store_open(&st, dir, &diag), "%s", diag.text);
}

static void teardown(void)
{
	char *cmd = ipt_xasprintf("rm -rf %s", dir);

	ipt_store_close(st);
	ipt_buf_fini(&pt);
	ck_assert_int_eq(system(cmd), 0);
	free(cmd);
}

static const char *libipt_name(const struct pt_packet *p)
{
	static const char *const names[] = {
		[ppt_pad] = "PAD",         [ppt_psb] = "PSB",        [ppt_psbend] = "PSBEND",
		[ppt_fup] = "FUP",         [ppt_tip] = "TIP",        [ppt_tip_pge] = "TIP.PGE",
		[ppt_tip_pgd] = "TIP.PGD", [ppt_tnt_8] = "TNT",      [ppt_tnt_64] = "TNT.long",
		[ppt_pip] = "PIP",         [ppt_vmcs] = "VMCS",      [ppt_cbr] = "CBR",
		[ppt_tsc] = "TSC",         [ppt_tma] = "TMA",        [ppt_mtc] = "MTC",
		[ppt_cyc] = "CYC",         [ppt_stop] = "TraceStop", [ppt_ovf] = "OVF",
		[ppt_mnt] = "MNT",         [ppt_exstop] = "EXSTOP",  [ppt_mwait] = "MWAIT",
		[ppt_pwre] = "PWRE",       [ppt_pwrx] = "PWRX",      [ppt_ptw] = "PTW",
	};

	if (p->type == ppt_mode)
		return p->payload.mode.leaf == pt_mol_exec ? "MODE.Exec" : "MODE.TSX";
	return names[p->type];
}

static uint64_t num(json_t *line, const char *key)
{
	return (uint64_t)json_integer_value(json_object_get(line, key));
}

/* libipt must have a packet of that name at the offset, and the next one right behind it. */
static size_t check_line(json_t *line, size_t off)
{
	const char *name = json_string_value(json_object_get(line, "packet"));
	struct pt_packet theirs;
	int n;

	ck_assert_uint_eq(num(line, "off"), off);
	ck_assert_uint_eq(num(line, "tid"), 8);
	if (!name) {
		ck_assert(off == 0 || off == bad_at);
		ck_assert_ptr_nonnull(json_object_get(line, "error"));
		return off + num(line, "skipped");
	}
	n = lp_decode(&theirs, pt.data + off, pt.len - off);
	ck_assert_int_gt(n, 0);
	ck_assert_str_eq(name, libipt_name(&theirs));
	if (theirs.type == ppt_tip && theirs.payload.ip.ipc == pt_ipc_full)
		ck_assert_uint_eq(
			strtoull(json_string_value(json_object_get(line, "ip")), NULL, 16),
			theirs.payload.ip.ip);
	return off + (size_t)n;
}

START_TEST(json_lists_every_packet_libipt_sees)
{
	const struct ipt_view_opts opts = {.json = true};
	char *text = run_view(st, "packets", &opts, NULL), *save = NULL;
	size_t off = 0, n_bad = 0;

	for (char *s = strtok_r(text, "\n", &save); s; s = strtok_r(NULL, "\n", &save)) {
		json_t *line = json_loads(s, 0, NULL);

		ck_assert_msg(line != NULL, "not JSON: %s", s);
		n_bad += json_object_get(line, "error") != NULL;
		off = check_line(line, off);
		json_decref(line);
	}
	ck_assert_uint_eq(off, pt.len);
	ck_assert_uint_eq(n_bad, 2);
	free(text);
}
END_TEST

START_TEST(text_has_a_head_and_tells_bad_bytes_with_their_offset)
{
	const struct ipt_view_opts opts = {0};
	char *text = run_view(st, "packets", &opts, NULL);
	char *bad = ipt_xasprintf("\n%8zx  [bad packet: 3 bytes skipped]\n", bad_at);

	ck_assert(!strncmp(text, "# thread 7.8.", 13));
	ck_assert_ptr_nonnull(strstr(text, "[no PSB before: 4 bytes skipped]"));
	ck_assert_ptr_nonnull(strstr(text, bad));
	free(bad);
	free(text);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("packets");
	TCase *tc = tcase_create("all");
	SRunner *r;
	int failed;

	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, json_lists_every_packet_libipt_sees);
	tcase_add_test(tc, text_has_a_head_and_tells_bad_bytes_with_their_offset);
	suite_add_tcase(s, tc);
	r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
