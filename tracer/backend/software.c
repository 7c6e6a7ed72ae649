/* SPDX-License-Identifier: MIT */
/* The software engines as backends: their packets go straight to the thread's file. */
#include "backend/backend.h"

#include <stdlib.h>

struct ipt_bthread {
	struct ipt_ethread *e;   /* owned */
	struct ipt_wthread *out; /* lent */
	uint64_t told;           /* instructions told to the writer so far */
};

static void sink(void *arg, const uint8_t *p, size_t n)
{
	struct ipt_bthread *t = arg;

	ipt_wthread_pt(t->out, p, n);
}

static void tell_count(struct ipt_bthread *t)
{
	uint64_t n = ipt_engine_step.insns(t->e);

	ipt_wthread_count(t->out, n - t->told);
	t->told = n;
}

static struct ipt_bthread *step_thread_new(const struct ipt_backend_cfg *cfg,
					   const struct ipt_remote_ops *remote, void *host,
					   struct ipt_wthread *out)
{
	struct ipt_bthread *t = ipt_xcalloc(1, sizeof(*t));

	t->out = out;
	t->e = ipt_engine_step.thread_new(&cfg->pt, remote, host, sink, t);
	return t;
}

static void step_thread_free(struct ipt_bthread *t)
{
	if (!t)
		return;
	tell_count(t);
	ipt_engine_step.thread_free(t->e);
	free(t);
}

static int step_probe(char *why, size_t n)
{
	snprintf(why, n, "works wherever ptrace does");
	return 0;
}

static void step_stopped(struct ipt_bthread *t, const struct ipt_stop *stop)
{
	ipt_engine_step.stopped(t->e, stop);
}

static enum ipt_resume step_resume(struct ipt_bthread *t, uint64_t tsc)
{
	return ipt_engine_step.resume(t->e, tsc) == IPT_HOW_STEP ? IPT_RESUME_STEP
								 : IPT_RESUME_SYSCALL;
}

static bool step_code_break(struct ipt_bthread *t, uint64_t tsc)
{
	ipt_engine_step.code_break(t->e, tsc);
	return true;
}

static bool step_own_trap(const struct ipt_bthread *t)
{
	return ipt_engine_step.own_trap(t->e);
}

static bool step_stale(const struct ipt_bthread *t)
{
	return ipt_engine_step.stale(t->e);
}

static uint64_t step_insns(const struct ipt_bthread *t)
{
	return ipt_engine_step.insns(t->e);
}

const struct ipt_backend_ops ipt_backend_step = {
	.name = "step",
	.about = "single-steps every thread: exact, 10^4 to 10^5 instructions a second",
	.slowed = true,
	.probe = step_probe,
	.thread_new = step_thread_new,
	.thread_free = step_thread_free,
	.stopped = step_stopped,
	.resume = step_resume,
	.code_break = step_code_break,
	.own_trap = step_own_trap,
	.stale = step_stale,
	.insns = step_insns,
};
