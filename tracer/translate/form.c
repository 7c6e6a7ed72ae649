/* SPDX-License-Identifier: MIT */
/*
 * The path of a trace: straight from its head, through direct jumps and calls and through returns
 * whose call lies on the path, along the likelier side of each conditional branch: backward taken,
 * forward not, until the exits of the first translation tell better.
 */
#include "priv.h"

#define COLD_ITEMS    32
#define COLD_BRANCHES 2
#define MAX_CALLS     16
#define MAX_DELTA     0x40000000ll

struct calls {
	uint64_t ret[MAX_CALLS];
	unsigned int n;
};

/* How often did the way at @ip leave the present trace of @head for @to? */
static uint32_t taken_count(const struct ipt_xl *x, uint64_t head, uint64_t ip, uint64_t to)
{
	const struct trace *t;
	uint32_t sum = 0;
	void *v = ipt_u64map_get(&x->heads, head);

	if (!v)
		return 0;
	t = trace_at(x, (uint32_t)(uintptr_t)v - 1);
	for (unsigned int k = 0; k < t->n_exits; k++) {
		const struct xexit *e = exit_at(x, t->first_exit + k);
		const struct item *it = e->n_items ? &t->items[e->n_items - 1] : NULL;

		if (it && t->head + (uint64_t)(int64_t)it->delta == ip && e->target == to)
			sum += e->count;
	}
	return sum;
}

/* Times that the branch at @ip went to @to, by the traces whose path holds it. */
static uint32_t exits_at(struct ipt_xl *x, const uint64_t *heads, unsigned int n, uint64_t ip,
			 uint64_t to)
{
	uint32_t sum = 0;

	for (unsigned int k = 0; k < n; k++)
		sum += taken_count(x, heads[k], ip, to);
	return sum;
}

#define QUIET_MAX 64

/*
 * Does the way from the backward branch @it come to it again without a packet? How often it went
 * round could not be told from the packets: such a branch ends its trace and gets a pair of its
 * own.
 */
static bool quiet_cycle(struct ipt_xl *x, const struct path_item *it)
{
	uint64_t at = it->f.i.target;

	if (at > it->ip)
		return false;
	for (int n = 0; n < QUIET_MAX; n++) {
		const struct decoded *d;

		if (at == it->ip)
			return true;
		d = ipt_xl_decode(x, at);
		if (!d)
			return false;
		switch (d->f.i.iclass) {
		case IPT_IC_OTHER:
		case IPT_IC_PTWRITE: at += d->f.i.len; break;
		case IPT_IC_JMP:
		case IPT_IC_CALL: at = d->f.i.target; break;
		default: return false;
		}
	}
	return true; /* rather one pair too many */
}

struct former {
	struct ipt_xl *x;
	struct path *p;
	struct calls calls;
	uint64_t head;
	uint64_t seen[8]; /* heads of the traces that the path goes through */
	unsigned int n_seen;
	unsigned int max_items, max_branches;
	bool hot;
};

/* Passes through the trace of @head in all, as far as its exits tell. */
static uint32_t passes(const struct ipt_xl *x, uint64_t head)
{
	void *v = ipt_u64map_get(&x->heads, head);
	const struct trace *t;
	uint32_t sum = 0;

	if (!v)
		return 0;
	t = trace_at(x, (uint32_t)(uintptr_t)v - 1);
	for (unsigned int k = 0; k < t->n_exits; k++)
		sum += exit_at(x, t->first_exit + k)->count;
	return sum;
}

static bool predict_taken(struct former *f, const struct path_item *it)
{
	uint64_t fall = it->ip + it->f.i.len;
	bool back = it->f.i.target <= it->ip;
	uint32_t out, all;

	if (!f->hot)
		return back;
	out = exits_at(f->x, f->seen, f->n_seen, it->ip, back ? fall : it->f.i.target);
	all = passes(f->x, f->seen[f->n_seen - 1]);
	/* The exit is the likelier side: turn the branch. */
	if (out > all / 2)
		return !back;
	return back;
}

static void see(struct former *f, uint64_t ip)
{
	if (f->hot && f->n_seen < IPT_ARRAY_SIZE(f->seen) && ipt_u64map_get(&f->x->heads, ip))
		f->seen[f->n_seen++] = ip;
}

