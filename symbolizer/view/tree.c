/* SPDX-License-Identifier: MIT */
/*
 * tree: calls as they happened, indented, with instructions and time.
 *
 * A frame's opening line is held back until a callee is to be shown, so that a call without shown
 * callees is one line. Opened frames are always the outermost ones, hence one count says which:
 * memory does not grow with the trace. Filters work the same way: a call that is too small is never
 * opened, and one that is large enough opens its callers, which are larger still.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "view/view.h"
#include "view_priv.h"

#define MAX_OPEN 16 /* names of frames that are open at the end */

struct tree {
	struct ipt_walk *w;
	struct ipt_stack *stack;
	size_t opened; /* frames whose opening line is out; all below this index from `base` on */
	size_t base;   /* first frame to show: 0, or the outermost one of only_func */
	bool inside;   /* base is valid */
	uint64_t next_id;
	size_t n_open; /* frames told of as open at the end, on one line together */
	struct ipt_buf line, name;
	const char *unit; /* of time */
};

static bool is_chosen(const struct ipt_view_opts *o, const struct ipt_func *f)
{
	return !o->only_func || !strcmp(o->only_func, f->name) || !strcmp(o->only_func, f->linkage);
}

static void indent(struct ipt_buf *b, size_t levels)
{
	/* Deep recursion must not make lines of megabytes. */
	if (levels > 128) {
		ipt_buf_printf(b, "%*s(%zu) ", 256, "", levels);
		return;
	}
	for (size_t i = 0; i < levels; i++)
		ipt_buf_str(b, "  ");
}

/* Escaped, and with parentheses where a C++ name does not have them. */
static void put_name(struct tree *v, const struct ipt_sframe *f, bool call)
{
	v->name.len = 0;
	ipt_view_frame_name(&v->name, f);
	ipt_buf_u8(&v->name, 0);
	ipt_escape_term(&v->line, (const char *)v->name.data);
	if (call && !strchr((const char *)v->name.data, '('))
		ipt_buf_str(&v->line, "()");
}

static void put_begin(struct ipt_buf *b, const struct ipt_sframe *f)
{
	static const char *const text[] = {"",
					   " [tail call]",
					   " [signal handler]",
					   "",
					   " [on the stack at the start]",
					   " [caller, seen late]"};

	ipt_buf_str(b, text[f->begin]);
}

static void put_cost(struct tree *v, struct ipt_buf *b, const struct ipt_sframe *f,
		     enum ipt_frame_end how)
{
	static const char *const text[] = {"",
					   ", left by a tail call",
					   ", unwound",
					   ", sigreturn",
					   ", lost in a gap",
					   ", open at the end",
					   ", exec"};
	uint64_t now = ipt_stack_now_ns(v->stack);

	ipt_buf_str(b, " [");
	ipt_view_u64(b, f->insns_all);
	if (f->insns != f->insns_all) {
		ipt_buf_str(b, " insns, self ");
		ipt_view_u64(b, f->insns);
	} else {
		ipt_buf_str(b, " insns");
	}
	/* The clock is often read more rarely than calls happen; zero would tell nothing. */
	if (f->t0_ns != UINT64_MAX && now != UINT64_MAX && now != f->t0_ns) {
		ipt_buf_str(b, ", ");
		ipt_view_u64(b, now - f->t0_ns);
		ipt_buf_printf(b, " %s", v->unit);
	}
	ipt_buf_printf(b, "%s]", text[how]);
}

static void put_line(struct tree *v)
{
	ipt_buf_u8(&v->line, '\n');
	ipt_buf_append(&v->w->out->buf, v->line.data, v->line.len);
	v->line.len = 0;
	ipt_out_check(v->w->out);
}

/* Bring out the opening lines of the frames below index @n. */
static void open_to(struct tree *v, size_t n)
{
	if (v->opened < v->base)
		v->opened = v->base;
	for (; v->opened < n; v->opened++) {
		const struct ipt_sframe *f = ipt_stack_frame(v->stack, v->opened);

		indent(&v->line, v->opened - v->base);
		put_name(v, f, true);
		ipt_buf_str(&v->line, " {");
		put_begin(&v->line, f);
		put_line(v);
	}
}

