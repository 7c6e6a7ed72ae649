/* SPDX-License-Identifier: MIT */
/* Records to packets: each names a way out of a trace, whose outcomes are known from when it was
 * made. */
#include "priv.h"

#define SAMPLE 4096u /* records of each piece that count for the profile */
#define LOT    256

static void log_items(struct conv *c, const struct trace *tr, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++)
		c->log_ip(c->log_arg, tr->head + (uint64_t)(int64_t)tr->items[i].delta);
}

void ipt_xl_user_begins(struct conv *c, uint64_t ip, bool out)
{
	if (out)
		ipt_ptgen_enable_outside(c->g);
	else
		ipt_ptgen_enable(c->g, ip, IPT_X64, c->tsc);
}

void ipt_xl_begin_epoch(struct conv *c, uint64_t ip, uint32_t epoch)
{
	bool out = ipt_ptgen_outside(c->g);

	ipt_ptgen_async(c->g, ip, c->tsc);
	ipt_ptgen_batch(c->g, false);
	c->epoch_begins(c, epoch);
	c->epoch = epoch;
	ipt_ptgen_batch(c->g, true);
	ipt_xl_user_begins(c, ip, out);
}

static void interrupt_at(struct conv *c, uint64_t ip)
{
	ipt_ptgen_async(c->g, ip, c->tsc);
	ipt_ptgen_enable(c->g, ip, IPT_X64, c->tsc);
}

static void one_way(struct conv *c, const struct ipt_way *way, uint64_t target)
{
	struct ipt_went w = {way, target};

	ipt_ptgen_ways(c->g, &w, 1, c->tsc);
}

/* The last branch may close a cycle that has no packets: the number of rounds is told by a pair
 * before it and one after. */
static void quiet_way(struct conv *c, const struct xexit *e)
{
	const struct trace *tr = trace_at(c->x, e->trace);
	const struct item *last = &tr->items[e->w.n_items - 1];
	struct ipt_way before = e->w.way;
	uint64_t ip = tr->head + (uint64_t)(int64_t)last->delta;
	bool call = last->event == EV_CALL && before.n_calls && e->target != ip + last->len;

	before.n_calls -= call;
	one_way(c, &before, 0);
	interrupt_at(c, ip);
	if (call)
		ipt_ptgen_call(c->g, ip + last->len);
	interrupt_at(c, e->target);
}

/* Ways gone lately go to the generator together. */
struct lot {
	struct ipt_went v[LOT];
	unsigned int n;
};

/* For all ways of one exit? */
static inline bool has_room(const struct lot *l)
{
	return l->n + MAX_WAYS + 1 <= LOT;
}

static void flush_lot(struct conv *c, struct lot *l)
{
	if (l->n)
		ipt_ptgen_ways(c->g, l->v, l->n, c->tsc);
	l->n = 0;
}

/* The last branch goes to code that is filtered out: its packet is another. */
static void leaving_way(struct conv *c, const struct xexit *e, uint64_t target)
{
	const struct trace *tr = trace_at(c->x, e->trace);
	const struct item *last = &tr->items[e->w.n_items - 1];
	struct ipt_way before = e->w.way;
	uint64_t seq = tr->head + (uint64_t)(int64_t)last->delta + last->len;
	uint64_t to = e->kind == EXIT_DIRECT ? e->target : target;

	if (last->event == EV_TAKEN || last->event == EV_NOT) {
		before.bits >>= 1;
		before.n_bits--;
	}
	before.end = IPT_WAY_ON;
	one_way(c, &before, 0);
	ipt_ptgen_leave(c->g, to, last->event != EV_NONE || to != seq);
}

/* What is not the same for all: a newer version of code, a log, a cycle without packets, an end of
 * what is recorded. */
static void rare_way(struct conv *c, struct lot *l, const struct xexit *e, uint64_t target,
		     bool out)
{
	flush_lot(c, l);
	if (e->w.epoch > c->epoch)
		ipt_xl_begin_epoch(c, trace_at(c->x, e->trace)->head, e->w.epoch);
	if (c->log_ip)
		log_items(c, trace_at(c->x, e->trace), e->w.n_items);
	if (e->w.n_before)
		ipt_ptgen_ways(c->g, e->w.before, e->w.n_before, c->tsc);
	if (out && e->kind != EXIT_SYSCALL)
		leaving_way(c, e, target);
	else if (e->quiet)
		quiet_way(c, e);
	else
		one_way(c, &e->w.way, target);
}

