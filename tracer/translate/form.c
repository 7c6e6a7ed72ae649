/* SPDX-License-Identifier: MIT */
/*
 * The path of a trace: straight from its head, through direct jumps and calls and through returns
 * whose call lies on the path, along the likelier side of each conditional branch: backward taken,
 * forward not, until the ways taken out of the first translations tell better.
 */
#include "priv.h"

#define HOT_LEAST     16 /* times that a way was taken before it tells anything */
#define COLD_ITEMS    32
#define COLD_BRANCHES 3
#define MAX_CALLS     16
#define MAX_DELTA     0x40000000ll /* between instructions of a trace */

struct calls {
	uint64_t ret[MAX_CALLS];
	unsigned int n;
};

static bool read_insn(void *arg, uint64_t ip, struct ipt_insn *insn)
{
	const struct decoded *d = ipt_xl_decode(arg, ip);

	if (d)
		*insn = d->f.i;
	return d;
}

struct former {
	struct ipt_xl *x;
	struct path *p;
	struct calls calls;
	uint64_t head;
	bool out; /* it is filtered out: so is all of the path, or nothing of it */
	unsigned int max_items, max_branches;
	/* Hot: the trace that is followed at present, where in it, and the way out of it that is
	 * taken most. */
	const struct trace *along;
	unsigned int at;
	const struct xexit *choice;
};

/* The way out of @t that was taken most; NULL: it was not taken often enough to tell. */
static const struct xexit *likeliest(const struct ipt_xl *x, const struct trace *t)
{
	const struct xexit *best = NULL;

	for (unsigned int k = 0; k < t->n_exits; k++) {
		const struct xexit *e = exit_at(x, t->first_exit + k);

		if (SEEN(e->count) > (best ? SEEN(best->count) : HOT_LEAST))
			best = e;
	}
	return best;
}

/* The path has come to @ip: does it go on along a trace from there? */
static void board(struct former *f, uint64_t ip)
{
	uint32_t index;

	f->along = ipt_xl_find(f->x, ip, &index);
	if (!f->along)
		return;
	f->at = 0;
	f->choice = likeliest(f->x, f->along);
	if (!f->choice)
		f->along = NULL;
}

/* Where the trace that is followed goes after the instruction at hand; 0: it ends there. */
static uint64_t next_along(const struct former *f)
{
	if (f->at + 1 >= f->choice->w.n_items)
		return 0;
	return f->along->head + (uint64_t)(int64_t)f->along->items[f->at + 1].delta;
}

/* One more instruction of the path is done, and it goes to @ip. */
static void ride(struct former *f, bool hot, uint64_t ip)
{
	if (f->along && next_along(f) == ip) {
		f->at++;
		return;
	}
	if (hot)
		board(f, ip);
}

static bool predict_taken(const struct former *f, const struct path_item *it)
{
	if (!f->along)
		return it->f.i.target <= it->ip;
	if (f->at + 1 == f->choice->w.n_items)
		return f->choice->target == it->f.i.target;
	return f->along->items[f->at].event == EV_TAKEN;
}

