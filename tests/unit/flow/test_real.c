/* SPDX-License-Identifier: MIT */
/*
 * Real captures: the listing of both decoders is the one an independent run of libipt's instruction
 * decoder made, errors are where it had them, and both decoders tell the same events.
 */
#include <elf.h>
#include <fcntl.h>
#include <jansson.h>

#include "scene.h"

static json_t *manifest;
static int root = -1;

static bool open_data(void)
{
	const char *dir = getenv("IPTRACE_REAL_PT"), *src = getenv("IPT_SOURCE_DIR");
	char *name =
		dir ? ipt_xstrdup(dir) : ipt_xasprintf("%s/../shared/real-pt", src ? src : ".");
	uint8_t *text = NULL;
	size_t n = 0;

	root = open(name, O_RDONLY | O_DIRECTORY);
	free(name);
	if (root < 0 || ipt_file_read(&text, &n, root, "manifest.json", 64 << 20, 0, NULL))
		return false;
	/* Some integers are beyond 63 bits. */
	manifest = json_loadb((char *)text, n, JSON_DECODE_INT_AS_REAL, NULL);
	free(text);
	return manifest != NULL;
}

static const char *str(const json_t *o, const char *key)
{
	return json_string_value(json_object_get(o, key));
}

static uint64_t hex(const json_t *o, const char *key)
{
	return str(o, key) ? strtoull(str(o, key), NULL, 16) : 0;
}

static void map_elf(struct scene *s, const uint8_t *p, size_t n, uint64_t load, const char *path)
{
	const Elf64_Ehdr *e = (const void *)p;
	const Elf64_Phdr *ph = (const void *)(p + e->e_phoff);
	uint64_t low = UINT64_MAX;

	ck_assert(n > sizeof(*e) && e->e_phoff + e->e_phnum * sizeof(*ph) <= n);
	for (int i = 0; i < e->e_phnum; i++) {
		if (ph[i].p_type == PT_LOAD)
			low = ipt_min_u64(low, ph[i].p_vaddr & ~0xfffull);
	}
	for (int i = 0; i < e->e_phnum; i++) {
		if (ph[i].p_type == PT_LOAD && (ph[i].p_flags & PF_X))
			scene_code(s, IPT_SB_MAP, load + ph[i].p_vaddr - low, p + ph[i].p_offset,
				   ph[i].p_filesz, 0, path);
	}
}

static void map_images(struct scene *s, const json_t *set)
{
	const json_t *img;
	size_t i;

	json_array_foreach(json_object_get(set, "image"), i, img)
	{
		uint8_t *p;
		size_t n;

		ck_assert_int_eq(ipt_file_read(&p, &n, root, str(img, "file"), 256 << 20, 0, NULL),
				 0);
		if (!strcmp(str(img, "kind"), "elf"))
			map_elf(s, p, n, hex(img, "load"), str(img, "file"));
		else
			scene_code(s, IPT_SB_MAP, hex(img, "load"),
				   p + (size_t)json_number_value(json_object_get(img, "off")),
				   (size_t)json_number_value(json_object_get(img, "len")), 0,
				   str(img, "file"));
		free(p);
	}
}

static void make(struct scene *s, const json_t *set)
{
	const json_t *timing = json_object_get(set, "timing");
	struct ipt_session_info info = {
		.engine = "import",
		.tool = "test",
		.host = "h",
		.kernel = "k",
		.command = "import",
		.cwd = "/",
		.cpu = {.vendor = "GenuineIntel"},
	};
	uint8_t *pt;
	size_t n;

	ck_assert_int_eq(sscanf(str(set, "cpu"), "%u/%u/%u", &info.cpu.family, &info.cpu.model,
				&info.cpu.stepping),
			 3);
	info.clock.mtc_freq = (uint8_t)json_number_value(json_object_get(timing, "mtc_freq"));
	info.clock.nom_freq = (uint8_t)json_number_value(json_object_get(timing, "nom_freq"));
	info.clock.cpuid_15h_eax =
		(uint32_t)json_number_value(json_object_get(timing, "cpuid_0x15_eax"));
	info.clock.cpuid_15h_ebx =
		(uint32_t)json_number_value(json_object_get(timing, "cpuid_0x15_ebx"));
	scene_begin(s, &info);
	map_images(s, set);
	ck_assert_int_eq(ipt_file_read(&pt, &n, root, str(set, "pt"), 256 << 20, 0, NULL), 0);
	ipt_wthread_pt(s->t, pt, n);
	free(pt);
	scene_finish(s);
}

static void sha256(const char *file, char out[65])
{
	char *cmd = ipt_xasprintf("sha256sum '%s'", file);
	FILE *f = popen(cmd, "r");

	ck_assert_ptr_nonnull(f);
	ck_assert_int_eq(fscanf(f, "%64s", out), 1);
	pclose(f);
	free(cmd);
}

