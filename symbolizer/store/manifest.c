/* SPDX-License-Identifier: MIT */
/* manifest.json: written with our own JSON text, read by jansson (only here and in lldb_in.c). */
#include <stdlib.h>

#include <jansson.h>

#include "internal.h"

void ipt_manifest_init(struct ipt_manifest *m)
{
	*m = (struct ipt_manifest){.exit_status = -1};
	m->strs = ipt_intern_new();
	ipt_model_init(&m->sum);
}

void ipt_manifest_fini(struct ipt_manifest *m)
{
	free(m->argv);
	free(m->options);
	ipt_intern_free(m->strs);
	ipt_model_fini(&m->sum);
	*m = (struct ipt_manifest){0};
}

static const char *keep(struct ipt_manifest *m, const char *s)
{
	return ipt_intern_str(m->strs, s ? s : "");
}

static const char **keep_list(struct ipt_manifest *m, const char *const *list)
{
	const char **out;
	size_t n = 0;

	if (!list)
		return NULL;
	while (list[n])
		n++;
	out = ipt_xcalloc(n + 1, sizeof(*out));
	for (size_t i = 0; i < n; i++)
		out[i] = keep(m, list[i]);
	return out;
}

void ipt_manifest_set_info(struct ipt_manifest *m, const struct ipt_session_info *info)
{
	m->info = *info;
	m->info.engine = keep(m, info->engine);
	m->info.tool = keep(m, info->tool);
	m->info.host = keep(m, info->host);
	m->info.kernel = keep(m, info->kernel);
	m->info.command = keep(m, info->command);
	m->info.cwd = keep(m, info->cwd);
	m->argv = keep_list(m, info->argv);
	m->options = keep_list(m, info->options);
	m->info.argv = m->argv;
	m->info.options = m->options;
	m->info.cpu.vendor[sizeof(m->info.cpu.vendor) - 1] = 0;
}

/* --- writing --- */

static size_t utf8_len(const uint8_t *s)
{
	static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
	size_t n = *s < 0x80   ? 1
		   : *s < 0xc0 ? 0
		   : *s < 0xe0 ? 2
		   : *s < 0xf0 ? 3
		   : *s < 0xf8 ? 4
			       : 0;
	uint32_t cp;

	if (n < 2)
		return n;
	cp = *s & (0xffu >> (n + 1));
	for (size_t i = 1; i < n; i++) {
		if ((s[i] & 0xc0) != 0x80)
			return 0;
		cp = cp << 6 | (s[i] & 0x3f);
	}
	return cp < least[n] || cp > 0x10ffff || (cp >= 0xd800 && cp < 0xe000) ? 0 : n;
}

static bool is_utf8(const char *str)
{
	const uint8_t *s = (const uint8_t *)str;

	while (*s) {
		size_t n = utf8_len(s);

		if (!n)
			return false;
		s += n;
	}
	return true;
}

void ipt_manifest_str(struct ipt_json *j, const char *key, const char *s)
{
	struct ipt_buf hex = {0};

	if (!s || is_utf8(s)) {
		ipt_json_str(j, key, s);
		return;
	}
	for (; *s; s++) {
		static const char digit[] = "0123456789abcdef";

		ipt_buf_u8(&hex, (uint8_t)digit[(uint8_t)*s >> 4]);
		ipt_buf_u8(&hex, (uint8_t)digit[*s & 15]);
	}
	ipt_buf_u8(&hex, 0);
	ipt_json_open(j, key, '{');
	ipt_json_str(j, "bytes", (const char *)hex.data);
	ipt_json_close(j, '}');
	ipt_buf_fini(&hex);
}

static void write_list(struct ipt_json *j, const char *key, const char *const *list)
{
	if (!list) {
		ipt_json_null(j, key);
		return;
	}
	ipt_json_open(j, key, '[');
	for (; *list; list++)
		ipt_manifest_str(j, NULL, *list);
	ipt_json_close(j, ']');
}

/* JSON readers hold integers of 63 bits at most. */
static void write_u64(struct ipt_json *j, const char *key, uint64_t v)
{
	if (v > INT64_MAX)
		ipt_json_hex(j, key, v);
	else
		ipt_json_u64(j, key, v);
}

static void write_cpu(struct ipt_json *j, const struct ipt_cpu *cpu)
{
	ipt_json_open(j, "cpu", '{');
	ipt_manifest_str(j, "vendor", cpu->vendor);
	ipt_json_u64(j, "family", cpu->family);
	ipt_json_u64(j, "model", cpu->model);
	ipt_json_u64(j, "stepping", cpu->stepping);
	ipt_json_close(j, '}');
}

