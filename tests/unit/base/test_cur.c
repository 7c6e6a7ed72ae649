/* SPDX-License-Identifier: MIT */
/* The bounded reader: little-endian, and nothing beyond the end. */
#include "base/base.h"

#include "check_main.h"

START_TEST(numbers_are_little_endian)
{
	const uint8_t b[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
	struct ipt_cur c = ipt_cur_make(b, sizeof(b));

	ck_assert_uint_eq(ipt_cur_u8(&c), 1);
	ck_assert_uint_eq(ipt_cur_u16(&c), 0x0302);
	ck_assert_uint_eq(ipt_cur_u32(&c), 0x07060504);
	ck_assert_uint_eq(ipt_cur_u64(&c), 0x0f0e0d0c0b0a0908ull);
	ck_assert_uint_eq(ipt_cur_left(&c), 0);
	ck_assert_uint_eq(ipt_cur_off(&c), 15);
	ck_assert(!c.bad);
}
END_TEST

START_TEST(a_read_beyond_the_end_gives_zero_and_poisons)
{
	const uint8_t b[] = {0xff, 0xff, 0xff};
	struct ipt_cur c = ipt_cur_make(b, sizeof(b));

	ck_assert_uint_eq(ipt_cur_u32(&c), 0);
	ck_assert(c.bad);
	/* Poisoned: even what would fit gives nothing. */
	ck_assert_uint_eq(ipt_cur_u8(&c), 0);
	ck_assert_ptr_null(ipt_cur_bytes(&c, 1));
}
END_TEST

START_TEST(huge_lengths_do_not_wrap)
{
	const uint8_t b[4] = {0};
	struct ipt_cur c = ipt_cur_make(b, sizeof(b));

	ipt_cur_skip(&c, 2);
	ck_assert_ptr_null(ipt_cur_bytes(&c, SIZE_MAX));
	ck_assert(c.bad);
	ck_assert_uint_eq(ipt_cur_off(&c), 2);
}
END_TEST

START_TEST(nothing_can_be_taken_from_nothing)
{
	struct ipt_cur c = ipt_cur_make("", 0);

	ck_assert_ptr_nonnull(ipt_cur_bytes(&c, 0));
	ck_assert(!c.bad);
	ck_assert_uint_eq(ipt_cur_u8(&c), 0);
	ck_assert(c.bad);
}
END_TEST

CHECK_MAIN("cur", numbers_are_little_endian, a_read_beyond_the_end_gives_zero_and_poisons,
	   huge_lengths_do_not_wrap, nothing_can_be_taken_from_nothing)
