/* SPDX-License-Identifier: MIT */
/* The software engines as backends: their packets go straight to the thread's file. */
#include "backend/backend.h"

#include <stdlib.h>

struct ipt_bthread {
	struct ipt_ethread *e;    /* owned */
	struct ipt_wthread *out;  /* lent */
	struct ipt_xl_thread *xt; /* lent: it runs translated now and then */
	uint64_t translated;      /* instructions under former ones */
	uint64_t told;            /* instructions told to the writer so far */
};

static void sink(void *arg, const uint8_t *p, size_t n)
{
	struct ipt_bthread *t = arg;

	ipt_wthread_pt(t->out, p, n);
}

static uint64_t count(const struct ipt_bthread *t)
{
	return ipt_engine_step.insns(t->e) + t->translated +
	       (t->xt ? ipt_xl_thread_insns(t->xt) : 0);
}

static void tell_count(struct ipt_bthread *t)
{
	uint64_t n = count(t);

	ipt_wthread_count(t->out, n - t->told);
	t->told = n;
}

struct ipt_ptgen *ipt_software_ptgen(const struct ipt_bthread *t)
{
	return ipt_step_ptgen(t->e);
}

void ipt_software_translated(struct ipt_bthread *t, struct ipt_xl_thread *xt)
{
	if (t->xt)
		t->translated += ipt_xl_thread_insns(t->xt);
	t->xt = xt;
}

void ipt_software_at(struct ipt_bthread *t, const struct user_regs_struct *regs)
{
	ipt_step_at(t->e, regs);
}

bool ipt_software_idle(const struct ipt_bthread *t)
{
	return ipt_step_idle(t->e);
}

uint64_t ipt_software_stepped(const struct ipt_bthread *t)
{
	return ipt_engine_step.insns(t->e);
}

static struct ipt_bthread *software_thread_new(const struct ipt_backend_cfg *cfg,
					       const struct ipt_remote_ops *remote, void *host,
					       struct ipt_wthread *out)
{
	struct ipt_bthread *t = ipt_xcalloc(1, sizeof(*t));

	t->out = out;
	t->e = ipt_engine_step.thread_new(&cfg->pt, remote, host, sink, t);
	return t;
}

static void software_thread_free(struct ipt_bthread *t)
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

static void software_stopped(struct ipt_bthread *t, const struct ipt_stop *stop)
{
	ipt_engine_step.stopped(t->e, stop);
}

static enum ipt_resume software_resume(struct ipt_bthread *t, uint64_t tsc)
{
	return ipt_engine_step.resume(t->e, tsc) == IPT_HOW_STEP ? IPT_RESUME_STEP
								 : IPT_RESUME_SYSCALL;
}

static bool software_code_break(struct ipt_bthread *t, uint64_t tsc)
{
	if (t->xt && ipt_xl_thread_inside(t->xt))
		return ipt_xl_break(t->xt, tsc);
	ipt_engine_step.code_break(t->e, tsc);
	return true;
}

static bool software_own_trap(const struct ipt_bthread *t)
{
	return ipt_engine_step.own_trap(t->e);
}

static bool software_stale(const struct ipt_bthread *t)
{
	return ipt_engine_step.stale(t->e);
}

static uint64_t software_insns(const struct ipt_bthread *t)
{
	return count(t);
}

static int translate_probe(char *why, size_t n)
{
	snprintf(why, n, "there is no Processor Trace to use here");
	return 0;
}

/* Both step; one runs threads translated in between. */
#define SOFTWARE_OPS                                                                               \
	.slowed = true, .thread_new = software_thread_new, .thread_free = software_thread_free,    \
	.stopped = software_stopped, .resume = software_resume, .code_break = software_code_break, \
	.own_trap = software_own_trap, .stale = software_stale, .insns = software_insns

const struct ipt_backend_ops ipt_backend_translate = {
	.name = "translate",
	.about = "translates the program's code as it runs: complete, a few times slower",
	.translates = true,
	.probe = translate_probe,
	SOFTWARE_OPS,
};

const struct ipt_backend_ops ipt_backend_step = {
	.name = "step",
	.about = "single-steps every thread: exact, 10^4 to 10^5 instructions a second",
	.probe = step_probe,
	SOFTWARE_OPS,
};