/* GAPs that libipt's own run had too. */
static void check_gaps(const struct seen *k, const json_t *want, const char *id)
{
	const json_t *errors = json_object_get(want, "errors");
	size_t n = 0;

	for (size_t i = 0; i < k->v.n; i++) {
		const struct ipt_ev *e = &k->v.v[i];
		const json_t *x;

		if (e->kind != IPT_EV_GAP || e->how == IPT_GAP_NO_PSB || e->how == IPT_GAP_OVF)
			continue;
		x = json_array_get(errors, n++);
		ck_assert_msg(x, "%s: a gap at 0x%llx, ip %llx (%s) that is not expected", id,
			      (unsigned long long)e->off, (unsigned long long)e->gap.ip,
			      e->gap.text);
		ck_assert_uint_eq(e->off, hex(x, "off"));
		ck_assert_uint_eq(e->gap.ip, hex(x, "ip"));
		ck_assert_uint_eq(e->n,
				  (uint64_t)json_number_value(json_object_get(x, "after_insn")));
		ck_assert_msg(strstr(e->gap.text, str(x, "what")), "%s: %s", id, e->gap.text);
	}
	ck_assert_msg(n == json_array_size(errors), "%s: %zu gaps", id, n);
}

static void check_set(const json_t *set, const char *decoder)
{
	const json_t *want = json_object_get(set, "expected_with_int3");
	struct seen k = {0};
	struct scene s;
	char *list, sum[65];

	if (!want)
		want = json_object_get(set, "expected");
	make(&s, set);
	list = ipt_xasprintf("%s/list", s.dir);
	k.list = fopen(list, "w");
	ck_assert_ptr_nonnull(k.list);
	seen_decode(&k, &s, 0, decoder);
	fclose(k.list);
	sha256(list, sum);
	check_gaps(&k, want, str(set, "id"));
	ck_assert_msg(k.listed == (uint64_t)json_number_value(json_object_get(want, "insns")),
		      "%s, %s: %llu instructions", str(set, "id"), decoder,
		      (unsigned long long)k.listed);
	ck_assert_uint_eq(k.listed, k.stats.insns);
	ck_assert_msg(!strcmp(sum, str(want, "ips_sha256")), "%s, %s: the listing differs",
		      str(set, "id"), decoder);
	free(list);
	seen_free(&k);
	scene_end(&s);
}

START_TEST(listing_of_both_decoders_is_the_expected_one)
{
	const json_t *set;
	size_t i;

	json_array_foreach(json_object_get(manifest, "sets"), i, set)
	{
		check_set(set, "insn");
		check_set(set, "ref");
	}
}
END_TEST

START_TEST(both_decoders_tell_the_same_events)
{
	const json_t *set;
	size_t i;

	json_array_foreach(json_object_get(manifest, "sets"), i, set)
	{
		struct seen a = {0}, b = {0};
		struct scene s;

		make(&s, set);
		seen_decode(&a, &s, 0, "ref");
		seen_decode(&b, &s, 0, "insn");
		for (size_t j = 0; j < a.v.n && j < b.v.n; j++)
			ck_assert_msg(seen_equal(&a.v.v[j], &b.v.v[j]),
				      "%s: event %zu: %s %llx %llx, %s %llx %llx at 0x%llx",
				      str(set, "id"), j, ipt_ev_name(a.v.v[j].kind),
				      (unsigned long long)a.v.v[j].run.ip,
				      (unsigned long long)a.v.v[j].run.end,
				      ipt_ev_name(b.v.v[j].kind),
				      (unsigned long long)b.v.v[j].run.ip,
				      (unsigned long long)b.v.v[j].run.end,
				      (unsigned long long)b.v.v[j].off);
		ck_assert_uint_eq(a.v.n, b.v.n);
		seen_free(&a);
		seen_free(&b);
		scene_end(&s);
	}
}
END_TEST

