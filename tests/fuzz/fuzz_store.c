/* SPDX-License-Identifier: MIT */
/*
 * A whole trace directory of fuzzed files: opened, validated, and shown by every view. The input is
 * three lengths (u16, little-endian: manifest, sideband, PT), a byte of options, the three files,
 * and then code bytes, which are the content of every image that the sideband speaks of.
 */
#include <fcntl.h>
#include <ftw.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sb_fix.h"
#include "view/view.h"

#define MAX_INPUT    (32u << 10)
#define MAX_PT       4096u /* bounds the instructions, and so the time */
#define MAX_PT_FILES 3

enum { OPT_RAW_SIDEBAND = 1, OPT_JSON = 2, OPT_INSN_DECODER = 4, OPT_ZSTD = 8 };

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

static char dir[64];
static int null_fd;

struct parts {
	const uint8_t *man, *pt, *code;
	uint8_t *sb; /* owned */
	size_t n_man, n_sb, n_pt, n_code;
	uint8_t opts;
	uint8_t image[IPT_IMAGE_ID_LEN];
	char pt_name[MAX_PT_FILES][IPT_NAME_MAX]; /* of the first threads: all the same PT */
	size_t n_pt_names;
};

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

static void leave(void)
{
	nftw(dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static void prepare(void)
{
	char sub[80];

	if (null_fd)
		return;
	null_fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
	snprintf(dir, sizeof(dir), "%s/iptrace-fuzz-XXXXXX",
		 access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm");
	if (null_fd < 0 || !mkdtemp(dir))
		abort();
	atexit(leave);
	snprintf(sub, sizeof(sub), "%s/threads", dir);
	mkdir(sub, 0777);
	snprintf(sub, sizeof(sub), "%s/images", dir);
	mkdir(sub, 0777);
}

static void put(const char *name, const void *p, size_t n)
{
	char path[256];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	if (fd < 0 || write(fd, p, n) != (ssize_t)n)
		abort();
	close(fd);
}

static void drop(const char *name)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	unlink(path);
}

/* Names PT files after the first threads, and gives every mapping the one image. */
static void fix_record(void *arg, struct ipt_sb_hdr *h, uint8_t *payload, size_t n)
{
	struct parts *a = arg;
	static const uint8_t zero[IPT_IMAGE_ID_LEN];
	uint8_t *id = payload + offsetof(struct ipt_sb_map, image);

	if (h->type == IPT_SB_THREAD_START && a->n_pt_names < MAX_PT_FILES)
		ipt_name_pt(a->pt_name[a->n_pt_names++], h->pid, h->tid, h->gen,
			    (a->opts & OPT_ZSTD) != 0);
	if ((h->type == IPT_SB_MAP || h->type == IPT_SB_CODE) && n >= sizeof(struct ipt_sb_map) &&
	    memcmp(id, zero, sizeof(zero)))
		memcpy(id, a->image, sizeof(a->image));
}

static size_t take(const uint8_t **p, size_t *left, size_t n)
{
	n = (size_t)ipt_min_u64(n, *left);
	*p += n;
	*left -= n;
	return n;
}

static bool split(struct parts *a, const uint8_t *p, size_t n)
{
	struct ipt_cur c = ipt_cur_make(p, n);
	size_t n_man = ipt_cur_u16(&c), n_sb = ipt_cur_u16(&c), n_pt = ipt_cur_u16(&c), left;

	a->opts = ipt_cur_u8(&c);
	if (c.bad)
		return false;
	p = c.pos;
	left = ipt_cur_left(&c);
	a->man = p;
	a->n_man = take(&p, &left, n_man);
	a->sb = malloc(n_sb + 1);
	memcpy(a->sb, p, ipt_min_u64(n_sb, left));
	a->n_sb = take(&p, &left, n_sb);
	a->pt = p;
	a->n_pt = take(&p, &left, n_pt);
	a->n_pt = (size_t)ipt_min_u64(a->n_pt, MAX_PT);
	a->code = p;
	a->n_code = left;
	ipt_image_id(a->image, a->code, a->n_code);
	if (!(a->opts & OPT_RAW_SIDEBAND))
		a->n_sb = sb_fix(a->sb, a->n_sb, fix_record, a);
	return true;
}

static void show(struct ipt_store *st, const struct parts *a)
{
	static const char *const views[] = {"info", "packets", "insn", "tree", "report"};
	struct ipt_view_opts opts = {.json = (a->opts & OPT_JSON) != 0,
				     .decoder = a->opts & OPT_INSN_DECODER ? "insn" : "ref"};

	/* Names come from the images alone: an input must not depend on the files here. */
	opts.sym.no_local = true;
	for (size_t i = 0; i < IPT_ARRAY_SIZE(views); i++) {
		struct ipt_diag diag = {0};
		struct ipt_out out;

		ipt_out_init(&out, null_fd);
		if (ipt_view_run(views[i], st, &opts, &out, NULL, &diag) > 0)
			abort();
		ipt_out_fini(&out);
	}
}

static void put_files(const struct parts *a, bool there)
{
	char path[IPT_NAME_MAX + 16], hex[IPT_NAME_MAX];

	for (size_t i = 0; i <= a->n_pt_names; i++) {
		if (i < a->n_pt_names) {
			snprintf(path, sizeof(path), "threads/%s", a->pt_name[i]);
		} else {
			ipt_name_image(hex, a->image);
			snprintf(path, sizeof(path), "images/%s", hex);
		}
		if (!there)
			drop(path);
		else if (i < a->n_pt_names)
			put(path, a->pt, a->n_pt);
		else
			put(path, a->code, a->n_code);
	}
}

static void run(const struct parts *a)
{
	struct ipt_store *st = NULL;
	struct ipt_diag diag = {0};
	int err;

	put("manifest.json", a->man, a->n_man);
	put("sideband", a->sb, a->n_sb);
	put_files(a, true);
	err = ipt_store_open(&st, dir, &diag);
	if (err > 0 || (err && !*diag.text))
		abort();
	if (!err) {
		ipt_store_validate(st, &diag);
		show(st, a);
		ipt_store_close(st);
	}
	put_files(a, false);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	struct parts a = {0};

	prepare();
	if (n <= MAX_INPUT && split(&a, p, n))
		run(&a);
	free(a.sb);
	return 0;
}
