/* SPDX-License-Identifier: MIT */
/*
 * insn: the instructions that were executed, one a line: as text with disassembly and source lines,
 * as bare addresses (--format=ip), or as JSON.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "view/view.h"
#include "view_priv.h"

#define CACHE_SLOTS 8192 /* runs whose text is kept, a power of two */
#define CACHE_INSNS 64   /* instructions of the longest run kept */
#define IP_LINE     17   /* bytes of the longest line of an address */

struct cached_run { /* the lines of one RUN in ip format */
	uint64_t ip, end;
	size_t epoch;
	uint32_t n;
	uint8_t mode;
	uint16_t len;
	char *text; /* owned, CACHE_INSNS * IP_LINE bytes; NULL: empty slot */
};

struct insn {
	bool ip_only;
	uint64_t nr; /* of the next instruction of the thread */
	struct cached_run *cache;
	const struct ipt_func *func; /* of the last address looked up */
	uint64_t lo, hi;             /* where it holds */
	const char *file;            /* of the last source line shown */
	uint32_t line;
	uint64_t line_lo, line_hi;
	struct ipt_buf text;
	/* Left by a system call; told only if the next instruction is not the one after it. */
	bool left;
	uint64_t run_end;
};

static int begin(void **state, struct ipt_walk *w)
{
	const char *format = w->opts->format;
	struct insn *v;

	if (format && strcmp(format, "ip") != 0 && strcmp(format, "text") != 0)
		return ipt_diag_err(w->diag, IPT_E_USAGE, 0, "no format '%.32s'; try 'ip'", format);
	v = ipt_xcalloc(1, sizeof(*v));
	v->ip_only = format && !strcmp(format, "ip");
	if (v->ip_only)
		v->cache = ipt_xcalloc(CACHE_SLOTS, sizeof(*v->cache));
	*state = v;
	return 0;
}

static int end(void *state, struct ipt_walk *w)
{
	struct insn *v = state;

	(void)w;
	for (size_t i = 0; v->cache && i < CACHE_SLOTS; i++)
		free(v->cache[i].text);
	free(v->cache);
	ipt_buf_fini(&v->text);
	free(v);
	return 0;
}

static void forget(struct insn *v)
{
	v->func = NULL;
	v->lo = v->hi = 0;
	v->line_lo = v->line_hi = 0;
	v->file = NULL;
	v->line = 0;
}

static int thread_begin(void *state, struct ipt_walk *w)
{
	struct insn *v = state;

	v->nr = 0;
	v->left = false;
	forget(v);
	/* Slots are told apart by epoch, and epochs begin anew with each thread. */
	for (size_t i = 0; v->cache && i < CACHE_SLOTS; i++)
		v->cache[i].n = 0;
	if (!v->ip_only && !w->opts->json)
		ipt_view_thread_head(w->out, w->thread);
	return 0;
}

static size_t put_ip(char *to, uint64_t ip)
{
	unsigned digits = ip ? (unsigned)(67 - __builtin_clzll(ip)) / 4 : 1;

	for (unsigned i = digits; i > 0; i--, ip >>= 4)
		to[i - 1] = "0123456789abcdef"[ip & 15];
	to[digits] = '\n';
	return digits + 1;
}

static bool in_range(const struct insn *v, const struct ipt_walk *w)
{
	return v->nr >= w->opts->from_insn && (!w->opts->to_insn || v->nr < w->opts->to_insn);
}

static bool range_is_over(const struct insn *v, const struct ipt_walk *w)
{
	return w->opts->to_insn && v->nr >= w->opts->to_insn;
}

/* A run is shown whole: no cut of the range goes through it. */
static bool run_is_inside(const struct insn *v, const struct ipt_walk *w, const struct ipt_ev *run)
{
	return v->nr >= w->opts->from_insn &&
	       (!w->opts->to_insn || v->nr + run->n <= w->opts->to_insn);
}

static bool fill(struct cached_run *c, const struct ipt_walk *w, const struct ipt_ev *run)
{
	struct ipt_run_it it = {0};
	size_t len = 0;
	uint32_t n = 0;

	if (!c->text)
		c->text = ipt_xcalloc(CACHE_INSNS, IP_LINE);
	while (n < run->n && ipt_run_next(&it, w->code, run)) {
		len += put_ip(c->text + len, it.ip);
		n++;
	}
	*c = (struct cached_run){.ip = run->run.ip,
				 .end = run->run.end,
				 .epoch = ipt_code_current(w->code),
				 .n = n == run->n ? n : 0,
				 .mode = run->how,
				 .len = (uint16_t)len,
				 .text = c->text};
	return c->n != 0;
}

