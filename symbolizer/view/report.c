/* SPDX-License-Identifier: MIT */
/*
 * report: functions, modules or threads by the instructions they ran. `self` is what ran in the row
 * itself, and the sum of all is what was executed; `total` has the callees too, and recursion is
 * counted once.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "view/view.h"
#include "view_priv.h"

enum by { BY_FUNCTION, BY_MODULE, BY_THREAD };

struct row {
	char *name; /* owned */
	const char *module;
	const struct ipt_func *func; /* of a place without symbols */
	uint64_t entry;              /* of a function; 0 else */
	uint64_t self, total, calls;
	uint64_t active; /* frames of it that are open */
	/* of `total`, what was counted since the thread's frames last began anew */
	uint64_t recent;
	uint64_t epoch; /* when that was */
};

struct report {
	enum by by;
	int (*order)(const void *, const void *);
	struct ipt_walk *w;
	struct ipt_stack *stack;
	struct ipt_u64map rows; /* owned, of owned rows */
	/* by entry address, in code without symbols */
	struct ipt_u64map places; /* owned, of lent rows */
	struct ipt_buf name;
	struct row *of_thread; /* lent */
	uint64_t insns, gaps, calls;
	uint64_t epoch; /* how often frames began anew */
};

static struct row *row_of(struct report *v, uint64_t key, const char *name, const char *module)
{
	struct row *r = ipt_u64map_get(&v->rows, key);

	if (!r) {
		r = ipt_xcalloc(1, sizeof(*r));
		r->name = ipt_xstrdup(name);
		r->module = module;
		ipt_u64map_put(&v->rows, key, r);
	}
	return r;
}

static uint64_t name_key(const char *s)
{
	uint64_t h = 0xcbf29ce484222325ull;

	while (*s)
		h = (h ^ (uint8_t)*s++) * 0x100000001b3ull;
	return h;
}

/* Two names with one hash must not share a row. */
static struct row *row_of_name(struct report *v, const char *name, const char *module)
{
	uint64_t key = name_key(name);

	for (;; key++) {
		struct row *r = ipt_u64map_get(&v->rows, key);

		if (!r || (!strcmp(r->name, name) && !strcmp(r->module, module)))
			return row_of(v, key, name, module);
	}
}

/* Without symbols each place that is called is a function. */
static struct row *row_of_place(struct report *v, const struct ipt_sframe *f)
{
	struct row *r = ipt_u64map_get(&v->places, f->entry);

	if (r && r->func == f->func)
		return r;
	v->name.len = 0;
	ipt_view_frame_name(&v->name, f);
	ipt_buf_u8(&v->name, 0);
	r = row_of_name(v, (const char *)v->name.data, f->func->module);
	r->func = f->func;
	ipt_u64map_put(&v->places, f->entry, r);
	return r;
}

static struct row *row_of_frame(struct report *v, const struct ipt_sframe *f)
{
	struct row *r;

	switch (v->by) {
	case BY_FUNCTION:
		if (f->func->anon)
			return row_of_place(v, f);
		r = row_of(v, (uint64_t)(uintptr_t)f->func, f->func->name, f->func->module);
		r->entry = f->func->lo;
		return r;
	case BY_MODULE: return row_of_name(v, f->func->module, f->func->module);
	case BY_THREAD: return v->of_thread;
	}
	return NULL;
}

static void enter(void *arg, struct ipt_stack *s, struct ipt_sframe *f, size_t depth)
{
	struct report *v = arg;
	struct row *r = row_of_frame(v, f);
	bool call = f->begin == IPT_FB_CALL || f->begin == IPT_FB_TAIL || f->begin == IPT_FB_SIGNAL;

	(void)s;
	if (depth == 0 && f->begin != IPT_FB_BELOW)
		v->epoch++;
	f->user = r;
	r->active++;
	r->calls += call;
	v->calls += call;
}

/* A row counts itself once, when its outermost frame ends. A caller that was seen late has all
 * since the frames began beneath it, so what its row counted of that is taken off. */
static void count_total(struct report *v, struct row *r, const struct ipt_sframe *f)
{
	uint64_t add = f->insns_all;

	if (r->epoch != v->epoch) {
		r->epoch = v->epoch;
		r->recent = 0;
	}
	if (f->begin == IPT_FB_BELOW)
		add -= ipt_min_u64(add, r->recent);
	r->total += add;
	r->recent += add;
}

