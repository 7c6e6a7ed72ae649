/* SPDX-License-Identifier: MIT */
/*
 * The writer of a trace directory. Files only grow; on a flush images lie there first, then PT,
 * then the sideband, so that a crash between any two writes leaves no record that speaks of bytes
 * that are not there. What the bytes of a record are is wrecord.c's.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pt/pt.h"
#include "wpriv.h"

#define PART_BYTES (128u << 10) /* kept or lost together, when not all can be kept */
#define SB_BUFFER  (64u << 10)  /* sideband bytes kept before all is flushed */
/* Sideband bytes that may still be written after the disk was full: the rest of the reserve is for
 * the manifest. */
#define SB_AFTER_FULL (IPT_STORE_RESERVE_BYTES / 4)

/* --- failures --- */

static bool is_disk_full(int err)
{
	return err == -ENOSPC || err == -EDQUOT;
}

/* Note the first failure. A full disk stops PT and images of all threads and frees the reserve:
 * what little room there is belongs to the records that tell of the loss and to the manifest. */
static void failed(struct ipt_writer *w, int err)
{
	if (!w->error)
		w->error = err;
	if (!is_disk_full(err) || w->disk_full)
		return;
	w->disk_full = true;
	w->sb_room = SB_AFTER_FULL;
	unlinkat(w->dirfd, IPT_NAME_RESERVE, 0);
}

int ipt_writer_error(const struct ipt_writer *w)
{
	return w->error;
}

void ipt_writer_tsc_hz(struct ipt_writer *w, uint64_t hz)
{
	w->man.info.clock.tsc_hz = hz;
}

/* --- PT --- */

/* Append to a file that is open only meanwhile: a thousand threads need no thousand descriptors. A
 * write that fails leaves the file as it was, at a packet boundary. */
