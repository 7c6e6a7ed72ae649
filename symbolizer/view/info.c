/* SPDX-License-Identifier: MIT */
/*
 * info and summary: what a trace holds, whether it is whole, and what it lost. Where the recorder
 * did not count instructions they are counted by decoding, so that the number is always there.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "view/view.h"
#include "view_priv.h"

struct thread_facts {
	const struct ipt_thread_info *t;
	uint64_t insns, gaps;
};

struct facts {
	struct ipt_store *st;
	const struct ipt_session_info *info;
	struct ipt_images *images; /* owned; NULL until something is decoded */
	struct thread_facts *thread;
	size_t n;
	uint64_t insns, gaps, pt_bytes, lost_bytes;
	uint64_t stepped, stops; /* UINT64_MAX: not known of all threads */
	bool complete;
};

static void add_known(uint64_t *sum, uint64_t n)
{
	*sum = *sum == UINT64_MAX || n == UINT64_MAX ? UINT64_MAX : *sum + n;
}

static int gather_thread(struct facts *f, const struct ipt_thread_info *t, const char *decoder,
			 struct ipt_diag *diag)
{
	struct thread_facts *tf = &f->thread[f->n];
	uint64_t found = 0;
	int err = 0;

	*tf = (struct thread_facts){t, t->instructions, t->n_gaps};
	if (t->instructions == UINT64_MAX) {
		if (!f->images)
			err = ipt_images_new(&f->images, f->st, diag);
		if (!err)
			err = ipt_walk_count(f->st, f->images, t, decoder, &tf->insns, &found,
					     diag);
		if (err)
			return err;
		tf->gaps += found;
	}
	f->n++;
	f->insns += tf->insns;
	f->gaps += tf->gaps;
	f->pt_bytes += t->pt_bytes;
	f->lost_bytes += t->lost_bytes;
	add_known(&f->stepped, t->step_instructions);
	add_known(&f->stops, t->stops);
	return 0;
}

static void facts_fini(struct facts *f)
{
	ipt_images_free(f->images);
	free(f->thread);
}

static int gather(struct facts *f, struct ipt_store *st, const struct ipt_view_opts *opts,
		  struct ipt_diag *diag)
{
	int err = 0;

	*f = (struct facts){.st = st, .info = ipt_store_info(st)};
	f->thread = ipt_xcalloc(ipt_store_n_threads(st) + 1, sizeof(*f->thread));
	for (size_t i = 0; !err && i < ipt_store_n_threads(st); i++) {
		const struct ipt_thread_info *t = ipt_store_thread(st, i);

		if (ipt_walk_wants(opts, t))
			err = gather_thread(f, t, opts->decoder, diag);
	}
	if (!f->n)
		f->stepped = f->stops = UINT64_MAX;
	f->complete =
		ipt_store_status(st) == IPT_STATUS_COMPLETE && !ipt_store_salvaged(st) && !f->gaps;
	if (err)
		facts_fini(f);
	return err;
}

static const char *status_name(const struct ipt_store *st)
{
	return ipt_store_status(st) == IPT_STATUS_COMPLETE ? "complete" : "running";
}

/* --- JSON --- */

static void json_words(struct ipt_json *j, const char *key, const char *const *words)
{
	if (!words) {
		ipt_json_null(j, key);
		return;
	}
	ipt_json_open(j, key, '[');
	for (; *words; words++)
		ipt_json_str(j, NULL, *words);
	ipt_json_close(j, ']');
}

/* Exit status as a shell gives it; null where it is not known. */
static void json_status(struct ipt_json *j, const char *key, int status)
{
	if (status == -1)
		ipt_json_null(j, key);
	else if (WIFSIGNALED(status))
		ipt_json_i64(j, key, 128 + WTERMSIG(status));
	else
		ipt_json_i64(j, key, WEXITSTATUS(status));
}

static void json_count(struct ipt_json *j, const char *key, uint64_t n)
{
	if (n == UINT64_MAX)
		ipt_json_null(j, key);
	else
		ipt_json_u64(j, key, n);
}

