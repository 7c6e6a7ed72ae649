/* SPDX-License-Identifier: MIT */
/* One trace: its path's instructions in order, its ways out behind them, literals last. */
#include "priv.h"

void ipt_xl_point(struct build *b, unsigned int flags, unsigned int reg, uint32_t aux)
{
	struct point *p;

	if (!b->n_points || b->points[b->n_points - 1].off != b->c.n)
		b->n_points++;
	ipt_assert(b->n_points <= IPT_ARRAY_SIZE(b->points), "a trace with too many places");
	p = &b->points[b->n_points - 1];
	*p = (struct point){.off = b->c.n,
			    .flags = (uint16_t)flags,
			    .item = (uint8_t)b->item,
			    .reg = (uint8_t)reg,
			    .aux = aux};
}

struct side *ipt_xl_side(struct build *b, enum side_kind kind, uint32_t jump)
{
	struct side *s = &b->sides[b->n_sides++];

	ipt_assert(b->n_sides <= MAX_SIDES, "a trace with too many ways out");
	*s = (struct side){.kind = kind, .jump = jump, .item = (uint8_t)b->item};
	return s;
}

void ipt_xl_literal_pair(struct build *b, uint64_t value, uint64_t second)
{
	ipt_assert(b->n_literals < IPT_ARRAY_SIZE(b->literals), "a trace with too many literals");
	b->literals[b->n_literals++] = (struct literal){b->c.n - 4, value, second, true};
}

void ipt_xl_literal(struct build *b, uint64_t value)
{
	ipt_xl_literal_pair(b, value, 0);
	b->literals[b->n_literals - 1].pair = false;
}

/* Room for @n return addresses that stays where it is. */
static uint64_t *room_for(struct ipt_xl *x, unsigned int n)
{
	uint32_t left = EXIT_CHUNK - x->n_pushes % EXIT_CHUNK;
	uint64_t **chunk;

	if (left < n)
		x->n_pushes += left;
	chunk = &x->push_chunks[x->n_pushes / EXIT_CHUNK];
	if (!*chunk)
		*chunk = ipt_xcalloc(EXIT_CHUNK, sizeof(**chunk));
	x->n_pushes += n;
	return *chunk + (x->n_pushes - n) % EXIT_CHUNK;
}

struct outcome { /* of a way along a path */
	uint64_t ret[MAX_ITEMS];
	unsigned int depth, deepest, n_ways;
	bool returned;
};

static void add_bit(struct xexit *e, bool bit)
{
	e->w.way.bits = e->w.way.bits << 1 | bit;
	e->w.way.n_bits++;
}

/* The way ends, with what has not returned. */
static void end_way(struct ipt_xl *x, struct ipt_way *w, const struct outcome *o,
		    enum ipt_way_end end)
{
	w->end = (uint8_t)end;
	w->inner = o->returned ? (uint8_t)o->deepest : 0;
	w->n_calls = (uint8_t)o->depth;
	w->calls = o->depth ? memcpy(room_for(x, o->depth), o->ret, o->depth * sizeof(o->ret[0]))
			    : NULL;
	w->more = w->inner || w->n_calls || end != IPT_WAY_ON;
}

/* An indirect branch on the path: a way of its own up to it, which all exits behind it share. */
static void cut(struct build *b, struct xexit *e, struct outcome *o, const struct path_item *it,
		enum ipt_way_end end)
{
	if (o->n_ways == b->n_ways) {
		struct ipt_went *w = &b->t->ways[b->n_ways++];

		*w = (struct ipt_went){.way = &b->t->way_store[o->n_ways], .target = it->other};
		if (end == IPT_WAY_CALL)
			e->w.way.ret = it->ip + it->f.i.len;
		end_way(b->x, &e->w.way, o, end);
		b->t->way_store[o->n_ways] = e->w.way;
	}
	o->n_ways++;
	o->depth = o->deepest = 0;
	o->returned = false;
	e->w.way = (struct ipt_way){.psb_ip = 0};
}

