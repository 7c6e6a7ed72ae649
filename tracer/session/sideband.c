/* SPDX-License-Identifier: MIT */
/*
 * What the stops tell, as records: mappings and code bytes with each thread's position, signals,
 * syscalls. A change that replaces code is preceded by a break in every thread of the address
 * space, so that all positions are exact; a change that only adds needs none.
 */
#include <stdlib.h>
#include <x86intrin.h>

#include "session/priv.h"

#define PAGE        4096u
#define EAGER_BYTES (64ull << 20) /* files up to this size are captured when mapped */
#define CHUNK_BYTES (2ull << 20)  /* larger ones by pieces, when run */

uint64_t ipt_sess_tsc(void)
{
	return __rdtsc();
}

struct ipt_sb_head ipt_thr_head(const struct thr *t)
{
	return (struct ipt_sb_head){
		.pid = (uint32_t)t->proc->pid,
		.tid = (uint32_t)t->tid,
		.gen = ipt_wthread_gen(t->out),
		.tsc = ipt_sess_tsc(),
		.pt_off = ipt_wthread_pos(t->out),
	};
}

struct positions {
	struct ipt_sb_pos *v;
	size_t n, cap;
};

/* Positions of the other threads that share @t's address space; with @brk their streams are broken
 * first. One that runs translated is told of a change when it meets it. */
static void collect(struct positions *pos, struct thr *t, bool brk)
{
	struct sess *s = t->sess;
	uint64_t key;
	size_t it = 0;
	void *v;

	while (ipt_u64map_next(&s->threads, &it, &key, &v)) {
		struct thr *o = v;
		struct ipt_sb_pos *p;
		bool exact = true;

		if (!o->bt || !o->proc || o->proc->as != t->proc->as)
			continue;
		if (o != t && o->xt && ipt_xl_thread_inside(o->xt))
			continue;
		if (brk)
			exact = s->backend->code_break(o->bt, ipt_sess_tsc());
		if (o == t)
			continue;
		p = ipt_vec_push(pos);
		p->tid = (uint32_t)o->tid;
		p->gen = ipt_wthread_gen(o->out);
		p->pt_off = ipt_wthread_pos(o->out);
		p->flags = exact ? 0 : IPT_SB_F_BOUNDED;
	}
}

/* Sequence number of the record. */
static uint64_t write_map(struct thr *t, enum ipt_sb_type type, const struct amap *m,
			  uint64_t start, uint64_t end, const uint8_t *bytes,
			  const struct positions *pos)
{
	struct ipt_sb_head h = ipt_thr_head(t);
	struct ipt_sb_map rec = {
		.start = start,
		.end = end,
		.pgoff = m->pgoff + (start - m->start),
		.inode = m->inode,
		.dev_major = m->dev_major,
		.dev_minor = m->dev_minor,
		.prot = m->prot,
		.kind = m->kind,
	};

	if (bytes && ipt_writer_image(t->sess->w, bytes, end - start, rec.image) == 0)
		ipt_aspace_store(t->proc->as, start, bytes, end - start);
	return ipt_writer_map(t->sess->w, type, &h, &rec, pos->v, pos->n, m->build_id,
			      m->n_build_id, m->path);
}

/* Bytes of [start, end), whole pages; NULL when nothing can be read. Holes read as zero. */
static uint8_t *grab(pid_t tid, uint64_t start, uint64_t end)
{
	uint8_t *p = ipt_xcalloc(1, end - start);
	uint64_t got = 0, va = start;

	while (va < end) {
		size_t n = ipt_mem_read_some(tid, va, p + (va - start), end - va);

		got += n;
		va += n;
		if (va < end && (n == 0 || va % PAGE == 0)) {
			if (ipt_mem_read(tid, va, p + (va - start), PAGE) == 0)
				got += PAGE;
			va = (va / PAGE + 1) * PAGE;
		}
	}
	if (got)
		return p;
	free(p);
	return NULL;
}

static bool eager(const struct amap *m)
{
	return m->kind != IPT_SB_MAP_ANON && m->end - m->start <= EAGER_BYTES;
}

static void add_map(struct thr *t, const struct amap *m, const struct positions *pos)
{
	uint8_t *bytes = eager(m) ? grab(t->tid, m->start, m->end) : NULL;

	write_map(t, IPT_SB_MAP, m, m->start, m->end, bytes, pos);
	free(bytes);
}

static bool same_map(const struct amap *a, const struct amap *b)
{
	return a->start == b->start && a->end == b->end && a->pgoff == b->pgoff &&
	       a->inode == b->inode && a->dev_major == b->dev_major &&
	       a->dev_minor == b->dev_minor && a->kind == b->kind && !strcmp(a->path, b->path);
}

