/* SPDX-License-Identifier: MIT */
/* Records to packets: each names a way out of a trace, whose outcomes are known from when it was
 * made. */
#include "priv.h"

static void log_items(struct ipt_xl_thread *t, const struct trace *tr, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++)
		t->sink.log_ip(t->sink_arg, tr->head + (uint64_t)(int64_t)tr->items[i].delta);
}

/* A newer version of some code begins to hold for the thread. */
static void begin_epoch(struct ipt_xl_thread *t, uint64_t head, uint32_t epoch)
{
	struct work *w = t->cur;

	ipt_ptgen_async(t->g, head, t->tsc);
	ipt_ptgen_batch(t->g, false);
	if (w) {
		struct out_piece *mark = ipt_xcalloc(1, sizeof(*mark));

		mark->epoch = epoch;
		*w->tail = mark;
		w->tail = &mark->next;
	} else {
		t->sink.epoch(t->sink_arg, epoch);
	}
	t->epoch = epoch;
	ipt_ptgen_batch(t->g, true);
	ipt_ptgen_enable(t->g, head, IPT_X64, t->tsc);
}

static void interrupt_at(struct ipt_xl_thread *t, uint64_t ip)
{
	ipt_ptgen_async(t->g, ip, t->tsc);
	ipt_ptgen_enable(t->g, ip, IPT_X64, t->tsc);
}

/* The last branch may close a cycle that has no packets: the number of rounds is told by a pair
 * before it and one after. */
static void quiet_way(struct ipt_xl_thread *t, const struct xexit *e)
{
	const struct trace *tr = trace_at(t->x, e->trace);
	struct ipt_way before = e->way;

	before.n_calls = 0;
	ipt_ptgen_way(t->g, &before, 0, t->tsc);
	interrupt_at(t, tr->head + (uint64_t)(int64_t)tr->items[e->n_items - 1].delta);
	for (unsigned int i = 0; i < e->way.n_calls; i++)
		ipt_ptgen_call(t->g, e->way.calls[i]);
	interrupt_at(t, e->target);
}

static inline void way(struct ipt_xl_thread *t, struct xexit *e, uint64_t target)
{
	if (!(++e->count % HOT_COUNT))
		ipt_xl_warm(t->x, e->trace);
	if (e->epoch > t->epoch)
		begin_epoch(t, trace_at(t->x, e->trace)->head, e->epoch);
	t->insns += e->n_items;
	if (t->sink.log_ip)
		log_items(t, trace_at(t->x, e->trace), e->n_items);
	if (e->quiet)
		quiet_way(t, e);
	else
		ipt_ptgen_way(t->g, &e->way, target, t->tsc);
}

static const uint8_t *resume(struct ipt_xl_thread *t, const uint8_t *p)
{
	uint32_t half[2];

	memcpy(half, p, sizeof(half));
	t->tsc = ipt_max_u64(t->tsc, (uint64_t)half[1] << 32 | half[0]);
	ipt_ptgen_enable(t->g, t->resume_ip, IPT_X64, t->tsc);
	return p + sizeof(half);
}

/* Where the indirect exit went; the address of a trace's head, or the one that follows. */
static const uint8_t *target_of(const struct ipt_xl_thread *t, const uint8_t *p, uint64_t *target)
{
	uint32_t id;

	memcpy(&id, p, sizeof(id));
	p += sizeof(id);
	if (id != ID_RAW) {
		*target = trace_at(t->x, id)->head;
		return p;
	}
	memcpy(target, p, sizeof(*target));
	return p + sizeof(*target);
}

void ipt_xl_convert_exit(struct ipt_xl_thread *t, uint32_t exit)
{
	struct xexit *e = exit_at(t->x, exit);

	way(t, e, 0);
	if (e->kind == EXIT_SYSCALL) {
		ipt_ptgen_disable(t->g, t->tsc);
		t->resume_ip = e->target;
	}
}

void ipt_xl_convert_raw(struct ipt_xl_thread *t, uint32_t exit, uint64_t target)
{
	way(t, exit_at(t->x, exit), target);
}

void ipt_xl_convert(struct ipt_xl_thread *t, const uint8_t *p, const uint8_t *end, uint64_t tsc)
{
	while (p < end) {
		struct xexit *e;
		uint64_t target;
		uint32_t id;

		memcpy(&id, p, sizeof(id));
		p += sizeof(id);
		if (id == ID_RESUME) {
			p = resume(t, p);
			continue;
		}
		e = exit_at(t->x, id);
		if (e->kind == EXIT_DIRECT) {
			way(t, e, 0);
			continue;
		}
		if (e->kind == EXIT_SYSCALL) {
			ipt_xl_convert_exit(t, id);
			continue;
		}
		p = target_of(t, p, &target);
		way(t, e, target);
	}
	t->tsc = ipt_max_u64(t->tsc, tsc);
}

static void part_item(struct ipt_xl_thread *t, uint64_t ip, const struct item *it, uint64_t next)
{
	uint64_t seq = ip + it->len;

	if (it->event != EV_NONE && it->event != EV_CALL)
		ipt_ptgen_psb(t->g, ip, t->tsc);
	switch ((enum item_event)it->event) {
	case EV_NONE: break;
	case EV_TAKEN: ipt_ptgen_bits(t->g, 1, 1); break;
	case EV_NOT: ipt_ptgen_bits(t->g, 0, 1); break;
	case EV_CALL:
		if (next != seq)
			ipt_ptgen_call(t->g, seq);
		break;
	case EV_RET: ipt_ptgen_ret(t->g, next); break;
	}
}

void ipt_xl_convert_part(struct ipt_xl_thread *t, uint32_t index, unsigned int items)
{
	const struct trace *tr = trace_at(t->x, index);

	if (items && tr->epoch > t->epoch)
		begin_epoch(t, tr->head, tr->epoch);
	for (unsigned int i = 0; i < items; i++) {
		uint64_t ip = tr->head + (uint64_t)(int64_t)tr->items[i].delta;
		uint64_t next = i + 1 < tr->n_items
					? tr->head + (uint64_t)(int64_t)tr->items[i + 1].delta
					: ip + tr->items[i].len;

		part_item(t, ip, &tr->items[i], next);
	}
	t->insns += items;
	if (t->sink.log_ip)
		log_items(t, tr, items);
}
