/* SPDX-License-Identifier: MIT */
/* The keeper's loop: wait for a stop, say what it was, act on it, resume. */
#include <errno.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "session/priv.h"

static volatile sig_atomic_t ticked;
static uint32_t *bell; /* rung by each signal */

static void ring(void)
{
	if (bell)
		__atomic_add_fetch(bell, 1, __ATOMIC_RELEASE);
}

static void on_tick(int sig)
{
	(void)sig;
	ticked = 1;
	ring();
}

static void on_child(int sig)
{
	(void)sig;
	ring();
}

static void on_first_exec(struct sess *s, struct thr *t)
{
	if (ipt_sess_open_writer(s)) {
		kill(t->tid, SIGKILL);
		return;
	}
	ipt_thr_begin(t);
}

static bool has_handler(const struct thr *t, int sig)
{
	return ipt_proc_sigmask(t->tid, "SigCgt") >> (sig - 1) & 1;
}

/* The kernel forgets its stepping when a thread is resumed without; it comes to a stop before any
 * instruction. */
static void renew(struct thr *t, int sig)
{
	t->renewing = true;
	t->renew_sp = t->regs.rsp;
	ipt_trap_restore(t);
	ptrace(PTRACE_INTERRUPT, t->tid, NULL, NULL);
	ptrace(PTRACE_CONT, t->tid, NULL, (void *)(long)sig);
}

static enum ipt_resume how_to(struct thr *t, int sig)
{
	struct sess *s = t->sess;
	enum ipt_resume how;
	bool frame;

	if (!sig && !s->detaching && ipt_xl_try_enter(t))
		return IPT_RESUME_CONT;
	if (!t->in_syscall) {
		ipt_sess_check_code(t);
		ipt_sysc_before(t);
	}
	how = s->backend->resume(t->bt, ipt_sess_tsc());
	frame = sig && how != IPT_RESUME_CONT && has_handler(t, sig);
	/* Only a step stops at the first instruction of a handler. */
	if (frame)
		how = IPT_RESUME_STEP;
	if (how == IPT_RESUME_STEP && !frame)
		ipt_trap_unblock(t);
	else
		ipt_trap_restore(t);
	return how;
}

/* The recording ends for it. True: not yet, since it is in the midst of something. */
static bool stays(struct thr *t, int sig)
{
	switch (ipt_xl_may_go(t, sig)) {
	case IPT_XL_GO: ipt_thr_detach(t, sig); return false;
	case IPT_XL_GO_HELD: return false;
	case IPT_XL_GO_LATER: break;
	}
	ptrace(PTRACE_INTERRUPT, t->tid, NULL, NULL);
	return true;
}

#define STEPS_LONG 256 /* in a row, under an engine that translates: it will go on like this */

/* Resume, or let go when the recording ends. The thread may be gone afterwards. */
void ipt_thr_resume(struct thr *t, int sig)
{
	static const int requests[] = {
		[IPT_RESUME_STEP] = PTRACE_SINGLESTEP,
		[IPT_RESUME_SYSCALL] = PTRACE_SYSCALL,
		[IPT_RESUME_CONT] = PTRACE_CONT,
	};
	struct sess *s = t->sess;
	enum ipt_resume how = IPT_RESUME_CONT;

	if ((s->detaching || t->let_go) && !stays(t, sig))
		return;
	if (t->bt)
		how = how_to(t, sig);
	t->state = THR_RUNNING;
	if (how == IPT_RESUME_STEP && (!s->pool || ++t->n_steps > STEPS_LONG))
		ipt_place_near(s, t->tid);
	if (how == IPT_RESUME_STEP && !t->renewing && s->backend->stale &&
	    s->backend->stale(t->bt)) {
		renew(t, sig);
		return;
	}
	t->renewing = false;
	t->resumed_ip = t->regs.rip;
	ptrace(requests[how], t->tid, NULL, (void *)(long)sig);
}

void ipt_thr_tell(struct thr *t, enum ipt_stop_kind kind, int sig)
{
	struct ipt_stop stop = {.kind = kind, .sig = sig, .regs = &t->regs, .tsc = ipt_sess_tsc()};

	if (t->bt)
		t->sess->backend->stopped(t->bt, &stop);
}

