/* SPDX-License-Identifier: MIT */
/* What is written comes back; what must not be overwritten stays. */
#include <errno.h>

#include <jansson.h>

#include "store_lib.h"

static struct ipt_store *open_ok(const char *dir)
{
	struct ipt_diag d = {0};
	struct ipt_store *st = NULL;

	ck_assert_msg(!ipt_store_open(&st, dir, &d), "%s", d.text);
	return st;
}

static void count_warn(void *arg, const char *text)
{
	strcat(strcat(arg, text), "\n");
}

static void check_clean(struct ipt_store *st)
{
	static char words[8192];
	struct ipt_diag d = {.warn = count_warn, .warn_arg = words};
	int n;

	*words = 0;
	n = ipt_store_validate(st, &d);
	ck_assert_msg(n == 0, "%d faults: %s", n, words);
}

static void check_session(const struct ipt_store *st)
{
	struct ipt_session_info want = t_info();
	const struct ipt_session_info *in = ipt_store_info(st);

	ck_assert_str_eq(in->engine, want.engine);
	ck_assert_str_eq(in->tool, want.tool);
	ck_assert_str_eq(in->cwd, want.cwd);
	ck_assert_str_eq(in->argv[1], "a b");
	ck_assert_str_eq(in->argv[2], "");
	ck_assert_ptr_null(in->argv[3]);
	ck_assert_str_eq(in->options[1], "-q");
	ck_assert_int_eq(memcmp(&in->cpu, &want.cpu, sizeof(want.cpu)), 0);
	ck_assert_uint_eq(in->clock.zero, want.clock.zero);
	ck_assert_uint_eq(in->clock.start_tsc, want.clock.start_tsc);
	ck_assert_uint_eq(in->clock.start_realtime_ns, want.clock.start_realtime_ns);
	ck_assert_uint_eq(in->clock.cpuid_15h_ebx, 250);
	ck_assert_uint_eq(in->clock.nom_freq, 30);
	ck_assert(in->noretcomp && in->slowed);
}

static void check_map(struct ipt_store *st, const struct ipt_rec *r)
{
	struct ipt_rec_map map;
	struct ipt_sb_pos pos;
	const uint8_t *p;
	size_t n;

	ck_assert_int_eq(ipt_rec_map_parse(&map, r), 0);
	ck_assert_uint_eq(map.m.start, 0x400000);
	ck_assert_str_eq(map.path, "/bin/prog");
	ck_assert_uint_eq(map.m.n_build_id, 3);
	ck_assert_int_eq(memcmp(map.build_id, "\1\2\3", 3), 0);
	ck_assert(ipt_rec_pos_next(&map.pos, &pos));
	ck_assert_uint_eq(pos.tid, 11);
	ck_assert_uint_eq(pos.pt_off, 16);
	ck_assert_uint_eq(pos.bound, 5);
	ck_assert(!ipt_rec_pos_next(&map.pos, &pos));
	ck_assert_int_eq(ipt_store_image(st, map.m.image, &p, &n, NULL), 0);
	ck_assert_uint_eq(n, 4096);
	ck_assert_uint_eq(p[4095], 0x90);
	ck_assert_int_eq(strncmp(ipt_store_image_name(st, map.m.image), "images/", 7), 0);
}

static void round_trip(bool zstd)
{
	const char *dir = t_path("t");
	struct ipt_writer *w = t_small(dir, zstd);
	const struct ipt_thread_info *a, *b;
	const uint8_t *p;
	uint8_t pt[32];
	struct ipt_store *st;
	size_t n;

	ck_assert_int_eq(ipt_writer_finish(w, 0x200, NULL), 0);
	st = open_ok(dir);
	ck_assert_ptr_null(ipt_store_salvaged(st));
	ck_assert_int_eq(ipt_store_status(st), IPT_STATUS_COMPLETE);
	ck_assert_int_eq(ipt_store_exit_status(st), 0x200);
	check_session(st);
	ck_assert_uint_eq(ipt_store_n_procs(st), 1);
	ck_assert_str_eq(ipt_store_proc(st, 0)->exe, "/bin/prog");
	ck_assert_uint_eq(ipt_store_n_threads(st), 2);
	a = ipt_store_thread(st, 0);
	b = ipt_store_thread(st, 1);
	ck_assert_str_eq(a->comm, "newname");
	ck_assert_uint_eq(a->instructions, 1000);
	ck_assert_uint_eq(a->n_gaps, 1);
	ck_assert_uint_eq(a->lost_bytes, 77);
	ck_assert_uint_eq(a->end_seq, UINT64_MAX);
	ck_assert_uint_eq(b->instructions, UINT64_MAX);
	ck_assert_int_eq(b->status, 0x100);
	ck_assert_uint_eq(b->end_tsc, 300);
	ck_assert_uint_eq(ipt_store_n_recs(st), 7);
	check_map(st, ipt_store_rec(st, 2));
	ck_assert_str_eq(ipt_rec_text(ipt_store_rec(st, 5), sizeof(struct ipt_sb_gap)), "text");
	ck_assert_int_eq(ipt_store_pt(st, a, &p, &n, NULL), 0);
	ck_assert_uint_eq(n, t_psb(pt));
	ck_assert_int_eq(memcmp(p, pt, n), 0);
	ck_assert_str_eq(ipt_store_pt_name(st, a),
			 zstd ? "threads/10.10.0.pt.zst" : "threads/10.10.0.pt");
	check_clean(st);
	ipt_store_close(st);
}

