/* SPDX-License-Identifier: MIT */
/* Recorders that die, disks that fill, limits that bite: what is left opens and says what it lacks.
 */
#include <errno.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "store_lib.h"

static void ignore_warn(void *arg, const char *text)
{
	(void)arg;
	(void)text;
}

/* Open, touch everything, close. The code of open; *salvaged tells. */
static int read_all(const char *dir, bool *salvaged)
{
	struct ipt_diag d = {.warn = ignore_warn};
	struct ipt_store *st;
	const uint8_t *p;
	size_t n;
	int err = ipt_store_open(&st, dir, &d);

	if (err) {
		ck_assert(*d.text);
		return err;
	}
	*salvaged = ipt_store_salvaged(st) != NULL;
	for (size_t i = 0; i < ipt_store_n_threads(st); i++) {
		const struct ipt_thread_info *t = ipt_store_thread(st, i);

		if (!ipt_store_pt(st, t, &p, &n, &d))
			ck_assert_uint_le(n, t->pt_bytes);
	}
	for (size_t i = 0; i < ipt_store_n_recs(st); i++) {
		const struct ipt_rec *r = ipt_store_rec(st, i);
		struct ipt_rec_map m;

		if (!ipt_rec_map_parse(&m, r))
			ipt_store_image(st, m.m.image, &p, &n, &d);
	}
	ck_assert_int_ge(ipt_store_validate(st, &d), 0);
	ipt_store_close(st);
	return 0;
}

static void write_for_ever(const char *dir, bool zstd, int ready)
{
	struct ipt_writer *w = t_writer(dir, false, zstd);
	struct ipt_wthread *t = t_thread(w, 7, 7);
	struct ipt_sb_map m = {.start = 0x1000, .end = 0x2000, .kind = IPT_SB_MAP_ANON};
	struct ipt_sb_head h = {.pid = 7, .tid = 7};
	uint8_t page[4096], pt[32];
	uint32_t n = 0;

	t_psb(pt);
	memset(page, 0, sizeof(page));
	if (write(ready, "x", 1) != 1)
		_exit(1);
	for (;;) {
		for (int i = 0; i < 500; i++)
			ipt_wthread_pt(t, pt, sizeof(pt));
		memcpy(page, &n, sizeof(n));
		n++;
		ipt_writer_image(w, page, sizeof(page), m.image);
		h.pt_off = ipt_wthread_pos(t);
		ipt_writer_map(w, IPT_SB_MAP, &h, &m, NULL, 0, NULL, 0, "");
		if (n % 8 == 0)
			ipt_writer_flush(w);
	}
}

static void kill_and_reopen(bool zstd, unsigned seed)
{
	char name[16];
	int ready[2];
	bool salvaged;
	char c;
	pid_t child;
	struct ipt_store *st;
	const uint8_t *p;
	size_t n;

	snprintf(name, sizeof(name), "k%u", seed);
	ck_assert_int_eq(pipe(ready), 0);
	child = fork();
	if (!child)
		write_for_ever(t_path(name), zstd, ready[1]);
	ck_assert_int_eq(read(ready[0], &c, 1), 1);
	usleep(500 + seed * 977 % 20000); /* the moment is random on purpose */
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	close(ready[0]);
	close(ready[1]);
	ck_assert_int_eq(read_all(t_path(name), &salvaged), 0);
	ck_assert(salvaged);
	ck_assert_int_eq(ipt_store_open(&st, t_path(name), NULL), 0);
	/* No record may speak of an image or of PT that is not there. */
	for (size_t i = 1; i < ipt_store_n_recs(st); i++) {
		struct ipt_rec_map m;

		ck_assert_int_eq(ipt_rec_map_parse(&m, ipt_store_rec(st, i)), 0);
		ck_assert_int_eq(ipt_store_image(st, m.m.image, &p, &n, NULL), 0);
		ck_assert_uint_eq(ipt_store_rec(st, i)->h.pt_off, i * 500 * 32);
	}
	ipt_store_close(st);
}