static void json_clock(struct ipt_json *j, const struct ipt_clock *c)
{
	ipt_json_open(j, "clocks", '{');
	ipt_json_u64(j, "tsc_hz", c->tsc_hz);
	ipt_json_u64(j, "mtc_freq", c->mtc_freq);
	ipt_json_u64(j, "nom_freq", c->nom_freq);
	ipt_json_u64(j, "cpuid_15h_eax", c->cpuid_15h_eax);
	ipt_json_u64(j, "cpuid_15h_ebx", c->cpuid_15h_ebx);
	ipt_json_u64(j, "mult", c->mult);
	ipt_json_u64(j, "shift", c->shift);
	ipt_json_u64(j, "zero", c->zero);
	ipt_json_u64(j, "start_tsc", c->start_tsc);
	ipt_json_u64(j, "start_realtime_ns", c->start_realtime_ns);
	ipt_json_close(j, '}');
}

static void json_session(struct ipt_json *j, const struct facts *f)
{
	const struct ipt_session_info *s = f->info;
	int status = ipt_store_exit_status(f->st);

	ipt_json_str(j, "engine", s->engine);
	ipt_json_bool(j, "complete", f->complete);
	ipt_json_str(j, "status", status_name(f->st));
	ipt_json_str(j, "salvaged", ipt_store_salvaged(f->st));
	json_status(j, "exit_status", status);
	ipt_json_u64(j, "instructions", f->insns);
	json_count(j, "step_instructions", f->stepped);
	json_count(j, "stops", f->stops);
	ipt_json_u64(j, "pt_bytes", f->pt_bytes);
	ipt_json_u64(j, "gaps", f->gaps);
	ipt_json_u64(j, "lost_bytes", f->lost_bytes);
	ipt_json_str(j, "tool", s->tool);
	ipt_json_str(j, "command", s->command);
	json_words(j, "argv", s->argv);
	json_words(j, "options", s->options);
	ipt_json_str(j, "cwd", s->cwd);
	ipt_json_str(j, "host", s->host);
	ipt_json_str(j, "kernel", s->kernel);
	ipt_json_open(j, "cpu", '{');
	ipt_json_str(j, "vendor", s->cpu.vendor);
	ipt_json_u64(j, "family", s->cpu.family);
	ipt_json_u64(j, "model", s->cpu.model);
	ipt_json_u64(j, "stepping", s->cpu.stepping);
	ipt_json_close(j, '}');
	json_clock(j, &s->clock);
	ipt_json_bool(j, "slowed", s->slowed);
	ipt_json_bool(j, "ret_compression", !s->noretcomp);
}

static void json_procs(struct ipt_json *j, const struct ipt_store *st)
{
	ipt_json_open(j, "processes", '[');
	for (size_t i = 0; i < ipt_store_n_procs(st); i++) {
		const struct ipt_proc_info *p = ipt_store_proc(st, i);

		ipt_json_open(j, NULL, '{');
		ipt_json_u64(j, "pid", p->pid);
		ipt_json_u64(j, "gen", p->gen);
		ipt_json_u64(j, "ppid", p->ppid);
		ipt_json_str(j, "comm", p->comm);
		ipt_json_str(j, "exe", p->exe);
		json_status(j, "exit_status", p->status);
		ipt_json_open(j, "notes", '[');
		for (size_t k = 0; k < p->n_notes; k++)
			ipt_json_str(j, NULL, p->notes[k]);
		ipt_json_close(j, ']');
		ipt_json_close(j, '}');
	}
	ipt_json_close(j, ']');
}

