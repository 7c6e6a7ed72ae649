/* SPDX-License-Identifier: MIT */
/*
 * Opens a trace directory, trusts nothing in it, and makes do with what is whole: a running trace
 * or one whose recorder died opens as far as it goes. Deeper checks are validate.c's.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "internal.h"

static void salvage(struct ipt_store *st, const char *fmt, ...) IPT_PRINTF(2, 3);

/* The first reason stays. */
static void salvage(struct ipt_store *st, const char *fmt, ...)
{
	va_list ap;

	if (*st->salvaged)
		return;
	va_start(ap, fmt);
	vsnprintf(st->salvaged, sizeof(st->salvaged), fmt, ap);
	va_end(ap);
}

/* --- opening --- */

static int open_dirs(struct ipt_store *st, struct ipt_diag *diag)
{
	int err;

	/* The directory itself may be reached through a link; nothing below it may. */
	st->dirfd = open(st->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (st->dirfd < 0 && errno == ENOTDIR)
		return ipt_diag_err(diag, IPT_E_NOTTRACE, 0, "%s: not a directory", st->dir);
	if (st->dirfd < 0)
		return ipt_diag_err(diag, errno, 0, "%s: %s", st->dir, strerror(errno));
	err = ipt_store_open_dir(&st->threads_fd, st->dirfd, IPT_NAME_THREADS);
	if (err && err != -ENOENT)
		return ipt_diag_err(diag, -err, 0, "%s/" IPT_NAME_THREADS ": %s", st->dir,
				    ipt_strerror(err));
	err = ipt_store_open_dir(&st->images_fd, st->dirfd, IPT_NAME_IMAGES);
	if (err && err != -ENOENT)
		return ipt_diag_err(diag, -err, 0, "%s/" IPT_NAME_IMAGES ": %s", st->dir,
				    ipt_strerror(err));
	return 0;
}

static int read_manifest(struct ipt_store *st, struct ipt_diag *diag)
{
	struct stat sb;
	uint8_t *p;
	size_t n;
	int err;

	if (fstatat(st->dirfd, IPT_NAME_MANIFEST, &sb, AT_SYMLINK_NOFOLLOW) < 0)
		return ipt_diag_err(diag, IPT_E_NOTTRACE, 0, "%s: no " IPT_NAME_MANIFEST, st->dir);
	err = ipt_file_read(&p, &n, st->dirfd, IPT_NAME_MANIFEST, IPT_STORE_MAX_MANIFEST,
			    IPT_FILE_PLAIN, diag);
	if (err)
		return err;
	err = ipt_manifest_parse(&st->man, p, n, diag);
	free(p);
	if (!err && st->man.status == IPT_STATUS_RUNNING)
		salvage(st, "the recorder did not finish");
	return err;
}

static int read_sideband(struct ipt_store *st, struct ipt_diag *diag)
{
	struct ipt_cur c;
	const char *why = NULL;
	struct ipt_rec r = {0};
	int err;

	err = ipt_file_map(&st->sb, &st->n_sb, st->dirfd, IPT_NAME_SIDEBAND,
			   IPT_FILE_PLAIN | IPT_FILE_COW, NULL);
	if (err)
		return ipt_diag_err(diag, -err, 0, "%s/" IPT_NAME_SIDEBAND ": %s", st->dir,
				    ipt_strerror(err));
	if (!st->n_sb)
		return ipt_diag_err(diag, IPT_E_BADREC, 0, "%s/" IPT_NAME_SIDEBAND ": empty",
				    st->dir);
	c = ipt_cur_make(st->sb, st->n_sb);
	err = ipt_sb_file_head(&c, diag);
	if (err)
		return err;
	for (;;) {
		size_t at = ipt_cur_off(&c);

		err = ipt_sb_next(&r, &c, st->recs.n + 1, &why);
		if (err == -IPT_E_EOS)
			break;
		if (!err && st->recs.n >= IPT_STORE_MAX_RECS) {
			why = "more records than are read";
			err = -IPT_E_LIMIT;
		}
		if (!err && ipt_model_add(&st->model, &r.h, r.payload, r.n)) {
			why = "more threads than are read";
			err = -IPT_E_LIMIT;
		}
		if (err) {
			salvage(st, IPT_NAME_SIDEBAND " ends at 0x%zx: %s", at, why);
			break;
		}
		*ipt_vec_push(&st->recs) = r;
	}
	/* A cut between two records shows only here. */
	if (st->recs.n < st->man.records)
		salvage(st, IPT_NAME_SIDEBAND " holds %zu of %llu records", st->recs.n,
			(unsigned long long)st->man.records);
	return 0;
}

/* --- PT files --- */

static void find_plain(struct ipt_store_thread *pt, struct ipt_thread_info *t, int dirfd)
{
	uint64_t size = 0;
	int fd = -1, err;

	err = ipt_file_open(&fd, &size, dirfd, pt->pt_name, IPT_FILE_PLAIN, NULL);
	pt->present = !err;
	if (err) {
		pt->why = ipt_strerror(err);
		return;
	}
	close(fd);
	pt->file_bytes = t->pt_bytes = size;
}

static void find_packed(struct ipt_store_thread *pt, struct ipt_thread_info *t, int dirfd)
{
	const uint8_t *p = NULL;
	size_t n = 0, whole;

	if (ipt_file_map(&p, &n, dirfd, pt->pt_name, IPT_FILE_PLAIN, NULL))
		return;
	pt->present = true;
	ipt_zpt_scan(p, n, &whole, &t->pt_bytes, &pt->why);
	pt->file_bytes = whole;
	ipt_file_unmap(p, n);
}

static void find_pt(struct ipt_store *st, struct ipt_thread_info *t)
{
	struct ipt_store_thread *pt = &st->pt[t->index];
	char name[IPT_NAME_MAX];

	if (st->threads_fd >= 0) {
		ipt_name_pt(pt->pt_name, t->pid, t->tid, t->gen, true);
		pt->zstd = true;
		find_packed(pt, t, st->threads_fd);
		if (!pt->present) {
			ipt_name_pt(pt->pt_name, t->pid, t->tid, t->gen, false);
			pt->zstd = false;
			find_plain(pt, t, st->threads_fd);
		}
	} else {
		ipt_name_pt(pt->pt_name, t->pid, t->tid, t->gen, false);
		pt->why = "no folder " IPT_NAME_THREADS;
	}
	memcpy(name, pt->pt_name, sizeof(name));
	snprintf(pt->pt_name, sizeof(pt->pt_name), IPT_NAME_THREADS "/%.63s", name);
	if (pt->why)
		salvage(st, "%s: %s", pt->pt_name, pt->why);
}

/* What the recorder summed up at its end, where the files do not tell it. */
static void take_summary(struct ipt_store *st, struct ipt_thread_info *t)
{
	const struct ipt_thread_info *s = ipt_model_thread(&st->man.sum, t->tid, t->gen);

	if (!s || st->man.status != IPT_STATUS_COMPLETE)
		return;
	t->instructions = s->instructions;
	t->step_instructions = s->step_instructions;
	t->stops = s->stops;
	t->n_gaps = ipt_max_u64(t->n_gaps, s->n_gaps);
	t->lost_bytes = ipt_max_u64(t->lost_bytes, s->lost_bytes);
	if (s->pt_bytes > t->pt_bytes)
		salvage(st, "%s: holds %llu of %llu bytes", st->pt[t->index].pt_name,
			(unsigned long long)t->pt_bytes, (unsigned long long)s->pt_bytes);
}

static void find_streams(struct ipt_store *st)
{
	st->pt = ipt_xcalloc(st->model.threads.n + 1, sizeof(*st->pt));
	for (size_t i = 0; i < st->model.threads.n; i++) {
		find_pt(st, st->model.threads.v[i]);
		take_summary(st, st->model.threads.v[i]);
	}
	if (st->man.status == IPT_STATUS_COMPLETE)
		ipt_model_move_notes(&st->model, &st->man.sum);
	if (st->man.lost_records)
		salvage(st, "the recorder could not write %llu records",
			(unsigned long long)st->man.lost_records);
}

/* --- positions: none beyond the end of its stream --- */

static bool clamp(struct ipt_store *st, uint64_t *pt_off, uint32_t tid, uint32_t gen, uint64_t seq)
{
	const struct ipt_thread_info *t = ipt_model_thread(&st->model, tid, gen);

	if (!t || *pt_off <= t->pt_bytes)
		return false;
	*pt_off = t->pt_bytes;
	if (!st->n_clamped++)
		st->first_clamped_seq = seq;
	return true;
}

static void clamp_positions(struct ipt_store *st, const struct ipt_rec *r, struct ipt_cur c)
{
	struct ipt_sb_pos pos;

	for (;;) {
		/* The sideband is mapped as a copy that may be written, for this. */
		uint8_t *at = (uint8_t *)(uintptr_t)c.pos;

		if (!ipt_rec_pos_next(&c, &pos))
			return;
		if (clamp(st, &pos.pt_off, pos.tid, pos.gen, r->h.seq))
			memcpy(at, &pos, sizeof(pos));
	}
}

static void clamp_all(struct ipt_store *st)
{
	for (size_t i = 0; i < st->recs.n; i++) {
		struct ipt_rec *r = &st->recs.v[i];
		struct ipt_rec_map map;
		struct ipt_sb_range range;
		struct ipt_cur pos;

		clamp(st, &r->h.pt_off, r->h.tid, r->h.gen, r->h.seq);
		if (!ipt_rec_map_parse(&map, r))
			clamp_positions(st, r, map.pos);
		else if (!ipt_rec_range_parse(&range, &pos, r))
			clamp_positions(st, r, pos);
	}
}

int ipt_store_open(struct ipt_store **out, const char *dir, struct ipt_diag *diag)
{
	struct ipt_store *st = ipt_xcalloc(1, sizeof(*st));
	int err;

	st->dir = ipt_xstrdup(dir);
	st->dirfd = st->threads_fd = st->images_fd = -1;
	ipt_manifest_init(&st->man);
	ipt_model_init(&st->model);
	err = open_dirs(st, diag);
	if (!err)
		err = read_manifest(st, diag);
	if (!err)
		err = read_sideband(st, diag);
	if (err) {
		ipt_store_close(st);
		return err;
	}
	find_streams(st);
	clamp_all(st);
	ipt_store_sort_at(st);
	*out = st;
	return 0;
}

static void close_images(struct ipt_store *st)
{
	size_t it = 0;
	uint64_t key;
	void *v;

	while (ipt_u64map_next(&st->images, &it, &key, &v)) {
		for (struct ipt_store_image *im = v, *next; im; im = next) {
			next = im->next;
			ipt_file_unmap(im->map, im->n_map);
			free(im);
		}
	}
	ipt_u64map_fini(&st->images);
}

void ipt_store_close(struct ipt_store *st)
{
	if (!st)
		return;
	for (size_t i = 0; st->pt && i < st->model.threads.n; i++)
		ipt_file_unmap(st->pt[i].map, st->pt[i].n_map);
	free(st->pt);
	close_images(st);
	ipt_file_unmap(st->sb, st->n_sb);
	ipt_vec_fini(&st->at);
	ipt_vec_fini(&st->recs);
	ipt_model_fini(&st->model);
	ipt_manifest_fini(&st->man);
	if (st->threads_fd >= 0)
		close(st->threads_fd);
	if (st->images_fd >= 0)
		close(st->images_fd);
	if (st->dirfd >= 0)
		close(st->dirfd);
	free(st->dir);
	free(st);
}

/* --- what was read --- */

const char *ipt_store_dir(const struct ipt_store *st)
{
	return st->dir;
}

const struct ipt_session_info *ipt_store_info(const struct ipt_store *st)
{
	return &st->man.info;
}

enum ipt_status ipt_store_status(const struct ipt_store *st)
{
	return st->man.status;
}

const char *ipt_store_salvaged(const struct ipt_store *st)
{
	return *st->salvaged ? st->salvaged : NULL;
}

int ipt_store_exit_status(const struct ipt_store *st)
{
	return st->man.exit_status;
}

size_t ipt_store_n_procs(const struct ipt_store *st)
{
	return st->model.procs.n;
}

const struct ipt_proc_info *ipt_store_proc(const struct ipt_store *st, size_t i)
{
	return i < st->model.procs.n ? st->model.procs.v[i] : NULL;
}

size_t ipt_store_n_threads(const struct ipt_store *st)
{
	return st->model.threads.n;
}

const struct ipt_thread_info *ipt_store_thread(const struct ipt_store *st, size_t i)
{
	return i < st->model.threads.n ? st->model.threads.v[i] : NULL;
}

const char *ipt_store_pt_name(const struct ipt_store *st, const struct ipt_thread_info *t)
{
	return st->pt[t->index].pt_name;
}

size_t ipt_store_n_recs(const struct ipt_store *st)
{
	return st->recs.n;
}

const struct ipt_rec *ipt_store_rec(const struct ipt_store *st, size_t i)
{
	return i < st->recs.n ? &st->recs.v[i] : NULL;
}

/* --- bytes --- */

static int unpack(struct ipt_store_thread *pt, uint64_t bytes)
{
	uint8_t *p;

	if (!bytes)
		return 0;
	p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
		 -1, 0);
	if (p == MAP_FAILED)
		return -errno;
	pt->n_pt = ipt_zpt_unpack(p, bytes, pt->map, ipt_min_u64(pt->n_map, pt->file_bytes));
	ipt_file_unmap(pt->map, pt->n_map);
	pt->map = p;
	pt->n_map = bytes;
	pt->pt = p;
	return 0;
}