static bool conditional(struct former *f, struct path_item *it, uint64_t *ip)
{
	bool taken = predict_taken(f, it);
	uint64_t fall = it->ip + it->f.i.len;

	it->event = taken ? EV_TAKEN : EV_NOT;
	it->other = taken ? fall : it->f.i.target;
	*ip = taken ? it->f.i.target : fall;
	f->p->n_branches++;
	see(f, *ip);
	return true;
}

static bool call(struct former *f, struct path_item *it, uint64_t *ip)
{
	uint64_t ret = it->ip + it->f.i.len;

	it->event = EV_CALL;
	*ip = it->f.i.target;
	if (*ip == ret) /* reads the IP; not for a RET to come back to */
		return true;
	if (f->calls.n == MAX_CALLS)
		return false;
	f->calls.ret[f->calls.n++] = ret;
	return true;
}

static bool ret(struct former *f, struct path_item *it, uint64_t *ip)
{
	if (!f->calls.n || f->x->cfg.noretcomp) {
		f->p->end = END_RET;
		return false;
	}
	it->event = EV_RET;
	it->other = f->calls.ret[--f->calls.n];
	*ip = it->other;
	f->p->n_branches++;
	return true;
}

/* True: the path goes on at *ip. */
static bool follow(struct former *f, struct path_item *it, uint64_t *ip)
{
	struct path *p = f->p;

	switch ((enum ipt_iclass)it->f.i.iclass) {
	case IPT_IC_COND: return conditional(f, it, ip);
	case IPT_IC_JMP:
		*ip = it->f.i.target;
		p->quiet = quiet_cycle(f->x, it);
		return !p->quiet;
	case IPT_IC_CALL: p->quiet = quiet_cycle(f->x, it); return call(f, it, ip) && !p->quiet;
	case IPT_IC_RET: return ret(f, it, ip);
	case IPT_IC_JMP_IND: p->end = END_JMP_IND; return false;
	case IPT_IC_CALL_IND: p->end = END_CALL_IND; return false;
	case IPT_IC_FAR_CALL:
		p->end = END_SYSCALL;
		*ip = it->ip + it->f.i.len;
		return false;
	case IPT_IC_OTHER:
	case IPT_IC_PTWRITE:
	case IPT_IC_FAR_RET:
	case IPT_IC_FAR_JMP: break;
	}
	*ip = it->ip + it->f.i.len;
	/* Code that may change under our feet is looked at again after each store. */
	return !(p->check && it->f.writes_mem);
}

static bool room(const struct former *f, uint64_t ip)
{
	const struct path *p = f->p;
	int64_t delta = (int64_t)(ip - f->head);

	if (p->n >= f->max_items || p->n_branches >= f->max_branches)
		return false;
	/* A loop closes where it began rather than somewhere inside. */
	if (ip == f->head && p->n > f->max_items / 2)
		return false;
	return delta > -MAX_DELTA && delta < MAX_DELTA;
}

bool ipt_xl_form(struct ipt_xl *x, struct path *p, uint64_t head, bool hot)
{
	struct former f = {
		.x = x,
		.p = p,
		.head = head,
		.hot = hot,
		.max_items = hot ? MAX_ITEMS : COLD_ITEMS,
		.max_branches = hot ? MAX_BRANCHES : COLD_BRANCHES,
	};
	uint64_t ip = head;
	bool more = true;

	p->n = p->n_branches = 0;
	p->end = END_DIRECT;
	p->check = p->quiet = false;
	see(&f, head);
	while (more && room(&f, ip)) {
		const struct decoded *d = ipt_xl_decode(x, ip);
		struct path_item *it = &p->v[p->n];

		if (!d || ipt_xl_refused(d) || (p->n && d->check != p->check))
			break;
		p->check = d->check;
		*it = (struct path_item){.ip = ip, .f = d->f};
		memcpy(it->bytes, d->bytes, sizeof(it->bytes));
		p->n++;
		more = follow(&f, it, &ip);
		/* Its bytes are compared at the head only: one block at a time. */
		if (p->check && it->f.i.iclass != IPT_IC_OTHER)
			more = false;
	}
	p->next = ip;
	return p->n > 0;
}