START_TEST(what_is_written_comes_back)
{
	round_trip(false);
}
END_TEST

START_TEST(packed_pt_comes_back_and_another_tool_unpacks_it)
{
	char cmd[600];

	round_trip(true);
	if (system("command -v zstd >/dev/null"))
		return;
	snprintf(cmd, sizeof(cmd), "test $(zstd -dc %s/threads/10.10.0.pt.zst | wc -c) = 32",
		 t_path("t"));
	ck_assert_int_eq(system(cmd), 0);
}
END_TEST

START_TEST(bytes_that_are_not_utf8_survive)
{
	static const char *const argv[] = {"\xff\xfe", "ok\xc3\xa9", "\xed\xa0\x80", "\xc0\x80",
					   NULL};
	struct ipt_session_info info = t_info();
	struct ipt_writer_cfg cfg = {.dir = t_path("t")};
	struct ipt_writer *w;
	struct ipt_store *st;

	info.argv = argv;
	info.cwd = "/tmp/\x80\x01\"";
	ck_assert_int_eq(ipt_writer_new(&w, &cfg, &info, NULL), 0);
	ck_assert_int_eq(ipt_writer_finish(w, 0, NULL), 0);
	st = open_ok(cfg.dir);
	for (int i = 0; argv[i]; i++)
		ck_assert_str_eq(ipt_store_info(st)->argv[i], argv[i]);
	ck_assert_str_eq(ipt_store_info(st)->cwd, info.cwd);
	ipt_store_close(st);
}
END_TEST

START_TEST(an_argument_of_a_megabyte_is_kept_in_full)
{
	struct ipt_session_info info = t_info();
	struct ipt_writer_cfg cfg = {.dir = t_path("t")};
	char *big = ipt_xcalloc(1 << 20, 1);
	const char *argv[] = {"p", big, NULL};
	struct ipt_writer *w;
	struct ipt_store *st;

	memset(big, '\x81', (1 << 20) - 1);
	info.argv = argv;
	ck_assert_int_eq(ipt_writer_new(&w, &cfg, &info, NULL), 0);
	ck_assert_int_eq(ipt_writer_finish(w, 0, NULL), 0);
	st = open_ok(cfg.dir);
	ck_assert_str_eq(ipt_store_info(st)->argv[1], big);
	ipt_store_close(st);
	free(big);
}
END_TEST

START_TEST(an_existing_directory_is_not_overwritten)
{
	struct ipt_writer_cfg cfg = {.dir = t_path("t")};
	struct ipt_session_info info = t_info();
	struct ipt_writer *w;

	ipt_writer_finish(t_small(cfg.dir, false), 0, NULL);
	ck_assert_int_eq(ipt_writer_new(&w, &cfg, &info, NULL), -EEXIST);
	cfg.force = true;
	ck_assert_int_eq(ipt_writer_new(&w, &cfg, &info, NULL), 0);
	ck_assert_int_eq(ipt_writer_finish(w, 0, NULL), 0);
	ck_assert_int_ne(access(t_path("t/threads/10.10.0.pt"), F_OK), 0);
}
END_TEST

START_TEST(force_keeps_off_what_is_no_trace)
{
	struct ipt_writer_cfg cfg = {.dir = t_path("t"), .force = true};
	struct ipt_session_info info = t_info();
	struct ipt_writer *w;

	ck_assert_int_eq(mkdir(cfg.dir, 0777), 0);
	ck_assert_int_eq(mkdir(t_path("t/own"), 0777), 0);
	ck_assert_int_eq(ipt_writer_new(&w, &cfg, &info, NULL), -EEXIST);
	ck_assert_int_eq(rmdir(t_path("t/own")), 0);
	ck_assert_int_eq(ipt_writer_new(&w, &cfg, &info, NULL), 0); /* empty now */
	ck_assert_int_eq(ipt_writer_finish(w, 0, NULL), 0);
	ck_assert_int_eq(symlink("/etc/passwd", t_path("t/threads/1.1.0.pt")), 0);
	ck_assert_int_eq(ipt_writer_new(&w, &cfg, &info, NULL), -ENOTEMPTY);
	ck_assert_int_eq(access(t_path("t/manifest.json"), F_OK), 0); /* nothing was deleted */
}
END_TEST