/* A vote of the majority: half of them for one target keeps it. */
static void vote(struct xexit *e, uint64_t target)
{
	int32_t votes = SEEN(e->votes);

	if (target == SEEN(e->likely)) {
		MARK(e->votes, votes + 1);
	} else if (votes) {
		MARK(e->votes, votes - 1);
	} else {
		MARK(e->likely, target);
		MARK(e->votes, 1);
	}
}

/* For the profile. A sample is enough: several converters would fight for these counters. */
static void count(struct conv *c, struct xexit *e, uint64_t target)
{
	uint32_t n = SEEN(e->count) + 1;

	c->sample--;
	MARK(e->count, n);
	if (n % HOT_COUNT == 0)
		ipt_xl_warm((struct ipt_xl *)(uintptr_t)c->x, e->trace);
	if (target)
		vote(e, target);
}

/* Out of code that is filtered out: of interest only when it leads to other. */
static void outer_way(struct conv *c, struct lot *l, const struct xexit *e, uint64_t target,
		      bool out)
{
	flush_lot(c, l);
	if (e->w.epoch > c->epoch)
		ipt_xl_begin_epoch(c, trace_at(c->x, e->trace)->head, e->w.epoch);
	if (!out && e->kind != EXIT_SYSCALL)
		ipt_ptgen_come(c->g, e->kind == EXIT_DIRECT ? e->target : target, IPT_X64, c->tsc);
}

/* @out: its target is filtered out. */
static inline void way(struct conv *c, struct lot *l, struct xexit *e, uint64_t target, bool out)
{
	if (c->sample)
		count(c, e, target);
	if (__builtin_expect(e->out, 0)) {
		outer_way(c, l, e, target, out);
		return;
	}
	c->insns += e->w.n_items;
	if (__builtin_expect(e->w.epoch > c->epoch || e->quiet || c->log_ip || out, 0)) {
		rare_way(c, l, e, target, out);
		return;
	}
	if (!has_room(l))
		flush_lot(c, l);
	for (unsigned int i = 0; i < e->w.n_before; i++)
		l->v[l->n++] = e->w.before[i];
	l->v[l->n++] = (struct ipt_went){&e->w.way, target};
}

static const uint8_t *resume(struct conv *c, const uint8_t *p)
{
	uint32_t half[2];

	memcpy(half, p, sizeof(half));
	c->tsc = ipt_max_u64(c->tsc, (uint64_t)half[1] << 32 | half[0]);
	ipt_xl_user_begins(c, c->resume_ip, c->resume_out);
	return p + sizeof(half);
}

/* Where the indirect exit went: the address of a trace's head, or the one that follows. NULL: no
 * such trace. */
static const uint8_t *target_of(const struct conv *c, const uint8_t *p, uint64_t *target, bool *out)
{
	uint32_t id;

	memcpy(&id, p, sizeof(id));
	p += sizeof(id);
	if (id == ID_RAW || id == ID_OUT) {
		*out = id == ID_OUT;
		memcpy(target, p, sizeof(*target));
		return p + sizeof(*target);
	}
	if (id >= __atomic_load_n(&c->x->n_traces, __ATOMIC_ACQUIRE))
		return NULL;
	*target = trace_at(c->x, id)->head;
	*out = trace_at(c->x, id)->out;
	return p;
}

static void syscall_made(struct conv *c, struct lot *l, const struct xexit *e)
{
	flush_lot(c, l);
	ipt_ptgen_disable(c->g, c->tsc);
	c->resume_ip = e->target;
	c->resume_out = e->target_out;
}

void ipt_xl_convert_exit(struct conv *c, uint32_t exit)
{
	struct xexit *e = exit_at(c->x, exit);
	struct lot l = {.n = 0};

	way(c, &l, e, 0, e->target_out);
	flush_lot(c, &l);
}

void ipt_xl_convert_raw(struct conv *c, uint32_t exit, uint64_t target, bool out)
{
	struct lot l = {.n = 0};

	way(c, &l, exit_at(c->x, exit), target, out);
	flush_lot(c, &l);
}

/* Was this way out taken on the side where the thread is? A piece of work does not know what came
 * before: its first way out tells. */
static bool on_its_side(struct conv *c, const struct xexit *e)
{
	if (c->unsure && e->out) {
		ipt_ptgen_seam(c->g, false, 0);
		ipt_ptgen_enable_outside(c->g);
	}
	c->unsure = false;
	return e->out == ipt_ptgen_outside(c->g);
}