/* The bundle of a set, by way of the import: the same listing. */
static void check_bundle(const json_t *set)
{
	const json_t *want = json_object_get(set, "expected_with_int3");
	const char *dir = getenv("IPTRACE_REAL_PT"), *src = getenv("IPT_SOURCE_DIR");
	char tmp[] = "/tmp/iptrace-test-XXXXXX", sum[65];
	struct ipt_writer_cfg cfg = {.dir = tmp, .force = true};
	struct ipt_diag diag = {0};
	struct seen k = {0};
	struct scene s = {0};
	char *path, *list;

	if (!want)
		want = json_object_get(set, "expected");
	path = dir ? ipt_xasprintf("%s/%s", dir, str(set, "bundle"))
		   : ipt_xasprintf("%s/../shared/real-pt/%s", src ? src : ".", str(set, "bundle"));
	ck_assert_ptr_nonnull(mkdtemp(tmp));
	ck_assert_msg(!ipt_import_lldb(path, &cfg, &diag), "%s", diag.text);
	memcpy(s.dir, tmp, sizeof(tmp));
	scene_open(&s);
	list = ipt_xasprintf("%s/list", tmp);
	k.list = fopen(list, "w");
	seen_decode(&k, &s, 0, NULL);
	fclose(k.list);
	sha256(list, sum);
	ck_assert_msg(!strcmp(sum, str(want, "ips_sha256")),
		      "%s: %llu instructions, the listing differs", str(set, "id"),
		      (unsigned long long)k.listed);
	free(list);
	free(path);
	seen_free(&k);
	scene_end(&s);
}

START_TEST(imported_bundles_have_the_expected_listing)
{
	const json_t *set;
	size_t i, n = 0;

	json_array_foreach(json_object_get(manifest, "sets"), i, set)
	{
		/* Per-core streams hold several threads: the import cuts them. Images that are not
		 * ELF files cannot be named in a bundle. */
		if (!str(set, "bundle") || strstr(str(set, "id"), "multi-core") ||
		    !strcmp(str(set, "id"), "griffin/hello"))
			continue;
		check_bundle(set);
		n++;
	}
	ck_assert_uint_ge(n, 7);
}
END_TEST

/* Time of each instruction as libipt's instruction decoder had it. */
static uint64_t *expected_times(size_t *n)
{
	IPT_VEC(uint64_t) v = {0};
	unsigned long long tsc, ip;
	char *cmd = ipt_xasprintf("zcat '/proc/self/fd/%d/expected/"
				  "dynamorio_hello-static.libipt-tsc.txt.gz'",
				  root);
	FILE *f = popen(cmd, "r");

	while (fscanf(f, "%llu %llx", &tsc, &ip) == 2)
		*ipt_vec_push(&v) = tsc;
	pclose(f);
	free(cmd);
	*n = v.n;
	return v.v;
}

static void check_times(const struct seen *k)
{
	size_t n, at = 0, right = 0, runs = 0;
	uint64_t *want = expected_times(&n), now = 0;

	ck_assert_uint_eq(n, k->stats.insns);
	for (size_t j = 0; j < k->v.n; j++) {
		const struct ipt_ev *e = &k->v.v[j];

		if (e->kind == IPT_EV_TIME)
			now = e->time.tsc;
		if (e->kind != IPT_EV_RUN)
			continue;
		/* The last instruction may have taken the next packet already. */
		if (e->n > 1) {
			right += want[at] == now;
			runs++;
		}
		at += e->n;
	}
	free(want);
	/* Before the first branch libipt has read ahead; ours is the time of TIP.PGE itself. */
	ck_assert_msg(right + 2 >= runs, "%zu of %zu runs begin at the expected time", right, runs);
}

START_TEST(clock_of_a_real_capture_never_goes_back)
{
	const json_t *set;
	size_t i, n = 0;

	json_array_foreach(json_object_get(manifest, "sets"), i, set)
	{
		struct seen k = {0};
		struct scene s;
		uint64_t last = 0;

		if (strcmp(str(set, "id"), "dynamorio/hello-static"))
			continue;
		make(&s, set);
		seen_decode(&k, &s, 0, NULL);
		for (size_t j = 0; j < k.v.n; j++) {
			if (k.v.v[j].kind != IPT_EV_TIME)
				continue;
			ck_assert_uint_gt(k.v.v[j].time.tsc, last);
			last = k.v.v[j].time.tsc;
			n++;
		}
		check_times(&k);
		seen_free(&k);
		scene_end(&s);
	}
	ck_assert_uint_gt(n, 1000);
}
END_TEST

static int run(void)
{
	const TTest *tests[] = {listing_of_both_decoders_is_the_expected_one,
				both_decoders_tell_the_same_events,
				imported_bundles_have_the_expected_listing,
				clock_of_a_real_capture_never_goes_back};
	Suite *s = suite_create("flow_real");
	TCase *tc = tcase_create("flow_real");
	SRunner *sr;
	int failed;

	tcase_set_timeout(tc, 100);
	for (size_t i = 0; i < IPT_ARRAY_SIZE(tests); i++)
		tcase_add_test(tc, tests[i]);
	suite_add_tcase(s, tc);
	sr = srunner_create(s);
	srunner_run_all(sr, CK_NORMAL);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed != 0;
}

int main(void)
{
	if (!open_data()) {
		puts("skipped: the real captures are not here (IPTRACE_REAL_PT)");
		return 77;
	}
	return run();
}