static void enter(void *arg, struct ipt_stack *s, struct ipt_sframe *f, size_t depth)
{
	struct tree *v = arg;

	(void)s;
	f->user = (void *)(uintptr_t)++v->next_id;
	if (!v->inside && is_chosen(v->w->opts, f->func)) {
		v->inside = true;
		v->base = depth;
	}
}

/* What the end of the thread closes goes on one line: brackets as many as were opened, then name
 * and instructions of each, innermost first. */
static void put_open(struct tree *v, const struct ipt_sframe *f, size_t depth)
{
	if (!v->n_open) {
		indent(&v->line, depth - v->base);
		for (size_t i = depth + 1; i > v->base; i--)
			ipt_buf_u8(&v->line, '}');
		ipt_buf_str(&v->line, " open at the end:");
	}
	if (v->n_open < MAX_OPEN) {
		ipt_buf_str(&v->line, v->n_open ? ", " : " ");
		put_name(v, f, false);
		ipt_buf_str(&v->line, " [");
		ipt_view_u64(&v->line, f->insns_all);
		ipt_buf_str(&v->line, v->n_open ? "]" : " insns]");
	} else if (v->n_open == MAX_OPEN) {
		ipt_buf_str(&v->line, ", ...");
	}
	v->n_open++;
	v->opened = depth;
	if (depth == v->base) {
		v->n_open = 0;
		put_line(v);
	}
}

static void leave_text(struct tree *v, const struct ipt_sframe *f, size_t depth,
		       enum ipt_frame_end how)
{
	if (depth < v->opened && how == IPT_FE_OPEN) {
		put_open(v, f, depth);
		return;
	}
	if (depth < v->opened) {
		indent(&v->line, depth - v->base);
		ipt_buf_str(&v->line, "} ");
		put_name(v, f, false);
		put_cost(v, &v->line, f, how);
		put_line(v);
		v->opened = depth;
		return;
	}
	open_to(v, depth);
	indent(&v->line, depth - v->base);
	put_name(v, f, true);
	put_cost(v, &v->line, f, how);
	put_begin(&v->line, f);
	put_line(v);
}

static void json_times(struct tree *v, struct ipt_json *j, const struct ipt_sframe *f)
{
	uint64_t now = ipt_stack_now_ns(v->stack);

	if (strcmp(v->unit, "ns") != 0 || f->t0_ns == UINT64_MAX || now == UINT64_MAX) {
		ipt_json_null(j, "start_ns");
		ipt_json_null(j, "time_ns");
		return;
	}
	ipt_json_u64(j, "start_ns", f->t0_ns);
	ipt_json_u64(j, "time_ns", now - f->t0_ns);
}

static void leave_json(struct tree *v, const struct ipt_sframe *f, size_t depth,
		       enum ipt_frame_end how)
{
	static const char *const begins[] = {"call", "tail", "signal", "start", "initial", "below"};
	static const char *const ends[] = {"return", "tail", "unwound", "sigret",
					   "lost",   "open", "exec"};
	const struct ipt_thread_info *t = v->w->thread;
	struct ipt_json j;

	v->name.len = 0;
	ipt_view_frame_name(&v->name, f);
	ipt_buf_u8(&v->name, 0);
	ipt_json_begin(&j, &v->line);
	ipt_json_open(&j, NULL, '{');
	ipt_json_u64(&j, "id", (uint64_t)(uintptr_t)f->user);
	if (depth > v->base)
		ipt_json_u64(&j, "parent",
			     (uint64_t)(uintptr_t)ipt_stack_frame(v->stack, depth - 1)->user);
	else
		ipt_json_null(&j, "parent");
	ipt_json_u64(&j, "depth", depth - v->base);
	ipt_json_u64(&j, "pid", t->pid);
	ipt_json_u64(&j, "tid", t->tid);
	ipt_json_u64(&j, "gen", t->gen);
	ipt_json_str(&j, "name", (const char *)v->name.data);
	ipt_json_str(&j, "module", f->func->module);
	ipt_json_hex(&j, "address", f->entry);
	if (f->call_ip)
		ipt_json_hex(&j, "called_from", f->call_ip);
	else
		ipt_json_null(&j, "called_from");
	ipt_json_u64(&j, "instructions", f->insns_all);
	ipt_json_u64(&j, "self", f->insns);
	json_times(v, &j, f);
	ipt_json_str(&j, "begin", begins[f->begin]);
	ipt_json_str(&j, "end", ends[how]);
	ipt_json_close(&j, '}');
	ipt_view_json_line(v->w->out, &v->line);
}

