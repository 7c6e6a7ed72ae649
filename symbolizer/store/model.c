/* SPDX-License-Identifier: MIT */
/* Processes and threads, put together from sideband records. Writer and reader use the same. */
#include <stdlib.h>

#include "internal.h"

#define MAX_COMM 256
#define MAX_EXE  4096

void ipt_model_init(struct ipt_model *m)
{
	*m = (struct ipt_model){0};
	m->strs = ipt_intern_new();
}

void ipt_model_fini(struct ipt_model *m)
{
	for (size_t i = 0; i < m->procs.n; i++) {
		free(m->procs.v[i]->notes);
		free(m->procs.v[i]);
	}
	for (size_t i = 0; i < m->threads.n; i++)
		free(m->threads.v[i]);
	ipt_vec_fini(&m->procs);
	ipt_vec_fini(&m->threads);
	ipt_u64map_fini(&m->by_tid);
	ipt_u64map_fini(&m->by_pid);
	if (m->strs)
		ipt_intern_free(m->strs);
	*m = (struct ipt_model){0};
}

static uint64_t thread_key(uint32_t tid, uint32_t gen)
{
	return (uint64_t)gen << 32 | tid;
}

struct ipt_thread_info *ipt_model_thread(const struct ipt_model *m, uint32_t tid, uint32_t gen)
{
	return ipt_u64map_get(&m->by_tid, thread_key(tid, gen));
}

/* Text at @off, at most @max bytes of it; "" when it has no end. */
static const char *text_at(struct ipt_model *m, const uint8_t *p, size_t n, size_t off, size_t max)
{
	const uint8_t *end = off < n ? memchr(p + off, 0, n - off) : NULL;

	if (!end)
		return "";
	return ipt_intern_strn(m->strs, (const char *)p + off,
			       (size_t)ipt_min_u64((uint64_t)(end - p - (ptrdiff_t)off), max));
}

static struct ipt_proc_info *add_proc(struct ipt_model *m, const struct ipt_sb_hdr *h,
				      const char *comm)
{
	struct ipt_proc_info *old = ipt_u64map_get(&m->by_pid, h->pid);
	struct ipt_proc_info *p = ipt_xcalloc(1, sizeof(*p));

	p->pid = h->pid;
	p->gen = old ? old->gen + 1 : 0;
	p->comm = comm;
	p->exe = "";
	p->status = -1;
	p->start_seq = h->seq;
	*ipt_vec_push(&m->procs) = p;
	ipt_u64map_put(&m->by_pid, h->pid, p);
	return p;
}

void ipt_model_thread_init(struct ipt_thread_info *t, uint32_t pid, uint32_t tid, uint32_t gen)
{
	*t = (struct ipt_thread_info){
		.pid = pid,
		.tid = tid,
		.gen = gen,
		.comm = "",
		.end_seq = UINT64_MAX,
		.status = -1,
		.instructions = UINT64_MAX,
		.step_instructions = UINT64_MAX,
		.stops = UINT64_MAX,
	};
}

static int thread_start(struct ipt_model *m, const struct ipt_sb_hdr *h, struct ipt_cur c)
{
	struct ipt_proc_info *p = ipt_u64map_get(&m->by_pid, h->pid);
	struct ipt_thread_info *t;
	uint32_t ppid = ipt_cur_u32(&c), flags;

	ipt_cur_u32(&c);
	flags = ipt_cur_u32(&c);
	if (c.bad)
		return 0;
	if (ipt_model_thread(m, h->tid, h->gen)) {
		m->n_dups++;
		return 0;
	}
	if (m->threads.n >= IPT_STORE_MAX_THREADS)
		return -IPT_E_LIMIT;
	t = ipt_xcalloc(1, sizeof(*t));
	ipt_model_thread_init(t, h->pid, h->tid, h->gen);
	t->index = (uint32_t)m->threads.n;
	t->comm = text_at(m, c.begin, (size_t)(c.end - c.begin), sizeof(struct ipt_sb_thread_start),
			  MAX_COMM);
	t->start_seq = h->seq;
	t->start_tsc = h->flags & IPT_SB_F_NO_TSC ? 0 : h->tsc;
	t->start_flags = flags;
	*ipt_vec_push(&m->threads) = t;
	ipt_u64map_put(&m->by_tid, thread_key(h->tid, h->gen), t);
	if (!p || flags & IPT_SB_TF_LEADER)
		add_proc(m, h, t->comm)->ppid = ppid;
	return 0;
}

static void thread_exit(struct ipt_thread_info *t, const struct ipt_sb_hdr *h, struct ipt_cur c)
{
	uint32_t status = ipt_cur_u32(&c), flags = ipt_cur_u32(&c);

	if (c.bad)
		return;
	t->status = flags & 5 ? -1 : (int32_t)status;
	t->exit_flags = flags;
	t->end_seq = h->seq;
	t->end_tsc = h->flags & IPT_SB_F_NO_TSC ? 0 : h->tsc;
}

static void gap(struct ipt_thread_info *t, struct ipt_cur c)
{
	uint64_t lost;

	ipt_cur_skip(&c, 8);
	lost = ipt_cur_u64(&c);
	t->n_gaps++;
	t->lost_bytes = lost > UINT64_MAX - t->lost_bytes ? UINT64_MAX : t->lost_bytes + lost;
}

static void exec(struct ipt_model *m, struct ipt_proc_info *p, struct ipt_cur c)
{
	const char *path =
		text_at(m, c.begin, (size_t)(c.end - c.begin), sizeof(struct ipt_sb_exec), MAX_EXE);

	if (*path)
		p->exe = path;
}

/* A program that was there at attach made no exec: its first mapped file stands for it. */
static void first_map(struct ipt_model *m, struct ipt_proc_info *p, const struct ipt_sb_hdr *h,
		      const uint8_t *payload, size_t n)
{
	struct ipt_rec r = {.h = *h, .payload = payload, .n = n};
	struct ipt_rec_map map;

	if (!ipt_rec_map_parse(&map, &r) && map.m.kind == IPT_SB_MAP_FILE)
		p->exe = ipt_intern_str(m->strs, map.path);
}

int ipt_model_add(struct ipt_model *m, const struct ipt_sb_hdr *h, const uint8_t *payload, size_t n)
{
	struct ipt_cur c = ipt_cur_make(payload, n);
	struct ipt_thread_info *t;
	struct ipt_proc_info *p;

	if (h->type == IPT_SB_THREAD_START)
		return thread_start(m, h, c);
	t = ipt_model_thread(m, h->tid, h->gen);
	p = ipt_u64map_get(&m->by_pid, h->pid);
	if (!t && h->type != IPT_SB_PROC_EXIT && h->type != IPT_SB_MARK)
		m->n_orphans++;
	if (h->type == IPT_SB_THREAD_EXIT && t) {
		thread_exit(t, h, c);
	} else if (h->type == IPT_SB_GAP && t) {
		gap(t, c);
	} else if (h->type == IPT_SB_COMM) {
		const char *comm = text_at(m, payload, n, 0, MAX_COMM);

		if (t)
			t->comm = comm;
		if (p && h->tid == h->pid)
			p->comm = comm;
	} else if (h->type == IPT_SB_EXEC && p) {
		exec(m, p, c);
	} else if (h->type == IPT_SB_MAP && p && !*p->exe) {
		first_map(m, p, h, payload, n);
	} else if (h->type == IPT_SB_PROC_EXIT && p) {
		uint32_t status = ipt_cur_u32(&c), flags = ipt_cur_u32(&c);

		if (!c.bad && !(flags & 5))
			p->status = (int32_t)status;
	}
	return 0;
}
