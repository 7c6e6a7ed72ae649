/* SPDX-License-Identifier: MIT */
/* Growing bytes. */
#include "base/base.h"

#include <stdlib.h>

#include "check_main.h"

START_TEST(what_is_appended_is_there_after_growth)
{
	struct ipt_buf b = {0};

	for (uint32_t i = 0; i < 10000; i++)
		ipt_buf_u32(&b, i);
	ck_assert_uint_eq(b.len, 40000);
	for (uint32_t i = 0; i < 10000; i++) {
		uint32_t v;

		memcpy(&v, b.data + 4 * i, 4);
		ck_assert_uint_eq(v, i);
	}
	ipt_buf_fini(&b);
	ck_assert_ptr_null(b.data);
}
END_TEST

START_TEST(widths_are_little_endian)
{
	const uint8_t want[] = {1, 3, 2, 7, 6, 5, 4, 15, 14, 13, 12, 11, 10, 9, 8};
	struct ipt_buf b = {0};

	ipt_buf_u8(&b, 1);
	ipt_buf_u16(&b, 0x0203);
	ipt_buf_u32(&b, 0x04050607);
	ipt_buf_u64(&b, 0x08090a0b0c0d0e0full);
	ck_assert_uint_eq(b.len, sizeof(want));
	ck_assert_mem_eq(b.data, want, sizeof(want));
	ipt_buf_fini(&b);
}
END_TEST

START_TEST(printf_of_any_length_is_whole)
{
	/* Around the first guess of the room, and far beyond it. */
	static const int lens[] = {0, 1, 126, 127, 128, 129, 5000};

	for (size_t i = 0; i < IPT_ARRAY_SIZE(lens); i++) {
		struct ipt_buf b = {0};

		ipt_buf_str(&b, "x");
		ipt_buf_printf(&b, "%*s", lens[i], "");
		ck_assert_uint_eq(b.len, (size_t)lens[i] + 1);
		for (int k = 1; k <= lens[i]; k++)
			ck_assert_int_eq(b.data[k], ' ');
		ipt_buf_fini(&b);
	}
}
END_TEST

START_TEST(padding_is_zero_and_ends_at_a_multiple)
{
	struct ipt_buf b = {0};

	ipt_buf_str(&b, "abc");
	ipt_buf_pad(&b, 8);
	ck_assert_uint_eq(b.len, 8);
	ck_assert_mem_eq(b.data, "abc\0\0\0\0\0", 8);
	ipt_buf_pad(&b, 8);
	ck_assert_uint_eq(b.len, 8);
	ipt_buf_append(&b, NULL, 0);
	ck_assert_uint_eq(b.len, 8);
	ipt_buf_fini(&b);
}
END_TEST

START_TEST(vector_elements_begin_zeroed)
{
	IPT_VEC(uint64_t) v = {0};

	for (uint64_t i = 1; i <= 100; i++) {
		uint64_t *p = ipt_vec_push(&v);

		ck_assert_uint_eq(*p, 0);
		*p = i;
	}
	for (uint64_t i = 1; i <= 100; i++)
		ck_assert_uint_eq(v.v[i - 1], i);
	ipt_vec_fini(&v);
	ck_assert_uint_eq(v.n, 0);
}
END_TEST

CHECK_MAIN("buf", what_is_appended_is_there_after_growth, widths_are_little_endian,
	   printf_of_any_length_is_whole, padding_is_zero_and_ends_at_a_multiple,
	   vector_elements_begin_zeroed)