static void json_threads(struct ipt_json *j, const struct facts *f)
{
	ipt_json_open(j, "threads", '[');
	for (size_t i = 0; i < f->n; i++) {
		const struct ipt_thread_info *t = f->thread[i].t;

		ipt_json_open(j, NULL, '{');
		ipt_json_u64(j, "pid", t->pid);
		ipt_json_u64(j, "tid", t->tid);
		ipt_json_u64(j, "gen", t->gen);
		ipt_json_str(j, "comm", t->comm);
		ipt_json_u64(j, "pt_bytes", t->pt_bytes);
		ipt_json_u64(j, "instructions", f->thread[i].insns);
		json_count(j, "step_instructions", t->step_instructions);
		json_count(j, "stops", t->stops);
		ipt_json_u64(j, "gaps", f->thread[i].gaps);
		ipt_json_u64(j, "lost_bytes", t->lost_bytes);
		ipt_json_str(j, "file", ipt_store_pt_name(f->st, t));
		json_status(j, "exit_status", t->status);
		ipt_json_close(j, '}');
	}
	ipt_json_close(j, ']');
}

static void hex_of(char *to, const uint8_t *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		sprintf(to + 2 * i, "%02x", p[i]);
	to[2 * n] = 0;
}

/* One entry a content, however often it is mapped. */
static void json_images(struct ipt_json *j, const struct ipt_store *st)
{
	struct ipt_u64map seen = {0};

	ipt_json_open(j, "images", '[');
	for (size_t i = 0; i < ipt_store_n_recs(st); i++) {
		const struct ipt_rec *r = ipt_store_rec(st, i);
		char hex[2 * IPT_IMAGE_ID_LEN + 1];
		struct ipt_rec_map m;
		uint64_t key;

		if ((r->h.type != IPT_SB_MAP && r->h.type != IPT_SB_CODE) ||
		    ipt_rec_map_parse(&m, r))
			continue;
		memcpy(&key, m.m.image, sizeof(key));
		if (ipt_u64map_put(&seen, key, &seen))
			continue;
		hex_of(hex, m.m.image, IPT_IMAGE_ID_LEN);
		ipt_json_open(j, NULL, '{');
		ipt_json_str(j, "path", m.path);
		ipt_json_str(j, "id", hex);
		ipt_json_hex(j, "start", m.m.start);
		ipt_json_u64(j, "size", m.m.end - m.m.start);
		ipt_json_close(j, '}');
	}
	ipt_json_close(j, ']');
	ipt_u64map_fini(&seen);
}

static void show_json(const struct facts *f, struct ipt_out *out)
{
	struct ipt_json j;

	ipt_json_begin(&j, &out->buf);
	ipt_json_open(&j, NULL, '{');
	ipt_json_str(&j, "trace", ipt_store_dir(f->st));
	json_session(&j, f);
	json_procs(&j, f->st);
	json_threads(&j, f);
	json_images(&j, f->st);
	ipt_json_close(&j, '}');
	ipt_out_check(out);
}

/* --- text --- */

static void field(struct ipt_out *o, const char *name, const char *value)
{
	ipt_out_printf(o, "%-13s", name);
	ipt_out_escaped(o, value ? value : "unknown");
	ipt_out_str(o, "\n");
}

static void number(struct ipt_out *o, const char *name, uint64_t v)
{
	struct ipt_buf b = {0};

	ipt_view_u64(&b, v);
	ipt_buf_u8(&b, 0);
	field(o, name, (const char *)b.data);
	ipt_buf_fini(&b);
}

static void words(struct ipt_out *o, const char *name, const char *const *w)
{
	ipt_out_printf(o, "%-13s", name);
	for (; w && *w; w++) {
		ipt_out_escaped(o, *w);
		ipt_out_str(o, w[1] ? " " : "");
	}
	ipt_out_str(o, "\n");
}

static void exit_text(struct ipt_out *o, int status)
{
	if (status == -1)
		field(o, "exit", "unknown");
	else if (WIFSIGNALED(status))
		ipt_out_printf(o, "%-13skilled by signal %d\n", "exit", WTERMSIG(status));
	else
		ipt_out_printf(o, "%-13sstatus %d\n", "exit", WEXITSTATUS(status));
}

