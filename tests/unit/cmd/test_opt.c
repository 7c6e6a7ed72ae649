/* SPDX-License-Identifier: MIT */
/* The option parser: forms that are taken, and a table of command lines that are refused. */
#include "cmd/opt.h"

#include <errno.h>
#include <stdlib.h>

#include "check_main.h"

struct target {
	const char *out;
	bool force, quiet;
	uint64_t size, num;
	uint32_t tid;
	struct ipt_strs env;
	struct ipt_pids pids;
	struct ipt_opt_range range;
	const char *engine;
	unsigned verbose;
};

#define OFF(m) offsetof(struct target, m)

static const struct ipt_opt rows[] = {
	{'o', "output", "DIR", IPT_OPT_STRING, OFF(out), "", NULL, 0, 0},
	{0, "force", NULL, IPT_OPT_FLAG, OFF(force), "", NULL, 0, 0},
	{'q', "quiet", NULL, IPT_OPT_FLAG, OFF(quiet), "", NULL, 0, 0},
	{'m', "buffer", "SIZE", IPT_OPT_SIZE, OFF(size), "", NULL, 4096, 1u << 30},
	{0, "num", "N", IPT_OPT_U64, OFF(num), "", NULL, 0, 0},
	{0, "tid", "TID", IPT_OPT_U32, OFF(tid), "", NULL, 1, 0},
	{'E', "env", "VAR", IPT_OPT_LIST, OFF(env), "", NULL, 0, 0},
	{'p', "pid", "PID", IPT_OPT_PIDS, OFF(pids), "", NULL, 0, 0},
	{0, "range", "FROM..TO", IPT_OPT_RANGE, OFF(range), "", NULL, 0, 0},
	{0, "engine", "NAME", IPT_OPT_CHOICE, OFF(engine), "", "auto|step", 0, 0},
	{'v', "verbose", NULL, IPT_OPT_COUNT, OFF(verbose), "", NULL, 0, 0},
	{'S', "snapshot", NULL, IPT_OPT_UNBUILT, 0, NULL, NULL, 0, 0},
	{0},
};

static int parse(struct target *t, bool *help, struct ipt_diag *diag, const char *const *args)
{
	struct ipt_opt_table tables[] = {{rows, t}, {0}};
	int n = 1;

	while (args[n - 1])
		n++;
	memset(t, 0, sizeof(*t));
	{
		char *argv[32] = {(char *)(uintptr_t) "cmd"};

		ck_assert_int_lt(n, 31);
		for (int i = 1; i < n; i++)
			argv[i] = (char *)(uintptr_t)args[i - 1];
		return ipt_opt_parse(tables, n, argv, help, diag);
	}
}

static void drop(struct target *t)
{
	free(t->env.v);
	ipt_vec_fini(&t->pids);
}

#define ARGS(...) ((const char *const[]){__VA_ARGS__, NULL})

START_TEST(every_form_of_an_argument_is_taken)
{
	static const char *const forms[][3] = {{"-odir"},           {"-o", "dir"}, {"--output=dir"},
					       {"--output", "dir"}, {"-qodir"},    {"-qo", "dir"}};
	struct ipt_diag diag = {0};
	struct target t;
	bool help;

	for (size_t i = 0; i < IPT_ARRAY_SIZE(forms); i++) {
		ck_assert_int_ge(parse(&t, &help, &diag, forms[i]), 2);
		ck_assert_str_eq(t.out, "dir");
		drop(&t);
	}
	ck_assert_int_ge(parse(&t, &help, &diag, ARGS("--output=a=b")), 0);
	ck_assert_str_eq(t.out, "a=b");
}
END_TEST

START_TEST(parsing_stops_at_the_first_argument_that_is_none)
{
	struct ipt_diag diag = {0};
	struct target t;
	bool help;

	ck_assert_int_eq(parse(&t, &help, &diag, ARGS("-q", "ls", "-v")), 2);
	ck_assert(t.quiet && !t.verbose);
	ck_assert_int_eq(parse(&t, &help, &diag, ARGS("-q", "--", "-v")), 3);
	ck_assert(!t.verbose);
	ck_assert_int_eq(parse(&t, &help, &diag, ARGS("-", "-v")), 1);
	ck_assert_int_eq(parse(&t, &help, &diag, ARGS("-o", "--", "-v")), 4);
	ck_assert_str_eq(t.out, "--");
	ck_assert_uint_eq(t.verbose, 1);
}
END_TEST

START_TEST(values_arrive)
{
	struct ipt_diag diag = {0};
	struct target t;
	bool help;

	ck_assert_int_eq(parse(&t, &help, &diag,
			       ARGS("-m", "2M", "--num=0xffffffffffffffff", "--tid=7", "-E", "A=1",
				    "-EB", "-p", "1,2 3", "-p4", "--range=10..20", "--engine=step",
				    "-vv", "--force")),
			 15);
	ck_assert_uint_eq(t.size, 2u << 20);
	ck_assert_uint_eq(t.num, UINT64_MAX);
	ck_assert_uint_eq(t.tid, 7);
	ck_assert_uint_eq(t.env.n, 2);
	ck_assert_str_eq(t.env.v[0], "A=1");
	ck_assert_str_eq(t.env.v[1], "B");
	ck_assert_ptr_null(t.env.v[2]);
	ck_assert_uint_eq(t.pids.n, 4);
	for (int i = 0; i < 4; i++)
		ck_assert_int_eq(t.pids.v[i], i + 1);
	ck_assert_uint_eq(t.range.from, 10);
	ck_assert_uint_eq(t.range.to, 20);
	ck_assert_str_eq(t.engine, "step");
	ck_assert_uint_eq(t.verbose, 2);
	ck_assert(t.force);
	drop(&t);
}
END_TEST

