/* SPDX-License-Identifier: MIT */
/* AT records: written, found, and what is wrong with bad ones. */
#include "store_lib.h"

static const struct ipt_sb_head h10 = {.pid = 10, .tid = 10, .tsc = 200};

static uint64_t unmap(struct ipt_writer *w)
{
	return ipt_writer_range(w, IPT_SB_UNMAP, &h10, 0x400000, 0x401000, 0, NULL, 0);
}

static uint64_t at(struct ipt_writer *w, uint32_t tid, uint64_t off, uint64_t seq)
{
	struct ipt_sb_head h = {.pid = 10, .tid = tid, .pt_off = off};

	return ipt_writer_at(w, &h, seq);
}

/* Threads 10 and 11 with 32 bytes of PT each. */
static struct ipt_writer *begin(void)
{
	struct ipt_writer *w = t_writer(t_path("t"), false, false);
	uint8_t pt[32];

	ipt_wthread_pt(t_thread(w, 10, 10), pt, t_psb(pt));
	ipt_wthread_pt(t_thread(w, 10, 11), pt, t_psb(pt));
	return w;
}

static struct ipt_store *finish(struct ipt_writer *w)
{
	struct ipt_store *st;

	ck_assert_int_eq(ipt_writer_finish(w, 0, NULL), 0);
	ck_assert_int_eq(ipt_store_open(&st, t_path("t"), NULL), 0);
	return st;
}

static void count_faults(struct ipt_writer *w, int want)
{
	struct ipt_store *st = finish(w);

	ck_assert_int_eq(ipt_store_validate(st, NULL), want);
	ipt_store_close(st);
}

START_TEST(the_writer_tells_the_number_that_the_record_has)
{
	struct ipt_sb_map m = {.start = 0x1000, .end = 0x2000, .kind = IPT_SB_MAP_ANON};
	struct ipt_writer *w = begin();
	uint64_t seq[4];
	struct ipt_store *st;

	seq[0] = ipt_writer_map(w, IPT_SB_MAP, &h10, &m, NULL, 0, NULL, 0, "");
	seq[1] = ipt_writer_record(w, IPT_SB_MARK, &h10, "m", 2);
	seq[2] = unmap(w);
	seq[3] = at(w, 11, 16, seq[2]);
	ck_assert_uint_eq(at(w, 11, 16, 0), 0);
	st = finish(w);
	ck_assert_uint_eq(ipt_store_n_recs(st), seq[3]);
	ck_assert_uint_eq(ipt_store_rec(st, seq[0] - 1)->h.type, IPT_SB_MAP);
	ck_assert_uint_eq(ipt_store_rec(st, seq[1] - 1)->h.type, IPT_SB_MARK);
	ck_assert_uint_eq(ipt_store_rec(st, seq[2] - 1)->h.type, IPT_SB_UNMAP);
	ck_assert_uint_eq(ipt_store_rec(st, seq[3] - 1)->h.type, IPT_SB_AT);
	ck_assert_uint_eq(ipt_rec_at_seq(ipt_store_rec(st, seq[3] - 1)), seq[2]);
	ck_assert_uint_eq(ipt_rec_at_seq(ipt_store_rec(st, seq[2] - 1)), 0);
	ck_assert_int_eq(ipt_store_validate(st, NULL), 0);
	ipt_store_close(st);
}
END_TEST

START_TEST(a_position_is_found_by_change_and_thread)
{
	enum { N = 200 };
	struct ipt_writer *w = begin();
	uint64_t seq[N];
	struct ipt_store *st;

	for (size_t i = 0; i < N; i++)
		seq[i] = unmap(w);
	/* Out of order, every second change only; the second one of a change does not count. */
	for (size_t i = N; i-- > 0;) {
		if (i % 2)
			at(w, 11, i < N / 2 ? 16 : 32, seq[i]);
	}
	at(w, 11, 0, seq[1]);
	at(w, 10, 0, seq[2]);
	st = finish(w);
	for (size_t i = 0; i < N; i++) {
		const struct ipt_rec *r = ipt_store_at(st, seq[i], 11, 0);

		ck_assert_int_eq(r != NULL, i % 2);
		if (r)
			ck_assert_uint_eq(r->h.pt_off, i < N / 2 ? 16 : 32);
	}
	ck_assert_ptr_nonnull(ipt_store_at(st, seq[2], 10, 0));
	ck_assert_ptr_null(ipt_store_at(st, seq[2], 10, 1));
	ck_assert_ptr_null(ipt_store_at(st, seq[1], 12, 0));
	ck_assert_ptr_null(ipt_store_at(st, 0, 11, 0));
	ck_assert_ptr_null(ipt_store_at(st, UINT64_MAX, 11, 0));
	ck_assert_int_eq(ipt_store_validate(st, NULL), 1);
	ipt_store_close(st);
}
END_TEST