/* The same mapping in the sorted list @l, or NULL. */
static const struct amap *held_in(const struct amap_list *l, const struct amap *m)
{
	size_t lo = 0, hi = l->n;

	while (lo < hi) {
		size_t mid = (lo + hi) / 2;

		if (l->v[mid].start < m->start)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < l->n && same_map(&l->v[lo], m) ? &l->v[lo] : NULL;
}

static void remove_gone(struct thr *t, const struct amap_list *now, struct positions *pos,
			bool *broken)
{
	struct aspace *as = t->proc->as;

	for (size_t i = 0; i < as->maps.n; i++) {
		const struct amap *m = &as->maps.v[i];
		struct ipt_sb_head h;
		uint64_t seq;

		if (held_in(now, m))
			continue;
		if (!*broken) {
			collect(pos, t, true);
			*broken = true;
		}
		h = ipt_thr_head(t);
		seq = ipt_writer_range(t->sess->w, IPT_SB_UNMAP, &h, m->start, m->end, 0, pos->v,
				       pos->n);
		ipt_aspace_drop(as, m->start, m->end);
		ipt_xl_changed(t, m->start, m->end, seq);
	}
}

/* What the translations share with us is no code of the program's. */
static void drop_own(struct amap_list *l, const struct aspace *as)
{
	size_t n = 0;

	for (size_t i = 0; i < l->n; i++) {
		if (as->xl_inode && l->v[i].inode == as->xl_inode && l->v[i].shared &&
		    l->v[i].kind == IPT_SB_MAP_FILE && !strncmp(l->v[i].path, "/memfd: ", 8))
			free(l->v[i].path);
		else
			l->v[n++] = l->v[i];
	}
	l->n = n;
}

static bool was_touched(const struct amap_list *old, const struct amap *m)
{
	if (m->prot & 2 /* PROT_WRITE */)
		return true;
	for (size_t i = 0; i < old->n; i++) {
		if (old->v[i].touched && old->v[i].start < m->end && m->start < old->v[i].end)
			return true;
	}
	return false;
}

void ipt_sess_sync_maps(struct thr *t)
{
	struct aspace *as = t->proc->as;
	struct positions pos = {0};
	struct amap_list now, old;
	bool broken = false;

	if (ipt_maps_read(&now, t->tid))
		return;
	drop_own(&now, as);
	remove_gone(t, &now, &pos, &broken);
	if (!broken)
		collect(&pos, t, false);
	old = as->maps;
	as->maps = now;
	for (size_t i = 0; i < now.n; i++) {
		struct amap *m = &now.v[i];
		const struct amap *was = held_in(&old, m);

		m->touched = was_touched(&old, m);
		if (was) {
			memcpy(m->build_id, was->build_id, sizeof(m->build_id));
			m->n_build_id = was->n_build_id;
			/* Translations of what may be written now must look at their source. */
			if (as->xl && (m->prot & ~was->prot & 2 /* PROT_WRITE */))
				ipt_xl_invalidate(as->xl, m->start, m->end);
			continue;
		}
		ipt_maps_build_id(m, t->tid);
		add_map(t, m, &pos);
		ipt_xl_added(t);
	}
	ipt_filter_maps(t->sess->filter, as);
	ipt_maps_fini(&old);
	free(pos.v);
}

void ipt_sess_fresh_maps(struct thr *t)
{
	struct aspace *as = t->proc->as;

	ipt_maps_fini(&as->maps);
	ipt_aspace_drop(as, 0, UINT64_MAX);
	ipt_sess_sync_maps(t);
}

/* The range around @va that is recorded together: a page where code is made at run time, else a
 * larger piece. */
static void piece_of(const struct amap *m, uint64_t va, uint64_t *start, uint64_t *end)
{
	uint64_t unit =
		m->kind == IPT_SB_MAP_ANON || (m->prot & 2 /* PROT_WRITE */) ? PAGE : CHUNK_BYTES;

	*start = ipt_max_u64(m->start, va & ~(unit - 1));
	*end = ipt_min_u64(m->end, (va & ~(unit - 1)) + unit);
}

static void record_code(struct thr *t, const struct amap *m, uint64_t va)
{
	struct positions pos = {0};
	uint8_t first[1];
	uint64_t start, end;
	uint64_t seq;
	uint8_t *bytes;
	bool known = ipt_aspace_read(t->proc->as, va, first, 1) == 1;

	if (known) {
		start = va & ~(uint64_t)(PAGE - 1);
		end = start + PAGE;
	} else {
		piece_of(m, va, &start, &end);
	}
	bytes = grab(t->tid, start, end);
	if (!bytes)
		return;
	collect(&pos, t, known);
	seq = write_map(t, IPT_SB_CODE, m, start, end, bytes, &pos);
	/* Bytes that were not known replace none. */
	ipt_xl_changed(t, start, known ? end : start, seq);
	free(bytes);
	free(pos.v);
}

/* Code of this mapping may change without a syscall that tells of it. */
static bool changes_quietly(const struct amap *m)
{
	return (m->prot & 2 /* PROT_WRITE */) || m->shared;
}

/* Does what the trace has of the page still hold? Compared once a request. */
static void compare_page(struct thr *t, const struct amap *m, uint64_t va)
{
	struct aspace *as = t->proc->as;
	const uint8_t *had = ipt_u64map_get(&as->pages, va / PAGE);
	uint8_t now[PAGE];

	if (ipt_u64map_get(&as->fresh, va / PAGE))
		return;
	if (ipt_mem_read(t->tid, va, now, PAGE))
		return;
	if (!had || memcmp(had, now, PAGE))
		record_code(t, m, va);
	ipt_u64map_put(&as->fresh, va / PAGE, as);
}

/* May its bytes be others than the trace's, though nothing can change them now? */
static bool is_doubtful(const struct amap *m)
{
	return m->kind == IPT_SB_MAP_ANON || m->touched;
}

const uint8_t *ipt_sess_known_page(struct thr *t, uint64_t va)
{
	struct aspace *as = t->proc->as;
	const struct amap *m = ipt_aspace_find(as, va);
	const uint8_t *had = m ? ipt_u64map_get(&as->pages, va / PAGE) : NULL;
	uint8_t now[PAGE];

	if (!had || changes_quietly(m))
		return NULL;
	if (is_doubtful(m) &&
	    (ipt_mem_read(t->tid, va & ~(uint64_t)(PAGE - 1), now, PAGE) || memcmp(had, now, PAGE)))
		return NULL;
	return had;
}

const uint8_t *ipt_sess_code_page(struct thr *t, uint64_t va, bool *changeable)
{
	struct aspace *as = t->proc->as;
	const struct amap *m = ipt_aspace_find(as, va);

	if (!m || m->kind == IPT_SB_MAP_VSYSCALL)
		return NULL;
	*changeable = changes_quietly(m);
	if (is_doubtful(m) || *changeable)
		compare_page(t, m, va);
	else if (!ipt_u64map_get(&as->pages, va / PAGE))
		record_code(t, m, va);
	return ipt_u64map_get(&as->pages, va / PAGE);
}

void ipt_sess_check_code(struct thr *t)
{
	struct aspace *as = t->proc->as;
	uint8_t now[IPT_INSN_MAX], had[IPT_INSN_MAX];
	uint64_t va = t->regs.rip;
	struct amap *m = ipt_aspace_find(as, va);
	size_t n;

	if (!m) {
		if ((va >> 12) == (0xffffffffff600000ull >> 12))
			return; /* vsyscall */
		ipt_sess_sync_maps(t);
		m = ipt_aspace_find(as, va);
		if (!m)
			return;
	}
	n = ipt_mem_read_some(t->tid, va, now, ipt_min_u64(sizeof(now), m->end - va));
	if (!n)
		n = ipt_mem_read(t->tid, va, now, 1) ? 0 : 1;
	for (int tries = 0; tries < 2 && n; tries++) {
		size_t k = ipt_aspace_read(as, va, had, n), i = 0;

		while (i < k && had[i] == now[i])
			i++;
		if (i == n)
			return;
		record_code(t, m, va + i);
	}
}

void ipt_sess_write_signal(struct thr *t, uint64_t handler, bool fatal)
{
	struct ipt_sb_head h;

	if (!t->sig.set)
		return;
	h = ipt_thr_head(t);
	t->sig.set = false;
	t->sig.rec.handler = handler;
	t->sig.rec.flags = fatal;
	ipt_writer_record(t->sess->w, IPT_SB_SIGNAL, &h, &t->sig.rec, sizeof(t->sig.rec));
}

void ipt_sess_write_syscall(struct thr *t, bool returned)
{
	const struct user_regs_struct *r = &t->regs;
	bool is64 = !t->abi32;
	struct ipt_sb_syscall rec = {
		.nr = r->orig_rax,
		.args = {is64 ? r->rdi : (uint32_t)r->rbx, is64 ? r->rsi : (uint32_t)r->rcx,
			 is64 ? r->rdx : (uint32_t)r->rdx, is64 ? r->r10 : (uint32_t)r->rsi,
			 is64 ? r->r8 : (uint32_t)r->rdi, is64 ? r->r9 : (uint32_t)r->rbp},
		.ret = is64 ? (int64_t)r->rax : (int32_t)r->rax,
		.flags = 1u | (returned ? 2u : 0u),
		.arch = is64 ? 64 : 32,
	};
	struct ipt_sb_head h = ipt_thr_head(t);

	ipt_writer_record(t->sess->w, IPT_SB_SYSCALL, &h, &rec, sizeof(rec));
}