/* The next record. False: it makes no sense. */
static bool one_record(struct conv *c, struct lot *l, const uint8_t **pp, const uint8_t *hold)
{
	const uint8_t *p = *pp;
	struct xexit *e;
	uint64_t target = 0;
	uint32_t id;
	bool out;

	memcpy(&id, p, sizeof(id));
	p += sizeof(id);
	if (id == ID_RESUME) {
		if (!c->resume_ip)
			return false;
		*pp = resume(c, p);
		c->resume_ip = 0;
		c->unsure = false;
		return true;
	}
	if (!id || id >= c->n_exits || c->resume_ip)
		return false;
	e = exit_at(c->x, id);
	if (e->kind == EXIT_SYSCALL && p == hold)
		return false;
	out = e->target_out;
	if (e->kind != EXIT_DIRECT && e->kind != EXIT_SYSCALL)
		p = target_of(c, p, &target, &out);
	if (!p)
		return false;
	if (c->x->cfg.filtered && !on_its_side(c, e))
		return false;
	way(c, l, e, target, out);
	if (e->kind == EXIT_SYSCALL)
		syscall_made(c, l, e);
	*pp = p;
	return true;
}

/* Records that are nothing but ways, as long as they come: nearly all. */
static const uint8_t *common_records(struct conv *c, struct lot *l, const uint8_t *p,
				     const uint8_t *end)
{
	struct ipt_records r = {
		.exits = (const void *const *)c->x->exit_chunks,
		.targets = (const uint64_t *const *)c->x->head_chunks,
		.stride = sizeof(struct xexit),
		.n_exits = c->n_exits,
		.n_targets = __atomic_load_n(&c->x->n_traces, __ATOMIC_ACQUIRE),
		.epoch = c->epoch,
	};

	flush_lot(c, l);
	p = ipt_ptgen_records(c->g, &r, p, end, c->tsc);
	c->insns += r.insns;
	return p;
}

/* The memory that holds the records is the program's too: it may have written there. */
const uint8_t *ipt_xl_convert(struct conv *c, const uint8_t *p, const uint8_t *end, bool hold)
{
	struct lot l;

	l.n = 0;
	c->sample = SAMPLE;
	c->n_exits = __atomic_load_n(&c->x->n_exits_whole, __ATOMIC_ACQUIRE);
	do {
		if (!c->sample && !c->resume_ip && !c->log_ip && !c->x->cfg.filtered)
			p = common_records(c, &l, p, end);
	} while (p < end && one_record(c, &l, &p, hold ? end : NULL));
	flush_lot(c, &l);
	if (p == end || (hold && end - p == 4 && !c->resume_ip))
		return p;
	c->broken = true;
	return end;
}

static void part_item(struct conv *c, uint64_t ip, const struct item *it, uint64_t next)
{
	uint64_t seq = ip + it->len;

	if (it->event != EV_NONE && it->event != EV_CALL)
		ipt_ptgen_psb(c->g, ip, c->tsc);
	switch ((enum item_event)it->event) {
	case EV_NONE: break;
	case EV_TAKEN: ipt_ptgen_bits(c->g, 1, 1); break;
	case EV_NOT: ipt_ptgen_bits(c->g, 0, 1); break;
	case EV_CALL:
		if (next != seq)
			ipt_ptgen_call(c->g, seq);
		break;
	case EV_RET: ipt_ptgen_ret(c->g, next); break;
	case EV_JMP_IND:
		one_way(c, &(struct ipt_way){.end = IPT_WAY_JMP, .more = true}, next);
		break;
	case EV_CALL_IND:
		one_way(c, &(struct ipt_way){.end = IPT_WAY_CALL, .ret = seq, .more = true}, next);
		break;
	}
}

void ipt_xl_convert_part(struct conv *c, uint32_t index, unsigned int items)
{
	const struct trace *tr = trace_at(c->x, index);

	if (items && tr->epoch > c->epoch)
		ipt_xl_begin_epoch(c, tr->head, tr->epoch);
	if (tr->out)
		return;
	for (unsigned int i = 0; i < items; i++) {
		uint64_t ip = tr->head + (uint64_t)(int64_t)tr->items[i].delta;
		uint64_t next = i + 1 < tr->n_items
					? tr->head + (uint64_t)(int64_t)tr->items[i + 1].delta
					: ip + tr->items[i].len;

		part_item(c, ip, &tr->items[i], next);
	}
	c->insns += items;
	if (c->log_ip)
		log_items(c, tr, items);
}
