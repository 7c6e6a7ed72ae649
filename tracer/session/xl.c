/* SPDX-License-Identifier: MIT */
/*
 * Threads that run translated. To the rest of the session such a thread does not differ: whenever
 * it stops, its registers become those that it would have without us, and what cannot be done
 * translated is stepped.
 */
#include <sys/ptrace.h>

#include "session/priv.h"

/* --- what conversion hands out --- */

static void take_pt(void *arg, const uint8_t *p, size_t n)
{
	ipt_wthread_pt(((struct thr *)arg)->out, p, n);
}

/* Changes of code that the thread meets only now. */
static void tell_changes(struct thr *t, uint32_t epoch)
{
	const struct aspace *as = t->proc->as;
	struct ipt_sb_head h = ipt_thr_head(t);

	uint64_t seq = 0;

	/* The last of them settles those before it. */
	while (t->told_changes < as->changes.n && as->changes.v[t->told_changes].epoch <= epoch)
		seq = as->changes.v[t->told_changes++].seq;
	ipt_writer_at(t->sess->w, &h, seq);
}

static void on_epoch(void *arg, uint32_t epoch)
{
	tell_changes(arg, epoch);
}

static void on_lost(void *arg)
{
	const struct thr *t = arg;
	struct ipt_sb_head h = ipt_thr_head(t);
	struct ipt_sb_gap gap = {.cause = IPT_GAP_REFUSED};

	ipt_writer_gap(t->sess->w, &h, &gap, "the program wrote over its own records");
}

static void log_ip(void *arg, uint64_t ip)
{
	ipt_remote.log_ip(arg, ip);
}

/* --- in and out --- */

static void forget_thread(struct thr *t)
{
	if (!t->xt)
		return;
	ipt_software_translated(t->bt, NULL);
	t->n_stops += ipt_xl_thread_asks(t->xt);
	ipt_xl_thread_free(t->xt);
	t->xt = NULL;
}

static bool make_thread(struct thr *t)
{
	struct ipt_xl_sink sink = {.pt = take_pt,
				   .epoch = on_epoch,
				   .lost = on_lost,
				   .log_ip = t->step_log ? log_ip : NULL};

	if (t->xt)
		return true;
	t->xt = ipt_xl_thread_new(t->proc->as->xl, t->sess->pool, ipt_software_ptgen(t->bt), &sink,
				  t);
	if (t->xt)
		ipt_software_translated(t->bt, t->xt);
	return t->xt;
}

/* The last thread has left translations that were given up. */
static void drop_space(struct thr *t)
{
	struct aspace *as = t->proc->as;
	size_t it = 0;
	uint64_t key;
	void *v;

	while (ipt_u64map_next(&t->sess->threads, &it, &key, &v)) {
		struct thr *o = v;

		if (o->proc && o->proc->as == as)
			forget_thread(o);
	}
	ipt_xl_unmap(t);
	ipt_xl_unshare(as->xl);
	as->xl = NULL;
	as->xl_retire = false;
	as->changes.n = 0;
}

static void refuse(struct thr *t, const char *why)
{
	t->proc->as->xl_why = why;
	ipt_writer_note(t->sess->w, t->proc->pid, why);
}

/* Is there, or can there be, a place for the thread to run translated? */
static bool ready(struct thr *t)
{
	struct aspace *as = t->proc->as;
	const char *why;

	if (as->xl_why)
		return false;
	/* Code memory that the others do not have mapped cannot be added. */
	if (as->xl && (ipt_xl_full(as->xl) ||
		       (ipt_xl_sharers(as->xl) > 1 && !ipt_xl_near(as->xl, t->regs.rip))))
		ipt_xl_retire(t->sess, as);
	if (as->xl && as->xl_retire) {
		if (as->n_inside)
			return false;
		drop_space(t);
	}
	if (!as->xl) {
		why = ipt_xl_setup(t);
		if (why) {
			refuse(t, why);
			return false;
		}
	}
	return (ipt_xl_near(as->xl, t->regs.rip) || ipt_xl_map_cluster(t, t->regs.rip)) &&
	       make_thread(t);
}

bool ipt_xl_try_enter(struct thr *t)
{
	struct user_regs_struct regs;
	struct aspace *as = t->proc->as;

	if (!t->sess->pool || !ipt_software_idle(t->bt) || t->in_syscall || t->renewing)
		return false;
	if (t->must_step) {
		t->must_step = false;
		return false;
	}
	if (!ipt_aspace_find(as, t->regs.rip)) {
		ipt_sess_check_code(t);
		if (!ipt_aspace_find(as, t->regs.rip))
			return false;
	}
	if (!ready(t))
		return false;
	regs = t->regs;
	ipt_xl_host(as->xl, t);
	ipt_u64map_fini(&as->fresh);
	ipt_trap_restore(t);
	if (!ipt_xl_thread_enter(t->xt, &regs, ipt_sess_tsc()))
		return false;
	t->told_changes = as->changes.n;
	regs.orig_rax = (uint64_t)-1;
	if (ptrace(PTRACE_SETREGS, t->tid, NULL, &regs) < 0) {
		/* It is being killed, and never goes in. */
		ipt_xl_thread_gone(t->xt, ipt_sess_tsc());
		return false;
	}
	as->n_inside++;
	t->n_steps = 0;
	ipt_place_free(t->sess);
	return true;
}

