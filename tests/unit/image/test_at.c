/* SPDX-License-Identifier: MIT */
/* Changes of code that three threads meet at places of their own, told by AT records. */
#include "scene.h"

#include "check_main.h"

#define VA 0x400000ull

struct trio {
	struct scene s;        /* thread 100 acts */
	struct ipt_code *c[3]; /* of 100, 101, 102 */
	uint8_t page[4][256];  /* 0xa0, 0xa1, ... */
};

static void begin(struct trio *k)
{
	struct ipt_sb_thread_start start = {.creator = 100};
	uint8_t zero[4096] = {0};

	scene_begin(&k->s, NULL);
	ipt_wthread_pt(k->s.t, zero, sizeof(zero));
	for (size_t i = 0; i < 4; i++)
		memset(k->page[i], 0xa0 + (int)i, sizeof(k->page[i]));
	scene_code(&k->s, IPT_SB_MAP, VA, k->page[0], 256, 0, "/a");
	for (int i = 1; i < 3; i++) {
		struct ipt_wthread *t = ipt_writer_thread(k->s.w, 100, 100 + i, &start, "t", 2000);

		ipt_wthread_pt(t, zero, sizeof(zero));
	}
}

static uint64_t unmap(struct trio *k, uint64_t va, uint64_t off)
{
	struct ipt_sb_head h = {.pid = 100, .tid = 100, .pt_off = off};

	return ipt_writer_range(k->s.w, IPT_SB_UNMAP, &h, va, va + 256, 0, NULL, 0);
}

static uint64_t put(struct trio *k, enum ipt_sb_type type, uint64_t va, int page, uint64_t off)
{
	struct ipt_sb_head h = {.pid = 100, .tid = 100, .pt_off = off};
	struct ipt_sb_map m = {.start = va, .end = va + 256, .kind = IPT_SB_MAP_ANON};

	ck_assert_int_eq(ipt_writer_image(k->s.w, k->page[page], 256, m.image), 0);
	return ipt_writer_map(k->s.w, type, &h, &m, NULL, 0, NULL, 0, "");
}

static void at(struct trio *k, uint32_t tid, uint64_t off, uint16_t flags, uint64_t seq)
{
	struct ipt_sb_head h = {.pid = 100, .tid = tid, .pt_off = off, .flags = flags};

	ck_assert_uint_ne(ipt_writer_at(k->s.w, &h, seq), 0);
}

static void finish(struct trio *k)
{
	scene_finish(&k->s);
	for (size_t i = 0; i < 3; i++)
		ck_assert_int_eq(
			ipt_code_new(&k->c[i], k->s.im, ipt_store_thread(k->s.st, i), NULL), 0);
}

static void end(struct trio *k)
{
	for (size_t i = 0; i < 3; i++)
		ipt_code_free(k->c[i]);
	scene_end(&k->s);
}

/* The code byte of thread @i at @va for the packets at @off; 0: none. */
static unsigned code_at(const struct trio *k, size_t i, uint64_t off, uint64_t va)
{
	size_t e = ipt_code_n_epochs(k->c[i]);
	uint8_t b = 0;

	while (e > 1 && ipt_code_epoch_off(k->c[i], e - 1) > off)
		e--;
	return ipt_code_read_at(k->c[i], e - 1, va, &b, 1) ? b : 0;
}

/* Thread @i runs page @before up to @off and @after from there on (0xa0 and so on; 0: no code). */
static void turns(const struct trio *k, size_t i, uint64_t off, unsigned before, unsigned after)
{
	ck_assert_uint_eq(code_at(k, i, off - 1, VA), before);
	ck_assert_uint_eq(code_at(k, i, off, VA), after);
}

static bool exact(const struct trio *k, size_t i, size_t epoch)
{
	return ipt_code_epoch(k->c[i], epoch)->exact;
}

START_TEST(each_thread_meets_new_code_where_its_record_says)
{
	struct trio k;
	uint64_t seq;

	begin(&k);
	seq = put(&k, IPT_SB_CODE, VA, 1, 100);
	at(&k, 102, 300, IPT_SB_F_BOUNDED, seq);
	at(&k, 101, 200, 0, seq);
	finish(&k);
	turns(&k, 0, 100, 0xa0, 0xa1);
	turns(&k, 1, 200, 0xa0, 0xa1);
	turns(&k, 2, 300, 0xa0, 0xa1);
	ck_assert(exact(&k, 0, 1) && exact(&k, 1, 1) && !exact(&k, 2, 1));
	end(&k);
}
END_TEST

