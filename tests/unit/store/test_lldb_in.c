/* SPDX-License-Identifier: MIT */
/* LLDB bundles: those captured on hardware become traces, the bad ones are refused by field. */
#include <errno.h>

#include "store_lib.h"

static char words[4096];

static void keep_warn(void *arg, const char *text)
{
	(void)arg;
	if (strlen(words) + strlen(text) + 2 < sizeof(words))
		strcat(strcat(words, text), "\n");
}

static const char *real_pt(const char *name)
{
	static char path[4096];
	const char *root = getenv("IPTRACE_REAL_PT"), *src = getenv("IPT_SOURCE_DIR");

	if (root)
		snprintf(path, sizeof(path), "%s/%s", root, name);
	else
		snprintf(path, sizeof(path), "%s/../shared/real-pt/%s", src ? src : ".", name);
	return path;
}

static int import(const char *path, struct ipt_diag *d)
{
	struct ipt_writer_cfg cfg = {.dir = t_path("t")};

	*words = 0;
	*d = (struct ipt_diag){.warn = keep_warn};
	return ipt_import_lldb(path, &cfg, d);
}

struct good {
	const char *bundle;
	unsigned threads, maps, model;
	const char *warning;
};

START_TEST(bundles_of_real_hardware_become_traces)
{
	static const struct good cases[] = {
		{"lldb/intelpt-trace/trace.json", 1, 1, 79, ""},
		{"lldb/intelpt-trace/trace_2threads.json", 2, 1, 79, ""},
		{"lldb/intelpt-trace/trace_wrong_cpu.json", 1, 1, 12123123, ""},
		{"lldb/intelpt-trace-multi-file/multi-file-no-ld.json", 1, 3, 79, ""},
		{"griffin/hello", 1, 1, 94, ""},
		{"griffin/ovf-01-poc", 1, 4, 94, ""},
		{"hase/loopy", 1, 1, 61, ""},
		{"dynamorio/hello-static", 1, 1, 85, ""},
	};

	for (size_t i = 0; i < IPT_ARRAY_SIZE(cases); i++) {
		const struct good *g = &cases[i];
		struct ipt_diag d;
		struct ipt_store *st;
		unsigned maps = 0;

		ck_assert_msg(!import(real_pt(g->bundle), &d), "%s: %s", g->bundle, d.text);
		ck_assert_int_eq(ipt_store_open(&st, t_path("t"), NULL), 0);
		ck_assert_ptr_null(ipt_store_salvaged(st));
		ck_assert_msg(ipt_store_n_threads(st) == g->threads, "%s", g->bundle);
		ck_assert_msg(ipt_store_info(st)->cpu.model == g->model, "%s: model %u", g->bundle,
			      ipt_store_info(st)->cpu.model);
		ck_assert_uint_gt(ipt_store_thread(st, 0)->pt_bytes, 0);
		for (size_t k = 0; k < ipt_store_n_recs(st); k++) {
			struct ipt_rec_map m;
			const uint8_t *p;
			size_t n;

			if (ipt_rec_map_parse(&m, ipt_store_rec(st, k)))
				continue;
			maps++;
			ck_assert_int_eq(ipt_store_image(st, m.m.image, &p, &n, NULL), 0);
			ck_assert_uint_eq(n, m.m.end - m.m.start);
		}
		ck_assert_msg(maps >= g->maps, "%s: %u maps\n%s", g->bundle, maps, words);
		ipt_store_close(st);
		nftw(t_path("t"), t_rm, 16, FTW_DEPTH | FTW_PHYS);
	}
}
END_TEST

START_TEST(the_first_form_of_bundles_is_read)
{
	/* Only the json is there in that form: its files are those of the present form. */
	static const char *const names[][2] = {
		{"lldb/intelpt-trace/3842849.trace", "3842849.trace"},
		{"lldb/intelpt-trace/a.out", "a.out"},
		{"lldb/schema-llvm14/intelpt-trace/trace.json", "trace.json"}};
	struct ipt_diag d;
	struct ipt_store *st;

	for (size_t i = 0; i < IPT_ARRAY_SIZE(names); i++) {
		char *real = realpath(real_pt(names[i][0]), NULL);

		ck_assert_ptr_nonnull(real);
		ck_assert_int_eq(symlink(real, t_path(names[i][1])), 0);
		free(real);
	}
	ck_assert_msg(!import(t_root, &d), "%s", d.text);
	ck_assert_int_eq(ipt_store_open(&st, t_path("t"), NULL), 0);
	ck_assert_str_eq(ipt_store_info(st)->cpu.vendor, "GenuineIntel");
	ck_assert_uint_eq(ipt_store_info(st)->cpu.model, 79);
	ipt_store_close(st);
}
END_TEST