START_TEST(help_is_seen_where_an_option_may_stand)
{
	struct ipt_diag diag = {0};
	struct target t;
	bool help;

	parse(&t, &help, &diag, ARGS("-q", "--help"));
	ck_assert(help);
	parse(&t, &help, &diag, ARGS("-qh"));
	ck_assert(help);
	parse(&t, &help, &diag, ARGS("ls", "--help"));
	ck_assert(!help);
}
END_TEST

struct bad {
	const char *args[3];
	const char *says; /* part of the message */
};

static const struct bad bads[] = {
	{{"--nonsense"}, "unknown option '--nonsense'"},
	{{"--nonsense=3"}, "unknown option '--nonsense'"},
	{{"--forc"}, "unknown option '--forc'"},
	{{"-x"}, "unknown option '-x'"},
	{{"-qx"}, "unknown option '-qx'"},
	{{"-o"}, "-o needs an argument DIR"},
	{{"--output"}, "--output needs an argument DIR"},
	{{"--output="}, "'' is not a name"},
	{{"--force=1"}, "--force takes no argument"},
	{{"--quiet="}, "--quiet takes no argument"},
	{{"-m", "4095"}, "is not a size"},
	{{"-m", "2G"}, "is not a size"},
	{{"-m", "1T"}, "is not a size"},
	{{"-m", "1KB"}, "is not a size"},
	{{"-m", "-1"}, "is not a size"},
	{{"-m", "K"}, "is not a size"},
	{{"-m", " 4096"}, "is not a size"},
	{{"-m", "17179869184G"}, "is not a size"},
	{{"--num", "18446744073709551616"}, "is not a number"},
	{{"--num", "1x"}, "is not a number"},
	{{"--num", "+1"}, "is not a number"},
	{{"--num", "0x"}, "is not a number"},
	{{"--num", ""}, "is not a number"},
	{{"--tid", "0"}, "is not a number"},
	{{"--tid", "4294967296"}, "is not a number"},
	{{"-p", ""}, "is not a list of process ids"},
	{{"-p", ","}, "is not a list of process ids"},
	{{"-p", "1,x"}, "is not a list of process ids"},
	{{"-p", "1;2"}, "is not a list of process ids"},
	{{"-p", "0"}, "is not a list of process ids"},
	{{"-p", "-5"}, "is not a list of process ids"},
	{{"-p", "2147483648"}, "is not a list of process ids"},
	{{"--range", "10"}, "is not a range"},
	{{"--range", ".."}, "is not a range"},
	{{"--range", "5..5"}, "is not a range"},
	{{"--range", "5..4"}, "is not a range"},
	{{"--range", "a..b"}, "is not a range"},
	{{"--range", "1..2..3"}, "is not a range"},
	{{"--engine", "fast"}, "is not one of auto|step"},
	{{"--engine", ""}, "is not one of auto|step"},
	{{"--engine", "auto|step"}, "is not one of auto|step"},
	{{"-S"}, "not supported yet"},
	{{"--snapshot"}, "not supported yet"},
	{{"--snapshot=4M"}, "not supported yet"},
	{{"--\x1b[31m"}, "unknown option '--\\x1b[31m'"},
};

START_TEST(a_bad_command_line_is_refused_with_its_reason)
{
	for (size_t i = 0; i < IPT_ARRAY_SIZE(bads); i++) {
		struct ipt_diag diag = {0};
		struct target t;
		bool help;
		int r = parse(&t, &help, &diag, bads[i].args);

		ck_assert_msg(r == -IPT_E_USAGE, "row %zu (%s): %d", i, bads[i].args[0], r);
		ck_assert_msg(strstr(diag.text, bads[i].says), "row %zu: '%s' is not in '%s'", i,
			      bads[i].says, diag.text);
		drop(&t);
	}
}
END_TEST

START_TEST(open_ranges_are_taken)
{
	struct ipt_opt_range r;

	ck_assert_int_eq(ipt_opt_range(&r, "5.."), 0);
	ck_assert(r.from == 5 && r.to == 0);
	ck_assert_int_eq(ipt_opt_range(&r, "..0x10"), 0);
	ck_assert(r.from == 0 && r.to == 16);
}
END_TEST

START_TEST(unbuilt_options_are_not_in_the_help)
{
	struct ipt_opt_table tables[] = {{rows, NULL}, {0}};
	struct ipt_buf b = {0};

	ipt_opt_help(&b, tables);
	ipt_buf_u8(&b, 0);
	ck_assert_ptr_nonnull(strstr((char *)b.data, "-o, --output=DIR"));
	ck_assert_ptr_nonnull(strstr((char *)b.data, "--help"));
	ck_assert_ptr_null(strstr((char *)b.data, "snapshot"));
	ipt_buf_fini(&b);
}
END_TEST

CHECK_MAIN("opt", every_form_of_an_argument_is_taken,
	   parsing_stops_at_the_first_argument_that_is_none, values_arrive,
	   help_is_seen_where_an_option_may_stand, a_bad_command_line_is_refused_with_its_reason,
	   open_ranges_are_taken, unbuilt_options_are_not_in_the_help)
