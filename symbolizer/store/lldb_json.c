/* SPDX-License-Identifier: MIT */
/* The text of an LLDB trace bundle (trace.json), in its present and its first form. */
#include <errno.h>
#include <stdlib.h>

#include <jansson.h>

#include "lldb_in.h"

struct ctx {
	struct ipt_diag *diag;
	char where[96]; /* "processes[0].threads[1]." */
	bool old_form;
	int err;
};

/* The first complaint stays; all later reading goes on with harmless values. */
static void complain(struct ctx *x, const char *key, const char *what)
{
	if (!x->err)
		x->err = ipt_diag_err(x->diag, IPT_E_BADJSON, 0, "%s%s: %s", x->where, key, what);
}

static json_t *need(struct ctx *x, json_t *o, const char *key)
{
	json_t *v = json_object_get(o, key);

	if (!v)
		complain(x, key, "missing");
	return v;
}

static uint64_t number(struct ctx *x, const char *key, json_t *v, bool strings, uint64_t max)
{
	uint64_t u = 0;
	char *end;

	if (json_is_integer(v) && json_integer_value(v) >= 0) {
		u = (uint64_t)json_integer_value(v);
	} else if (strings && json_is_string(v)) {
		const char *s = json_string_value(v);

		errno = 0;
		u = strtoull(s, &end, s[0] == '0' && (s[1] | 0x20) == 'x' ? 16 : 10);
		if (*s < '0' || *s > '9' || *end || errno)
			complain(x, key, "not a number");
	} else if (v) {
		complain(x, key, "not a number");
	}
	if (u > max)
		complain(x, key, "out of range");
	return u;
}

static uint64_t need_number(struct ctx *x, json_t *o, const char *key, bool strings, uint64_t max)
{
	return number(x, key, need(x, o, key), strings, max);
}

static char *text(struct ctx *x, const char *key, json_t *v)
{
	if (v && (!json_is_string(v) || !json_string_length(v) ||
		  json_string_length(v) != strlen(json_string_value(v)))) {
		complain(x, key, "not a text");
		return NULL;
	}
	return v ? ipt_xstrdup(json_string_value(v)) : NULL;
}

static json_t *list(struct ctx *x, json_t *o, const char *key, bool needed)
{
	json_t *v = needed ? need(x, o, key) : json_object_get(o, key);

	if (v && !json_is_array(v)) {
		complain(x, key, "not a list");
		return NULL;
	}
	return v;
}

static json_t *object(struct ctx *x, const char *key, json_t *v)
{
	if (v && !json_is_object(v)) {
		complain(x, key, "not an object");
		return NULL;
	}
	return v;
}

static void read_thread(struct ctx *x, struct ipt_lldb_thread *t, json_t *o)
{
	const char *key = x->old_form ? "traceFile" : "iptTrace";

	if (!object(x, "thread", o))
		return;
	t->tid = (uint32_t)need_number(x, o, "tid", false, INT32_MAX);
	t->trace = text(x, key, need(x, o, key));
}

static void read_module(struct ctx *x, struct ipt_lldb_module *m, json_t *o)
{
	if (!object(x, "module", o))
		return;
	m->path = text(x, "systemPath", need(x, o, "systemPath"));
	m->file = text(x, "file", json_object_get(o, "file"));
	m->uuid = text(x, "uuid", json_object_get(o, "uuid"));
	m->load = need_number(x, o, "loadAddress", true, UINT64_MAX);
}

static void read_process(struct ctx *x, struct ipt_lldb_process *p, json_t *o, size_t i)
{
	json_t *threads, *modules;

	snprintf(x->where, sizeof(x->where), "processes[%zu]", i);
	if (!json_is_object(o)) {
		complain(x, "", "not an object");
		return;
	}
	strcat(x->where, ".");
	p->pid = (uint32_t)need_number(x, o, "pid", false, INT32_MAX);
	free(text(x, "triple", x->old_form ? need(x, o, "triple") : json_object_get(o, "triple")));
	threads = list(x, o, "threads", true);
	modules = list(x, o, "modules", true);
	for (size_t k = 0; !x->err && k < json_array_size(threads); k++) {
		snprintf(x->where, sizeof(x->where), "processes[%zu].threads[%zu].", i, k);
		read_thread(x, ipt_vec_push(&p->threads), json_array_get(threads, k));
	}
	for (size_t k = 0; !x->err && k < json_array_size(modules); k++) {
		snprintf(x->where, sizeof(x->where), "processes[%zu].modules[%zu].", i, k);
		read_module(x, ipt_vec_push(&p->modules), json_array_get(modules, k));
	}
}