START_TEST(a_missing_folder_above_is_told)
{
	struct ipt_writer_cfg cfg = {.dir = t_path("no/t")};
	struct ipt_session_info info = t_info();
	struct ipt_diag d = {0};
	struct ipt_writer *w;

	ck_assert_int_eq(ipt_writer_new(&w, &cfg, &info, &d), -ENOENT);
	ck_assert_ptr_nonnull(strstr(d.text, "no/t"));
}
END_TEST

START_TEST(a_reused_tid_gets_a_new_generation)
{
	const char *dir = t_path("t");
	struct ipt_writer *w = t_writer(dir, false, false);
	struct ipt_sb_thread_exit ex = {0};
	struct ipt_wthread *t = t_thread(w, 5, 5);
	struct ipt_store *st;

	ck_assert_uint_eq(ipt_wthread_gen(t), 0);
	ipt_wthread_exit(t, &ex, 1);
	t = t_thread(w, 5, 5);
	ck_assert_uint_eq(ipt_wthread_gen(t), 1);
	ipt_wthread_exit(t, &ex, 1);
	ck_assert_int_eq(ipt_writer_finish(w, 0, NULL), 0);
	st = open_ok(dir);
	ck_assert_uint_eq(ipt_store_n_procs(st), 2);
	ck_assert_uint_eq(ipt_store_proc(st, 1)->gen, 1);
	check_clean(st);
	ipt_store_close(st);
}
END_TEST