static void leave(void *arg, struct ipt_stack *s, struct ipt_sframe *f, size_t depth,
		  enum ipt_frame_end how)
{
	struct row *r = f->user;

	(void)s;
	(void)depth;
	(void)how;
	r->self += f->insns;
	if (--r->active == 0)
		count_total(arg, r, f);
}

static int by_self(const void *a, const void *b)
{
	const struct row *x = *(struct row *const *)a, *y = *(struct row *const *)b;

	if (x->self != y->self)
		return x->self < y->self ? 1 : -1;
	return strcmp(x->name, y->name);
}

static int by_total(const void *a, const void *b)
{
	const struct row *x = *(struct row *const *)a, *y = *(struct row *const *)b;

	if (x->total != y->total)
		return x->total < y->total ? 1 : -1;
	return by_self(a, b);
}

static int by_calls(const void *a, const void *b)
{
	const struct row *x = *(struct row *const *)a, *y = *(struct row *const *)b;

	if (x->calls != y->calls)
		return x->calls < y->calls ? 1 : -1;
	return by_self(a, b);
}

static int by_name(const void *a, const void *b)
{
	const struct row *x = *(struct row *const *)a, *y = *(struct row *const *)b;
	int c = strcmp(x->name, y->name);

	return c ? c : strcmp(x->module, y->module);
}

static int choose(struct report *v, const struct ipt_view_opts *o, struct ipt_diag *diag)
{
	static const char *const kinds[] = {"function", "module", "thread"};
	static const struct {
		const char *name;
		int (*order)(const void *, const void *);
	} sorts[] = {
		{"self", by_self}, {"total", by_total}, {"calls", by_calls}, {"name", by_name}};
	size_t by = 0, sort = 0;

	while (o->by && by < IPT_ARRAY_SIZE(kinds) && strcmp(o->by, kinds[by]) != 0)
		by++;
	if (by == IPT_ARRAY_SIZE(kinds))
		return ipt_diag_err(diag, IPT_E_USAGE, 0,
				    "cannot report by '%.32s'; try function, module or thread",
				    o->by);
	while (o->sort && sort < IPT_ARRAY_SIZE(sorts) && strcmp(o->sort, sorts[sort].name) != 0)
		sort++;
	if (sort == IPT_ARRAY_SIZE(sorts))
		return ipt_diag_err(diag, IPT_E_USAGE, 0,
				    "cannot sort by '%.32s'; try self, total, calls or name",
				    o->sort);
	v->by = (enum by)by;
	v->order = sorts[sort].order;
	return 0;
}

static int begin(void **state, struct ipt_walk *w)
{
	struct report *v = ipt_xcalloc(1, sizeof(*v));
	int err = choose(v, w->opts, w->diag);

	if (err) {
		free(v);
		return err;
	}
	v->w = w;
	*state = v;
	return 0;
}

static int thread_begin(void *state, struct ipt_walk *w)
{
	static const struct ipt_stack_ops ops = {.enter = enter, .leave = leave};
	const struct ipt_thread_info *t = w->thread;
	struct report *v = state;

	v->stack = ipt_stack_new(w->sym, w->code, &ops, v);
	if (v->by == BY_THREAD) {
		char *name = ipt_xasprintf("%u.%u.%u %s", t->pid, t->tid, t->gen,
					   t->comm ? t->comm : "");

		v->of_thread = row_of(v, (uint64_t)t->index + 1, name, "");
		free(name);
	}
	return 0;
}

static int event(void *state, struct ipt_walk *w, const struct ipt_ev *ev)
{
	struct report *v = state;

	(void)w;
	if (ev->kind == IPT_EV_RUN)
		v->insns += ev->n;
	ipt_stack_event(v->stack, ev);
	return 0;
}

static int gap(void *state, struct ipt_walk *w, const struct ipt_ev *ev)
{
	struct report *v = state;

	(void)w;
	v->gaps++;
	ipt_stack_event(v->stack, ev);
	return 0;
}

static int thread_end(void *state, struct ipt_walk *w)
{
	const struct ipt_ev last = {.kind = IPT_EV_THREAD, .how = 1};
	struct report *v = state;

	(void)w;
	ipt_stack_event(v->stack, &last);
	ipt_stack_free(v->stack);
	v->stack = NULL;
	return 0;
}