static void write_clocks(struct ipt_json *j, const struct ipt_clock *c)
{
	ipt_json_open(j, "clocks", '{');
	write_u64(j, "tsc_hz", c->tsc_hz);
	ipt_json_open(j, "cpuid_15h", '{');
	ipt_json_u64(j, "eax", c->cpuid_15h_eax);
	ipt_json_u64(j, "ebx", c->cpuid_15h_ebx);
	ipt_json_u64(j, "ecx", c->cpuid_15h_ecx);
	ipt_json_close(j, '}');
	ipt_json_u64(j, "mtc_freq", c->mtc_freq);
	ipt_json_u64(j, "nom_freq", c->nom_freq);
	ipt_json_u64(j, "mult", c->mult);
	ipt_json_u64(j, "shift", c->shift);
	/* Full 64 bits: beyond what JSON integers of other readers hold. */
	ipt_json_hex(j, "zero", c->zero);
	ipt_json_hex(j, "start_tsc", c->start_tsc);
	write_u64(j, "start_realtime_ns", c->start_realtime_ns);
	ipt_json_close(j, '}');
}

static void write_notes(struct ipt_json *j, const struct ipt_proc_info *p)
{
	if (!p->n_notes)
		return;
	ipt_json_open(j, "notes", '[');
	for (size_t i = 0; i < p->n_notes; i++)
		ipt_manifest_str(j, NULL, p->notes[i]);
	ipt_json_close(j, ']');
}

static void write_procs(struct ipt_json *j, const struct ipt_model *m)
{
	ipt_json_open(j, "processes", '[');
	for (size_t i = 0; m && i < m->procs.n && i < IPT_STORE_MAX_LISTED; i++) {
		const struct ipt_proc_info *p = m->procs.v[i];

		ipt_json_open(j, NULL, '{');
		ipt_json_u64(j, "pid", p->pid);
		ipt_json_u64(j, "gen", p->gen);
		ipt_json_u64(j, "ppid", p->ppid);
		ipt_manifest_str(j, "comm", p->comm);
		ipt_manifest_str(j, "exe", p->exe);
		ipt_json_i64(j, "status", p->status);
		write_notes(j, p);
		ipt_json_close(j, '}');
	}
	ipt_json_close(j, ']');
}

static void write_threads(struct ipt_json *j, const struct ipt_model *m)
{
	ipt_json_open(j, "threads", '[');
	for (size_t i = 0; m && i < m->threads.n && i < IPT_STORE_MAX_LISTED; i++) {
		const struct ipt_thread_info *t = m->threads.v[i];

		ipt_json_open(j, NULL, '{');
		ipt_json_u64(j, "pid", t->pid);
		ipt_json_u64(j, "tid", t->tid);
		ipt_json_u64(j, "gen", t->gen);
		ipt_manifest_str(j, "comm", t->comm);
		ipt_json_hex(j, "start_tsc", t->start_tsc);
		ipt_json_hex(j, "end_tsc", t->end_tsc);
		ipt_json_i64(j, "status", t->status);
		write_u64(j, "pt_bytes", t->pt_bytes);
		if (t->instructions == UINT64_MAX)
			ipt_json_null(j, "instructions");
		else
			ipt_json_hex(j, "instructions", t->instructions);
		if (t->step_instructions != UINT64_MAX)
			write_u64(j, "step_instructions", t->step_instructions);
		if (t->stops != UINT64_MAX)
			write_u64(j, "stops", t->stops);
		write_u64(j, "gaps", t->n_gaps);
		ipt_json_hex(j, "lost_bytes", t->lost_bytes);
		ipt_json_close(j, '}');
	}
	ipt_json_close(j, ']');
}

