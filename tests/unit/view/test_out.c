/* SPDX-License-Identifier: MIT */
/* The writer of views: order, large data, a reader that goes away. */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "view/view.h"

START_TEST(all_bytes_arrive_in_order)
{
	FILE *f = tmpfile();
	struct ipt_out o;
	char got[32] = {0};

	ipt_out_init(&o, fileno(f));
	ipt_out_printf(&o, "%d ", 7);
	ipt_out_str(&o, "\x1b ");
	ipt_out_escaped(&o, "\x1b");
	ck_assert_int_eq(ipt_out_fini(&o), 0);
	ck_assert_int_eq(pread(fileno(f), got, sizeof(got) - 1, 0), 8);
	ck_assert_str_eq(got, "7 \x1b \\x1b");
	fclose(f);
}
END_TEST

START_TEST(long_lines_are_whole)
{
	FILE *f = tmpfile();
	struct ipt_out o;

	ipt_out_init(&o, fileno(f));
	for (int i = 0; i < 1000; i++)
		ipt_out_printf(&o, "%*s\n", 4999, "x");
	ck_assert_int_eq(ipt_out_fini(&o), 0);
	ck_assert_int_eq(lseek(fileno(f), 0, SEEK_END), 5000000);
	fclose(f);
}
END_TEST

START_TEST(reader_that_went_away_is_an_error_without_signal)
{
	struct ipt_out o;
	int fds[2];

	signal(SIGPIPE, SIG_DFL);
	ck_assert_int_eq(pipe(fds), 0);
	close(fds[0]);
	ipt_out_init(&o, fds[1]);
	for (int i = 0; i < 200000; i++)
		ipt_out_str(&o, "some text\n");
	ck_assert_int_eq(o.err, -EPIPE);
	ck_assert_uint_lt(o.buf.cap, 1u << 20);
	ck_assert_int_eq(ipt_out_fini(&o), -EPIPE);
	close(fds[1]);
}
END_TEST

START_TEST(full_disk_is_an_error)
{
	int fd = open("/dev/full", O_WRONLY);
	struct ipt_out o;

	ipt_out_init(&o, fd);
	ipt_out_str(&o, "x");
	ck_assert_int_eq(ipt_out_fini(&o), -ENOSPC);
	close(fd);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("out");
	TCase *tc = tcase_create("out");
	SRunner *sr;
	int failed;

	tcase_add_test(tc, all_bytes_arrive_in_order);
	tcase_add_test(tc, long_lines_are_whole);
	tcase_add_test(tc, reader_that_went_away_is_an_error_without_signal);
	tcase_add_test(tc, full_disk_is_an_error);
	suite_add_tcase(suite, tc);
	sr = srunner_create(suite);
	srunner_run_all(sr, CK_NORMAL);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed != 0;
}