static int append_file(int dirfd, const char *name, const void *p, size_t n)
{
	struct stat st;
	int fd, err;

	fd = openat(dirfd, name, O_WRONLY | O_APPEND | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return -errno;
	err = fstat(fd, &st) < 0 ? -errno : ipt_fd_write(fd, p, n);
	if (err && ftruncate(fd, st.st_size) < 0) {
		/* The tail stays; decoders survive it. */
	}
	if (close(fd) < 0 && !err)
		err = -errno;
	return err;
}

static void tell_loss(struct ipt_wthread *t, uint64_t lost, bool final)
{
	struct ipt_sb_head h = {.pid = t->info->pid,
				.tid = t->info->tid,
				.gen = t->info->gen,
				.flags = IPT_SB_F_NO_TSC,
				.pt_off = t->pos};
	struct ipt_sb_gap g = {
		.cause = IPT_GAP_DISK_FULL, .flags = final ? 1 : 2, .lost_bytes = lost};

	ipt_writer_gap(t->w, &h, &g, strerror(-t->error));
}

/* @lost bytes of @t go nowhere. The first time it is told at once, the rest at the thread's end. */
static void lose(struct ipt_wthread *t, uint64_t lost, int err)
{
	if (t->error) {
		t->lost_since += lost;
		return;
	}
	t->error = err;
	t->pos = t->file_pos;
	failed(t->w, err);
	tell_loss(t, lost, false);
}

/* A piece from the beginning of @p that ends at a PSB; @n: there is none. */
static size_t first_part(const uint8_t *p, size_t n)
{
	size_t psb = 0;

	if (n <= PART_BYTES || ipt_psb_next(p + PART_BYTES, n - PART_BYTES, &psb))
		return n;
	return PART_BYTES + psb;
}

static void write_pt(struct ipt_wthread *t, const void *p, size_t n)
{
	struct ipt_writer *w = t->w;
	struct ipt_buf z = {0};
	int err = 0;

	if (!n)
		return;
	if (t->error || w->disk_full) {
		lose(t, n, -ENOSPC);
		return;
	}
	if (w->zstd)
		err = ipt_zpt_pack(&z, p, n);
	if (!err)
		err = append_file(w->threads_fd, t->name, w->zstd ? z.data : p,
				  w->zstd ? z.len : n);
	ipt_buf_fini(&z);
	if (err) {
		size_t part = w->zstd ? n : first_part(p, n);

		/* There may be room for some of it. */
		if (part == n) {
			lose(t, n, err);
			return;
		}
		write_pt(t, p, part);
		write_pt(t, (const uint8_t *)p + part, n - part);
		return;
	}
	t->file_pos += n;
	t->info->pt_bytes = t->file_pos;
}

static void flush_thread(struct ipt_wthread *t)
{
	size_t n = t->buf.len;

	t->buf.len = 0;
	write_pt(t, t->buf.data, n);
}

void ipt_wthread_pt(struct ipt_wthread *t, const void *p, size_t n)
{
	struct ipt_writer *w = t->w;

	if (t->error) {
		lose(t, n, t->error);
		return;
	}
	if (t->buf.len + n > w->buffer_bytes) {
		/* Code that the new packets run must be told before them, if it can be had. */
		if (w->sb_maps)
			ipt_writer_flush(w);
		else
			flush_thread(t);
	}
	if (t->error) {
		lose(t, n, t->error);
		return;
	}
	t->pos += n;
	if (n < w->buffer_bytes) {
		/* In full from the start: a buffer that grows step by step would take twice. */
		if (!t->buf.data)
			ipt_buf_reserve(&t->buf, w->buffer_bytes);
		ipt_buf_append(&t->buf, p, n);
		return;
	}
	for (const uint8_t *b = p; n;) {
		/* A frame has a greatest size; packets may be cut here, only between frames. */
		size_t part = w->zstd ? (size_t)ipt_min_u64(n, IPT_STORE_MAX_FRAME / 2) : n;

		write_pt(t, b, part);
		b += part;
		n -= part;
	}
}

uint64_t ipt_wthread_pos(const struct ipt_wthread *t)
{
	return t->pos;
}

uint32_t ipt_wthread_gen(const struct ipt_wthread *t)
{
	return t->info->gen;
}

static void add_known(uint64_t *sum, uint64_t n)
{
	*sum = (*sum == UINT64_MAX ? 0 : *sum) + n;
}

void ipt_wthread_count(struct ipt_wthread *t, uint64_t insns)
{
	add_known(&t->info->instructions, insns);
}

void ipt_wthread_stepped(struct ipt_wthread *t, uint64_t insns)
{
	add_known(&t->info->step_instructions, insns);
}

void ipt_wthread_stops(struct ipt_wthread *t, uint64_t n)
{
	add_known(&t->info->stops, n);
}

void ipt_writer_note(struct ipt_writer *w, pid_t pid, const char *text)
{
	ipt_model_note(&w->model, (uint32_t)pid, text);
}

/* --- sideband --- */

/* Cut what a failed write left of a record off again, so that a second try can follow. */
static int append_sideband(struct ipt_writer *w, const void *p, size_t n)
{
	int err = ipt_fd_write(w->sb_fd, p, n);

	if (err && ftruncate(w->sb_fd, (off_t)w->sb_size) < 0)
		w->sb_error = err;
	if (!err)
		w->sb_size += n;
	return err;
}

static void flush_sideband(struct ipt_writer *w)
{
	size_t n = w->sb.len;
	int err;

	w->sb.len = 0;
	w->sb_maps = false;
	if (!n || w->sb_error)
		return;
	err = append_sideband(w, w->sb.data, n);
	if (err && !w->sb_error && is_disk_full(err) && !w->disk_full) {
		failed(w, err);
		err = append_sideband(w, w->sb.data, n);
	}
	if (err) {
		failed(w, err);
		w->sb_error = err;
		w->man.lost_records += w->sb_pending;
	}
	w->sb_pending = 0;
}

int ipt_writer_flush(struct ipt_writer *w)
{
	if (w->flushing) /* a loss is told while PT is written: its record waits for this flush */
		return w->error;
	w->flushing = true;
	for (size_t i = 0; i < w->live.n; i++)
		flush_thread(w->live.v[i]);
	flush_sideband(w);
	w->flushing = false;
	return w->error;
}

uint64_t ipt_writer_queue(struct ipt_writer *w, struct ipt_sb_hdr *h, const void *payload, size_t n)
{
	static const uint8_t zero[8];
	size_t padded = (n + 7) & ~(size_t)7, at = w->sb.len;
	bool last_words = h->type == IPT_SB_GAP || h->type == IPT_SB_THREAD_EXIT ||
			  h->type == IPT_SB_PROC_EXIT || h->type == IPT_SB_THREAD_START;
	uint32_t check;

	h->size = (uint32_t)(sizeof(*h) + padded);
	h->check = 0;
	h->seq = w->seq + 1;
	/* The summary in the manifest counts what the sideband has no room for, too. */
	if (ipt_model_add(&w->model, h, payload, n))
		w->man.lost_records++;
	if (w->sb_error || (w->disk_full && (!last_words || w->sb_room < h->size)) ||
	    n > IPT_SB_MAX_REC - sizeof(*h)) {
		w->man.lost_records++;
		return 0;
	}
	if (w->disk_full)
		w->sb_room -= h->size;
	w->seq++;
	ipt_buf_append(&w->sb, h, sizeof(*h));
	if (n)
		ipt_buf_append(&w->sb, payload, n);
	ipt_buf_append(&w->sb, zero, padded - n);
	check = ipt_sb_check(w->sb.data + at, h->size);
	memcpy(w->sb.data + at + offsetof(struct ipt_sb_hdr, check), &check, sizeof(check));
	w->sb_pending++;
	w->sb_maps |=
		h->type == IPT_SB_EXEC || h->type == IPT_SB_AT || ipt_sb_changes_code(h->type);
	if (w->sb.len >= SB_BUFFER)
		ipt_writer_flush(w);
	return h->seq;
}

/* --- threads --- */

struct ipt_wthread *ipt_writer_thread(struct ipt_writer *w, pid_t pid, pid_t tid,
				      const struct ipt_sb_thread_start *start, const char *comm,
				      uint64_t tsc)
{
	struct ipt_wthread *t = ipt_xcalloc(1, sizeof(*t));
	uintptr_t gen = (uintptr_t)ipt_u64map_get(&w->gens, (uint64_t)tid);
	int fd;

	ipt_u64map_put(&w->gens, (uint64_t)tid, (void *)(gen + 1));
	t->w = w;
	ipt_name_pt(t->name, (uint32_t)pid, (uint32_t)tid, (uint32_t)gen, w->zstd);
	/* The file is there before the record that speaks of it. */
	fd = openat(w->threads_fd, t->name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	if (fd < 0) {
		t->error = -errno;
		failed(w, t->error);
	} else {
		close(fd);
	}
	ipt_writer_start_record(w, (uint32_t)pid, (uint32_t)tid, (uint32_t)gen, start, comm, tsc);
	t->info = ipt_model_thread(&w->model, (uint32_t)tid, (uint32_t)gen);
	if (!t->info) { /* its record could not be kept; it still counts */
		ipt_model_thread_init(&t->spare, (uint32_t)pid, (uint32_t)tid, (uint32_t)gen);
		t->info = &t->spare;
	}
	t->slot = w->live.n;
	*ipt_vec_push(&w->live) = t;
	if (t->error)
		tell_loss(t, 0, false);
	return t;
}

static void close_thread(struct ipt_wthread *t)
{
	flush_thread(t);
	if (t->lost_since)
		tell_loss(t, t->lost_since, true);
	t->lost_since = 0;
}

static void free_thread(struct ipt_wthread *t)
{
	struct ipt_writer *w = t->w;
	struct ipt_wthread *last = w->live.v[--w->live.n];

	last->slot = t->slot;
	w->live.v[t->slot] = last;
	ipt_buf_fini(&t->buf);
	free(t);
}

void ipt_wthread_exit(struct ipt_wthread *t, const struct ipt_sb_thread_exit *exit, uint64_t tsc)
{
	struct ipt_sb_head h = {
		.pid = t->info->pid, .tid = t->info->tid, .gen = t->info->gen, .tsc = tsc};

	close_thread(t);
	h.pt_off = t->pos;
	ipt_writer_record(t->w, IPT_SB_THREAD_EXIT, &h, exit, sizeof(*exit));
	free_thread(t);
}

/* --- images --- */

int ipt_writer_image(struct ipt_writer *w, const void *p, size_t n, uint8_t id[IPT_IMAGE_ID_LEN])
{
	char name[IPT_NAME_MAX];
	int fd, err;

	ipt_image_id(id, p, n);
	if (ipt_image_table_get(&w->images, id))
		return 0;
	if (w->disk_full)
		return w->error;
	ipt_name_image(name, id);
	fd = openat(w->images_fd, "new.tmp", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW,
		    0666);
	if (fd < 0) {
		err = -errno;
		failed(w, err);
		return err;
	}
	err = ipt_fd_write(fd, p, n);
	if (close(fd) < 0 && !err)
		err = -errno;
	if (!err && renameat(w->images_fd, "new.tmp", w->images_fd, name) < 0)
		err = -errno;
	if (err) {
		unlinkat(w->images_fd, "new.tmp", 0);
		failed(w, err);
		return err;
	}
	ipt_image_table_add(&w->images, id, n);
	return 0;
}

/* --- begin and end --- */

static int write_manifest(struct ipt_writer *w, struct ipt_diag *diag)
{
	struct ipt_buf b = {0};
	int err;

	ipt_manifest_write(&b, &w->man, &w->model);
	err = ipt_file_replace(w->dirfd, IPT_NAME_MANIFEST, b.data, b.len, diag);
	ipt_buf_fini(&b);
	return err;
}

static int make_subdir(int *fd, int dirfd, const char *name)
{
	if (mkdirat(dirfd, name, 0777) < 0)
		return -errno;
	return ipt_store_open_dir(fd, dirfd, name);
}

/* Room that is given back when the disk is full. A small disk that has no such room is no failure:
 * the recording then ends without its last words. */
static void make_reserve(struct ipt_writer *w)
{
	int fd = openat(w->dirfd, IPT_NAME_RESERVE, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);

	if (fd < 0)
		return;
	if (fallocate(fd, 0, 0, IPT_STORE_RESERVE_BYTES) < 0)
		unlinkat(w->dirfd, IPT_NAME_RESERVE, 0);
	close(fd);
}

static int make_sideband(struct ipt_writer *w)
{
	struct ipt_sb_file_hdr h = {
		.magic = IPT_SB_MAGIC, .version = IPT_FORMAT_VERSION, .hdr_size = sizeof(h)};
	int err;

	w->sb_fd = openat(w->dirfd, IPT_NAME_SIDEBAND,
			  O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666);
	if (w->sb_fd < 0)
		return -errno;
	err = append_sideband(w, &h, sizeof(h));
	return !err && fsync(w->sb_fd) < 0 ? -errno : err;
}

static void free_writer(struct ipt_writer *w)
{
	const int fds[] = {w->sb_fd, w->threads_fd, w->images_fd, w->dirfd};

	while (w->live.n)
		free_thread(w->live.v[0]);
	ipt_vec_fini(&w->live);
	for (size_t i = 0; i < IPT_ARRAY_SIZE(fds); i++) {
		if (fds[i] >= 0)
			close(fds[i]);
	}
	ipt_buf_fini(&w->sb);
	ipt_u64map_fini(&w->gens);
	ipt_image_table_fini(&w->images);
	ipt_model_fini(&w->model);
	ipt_manifest_fini(&w->man);
	free(w->dir);
	free(w);
}

static int fill_dir(struct ipt_writer *w, struct ipt_diag *diag)
{
	int err;

	err = make_sideband(w);
	if (!err)
		err = make_subdir(&w->threads_fd, w->dirfd, IPT_NAME_THREADS);
	if (!err)
		err = make_subdir(&w->images_fd, w->dirfd, IPT_NAME_IMAGES);
	if (err)
		return ipt_diag_err(diag, -err, 0, "%s: %s", w->dir, ipt_strerror(err));
	make_reserve(w);
	err = write_manifest(w, diag); /* last: what has a manifest is whole */
	if (!err && fsync(w->dirfd) < 0)
		err = ipt_diag_err(diag, errno, 0, "%s: %s", w->dir, strerror(errno));
	return err;
}

int ipt_writer_new(struct ipt_writer **out, const struct ipt_writer_cfg *cfg,
		   const struct ipt_session_info *info, struct ipt_diag *diag)
{
	struct ipt_writer *w = ipt_xcalloc(1, sizeof(*w));
	bool made = false;
	int err;

	w->dirfd = w->threads_fd = w->images_fd = w->sb_fd = -1;
	w->dir = ipt_xstrdup(cfg->dir);
	w->zstd = cfg->zstd;
	w->buffer_bytes = cfg->buffer_bytes ? cfg->buffer_bytes : 64u << 10;
	if (w->zstd)
		w->buffer_bytes = ipt_min_u64(w->buffer_bytes, IPT_STORE_MAX_FRAME / 2);
	ipt_model_init(&w->model);
	ipt_manifest_init(&w->man);
	ipt_manifest_set_info(&w->man, info);
	err = ipt_store_make_dir(&w->dirfd, &made, cfg->dir, cfg->force, diag);
	if (!err) {
		err = fill_dir(w, diag);
		if (err) {
			ipt_store_clear_dir(w->dirfd, NULL, cfg->dir);
			if (made)
				rmdir(cfg->dir);
		}
	}
	if (err)
		free_writer(w);
	else
		*out = w;
	return err;
}

int ipt_writer_finish(struct ipt_writer *w, int exit_status, struct ipt_diag *diag)
{
	struct ipt_buf index = {0};
	int err, first;

	for (size_t i = 0; i < w->live.n; i++)
		close_thread(w->live.v[i]);
	ipt_writer_flush(w);
	if (fdatasync(w->sb_fd) < 0)
		failed(w, -errno);
	/* Gone before the last two files, which may need its room. */
	unlinkat(w->dirfd, IPT_NAME_RESERVE, 0);
	first = w->error;
	w->man.status = IPT_STATUS_COMPLETE;
	w->man.exit_status = exit_status;
	w->man.records = w->seq;
	ipt_image_index_write(&index, &w->images);
	err = ipt_file_replace(w->images_fd, IPT_NAME_INDEX, index.data, index.len, diag);
	ipt_buf_fini(&index);
	if (!first)
		first = err;
	err = write_manifest(w, diag);
	if (!first)
		first = err;
	if (first)
		ipt_diag_err(diag, -first, 0, "%s: %s", w->dir, ipt_strerror(first));
	free_writer(w);
	return first;
}

void ipt_writer_abandon(struct ipt_writer *w)
{
	if (w)
		free_writer(w);
}