static void on_exit_event(struct thr *t)
{
	unsigned long status = 0;

	ptrace(PTRACE_GETEVENTMSG, t->tid, NULL, &status);
	ipt_thr_tell(t, IPT_STOP_EXIT, 0);
	if (t->out) {
		ipt_thr_comm(t);
		ipt_sess_write_signal(t, 0, WIFSIGNALED((int)status));
		if (t->sess->opts->syscalls && (t->regs.orig_rax == 60 || t->regs.orig_rax == 231))
			ipt_sess_write_syscall(t, false);
	}
	t->state = THR_DEAD;
	ptrace(PTRACE_CONT, t->tid, NULL, NULL);
}

static void on_exec(struct thr *t)
{
	unsigned long old_tid = 0;

	ptrace(PTRACE_GETEVENTMSG, t->tid, NULL, &old_tid);
	if (!t->sess->w)
		on_first_exec(t->sess, t);
	else if (!t->bt)
		ipt_thr_begin(t);
	if (t->bt)
		ipt_thr_exec(t, (pid_t)old_tid);
	/* The task is that of the thread which called exec; its mask was put back before. */
	t->mask_known = t->trap_unblocked = t->trap_waits = t->renewing = false;
	t->rseq_asked = false;
	t->in_syscall = true;
	ipt_thr_resume(t, 0);
}

static bool is_stop_signal(int sig)
{
	return sig == SIGSTOP || sig == SIGTSTP || sig == SIGTTIN || sig == SIGTTOU;
}

static void on_event_stop(struct thr *t, int sig)
{
	struct sess *s = t->sess;

	ipt_sysc_keep_waiting(t, 0);
	/* The stop of renew(): a handler's frame may have been made before it. */
	ipt_thr_tell(t, t->renewing && t->regs.rsp != t->renew_sp ? IPT_STOP_ENTRY : IPT_STOP_OTHER,
		     0);
	if (s->detaching && ipt_thr_step_trap_pending(t)) {
		ptrace(PTRACE_CONT, t->tid, NULL, NULL);
		return;
	}
	if (is_stop_signal(sig) && !s->detaching) {
		t->state = THR_LISTEN;
		ptrace(PTRACE_LISTEN, t->tid, NULL, NULL);
		return;
	}
	ipt_thr_resume(t, 0);
}

static bool int1_at(const struct thr *t, uint64_t ip)
{
	uint8_t op = 0;

	return !t->in_syscall && ipt_mem_read(t->tid, ip, &op, 1) == 0 && op == 0xf1;
}

/* INT1 gives the code of a step out of the kernel. */
static bool after_int1(const struct thr *t)
{
	return int1_at(t, t->regs.rip - 1);
}

/* Some virtual machines report INT1 as a fault, at its own address: no step ends where it began. */
static bool at_int1(const struct thr *t)
{
	return t->regs.rip == t->resumed_ip && int1_at(t, t->resumed_ip);
}

/* A SIGTRAP of ours, by its code; IPT_STOP_SIGNAL when it is the program's. */
static enum ipt_stop_kind classify_trap(const struct thr *t, const siginfo_t *si)
{
	switch (si->si_code) {
	case TRAP_TRACE: return at_int1(t) ? IPT_STOP_SIGNAL : IPT_STOP_STEP;
	case TRAP_BRKPT:
		if (after_int1(t) || at_int1(t))
			return IPT_STOP_SIGNAL;
		/* Some virtual machines lose DR6.BS of a step now and then: an exception, no
		 * syscall. */
		return (int64_t)t->regs.orig_rax == -1 && !t->in_syscall ? IPT_STOP_STEP
									 : IPT_STOP_SYSEXIT;
	case SIGTRAP: return IPT_STOP_ENTRY; /* ptrace_notify() after a signal frame was made */
	default: return IPT_STOP_SIGNAL;
	}
}

static void keep_signal(struct thr *t, const siginfo_t *si)
{
	bool fault = si->si_code > 0 && (si->si_signo == SIGSEGV || si->si_signo == SIGBUS ||
					 si->si_signo == SIGFPE || si->si_signo == SIGILL);

	t->sig.set = true;
	t->sig.rec = (struct ipt_sb_signal){
		.signo = si->si_signo,
		.code = si->si_code,
		.addr = fault ? (uint64_t)(uintptr_t)si->si_addr : 0,
		.ip = t->regs.rip,
		.sender_pid = si->si_code <= 0 ? si->si_pid : 0,
	};
}

