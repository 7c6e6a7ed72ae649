/* SPDX-License-Identifier: MIT */
/* Which file is used: the traced one and no other, and its debug data wherever that is. */
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check_main.h"
#include "sym_test.h"

static void build(const char *flags)
{
	run("printf 'static __attribute__((noinline)) int inner(int a) { return a * a; }\\n"
	    "int main(int c, char **v) { (void)v; return inner(c); }\\n' > a.c");
	ck_assert(run("gcc -O1 -g %s a.c -o a", flags));
}

/* Is `inner` named and does it have a line? */
static void check_inner(struct ipt_sym *s, const struct maps *m, uint64_t va)
{
	const char *file;
	uint64_t lo, hi;
	uint32_t line;

	ck_assert_str_eq(func_at(s, m, va)->name, "inner");
	ck_assert(ipt_sym_line(s, map_at(m, va), va + BIAS, &file, &line, &lo, &hi));
	ck_assert_uint_eq(line, 1);
}

START_TEST(debug_data_behind_a_debuglink_is_used_when_its_crc_is_right)
{
	struct ipt_sym *s;
	struct maps m;
	uint64_t va;

	tmp_enter();
	build("-Wl,--build-id=none");
	va = nm_addr("a", "inner");
	ck_assert(run("mkdir .debug; objcopy --only-keep-debug a .debug/a.debug && strip a && "
		      "objcopy --add-gnu-debuglink=.debug/a.debug a"));
	ck_assert(maps_of(&m, "a", true));
	s = sym_with(NULL, false, NULL);
	check_inner(s, &m, va);
	ipt_sym_free(s);
	ck_assert(run("printf x >> .debug/a.debug"));
	s = sym_with(NULL, false, NULL);
	ck_assert(func_at(s, &m, va)->anon);
	ipt_sym_free(s);
	tmp_leave();
}
END_TEST

START_TEST(debug_data_is_found_by_build_id_in_a_search_folder)
{
	static const char *const search[] = {"store", NULL};
	struct ipt_sym *s;
	struct maps m;
	uint64_t va;

	tmp_enter();
	build("-Wl,--build-id=0x1234567890abcdef");
	va = nm_addr("a", "inner");
	ck_assert(run("mkdir -p store/.build-id/12 && objcopy --only-keep-debug a "
		      "store/.build-id/12/34567890abcdef.debug && strip a"));
	ck_assert(maps_of(&m, "a", true));
	s = sym_with(search, false, NULL);
	check_inner(s, &m, va);
	ipt_sym_free(s);
	s = sym_with(NULL, false, NULL);
	ck_assert(func_at(s, &m, va)->anon);
	ipt_sym_free(s);
	tmp_leave();
}
END_TEST

START_TEST(a_program_that_moved_is_found_in_a_search_folder)
{
	static const char *const search[] = {"elsewhere", NULL};
	struct ipt_sym *s;
	struct maps m;
	uint64_t va;

	tmp_enter();
	build("");
	va = nm_addr("a", "inner");
	ck_assert(maps_of(&m, "a", true) && run("mkdir elsewhere && mv a elsewhere"));
	s = sym_with(search, false, NULL);
	check_inner(s, &m, va);
	ipt_sym_free(s);
	tmp_leave();
}
END_TEST

START_TEST(a_replaced_file_is_not_used_and_warned_of_once)
{
	unsigned warnings = 0;
	struct ipt_sym *s = sym_with(NULL, false, &warnings);
	const struct ipt_func *f;
	struct maps m;
	uint64_t va;

	tmp_enter();
	build("-Wl,--build-id=0x1111111111111111");
	va = nm_addr("a", "inner");
	ck_assert(maps_of(&m, "a", true));
	build("-Wl,--build-id=0x2222222222222222");
	f = func_at(s, &m, va);
	ck_assert(f->anon && strncmp(f->name, "a+0x", 4) == 0);
	func_at(s, &m, va + 1);
	ck_assert_uint_eq(warnings, 1);
	ipt_sym_free(s);
	tmp_leave();
}
END_TEST