static int load_pt(struct ipt_store *st, struct ipt_store_thread *pt, uint64_t bytes)
{
	const char *name = pt->pt_name + strlen(IPT_NAME_THREADS "/");
	int err;

	err = ipt_file_map(&pt->map, &pt->n_map, st->threads_fd, name, IPT_FILE_PLAIN, NULL);
	if (err)
		return err;
	if (pt->zstd)
		return unpack(pt, bytes);
	pt->pt = pt->map;
	/* A running trace grows while it is read: what was not there at open stays out. */
	pt->n_pt = ipt_min_u64(pt->n_map, bytes);
	return 0;
}

int ipt_store_pt(struct ipt_store *st, const struct ipt_thread_info *t, const uint8_t **p,
		 size_t *n, struct ipt_diag *diag)
{
	struct ipt_store_thread *pt = &st->pt[t->index];
	int err = 0;

	if (!pt->loaded && pt->present)
		err = load_pt(st, pt, t->pt_bytes);
	else if (!pt->present)
		err = -ENOENT;
	if (err)
		return ipt_diag_err(diag, -err, 0, "%s: %s", pt->pt_name, ipt_strerror(err));
	pt->loaded = true;
	if (pt->n_pt < t->pt_bytes)
		ipt_diag_warn(diag, "%s: %zu bytes of %llu are readable", pt->pt_name, pt->n_pt,
			      (unsigned long long)t->pt_bytes);
	*p = pt->pt;
	*n = pt->n_pt;
	return 0;
}