static void on_signal(struct thr *t, int sig, const siginfo_t *si)
{
	if (t->sig.set)
		ipt_sess_write_signal(t, 0, false); /* the one before had no handler */
	ipt_thr_tell(t, IPT_STOP_SIGNAL, sig);
	if (t->bt)
		keep_signal(t, si);
	ipt_thr_resume(t, sig);
}

static void on_trap(struct thr *t, enum ipt_stop_kind kind, siginfo_t *si)
{
	ipt_thr_tell(t, kind, 0);
	if (kind == IPT_STOP_SYSEXIT)
		ipt_sysc_keep_waiting(t, 0);
	if (t->bt) {
		if (t->sig.set)
			ipt_sess_write_signal(t, kind == IPT_STOP_ENTRY ? t->regs.rip : 0, false);
		if (kind == IPT_STOP_SYSEXIT)
			ipt_sysc_after(t);
		if (kind == IPT_STOP_STEP && t->sess->backend->own_trap(t->bt)) {
			on_signal(t, SIGTRAP, si);
			return;
		}
	}
	ipt_thr_resume(t, 0);
}

static void on_signal_stop(struct thr *t, int sig)
{
	enum ipt_stop_kind kind = IPT_STOP_SIGNAL;
	siginfo_t si = {.si_signo = sig};

	ptrace(PTRACE_GETSIGINFO, t->tid, NULL, &si);
	ipt_xl_fix_siginfo(t, &si);
	if (sig == SIGTRAP)
		kind = classify_trap(t, &si);
	else
		ipt_sysc_keep_waiting(t, sig);
	if (!t->bt && kind != IPT_STOP_SIGNAL)
		kind = IPT_STOP_OTHER;
	if (kind != IPT_STOP_SIGNAL) {
		on_trap(t, kind, &si);
	} else if (t->bt && ipt_trap_hold(t, sig, &si)) {
		ipt_thr_tell(t, IPT_STOP_SIGNAL, sig);
		ipt_thr_resume(t, 0);
	} else {
		on_signal(t, sig, &si);
	}
}

static void on_syscall_stop(struct thr *t)
{
	siginfo_t si = {.si_signo = SIGTRAP};

	/* The two alternate; a first one that is an exit is told from an entry by the exec. */
	t->in_syscall = !t->in_syscall;
	on_trap(t, t->in_syscall ? IPT_STOP_SYSENTRY : IPT_STOP_SYSEXIT, &si);
}

static void on_stop(struct thr *t, int status)
{
	int sig = WSTOPSIG(status), event = status >> 16;

	t->state = THR_STOPPED;
	if (!t->dying && ptrace(PTRACE_GETREGS, t->tid, NULL, &t->regs) < 0 && errno == ESRCH)
		return; /* killed meanwhile: its end is on the way */
	ipt_xl_left(t);
	if (t->attached && !t->bt && !t->let_go && t->sess->w)
		ipt_thr_begin(t);
	switch (event) {
	case PTRACE_EVENT_EXIT: on_exit_event(t); break;
	case PTRACE_EVENT_EXEC: on_exec(t); break;
	case PTRACE_EVENT_CLONE:
	case PTRACE_EVENT_FORK:
	case PTRACE_EVENT_VFORK:
		ipt_birth_event(t, event);
		ipt_thr_resume(t, 0);
		break;
	case PTRACE_EVENT_STOP:
		if (!t->bt && t->out)
			ipt_birth_first_stop(t);
		else if (t->let_go)
			ipt_birth_first_stop(t);
		else
			on_event_stop(t, sig);
		break;
	case 0:
		if (sig == (SIGTRAP | 0x80))
			on_syscall_stop(t);
		else
			on_signal_stop(t, sig);
		break;
	default: ipt_thr_resume(t, 0); break;
	}
}

