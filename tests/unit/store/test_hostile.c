/* SPDX-License-Identifier: MIT */
/* Directories made to harm: links, fifos, huge sizes, lies. */
#include <errno.h>
#include <sys/stat.h>

#include "store_lib.h"

static const char *make(void)
{
	const char *dir = t_path("t");

	ipt_writer_finish(t_small(dir, false), 0, NULL);
	return dir;
}

static int try_open(const char *dir)
{
	struct ipt_store *st;
	int err = ipt_store_open(&st, dir, NULL);

	if (!err)
		ipt_store_close(st);
	return err;
}

static void replace_by_link(const char *name, const char *to)
{
	char path[600];

	snprintf(path, sizeof(path), "%s/t/%s", t_root, name);
	rename(path, t_path("moved"));
	ck_assert_int_eq(symlink(to, path), 0);
}

START_TEST(a_link_as_manifest_is_refused)
{
	make();
	replace_by_link("manifest.json", "../moved");
	ck_assert_int_eq(try_open(t_path("t")), -IPT_E_UNSAFE);
}
END_TEST

START_TEST(a_link_as_sideband_is_refused)
{
	make();
	replace_by_link("sideband", "../moved");
	ck_assert_int_eq(try_open(t_path("t")), -IPT_E_UNSAFE);
}
END_TEST

START_TEST(a_link_as_folder_is_refused)
{
	make();
	replace_by_link("threads", "../moved");
	ck_assert_int_lt(try_open(t_path("t")), 0);
}
END_TEST

START_TEST(a_link_as_pt_file_or_image_gives_no_bytes)
{
	struct ipt_store *st;
	const uint8_t *p;
	struct ipt_rec_map m;
	char image[600];
	size_t n;

	ck_assert_int_eq(ipt_store_open(&st, make(), NULL), 0);
	ck_assert_int_eq(ipt_rec_map_parse(&m, ipt_store_rec(st, 2)), 0);
	snprintf(image, sizeof(image), "%s", ipt_store_image_name(st, m.m.image));
	ipt_store_close(st);
	replace_by_link("threads/10.10.0.pt", "/etc/passwd");
	replace_by_link(image, "/etc/passwd");
	ck_assert_int_eq(ipt_store_open(&st, t_path("t"), NULL), 0);
	ck_assert_ptr_nonnull(ipt_store_salvaged(st));
	ck_assert_int_lt(ipt_store_pt(st, ipt_store_thread(st, 0), &p, &n, NULL), 0);
	ck_assert_int_eq(ipt_store_image(st, m.m.image, &p, &n, NULL), -IPT_E_NOCODE);
	ck_assert_ptr_null(ipt_store_image_name(st, m.m.image));
	ipt_store_close(st);
}
END_TEST

START_TEST(a_fifo_does_not_hang_a_reader)
{
	make();
	ck_assert_int_eq(remove(t_path("t/sideband")), 0);
	ck_assert_int_eq(mkfifo(t_path("t/sideband"), 0666), 0);
	ck_assert_int_eq(try_open(t_path("t")), -IPT_E_UNSAFE);
}
END_TEST

START_TEST(a_huge_manifest_is_not_read)
{
	make();
	ck_assert_int_eq(truncate(t_path("t/manifest.json"), 1ll << 40), 0);
	ck_assert_int_eq(try_open(t_path("t")), -IPT_E_LIMIT);
}
END_TEST

START_TEST(a_huge_sparse_sideband_ends_at_its_first_bad_record)
{
	struct ipt_store *st;

	make();
	ck_assert_int_eq(truncate(t_path("t/sideband"), 1ll << 36), 0);
	ck_assert_int_eq(ipt_store_open(&st, t_path("t"), NULL), 0);
	ck_assert_uint_eq(ipt_store_n_recs(st), 7);
	ck_assert_ptr_nonnull(ipt_store_salvaged(st));
	ipt_store_close(st);
}
END_TEST

START_TEST(a_sideband_cut_between_records_is_told)
{
	struct ipt_store *st;
	uint64_t whole = sizeof(struct ipt_sb_file_hdr);
	size_t n;

	ck_assert_int_eq(ipt_store_open(&st, make(), NULL), 0);
	ck_assert_ptr_null(ipt_store_salvaged(st));
	n = ipt_store_n_recs(st);
	for (size_t i = 0; i + 1 < n; i++)
		whole += ipt_store_rec(st, i)->h.size;
	ipt_store_close(st);
	ck_assert_int_eq(truncate(t_path("t/sideband"), (off_t)whole), 0);
	ck_assert_int_eq(ipt_store_open(&st, t_path("t"), NULL), 0);
	ck_assert_uint_eq(ipt_store_n_recs(st), n - 1);
	ck_assert_ptr_nonnull(ipt_store_salvaged(st));
	ipt_store_close(st);
}
END_TEST

START_TEST(positions_beyond_a_stream_are_moved_to_its_end)
{
	struct ipt_writer *w = t_writer(t_path("t"), false, false);
	struct ipt_wthread *t = t_thread(w, 1, 1);
	struct ipt_sb_head h = {.pid = 1, .tid = 1, .pt_off = UINT64_MAX};
	struct ipt_sb_pos pos = {.tid = 1, .pt_off = 33}, out;
	struct ipt_sb_range r;
	struct ipt_store *st;
	struct ipt_cur c;
	uint8_t pt[32];

	ipt_wthread_pt(t, pt, t_psb(pt));
	ipt_writer_range(w, IPT_SB_UNMAP, &h, 1, 2, 0, &pos, 1);
	ck_assert_int_eq(ipt_writer_finish(w, 0, NULL), 0);
	ck_assert_int_eq(ipt_store_open(&st, t_path("t"), NULL), 0);
	ck_assert_uint_eq(ipt_store_rec(st, 1)->h.pt_off, 32);
	ck_assert_int_eq(ipt_rec_range_parse(&r, &c, ipt_store_rec(st, 1)), 0);
	ck_assert(ipt_rec_pos_next(&c, &out));
	ck_assert_uint_eq(out.pt_off, 32);
	ck_assert_int_eq(ipt_store_validate(st, NULL), 1); /* and it is a fault */
	ipt_store_close(st);
}
END_TEST

