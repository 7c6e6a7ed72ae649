/* SPDX-License-Identifier: MIT */
/* Real captures: packet counts by kind as their manifest has them, and packet by packet as libipt.
 */
#include <check.h>
#include <fcntl.h>
#include <jansson.h>
#include <unistd.h>

#include "libipt_pkt.h"

static json_t *manifest;
static int root = -1;

static bool open_data(void)
{
	const char *dir = getenv("IPTRACE_REAL_PT"), *src = getenv("IPT_SOURCE_DIR");
	char *name =
		dir ? ipt_xstrdup(dir) : ipt_xasprintf("%s/../shared/real-pt", src ? src : ".");
	struct ipt_diag diag = {0};
	uint8_t *text = NULL;
	size_t n = 0;

	root = open(name, O_RDONLY | O_DIRECTORY);
	free(name);
	if (root < 0 || ipt_file_read(&text, &n, root, "manifest.json", 64 << 20, 0, &diag))
		return false;
	/* some of its numbers are beyond 63 bits */
	manifest = json_loadb((char *)text, n, JSON_DECODE_INT_AS_REAL, NULL);
	free(text);
	return manifest != NULL;
}

/* The manifest counts by libipt's kinds. */
static const char *count_name(const struct ipt_pkt *k)
{
	switch ((int)k->kind) {
	case IPT_PKT_TNT: return "TNT8";
	case IPT_PKT_TNT64: return "TNT64";
	case IPT_PKT_MODE_EXEC:
	case IPT_PKT_MODE_TSX: return "MODE";
	default: return ipt_pkt_name(k->kind);
	}
}

static void count(json_t *counts, const struct ipt_pkt *k)
{
	json_t *old = json_object_get(counts, count_name(k));

	json_object_set_new(counts, count_name(k), json_real(json_real_value(old) + 1));
}

static void compare(const uint8_t *p, size_t n, size_t off, json_t *counts)
{
	struct pt_packet_decoder *d;
	struct ipt_pkt_ctx ctx = {0};
	struct pt_config cfg;

	pt_config_init(&cfg);
	cfg.begin = (uint8_t *)(uintptr_t)p;
	cfg.end = cfg.begin + n;
	d = pt_pkt_alloc_decoder(&cfg);
	ck_assert_int_eq(pt_pkt_sync_set(d, off), 0);
	while (off < n) {
		struct pt_packet theirs, ours;
		struct ipt_pkt k;
		uint8_t b[IPT_PKT_MAX];
		size_t len = 0;

		memset(&theirs, 0, sizeof(theirs));
		ck_assert_int_eq(ipt_pkt_decode(&k, p + off, n - off, &ctx), 0);
		ck_assert_int_eq(pt_pkt_next(d, &theirs, sizeof(theirs)), k.len);
		ck_assert(lp_from(&ours, &k));
		ck_assert_mem_eq(&ours, &theirs, sizeof(ours));
		ck_assert_int_eq(ipt_pkt_encode(b, sizeof(b), &len, &k), 0);
		ck_assert_uint_eq(len, k.len);
		ck_assert_mem_eq(b, p + off, len);
		count(counts, &k);
		off += k.len;
	}
	pt_pkt_free_decoder(d);
}

START_TEST(every_packet_is_as_libipt_and_the_manifest_have_it)
{
	json_t *set, *sets = json_object_get(manifest, "sets");
	size_t i;

	ck_assert_uint_gt(json_array_size(sets), 0);
	json_array_foreach(sets, i, set)
	{
		json_t *want = json_object_get(json_object_get(set, "packets"), "kinds");
		const char *end =
			json_string_value(json_object_get(json_object_get(set, "packets"), "end"));
		json_t *counts = json_object();
		struct ipt_diag diag = {0};
		const uint8_t *p = NULL;
		size_t n = 0, pos = 0;

		ck_assert_int_eq(ipt_file_map(&p, &n, root,
					      json_string_value(json_object_get(set, "pt")), 0,
					      &diag),
				 0);
		ck_assert_int_eq(ipt_psb_next(p, n, &pos), 0);
		compare(p, ipt_min_u64(n, strtoull(end, NULL, 16)), pos, counts);
		ck_assert_msg(json_equal(counts, want), "%s: %s but want %s",
			      json_string_value(json_object_get(set, "id")), json_dumps(counts, 0),
			      json_dumps(want, 0));
		ipt_file_unmap(p, n);
		json_decref(counts);
	}
}
END_TEST

int main(void)
{
	Suite *s;
	TCase *tc;
	SRunner *r;
	int failed;

	if (!open_data()) {
		puts("skipped: no captures of real hardware (IPTRACE_REAL_PT)");
		return 77;
	}
	s = suite_create("real");
	tc = tcase_create("all");
	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, every_packet_is_as_libipt_and_the_manifest_have_it);
	suite_add_tcase(s, tc);
	r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	json_decref(manifest);
	close(root);
	return failed != 0;
}
