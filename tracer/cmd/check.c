/* SPDX-License-Identifier: MIT */
/*
 * check: validate a trace directory, then decode each thread with both decoders and compare the
 * instructions they list. A difference is located to within one window of instructions.
 */
#include "cmd.h"

#include <errno.h>
#include <stdlib.h>

#define WINDOW 4096u

struct listing {                     /* of one thread by one decoder */
	const struct ipt_code *code; /* lent */
	uint64_t n;                  /* instructions */
	uint64_t gaps;
	uint64_t hash;             /* of the addresses so far */
	IPT_VEC(uint64_t) windows; /* hash after each WINDOW instructions */
};

struct totals {
	uint64_t threads, insns, gaps, faults, differ;
};

void ipt_cmd_check_tables(struct ipt_opt_table t[IPT_MAX_TABLES])
{
	t[0].rows = ipt_opts_select;
	t[1].rows = ipt_opts_json;
}

static void add_insn(struct listing *l, uint64_t ip)
{
	l->hash = (l->hash ^ ip) * 0x9e3779b97f4a7c15ull;
	l->hash ^= l->hash >> 29;
	if (++l->n % WINDOW == 0)
		*ipt_vec_push(&l->windows) = l->hash;
}

static int on_events(void *arg, const struct ipt_ev *ev, size_t n)
{
	struct listing *l = arg;

	for (size_t i = 0; i < n; i++) {
		struct ipt_run_it it = {0};

		if (ev[i].kind == IPT_EV_GAP)
			l->gaps++;
		if (ev[i].kind != IPT_EV_RUN)
			continue;
		while (ipt_run_next(&it, l->code, &ev[i]))
			add_insn(l, it.ip);
	}
	return 0;
}

static int list(struct listing *l, struct ipt_store *st, struct ipt_images *im,
		const struct ipt_thread_info *t, const char *decoder, struct ipt_diag *diag)
{
	struct ipt_flow_cfg cfg = {.decoder = decoder, .no_time = true};
	struct ipt_flow_stats stats = {0};
	struct ipt_code *code = NULL;
	int err;

	err = ipt_code_new(&code, im, t, diag);
	if (err)
		return err;
	l->code = code;
	err = ipt_flow_decode(st, code, t, &cfg, on_events, l, &stats, diag);
	ipt_code_free(code);
	l->code = NULL;
	return err;
}

/* First instruction of the window in which the two differ; UINT64_MAX: they agree. */
static uint64_t first_difference(const struct listing *a, const struct listing *b)
{
	size_t n = ipt_min_u64(a->windows.n, b->windows.n);

	for (size_t i = 0; i < n; i++) {
		if (a->windows.v[i] != b->windows.v[i])
			return (uint64_t)i * WINDOW;
	}
	if (a->n == b->n && a->hash == b->hash)
		return UINT64_MAX;
	return (uint64_t)n * WINDOW;
}

static void tell_thread(struct ipt_json *j, const struct ipt_thread_info *t,
			const struct listing *a, const struct listing *b, uint64_t at)
{
	if (!j) {
		printf("thread %u.%u.%u: %llu instructions, %llu gaps: ", t->pid, t->tid, t->gen,
		       (unsigned long long)a->n, (unsigned long long)a->gaps);
		if (at == UINT64_MAX)
			puts("decoders agree");
		else
			printf("decoders differ in instructions %llu..%llu (%llu listed by insn)\n",
			       (unsigned long long)at, (unsigned long long)(at + WINDOW),
			       (unsigned long long)b->n);
		return;
	}
	ipt_json_open(j, NULL, '{');
	ipt_json_u64(j, "pid", t->pid);
	ipt_json_u64(j, "tid", t->tid);
	ipt_json_u64(j, "gen", t->gen);
	ipt_json_u64(j, "instructions_ref", a->n);
	ipt_json_u64(j, "instructions_insn", b->n);
	ipt_json_u64(j, "gaps", a->gaps);
	ipt_json_bool(j, "agree", at == UINT64_MAX);
	if (at != UINT64_MAX)
		ipt_json_u64(j, "differ_from", at);
	ipt_json_close(j, '}');
}