void ipt_manifest_write(struct ipt_buf *out, const struct ipt_manifest *m,
			const struct ipt_model *model)
{
	const struct ipt_session_info *in = &m->info;
	struct ipt_json j;

	ipt_json_begin(&j, out);
	ipt_json_open(&j, NULL, '{');
	ipt_json_str(&j, "format", "iptrace-trace");
	ipt_json_u64(&j, "version", IPT_FORMAT_VERSION);
	ipt_json_str(&j, "status", m->status == IPT_STATUS_COMPLETE ? "complete" : "running");
	ipt_manifest_str(&j, "tool", in->tool);
	ipt_manifest_str(&j, "engine", in->engine);
	ipt_manifest_str(&j, "host", in->host);
	ipt_manifest_str(&j, "kernel", in->kernel);
	write_cpu(&j, &in->cpu);
	write_clocks(&j, &in->clock);
	ipt_manifest_str(&j, "command", in->command);
	write_list(&j, "argv", in->argv);
	ipt_manifest_str(&j, "cwd", in->cwd);
	write_list(&j, "options", in->options);
	ipt_json_bool(&j, "noretcomp", in->noretcomp);
	ipt_json_bool(&j, "slowed", in->slowed);
	ipt_json_i64(&j, "exit_status", m->exit_status);
	write_u64(&j, "lost_records", m->lost_records);
	write_u64(&j, "records", m->records);
	write_procs(&j, model);
	write_threads(&j, model);
	ipt_json_close(&j, '}');
	ipt_buf_u8(out, '\n');
}

/* --- reading: a field that is missing gets its default, one of a wrong type is an error --- */

struct reader {
	struct ipt_manifest *m;
	struct ipt_diag *diag;
	int err;
};

static void complain(struct reader *r, const char *key, const char *what)
{
	if (!r->err)
		r->err = ipt_diag_err(r->diag, IPT_E_BADMAN, 0, IPT_NAME_MANIFEST ": %s: %s", key,
				      what);
}

static const char *bytes_of(struct reader *r, const char *hex, size_t n)
{
	struct ipt_buf b = {0};
	const char *s = NULL;
	unsigned v;

	for (size_t i = 0; i + 1 < n; i += 2) {
		char two[3] = {hex[i], hex[i + 1], 0};

		if (strspn(two, "0123456789abcdef") != 2 || sscanf(two, "%2x", &v) != 1 || !v)
			goto out;
		ipt_buf_u8(&b, (uint8_t)v);
	}
	if (n % 2 == 0)
		s = ipt_intern_strn(r->m->strs, b.len ? (const char *)b.data : "", b.len);
out:
	ipt_buf_fini(&b);
	return s;
}

static const char *get_str_value(struct reader *r, const char *key, json_t *v)
{
	json_t *b;
	const char *s;

	if (!v || json_is_null(v))
		return "";
	if (json_is_string(v))
		return ipt_intern_str(r->m->strs, json_string_value(v));
	b = json_object_get(v, "bytes");
	if (json_is_string(b)) {
		s = bytes_of(r, json_string_value(b), json_string_length(b));
		if (s)
			return s;
	}
	complain(r, key, "not a string");
	return "";
}

static const char *get_str(struct reader *r, json_t *o, const char *key)
{
	return get_str_value(r, key, json_object_get(o, key));
}

static uint64_t get_u64(struct reader *r, json_t *o, const char *key, uint64_t max)
{
	json_t *v = json_object_get(o, key);
	uint64_t u = 0;

	if (!v)
		return 0;
	if (json_is_integer(v) && json_integer_value(v) >= 0) {
		u = (uint64_t)json_integer_value(v);
	} else if (json_is_string(v)) {
		const char *s = json_string_value(v);

		if (strncmp(s, "0x", 2) || strlen(s) < 3 || strlen(s) > 18 ||
		    strspn(s + 2, "0123456789abcdef") != strlen(s + 2))
			complain(r, key, "not a number");
		else
			u = strtoull(s, NULL, 16);
	} else {
		complain(r, key, "not a number");
	}
	if (u > max)
		complain(r, key, "out of range");
	return u;
}

static int32_t get_status(struct reader *r, json_t *o, const char *key)
{
	json_t *v = json_object_get(o, key);
	json_int_t i;

	if (!v || json_is_null(v))
		return -1;
	i = json_integer_value(v);
	if (!json_is_integer(v) || i < INT32_MIN || i > INT32_MAX) {
		complain(r, key, "not a status");
		return -1;
	}
	return (int32_t)i;
}

static bool get_bool(struct reader *r, json_t *o, const char *key)
{
	json_t *v = json_object_get(o, key);

	if (v && !json_is_boolean(v))
		complain(r, key, "not true or false");
	return json_is_true(v);
}

static const char **get_list(struct reader *r, json_t *o, const char *key)
{
	json_t *v = json_object_get(o, key);
	const char **list;
	size_t n;

	if (!v || json_is_null(v))
		return NULL;
	if (!json_is_array(v)) {
		complain(r, key, "not a list");
		return NULL;
	}
	n = json_array_size(v);
	list = ipt_xcalloc(n + 1, sizeof(*list));
	for (size_t i = 0; i < n; i++)
		list[i] = get_str_value(r, key, json_array_get(v, i));
	return list;
}