static void pass(struct build *b, struct xexit *e, struct outcome *o, const struct path_item *it,
		 bool off)
{
	enum item_event event = it->event;

	/* Calls too: a PSB+ behind a call is no place to begin to decode its return. */
	if (event != EV_NONE && !e->w.way.psb_ip && !o->n_ways)
		e->w.way.psb_ip = it->ip;
	switch (event) {
	case EV_NONE: break;
	case EV_TAKEN:
	case EV_NOT: add_bit(e, (event == EV_TAKEN) != off); break;
	case EV_CALL:
		if (it->f.i.target == it->ip + it->f.i.len)
			break;
		o->ret[o->depth++] = it->ip + it->f.i.len;
		if (o->depth > o->deepest)
			o->deepest = o->depth;
		break;
	case EV_RET:
		if (off)
			break;
		/* To a call of the same way, or as it comes. */
		if (o->depth && o->ret[o->depth - 1] == it->other) {
			o->depth--;
			o->returned = true;
			add_bit(e, true);
		} else {
			cut(b, e, o, it, IPT_WAY_RET);
		}
		break;
	case EV_JMP_IND:
		if (!off)
			cut(b, e, o, it, IPT_WAY_JMP);
		break;
	case EV_CALL_IND:
		if (!off)
			cut(b, e, o, it, IPT_WAY_CALL);
		break;
	}
}

static enum ipt_way_end end_of(enum exit_kind kind)
{
	switch (kind) {
	case EXIT_JMP_IND: return IPT_WAY_JMP;
	case EXIT_CALL_IND: return IPT_WAY_CALL;
	case EXIT_RET: return IPT_WAY_RET;
	case EXIT_DIRECT:
	case EXIT_SYSCALL: break;
	}
	return IPT_WAY_ON;
}

uint32_t ipt_xl_new_exit(struct build *b, enum exit_kind kind, unsigned int done, uint64_t target,
			 bool off)
{
	struct ipt_xl *x = b->x;
	struct xexit **chunk = &x->exit_chunks[x->n_exits / EXIT_CHUNK];
	struct outcome o = {.depth = 0};
	struct xexit *e;

	if (!*chunk)
		*chunk = ipt_xl_exit_chunk();
	e = exit_at(x, x->n_exits);
	*e = (struct xexit){.target = target,
			    .trace = b->index,
			    .kind = (uint8_t)kind,
			    .w.n_items = (uint16_t)done,
			    .w.indirect = kind != EXIT_DIRECT && kind != EXIT_SYSCALL};
	for (unsigned int i = 0; i < done; i++)
		pass(b, e, &o, &b->path->v[i], off && i + 1 == done);
	e->w.epoch = b->t->epoch;
	e->out = b->t->out;
	e->target_out = target && outside(x, target);
	e->far = target && ipt_xl_cluster_for(x, target) != b->t->cluster;
	if (!e->w.way.psb_ip && !o.n_ways && end_of(kind) != IPT_WAY_ON)
		e->w.way.psb_ip = b->path->v[done - 1].ip;
	end_way(x, &e->w.way, &o, end_of(kind));
	e->w.before = b->t->ways;
	e->w.n_before = (uint8_t)o.n_ways;
	e->quiet = kind == EXIT_DIRECT && b->path->quiet && done == b->path->n && !off;
	e->w.special = e->quiet || e->out || e->target_out || kind == EXIT_SYSCALL;
	b->t->n_exits++;
	return x->n_exits++;
}

static void put_literals(struct build *b)
{
	struct code *c = &b->c;

	while ((c->va + c->n) % 8)
		ipt_emit8(c, 0xcc);
	for (unsigned int i = 0; i < b->n_literals; i++) {
		ipt_emit_patch(c, b->literals[i].pos, c->n);
		ipt_emit64(c, b->literals[i].value);
		if (b->literals[i].pair)
			ipt_emit64(c, b->literals[i].second);
	}
}