static bool show_cached(struct insn *v, struct ipt_walk *w, const struct ipt_ev *run)
{
	uint64_t hash = (run->run.ip * 0x9e3779b97f4a7c15ull) ^ (run->run.end << 40);
	struct cached_run *c = &v->cache[(hash >> 48) & (CACHE_SLOTS - 1)];

	if (c->n != run->n || c->ip != run->run.ip || c->end != run->run.end ||
	    c->mode != run->how || c->epoch != ipt_code_current(w->code))
		if (!fill(c, w, run))
			return false;
	ipt_buf_append(&w->out->buf, c->text, c->len);
	v->nr += run->n;
	return true;
}

static void look_up(struct insn *v, struct ipt_walk *w, const struct ipt_map *map, uint64_t ip)
{
	if (v->func && ip >= v->lo && ip < v->hi)
		return;
	v->func = ipt_sym_func(w->sym, map, ip);
	v->lo = v->func->lo;
	v->hi = v->func->hi;
}

/* Find the line of @ip; true when it is another one than that of the last instruction. */
static bool line_changed(struct insn *v, struct ipt_walk *w, const struct ipt_map *map, uint64_t ip)
{
	const char *file = NULL;
	uint32_t line = 0;
	bool changed;

	if (w->opts->no_source || (ip >= v->line_lo && ip < v->line_hi))
		return false;
	if (!ipt_sym_line(w->sym, map, ip, &file, &line, &v->line_lo, &v->line_hi)) {
		v->line_lo = v->line_hi = 0;
		v->file = NULL;
		v->line = 0;
		return false;
	}
	changed = line != v->line || !v->file || strcmp(file, v->file) != 0;
	v->file = file;
	v->line = line;
	return changed;
}

static void show_source(struct insn *v, struct ipt_walk *w)
{
	const char *text = ipt_sym_source(w->sym, v->file, v->line);

	ipt_out_escaped(w->out, v->file);
	ipt_out_printf(w->out, ":%u:", v->line);
	if (text) {
		ipt_out_str(w->out, " ");
		while (*text == ' ' || *text == '\t')
			text++;
		ipt_out_escaped(w->out, text);
	}
	ipt_out_str(w->out, "\n");
}

/* "sym" or "sym+0x12", as objdump names addresses; 0 terminated. */
static void name_place(struct ipt_buf *b, const struct ipt_walk *w, uint64_t va)
{
	const struct ipt_func *f = ipt_sym_func(w->sym, ipt_code_map(w->code, va), va);

	ipt_view_place(b, f, va, va != f->lo);
	ipt_buf_u8(b, 0);
}

/* Disassembly into v->text. */
static void disassemble(struct insn *v, struct ipt_walk *w, const struct ipt_run_it *it,
			uint8_t mode)
{
	struct ipt_buf name = {0};
	uint64_t data;

	if (it->insn.target)
		name_place(&name, w, it->insn.target);
	v->text.len = 0;
	ipt_x86_print_data(&v->text, it->bytes, it->insn.len, it->ip, (enum ipt_xmode)mode,
			   w->opts->syntax, (const char *)name.data, &data);
	if (data) {
		name.len = 0;
		name_place(&name, w, data);
		ipt_buf_printf(&v->text, "  # 0x%" PRIx64, data);
		if (ipt_code_map(w->code, data))
			ipt_buf_printf(&v->text, " <%s>", (const char *)name.data);
	}
	ipt_buf_u8(&v->text, 0);
	ipt_buf_fini(&name);
}

static void show_text(struct insn *v, struct ipt_walk *w, const struct ipt_run_it *it, uint8_t mode)
{
	const struct ipt_map *map = ipt_code_map(w->code, it->ip);
	struct ipt_buf where = {0};

	look_up(v, w, map, it->ip);
	if (line_changed(v, w, map, it->ip))
		show_source(v, w);
	disassemble(v, w, it, mode);
	ipt_view_place(&where, v->func, it->ip, true);
	ipt_buf_u8(&where, 0);
	ipt_out_printf(w->out, "%16" PRIx64 " <", it->ip);
	ipt_out_escaped(w->out, (const char *)where.data);
	ipt_out_str(w->out, "> ");
	ipt_out_escaped(w->out, (const char *)v->text.data);
	ipt_out_str(w->out, "\n");
	ipt_buf_fini(&where);
}

static void json_thread(struct ipt_json *j, const struct ipt_walk *w)
{
	ipt_json_u64(j, "pid", w->thread->pid);
	ipt_json_u64(j, "tid", w->thread->tid);
	ipt_json_u64(j, "gen", w->thread->gen);
}

