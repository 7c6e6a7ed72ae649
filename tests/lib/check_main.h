/* SPDX-License-Identifier: MIT */
/* The end of every Check program: CHECK_MAIN("name", test, test, ...). */
#ifndef CHECK_MAIN_H
#define CHECK_MAIN_H

#include <check.h>

#define CHECK_MAIN(name, ...)                                                                      \
	int main(void)                                                                             \
	{                                                                                          \
		const TTest *tests[] = {__VA_ARGS__};                                              \
		Suite *s = suite_create(name);                                                     \
		TCase *tc = tcase_create(name);                                                    \
		SRunner *sr;                                                                       \
		int failed;                                                                        \
                                                                                                   \
		tcase_set_timeout(tc, 60);                                                         \
		for (size_t i = 0; i < sizeof(tests) / sizeof(*tests); i++)                        \
			tcase_add_test(tc, tests[i]);                                              \
		suite_add_tcase(s, tc);                                                            \
		sr = srunner_create(s);                                                            \
		srunner_run_all(sr, CK_NORMAL);                                                    \
		failed = srunner_ntests_failed(sr);                                                \
		srunner_free(sr);                                                                  \
		return failed != 0;                                                                \
	}

#endif