static void read_cpu(struct ctx *x, struct ipt_cpu *cpu, json_t *o)
{
	char *vendor;

	snprintf(x->where, sizeof(x->where), "cpuInfo.");
	vendor = text(x, "vendor", need(x, o, "vendor"));
	if (vendor && (!strcmp(vendor, "intel") || !strcmp(vendor, "GenuineIntel")))
		strcpy(cpu->vendor, "GenuineIntel");
	else if (vendor && !x->old_form && strlen(vendor) < sizeof(cpu->vendor))
		strcpy(cpu->vendor, vendor);
	else
		complain(x, "vendor", "unknown");
	free(vendor);
	cpu->family = (uint32_t)need_number(x, o, "family", false, UINT32_MAX);
	cpu->model = (uint32_t)need_number(x, o, "model", false, UINT32_MAX);
	cpu->stepping = (uint32_t)need_number(x, o, "stepping", false, UINT32_MAX);
	*x->where = 0;
}

static void read_clock(struct ctx *x, struct ipt_clock *c, json_t *o)
{
	if (!o)
		return;
	snprintf(x->where, sizeof(x->where), "tscPerfZeroConversion.");
	c->mult = (uint32_t)need_number(x, o, "timeMult", true, UINT32_MAX);
	c->shift = (uint16_t)need_number(x, o, "timeShift", true, 63);
	c->zero = need_number(x, o, "timeZero", true, UINT64_MAX);
	*x->where = 0;
}

static void read_root(struct ctx *x, struct ipt_lldb *b, json_t *root)
{
	json_t *head = root, *type, *procs, *cpu;

	if (!json_is_object(root)) {
		complain(x, "bundle", "not an object");
		return;
	}
	x->old_form = json_object_get(root, "trace") != NULL;
	if (x->old_form)
		head = object(x, "trace", json_object_get(root, "trace"));
	type = need(x, head, "type");
	if (type && (!json_is_string(type) || strcmp(json_string_value(type), "intel-pt")))
		complain(x, "type", "not \"intel-pt\"");
	if (x->err)
		return;
	if (json_object_get(root, "cpus") || json_object_get(root, "kernel")) {
		x->err = ipt_diag_err(x->diag, IPT_E_UNSUPPORTED, 0,
				      "%s: not supported yet: per-CPU trace",
				      json_object_get(root, "cpus") ? "cpus" : "kernel");
		return;
	}
	cpu = object(x, "cpuInfo", need(x, head, "cpuInfo"));
	if (cpu)
		read_cpu(x, &b->cpu, cpu);
	read_clock(
		x, &b->clock,
		object(x, "tscPerfZeroConversion", json_object_get(root, "tscPerfZeroConversion")));
	procs = list(x, root, "processes", true);
	for (size_t i = 0; !x->err && i < json_array_size(procs); i++)
		read_process(x, ipt_vec_push(&b->procs), json_array_get(procs, i), i);
}

/* jansson's integers have 63 bits and timeZero has 64: long runs of digits become strings, which
 * the format allows for these fields. */
static void quote_long_numbers(struct ipt_buf *out, const uint8_t *p, size_t n)
{
	bool in_string = false;

	for (size_t i = 0, run; i < n; i += run) {
		run = 1;
		if (in_string && p[i] == '\\' && i + 1 < n) {
			run = 2;
		} else if (p[i] == '"') {
			in_string = !in_string;
		} else if (!in_string && p[i] >= '0' && p[i] <= '9') {
			while (i + run < n && strchr("0123456789.eE+-", p[i + run]) && p[i + run])
				run++;
			if (run >= 19 && run <= 20 && (!i || p[i - 1] != '-')) {
				ipt_buf_u8(out, '"');
				ipt_buf_append(out, p + i, run);
				ipt_buf_u8(out, '"');
				continue;
			}
		}
		ipt_buf_append(out, p + i, run);
	}
}

int ipt_lldb_parse(struct ipt_lldb *b, const uint8_t *p, size_t n, struct ipt_diag *diag)
{
	struct ctx x = {.diag = diag};
	struct ipt_buf fixed = {0};
	json_error_t why;
	json_t *root;

	quote_long_numbers(&fixed, p, n);
	root = json_loadb(fixed.data ? (const char *)fixed.data : "", fixed.len, 0, &why);
	ipt_buf_fini(&fixed);
	if (!root)
		return ipt_diag_err(diag, IPT_E_BADJSON, (uint64_t)why.position, "line %d: %s",
				    why.line, why.text);
	read_root(&x, b, root);
	json_decref(root);
	return x.err;
}

void ipt_lldb_fini(struct ipt_lldb *b)
{
	for (size_t i = 0; i < b->procs.n; i++) {
		struct ipt_lldb_process *p = &b->procs.v[i];

		for (size_t k = 0; k < p->threads.n; k++)
			free(p->threads.v[k].trace);
		for (size_t k = 0; k < p->modules.n; k++) {
			free(p->modules.v[k].path);
			free(p->modules.v[k].file);
			free(p->modules.v[k].uuid);
		}
		ipt_vec_fini(&p->threads);
		ipt_vec_fini(&p->modules);
	}
	ipt_vec_fini(&b->procs);
}
