/* SPDX-License-Identifier: MIT */
/*
 * The views over a trace made here: seven instructions, in two variants. The whole one ends well;
 * the other has bytes that are no packet in its middle. Names in it are hostile.
 */
#include <errno.h>
#include <jansson.h>

#include "pt/pt.h"
#include "view_run.h"

#define BASE   0x401000u
#define FUNC_G 0x401010u

/* twice "call g", then a system call; g is "nop; ret" */
static const uint8_t code[32] = {0xe8, 0x0b, 0, 0,    0,    0xe8,        0x06,
				 0,    0,    0, 0x0f, 0x05, [16] = 0x90, 0xc3};
static const char hostile[] = "a\x1b[31m\"\xff\n";

static char dir[] = "/tmp/ipt-view-XXXXXX";
static struct ipt_store *st;
static bool translated; /* the next trace is of an engine that translates */

static void pkt(struct ipt_buf *b, struct ipt_pkt p)
{
	uint8_t out[IPT_PKT_MAX];
	size_t n = 0;

	ck_assert_int_eq(ipt_pkt_encode(out, sizeof(out), &n, &p), 0);
	ipt_buf_append(b, out, n);
}

static void part(struct ipt_buf *b)
{
	pkt(b, (struct ipt_pkt){.kind = IPT_PKT_PSB});
	pkt(b, (struct ipt_pkt){.kind = IPT_PKT_MODE_EXEC, .mode_exec = {.cs_l = true}});
	pkt(b, (struct ipt_pkt){.kind = IPT_PKT_PSBEND});
	pkt(b, (struct ipt_pkt){.kind = IPT_PKT_TIP_PGE, .ip = {BASE, IPT_IPC_SEXT48}});
	/* both returns are compressed to a taken bit */
	pkt(b, (struct ipt_pkt){.kind = IPT_PKT_TNT, .tnt = {3, 2}});
	pkt(b, (struct ipt_pkt){.kind = IPT_PKT_TIP_PGD, .ip = {0, IPT_IPC_SUPPRESSED}});
}

static void make(bool with_gap)
{
	const struct ipt_writer_cfg cfg = {.dir = dir, .force = true};
	const char *const argv[] = {hostile, NULL};
	const struct ipt_session_info info = {
		.engine = translated ? "translate" : "step",
		.tool = "test",
		.host = hostile,
		.kernel = "k",
		.command = "run",
		.cwd = hostile,
		.argv = argv,
		.options = argv,
		.cpu = {.vendor = "GenuineIntel", .family = 6, .model = 94}};
	struct ipt_sb_thread_start start = {.flags = IPT_SB_TF_LEADER};
	struct ipt_sb_thread_exit exit = {0};
	struct ipt_sb_map m = {
		.start = BASE, .end = BASE + sizeof(code), .prot = 5, .kind = IPT_SB_MAP_FILE};
	struct ipt_diag diag = {0};
	struct ipt_wthread *t;
	struct ipt_writer *w;
	struct ipt_buf b = {0};

	ck_assert_msg(!ipt_writer_new(&w, &cfg, &info, &diag), "%s", diag.text);
	t = ipt_writer_thread(w, 70, 70, &start, hostile, 0);
	ck_assert_int_eq(ipt_writer_image(w, code, sizeof(code), m.image), 0);
	ipt_writer_map(w, IPT_SB_MAP, &(struct ipt_sb_head){.pid = 70, .tid = 70}, &m, NULL, 0,
		       NULL, 0, hostile);
	part(&b);
	if (with_gap)
		ipt_buf_append(&b, "\x02\xff\x02\xff\x02\xff", 6);
	part(&b);
	ipt_wthread_pt(t, b.data, b.len);
	ipt_buf_fini(&b);
	if (translated) {
		ipt_wthread_stepped(t, 2);
		ipt_wthread_stops(t, 7);
		ipt_writer_note(w, 70, "far call");
		ipt_writer_note(w, 70, hostile);
	}
	ipt_wthread_exit(t, &exit, 0);
	ck_assert_msg(!ipt_writer_finish(w, 0, &diag), "%s", diag.text);
	ck_assert_msg(!ipt_store_open(&st, dir, &diag), "%s", diag.text);
}