START_TEST(a_position_for_no_earlier_change_of_code_is_a_fault)
{
	struct ipt_writer *w = begin();
	uint64_t seq = unmap(w), mark = ipt_writer_record(w, IPT_SB_MARK, &h10, "m", 2), own;
	const uint64_t bad[] = {UINT64_MAX, mark, mark + 5, mark + 100, 1};
	uint64_t zero = 0;
	struct ipt_store *st;

	for (size_t i = 0; i < IPT_ARRAY_SIZE(bad); i++)
		own = at(w, 11, 16, bad[i]);
	ck_assert_uint_eq(own, mark + 5);
	ipt_writer_record(w, IPT_SB_AT, &h10, &zero, sizeof(zero));
	ipt_writer_record(w, IPT_SB_AT, &h10, NULL, 0);
	unmap(w);
	st = finish(w);
	ck_assert_ptr_null(ipt_store_at(st, seq, 11, 0));
	ck_assert_ptr_null(ipt_store_at(st, mark + 5, 11, 0));
	ck_assert_ptr_null(ipt_store_at(st, mark + 100, 11, 0));
	ck_assert_int_eq(ipt_store_validate(st, NULL), IPT_ARRAY_SIZE(bad) + 2);
	ipt_store_close(st);
}
END_TEST

START_TEST(positions_that_go_back_are_faults)
{
	struct ipt_writer *w = begin();
	uint64_t a = unmap(w), b = unmap(w);

	at(w, 11, 32, a);
	at(w, 11, 16, b);
	at(w, 10, 16, a);
	at(w, 10, 16, b);
	count_faults(w, 1);
}
END_TEST

START_TEST(a_position_beyond_the_stream_is_its_end_and_a_fault)
{
	struct ipt_writer *w = begin();
	uint64_t seq = unmap(w);
	struct ipt_store *st;

	at(w, 11, UINT64_MAX, seq);
	st = finish(w);
	ck_assert_uint_eq(ipt_store_at(st, seq, 11, 0)->h.pt_off, 32);
	ck_assert_int_eq(ipt_store_validate(st, NULL), 1);
	ipt_store_close(st);
}
END_TEST

START_TEST(a_position_of_a_thread_that_never_began_is_a_fault)
{
	struct ipt_writer *w = begin();

	at(w, 99, 0, unmap(w));
	count_faults(w, 1);
}
END_TEST

/* Packets that run new code never reach the disk before the record that says where it begins. */
START_TEST(a_position_is_on_disk_before_the_packets_behind_it)
{
	struct ipt_writer_cfg cfg = {.dir = t_path("t"), .buffer_bytes = 64};
	struct ipt_session_info info = t_info();
	struct ipt_wthread *t;
	struct ipt_writer *w;
	struct ipt_store *st;
	uint8_t pt[32];
	uint64_t seq;

	ck_assert_int_eq(ipt_writer_new(&w, &cfg, &info, NULL), 0);
	t = t_thread(w, 10, 10);
	seq = unmap(w);
	ipt_wthread_pt(t, pt, t_psb(pt));
	ipt_writer_flush(w);
	at(w, 10, ipt_wthread_pos(t), seq);
	for (int i = 0; i < 3; i++)
		ipt_wthread_pt(t, pt, t_psb(pt));
	ipt_writer_abandon(w);
	ck_assert_int_eq(ipt_store_open(&st, t_path("t"), NULL), 0);
	ck_assert_uint_eq(ipt_store_thread(st, 0)->pt_bytes, 96);
	ck_assert_ptr_nonnull(ipt_store_at(st, seq, 10, 0));
	ipt_store_close(st);
}
END_TEST

/* A trace of the first version is read; it may hold nothing that version 2 brought. */
START_TEST(version_1_is_read)
{
	uint16_t version = 1;
	char *text, *at_version;
	struct ipt_store *st;
	FILE *f;

	ck_assert_int_eq(ipt_writer_finish(t_small(t_path("t"), false), 0, NULL), 0);
	f = fopen(t_path("t/sideband"), "r+");
	ck_assert_int_eq(fseek(f, 8, SEEK_SET), 0);
	ck_assert_uint_eq(fwrite(&version, sizeof(version), 1, f), 1);
	fclose(f);
	text = ipt_xcalloc(100000, 1);
	f = fopen(t_path("t/manifest.json"), "r+");
	ck_assert_uint_gt(fread(text, 1, 99999, f), 0);
	at_version = strstr(text, "\"version\"");
	ck_assert_ptr_nonnull(at_version);
	at_version = strchr(at_version, '2');
	ck_assert_ptr_nonnull(at_version);
	*at_version = '1';
	rewind(f);
	fputs(text, f);
	fclose(f);
	free(text);
	ck_assert_int_eq(ipt_store_open(&st, t_path("t"), NULL), 0);
	ck_assert_int_eq(ipt_store_validate(st, NULL), 0);
	ck_assert_uint_eq(ipt_store_thread(st, 0)->instructions, 1000);
	ipt_store_close(st);
}
END_TEST

STORE_MAIN("store_at", the_writer_tells_the_number_that_the_record_has,
	   a_position_is_found_by_change_and_thread,
	   a_position_for_no_earlier_change_of_code_is_a_fault, positions_that_go_back_are_faults,
	   a_position_beyond_the_stream_is_its_end_and_a_fault,
	   a_position_of_a_thread_that_never_began_is_a_fault,
	   a_position_is_on_disk_before_the_packets_behind_it, version_1_is_read)
