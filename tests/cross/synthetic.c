/* SPDX-License-Identifier: MIT */
/*
 * A made-up engine that hands four threads' PT to the writer as fast as it can: at 200 MB a second
 * and more the recorder's memory must not grow. Exit status 77: this disk is too small or too slow.
 */
#include <errno.h>
#include <ftw.h>
#include <stdlib.h>
#include <sys/statvfs.h>
#include <sys/time.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "pt/pt.h"
#include "store/store.h"

#define N_THREADS  4
#define CHUNK      (4u << 10)
#define TOTAL      (2000ull << 20)
#define WARM_UP    (64ull << 20)
#define MAX_GROWTH (64ull << 20)
#define LEAST_RATE 200e6 /* bytes a second */

static char dir[4096];

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

static void leave(void)
{
	if (*dir)
		nftw(dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static uint64_t rss(void)
{
	unsigned long size = 0, resident = 0;
	FILE *f = fopen("/proc/self/statm", "re");

	if (!f || fscanf(f, "%lu %lu", &size, &resident) != 2)
		resident = 0;
	if (f)
		fclose(f);
	return (uint64_t)resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Whole packets as a busy program makes them: a PSB, then TNTs and TIPs. */
static size_t make_chunk(uint8_t *out)
{
	struct ipt_pkt k = {.kind = IPT_PKT_PSB};
	size_t n = 0, len;

	while (n + IPT_PKT_MAX < CHUNK && !ipt_pkt_encode(out + n, CHUNK - n, &len, &k)) {
		n += len;
		if (k.kind == IPT_PKT_TNT)
			k = (struct ipt_pkt){.kind = IPT_PKT_TIP,
					     .ip = {.ip = n * 2654435761u & 0xffffffff,
						    .ipc = IPT_IPC_UPDATE32}};
		else
			k = (struct ipt_pkt){.kind = IPT_PKT_TNT,
					     .tnt = {.bits = n % 64, .n_bits = 6}};
	}
	return n;
}

static struct ipt_writer *begin(struct ipt_wthread *t[N_THREADS])
{
	static const struct ipt_session_info info = {.engine = "step",
						     .tool = "test",
						     .host = "",
						     .kernel = "",
						     .command = "run",
						     .cwd = ""};
	struct ipt_writer_cfg cfg = {.dir = dir, .force = true};
	struct ipt_diag diag = {0};
	struct ipt_writer *w = NULL;

	if (ipt_writer_new(&w, &cfg, &info, &diag)) {
		printf("%s\n", diag.text);
		exit(1);
	}
	for (int i = 0; i < N_THREADS; i++) {
		struct ipt_sb_thread_start start = {.flags = i ? 0 : IPT_SB_TF_LEADER};

		t[i] = ipt_writer_thread(w, 100, 100 + i, &start, "thread", (uint64_t)i);
	}
	return w;
}

struct result {
	uint64_t before, most; /* resident bytes: after the warm-up, and the most later */
	uint64_t bytes;
	double rate;
};

/* The clock beside the stops flushes ten times a second, as the keeper's does; code changes now and
 * then. */
static void feed(struct ipt_writer *w, struct ipt_wthread *t[N_THREADS], struct result *r)
{
	struct ipt_sb_head h = {.pid = 100, .tid = 100};
	double start = now(), flushed = start;
	uint8_t chunk[CHUNK];
	size_t n = make_chunk(chunk);

	for (uint64_t round = 0; r->bytes < TOTAL && !ipt_writer_error(w); round++) {
		for (int i = 0; i < N_THREADS; i++, r->bytes += n)
			ipt_wthread_pt(t[i], chunk, n);
		if (round % 256)
			continue;
		h.pt_off = ipt_wthread_pos(t[0]);
		ipt_writer_range(w, IPT_SB_UNMAP, &h, 0x1000, 0x2000, 0, NULL, 0);
		if (now() - flushed > 0.1) {
			ipt_writer_flush(w);
			flushed = now();
		}
		if (r->bytes < WARM_UP || !r->before)
			r->before = rss();
		r->most = ipt_max_u64(r->most, rss());
	}
	ipt_writer_flush(w);
	r->rate = (double)r->bytes / (now() - start);
}

static void check_size(void)
{
	struct statvfs fs;

	if (statvfs(dir, &fs) || (uint64_t)fs.f_bavail * fs.f_frsize < TOTAL + TOTAL / 4) {
		printf("skipped: less than %llu MB of room in %s\n", TOTAL * 5 / 4 >> 20, dir);
		exit(77);
	}
}

int main(void)
{
	const char *tmp = getenv("TMPDIR");
	struct ipt_wthread *t[N_THREADS];
	struct ipt_diag diag = {0};
	struct result r = {0};
	struct ipt_writer *w;
	int err;

	snprintf(dir, sizeof(dir), "%s/iptsynthetic.XXXXXX", tmp ? tmp : "/tmp");
	if (!mkdtemp(dir)) {
		perror(dir);
		return 1;
	}
	atexit(leave);
	check_size();
	w = begin(t);
	feed(w, t, &r);
	err = ipt_writer_finish(w, 0, &diag);
	if (err == -ENOSPC) {
		printf("skipped: the disk is full\n");
		return 77;
	}
	if (err) {
		printf("%s\n", diag.text);
		return 1;
	}
	printf("%llu MB, %.0f MB/s, resident %.1f MB, later at most %.1f MB\n",
	       (unsigned long long)r.bytes >> 20, r.rate / 1e6, (double)r.before / 1e6,
	       (double)r.most / 1e6);
	/* Memory is held against the limit whatever the rate was. */
	if (r.most > r.before + MAX_GROWTH)
		return 1;
	if (r.rate < LEAST_RATE) {
		printf("skipped: slower than %.0f MB/s\n", LEAST_RATE / 1e6);
		return 77;
	}
	return 0;
}