START_TEST(an_image_with_other_bytes_is_refused_and_a_fault)
{
	struct ipt_store *st;
	struct ipt_rec_map m;
	const uint8_t *p;
	char path[700];
	size_t n;

	ck_assert_int_eq(ipt_store_open(&st, make(), NULL), 0);
	ck_assert_int_eq(ipt_rec_map_parse(&m, ipt_store_rec(st, 2)), 0);
	snprintf(path, sizeof(path), "%s/t/%s", t_root, ipt_store_image_name(st, m.m.image));
	ck_assert_int_eq(truncate(path, 4095), 0);
	ck_assert_int_eq(ipt_store_image(st, m.m.image, &p, &n, NULL), -IPT_E_CHECKSUM);
	ck_assert_int_eq(ipt_store_validate(st, NULL), 2);
	ipt_store_close(st);
}
END_TEST

static void write_manifest(const char *text)
{
	FILE *f = fopen(t_path("t/manifest.json"), "w");

	fputs(text, f);
	fclose(f);
}

START_TEST(manifests_that_lie_are_refused)
{
	static const struct {
		const char *text;
		int code;
	} cases[] = {
		{"", IPT_E_BADMAN},
		{"[]", IPT_E_NOTTRACE},
		{"{}", IPT_E_NOTTRACE},
		{"{\"format\":\"iptrace-trace\",\"version\":3}", IPT_E_VERSION},
		{"{\"format\":\"iptrace-trace\",\"version\":1}", IPT_E_BADMAN},
		{"{\"format\":\"iptrace-trace\",\"version\":1,\"status\":\"running\",\"cpu\":3}",
		 IPT_E_BADMAN},
		{"{\"format\":\"iptrace-trace\",\"version\":1,\"status\":\"running\",\"argv\":[1]}",
		 IPT_E_BADMAN},
		{"{\"format\":\"iptrace-trace\",\"version\":1,\"status\":\"running\","
		 "\"threads\":[{\"pid\":-1}]}",
		 IPT_E_BADMAN},
		{"{\"format\":\"iptrace-trace\",\"version\":1,\"status\":\"running\","
		 "\"host\":{\"bytes\":\"zz\"}}",
		 IPT_E_BADMAN},
		{"{\"format\":\"iptrace-trace\",\"version\":2,\"status\":\"running\","
		 "\"threads\":[{\"stops\":-1}]}",
		 IPT_E_BADMAN},
		{"{\"format\":\"iptrace-trace\",\"version\":2,\"status\":\"running\","
		 "\"threads\":[{\"step_instructions\":[]}]}",
		 IPT_E_BADMAN},
		{"{\"format\":\"iptrace-trace\",\"version\":2,\"status\":\"running\","
		 "\"processes\":[7]}",
		 IPT_E_BADMAN},
		{"{\"format\":\"iptrace-trace\",\"version\":2,\"status\":\"running\","
		 "\"processes\":[{\"notes\":\"x\"}]}",
		 IPT_E_BADMAN},
		{"{\"format\":\"iptrace-trace\",\"version\":2,\"status\":\"running\","
		 "\"processes\":[{\"notes\":[\"x\",3]}]}",
		 IPT_E_BADMAN},
	};

	make();
	for (size_t i = 0; i < IPT_ARRAY_SIZE(cases); i++) {
		write_manifest(cases[i].text);
		ck_assert_int_eq(try_open(t_path("t")), -cases[i].code);
	}
}
END_TEST

START_TEST(what_is_no_trace_is_called_so)
{
	ck_assert_int_eq(try_open(t_path("none")), -ENOENT);
	ck_assert_int_eq(try_open(t_root), -IPT_E_NOTTRACE);
	ck_assert_int_eq(try_open("/etc/passwd"), -IPT_E_NOTTRACE);
}
END_TEST

START_TEST(foreign_and_orphan_files_are_faults)
{
	struct ipt_store *st;

	make();
	ck_assert_int_eq(mkdir(t_path("t/other"), 0777), 0);
	close(creat(t_path("t/threads/9.9.9.pt"), 0666));
	close(creat(t_path("t/images/readme"), 0666));
	ck_assert_int_eq(ipt_store_open(&st, t_path("t"), NULL), 0);
	ck_assert_int_eq(ipt_store_validate(st, NULL), 3);
	ipt_store_close(st);
}
END_TEST

STORE_MAIN("store hostile", a_link_as_manifest_is_refused, a_link_as_sideband_is_refused,
	   a_link_as_folder_is_refused, a_link_as_pt_file_or_image_gives_no_bytes,
	   a_fifo_does_not_hang_a_reader, a_huge_manifest_is_not_read,
	   a_huge_sparse_sideband_ends_at_its_first_bad_record,
	   a_sideband_cut_between_records_is_told, positions_beyond_a_stream_are_moved_to_its_end,
	   an_image_with_other_bytes_is_refused_and_a_fault, manifests_that_lie_are_refused,
	   what_is_no_trace_is_called_so, foreign_and_orphan_files_are_faults)