START_TEST(a_killed_recorder_leaves_what_opens)
{
	for (unsigned i = 0; i < 12; i++)
		kill_and_reopen(i & 1, i);
}
END_TEST

static const char *const files[] = {"manifest.json", "sideband", "threads/10.10.0.pt",
				    "threads/10.11.0.pt", "images/index.json"};

static uint8_t *slurp(const char *path, size_t *n)
{
	uint8_t *p;

	ck_assert_int_eq(ipt_file_read(&p, n, AT_FDCWD, path, 1 << 20, 0, NULL), 0);
	return p;
}

static void spit(const char *path, const uint8_t *p, size_t n)
{
	int fd = open(path, O_WRONLY | O_TRUNC);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(ipt_fd_write(fd, p, n), 0);
	close(fd);
}

START_TEST(files_cut_anywhere_open_or_fail_with_a_reason)
{
	bool salvaged;

	ipt_writer_finish(t_small(t_path("t"), false), 0, NULL);
	for (size_t f = 0; f < IPT_ARRAY_SIZE(files); f++) {
		char path[600];
		uint8_t *p;
		size_t n;

		snprintf(path, sizeof(path), "%s/%s", t_path("t"), files[f]);
		p = slurp(path, &n);
		for (size_t cut = 0; cut < n; cut++) {
			int err;

			spit(path, p, cut);
			err = read_all(t_path("t"), &salvaged);
			/* The manifest is replaced as a whole: a cut one is damage. */
			if (f == 0 ? memchr(p + cut, '}', n - cut) != NULL : f == 1 && cut < 16)
				ck_assert_int_lt(err, 0);
			else if (f == 0 || f == 4)
				ck_assert_int_eq(err, 0);
			else
				ck_assert_msg(!err && (salvaged || f == 1), "%s cut at %zu",
					      files[f], cut);
		}
		spit(path, p, n);
		free(p);
	}
}
END_TEST

START_TEST(flipped_bits_never_crash_a_reader)
{
	unsigned good = 0;
	bool salvaged;

	ipt_writer_finish(t_small(t_path("t"), false), 0, NULL);
	for (size_t f = 0; f < IPT_ARRAY_SIZE(files); f++) {
		char path[600];
		uint8_t *p;
		size_t n;

		snprintf(path, sizeof(path), "%s/%s", t_path("t"), files[f]);
		p = slurp(path, &n);
		for (size_t bit = f % 3; bit < n * 8; bit += 3) {
			p[bit / 8] ^= (uint8_t)(1 << bit % 8);
			spit(path, p, n);
			if (!read_all(t_path("t"), &salvaged) && f == 1 && bit >= 16 * 8) {
				ck_assert_msg(salvaged, "sideband bit %zu", bit);
				good++;
			}
			p[bit / 8] ^= (uint8_t)(1 << bit % 8);
		}
		spit(path, p, n);
		free(p);
	}
	ck_assert_uint_gt(good, 100);
}
END_TEST

/* Write @mib MiB with @w; the trace must say what it lost. */
static void overfill(const char *dir, unsigned mib, bool zstd)
{
	struct ipt_writer *w = t_writer(dir, false, zstd);
	struct ipt_wthread *t = t_thread(w, 3, 3);
	uint8_t *p = ipt_xcalloc(1 << 20, 1);
	struct ipt_store *st;
	const struct ipt_thread_info *ti;
	uint64_t seed = 1;

	for (unsigned i = 0; i < mib; i++) {
		for (size_t k = 0; k < 1 << 20; k++)
			p[k] = (uint8_t)((seed = seed * 6364136223846793005u + 1) >> 56);
		for (size_t k = 0; k < 1 << 20; k += 1024)
			ipt_wthread_pt(t, p + k, 1024);
	}
	free(p);
	ck_assert_int_ne(ipt_writer_error(w), 0);
	ck_assert_int_lt(ipt_writer_finish(w, 0, NULL), 0);
	ck_assert_int_eq(ipt_store_open(&st, dir, NULL), 0);
	ti = ipt_store_thread(st, 0);
	ck_assert_uint_ge(ti->n_gaps, 1);
	ck_assert_uint_gt(ti->lost_bytes, 0);
	ck_assert_uint_eq(ti->pt_bytes + ti->lost_bytes, (uint64_t)mib << 20);
	ck_assert_uint_gt(ti->pt_bytes, 0);
	ck_assert_int_eq(ipt_store_status(st), IPT_STATUS_COMPLETE);
	ipt_store_close(st);
}