static void leave(void *arg, struct ipt_stack *s, struct ipt_sframe *f, size_t depth,
		  enum ipt_frame_end how)
{
	struct tree *v = arg;
	const struct ipt_view_opts *o = v->w->opts;

	(void)s;
	if (!v->inside)
		return;
	if ((!o->limit || depth - v->base < o->limit) && f->insns_all >= o->min_insns) {
		if (o->json)
			leave_json(v, f, depth, how);
		else
			leave_text(v, f, depth, how);
	}
	if (depth == v->base) {
		v->inside = !o->only_func && depth > 0;
		v->opened = v->base = 0;
	}
}

static int begin(void **state, struct ipt_walk *w)
{
	struct tree *v = ipt_xcalloc(1, sizeof(*v));

	v->w = w;
	v->unit = ipt_view_time_unit(w->st);
	if (!w->opts->json && ipt_store_info(w->st)->slowed)
		ipt_out_str(w->out, "# times are those of a run slowed by software\n");
	*state = v;
	return 0;
}

static int thread_begin(void *state, struct ipt_walk *w)
{
	static const struct ipt_stack_ops ops = {.enter = enter, .leave = leave};
	struct tree *v = state;

	v->stack = ipt_stack_new(w->sym, w->code, &ops, v);
	v->opened = v->base = 0;
	v->inside = false;
	if (!w->opts->json)
		ipt_view_thread_head(w->out, w->thread);
	return 0;
}

/* Things worth a line between the calls. */
static void show_event(struct tree *v, const struct ipt_ev *ev)
{
	size_t depth = ipt_stack_depth(v->stack);
	const struct ipt_view_opts *o = v->w->opts;

	if (o->json || !v->inside || (o->limit && depth - v->base > o->limit) || o->min_insns)
		return;
	if (!ipt_view_event_text(&v->line, ev)) {
		v->line.len = 0;
		return;
	}
	v->line.len = 0;
	open_to(v, depth);
	indent(&v->line, depth - v->base);
	ipt_view_event_text(&v->line, ev);
	put_line(v);
}

static int event(void *state, struct ipt_walk *w, const struct ipt_ev *ev)
{
	struct tree *v = state;

	(void)w;
	if (ev->kind == IPT_EV_SIGNAL || ev->kind == IPT_EV_NOTE || ev->kind == IPT_EV_MARK ||
	    ev->kind == IPT_EV_SYSCALL)
		show_event(v, ev);
	ipt_stack_event(v->stack, ev);
	return 0;
}

static int gap(void *state, struct ipt_walk *w, const struct ipt_ev *ev)
{
	struct tree *v = state;

	ipt_stack_event(v->stack, ev);
	if (w->opts->json) {
		ipt_view_gap_json(w->out, w->thread, ev);
		return 0;
	}
	ipt_view_gap_text(&v->line, ev);
	put_line(v);
	return 0;
}

static int thread_end(void *state, struct ipt_walk *w)
{
	struct tree *v = state;
	const struct ipt_ev last = {.kind = IPT_EV_THREAD, .how = 1};

	(void)w;
	ipt_stack_event(v->stack, &last);
	ipt_stack_free(v->stack);
	v->stack = NULL;
	return 0;
}

static int end(void *state, struct ipt_walk *w)
{
	struct tree *v = state;

	(void)w;
	ipt_stack_free(v->stack);
	ipt_buf_fini(&v->line);
	ipt_buf_fini(&v->name);
	free(v);
	return 0;
}

const struct ipt_view_ops ipt_view_tree_ops = {
	.name = "tree",
	.names = true,
	.begin = begin,
	.thread_begin = thread_begin,
	.event = event,
	.gap = gap,
	.thread_end = thread_end,
	.end = end,
};