static void whole_text(struct ipt_out *o, const struct facts *f)
{
	const char *salvaged = ipt_store_salvaged(f->st);

	if (f->complete) {
		field(o, "complete", "yes");
		return;
	}
	ipt_out_printf(o, "%-13sno", "complete");
	if (ipt_store_status(f->st) != IPT_STATUS_COMPLETE)
		ipt_out_str(o, "; the recorder has not finished it");
	if (salvaged) {
		ipt_out_str(o, "; salvaged: ");
		ipt_out_escaped(o, salvaged);
	}
	if (f->gaps)
		ipt_out_printf(o, "; [gap: %" PRIu64 " gaps, at least %" PRIu64 " bytes lost]",
			       f->gaps, f->lost_bytes);
	ipt_out_str(o, "\n");
}

/* How much of the program an engine that translates left to single-stepping, and how often it had
 * to stop it: what makes such a recording slow. */
static void stepped_text(struct ipt_buf *b, const struct facts *f)
{
	double share = f->insns ? 100 * (double)f->stepped / (double)f->insns : 0;

	ipt_view_u64(b, f->stepped);
	ipt_buf_str(b, " of ");
	ipt_view_u64(b, f->insns);
	if (share > 0 && share < 0.001)
		ipt_buf_str(b, " instructions (below 0.001 %)");
	else
		ipt_buf_printf(b, " instructions (%.3f %%)", share);
}

static void stops_text(struct ipt_buf *b, const struct facts *f)
{
	double rate = f->insns ? 1e6 * (double)f->stops / (double)f->insns : 0;

	ipt_view_u64(b, f->stops);
	ipt_buf_printf(b, " (%.1f per million instructions)", rate);
}

static void cost_text(struct ipt_out *o, const struct facts *f, const char *name, uint64_t n,
		      void (*text)(struct ipt_buf *, const struct facts *))
{
	bool translates = f->info->engine && !strcmp(f->info->engine, "translate");
	struct ipt_buf b = {0};

	if (n == UINT64_MAX) {
		if (translates)
			field(o, name, NULL);
		return;
	}
	text(&b, f);
	ipt_buf_u8(&b, 0);
	field(o, name, (const char *)b.data);
	ipt_buf_fini(&b);
}

static void notes_text(struct ipt_out *o, const struct facts *f)
{
	const char *before = "\n";

	for (size_t i = 0; i < ipt_store_n_procs(f->st); i++) {
		const struct ipt_proc_info *p = ipt_store_proc(f->st, i);

		for (size_t k = 0; k < p->n_notes; k++) {
			ipt_out_printf(o, "%snote: %u: ", before, p->pid);
			ipt_out_escaped(o, p->notes[k]);
			ipt_out_str(o, "\n");
			before = "";
		}
	}
}

static void threads_text(struct ipt_out *o, const struct facts *f)
{
	ipt_out_printf(o, "\n%-24s %15s %12s %6s %12s  %s\n", "thread", "instructions", "pt bytes",
		       "gaps", "lost bytes", "comm");
	for (size_t i = 0; i < f->n; i++) {
		const struct ipt_thread_info *t = f->thread[i].t;
		char id[48];

		snprintf(id, sizeof(id), "%u.%u.%u", t->pid, t->tid, t->gen);
		ipt_out_printf(o, "%-24s", id);
		ipt_view_column(o, 16, f->thread[i].insns);
		ipt_view_column(o, 13, t->pt_bytes);
		ipt_view_column(o, 7, f->thread[i].gaps);
		ipt_view_column(o, 13, t->lost_bytes);
		ipt_out_str(o, "  ");
		ipt_out_escaped(o, t->comm ? t->comm : "");
		ipt_out_str(o, "\n");
	}
}

static void show_text(const struct facts *f, struct ipt_out *o)
{
	const struct ipt_session_info *s = f->info;

	field(o, "trace", ipt_store_dir(f->st));
	whole_text(o, f);
	field(o, "engine", s->engine);
	field(o, "tool", s->tool);
	words(o, "program", s->argv);
	field(o, "folder", s->cwd);
	exit_text(o, ipt_store_exit_status(f->st));
	field(o, "host", s->host);
	field(o, "kernel", s->kernel);
	ipt_out_printf(o, "%-13s", "cpu");
	ipt_out_escaped(o, s->cpu.vendor);
	ipt_out_printf(o, " family %u model %u stepping %u\n", s->cpu.family, s->cpu.model,
		       s->cpu.stepping);
	number(o, "tsc hz", s->clock.tsc_hz);
	if (s->slowed)
		field(o, "times", "of a run slowed by software");
	number(o, "processes", ipt_store_n_procs(f->st));
	number(o, "threads", f->n);
	number(o, "instructions", f->insns);
	cost_text(o, f, "stepped", f->stepped, stepped_text);
	cost_text(o, f, "stops", f->stops, stops_text);
	number(o, "pt bytes", f->pt_bytes);
	threads_text(o, f);
	notes_text(o, f);
}

