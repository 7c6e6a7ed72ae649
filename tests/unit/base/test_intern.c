/* SPDX-License-Identifier: MIT */
/* Every string once. */
#include "base/base.h"

#include "check_main.h"

START_TEST(equal_strings_share_one_copy)
{
	struct ipt_intern *in = ipt_intern_new();
	char name[] = "main";
	const char *a = ipt_intern_str(in, name);

	ck_assert_ptr_ne(a, name);
	ck_assert_ptr_eq(a, ipt_intern_str(in, "main"));
	ck_assert_ptr_eq(a, ipt_intern_strn(in, "mainly", 4));
	ck_assert_ptr_ne(a, ipt_intern_str(in, "mai"));
	ck_assert_str_eq(a, "main");
	ipt_intern_free(in);
}
END_TEST

START_TEST(copies_stay_where_they_are)
{
	struct ipt_intern *in = ipt_intern_new();
	const char *first[1000];
	char name[32];

	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < 1000; i++) {
			snprintf(name, sizeof(name), "f%d", i);
			if (!round)
				first[i] = ipt_intern_str(in, name);
			ck_assert_ptr_eq(first[i], ipt_intern_str(in, name));
			ck_assert_str_eq(first[i], name);
		}
	}
	ipt_intern_free(in);
	ipt_intern_free(NULL);
}
END_TEST

START_TEST(bytes_after_a_nul_count)
{
	struct ipt_intern *in = ipt_intern_new();

	ck_assert_ptr_ne(ipt_intern_strn(in, "a\0b", 3), ipt_intern_strn(in, "a\0c", 3));
	ck_assert_ptr_eq(ipt_intern_strn(in, "", 0), ipt_intern_str(in, ""));
	ipt_intern_free(in);
}
END_TEST

CHECK_MAIN("intern", equal_strings_share_one_copy, copies_stay_where_they_are,
	   bytes_after_a_nul_count)