/* The new mapping only adds to an address that was freed: it may be there as soon as that is. */
START_TEST(unmap_and_map_at_one_address_are_met_by_each_thread_at_its_own_place)
{
	uint64_t gone, back, again;
	struct trio k;

	begin(&k);
	gone = unmap(&k, VA, 100);
	back = put(&k, IPT_SB_MAP, VA, 1, 110);
	at(&k, 101, 40, 0, gone);
	at(&k, 101, 60, 0, back);
	again = put(&k, IPT_SB_CODE, VA, 2, 500);
	at(&k, 102, 700, 0, back);
	at(&k, 102, 800, 0, again);
	at(&k, 101, 90, 0, again);
	finish(&k);
	turns(&k, 0, 100, 0xa0, 0xa1);
	turns(&k, 0, 500, 0xa1, 0xa2);
	turns(&k, 1, 40, 0xa0, 0xa1);
	turns(&k, 1, 90, 0xa1, 0xa2);
	turns(&k, 2, 700, 0xa0, 0xa1);
	turns(&k, 2, 800, 0xa1, 0xa2);
	ck_assert_uint_eq(ipt_code_n_epochs(k.c[2]), 3);
	end(&k);
}
END_TEST

/* A thread that slept through some changes tells the last only, and is exact. */
START_TEST(one_record_stands_for_all_changes_before_it)
{
	uint64_t last = 0;
	struct trio k;

	begin(&k);
	for (int i = 1; i < 4; i++)
		last = put(&k, IPT_SB_CODE, VA, i, 100 * (uint64_t)i);
	at(&k, 101, 1000, 0, last);
	at(&k, 102, 1000, IPT_SB_F_BOUNDED, last);
	finish(&k);
	turns(&k, 0, 200, 0xa1, 0xa2);
	turns(&k, 1, 1000, 0xa0, 0xa3);
	turns(&k, 2, 1000, 0xa0, 0xa3);
	ck_assert_uint_eq(ipt_code_n_epochs(k.c[1]), 2);
	ck_assert(exact(&k, 1, 1) && !exact(&k, 2, 1));
	end(&k);
}
END_TEST

START_TEST(a_thread_without_a_record_keeps_its_code_to_the_next_position)
{
	uint64_t seq[2];
	struct trio k;

	begin(&k);
	seq[0] = put(&k, IPT_SB_CODE, VA, 1, 100);
	seq[1] = put(&k, IPT_SB_CODE, VA, 2, 200);
	at(&k, 101, 50, 0, seq[0]);
	finish(&k);
	turns(&k, 1, 50, 0xa0, 0xa1);
	turns(&k, 1, 4096, 0xa1, 0xa2);
	turns(&k, 2, 4096, 0xa0, 0xa2);
	ck_assert(exact(&k, 1, 1) && !exact(&k, 1, 2) && !exact(&k, 2, 1));
	ck_assert_uint_ne(seq[0], seq[1]);
	end(&k);
}
END_TEST

START_TEST(what_the_change_itself_says_comes_first)
{
	struct ipt_sb_head h = {.pid = 100, .tid = 100, .pt_off = 100};
	struct ipt_sb_pos pos = {.tid = 101, .pt_off = 150};
	struct trio k;
	uint64_t seq;

	begin(&k);
	seq = ipt_writer_range(k.s.w, IPT_SB_UNMAP, &h, VA, VA + 256, 0, &pos, 1);
	at(&k, 100, 500, 0, seq);
	at(&k, 101, 500, 0, seq);
	at(&k, 102, 500, 0, seq);
	finish(&k);
	turns(&k, 0, 100, 0xa0, 0);
	turns(&k, 1, 150, 0xa0, 0);
	turns(&k, 2, 500, 0xa0, 0);
	for (size_t i = 0; i < 3; i++)
		ck_assert_uint_eq(ipt_code_n_epochs(k.c[i]), 2);
	end(&k);
}
END_TEST

START_TEST(the_first_of_two_records_counts)
{
	struct trio k;
	uint64_t seq;

	begin(&k);
	seq = put(&k, IPT_SB_CODE, VA, 1, 100);
	at(&k, 101, 300, 0, seq);
	at(&k, 101, 200, 0, seq);
	at(&k, 102, 200, 0, seq);
	at(&k, 102, 300, 0, seq);
	finish(&k);
	turns(&k, 1, 300, 0xa0, 0xa1);
	turns(&k, 2, 200, 0xa0, 0xa1);
	end(&k);
}
END_TEST

/* A record for a change yet to come, for none, for one that changes no code. */
START_TEST(records_that_name_no_earlier_change_mean_nothing)
{
	struct ipt_sb_head h = {.pid = 100, .tid = 100};
	struct trio k;
	uint64_t seq, mark;

	begin(&k);
	mark = ipt_writer_record(k.s.w, IPT_SB_MARK, &h, "m", 2);
	at(&k, 101, 10, 0, mark + 4); /* the CODE below */
	at(&k, 101, 20, 0, UINT64_MAX);
	at(&k, 101, 30, 0, mark);
	seq = put(&k, IPT_SB_CODE, VA, 1, 100);
	ck_assert_uint_eq(seq, mark + 4);
	at(&k, 101, 200, 0, seq);
	finish(&k);
	turns(&k, 1, 200, 0xa0, 0xa1);
	ck_assert_uint_eq(ipt_code_n_epochs(k.c[1]), 2);
	end(&k);
}
END_TEST