int ipt_view_info(struct ipt_store *st, const struct ipt_view_opts *opts, struct ipt_out *out,
		  struct ipt_diag *diag)
{
	struct facts f;
	int err = gather(&f, st, opts, diag);

	if (err)
		return err;
	if (opts->json)
		show_json(&f, out);
	else
		show_text(&f, out);
	facts_fini(&f);
	return 0;
}

static void plural(struct ipt_buf *b, uint64_t n, const char *one, const char *more)
{
	ipt_view_u64(b, n);
	ipt_buf_printf(b, " %s", n == 1 ? one : more);
}

static void summary_counts(struct ipt_buf *b, const struct facts *f)
{
	ipt_buf_str(b, "iptrace: ");
	plural(b, f->insns, "instruction", "instructions");
	ipt_buf_str(b, " of ");
	plural(b, f->n, "thread", "threads");
	ipt_buf_str(b, " in ");
	plural(b, ipt_store_n_procs(f->st), "process", "processes");
	ipt_buf_str(b, ", ");
	plural(b, f->pt_bytes, "byte", "bytes");
	ipt_buf_str(b, " of PT");
	if (f->gaps) {
		ipt_buf_str(b, "; [gap: ");
		plural(b, f->gaps, "gap", "gaps");
		ipt_buf_str(b, ", at least ");
		ipt_view_u64(b, f->lost_bytes);
		ipt_buf_str(b, " bytes lost]\n");
	} else {
		ipt_buf_str(b, f->complete ? "; nothing lost\n" : "; not complete\n");
	}
}

/* Children that were let go untraced, since following was not asked for. */
static size_t not_followed(const struct ipt_store *st)
{
	size_t n = 0;

	for (size_t i = 0; i < ipt_store_n_recs(st); i++) {
		const struct ipt_rec *r = ipt_store_rec(st, i);
		struct ipt_sb_fork fork;

		if (r->h.type != IPT_SB_FORK || r->n < sizeof(fork))
			continue;
		memcpy(&fork, r->payload, sizeof(fork));
		n += fork.kind != IPT_SB_FORK_THREAD && fork.child_gen == UINT32_MAX;
	}
	return n;
}

/* Each line says whose it is: it stands among the program's own. */
int ipt_view_summary(struct ipt_store *st, const struct ipt_view_opts *opts, struct ipt_out *out,
		     struct ipt_diag *diag)
{
	struct ipt_buf b = {0};
	struct facts f;
	int err = gather(&f, st, opts, diag);

	if (err)
		return err;
	summary_counts(&b, &f);
	if (not_followed(st)) {
		ipt_buf_str(&b, "iptrace: ");
		plural(&b, not_followed(st), "child process", "child processes");
		ipt_buf_str(&b, " not followed (-f follows)\n");
	}
	ipt_buf_str(&b, "iptrace: trace: ");
	ipt_escape_term(&b, ipt_store_dir(st));
	ipt_buf_str(&b, ", engine ");
	ipt_escape_term(&b, f.info->engine ? f.info->engine : "unknown");
	if (f.info->slowed)
		ipt_buf_str(&b, "; times are those of a run slowed by software");
	ipt_buf_str(&b,
		    "\niptrace: next: iptrace tree, iptrace report, iptrace insn, iptrace info\n");
	ipt_buf_append(&out->buf, b.data, b.len);
	ipt_buf_fini(&b);
	facts_fini(&f);
	ipt_out_check(out);
	return 0;
}