START_TEST(bad_bundles_are_refused_by_field_and_leave_nothing)
{
	static const struct {
		const char *bundle, *field;
		int code;
	} cases[] = {
		{"lldb/intelpt-trace/trace_bad.json", "processes[0]", IPT_E_BADJSON},
		{"lldb/intelpt-trace/trace_bad2.json", "cpuInfo.family", IPT_E_BADJSON},
		{"lldb/intelpt-trace/trace_bad3.json", "processes[1].pid", IPT_E_BADJSON},
		{"lldb/intelpt-trace/trace_bad4.json", "cpuInfo.family", IPT_E_BADJSON},
		{"lldb/intelpt-trace/trace_bad5.json", "processes[1].pid", IPT_E_BADJSON},
		{"lldb/intelpt-trace/trace_bad_image.json", "loadAddress", IPT_E_BADJSON},
		{"lldb/schema-llvm14/intelpt-trace/trace_bad.json", "processes[0]", IPT_E_BADJSON},
		{"lldb/schema-llvm14/intelpt-trace/trace_bad2.json", "processes[1].triple",
		 IPT_E_BADJSON},
		{"lldb/schema-llvm14/intelpt-trace/trace_bad4.json", "cpuInfo.family",
		 IPT_E_BADJSON},
		{"lldb/intelpt-multi-core-trace/trace.json", "per-CPU", IPT_E_UNSUPPORTED},
		{"lldb/intelpt-kernel-trace/trace.json", "per-CPU", IPT_E_UNSUPPORTED},
		{"lldb/intelpt-kernel-trace/trace_kernel_wo_cpus.json", "per-CPU",
		 IPT_E_UNSUPPORTED},
		{"lldb/none", "none", ENOENT},
	};

	for (size_t i = 0; i < IPT_ARRAY_SIZE(cases); i++) {
		struct ipt_diag d;
		int err = import(real_pt(cases[i].bundle), &d);

		ck_assert_msg(err == -cases[i].code, "%s: %d %s", cases[i].bundle, err, d.text);
		ck_assert_msg(strstr(d.text, cases[i].field), "%s: %s", cases[i].bundle, d.text);
		ck_assert_int_ne(access(t_path("t"), F_OK), 0);
	}
}
END_TEST

static int import_text(const char *text, struct ipt_diag *d)
{
	FILE *f = fopen(t_path("trace.json"), "w");

	fputs(text, f);
	fclose(f);
	return import(t_root, d);
}

#define CPU                                                                                        \
	"\"type\":\"intel-pt\",\"cpuInfo\":{\"vendor\":\"GenuineIntel\",\"family\":6,"             \
	"\"model\":1,\"stepping\":1},"

START_TEST(raw_code_and_long_numbers_are_taken_and_missing_modules_warned_of)
{
	static const char text[] =
		"{" CPU "\"tscPerfZeroConversion\":{\"timeMult\":1,\"timeShift\":2,"
		"\"timeZero\":18433473881008870804},\"processes\":[{\"pid\":1,\"threads\":[{"
		"\"tid\":1,\"iptTrace\":\"pt\"}],\"modules\":[{\"systemPath\":\"[vdso]\",\"file\":"
		"\"raw\",\"loadAddress\":\"0x7ffff7ff0000\"},{\"systemPath\":\"/none\","
		"\"loadAddress\":4096}]}]}";
	struct ipt_rec_map m;
	struct ipt_store *st;
	struct ipt_diag d;
	FILE *f;

	f = fopen(t_path("pt"), "w");
	fputs("pt", f);
	fclose(f);
	f = fopen(t_path("raw"), "w");
	fputs("\x90\x90\xc3", f);
	fclose(f);
	ck_assert_msg(!import_text(text, &d), "%s", d.text);
	ck_assert_ptr_nonnull(strstr(words, "/none"));
	ck_assert_int_eq(ipt_store_open(&st, t_path("t"), NULL), 0);
	ck_assert_uint_eq(ipt_store_info(st)->clock.zero, 18433473881008870804u);
	ck_assert_int_eq(ipt_rec_map_parse(&m, ipt_store_rec(st, 1)), 0);
	ck_assert_uint_eq(m.m.kind, IPT_SB_MAP_VDSO);
	ck_assert_uint_eq(m.m.start, 0x7ffff7ff0000u);
	ck_assert_uint_eq(m.m.end, 0x7ffff7ff0003u);
	ipt_store_close(st);
}
END_TEST

START_TEST(odd_types_and_missing_files_are_errors)
{
	static const char *const cases[] = {
		"",
		"[1]",
		"{\"type\":1}",
		"{\"trace\":7}",
		"{" CPU "\"processes\":{}}",
		"{" CPU "\"processes\":[{\"pid\":-1,\"threads\":[],\"modules\":[]}]}",
		"{" CPU "\"processes\":[{\"pid\":1,\"threads\":[{\"tid\":1}],\"modules\":[]}]}",
		"{" CPU "\"processes\":[{\"pid\":1,\"threads\":[{\"tid\":1,\"iptTrace\":\"no\"}],"
		"\"modules\":[]}]}",
		"{" CPU
		"\"processes\":[{\"pid\":1,\"threads\":[],\"modules\":[{\"systemPath\":\"a\","
		"\"loadAddress\":\"zz\"}]}]}",
	};

	for (size_t i = 0; i < IPT_ARRAY_SIZE(cases); i++) {
		struct ipt_diag d;

		ck_assert_msg(import_text(cases[i], &d) < 0, "%s", cases[i]);
		ck_assert(*d.text);
		ck_assert_int_ne(access(t_path("t"), F_OK), 0);
	}
}
END_TEST

int without_data_main(void);
int with_data_main(void);

#define main without_data_main
STORE_MAIN("store lldb_in, own bundles",
	   raw_code_and_long_numbers_are_taken_and_missing_modules_warned_of,
	   odd_types_and_missing_files_are_errors)
#undef main
#define main with_data_main
STORE_MAIN("store lldb_in, real bundles", bundles_of_real_hardware_become_traces,
	   the_first_form_of_bundles_is_read, bad_bundles_are_refused_by_field_and_leave_nothing)
#undef main

int main(void)
{
	int bad = without_data_main();

	if (access(real_pt("README.md"), F_OK)) {
		printf("skipped: no captures at %s\n", real_pt(""));
		return bad ? bad : 77;
	}
	return with_data_main() | bad;
}
