/* SPDX-License-Identifier: MIT */
/*
 * The views over captures of real hardware, against tools that are not ours: the listing of
 * addresses made by another decoder, and objdump's disassembly of the program.
 */
#include <jansson.h>
#include <sys/stat.h>

#include "view_run.h"

static char *real_pt;
static char dir[] = "/tmp/ipt-real-XXXXXX";
static struct ipt_store *st;

static void setup(void)
{
	char *bundle = ipt_xasprintf("%s/dynamorio/hello-static/trace.json", real_pt);
	struct ipt_writer_cfg cfg = {.dir = dir, .force = true};
	struct ipt_diag diag = {0};

	strcpy(dir + sizeof(dir) - 7, "XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	ck_assert_msg(!ipt_import_lldb(bundle, &cfg, &diag), "%s", diag.text);
	ck_assert_msg(!ipt_store_open(&st, dir, &diag), "%s", diag.text);
	free(bundle);
}

static void teardown(void)
{
	char *cmd = ipt_xasprintf("rm -rf %s", dir);

	ipt_store_close(st);
	st = NULL;
	ck_assert_int_eq(system(cmd), 0);
	free(cmd);
}

static char *output_of(const char *cmd)
{
	struct ipt_buf b = {0};
	FILE *f = popen(cmd, "r");
	size_t n;

	ck_assert_ptr_nonnull(f);
	do {
		n = fread(ipt_buf_reserve(&b, 1 << 16), 1, 1 << 16, f);
		b.len += n;
	} while (n);
	ck_assert_int_eq(pclose(f), 0);
	ipt_buf_u8(&b, 0);
	return (char *)b.data;
}

START_TEST(addresses_are_those_of_another_decoder)
{
	char *cmd = ipt_xasprintf("zcat '%s/expected/dynamorio_hello-static.ips.gz'", real_pt);
	const struct ipt_view_opts o = {.format = "ip"};
	char *want = output_of(cmd), *got = run_view(st, "insn", &o, NULL);

	ck_assert_uint_eq(strlen(got), strlen(want));
	ck_assert(!strcmp(got, want));
	free(want);
	free(got);
	free(cmd);
}
END_TEST

/* First word of objdump's line for each address, in a table that keeps line starts. */
static void index_objdump(struct ipt_u64map *m, char *text)
{
	for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
		char *tab = strchr(line, '\t');

		if (tab && line[0] == ' ')
			ipt_u64map_put(m, strtoull(line, NULL, 16), tab + 1);
	}
}

/* The branches that both syntaxes name alike, and those with two names. */
static bool same_mnemonic(const char *ours, const char *theirs)
{
	static const char *const twins[][2] = {{"jz", "je"},   {"jnz", "jne"}, {"jnbe", "ja"},
					       {"jnb", "jae"}, {"jnle", "jg"}, {"jnl", "jge"}};
	static const char *const prefixes[] = {"addr32 ", "bnd ", "repz ", "rep ", "notrack "};
	size_t n, m;

	for (size_t i = 0; i < IPT_ARRAY_SIZE(prefixes); i++) {
		if (!strncmp(theirs, prefixes[i], strlen(prefixes[i])))
			theirs += strlen(prefixes[i]);
		if (!strncmp(ours, prefixes[i], strlen(prefixes[i])))
			ours += strlen(prefixes[i]);
	}
	n = strcspn(ours, " ");
	m = strcspn(theirs, " ");
	for (size_t i = 0; i < IPT_ARRAY_SIZE(twins); i++)
		if (n == strlen(twins[i][0]) && !strncmp(ours, twins[i][0], n))
			return m == strlen(twins[i][1]) && !strncmp(theirs, twins[i][1], m);
	/* objdump leaves out the size letter where an operand tells it, and the other way round */
	return !strncmp(ours, theirs, n < m ? n : m) && (n > m ? n - m : m - n) <= 1;
}

START_TEST(branches_are_disassembled_as_by_objdump)
{
	char *cmd = ipt_xasprintf("objdump -d --no-show-raw-insn '%s/dynamorio/hello-static/hello'",
				  real_pt);
	const struct ipt_view_opts o = {.json = true, .no_source = true};
	char *theirs = output_of(cmd), *ours = run_view(st, "insn", &o, NULL), *save = NULL;
	struct ipt_u64map m = {0};
	size_t compared = 0;

	index_objdump(&m, theirs);
	for (char *line = strtok_r(ours, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		json_t *j = json_loads(line, 0, NULL);
		const char *ip = json_string_value(json_object_get(j, "ip"));
		const char *text = json_string_value(json_object_get(j, "text"));
		const char *want = ip ? ipt_u64map_get(&m, strtoull(ip, NULL, 16)) : NULL;

		ck_assert_ptr_nonnull(j);
		if (want && text &&
		    (text[0] == 'j' || !strncmp(text, "call", 4) || !strncmp(text, "ret", 3))) {
			if (!same_mnemonic(text, want))
				ck_abort_msg("%s: ours '%s', objdump's '%s'", ip, text, want);
			compared++;
		}
		json_decref(j);
	}
	ck_assert_uint_gt(compared, 10000);
	ipt_u64map_fini(&m);
	free(theirs);
	free(ours);
	free(cmd);
}
END_TEST

START_TEST(calls_and_returns_balance)
{
	const struct ipt_view_opts o = {.json = true};
	char *text = run_view(st, "report", &o, NULL);
	json_t *j = json_loads(text, 0, NULL);

	/* The other decoder counted 232 calls; a call may be of the next instruction. */
	ck_assert_ptr_nonnull(j);
	ck_assert_int_eq(json_integer_value(json_object_get(j, "total_instructions")), 59234);
	ck_assert_int_ge(json_integer_value(json_object_get(j, "calls")), 231);
	json_decref(j);
	free(text);
	text = run_view(st, "tree", &(struct ipt_view_opts){0}, NULL);
	ck_assert_ptr_null(strstr(text, "unwound"));
	ck_assert_ptr_null(strstr(text, "seen late"));
	free(text);
}
END_TEST

static bool find_data(void)
{
	const char *env = getenv("IPTRACE_REAL_PT"), *src = getenv("IPT_SOURCE_DIR");
	struct stat sb;
	char *probe;
	bool there;

	real_pt = env ? ipt_xstrdup(env) : ipt_xasprintf("%s/../shared/real-pt", src ? src : ".");
	probe = ipt_xasprintf("%s/manifest.json", real_pt);
	there = stat(probe, &sb) == 0;
	free(probe);
	return there;
}

int main(void)
{
	Suite *suite = suite_create("real");
	TCase *tc = tcase_create("real");
	SRunner *sr;
	int failed;

	if (!find_data()) {
		printf("skipped: no captures at %s\n", real_pt);
		free(real_pt);
		return 77;
	}
	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, addresses_are_those_of_another_decoder);
	tcase_add_test(tc, branches_are_disassembled_as_by_objdump);
	tcase_add_test(tc, calls_and_returns_balance);
	suite_add_tcase(suite, tc);
	sr = srunner_create(suite);
	srunner_run_all(sr, CK_NORMAL);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	free(real_pt);
	return failed != 0;
}
