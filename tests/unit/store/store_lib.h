/* SPDX-License-Identifier: MIT */
/* What the tests of store/ share: temp folders, a small trace. */
#ifndef STORE_LIB_H
#define STORE_LIB_H

#include "base/base.h"
#include "store/store.h"

#include <fcntl.h>
#include <ftw.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <check.h>

static char t_root[64]; /* of this test */

__attribute__((unused)) static void t_begin(void)
{
	strcpy(t_root, "/tmp/iptrace-store-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(t_root));
}

static int t_rm(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

__attribute__((unused)) static void t_end(void)
{
	nftw(t_root, t_rm, 16, FTW_DEPTH | FTW_PHYS);
}

/* A path in the temp folder; a ring of 8 lent texts. */
__attribute__((unused)) static const char *t_path(const char *name)
{
	static char ring[8][512];
	static unsigned at;
	char *s = ring[at++ % 8];

	snprintf(s, sizeof(ring[0]), "%s/%s", t_root, name);
	return s;
}

/* PSB and PAD bytes: whole packets. */
__attribute__((unused)) static size_t t_psb(uint8_t *p)
{
	for (int i = 0; i < 8; i++) {
		p[2 * i] = 0x02;
		p[2 * i + 1] = 0x82;
	}
	memset(p + 16, 0, 16);
	return 32;
}

__attribute__((unused)) static struct ipt_session_info t_info(void)
{
	static const char *const argv[] = {"prog", "a b", "", NULL};
	static const char *const options[] = {"iptrace", "-q", NULL};

	return (struct ipt_session_info){
		.engine = "step",
		.tool = "iptrace test",
		.host = "host",
		.kernel = "6.1",
		.command = "run",
		.cwd = "/tmp",
		.argv = argv,
		.options = options,
		.cpu = {.vendor = "GenuineIntel", .family = 6, .model = 94, .stepping = 3},
		.clock = {.tsc_hz = 3000000000u,
			  .cpuid_15h_eax = 2,
			  .cpuid_15h_ebx = 250,
			  .mtc_freq = 3,
			  .nom_freq = 30,
			  .mult = 7,
			  .shift = 31,
			  .zero = 0xfedcba9876543210u,
			  .start_tsc = UINT64_MAX - 1,
			  .start_realtime_ns = 1700000000000000000u},
		.noretcomp = true,
		.slowed = true};
}

__attribute__((unused)) static struct ipt_writer *t_writer(const char *dir, bool force, bool zstd)
{
	struct ipt_writer_cfg cfg = {.dir = dir, .force = force, .zstd = zstd};
	struct ipt_session_info info = t_info();
	struct ipt_diag d = {0};
	struct ipt_writer *w = NULL;

	ck_assert_msg(!ipt_writer_new(&w, &cfg, &info, &d), "%s", d.text);
	return w;
}

__attribute__((unused)) static struct ipt_wthread *t_thread(struct ipt_writer *w, int pid, int tid)
{
	struct ipt_sb_thread_start s = {.flags = pid == tid ? IPT_SB_TF_LEADER : 0, .ppid = 1};

	return ipt_writer_thread(w, pid, tid, &s, "comm", 100);
}

/* One process, two threads, a mapping with its image, one of each kind of record. Not finished. */
__attribute__((unused)) static struct ipt_writer *t_small(const char *dir, bool zstd)
{
	struct ipt_writer *w = t_writer(dir, false, zstd);
	struct ipt_wthread *a = t_thread(w, 10, 10), *b = t_thread(w, 10, 11);
	struct ipt_sb_head h = {.pid = 10, .tid = 10, .tsc = 200};
	struct ipt_sb_map m = {
		.start = 0x400000, .end = 0x401000, .kind = IPT_SB_MAP_FILE, .prot = 5};
	struct ipt_sb_pos pos = {.tid = 11, .pt_off = 16, .bound = 5, .flags = IPT_SB_F_BOUNDED};
	struct ipt_sb_gap gap = {.cause = IPT_GAP_BUFFER_FULL, .flags = 1, .lost_bytes = 77};
	struct ipt_sb_thread_exit ex = {.status = 0x100};
	uint8_t page[4096], pt[32];

	memset(page, 0x90, sizeof(page));
	ck_assert_int_eq(ipt_writer_image(w, page, sizeof(page), m.image), 0);
	ipt_wthread_pt(a, pt, t_psb(pt));
	ipt_wthread_pt(b, pt, t_psb(pt));
	h.pt_off = ipt_wthread_pos(a);
	ipt_writer_map(w, IPT_SB_MAP, &h, &m, &pos, 1, (const uint8_t *)"\1\2\3", 3, "/bin/prog");
	ipt_writer_range(w, IPT_SB_UNMAP, &h, 0x400000, 0x401000, 0, &pos, 1);
	ipt_writer_record(w, IPT_SB_COMM, &h, "newname", 8);
	ipt_writer_gap(w, &h, &gap, "text");
	ipt_wthread_count(a, 1000);
	ipt_wthread_exit(b, &ex, 300);
	return w;
}

/* As CHECK_MAIN, each test in a temp folder of its own. */
#define STORE_MAIN(name, ...)                                                                      \
	int main(void)                                                                             \
	{                                                                                          \
		const TTest *tests[] = {__VA_ARGS__};                                              \
		Suite *s = suite_create(name);                                                     \
		TCase *tc = tcase_create(name);                                                    \
		SRunner *sr;                                                                       \
		int bad;                                                                           \
                                                                                                   \
		tcase_set_timeout(tc, 100);                                                        \
		tcase_add_checked_fixture(tc, t_begin, t_end);                                     \
		for (size_t i = 0; i < IPT_ARRAY_SIZE(tests); i++)                                 \
			tcase_add_test(tc, tests[i]);                                              \
		suite_add_tcase(s, tc);                                                            \
		sr = srunner_create(s);                                                            \
		srunner_run_all(sr, CK_NORMAL);                                                    \
		bad = srunner_ntests_failed(sr);                                                   \
		srunner_free(sr);                                                                  \
		return bad != 0;                                                                   \
	}

#endif