/* True: it ended the trace. */
static bool last_item(struct build *b, const struct path_item *it)
{
	switch (b->path->end) {
	case END_DIRECT: return false;
	case END_JMP_IND: ipt_xl_exit_indirect(b, it, EXIT_JMP_IND, false); break;
	case END_CALL_IND: ipt_xl_exit_indirect(b, it, EXIT_CALL_IND, false); break;
	case END_RET: ipt_xl_exit_indirect(b, it, EXIT_RET, false); break;
	case END_SYSCALL: ipt_xl_exit_syscall(b, it); break;
	}
	return true;
}

static void one_item(struct build *b, const struct path_item *it)
{
	switch ((enum item_event)it->event) {
	case EV_TAKEN:
	case EV_NOT: ipt_xl_cond(b, it); break;
	case EV_CALL: ipt_xl_push_const(b, it->ip + it->f.i.len); break;
	case EV_RET: ipt_xl_ret_on_path(b, it); break;
	case EV_JMP_IND:
	case EV_CALL_IND: ipt_xl_ind_on_path(b, it); break;
	case EV_NONE:
		if (it->f.i.iclass != IPT_IC_JMP)
			ipt_xl_move(b, it);
		break;
	}
}

static void body(struct build *b)
{
	const struct path *p = b->path;

	b->t->body = b->t->code + b->c.n;
	if (p->check)
		ipt_xl_check_source(b);
	for (unsigned int i = 0; i < p->n; i++) {
		ipt_xl_point(b, 0, 0, 0);
		if (i + 1 == p->n && last_item(b, &p->v[i]))
			return;
		one_item(b, &p->v[i]);
		b->item++;
	}
	ipt_xl_point(b, 0, 0, 0);
	ipt_xl_exit_direct(b, ipt_xl_new_exit(b, EXIT_DIRECT, p->n, p->next, false));
}

static void keep(struct build *b)
{
	struct trace *t = b->t;
	const struct path *p = b->path;

	t->n_items = (uint16_t)p->n;
	t->items = ipt_xl_keep(b->x, p->n * sizeof(*t->items));
	for (unsigned int i = 0; i < p->n; i++) {
		t->items[i] = (struct item){.delta = (int32_t)(int64_t)(p->v[i].ip - t->head),
					    .event = p->v[i].event,
					    .len = p->v[i].f.i.len};
	}
	t->n_points = (uint16_t)b->n_points;
	t->points = ipt_xl_keep(b->x, b->n_points * sizeof(*t->points));
	memcpy(t->points, b->points, b->n_points * sizeof(*t->points));
}

void ipt_xl_build(struct ipt_xl *x, uint32_t index, const struct path *path, unsigned int cluster)
{
	struct cluster *cl = &x->clusters[cluster];
	struct build *b = x->build;
	uint32_t *slot;

	/* The negated head in the entry is one aligned word, 2 bytes into it. */
	cl->used = (uint32_t)((cl->used + 15) & ~15u) + 6;
	if (!b)
		x->build = b = ipt_xcalloc(1, sizeof(*b));
	b->x = x;
	b->path = path;
	b->index = index;
	b->t = trace_at(x, index);
	b->n_sides = b->n_literals = b->n_points = b->item = b->n_ways = 0;
	*b->t = (struct trace){.head = path->v[0].ip,
			       .epoch = x->epoch,
			       .out = outside(x, path->v[0].ip),
			       .code = cl->used,
			       .first_exit = x->n_exits,
			       .cluster = (uint8_t)cluster,
			       .checks = path->check};
	if (path->n_ways) {
		b->t->ways = ipt_xl_keep(x, path->n_ways * sizeof(*b->t->ways));
		b->t->way_store = ipt_xl_keep(x, path->n_ways * sizeof(*b->t->way_store));
	}
	b->c = (struct code){.p = cl->mem + cl->used, .va = cl->va + cl->used};
	ipt_xl_entry(b);
	body(b);
	ipt_xl_sides(b);
	put_literals(b);
	keep(b);
	b->t->size = b->c.n;
	cl->used += b->c.n;
	ipt_assert(b->c.n <= BODY_MAX, "a trace is larger than was thought");
	slot = ipt_vec_push(&cl->traces);
	*slot = index;
}
