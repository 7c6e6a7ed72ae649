/* SPDX-License-Identifier: MIT */
/* Names of functions against readelf's symbol tables and objdump's PLT, on programs not ours. */
#include <stdlib.h>
#include <unistd.h>

#include "check_main.h"
#include "sym_test.h"

#define LIB "/usr/lib/x86_64-linux-gnu/"

struct want {
	uint64_t va;
	char *name;
};
struct wants {
	struct want *v;
	size_t n, cap;
};

static int want_cmp(const void *pa, const void *pb)
{
	const struct want *a = pa, *b = pb;

	return a->va < b->va ? -1 : a->va > b->va;
}

/* First, middle and last byte of each function that has a size. */
static void wants_of(struct wants *w, const char *path)
{
	FILE *f = output_of("readelf -sW '%s' 2>/dev/null", path);
	static char line[1 << 16], name[1 << 16];
	char type[16], bind[16], vis[16], ndx[16], size_text[32];
	unsigned long long va, size;

	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, " %*u: %llx %31s %15s %15s %15s %15s %65535s", &va, size_text,
			   type, bind, vis, ndx, name) != 7)
			continue;
		size = strtoull(size_text, NULL, 0);
		if ((strcmp(type, "FUNC") != 0 && strcmp(type, "IFUNC") != 0) || !size ||
		    strcmp(ndx, "UND") == 0 || strcmp(ndx, "ABS") == 0)
			continue;
		name[strcspn(name, "@")] = '\0';
		*ipt_vec_push(w) = (struct want){va, ipt_xstrdup(name)};
		*ipt_vec_push(w) = (struct want){va + size / 2, ipt_xstrdup(name)};
		*ipt_vec_push(w) = (struct want){va + size - 1, ipt_xstrdup(name)};
	}
	pclose(f);
	if (w->n)
		qsort(w->v, w->n, sizeof(*w->v), want_cmp);
}

/* Several names may share an address: one of them must be given. */
static void check_functions(const char *path, size_t at_least)
{
	struct ipt_sym *s = sym_with(NULL, true, NULL);
	struct wants w = {0};
	struct maps m;

	ck_assert_msg(maps_of(&m, path, true), "%s", path);
	wants_of(&w, path);
	ck_assert_msg(w.n >= at_least, "%s: only %zu", path, w.n);
	for (size_t i = 0, j; i < w.n; i = j) {
		const struct ipt_func *f = func_at(s, &m, w.v[i].va);
		bool found = false;
		size_t len = strcspn(f->linkage, "@");

		for (j = i; j < w.n && w.v[j].va == w.v[i].va; j++)
			found |= strlen(w.v[j].name) == len &&
				 strncmp(w.v[j].name, f->linkage, len) == 0;
		ck_assert_msg(found, "%s: 0x%llx is %s, not %s", path,
			      (unsigned long long)w.v[i].va, w.v[i].name, f->linkage);
		ck_assert(f->lo <= w.v[i].va + BIAS && w.v[i].va + BIAS < f->hi);
	}
	for (size_t i = 0; i < w.n; i++)
		free(w.v[i].name);
	ipt_vec_fini(&w);
	ipt_sym_free(s);
}

START_TEST(every_function_of_system_libraries_is_found)
{
	check_functions(LIB "libc.so.6", 5000);
	check_functions(LIB "libstdc++.so.6", 5000);
}
END_TEST

START_TEST(every_function_of_large_programs_is_found)
{
	FILE *f = output_of("gcc -print-prog-name=cc1plus");
	char path[4096] = "";

	if (fgets(path, sizeof(path), f))
		path[strcspn(path, "\n")] = '\0';
	pclose(f);
	if (path[0] == '/')
		check_functions(path, 1000);
	if (access("/usr/bin/python3", R_OK) == 0)
		check_functions("/usr/bin/python3", 1000);
}
END_TEST

static size_t check_plt(const char *path)
{
	FILE *f = output_of("objdump -d '%s' 2>/dev/null | grep '@plt>:$'", path);
	struct ipt_sym *s = sym_with(NULL, true, NULL);
	static char line[1 << 16], name[1 << 16];
	unsigned long long va;
	struct maps m;
	size_t n = 0;

	ck_assert(maps_of(&m, path, true));
	while (fgets(line, sizeof(line), f)) {
		const struct ipt_func *fn;

		if (sscanf(line, "%llx <%65535[^>]>", &va, name) != 2)
			continue;
		fn = func_at(s, &m, va);
		ck_assert_str_eq(fn->linkage, name);
		ck_assert(fn->plt && fn->lo == va + BIAS);
		n++;
	}
	pclose(f);
	ipt_sym_free(s);
	return n;
}

START_TEST(plt_entries_are_named_as_objdump_names_them)
{
	ck_assert_uint_gt(check_plt("/bin/ls"), 50);
	ck_assert_uint_gt(check_plt(LIB "libstdc++.so.6"), 500);
	ck_assert_uint_gt(check_plt("/bin/bash"), 50);
}
END_TEST