static json_t *get_object(struct reader *r, json_t *o, const char *key)
{
	json_t *v = json_object_get(o, key);

	if (v && !json_is_object(v))
		complain(r, key, "not an object");
	return v;
}

static void read_clocks(struct reader *r, json_t *o, struct ipt_clock *c)
{
	json_t *x = get_object(r, o, "cpuid_15h");

	c->tsc_hz = get_u64(r, o, "tsc_hz", UINT64_MAX);
	c->cpuid_15h_eax = (uint32_t)get_u64(r, x, "eax", UINT32_MAX);
	c->cpuid_15h_ebx = (uint32_t)get_u64(r, x, "ebx", UINT32_MAX);
	c->cpuid_15h_ecx = (uint32_t)get_u64(r, x, "ecx", UINT32_MAX);
	c->mtc_freq = (uint8_t)get_u64(r, o, "mtc_freq", UINT8_MAX);
	c->nom_freq = (uint8_t)get_u64(r, o, "nom_freq", UINT8_MAX);
	c->mult = (uint32_t)get_u64(r, o, "mult", UINT32_MAX);
	c->shift = (uint16_t)get_u64(r, o, "shift", 63);
	c->zero = get_u64(r, o, "zero", UINT64_MAX);
	c->start_tsc = get_u64(r, o, "start_tsc", UINT64_MAX);
	c->start_realtime_ns = get_u64(r, o, "start_realtime_ns", UINT64_MAX);
}

/* A count that may be unknown. */
static uint64_t get_count(struct reader *r, json_t *o, const char *key)
{
	json_t *v = json_object_get(o, key);

	return v && !json_is_null(v) ? get_u64(r, o, key, UINT64_MAX) : UINT64_MAX;
}

static void read_thread(struct reader *r, json_t *o)
{
	struct ipt_thread_info *t;
	struct ipt_model *sum = &r->m->sum;

	if (!json_is_object(o)) {
		complain(r, "threads", "an entry is not an object");
		return;
	}
	t = ipt_xcalloc(1, sizeof(*t));
	*ipt_vec_push(&sum->threads) = t;
	t->pid = (uint32_t)get_u64(r, o, "pid", UINT32_MAX);
	t->tid = (uint32_t)get_u64(r, o, "tid", UINT32_MAX);
	t->gen = (uint32_t)get_u64(r, o, "gen", UINT32_MAX);
	t->comm = get_str(r, o, "comm");
	t->start_tsc = get_u64(r, o, "start_tsc", UINT64_MAX);
	t->end_tsc = get_u64(r, o, "end_tsc", UINT64_MAX);
	t->status = get_status(r, o, "status");
	t->pt_bytes = get_u64(r, o, "pt_bytes", UINT64_MAX);
	t->n_gaps = get_u64(r, o, "gaps", UINT64_MAX);
	t->lost_bytes = get_u64(r, o, "lost_bytes", UINT64_MAX);
	t->instructions = get_count(r, o, "instructions");
	t->step_instructions = get_count(r, o, "step_instructions");
	t->stops = get_count(r, o, "stops");
	ipt_u64map_put(&sum->by_tid, (uint64_t)t->gen << 32 | t->tid, t);
}

/* The sideband tells of processes; only the remarks on them are nowhere else. Those beyond the
 * limit are dropped. */
static void read_proc(struct reader *r, json_t *o)
{
	json_t *notes = json_object_get(o, "notes");
	struct ipt_model *sum = &r->m->sum;
	struct ipt_proc_info *p;
	size_t n = json_array_size(notes);

	if (!json_is_object(o) || (notes && !json_is_array(notes))) {
		complain(r, "processes", notes ? "notes are not a list" : "not an object");
		return;
	}
	if (!n)
		return;
	p = ipt_xcalloc(1, sizeof(*p));
	*ipt_vec_push(&sum->procs) = p;
	p->pid = (uint32_t)get_u64(r, o, "pid", UINT32_MAX);
	p->gen = (uint32_t)get_u64(r, o, "gen", UINT32_MAX);
	n = ipt_min_u64(n, IPT_STORE_MAX_NOTES);
	p->notes = ipt_xcalloc(n, sizeof(*p->notes));
	for (; p->n_notes < n; p->n_notes++)
		p->notes[p->n_notes] = get_str_value(r, "notes", json_array_get(notes, p->n_notes));
	sum->n_notes += n;
}