static void on_end(struct thr *t, int status)
{
	struct sess *s = t->sess;

	if (t->state != THR_DEAD)
		ipt_thr_tell(t, IPT_STOP_EXIT, 0);
	if (t->tid == s->main_pid)
		s->main_status = status;
	ipt_thr_end(t, status, 0);
	ipt_sess_del_thr(s, t);
}

/* The exec of a thread whose leader we do not know (a zombie at attach) comes under the leader's
 * tid. */
static struct thr *adopt_leader(struct sess *s, pid_t tid, int status)
{
	unsigned long old_tid = 0;
	struct thr *old, *t;

	if (!WIFSTOPPED(status) || status >> 16 != PTRACE_EVENT_EXEC)
		return NULL;
	ptrace(PTRACE_GETEVENTMSG, tid, NULL, &old_tid);
	old = ipt_sess_thr(s, (pid_t)old_tid);
	if (!old)
		return NULL;
	t = ipt_sess_add_thr(s, tid, old->proc);
	ptrace(PTRACE_GETREGS, tid, NULL, &t->regs);
	return t;
}

static void dispatch(struct sess *s, pid_t tid, int status)
{
	struct thr *t = ipt_sess_thr(s, tid);

	if (!t)
		t = adopt_leader(s, tid, status);
	if (!t) {
		if (WIFSTOPPED(status))
			ipt_u64map_put(&s->early, (uint64_t)tid, (void *)((uintptr_t)s->ticks + 1));
		else
			ipt_u64map_del(&s->early, (uint64_t)tid);
		return;
	}
	if (WIFSTOPPED(status))
		on_stop(t, status);
	else
		on_end(t, status);
}

/* Stops taken from the kernel and not acted on yet. */
struct batch {
	struct {
		pid_t tid;
		int status;
	} v[256];
	size_t n;
};

static void unstash(struct sess *s, struct batch *b)
{
	for (size_t i = 0; i < s->n_stash; i++) {
		b->v[b->n].tid = s->stash[i].tid;
		b->v[b->n++].status = s->stash[i].status;
	}
	s->n_stash = 0;
}

/*
 * All threads that are stopped now, before any of them is resumed: the kernel looks for a stopped
 * one from the same end each time, so that taking one by one would leave the others standing for
 * ever. False: no thread is left.
 */
static bool collect(struct sess *s, struct batch *b, bool wait)
{
	b->n = 0;
	unstash(s, b);
	while (b->n < IPT_ARRAY_SIZE(b->v)) {
		int flags = __WALL | (b->n || !wait ? WNOHANG : 0);
		pid_t tid = waitpid(-1, &b->v[b->n].status, flags);

		if (tid < 0 && errno == ECHILD && !b->n)
			return false;
		if (tid <= 0)
			break;
		b->v[b->n++].tid = tid;
	}
	return true;
}

static void handle(struct sess *s, const struct batch *b)
{
	for (size_t i = 0; i < b->n; i++)
		dispatch(s, b->v[i].tid, b->v[i].status);
	if (ticked) {
		ticked = 0;
		ipt_sess_tick(s);
	}
}

static void loop_stops(struct sess *s)
{
	struct batch b;

	while (!s->leave && collect(s, &b, true))
		handle(s, &b);
}

/* Threads that run translated ask without a stop. */
static void loop_requests(struct sess *s)
{
	struct batch b;

	while (!s->leave) {
		bool inside = ipt_xl_listen(s);

		if (!collect(s, &b, !inside))
			return;
		handle(s, &b);
		if (!ipt_xl_poll(s) && !b.n)
			ipt_xl_sleep(s);
	}
}

void ipt_sess_loop(struct sess *s)
{
	struct sigaction sa = {.sa_handler = on_tick};
	struct itimerval every = {{0, 100000}, {0, 100000}};

	sigaction(SIGALRM, &sa, NULL);
	sigaction(SIGIO, &sa, NULL);
	if (s->pool) {
		bell = &s->bell;
		sa = (struct sigaction){.sa_handler = on_child, .sa_flags = SA_RESTART};
		sigaction(SIGCHLD, &sa, NULL);
	}
	setitimer(ITIMER_REAL, &every, NULL);
	if (s->pool)
		loop_requests(s);
	else
		loop_stops(s);
	every = (struct itimerval){0};
	setitimer(ITIMER_REAL, &every, NULL);
}
