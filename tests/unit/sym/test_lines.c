/* SPDX-License-Identifier: MIT */
/*
 * Lines and inlined frames against addr2line of binutils. Two differences are meant: addr2line puts
 * the symbol's name on an innermost frame whose function has no linkage name (a lambda, a nested
 * function), and uses a symbol beyond its size.
 */
#include <stdlib.h>
#include <unistd.h>

#include "check_main.h"
#include "sym_test.h"

#define MAX_FRAMES 64

struct frame {
	char *func, *file;
	unsigned line;
};
struct answer {
	struct frame v[MAX_FRAMES];
	size_t n;
};

static const char source[] =
	"#include <vector>\n#include <map>\n#include <string>\n#include <algorithm>\n"
	"#include <cstdio>\n"
	"namespace ns {\nstruct S {\n int x;\n std::string s;\n"
	" int get(int k) const { return x * k + (int)s.size(); }\n"
	" bool operator<(const S &o) const { return x < o.x; }\n};\n"
	"template <class T> T add(T a, T b) { if (a > b) throw 1; return a + b; }\n}\n"
	"static int helper(std::vector<ns::S> &v) {\n std::sort(v.begin(), v.end());\n int t = 0;\n"
	" for (auto &s : v)\n  t += s.get(3);\n return t;\n}\n"
	"static inline __attribute__((always_inline)) int deep(int a) {\n"
	" auto f = [&](int q) { return q * a + 3; };\n return f(a) + f(a + 1);\n}\n"
	"int main(int c, char **v) {\n std::vector<ns::S> w;\n std::map<std::string, int> m;\n"
	" for (int i = 0; i < c * 100; i++) {\n  w.push_back({deep(i), v[0]});\n  m[v[0]] += i;\n "
	"}\n"
	" try {\n  printf(\"%d\\n\", helper(w) + ns::add(c, m.begin()->second));\n"
	" } catch (int) {\n  puts(\"x\");\n }\n return 0;\n}\n";

static void answer_clear(struct answer *a)
{
	for (size_t i = 0; i < a->n; i++) {
		free(a->v[i].func);
		free(a->v[i].file);
	}
	a->n = 0;
}

/* Compare one address. True when addr2line knew a line. */
static bool compare(struct ipt_sym *s, const struct maps *m, uint64_t va, const struct answer *a)
{
	struct ipt_frame f[MAX_FRAMES];
	const struct ipt_map *map = map_at(m, va);
	const struct ipt_func *fn = ipt_sym_func(s, map, va + BIAS);
	size_t n = ipt_sym_frames(s, map, va + BIAS, f, MAX_FRAMES);
	uint64_t lo, hi;
	const char *file;
	uint32_t line;

	if (!a->n || (a->n == 1 && !a->v[0].line))
		return false;
	ck_assert_msg(n == a->n, "0x%llx: %zu frames, not %zu (%s)", (unsigned long long)va, n,
		      a->n, fn->name);
	for (size_t i = 0; i < n; i++) {
		ck_assert_msg(f[i].line == a->v[i].line, "0x%llx frame %zu: line %u, not %u",
			      (unsigned long long)va, i, f[i].line, a->v[i].line);
		ck_assert_str_eq(f[i].file ? f[i].file : "??", a->v[i].file);
		ck_assert_int_eq(f[i].inlined, i + 1 < n);
		if (strcmp(f[i].func, a->v[i].func) != 0)
			ck_assert_msg(i == 0 && (strcmp(a->v[i].func, fn->linkage) == 0 ||
						 strcmp(a->v[i].func, fn->name) == 0 || fn->anon),
				      "0x%llx frame %zu: %s, not %s", (unsigned long long)va, i,
				      f[i].func, a->v[i].func);
	}
	if (f[0].line) {
		ck_assert(ipt_sym_line(s, map, va + BIAS, &file, &line, &lo, &hi));
		ck_assert(line == f[0].line && lo <= va + BIAS && va + BIAS < hi);
	}
	return true;
}

static void answer_add(struct answer *a, const char *func, char *place)
{
	char *colon = strrchr(place, ':');
	struct frame *f;

	ck_assert(colon && a->n < MAX_FRAMES);
	f = &a->v[a->n++];
	*colon = '\0';
	f->func = ipt_xstrdup(func);
	f->file = ipt_xstrdup(place);
	f->line = (unsigned)strtoul(colon + 1, NULL, 10);
}

