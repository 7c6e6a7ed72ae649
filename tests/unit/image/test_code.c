/* SPDX-License-Identifier: MIT */
/* Code in time: epochs of threads from hand-made sideband records. */
#include "scene.h"

#include "check_main.h"

#define VA 0x400000ull

static uint8_t page_a[4096], page_b[4096];

static void fill_pages(void)
{
	memset(page_a, 0xaa, sizeof(page_a));
	memset(page_b, 0xbb, sizeof(page_b));
}

/* A stream long enough for the positions that records speak of. */
static void pad(struct ipt_wthread *t, size_t n)
{
	uint8_t *p = ipt_xcalloc(n, 1);

	ipt_wthread_pt(t, p, n);
	free(p);
}

static void range(struct scene *s, enum ipt_sb_type type, uint32_t pid, uint64_t start,
		  uint64_t end, uint64_t off)
{
	struct ipt_sb_head h = {.pid = pid, .tid = pid, .pt_off = off};

	ipt_writer_range(s->w, type, &h, start, end, 0, NULL, 0);
}

static void open_code(struct scene *s, size_t i, struct ipt_code **c)
{
	ck_assert_int_eq(ipt_code_new(c, s->im, ipt_store_thread(s->st, i), NULL), 0);
}

static uint8_t byte_at(const struct ipt_code *c, uint64_t va)
{
	uint8_t b = 0;

	return ipt_code_read(c, va, &b, 1) ? b : 0;
}

START_TEST(maps_that_only_add_need_no_epoch)
{
	struct ipt_code *c;
	struct scene s;

	fill_pages();
	scene_begin(&s, NULL);
	pad(s.t, 200000);
	scene_code(&s, IPT_SB_MAP, VA, page_a, 4096, 0, "/a");
	scene_code(&s, IPT_SB_MAP, VA + 0x10000, page_b, 4096, 500, "/b");
	scene_finish(&s);
	open_code(&s, 0, &c);
	ck_assert_uint_eq(ipt_code_n_epochs(c), 1);
	ck_assert_uint_eq(byte_at(c, VA), 0xaa);
	ck_assert_uint_eq(byte_at(c, VA + 0x10fff), 0xbb);
	ck_assert_uint_eq(byte_at(c, VA + 0x11000), 0);
	ck_assert_str_eq(ipt_code_map(c, VA + 5)->path, "/a");
	ipt_code_free(c);
	scene_end(&s);
}
END_TEST

START_TEST(other_bytes_at_the_same_address_make_an_epoch)
{
	struct ipt_code *c;
	const struct ipt_map *stable[4];
	struct scene s;

	fill_pages();
	scene_begin(&s, NULL);
	pad(s.t, 200000);
	scene_code(&s, IPT_SB_MAP, VA, page_a, 4096, 0, "/a");
	scene_code(&s, IPT_SB_MAP, VA + 0x10000, page_a, 4096, 0, "/s");
	scene_code(&s, IPT_SB_CODE, VA + 16, page_b, 16, 700, "");
	range(&s, IPT_SB_UNMAP, 100, VA, VA + 8, 900);
	scene_finish(&s);
	open_code(&s, 0, &c);
	ck_assert_uint_eq(ipt_code_n_epochs(c), 3);
	ck_assert_uint_eq(ipt_code_epoch(c, 1)->pt_off, 700);
	ck_assert(ipt_code_epoch(c, 1)->exact);
	ck_assert_uint_eq(ipt_code_epoch(c, 1)->n_maps, 4);
	ck_assert_uint_eq(byte_at(c, VA + 16), 0xaa);
	ipt_code_seek(c, 1);
	ck_assert_uint_eq(byte_at(c, VA + 15), 0xaa);
	ck_assert_uint_eq(byte_at(c, VA + 16), 0xbb);
	ck_assert_uint_eq(byte_at(c, VA + 31), 0xbb);
	ck_assert_uint_eq(byte_at(c, VA + 32), 0xaa);
	ck_assert_uint_eq(byte_at(c, VA), 0xaa);
	ck_assert_uint_eq(ipt_code_map(c, VA + 32)->image_off, 32);
	ipt_code_seek(c, 2);
	ck_assert_uint_eq(byte_at(c, VA + 7), 0);
	ck_assert_uint_eq(byte_at(c, VA + 8), 0xaa);
	/* Only what no epoch contradicts may be handed out as one image. */
	for (size_t i = 0, n = ipt_code_stable(c, 0, stable, 4); i < n; i++)
		ck_assert(stable[i]->start >= VA + 32 ||
			  (stable[i]->start == VA + 8 && stable[i]->end == VA + 16));
	ipt_code_free(c);
	scene_end(&s);
}
END_TEST