static void read_summary(struct reader *r, json_t *root)
{
	json_t *procs = json_object_get(root, "processes");
	json_t *threads = json_object_get(root, "threads");

	if ((procs && !json_is_array(procs)) || (threads && !json_is_array(threads))) {
		complain(r, procs && !json_is_array(procs) ? "processes" : "threads", "not a list");
		return;
	}
	if (json_array_size(threads) > IPT_STORE_MAX_THREADS)
		complain(r, "threads", "too many");
	for (size_t i = 0; !r->err && i < json_array_size(procs); i++)
		read_proc(r, json_array_get(procs, i));
	for (size_t i = 0; !r->err && i < json_array_size(threads); i++)
		read_thread(r, json_array_get(threads, i));
}

static void read_status(struct reader *r, json_t *root)
{
	const char *s = get_str(r, root, "status");

	r->m->status = !strcmp(s, "complete") ? IPT_STATUS_COMPLETE : IPT_STATUS_RUNNING;
	if (r->m->status == IPT_STATUS_RUNNING && strcmp(s, "running"))
		complain(r, "status", "neither running nor complete");
}

static void read_root(struct reader *r, json_t *root)
{
	struct ipt_session_info *in = &r->m->info;
	json_t *cpu = get_object(r, root, "cpu");
	const char *vendor = get_str(r, cpu, "vendor");

	read_status(r, root);
	in->tool = get_str(r, root, "tool");
	in->engine = get_str(r, root, "engine");
	in->host = get_str(r, root, "host");
	in->kernel = get_str(r, root, "kernel");
	in->command = get_str(r, root, "command");
	in->cwd = get_str(r, root, "cwd");
	if (strlen(vendor) >= sizeof(in->cpu.vendor))
		complain(r, "cpu.vendor", "too long");
	else
		strcpy(in->cpu.vendor, vendor);
	in->cpu.family = (uint32_t)get_u64(r, cpu, "family", UINT32_MAX);
	in->cpu.model = (uint32_t)get_u64(r, cpu, "model", UINT32_MAX);
	in->cpu.stepping = (uint32_t)get_u64(r, cpu, "stepping", UINT32_MAX);
	read_clocks(r, get_object(r, root, "clocks"), &in->clock);
	r->m->argv = get_list(r, root, "argv");
	r->m->options = get_list(r, root, "options");
	in->argv = r->m->argv;
	in->options = r->m->options;
	in->noretcomp = get_bool(r, root, "noretcomp");
	in->slowed = get_bool(r, root, "slowed");
	r->m->exit_status = get_status(r, root, "exit_status");
	r->m->lost_records = get_u64(r, root, "lost_records", UINT64_MAX);
	r->m->records = get_u64(r, root, "records", UINT64_MAX);
	read_summary(r, root);
}

/* Values are counted before they are parsed: two bytes of text can cost forty of memory. */
static bool too_many_values(const uint8_t *p, size_t n)
{
	size_t values = 0;

	for (size_t i = 0; i < n; i++)
		values += p[i] == ',' || p[i] == '[' || p[i] == '{';
	return values > IPT_STORE_MAX_VALUES + n / 4096;
}

int ipt_manifest_parse(struct ipt_manifest *m, const uint8_t *p, size_t n, struct ipt_diag *diag)
{
	struct reader r = {.m = m, .diag = diag};
	json_error_t why;
	json_t *root, *format;

	if (n > IPT_STORE_MAX_MANIFEST || too_many_values(p, n))
		return ipt_diag_err(diag, IPT_E_LIMIT, 0, IPT_NAME_MANIFEST ": too large");
	root = json_loadb((const char *)p, n, JSON_REJECT_DUPLICATES, &why);
	if (!root)
		return ipt_diag_err(diag, IPT_E_BADMAN, (uint64_t)why.position,
				    IPT_NAME_MANIFEST ": line %d: %s", why.line, why.text);
	format = json_object_get(root, "format");
	if (!json_is_string(format) || strcmp(json_string_value(format), "iptrace-trace"))
		r.err = ipt_diag_err(diag, IPT_E_NOTTRACE, 0,
				     IPT_NAME_MANIFEST ": not the manifest of a trace");
	else if (!ipt_sb_version_ok(get_u64(&r, root, "version", UINT64_MAX)) && !r.err)
		r.err = ipt_diag_err(diag, IPT_E_VERSION, 0,
				     IPT_NAME_MANIFEST ": this program reads versions 1 to %u",
				     IPT_FORMAT_VERSION);
	if (!r.err)
		read_root(&r, root);
	json_decref(root);
	return r.err;
}