/* Compare every @step-th instruction of a file; count those with lines. */
static size_t compare_file(const char *path, unsigned step)
{
	struct ipt_sym *s = sym_with(NULL, false, NULL);
	static char line[1 << 16], func[1 << 16];
	struct answer a = {.n = 0};
	uint64_t va = 0;
	struct maps m;
	size_t n = 0;
	FILE *f;

	ck_assert(maps_of(&m, path, true));
	f = output_of("objdump -d --no-show-raw-insn '%s' | "
		      "sed -n 's/^ *\\([0-9a-f]\\{1,\\}\\):.*/\\1/p' | awk 'NR %% %u == 0' | "
		      "addr2line -e '%s' -afiC",
		      path, step, path);
	while (fgets(line, sizeof(line), f)) {
		line[strcspn(line, "\n")] = '\0';
		if (strncmp(line, "0x", 2) == 0) {
			n += compare(s, &m, va, &a);
			answer_clear(&a);
			va = strtoull(line, NULL, 16);
			continue;
		}
		strcpy(func, line);
		ck_assert(fgets(line, sizeof(line), f));
		line[strcspn(line, "\n")] = '\0';
		if (strstr(line, " (discriminator"))
			*strstr(line, " (discriminator") = '\0';
		answer_add(&a, func, line);
	}
	n += compare(s, &m, va, &a);
	answer_clear(&a);
	pclose(f);
	ipt_sym_free(s);
	return n;
}

static void compile_and_compare(const char *const *flags, size_t n)
{
	FILE *f;

	tmp_enter();
	f = fopen("a.cc", "w");
	ck_assert(f && fputs(source, f) >= 0 && fclose(f) == 0);
	for (size_t i = 0; i < n; i++)
		if (run("g++ %s a.cc -o a 2>/dev/null", flags[i]))
			ck_assert_msg(compare_file("a", 1) > 500, "%s", flags[i]);
		else
			printf("not tested here: g++ %s\n", flags[i]);
	tmp_leave();
}

START_TEST(lines_and_inlines_of_each_dwarf_version_agree)
{
	static const char *const flags[] = {"-O2 -gdwarf-2", "-O2 -gdwarf-3", "-O2 -gdwarf-4",
					    "-O2 -gdwarf-5", "-O0 -gdwarf-5", "-O3 -gdwarf-4"};

	compile_and_compare(flags, IPT_ARRAY_SIZE(flags));
}
END_TEST

START_TEST(lines_of_compressed_and_32_bit_and_lto_programs_agree)
{
	static const char *const flags[] = {"-O2 -gdwarf-5 -gz",
					    "-O2 -gdwarf-4 -gz=zlib-gnu",
					    "-O2 -gdwarf-5 -m32",
					    "-O2 -gdwarf-4 -flto",
					    "-O2 -g -Wl,-z,noseparate-code",
					    "-O2 -g -no-pie -Wl,-Ttext-segment=0x7000000"};

	compile_and_compare(flags, IPT_ARRAY_SIZE(flags));
}
END_TEST

START_TEST(lines_of_the_c_library_agree_where_its_debug_data_is)
{
	if (!run("ls /usr/lib/debug/.build-id/*/*.debug >/dev/null 2>&1"))
		printf("not tested here: debug data of the C library is not installed\n");
	else
		compare_file("/usr/lib/x86_64-linux-gnu/libc.so.6", 211);
}
END_TEST

START_TEST(source_lines_are_read)
{
	struct ipt_sym *s = sym_with(NULL, false, NULL);
	FILE *f;

	tmp_enter();
	f = fopen("x.c", "w");
	ck_assert(f && fputs("one\r\n\nthree", f) >= 0 && fclose(f) == 0);
	ck_assert_str_eq(ipt_sym_source(s, "x.c", 1), "one");
	ck_assert_str_eq(ipt_sym_source(s, "x.c", 2), "");
	ck_assert_str_eq(ipt_sym_source(s, "x.c", 3), "three");
	ck_assert_ptr_null(ipt_sym_source(s, "x.c", 4));
	ck_assert_ptr_null(ipt_sym_source(s, "x.c", 0));
	ck_assert_ptr_null(ipt_sym_source(s, "not-there.c", 1));
	ipt_sym_free(s);
	tmp_leave();
}
END_TEST

CHECK_MAIN("sym lines", lines_and_inlines_of_each_dwarf_version_agree,
	   lines_of_compressed_and_32_bit_and_lto_programs_agree,
	   lines_of_the_c_library_agree_where_its_debug_data_is, source_lines_are_read)