START_TEST(plt_entries_of_other_layouts_are_named)
{
	static const char *const flags[] = {"-fcf-protection=full -Wl,-z,ibtplt -Wl,-z,lazy",
					    "-fno-plt",
					    "-no-pie -Wl,-z,lazy",
					    "-Wl,-z,now",
					    "-m32 -fPIC -Wl,-z,lazy",
					    "-m32 -no-pie -fno-pie"};

	tmp_enter();
	run("printf '#include <stdio.h>\\n#include <stdlib.h>\\nint main(int c, char **v)"
	    "{ puts(v[0]); return atoi(v[c - 1]); }' > a.c");
	for (size_t i = 0; i < IPT_ARRAY_SIZE(flags); i++)
		if (run("gcc -O1 %s a.c -o a 2>/dev/null", flags[i]))
			ck_assert_msg(check_plt("a") > 0 || strstr(flags[i], "-fno-plt"), "%s",
				      flags[i]);
	tmp_leave();
}
END_TEST

START_TEST(names_are_demangled_unless_switched_off)
{
	struct ipt_sym *on = sym_with(NULL, false, NULL), *off = sym_with(NULL, true, NULL);
	struct maps m;
	uint64_t va;

	tmp_enter();
	run("printf 'namespace n { int f(char, long) { return 1; } }"
	    "int rust() __asm__(\"_RNvC6_123foo3bar\"); int rust() { return 2; }"
	    "int old() __asm__(\"_ZN3foo3bar17h05af221e174051e9E\"); int old() { return 3; }"
	    "int main() { return n::f(1, 2); }' > a.cc");
	ck_assert(run("g++ -O0 a.cc -o a") && maps_of(&m, "a", true));
	va = nm_addr("a", "_ZN1n1fEcl");
	ck_assert_str_eq(func_at(on, &m, va)->name, "n::f(char, long)");
	ck_assert_str_eq(func_at(on, &m, va)->linkage, "_ZN1n1fEcl");
	ck_assert_str_eq(func_at(off, &m, va)->name, "_ZN1n1fEcl");
	ck_assert_str_eq(func_at(on, &m, nm_addr("a", "_RNvC6_123foo3bar"))->name, "123foo::bar");
	va = nm_addr("a", "_ZN3foo3bar17h05af221e174051e9E");
	ck_assert_str_eq(func_at(on, &m, va)->name, "foo::bar");
	ipt_sym_free(on);
	ipt_sym_free(off);
	tmp_leave();
}
END_TEST

START_TEST(a_cold_part_knows_its_function)
{
	struct ipt_sym *s = sym_with(NULL, false, NULL);
	const struct ipt_func *f;
	struct maps m;

	tmp_enter();
	run("printf '__attribute__((noinline)) void ext(int a) { if (a > 9) throw 1; }"
	    "struct D { int x; ~D() { __asm__ volatile(\"\" : : : \"memory\"); ++x; } };"
	    "__attribute__((noinline)) int foo(int a) { D d; d.x = a; "
	    "__asm__ volatile(\"\" : : \"r\"(&d)); ext(a); return a; }"
	    "int main(int c, char **v) { (void)v; return foo(c); }' > a.cc");
	ck_assert(run("g++ -O2 a.cc -o a") && maps_of(&m, "a", true));
	f = func_at(s, &m, nm_addr("a", "_Z3fooi.cold"));
	ck_assert_str_eq(f->linkage, "_Z3fooi.cold");
	ck_assert(f->cold && f->parent && !f->parent->cold);
	ck_assert_str_eq(f->parent->linkage, "_Z3fooi");
	ck_assert_ptr_eq(f->parent, func_at(s, &m, nm_addr("a", "_Z3fooi")));
	ipt_sym_free(s);
	tmp_leave();
}
END_TEST

START_TEST(a_stripped_function_does_not_get_its_neighbours_name)
{
	struct ipt_sym *s = sym_with(NULL, false, NULL);
	const struct ipt_func *f;
	struct maps m;
	uint64_t va;

	tmp_enter();
	run("printf 'int before(int a) { return a + 1; }\\n"
	    "static __attribute__((noinline, used)) int hidden(int a) { return a * a; }\\n"
	    "int after(int a) { return hidden(a) + 3; }' > a.c");
	ck_assert(run("gcc -O0 -shared -fPIC a.c -o a.so"));
	va = nm_addr("a.so", "hidden");
	ck_assert(va && run("strip a.so") && maps_of(&m, "a.so", true));
	f = func_at(s, &m, va + 2);
	ck_assert(f->anon);
	ck_assert_ptr_eq(strncmp(f->name, "a.so+0x", 7) ? NULL : f, f);
	ck_assert_str_eq(func_at(s, &m, va - 1)->name, "before");
	ck_assert_str_eq(ipt_sym_func(s, &m.v[0], f->hi)->name, "after");
	ck_assert_ptr_eq(f, func_at(s, &m, va + 5));
	ipt_sym_free(s);
	tmp_leave();
}
END_TEST

CHECK_MAIN("sym names", every_function_of_system_libraries_is_found,
	   every_function_of_large_programs_is_found, plt_entries_are_named_as_objdump_names_them,
	   plt_entries_of_other_layouts_are_named, names_are_demangled_unless_switched_off,
	   a_cold_part_knows_its_function, a_stripped_function_does_not_get_its_neighbours_name)