static void teardown(void)
{
	char *cmd = ipt_xasprintf("rm -rf %s", dir);

	ipt_store_close(st);
	st = NULL;
	ck_assert_int_eq(system(cmd), 0);
	free(cmd);
}

static void setup(void)
{
	translated = false;
	strcpy(dir + sizeof(dir) - 7, "XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
}

/* Plain text for a terminal: no control bytes but newlines, all lines ended. */
static void check_plain(const char *s)
{
	for (; *s; s++)
		ck_assert_msg(*s == '\n' || ((uint8_t)*s >= 0x20 && *s != 0x7f),
			      "control byte 0x%02x", (uint8_t)*s);
	ck_assert_int_eq(s[-1], '\n');
}

static json_t *parse(const char *text, size_t n)
{
	json_error_t e;
	json_t *j = json_loadb(text, n, 0, &e);

	ck_assert_msg(j != NULL, "%s in: %.*s", e.text, (int)n, text);
	return j;
}

/* One JSON object a line; how many. */
static size_t check_lines(const char *text)
{
	size_t n = 0;

	for (const char *end; *text; text = end + 1, n++) {
		end = strchr(text, '\n');
		ck_assert_ptr_nonnull(end);
		json_decref(parse(text, (size_t)(end - text)));
	}
	return n;
}

static json_int_t num(json_t *j, const char *key)
{
	json_t *v = json_object_get(j, key);

	ck_assert_msg(json_is_integer(v), "%s is no number", key);
	return json_integer_value(v);
}

START_TEST(ip_lists_addresses_only)
{
	const struct ipt_view_opts o = {.format = "ip"};
	char *text;

	make(false);
	text = run_view(st, "insn", &o, NULL);
	ck_assert_str_eq(text, "401000\n401010\n401011\n401005\n401010\n401011\n40100a\n"
			       "401000\n401010\n401011\n401005\n401010\n401011\n40100a\n");
	free(text);
}
END_TEST

START_TEST(range_of_instructions_is_half_open)
{
	const struct ipt_view_opts o = {.format = "ip", .from_insn = 2, .to_insn = 5};
	char *text;

	make(false);
	text = run_view(st, "insn", &o, NULL);
	ck_assert_str_eq(text, "401011\n401005\n401010\n");
	free(text);
}
END_TEST

START_TEST(text_disassembles)
{
	char *text;

	make(false);
	text = run_view(st, "insn", &(struct ipt_view_opts){0}, NULL);
	check_plain(text);
	ck_assert_ptr_nonnull(strstr(text, "> nop\n"));
	ck_assert_ptr_nonnull(strstr(text, "> syscall\n"));
	ck_assert_ptr_nonnull(strstr(text, "# thread 70.70.0 a\\x1b[31m\"\\xff\\x0a\n"));
	free(text);
}
END_TEST

START_TEST(every_view_shows_the_gap)
{
	static const char *const names[] = {"insn", "tree", "report", "info", "summary"};
	struct ipt_view_opts o = {0};

	make(true);
	for (size_t i = 0; i < IPT_ARRAY_SIZE(names); i++) {
		uint64_t gaps = 0;
		char *text = run_view(st, names[i], &o, &gaps);

		check_plain(text);
		ck_assert_msg(strstr(text, "[gap: ") != NULL, "%s: %s", names[i], text);
		if (i < 3)
			ck_assert_uint_gt(gaps, 0);
		free(text);
	}
}
END_TEST

START_TEST(no_view_shows_a_gap_in_a_whole_trace)
{
	static const char *const names[] = {"insn", "tree", "report", "info", "summary"};
	struct ipt_view_opts o = {0};

	make(false);
	for (size_t i = 0; i < IPT_ARRAY_SIZE(names); i++) {
		uint64_t gaps = 0;
		char *text = run_view(st, names[i], &o, &gaps);

		check_plain(text);
		ck_assert_msg(!strstr(text, "[gap"), "%s: %s", names[i], text);
		ck_assert_uint_eq(gaps, 0);
		free(text);
	}
}
END_TEST

START_TEST(insn_and_tree_write_one_object_a_line)
{
	const struct ipt_view_opts o = {.json = true};
	char *text;

	make(true);
	text = run_view(st, "insn", &o, NULL);
	ck_assert_uint_gt(check_lines(text), 14);
	ck_assert_ptr_nonnull(strstr(text, "\"gap\""));
	free(text);
	text = run_view(st, "tree", &o, NULL);
	ck_assert_uint_ge(check_lines(text), 6);
	ck_assert_ptr_nonnull(strstr(text, "\"gap\""));
	free(text);
}
END_TEST

START_TEST(self_of_all_rows_is_what_ran)
{
	static const char *const by[] = {"function", "module", "thread"};

	make(_i);
	for (size_t i = 0; i < IPT_ARRAY_SIZE(by); i++) {
		const struct ipt_view_opts o = {.json = true, .by = by[i]};
		char *text = run_view(st, "report", &o, NULL);
		json_t *j = parse(text, strlen(text)), *row;
		json_int_t sum = 0;
		size_t k;

		json_array_foreach(json_object_get(j, "rows"), k, row)
		{
			sum += num(row, "self");
			ck_assert_int_le(num(row, "total"), num(j, "total_instructions"));
			ck_assert_int_ge(num(row, "total"), num(row, "self"));
		}
		ck_assert_int_eq(sum, num(j, "total_instructions"));
		/* The decoder may lose the instruction before the bytes that are no packet. */
		ck_assert_int_le(sum, 14);
		ck_assert_int_ge(sum, _i ? 13 : 14);
		ck_assert_int_eq(num(j, "gaps") > 0, _i);
		json_decref(j);
		free(text);
	}
}
END_TEST

START_TEST(info_has_the_members_others_rely_on)
{
	const struct ipt_view_opts o = {.json = true};
	json_t *j, *t;
	char *text;

	make(false);
	text = run_view(st, "info", &o, NULL);
	j = parse(text, strlen(text));
	ck_assert(json_is_true(json_object_get(j, "complete")));
	ck_assert_str_eq(json_string_value(json_object_get(j, "engine")), "step");
	ck_assert(json_is_null(json_object_get(j, "salvaged")));
	ck_assert_int_eq(num(j, "exit_status"), 0);
	ck_assert_uint_eq(json_array_size(json_object_get(j, "processes")), 1);
	t = json_array_get(json_object_get(j, "threads"), 0);
	ck_assert_int_eq(num(t, "pid"), 70);
	ck_assert_int_eq(num(t, "tid"), 70);
	ck_assert_int_eq(num(t, "gen"), 0);
	ck_assert_int_gt(num(t, "pt_bytes"), 0);
	ck_assert_int_eq(num(t, "gaps"), 0);
	ck_assert_int_eq(num(t, "lost_bytes"), 0);
	ck_assert(json_is_null(json_object_get(t, "step_instructions")));
	ck_assert(json_is_null(json_object_get(j, "stops")));
	t = json_array_get(json_object_get(j, "processes"), 0);
	ck_assert(json_is_array(json_object_get(t, "notes")));
	json_decref(j);
	free(text);
}
END_TEST

START_TEST(info_shows_what_a_translating_engine_single_stepped)
{
	struct ipt_view_opts o = {0};
	json_t *j, *t, *notes;
	char *text;

	translated = true;
	make(false);
	text = run_view(st, "info", &o, NULL);
	check_plain(text);
	ck_assert_ptr_nonnull(strstr(text, "\nstepped      2 of 14 instructions (14.286 %)\n"));
	ck_assert_ptr_nonnull(
		strstr(text, "\nstops        7 (500000.0 per million instructions)\n"));
	ck_assert_ptr_nonnull(strstr(text, "\nnote: 70: far call\nnote: 70: a\\x1b[31m"));
	free(text);
	o.json = true;
	text = run_view(st, "info", &o, NULL);
	j = parse(text, strlen(text));
	ck_assert_int_eq(num(j, "step_instructions"), 2);
	ck_assert_int_eq(num(j, "stops"), 7);
	t = json_array_get(json_object_get(j, "threads"), 0);
	ck_assert_int_eq(num(t, "step_instructions"), 2);
	ck_assert_int_eq(num(t, "stops"), 7);
	t = json_array_get(json_object_get(j, "processes"), 0);
	notes = json_object_get(t, "notes");
	ck_assert_uint_eq(json_array_size(notes), 2);
	ck_assert_str_eq(json_string_value(json_array_get(notes, 0)), "far call");
	json_decref(j);
	free(text);
}
END_TEST

START_TEST(unknown_names_are_errors)
{
	struct ipt_diag diag = {0};
	struct ipt_out out;
	struct ipt_view_opts o = {.tid = 71};

	make(false);
	ipt_out_init(&out, 1);
	ck_assert_int_eq(ipt_view_run("nonsense", st, &o, &out, NULL, &diag), -ENOENT);
	ck_assert_int_eq(ipt_view_run("tree", st, &o, &out, NULL, &diag), -ENOENT);
	o = (struct ipt_view_opts){.by = "colour"};
	ck_assert_int_eq(ipt_view_run("report", st, &o, &out, NULL, &diag), -IPT_E_USAGE);
	o = (struct ipt_view_opts){.sort = "colour"};
	ck_assert_int_eq(ipt_view_run("report", st, &o, &out, NULL, &diag), -IPT_E_USAGE);
	o = (struct ipt_view_opts){.format = "colour"};
	ck_assert_int_eq(ipt_view_run("insn", st, &o, &out, NULL, &diag), -IPT_E_USAGE);
	ipt_out_fini(&out);
}
END_TEST

START_TEST(reader_that_goes_away_ends_the_view)
{
	struct ipt_view_opts o = {0};
	struct ipt_out out;
	int fds[2];

	make(false);
	ck_assert_int_eq(pipe(fds), 0);
	close(fds[0]);
	ipt_out_init(&out, fds[1]);
	/* as if much had been written before */
	memset(ipt_buf_reserve(&out.buf, 1 << 20), 'x', 1 << 20);
	out.buf.len = 1 << 20;
	ck_assert_int_eq(ipt_view_run("insn", st, &o, &out, NULL, NULL), -EPIPE);
	ck_assert_int_eq(ipt_out_fini(&out), -EPIPE);
	close(fds[1]);
}
END_TEST

START_TEST(tree_filters_hide_and_limit)
{
	struct ipt_view_opts o = {.min_insns = 3};
	char *text;

	make(false);
	text = run_view(st, "tree", &o, NULL);
	ck_assert_ptr_null(strstr(text, "{"));
	ck_assert_ptr_nonnull(strstr(text, "14 insns"));
	free(text);
	o = (struct ipt_view_opts){.limit = 1};
	text = run_view(st, "tree", &o, NULL);
	ck_assert_ptr_null(strstr(text, "{"));
	ck_assert_ptr_nonnull(strstr(text, "14 insns"));
	free(text);
	text = run_view(st, "tree", &(struct ipt_view_opts){0}, NULL);
	ck_assert_ptr_nonnull(strstr(text, "} "));
	free(text);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("view");
	TCase *tc = tcase_create("view");
	SRunner *sr;
	int failed;

	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_set_timeout(tc, 30);
	tcase_add_test(tc, ip_lists_addresses_only);
	tcase_add_test(tc, range_of_instructions_is_half_open);
	tcase_add_test(tc, text_disassembles);
	tcase_add_test(tc, every_view_shows_the_gap);
	tcase_add_test(tc, no_view_shows_a_gap_in_a_whole_trace);
	tcase_add_test(tc, insn_and_tree_write_one_object_a_line);
	tcase_add_loop_test(tc, self_of_all_rows_is_what_ran, 0, 2);
	tcase_add_test(tc, info_has_the_members_others_rely_on);
	tcase_add_test(tc, info_shows_what_a_translating_engine_single_stepped);
	tcase_add_test(tc, unknown_names_are_errors);
	tcase_add_test(tc, reader_that_goes_away_ends_the_view);
	tcase_add_test(tc, tree_filters_hide_and_limit);
	suite_add_tcase(suite, tc);
	sr = srunner_create(suite);
	srunner_run_all(sr, CK_NORMAL);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed != 0;
}