START_TEST(the_newest_trace_of_a_folder_is_found)
{
	const struct timespec old[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
	char *name;

	ck_assert_int_eq(ipt_store_newest(&name, t_root), -ENOENT);
	ipt_writer_finish(t_small(t_path("b"), false), 0, NULL);
	ipt_writer_finish(t_small(t_path("a"), false), 0, NULL);
	ck_assert_int_eq(mkdir(t_path("c"), 0777), 0);
	ck_assert_int_eq(utimensat(AT_FDCWD, t_path("a/manifest.json"), old, 0), 0);
	ck_assert_int_eq(ipt_store_newest(&name, t_root), 0);
	ck_assert_str_eq(name, t_path("b"));
	free(name);
}
END_TEST

START_TEST(the_manifest_names_every_documented_field)
{
	static const char *const keys[] = {
		"format",  "version", "status",  "tool",      "engine",    "host",
		"kernel",  "cpu",     "clocks",  "command",   "argv",      "cwd",
		"options", "slowed",  "threads", "noretcomp", "processes", "exit_status"};
	json_t *root, *t;

	ipt_writer_finish(t_small(t_path("t"), false), 0, NULL);
	root = json_load_file(t_path("t/manifest.json"), 0, NULL);
	ck_assert_ptr_nonnull(root);
	for (size_t i = 0; i < IPT_ARRAY_SIZE(keys); i++)
		ck_assert_msg(json_object_get(root, keys[i]), "%s", keys[i]);
	t = json_array_get(json_object_get(root, "threads"), 0);
	ck_assert_int_eq(json_integer_value(json_object_get(t, "pt_bytes")), 32);
	json_decref(root);
	root = json_load_file(t_path("t/images/index.json"), 0, NULL);
	ck_assert_uint_eq(json_array_size(json_object_get(root, "images")), 1);
	json_decref(root);
}
END_TEST

START_TEST(counts_of_an_engine_that_translates_come_back)
{
	struct ipt_writer *w = t_writer(t_path("t"), false, false);
	struct ipt_wthread *a = t_thread(w, 10, 10);
	const struct ipt_thread_info *t;
	struct ipt_store *st;

	t_thread(w, 10, 11);
	ipt_wthread_stepped(a, 5);
	ipt_wthread_stepped(a, 7);
	ipt_wthread_stops(a, 0);
	ck_assert_int_eq(ipt_writer_finish(w, 0, NULL), 0);
	ck_assert_int_eq(ipt_store_open(&st, t_path("t"), NULL), 0);
	t = ipt_store_thread(st, 0);
	ck_assert_uint_eq(t->step_instructions, 12);
	ck_assert_uint_eq(t->stops, 0);
	ck_assert_uint_eq(t->instructions, UINT64_MAX);
	t = ipt_store_thread(st, 1);
	ck_assert_uint_eq(t->step_instructions, UINT64_MAX);
	ck_assert_uint_eq(t->stops, UINT64_MAX);
	ipt_store_close(st);
}
END_TEST

START_TEST(counts_are_unknown_when_the_recorder_did_not_finish)
{
	struct ipt_writer *w = t_writer(t_path("t"), false, false);
	struct ipt_wthread *a = t_thread(w, 10, 10);
	struct ipt_store *st;

	ipt_wthread_stepped(a, 5);
	ipt_wthread_stops(a, 5);
	ipt_writer_note(w, 10, "remark");
	ipt_writer_flush(w);
	ipt_writer_abandon(w);
	ck_assert_int_eq(ipt_store_open(&st, t_path("t"), NULL), 0);
	ck_assert_uint_eq(ipt_store_thread(st, 0)->step_instructions, UINT64_MAX);
	ck_assert_uint_eq(ipt_store_thread(st, 0)->stops, UINT64_MAX);
	ck_assert_uint_eq(ipt_store_proc(st, 0)->n_notes, 0);
	ipt_store_close(st);
}
END_TEST

/* The second process of a pid has its own. */
START_TEST(notes_come_back_once_a_kind_and_process)
{
	static const char odd[] = "odd \xff \"quoted\"\n";
	struct ipt_sb_thread_start lead = {.flags = IPT_SB_TF_LEADER};
	struct ipt_writer *w = t_writer(t_path("t"), false, false);
	const struct ipt_proc_info *p;
	struct ipt_store *st;

	t_thread(w, 10, 10);
	ipt_writer_note(w, 10, "far call");
	ipt_writer_note(w, 10, odd);
	ipt_writer_note(w, 10, "far call");
	ipt_writer_note(w, 99, "of nobody");
	ipt_writer_note(w, 10, "");
	ipt_writer_thread(w, 10, 10, &lead, "again", 500);
	ipt_writer_note(w, 10, "far call");
	t_thread(w, 12, 12);
	ck_assert_int_eq(ipt_writer_finish(w, 0, NULL), 0);
	ck_assert_int_eq(ipt_store_open(&st, t_path("t"), NULL), 0);
	ck_assert_uint_eq(ipt_store_n_procs(st), 3);
	p = ipt_store_proc(st, 0);
	ck_assert_uint_eq(p->n_notes, 2);
	ck_assert_str_eq(p->notes[0], "far call");
	ck_assert_str_eq(p->notes[1], odd);
	ck_assert_uint_eq(ipt_store_proc(st, 1)->n_notes, 1);
	ck_assert_str_eq(ipt_store_proc(st, 1)->notes[0], "far call");
	ck_assert_uint_eq(ipt_store_proc(st, 2)->n_notes, 0);
	ipt_store_close(st);
}
END_TEST

START_TEST(notes_are_few_and_short)
{
	struct ipt_writer *w = t_writer(t_path("t"), false, false);
	const struct ipt_proc_info *p;
	struct ipt_store *st;
	char text[1000];

	t_thread(w, 10, 10);
	/* 255 bytes and then characters of two bytes each: one would be cut in half. */
	memset(text, 'a', 255);
	for (size_t i = 255; i < sizeof(text); i++)
		text[i] = i % 2 ? '\xc3' : '\xa4';
	text[sizeof(text) - 1] = 0;
	ipt_writer_note(w, 10, text);
	for (int i = 0; i < 1000; i++) {
		snprintf(text, sizeof(text), "remark %d", i);
		ipt_writer_note(w, 10, text);
	}
	for (int i = 0; i < 10000; i++) {
		if (i % 100 == 0)
			t_thread(w, 1000 + i / 100, 1000 + i / 100);
		snprintf(text, sizeof(text), "%d", i);
		ipt_writer_note(w, 1000 + i / 100, text);
	}
	ck_assert_int_eq(ipt_writer_finish(w, 0, NULL), 0);
	ck_assert_int_eq(ipt_store_open(&st, t_path("t"), NULL), 0);
	p = ipt_store_proc(st, 0);
	ck_assert_uint_eq(p->n_notes, 64);
	ck_assert_uint_eq(strlen(p->notes[0]), 255);
	ck_assert_str_eq(p->notes[63], "remark 62");
	ck_assert_uint_eq(ipt_store_proc(st, 1)->n_notes, 64);
	ck_assert_uint_eq(ipt_store_proc(st, 63)->n_notes, 64);
	ck_assert_uint_eq(ipt_store_proc(st, 64)->n_notes, 0);
	ipt_store_close(st);
}
END_TEST

STORE_MAIN("store", what_is_written_comes_back, packed_pt_comes_back_and_another_tool_unpacks_it,
	   bytes_that_are_not_utf8_survive, an_argument_of_a_megabyte_is_kept_in_full,
	   an_existing_directory_is_not_overwritten, force_keeps_off_what_is_no_trace,
	   a_missing_folder_above_is_told, a_reused_tid_gets_a_new_generation,
	   the_newest_trace_of_a_folder_is_found, the_manifest_names_every_documented_field,
	   counts_of_an_engine_that_translates_come_back,
	   counts_are_unknown_when_the_recorder_did_not_finish,
	   notes_come_back_once_a_kind_and_process, notes_are_few_and_short)