static struct ipt_store_image *get_image(struct ipt_store *st, const uint8_t id[IPT_IMAGE_ID_LEN])
{
	struct ipt_store_image *im;
	struct stat sb;
	uint64_t key;
	char name[IPT_NAME_MAX];

	if (ipt_image_id_is_zero(id) || st->images_fd < 0)
		return NULL;
	memcpy(&key, id + 8, sizeof(key));
	for (im = ipt_u64map_get(&st->images, key); im; im = im->next) {
		if (!memcmp(im->id, id, IPT_IMAGE_ID_LEN))
			return im;
	}
	ipt_name_image(name, id);
	if (fstatat(st->images_fd, name, &sb, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(sb.st_mode))
		return NULL;
	im = ipt_xcalloc(1, sizeof(*im));
	memcpy(im->id, id, IPT_IMAGE_ID_LEN);
	snprintf(im->name, sizeof(im->name), IPT_NAME_IMAGES "/%.32s", name);
	im->next = ipt_u64map_put(&st->images, key, im);
	return im;
}

int ipt_store_image(struct ipt_store *st, const uint8_t id[IPT_IMAGE_ID_LEN], const uint8_t **p,
		    size_t *n, struct ipt_diag *diag)
{
	struct ipt_store_image *im = get_image(st, id);
	uint8_t real[IPT_IMAGE_ID_LEN];
	int err = 0;

	if (!im)
		return ipt_diag_err(diag, IPT_E_NOCODE, 0, "no such image in " IPT_NAME_IMAGES);
	if (!im->map)
		err = ipt_file_map(&im->map, &im->n_map, st->images_fd,
				   im->name + strlen(IPT_NAME_IMAGES "/"), IPT_FILE_PLAIN, NULL);
	if (err)
		return ipt_diag_err(diag, -err, 0, "%s: %s", im->name, ipt_strerror(err));
	if (!im->checked) {
		ipt_image_id(real, im->map, im->n_map);
		im->checked = !memcmp(real, id, sizeof(real));
	}
	if (!im->checked)
		return ipt_diag_err(diag, IPT_E_CHECKSUM, 0, "%s: its bytes are not those named",
				    im->name);
	*p = im->map;
	*n = im->n_map;
	return 0;
}

const char *ipt_store_image_name(struct ipt_store *st, const uint8_t id[IPT_IMAGE_ID_LEN])
{
	struct ipt_store_image *im = get_image(st, id);

	return im ? im->name : NULL;
}