/* The address of the last x87 instruction, which FNSTENV and signal frames show. */
static void put_x87_address(struct thr *t)
{
	struct user_fpregs_struct fp;
	uint64_t ip;

	if (ptrace(PTRACE_GETFPREGS, t->tid, NULL, &fp) < 0 ||
	    !ipt_xl_inside(t->proc->as->xl, fp.rip))
		return;
	ip = ipt_xl_original(t->proc->as->xl, fp.rip);
	if (!ip)
		return;
	fp.rip = ip;
	ptrace(PTRACE_SETFPREGS, t->tid, NULL, &fp);
}

/* One more has left: is it time for the one that is held? */
static void release(struct aspace *as)
{
	struct thr *t = as->last;

	if (!t || as->n_inside)
		return;
	as->last = NULL;
	ipt_thr_detach(t, 0);
}

void ipt_xl_left(struct thr *t)
{
	struct user_regs_struct regs = t->regs;

	if (!t->xt || !ipt_xl_thread_inside(t->xt))
		return;
	t->n_stops++;
	t->asked_stop = false;
	t->proc->as->n_inside--;
	put_x87_address(t);
	ipt_xl_host(t->proc->as->xl, t);
	if (!ipt_xl_thread_leave(t->xt, &regs, ipt_sess_tsc()))
		ipt_sess_warn(t->sess, "thread %d: stopped at 0x%llx, a place that is not known",
			      t->tid, (unsigned long long)t->regs.rip);
	tell_changes(t, UINT32_MAX);
	/* A thread that is being killed keeps its own; what it stood at is known all the same. */
	t->dying = ptrace(PTRACE_SETREGS, t->tid, NULL, &regs) < 0;
	t->regs = regs;
	ipt_software_at(t->bt, &t->regs);
	release(t->proc->as);
}

/* The addresses of the instructions that SIGFPE, SIGILL and SIGSYS tell of are the program's. */
void ipt_xl_fix_siginfo(struct thr *t, siginfo_t *si)
{
	const struct aspace *as = t->proc->as;
	bool code = si->si_signo == SIGFPE || si->si_signo == SIGILL || si->si_signo == SIGSYS;

	if (!as->xl || si->si_code <= 0 || !code || !ipt_xl_inside(as->xl, (uintptr_t)si->si_addr))
		return;
	si->si_addr = (void *)(uintptr_t)t->regs.rip;
	ptrace(PTRACE_SETSIGINFO, t->tid, NULL, si);
}

void ipt_xl_end(struct thr *t)
{
	struct aspace *as = t->proc->as;

	if (as->last == t)
		as->last = NULL;
	if (!t->xt)
		return;
	if (ipt_xl_thread_inside(t->xt)) {
		as->n_inside--;
		ipt_xl_thread_gone(t->xt, ipt_sess_tsc());
	}
	forget_thread(t);
	release(as);
}

enum ipt_xl_go ipt_xl_may_go(struct thr *t, int sig)
{
	struct aspace *as = t->proc ? t->proc->as : NULL;

	if (t->let_go || !t->bt || !as || !as->xl || as->last)
		return IPT_XL_GO;
	/* Syscalls are made for it neither within another nor instead of a signal. */
	if (t->in_syscall || sig)
		return IPT_XL_GO_LATER;
	if (!as->n_inside)
		return IPT_XL_GO;
	as->last = t;
	return IPT_XL_GO_HELD;
}

void ipt_xl_let_go(struct thr *t, int sig)
{
	struct aspace *as = t->proc ? t->proc->as : NULL;
	bool able = t->bt && !t->in_syscall && !sig && t->sess->detaching;

	forget_thread(t);
	if (able && as && as->xl && !as->n_inside)
		drop_space(t);
}

void ipt_xl_give_up(struct sess *s)
{
	size_t it = 0;
	uint64_t key;
	void *v;

	while (ipt_u64map_next(&s->procs, &it, &key, &v)) {
		struct aspace *as = ((const struct proc *)v)->as;
		struct thr *t = as->last;

		if (!t)
			continue;
		as->last = NULL;
		ipt_sess_warn(s, "process %d: a thread does not stop; our memory stays in it",
			      t->proc->pid);
		ipt_thr_detach(t, 0);
		it = 0; /* the table may have changed */
	}
}

/* --- changes of code --- */

static void stop_inside(struct sess *s, const struct aspace *as)
{
	size_t it = 0;
	uint64_t key;
	void *v;

	while (ipt_u64map_next(&s->threads, &it, &key, &v)) {
		struct thr *t = v;

		if (t->proc && t->proc->as == as && t->xt && ipt_xl_thread_inside(t->xt) &&
		    !t->asked_stop) {
			t->asked_stop = true;
			ptrace(PTRACE_INTERRUPT, t->tid, NULL, NULL);
		}
	}
}

void ipt_xl_retire(struct sess *s, struct aspace *as)
{
	as->xl_retire = true;
	stop_inside(s, as);
}

void ipt_xl_changed(struct thr *t, uint64_t start, uint64_t end, uint64_t seq)
{
	struct aspace *as = t->proc->as;
	struct code_change *c;

	if (!as->xl)
		return;
	c = ipt_vec_push(&as->changes);
	*c = (struct code_change){.epoch = UINT32_MAX, .seq = seq};
	/* Another process runs the same translations: it keeps them. */
	if (ipt_xl_sharers(as->xl) > 1) {
		ipt_xl_retire(t->sess, as);
	} else {
		if (end > start)
			ipt_xl_invalidate(as->xl, start, end);
		c->epoch = ipt_xl_bump(as->xl);
	}
	if (t->xt)
		ipt_xl_thread_told(t->xt);
	t->told_changes = as->changes.n;
}

void ipt_xl_added(struct thr *t)
{
	struct aspace *as = t->proc->as;

	if (as->xl && ipt_xl_sharers(as->xl) > 1)
		ipt_xl_retire(t->sess, as);
}