START_TEST(forked_process_begins_with_its_parents_code)
{
	struct ipt_sb_thread_start fork = {
		.ppid = 100, .creator = 100, .flags = IPT_SB_TF_LEADER | IPT_SB_TF_FORKED};
	struct ipt_wthread *t2, *t3;
	struct ipt_code *c;
	struct scene s;

	fill_pages();
	scene_begin(&s, NULL);
	pad(s.t, 200000);
	scene_code(&s, IPT_SB_MAP, VA, page_a, 4096, 0, "/a");
	t2 = ipt_writer_thread(s.w, 200, 200, &fork, "c", 2000);
	pad(t2, 1000);
	/* The parent changes its code: the child does not see it. */
	scene_code(&s, IPT_SB_CODE, VA, page_b, 4096, 300, "");
	range(&s, IPT_SB_UNMAP, 200, VA + 2048, VA + 4096, 50);
	fork.flags |= IPT_SB_TF_SHARES_VM;
	t3 = ipt_writer_thread(s.w, 300, 300, &fork, "v", 3000);
	ck_assert_ptr_nonnull(t2);
	ck_assert_ptr_nonnull(t3);
	scene_finish(&s);
	for (size_t i = 0; i < ipt_store_n_threads(s.st); i++) {
		uint32_t pid = ipt_store_thread(s.st, i)->pid;

		open_code(&s, i, &c);
		ck_assert_uint_eq(byte_at(c, VA), pid == 300 ? 0xbb : 0xaa);
		ck_assert_uint_eq(ipt_code_n_epochs(c), pid == 300 ? 1 : 2);
		ipt_code_seek(c, 1);
		ck_assert_uint_eq(byte_at(c, VA), pid == 200 ? 0xaa : 0xbb);
		ck_assert_uint_eq(byte_at(c, VA + 2048), pid == 200 ? 0 : 0xbb);
		ipt_code_free(c);
	}
	scene_end(&s);
}
END_TEST

START_TEST(thread_without_a_position_gets_the_change_at_its_next_known_one)
{
	struct ipt_sb_thread_start start = {.ppid = 1, .creator = 100};
	struct ipt_sb_head h = {.pid = 100, .tid = 100, .pt_off = 20};
	struct ipt_sb_pos pos = {.tid = 101, .gen = 0, .pt_off = 64};
	struct ipt_wthread *t2;
	struct ipt_code *c;
	struct scene s;

	fill_pages();
	scene_begin(&s, NULL);
	pad(s.t, 200000);
	scene_code(&s, IPT_SB_MAP, VA, page_a, 4096, 0, "/a");
	t2 = ipt_writer_thread(s.w, 100, 101, &start, "t", 2000);
	pad(t2, 1000);
	pos.gen = ipt_wthread_gen(t2);
	range(&s, IPT_SB_UNMAP, 100, VA, VA + 8, 10);
	ipt_writer_range(s.w, IPT_SB_UNMAP, &h, VA + 8, VA + 16, 0, &pos, 1);
	scene_finish(&s);
	for (size_t i = 0; i < 2; i++) {
		bool second = ipt_store_thread(s.st, i)->tid == 101;

		open_code(&s, i, &c);
		ck_assert_uint_eq(ipt_code_n_epochs(c), second ? 2 : 3);
		ck_assert_uint_eq(ipt_code_epoch(c, 1)->pt_off, second ? 64 : 10);
		ck_assert_int_eq(ipt_code_epoch(c, 1)->exact, !second);
		ipt_code_free(c);
	}
	scene_end(&s);
}
END_TEST