static double percent(uint64_t part, uint64_t whole)
{
	return whole ? 100.0 * (double)part / (double)whole : 0.0;
}

static void put_numbers(struct ipt_out *o, double share, uint64_t self, uint64_t total,
			uint64_t calls)
{
	ipt_out_printf(o, "%6.2f%%", share);
	ipt_view_column(o, 16, self);
	ipt_view_column(o, 16, total);
	ipt_view_column(o, 13, calls);
	ipt_out_str(o, "  ");
}

static void show_text(struct report *v, struct row *const *rows, size_t n)
{
	static const char *const kinds[] = {"function", "module", "thread"};
	struct ipt_out *o = v->w->out;

	ipt_out_printf(o, "%7s %15s %15s %12s  %s\n", "self%", "self", "total", "calls",
		       kinds[v->by]);
	for (size_t i = 0; i < n; i++) {
		const struct row *r = rows[i];

		put_numbers(o, percent(r->self, v->insns), r->self, r->total, r->calls);
		ipt_out_escaped(o, r->name);
		if (v->by == BY_FUNCTION) {
			ipt_out_str(o, "  (");
			ipt_out_escaped(o, r->module);
			ipt_out_str(o, ")");
		}
		ipt_out_str(o, "\n");
	}
	put_numbers(o, v->insns ? 100.0 : 0.0, v->insns, v->insns, v->calls);
	ipt_out_printf(o, "all of %zu\n", v->rows.n);
	if (v->gaps)
		ipt_out_printf(o, "[gap: %" PRIu64 " gaps; what ran in them is not counted]\n",
			       v->gaps);
}

static void show_json(struct report *v, struct row *const *rows, size_t n)
{
	struct ipt_json j;

	ipt_json_begin(&j, &v->w->out->buf);
	ipt_json_open(&j, NULL, '{');
	ipt_json_u64(&j, "total_instructions", v->insns);
	ipt_json_u64(&j, "gaps", v->gaps);
	ipt_json_u64(&j, "calls", v->calls);
	ipt_json_u64(&j, "n_rows", v->rows.n);
	ipt_json_open(&j, "rows", '[');
	for (size_t i = 0; i < n; i++) {
		ipt_json_open(&j, NULL, '{');
		ipt_json_str(&j, "name", rows[i]->name);
		if (v->by == BY_FUNCTION)
			ipt_json_str(&j, "module", rows[i]->module);
		if (rows[i]->entry)
			ipt_json_hex(&j, "address", rows[i]->entry);
		ipt_json_u64(&j, "self", rows[i]->self);
		ipt_json_u64(&j, "total", rows[i]->total);
		ipt_json_u64(&j, "calls", rows[i]->calls);
		ipt_json_f64(&j, "self_percent", percent(rows[i]->self, v->insns));
		ipt_json_close(&j, '}');
		ipt_out_check(v->w->out);
	}
	ipt_json_close(&j, ']');
	ipt_json_close(&j, '}');
}

static int end(void *state, struct ipt_walk *w)
{
	struct report *v = state;
	struct row **rows = ipt_xcalloc(v->rows.n + 1, sizeof(struct row *));
	size_t n = 0, it = 0;
	uint64_t key;
	void *row;

	while (ipt_u64map_next(&v->rows, &it, &key, &row))
		rows[n++] = row;
	qsort(rows, n, sizeof(rows[0]), v->order);
	if (w->opts->limit && n > w->opts->limit)
		n = w->opts->limit;
	if (w->opts->json)
		show_json(v, rows, n);
	else
		show_text(v, rows, n);
	for (it = 0; ipt_u64map_next(&v->rows, &it, &key, &row);) {
		free(((struct row *)row)->name);
		free(row);
	}
	free(rows);
	ipt_u64map_fini(&v->rows);
	ipt_u64map_fini(&v->places);
	ipt_buf_fini(&v->name);
	ipt_stack_free(v->stack);
	free(v);
	return 0;
}

const struct ipt_view_ops ipt_view_report_ops = {
	.name = "report",
	.names = true,
	.begin = begin,
	.thread_begin = thread_begin,
	.event = event,
	.gap = gap,
	.thread_end = thread_end,
	.end = end,
};
