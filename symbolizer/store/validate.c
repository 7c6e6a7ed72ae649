/* SPDX-License-Identifier: MIT */
/* Checks what opening a trace does not: every payload, every image, every file of PT. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pt/pt.h"

#include "internal.h"

struct check {
	struct ipt_store *st;
	struct ipt_diag *diag;
	int faults;
};

#define fault(c, ...) ((c)->faults++, ipt_diag_warn((c)->diag, __VA_ARGS__))

static void check_image(struct check *c, const uint8_t id[IPT_IMAGE_ID_LEN], uint64_t seq,
			const struct ipt_sb_map *m)
{
	struct ipt_diag d = {0};
	const uint8_t *p;
	size_t n;

	if (ipt_image_id_is_zero(id))
		return;
	if (ipt_store_image(c->st, id, &p, &n, &d))
		fault(c, IPT_NAME_SIDEBAND ": record %llu: %s", (unsigned long long)seq, d.text);
	else if (m->image_off > n || m->end - m->start > n - m->image_off)
		fault(c, IPT_NAME_SIDEBAND ": record %llu: a mapping beyond its image",
		      (unsigned long long)seq);
}

/* An AT record may speak only of a change of code that came before it. */
static const char *at_fault(const struct ipt_store *st, const struct ipt_rec *r)
{
	uint64_t seq = ipt_rec_at_seq(r);

	if (r->h.type != IPT_SB_AT)
		return NULL;
	/* The records are numbered from 1 without holes. */
	if (!seq || seq >= r->h.seq)
		return "a position for no earlier record";
	return ipt_sb_changes_code(st->recs.v[seq - 1].h.type)
		       ? NULL
		       : "a position for a record that changes no code";
}

static void check_record(struct check *c, const struct ipt_rec *r)
{
	const char *why = ipt_sb_fault(r);
	struct ipt_rec_map map;

	if (!why)
		why = at_fault(c->st, r);
	if (why)
		fault(c, IPT_NAME_SIDEBAND ": record %llu: %s", (unsigned long long)r->h.seq, why);
	else if (!ipt_rec_map_parse(&map, r))
		check_image(c, map.m.image, r->h.seq, &map.m);
	if (r->h.flags & ~(IPT_SB_F_BOUNDED | IPT_SB_F_NO_TSC))
		fault(c, IPT_NAME_SIDEBAND ": record %llu: unknown flags 0x%x",
		      (unsigned long long)r->h.seq, r->h.flags);
}

/* One thread meets each change once, and in their order. */
static void check_at_order(struct check *c)
{
	for (size_t i = 1; i < c->st->at.n; i++) {
		const struct ipt_rec *a = c->st->at.v[i - 1], *b = c->st->at.v[i];

		if (a->h.tid != b->h.tid || a->h.gen != b->h.gen)
			continue;
		if (ipt_rec_at_seq(a) == ipt_rec_at_seq(b))
			fault(c,
			      IPT_NAME_SIDEBAND ": record %llu: a second position for one change",
			      (unsigned long long)b->h.seq);
		else if (b->h.pt_off < a->h.pt_off)
			fault(c,
			      IPT_NAME_SIDEBAND
			      ": record %llu: position before that of an earlier change",
			      (unsigned long long)b->h.seq);
	}
}

static void check_records(struct check *c)
{
	const struct ipt_store *st = c->st;

	for (size_t i = 0; i < st->recs.n; i++)
		check_record(c, &st->recs.v[i]);
	check_at_order(c);
	if (st->n_clamped)
		fault(c,
		      IPT_NAME_SIDEBAND
		      ": %llu positions beyond the end of their stream, the first "
		      "in record %llu",
		      (unsigned long long)st->n_clamped, (unsigned long long)st->first_clamped_seq);
	if (st->model.n_orphans)
		fault(c, IPT_NAME_SIDEBAND ": %llu records of threads that never began",
		      (unsigned long long)st->model.n_orphans);
	if (st->model.n_dups)
		fault(c, IPT_NAME_SIDEBAND ": %llu threads began twice",
		      (unsigned long long)st->model.n_dups);
}