static void show_json(struct insn *v, struct ipt_walk *w, const struct ipt_run_it *it, uint8_t mode)
{
	const struct ipt_map *map = ipt_code_map(w->code, it->ip);
	struct ipt_buf b = {0};
	struct ipt_json j;

	look_up(v, w, map, it->ip);
	line_changed(v, w, map, it->ip);
	disassemble(v, w, it, mode);
	ipt_json_begin(&j, &b);
	ipt_json_open(&j, NULL, '{');
	json_thread(&j, w);
	ipt_json_u64(&j, "insn", v->nr);
	ipt_json_hex(&j, "ip", it->ip);
	ipt_json_str(&j, "symbol", v->func->name);
	ipt_json_u64(&j, "symbol_offset", it->ip - v->func->lo);
	ipt_json_str(&j, "module", v->func->module);
	ipt_json_u64(&j, "length", it->insn.len);
	ipt_json_str(&j, "text", (const char *)v->text.data);
	if (v->file) {
		ipt_json_str(&j, "file", v->file);
		ipt_json_u64(&j, "line", v->line);
	}
	ipt_json_close(&j, '}');
	ipt_view_json_line(w->out, &b);
	ipt_buf_fini(&b);
}

static int run(struct insn *v, struct ipt_walk *w, const struct ipt_ev *ev)
{
	struct ipt_run_it it = {0};
	uint32_t shown = 0;

	if (range_is_over(v, w))
		return IPT_WALK_ENOUGH;
	if (v->nr + ev->n <= w->opts->from_insn) {
		v->nr += ev->n;
		return 0;
	}
	if (v->ip_only && ev->n <= CACHE_INSNS && run_is_inside(v, w, ev) && show_cached(v, w, ev))
		return 0;
	for (; shown < ev->n && ipt_run_next(&it, w->code, ev); shown++, v->nr++) {
		if (!in_range(v, w))
			continue;
		if (v->ip_only)
			w->out->buf.len +=
				put_ip((char *)ipt_buf_reserve(&w->out->buf, IP_LINE), it.ip);
		else if (w->opts->json)
			show_json(v, w, &it, ev->how);
		else
			show_text(v, w, &it, ev->how);
		ipt_out_check(w->out);
	}
	/* The decoder counted them: a missing byte does not shift the numbers. */
	v->nr += ev->n - shown;
	return 0;
}

static void show_event_json(struct insn *v, struct ipt_walk *w, const struct ipt_ev *ev)
{
	struct ipt_buf b = {0};
	struct ipt_json j;

	ipt_buf_u8(&v->text, 0);
	ipt_json_begin(&j, &b);
	ipt_json_open(&j, NULL, '{');
	ipt_json_str(&j, "event", ipt_ev_name((enum ipt_ev_kind)ev->kind));
	json_thread(&j, w);
	ipt_json_u64(&j, "insn", v->nr);
	ipt_json_u64(&j, "offset", ev->off);
	ipt_json_str(&j, "text", (const char *)v->text.data);
	ipt_json_close(&j, '}');
	ipt_view_json_line(w->out, &b);
	ipt_buf_fini(&b);
}

static void show_left(struct insn *v, struct ipt_walk *w)
{
	if (v->left)
		ipt_out_str(w->out, "[disable: system call or interrupt instruction]\n");
	v->left = false;
}

/* A system call that comes back is seen by its instruction alone. */
static bool is_plain_syscall(struct insn *v, const struct ipt_walk *w, const struct ipt_ev *ev)
{
	if (w->opts->json || v->ip_only || !in_range(v, w))
		return false;
	if (ev->kind == IPT_EV_DISABLE && ev->how == IPT_DIS_SYNC) {
		v->left = true;
		return true;
	}
	if (ev->kind == IPT_EV_ENABLE && v->left && ev->br.to == v->run_end) {
		v->left = false;
		return true;
	}
	return false;
}

static void show_event(struct insn *v, struct ipt_walk *w, const struct ipt_ev *ev)
{
	if (v->ip_only || !in_range(v, w))
		return;
	v->text.len = 0;
	if (!ipt_view_event_text(&v->text, ev))
		return;
	if (w->opts->json) {
		show_event_json(v, w, ev);
		return;
	}
	show_left(v, w);
	ipt_buf_u8(&v->text, '\n');
	ipt_buf_append(&w->out->buf, v->text.data, v->text.len);
	ipt_out_check(w->out);
}

static int event(void *state, struct ipt_walk *w, const struct ipt_ev *ev)
{
	struct insn *v = state;

	if (ev->kind == IPT_EV_RUN) {
		v->run_end = ev->run.end;
		v->left = false;
		return run(v, w, ev);
	}
	if (is_plain_syscall(v, w, ev))
		return 0;
	if (ev->kind == IPT_EV_MAP || ev->kind == IPT_EV_EXEC)
		forget(v);
	show_event(v, w, ev);
	return 0;
}

static int gap(void *state, struct ipt_walk *w, const struct ipt_ev *ev)
{
	struct insn *v = state;

	/* Always shown: what is missing may lie inside the range asked for. */
	if (w->opts->json && !v->ip_only)
		ipt_view_gap_json(w->out, w->thread, ev);
	else if (!v->ip_only)
		show_event(v, w, ev);
	return 0;
}

const struct ipt_view_ops ipt_view_insn_ops = {
	.name = "insn",
	.names = true,
	.begin = begin,
	.thread_begin = thread_begin,
	.event = event,
	.gap = gap,
	.end = end,
};