START_TEST(without_build_id_the_code_bytes_decide)
{
	struct ipt_sym *s;
	uint8_t *bytes;
	struct maps m;
	uint64_t va;
	size_t n;
	FILE *f;

	tmp_enter();
	build("-Wl,--build-id=none");
	va = nm_addr("a", "inner");
	ck_assert(maps_of(&m, "a", false));
	n = m.v[0].end - m.v[0].start;
	bytes = ipt_xcalloc(1, n);
	f = fopen("a", "r");
	ck_assert(f && fseek(f, (long)m.v[0].pgoff, SEEK_SET) == 0 && fread(bytes, 1, n, f) > 0);
	fclose(f);
	m.v[0].bytes = bytes;
	s = sym_with(NULL, false, NULL);
	check_inner(s, &m, va);
	ipt_sym_free(s);
	bytes[3] ^= 1;
	s = sym_with(NULL, false, NULL);
	ck_assert(func_at(s, &m, va)->anon);
	ipt_sym_free(s);
	free(bytes);
	tmp_leave();
}
END_TEST

START_TEST(a_path_may_hold_any_bytes)
{
	static const char dir[] = "sp ace\nnew(line)\xc3\xa9\xff";
	struct ipt_sym *s = sym_with(NULL, false, NULL);
	struct maps m;
	uint64_t va;

	tmp_enter();
	ck_assert(mkdir(dir, 0700) == 0 && chdir(dir) == 0);
	build("");
	va = nm_addr("a", "inner");
	ck_assert(maps_of(&m, "a", true));
	check_inner(s, &m, va);
	ck_assert_ptr_nonnull(strstr(func_at(s, &m, va)->path, dir));
	ipt_sym_free(s);
	tmp_leave();
}
END_TEST

START_TEST(a_path_that_is_no_regular_file_is_left_alone)
{
	static const char *const what[] = {
		"mkfifo x", "mkdir x", "ln -s x x", "ln -s /dev/zero x", "printf '\\177ELF' > x",
		"true"};
	struct ipt_sym *s;
	struct maps m;

	tmp_enter();
	build("");
	ck_assert(maps_of(&m, "a", true));
	strcpy(m.path + strlen(m.path) - 1, "x");
	for (size_t i = 0; i < IPT_ARRAY_SIZE(what); i++) {
		ck_assert(run("rm -rf x; %s", what[i]));
		s = sym_with(NULL, false, NULL);
		ck_assert(func_at(s, &m, m.v[0].start - BIAS)->anon);
		ipt_sym_free(s);
	}
	tmp_leave();
}
END_TEST

START_TEST(unknown_and_anonymous_code_has_names_too)
{
	struct ipt_sym *s = sym_with(NULL, false, NULL);
	struct ipt_map jit = {.start = 0x5000, .end = 0x6000, .path = "", .id = 1};
	const struct ipt_func *f;
	struct ipt_frame frame;

	jit.kind = IPT_SB_MAP_ANON;
	f = ipt_sym_func(s, NULL, 0x1234);
	ck_assert(f && f->anon && f->name);
	f = ipt_sym_func(s, &jit, 0x5123);
	ck_assert(f->anon && f->lo == 0x5000 && f->hi == 0x6000);
	ck_assert_str_eq(f->module, "[anon]");
	ck_assert_uint_eq(ipt_sym_frames(s, &jit, 0x5123, &frame, 1), 1);
	ck_assert_str_eq(frame.func, f->name);
	ck_assert_ptr_null(frame.file);
	ipt_sym_free(s);
}
END_TEST

CHECK_MAIN("sym files", debug_data_behind_a_debuglink_is_used_when_its_crc_is_right,
	   debug_data_is_found_by_build_id_in_a_search_folder,
	   a_program_that_moved_is_found_in_a_search_folder,
	   a_replaced_file_is_not_used_and_warned_of_once, without_build_id_the_code_bytes_decide,
	   a_path_may_hold_any_bytes, a_path_that_is_no_regular_file_is_left_alone,
	   unknown_and_anonymous_code_has_names_too)
