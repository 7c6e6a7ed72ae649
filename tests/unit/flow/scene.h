/* SPDX-License-Identifier: MIT */
/* A trace directory made by hand, and all events of a thread kept for looking at. */
#ifndef SCENE_H
#define SCENE_H

#include <check.h>
#include <stdlib.h>
#include <unistd.h>

#include "flow/flow.h"

struct scene {
	char dir[64];
	struct ipt_writer *w;
	struct ipt_wthread *t; /* the first thread: pid 100, tid 100 */
	struct ipt_store *st;
	struct ipt_images *im;
};

struct seen {
	IPT_VEC(struct ipt_ev) v;
	struct ipt_flow_stats stats;
	struct ipt_code *code;
	FILE *list; /* when not NULL: each instruction, one hex address a line */
	uint64_t listed;
	bool quiet; /* do not keep */
	uint64_t total;
};

static inline void scene_begin(struct scene *s, const struct ipt_session_info *info)
{
	static const struct ipt_session_info plain = {
		.engine = "step",
		.tool = "test",
		.host = "h",
		.kernel = "k",
		.command = "run",
		.cwd = "/",
		.cpu = {"GenuineIntel", 6, 94, 3},
		.clock = {.tsc_hz = 1000000000, .start_tsc = 1000},
	};
	struct ipt_writer_cfg cfg = {0};
	struct ipt_sb_thread_start start = {.flags = IPT_SB_TF_LEADER};
	struct ipt_diag diag = {0};

	memset(s, 0, sizeof(*s));
	snprintf(s->dir, sizeof(s->dir), "/tmp/iptrace-test-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(s->dir));
	cfg.dir = s->dir;
	cfg.force = true;
	ck_assert_msg(!ipt_writer_new(&s->w, &cfg, info ? info : &plain, &diag), "%s", diag.text);
	s->t = ipt_writer_thread(s->w, 100, 100, &start, "prog", 1000);
}

/* A MAP or CODE of @n bytes at @va, placed at @off of tid 100. */
static inline void scene_code(struct scene *s, enum ipt_sb_type type, uint64_t va, const void *p,
			      size_t n, uint64_t off, const char *path)
{
	struct ipt_sb_head h = {.pid = 100, .tid = 100, .pt_off = off, .tsc = 1000};
	struct ipt_sb_map m = {.start = va, .end = va + n, .prot = 5, .kind = IPT_SB_MAP_FILE};

	ck_assert_int_eq(ipt_writer_image(s->w, p, n, m.image), 0);
	ipt_writer_map(s->w, type, &h, &m, NULL, 0, NULL, 0, path);
}

static inline void scene_open(struct scene *s)
{
	struct ipt_diag diag = {0};

	ck_assert_msg(!ipt_store_open(&s->st, s->dir, &diag), "%s", diag.text);
	ck_assert_int_eq(ipt_images_new(&s->im, s->st, &diag), 0);
}

static inline void scene_finish(struct scene *s)
{
	struct ipt_diag diag = {0};

	ck_assert_msg(!ipt_writer_finish(s->w, 0, &diag), "%s", diag.text);
	scene_open(s);
}

static inline void scene_end(struct scene *s)
{
	char cmd[128];

	ipt_images_free(s->im);
	ipt_store_close(s->st);
	snprintf(cmd, sizeof(cmd), "rm -rf '%s'", s->dir);
	ck_assert_int_eq(system(cmd), 0);
}

static inline int seen_take(void *arg, const struct ipt_ev *ev, size_t n)
{
	struct seen *k = arg;

	for (size_t i = 0; i < n; i++) {
		struct ipt_run_it it = {0};
		struct ipt_ev *e;

		k->total++;
		if (k->list && ev[i].kind == IPT_EV_RUN) {
			while (ipt_run_next(&it, k->code, &ev[i])) {
				fprintf(k->list, "%llx\n", (unsigned long long)it.ip);
				k->listed++;
			}
		}
		if (k->quiet)
			continue;
		e = ipt_vec_push(&k->v);
		*e = ev[i];
		if (e->kind == IPT_EV_GAP && e->gap.text)
			e->gap.text = ipt_xstrdup(e->gap.text);
		if (e->kind == IPT_EV_NOTE && e->text)
			e->text = ipt_xstrdup(e->text);
		/* GAPs carry the count of instructions before them, for tests. */
		if (e->kind == IPT_EV_GAP)
			e->n = (uint32_t)k->listed;
	}
	return 0;
}

static inline void seen_free(struct seen *k)
{
	for (size_t i = 0; i < k->v.n; i++) {
		if (k->v.v[i].kind == IPT_EV_GAP)
			free((void *)(uintptr_t)k->v.v[i].gap.text);
		if (k->v.v[i].kind == IPT_EV_NOTE)
			free((void *)(uintptr_t)k->v.v[i].text);
	}
	ipt_vec_fini(&k->v);
	ipt_code_free(k->code);
	memset(k, 0, sizeof(*k));
}

/* Decode thread @i with @decoder. */
static inline void seen_decode(struct seen *k, struct scene *s, size_t i, const char *decoder)
{
	const struct ipt_thread_info *t = ipt_store_thread(s->st, i);
	struct ipt_flow_cfg cfg = {.decoder = decoder};
	struct ipt_diag diag = {0};

	ck_assert_int_eq(ipt_code_new(&k->code, s->im, t, &diag), 0);
	ck_assert_msg(!ipt_flow_decode(s->st, k->code, t, &cfg, seen_take, k, &k->stats, &diag),
		      "%s", diag.text);
}

static inline const struct ipt_ev *seen_find(const struct seen *k, enum ipt_ev_kind kind,
					     size_t nth)
{
	for (size_t i = 0; i < k->v.n; i++) {
		if (k->v.v[i].kind == kind && !nth--)
			return &k->v.v[i];
	}
	return NULL;
}

static inline bool seen_equal(const struct ipt_ev *a, const struct ipt_ev *b)
{
	if (a->kind != b->kind || a->how != b->how || a->iclass != b->iclass ||
	    a->last_len != b->last_len || a->n != b->n)
		return false;
	switch (a->kind) {
	case IPT_EV_RUN: return a->run.ip == b->run.ip && a->run.end == b->run.end;
	case IPT_EV_CALL:
	case IPT_EV_RET:
	case IPT_EV_JUMP:
	case IPT_EV_ASYNC:
	case IPT_EV_ENABLE:
	case IPT_EV_DISABLE:
		return a->br.from == b->br.from && a->br.to == b->br.to &&
		       a->br.ret_to == b->br.ret_to;
	case IPT_EV_TIME: return a->time.tsc == b->time.tsc && a->time.ns == b->time.ns;
	case IPT_EV_GAP:
		return a->gap.ip == b->gap.ip && a->off == b->off &&
		       a->gap.resume_off == b->gap.resume_off;
	case IPT_EV_PTW:
	case IPT_EV_CBR: return a->payload == b->payload;
	default: return true;
	}
}

#endif
