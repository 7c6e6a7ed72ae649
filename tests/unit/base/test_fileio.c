/* SPDX-License-Identifier: MIT */
/* Files, and names that must stay inside a folder. */
#include "base/base.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check_main.h"

START_TEST(names_that_leave_the_folder_are_unsafe)
{
	static const char *const good[] = {"a", "threads/1.2.0.pt", "a..b", "..a/b", "a/.b"};
	static const char *const bad[] = {"",    "/a",   "..", "../a",  "a/..", "a/../b", ".",
					  "./a", "a//b", "a/", "a/./b", "a\nb", "\x7f",   "a\x1b"};
	char longest[300];

	for (size_t i = 0; i < IPT_ARRAY_SIZE(good); i++)
		ck_assert_msg(ipt_name_is_safe(good[i]), "%s", good[i]);
	for (size_t i = 0; i < IPT_ARRAY_SIZE(bad); i++)
		ck_assert_msg(!ipt_name_is_safe(bad[i]), "%s", bad[i]);
	memset(longest, 'a', sizeof(longest));
	longest[sizeof(longest) - 1] = 0;
	ck_assert(!ipt_name_is_safe(longest));
}
END_TEST

static int temp_folder(char *dir)
{
	int fd;

	strcpy(dir, "/tmp/iptrace-test-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	ck_assert_int_ge(fd, 0);
	return fd;
}

START_TEST(a_replaced_file_reads_back_and_leaves_no_other)
{
	struct ipt_diag diag = {0};
	char dir[64];
	int fd = temp_folder(dir);
	const uint8_t *map;
	uint8_t *data;
	size_t len;

	ck_assert_int_eq(ipt_file_replace(fd, "f", "one", 3, &diag), 0);
	ck_assert_int_eq(ipt_file_replace(fd, "f", "second", 6, &diag), 0);
	ck_assert_int_eq(ipt_file_read(&data, &len, fd, "f", 100, 0, &diag), 0);
	ck_assert_uint_eq(len, 6);
	ck_assert_str_eq((char *)data, "second");
	free(data);
	ck_assert_int_eq(ipt_file_map(&map, &len, fd, "f", 0, &diag), 0);
	ck_assert_uint_eq(len, 6);
	ck_assert_mem_eq(map, "second", 6);
	ipt_file_unmap(map, len);
	ck_assert_int_eq(ipt_file_read(&data, &len, fd, "f", 5, 0, &diag), -IPT_E_LIMIT);
	ck_assert_int_eq(ipt_file_replace(fd, "empty", "", 0, &diag), 0);
	ck_assert_int_eq(ipt_file_map(&map, &len, fd, "empty", 0, &diag), 0);
	ck_assert_ptr_null(map);
	ck_assert_int_eq(unlinkat(fd, "empty", 0), 0);
	ck_assert_int_eq(unlinkat(fd, "f", 0), 0);
	close(fd);
	ck_assert_int_eq(rmdir(dir), 0); /* fails when a temporary file is left */
}
END_TEST

START_TEST(what_is_no_regular_file_is_refused_at_once)
{
	struct ipt_diag diag = {0};
	char dir[64];
	int fd = temp_folder(dir);
	uint8_t *data = NULL;
	size_t len;

	ck_assert_int_eq(mkfifoat(fd, "fifo", 0600), 0);
	ck_assert_int_eq(ipt_file_read(&data, &len, fd, "fifo", 100, 0, &diag), -EINVAL);
	ck_assert_int_eq(ipt_file_read(&data, &len, fd, "none", 100, 0, &diag), -ENOENT);
	ck_assert_int_eq(diag.code, ENOENT);
	ck_assert_int_eq(ipt_file_read(&data, &len, fd, ".", 100, 0, &diag), -EINVAL);
	ck_assert_ptr_null(data);
	unlinkat(fd, "fifo", 0);
	close(fd);
	rmdir(dir);
}
END_TEST

CHECK_MAIN("fileio", names_that_leave_the_folder_are_unsafe,
	   a_replaced_file_reads_back_and_leaves_no_other,
	   what_is_no_regular_file_is_refused_at_once)