/* Does the stream end between two packets? Walks from its last PSB only. */
static void check_tail(struct check *c, const char *name, const uint8_t *p, size_t n)
{
	struct ipt_pkt_ctx ctx = {0};
	struct ipt_pkt pkt;
	size_t pos = n;

	if (!n)
		return;
	if (ipt_psb_prev(p, n, &pos)) {
		fault(c, "%s: no PSB in %zu bytes", name, n);
		return;
	}
	while (pos < n) {
		int err = ipt_pkt_decode(&pkt, p + pos, n - pos, &ctx);

		if (err) {
			fault(c, "%s: 0x%zx: %s", name, pos, ipt_strerror(err));
			return;
		}
		pos += pkt.len;
	}
}

static void check_thread(struct check *c, const struct ipt_thread_info *t)
{
	const struct ipt_store_thread *pt = &c->st->pt[t->index];
	const struct ipt_thread_info *s = ipt_model_thread(&c->st->man.sum, t->tid, t->gen);
	struct ipt_diag d = {0};
	const uint8_t *p;
	size_t n;

	if (pt->why)
		fault(c, "%s: %s", pt->pt_name, pt->why);
	if (!pt->present)
		return;
	if (ipt_store_pt(c->st, t, &p, &n, &d)) {
		fault(c, "%s", d.text);
		return;
	}
	if (n < t->pt_bytes)
		fault(c, "%s: %zu bytes of %llu are readable", pt->pt_name, n,
		      (unsigned long long)t->pt_bytes);
	if (s && c->st->man.status == IPT_STATUS_COMPLETE && s->pt_bytes != t->pt_bytes)
		fault(c, "%s: %llu bytes, the manifest says %llu", pt->pt_name,
		      (unsigned long long)t->pt_bytes, (unsigned long long)s->pt_bytes);
	check_tail(c, pt->pt_name, p, n);
}

/* Calls @each for every name of a folder that is in the trace. */
static void each_name(struct check *c, int fd, void (*each)(struct check *, int, const char *))
{
	int copy = fd < 0 ? -1 : openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = copy < 0 ? NULL : fdopendir(copy);
	struct dirent *e;

	while (d && (e = readdir(d))) {
		if (strcmp(e->d_name, ".") && strcmp(e->d_name, ".."))
			each(c, fd, e->d_name);
	}
	if (d)
		closedir(d);
	else if (copy >= 0)
		close(copy);
}

static void check_pt_name(struct check *c, int fd, const char *name)
{
	uint32_t pid, tid, gen;
	const struct ipt_thread_info *t;
	bool zstd;
	size_t n = strlen(name);

	(void)fd;
	if (n > 4 && !strcmp(name + n - 4, ".psb"))
		return;
	t = ipt_name_parse_pt(name, &pid, &tid, &gen, &zstd)
		    ? ipt_model_thread(&c->st->model, tid, gen)
		    : NULL;
	if (!t || t->pid != pid)
		fault(c, IPT_NAME_THREADS "/%s: no thread in the sideband", name);
}

static void check_image_name(struct check *c, int fd, const char *name)
{
	uint8_t id[IPT_IMAGE_ID_LEN];
	struct ipt_diag d = {0};
	const uint8_t *p;
	size_t n;

	(void)fd;
	if (!strcmp(name, IPT_NAME_INDEX))
		return;
	if (!ipt_name_parse_image(name, id))
		fault(c, IPT_NAME_IMAGES "/%s: not the name of an image", name);
	else if (ipt_store_image(c->st, id, &p, &n, &d))
		fault(c, "%s", d.text);
}

static void check_top_name(struct check *c, int fd, const char *name)
{
	struct stat st;

	if (!ipt_name_is_ours("", name))
		fault(c, "%s: not a file of a trace", name);
	else if (fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) || S_ISLNK(st.st_mode))
		fault(c, "%s: a link", name);
}

int ipt_store_validate(struct ipt_store *st, struct ipt_diag *diag)
{
	struct check c = {.st = st, .diag = diag};

	if (*st->salvaged)
		fault(&c, "%s", st->salvaged);
	check_records(&c);
	for (size_t i = 0; i < st->model.threads.n; i++)
		check_thread(&c, st->model.threads.v[i]);
	each_name(&c, st->dirfd, check_top_name);
	each_name(&c, st->threads_fd, check_pt_name);
	each_name(&c, st->images_fd, check_image_name);
	return c.faults;
}