START_TEST(a_position_that_goes_back_counts_as_the_last_one)
{
	uint64_t a, b;
	struct trio k;

	begin(&k);
	a = put(&k, IPT_SB_CODE, VA, 1, 100);
	b = put(&k, IPT_SB_CODE, VA, 2, 200);
	at(&k, 101, 300, 0, a);
	at(&k, 101, 50, 0, b);
	finish(&k);
	turns(&k, 1, 300, 0xa0, 0xa2);
	ck_assert_uint_eq(ipt_code_n_epochs(k.c[1]), 2);
	end(&k);
}
END_TEST

/* New mappings at free addresses need no record, as long as nothing else is open. */
START_TEST(a_change_that_only_adds_needs_no_record)
{
	struct trio k;
	uint64_t seq;

	begin(&k);
	put(&k, IPT_SB_MAP, VA + 0x1000, 1, 100);
	seq = put(&k, IPT_SB_CODE, VA, 2, 200);
	put(&k, IPT_SB_MAP, VA + 0x2000, 3, 300);
	at(&k, 101, 1000, 0, seq);
	finish(&k);
	ck_assert_uint_eq(code_at(&k, 1, 0, VA + 0x1000), 0xa1);
	ck_assert_uint_eq(code_at(&k, 1, 1000, VA + 0x2000), 0xa3);
	turns(&k, 1, 1000, 0xa0, 0xa2);
	ck_assert_uint_eq(code_at(&k, 2, 0, VA + 0x1000), 0xa1);
	end(&k);
}
END_TEST

/* A fork that shares the memory: another pid meets the changes, too. */
START_TEST(a_thread_of_another_process_in_the_same_memory_meets_changes)
{
	struct ipt_sb_thread_start vfork = {.ppid = 100,
					    .creator = 100,
					    .flags = IPT_SB_TF_LEADER | IPT_SB_TF_FORKED |
						     IPT_SB_TF_SHARES_VM};
	struct ipt_sb_head h = {.pid = 200, .tid = 200, .pt_off = 77};
	struct ipt_code *c;
	uint8_t zero[256] = {0}, b = 0;
	struct trio k;

	begin(&k);
	ipt_wthread_pt(ipt_writer_thread(k.s.w, 200, 200, &vfork, "v", 3000), zero, sizeof(zero));
	ipt_writer_at(k.s.w, &h, put(&k, IPT_SB_CODE, VA, 1, 100));
	finish(&k);
	ck_assert_int_eq(ipt_code_new(&c, k.s.im, ipt_store_thread(k.s.st, 3), NULL), 0);
	ck_assert_uint_eq(ipt_code_n_epochs(c), 2);
	ck_assert_uint_eq(ipt_code_epoch_off(c, 1), 77);
	ck_assert_uint_eq(ipt_code_read_at(c, 1, VA, &b, 1), 1);
	ck_assert_uint_eq(b, 0xa1);
	ipt_code_free(c);
	end(&k);
}
END_TEST

/* Time is bounded when many threads' records stand behind many changes. */
START_TEST(many_records_are_found_fast)
{
	enum { N = 50000 };
	IPT_VEC(uint64_t) seq = {0};
	struct trio k;

	begin(&k);
	for (int i = 0; i < N; i++)
		*ipt_vec_push(&seq) = put(&k, IPT_SB_CODE, VA, 1 + i % 3, (uint64_t)i * 4096 / N);
	for (size_t i = N; i-- > 0;) {
		at(&k, 101, i * 4096 / N, 0, seq.v[i]);
		at(&k, 102, i * 4096 / N, 0, seq.v[i]);
	}
	finish(&k);
	ck_assert_uint_eq(ipt_code_n_epochs(k.c[1]), ipt_code_n_epochs(k.c[0]));
	ck_assert_uint_eq(ipt_code_n_epochs(k.c[2]), ipt_code_n_epochs(k.c[0]));
	for (uint64_t off = 0; off < 4096; off += 61)
		ck_assert_uint_eq(code_at(&k, 2, off, VA), code_at(&k, 0, off, VA));
	ipt_vec_fini(&seq);
	end(&k);
}
END_TEST

CHECK_MAIN("image_at", each_thread_meets_new_code_where_its_record_says,
	   unmap_and_map_at_one_address_are_met_by_each_thread_at_its_own_place,
	   one_record_stands_for_all_changes_before_it,
	   a_thread_without_a_record_keeps_its_code_to_the_next_position,
	   what_the_change_itself_says_comes_first, the_first_of_two_records_counts,
	   records_that_name_no_earlier_change_mean_nothing,
	   a_position_that_goes_back_counts_as_the_last_one,
	   a_change_that_only_adds_needs_no_record,
	   a_thread_of_another_process_in_the_same_memory_meets_changes,
	   many_records_are_found_fast)