/* The recorder counted other instructions than the packets hold, and no gap says why. */
static bool count_differs(const struct ipt_thread_info *t, const struct listing *l)
{
	if (t->instructions == UINT64_MAX || t->instructions == l->n || l->gaps || t->n_gaps)
		return false;
	ipt_report_note("check", "thread %u.%u.%u: %llu instructions recorded, %llu decoded",
			t->pid, t->tid, t->gen, (unsigned long long)t->instructions,
			(unsigned long long)l->n);
	return true;
}

static int check_thread(struct ipt_store *st, struct ipt_images *im,
			const struct ipt_thread_info *t, struct totals *sum, struct ipt_json *j,
			struct ipt_diag *diag)
{
	struct listing a = {0}, b = {0};
	int err;

	err = list(&a, st, im, t, "ref", diag);
	if (!err)
		err = list(&b, st, im, t, "insn", diag);
	if (!err) {
		uint64_t at = first_difference(&a, &b);

		tell_thread(j, t, &a, &b, at);
		sum->threads++;
		sum->insns += a.n;
		sum->gaps += a.gaps;
		sum->differ += at != UINT64_MAX;
		sum->faults += count_differs(t, &a);
	}
	ipt_vec_fini(&a.windows);
	ipt_vec_fini(&b.windows);
	return err;
}

static int check_threads(struct ipt_store *st, const struct ipt_view_opts *v, struct totals *sum,
			 struct ipt_json *j, struct ipt_diag *diag)
{
	struct ipt_images *im = NULL;
	int err = ipt_images_new(&im, st, diag);

	for (size_t i = 0; !err && i < ipt_store_n_threads(st); i++) {
		const struct ipt_thread_info *t = ipt_store_thread(st, i);

		if ((!v->tid || v->tid == t->tid) && (!v->pid || v->pid == t->pid))
			err = check_thread(st, im, t, sum, j, diag);
	}
	ipt_images_free(im);
	if (!err && (v->tid || v->pid) && !sum->threads)
		err = ipt_diag_err(diag, ENOENT, 0, "no such thread in the trace");
	return err;
}

static void tell_totals(struct ipt_json *j, const struct totals *sum)
{
	if (!j) {
		printf("%llu threads, %llu instructions, %llu gaps, %llu faults, %llu threads "
		       "decoded differently\n",
		       (unsigned long long)sum->threads, (unsigned long long)sum->insns,
		       (unsigned long long)sum->gaps, (unsigned long long)sum->faults,
		       (unsigned long long)sum->differ);
		return;
	}
	ipt_json_close(j, ']');
	ipt_json_u64(j, "faults", sum->faults);
	ipt_json_u64(j, "gaps", sum->gaps);
	ipt_json_u64(j, "differ", sum->differ);
	ipt_json_bool(j, "ok", !sum->faults && !sum->differ);
	ipt_json_close(j, '}');
}

static int check_store(struct ipt_store *st, const struct ipt_view_opts *v)
{
	struct ipt_buf text = {0};
	struct totals sum = {0};
	struct ipt_json json;
	struct ipt_diag diag;
	int err;

	ipt_report_diag(&diag, "check");
	ipt_json_begin(&json, &text);
	ipt_json_open(&json, NULL, '{');
	ipt_json_str(&json, "dir", ipt_store_dir(st));
	ipt_json_open(&json, "threads", '[');
	err = ipt_store_validate(st, &diag);
	if (err >= 0) {
		sum.faults = (uint64_t)err;
		err = check_threads(st, v, &sum, v->json ? &json : NULL, &diag);
	}
	if (!err) {
		tell_totals(v->json ? &json : NULL, &sum);
		if (v->json)
			fwrite(text.data, 1, text.len, stdout);
	}
	ipt_buf_fini(&text);
	if (err)
		return ipt_report_err("check", err, &diag, ipt_store_dir(st));
	return sum.faults || sum.differ ? IPT_EXIT_DIFFERS : IPT_EXIT_OK;
}

int ipt_cmd_check(int argc, char **argv)
{
	struct ipt_store *st = NULL;
	struct ipt_read_opts o;
	int first, status = 0;

	first = ipt_read_parse("check", argc, argv, &o, &status);
	if (first >= 0)
		status = ipt_read_open("check", &st, argc, argv, first);
	if (st)
		status = check_store(st, &o.view);
	ipt_store_close(st);
	return status;
}