START_TEST(a_full_disk_is_told_and_counted)
{
	if (mount("none", t_root, "tmpfs", 0, "size=4m")) {
		fprintf(stderr, "not tried: no tmpfs can be mounted: %s\n", strerror(errno));
		return;
	}
	overfill(t_path("t"), 6, false);
	ck_assert_int_eq(umount2(t_root, MNT_DETACH), 0);
	ck_assert_int_eq(mount("none", t_root, "tmpfs", 0, "size=4m"), 0);
	overfill(t_path("z"), 6, true);
	ck_assert_int_eq(umount2(t_root, MNT_DETACH), 0);
}
END_TEST

START_TEST(a_file_size_limit_is_told_and_counted)
{
	struct rlimit r = {.rlim_cur = 2 << 20, .rlim_max = RLIM_INFINITY};

	signal(SIGXFSZ, SIG_IGN);
	ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &r), 0);
	overfill(t_path("t"), 3, false);
}
END_TEST

START_TEST(a_thousand_threads_need_few_descriptors)
{
	struct rlimit r = {.rlim_cur = 64, .rlim_max = 64};
	struct ipt_wthread *t[1000];
	struct ipt_writer *w;
	struct ipt_store *st;
	struct ipt_diag d = {.warn = ignore_warn};
	uint8_t pt[32];

	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &r), 0);
	w = t_writer(t_path("t"), false, false);
	for (int i = 0; i < 1000; i++)
		t[i] = t_thread(w, 1, 1 + i);
	for (int k = 0; k < 3; k++) {
		for (int i = 0; i < 1000; i++)
			ipt_wthread_pt(t[i], pt, t_psb(pt));
		ck_assert_int_eq(ipt_writer_flush(w), 0);
	}
	ck_assert_int_eq(ipt_writer_finish(w, 0, NULL), 0);
	ck_assert_int_eq(ipt_store_open(&st, t_path("t"), NULL), 0);
	ck_assert_uint_eq(ipt_store_n_threads(st), 1000);
	ck_assert_uint_eq(ipt_store_thread(st, 999)->pt_bytes, 96);
	ck_assert_int_eq(ipt_store_validate(st, &d), 0);
	ipt_store_close(st);
}
END_TEST

static long rss_kib(void)
{
	long pages = 0, dummy;
	FILE *f = fopen("/proc/self/statm", "r");

	ck_assert_int_eq(fscanf(f, "%ld %ld", &dummy, &pages), 2);
	fclose(f);
	return pages * 4;
}

START_TEST(memory_stays_bounded_however_much_is_written)
{
	struct ipt_writer *w = t_writer(t_path("t"), false, false);
	struct ipt_wthread *t[8];
	uint8_t pt[256] = {0};
	long before;

	for (int i = 0; i < 8; i++)
		t[i] = t_thread(w, 1, 1 + i);
	before = rss_kib();
	for (unsigned i = 0; i < (400u << 20) / sizeof(pt); i++)
		ipt_wthread_pt(t[i % 8], pt, sizeof(pt));
	ck_assert_int_lt(rss_kib() - before, 64 << 10);
	ck_assert_int_eq(ipt_writer_finish(w, 0, NULL), 0);
}
END_TEST

STORE_MAIN("store crash", a_killed_recorder_leaves_what_opens,
	   files_cut_anywhere_open_or_fail_with_a_reason, flipped_bits_never_crash_a_reader,
	   a_full_disk_is_told_and_counted, a_file_size_limit_is_told_and_counted,
	   a_thousand_threads_need_few_descriptors, memory_stays_bounded_however_much_is_written)