static bool conditional(struct former *f, struct path_item *it, uint64_t *ip)
{
	bool taken = predict_taken(f, it);
	uint64_t fall = it->ip + it->f.i.len;

	it->event = taken ? EV_TAKEN : EV_NOT;
	it->other = taken ? fall : it->f.i.target;
	*ip = taken ? it->f.i.target : fall;
	f->p->n_branches++;
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

bool ipt_xl_in_reach(uint64_t head, uint64_t ip)
{
	int64_t delta = (int64_t)(ip - head);

	return delta > -MAX_DELTA && delta < MAX_DELTA;
}

/* Half of the votes for one target and more: three quarters of the times. */
uint64_t ipt_xl_likely(const struct xexit *e)
{
	return SEEN(e->votes) < (int32_t)(SEEN(e->count) / 2) ? 0 : SEEN(e->likely);
}

static bool same_side(const struct former *f, uint64_t ip)
{
	return outside(f->x, ip) == f->out;
}

/* Where the indirect branch at hand goes in what is followed, or mostly where that ends there; 0:
 * here and there. */
static uint64_t likely_target(const struct former *f, enum exit_kind kind)
{
	const struct xexit *e = f->choice;
	uint64_t to;

	if (!f->along || f->p->n_ways == MAX_WAYS - 1)
		return 0;
	to = next_along(f);
	if (!to && e->kind == kind)
		to = ipt_xl_likely(e);
	return to && same_side(f, to) ? to : 0;
}

static bool go_on(struct former *f, struct path_item *it, enum item_event event, uint64_t to,
		  uint64_t *ip)
{
	it->event = (uint8_t)event;
	it->other = to;
	*ip = to;
	f->p->n_branches++;
	f->p->n_ways++;
	return true;
}

static bool ret(struct former *f, struct path_item *it, uint64_t *ip)
{
	bool elsewhere =
		f->along && f->at + 1 == f->choice->w.n_items && f->choice->kind == EXIT_RET;
	uint64_t to = likely_target(f, EXIT_RET);

	if (f->calls.n && !same_side(f, f->calls.ret[f->calls.n - 1]))
		elsewhere = true;

	if (f->x->cfg.noretcomp || ((!f->calls.n || elsewhere) && !to)) {
		f->p->end = END_RET;
		return false;
	}
	if (!f->calls.n || elsewhere) {
		f->calls.n = 0;
		return go_on(f, it, EV_RET, to, ip);
	}
	return go_on(f, it, EV_RET, f->calls.ret[--f->calls.n], ip);
}

static bool jump_indirect(struct former *f, struct path_item *it, uint64_t *ip)
{
	uint64_t to = likely_target(f, EXIT_JMP_IND);

	f->p->end = END_JMP_IND;
	if (!to)
		return false;
	f->p->end = END_DIRECT;
	return go_on(f, it, EV_JMP_IND, to, ip);
}

static bool call_indirect(struct former *f, struct path_item *it, uint64_t *ip)
{
	uint64_t to = likely_target(f, EXIT_CALL_IND), back = it->ip + it->f.i.len;

	f->p->end = END_CALL_IND;
	if (!to || to == back || f->calls.n == MAX_CALLS)
		return false;
	f->p->end = END_DIRECT;
	f->calls.ret[f->calls.n++] = back;
	return go_on(f, it, EV_CALL_IND, to, ip);
}

static bool writes_mem(const struct path_item *it)
{
	struct ipt_insn_use u;

	return ipt_x86_decode_use(&u, it->bytes, it->f.i.len) || u.writes_mem;
}

/* True: the path goes on at *ip. */
static bool follow(struct former *f, struct path_item *it, uint64_t *ip)
{
	struct path *p = f->p;

	switch ((enum ipt_iclass)it->f.i.iclass) {
	case IPT_IC_COND: return conditional(f, it, ip);
	case IPT_IC_JMP:
		*ip = it->f.i.target;
		p->quiet = ipt_quiet_cycle(&it->f.i, it->ip, read_insn, f->x);
		return !p->quiet;
	case IPT_IC_CALL:
		p->quiet = ipt_quiet_cycle(&it->f.i, it->ip, read_insn, f->x);
		return call(f, it, ip) && !p->quiet;
	case IPT_IC_RET: return ret(f, it, ip);
	case IPT_IC_JMP_IND: return jump_indirect(f, it, ip);
	case IPT_IC_CALL_IND: return call_indirect(f, it, ip);
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
	return !(p->check && writes_mem(it));
}

static bool room(const struct former *f, bool hot, uint64_t ip)
{
	const struct path *p = f->p;

	if (p->n >= f->max_items || p->n_branches >= f->max_branches || p->n_ways >= MAX_WAYS)
		return false;
	/* A loop closes where it began rather than somewhere inside. */
	if (ip == f->head && p->n > f->max_items / 2)
		return false;
	if (p->n && !same_side(f, ip))
		return false;
	/* Cold code is translated once: the path ends where another begins. */
	if (!hot && p->n && ipt_xl_is_head(f->x, ip))
		return false;
	return ipt_xl_in_reach(f->head, ip);
}

bool ipt_xl_form(struct ipt_xl *x, struct path *p, uint64_t head, bool hot)
{
	struct former f = {
		.x = x,
		.p = p,
		.head = head,
		.out = outside(x, head),
		.max_items = hot ? MAX_ITEMS : COLD_ITEMS,
		.max_branches = hot ? MAX_BRANCHES : COLD_BRANCHES,
	};
	uint64_t ip = head;
	bool more = true;

	p->n = p->n_branches = p->n_ways = 0;
	p->end = END_DIRECT;
	p->hot = hot;
	p->check = p->quiet = false;
	if (hot)
		board(&f, head);
	while (more && room(&f, hot, ip)) {
		const struct decoded *d = ipt_xl_decode(x, ip);
		struct path_item *it = &p->v[p->n];

		if (!d || ipt_xl_refused(d) || (p->n && d->check != p->check))
			break;
		p->check = d->check;
		*it = (struct path_item){.ip = ip, .f = d->f};
		memcpy(it->bytes, d->bytes, sizeof(it->bytes));
		p->n++;
		more = follow(&f, it, &ip);
		ride(&f, hot, ip);
		/* Its bytes are compared at the head only: one block at a time. */
		if (p->check && it->f.i.iclass != IPT_IC_OTHER)
			more = false;
	}
	p->next = ip;
	return p->n > 0;
}