START_TEST(exec_clears_all_code)
{
	struct ipt_sb_head h = {.pid = 100, .tid = 100, .pt_off = 40};
	struct ipt_sb_exec exec = {.n_path = 1, .n_argv = 1, .bits = 64};
	struct ipt_code *c;
	struct scene s;
	uint8_t payload[sizeof(exec) + 8] = {0};

	fill_pages();
	memcpy(payload, &exec, sizeof(exec));
	scene_begin(&s, NULL);
	pad(s.t, 200000);
	scene_code(&s, IPT_SB_MAP, VA, page_a, 4096, 0, "/a");
	ipt_writer_record(s.w, IPT_SB_EXEC, &h, payload, sizeof(payload));
	scene_code(&s, IPT_SB_MAP, VA + 0x1000, page_b, 4096, 40, "/b");
	scene_finish(&s);
	open_code(&s, 0, &c);
	ck_assert_uint_eq(ipt_code_n_epochs(c), 2);
	ck_assert_uint_eq(byte_at(c, VA), 0xaa);
	ck_assert_uint_eq(byte_at(c, VA + 0x1000), 0);
	ipt_code_seek(c, 1);
	ck_assert_uint_eq(byte_at(c, VA), 0);
	ck_assert_uint_eq(byte_at(c, VA + 0x1000), 0xbb);
	ck_assert_uint_eq(ipt_code_program(c, 1), 1);
	ipt_code_free(c);
	scene_end(&s);
}
END_TEST

START_TEST(hostile_ranges_are_bounded)
{
	struct ipt_sb_head h = {.pid = 100, .tid = 100};
	struct ipt_sb_map m = {.start = 0x1000, .end = UINT64_MAX, .image_off = 4000};
	struct ipt_code *c;
	struct scene s;
	uint8_t b[16];

	fill_pages();
	scene_begin(&s, NULL);
	pad(s.t, 200000);
	ck_assert_int_eq(ipt_writer_image(s.w, page_a, 4096, m.image), 0);
	ipt_writer_map(s.w, IPT_SB_MAP, &h, &m, NULL, 0, NULL, 0, "/huge");
	m.start = 0x9000;
	m.end = 0x8000;
	ipt_writer_map(s.w, IPT_SB_MAP, &h, &m, NULL, 0, NULL, 0, "/turned");
	m.start = 0x2000;
	m.end = 0x3000;
	m.image_off = UINT64_MAX - 4;
	ipt_writer_map(s.w, IPT_SB_CODE, &h, &m, NULL, 0, NULL, 0, "/beyond");
	range(&s, IPT_SB_UNMAP, 100, 0, UINT64_MAX, UINT64_MAX);
	range(&s, IPT_SB_UNMAP, 100, 5, 5, 0);
	scene_finish(&s);
	open_code(&s, 0, &c);
	/* 96 bytes of the image are left at offset 4000. */
	ck_assert_uint_eq(ipt_code_read(c, 0x1000 + 90, b, 16), 6);
	ck_assert_uint_eq(ipt_code_read(c, 0x1000 + 96, b, 16), 0);
	ck_assert_uint_eq(ipt_code_read(c, 0x2000, b, 16), 0);
	ck_assert_uint_eq(ipt_code_read(c, UINT64_MAX, b, 16), 0);
	ipt_code_seek(c, ipt_code_n_epochs(c) - 1);
	ck_assert_uint_eq(ipt_code_read(c, 0x1000, b, 16), 0);
	ipt_code_free(c);
	scene_end(&s);
}
END_TEST

START_TEST(many_code_changes_share_their_memory)
{
	enum { N = 20000 };
	struct ipt_code *c;
	struct scene s;

	fill_pages();
	scene_begin(&s, NULL);
	pad(s.t, 200000);
	for (uint64_t i = 0; i < 1000; i++)
		scene_code(&s, IPT_SB_MAP, VA + i * 4096, page_a, 4096, 0, "/a");
	for (uint64_t i = 0; i < N; i++)
		scene_code(&s, IPT_SB_CODE, VA + i % 1000 * 4096, i & 1 ? page_a : page_b, 4096,
			   8 * (i + 1), "");
	scene_finish(&s);
	open_code(&s, 0, &c);
	ck_assert_uint_eq(ipt_code_n_epochs(c), N + 1);
	ipt_code_seek(c, 1);
	ck_assert_uint_eq(byte_at(c, VA), 0xbb);
	ck_assert_uint_eq(byte_at(c, VA + 4096), 0xaa);
	ck_assert_uint_eq(ipt_code_epoch(c, N)->n_maps, 1000);
	ipt_code_free(c);
	scene_end(&s);
}
END_TEST

CHECK_MAIN("image_code", maps_that_only_add_need_no_epoch,
	   other_bytes_at_the_same_address_make_an_epoch,
	   forked_process_begins_with_its_parents_code,
	   thread_without_a_position_gets_the_change_at_its_next_known_one, exec_clears_all_code,
	   hostile_ranges_are_bounded, many_code_changes_share_their_memory)
