/* SPDX-License-Identifier: MIT */
/*
 * SIGTRAP while stepping. The kernel forces the trap of each step on the thread; when SIGTRAP is
 * blocked or ignored it takes the program's handler away first. So a thread is stepped with SIGTRAP
 * unblocked, and gets its own mask back before whatever can see it: a syscall, the frame of a
 * handler, the end of the recording. A SIGTRAP sent meanwhile waits here.
 */
#include <sys/ptrace.h>
#include <unistd.h>
#include <sys/syscall.h>

#include "session/priv.h"

#define TRAP_BIT (1ull << (SIGTRAP - 1))

/*
 * To the thread or to the process, as it came. Nobody may send for another process with a code of
 * the kernel's, of kill() or of tgkill(): such a one is known by us being its sender when it comes,
 * and gets its own data then.
 */
static void send_again(struct thr *t)
{
	switch (t->held.si_code) {
	case SI_TKILL:
		t->held_sent = syscall(SYS_tgkill, t->proc->pid, t->tid, SIGTRAP) == 0;
		break;
	case SI_USER:
		t->proc->held = t->held;
		t->proc->held_sent = kill(t->proc->pid, SIGTRAP) == 0;
		break;
	default: syscall(SYS_rt_sigqueueinfo, t->proc->pid, SIGTRAP, &t->held); break;
	}
}

/* Its own data for one that we sent again. */
static void put_back(struct thr *t, siginfo_t *si, const siginfo_t *held, bool *sent)
{
	if (!*sent || si->si_code != held->si_code || si->si_pid != getpid())
		return;
	*si = *held;
	ptrace(PTRACE_SETSIGINFO, t->tid, NULL, si);
	*sent = false;
}

void ipt_trap_restore(struct thr *t)
{
	t->mask_known = false;
	if (!t->trap_unblocked)
		return;
	t->trap_unblocked = false;
	ptrace(PTRACE_SETSIGMASK, t->tid, (void *)sizeof(t->mask), &t->mask);
	if (t->trap_waits)
		send_again(t);
	t->trap_waits = false;
}

void ipt_trap_unblock(struct thr *t)
{
	uint64_t mask;

	if (t->mask_known)
		return;
	t->mask_known = true;
	if (ptrace(PTRACE_GETSIGMASK, t->tid, (void *)sizeof(t->mask), &t->mask) < 0 ||
	    !(t->mask & TRAP_BIT))
		return;
	mask = t->mask & ~TRAP_BIT;
	t->trap_unblocked = ptrace(PTRACE_SETSIGMASK, t->tid, (void *)sizeof(mask), &mask) == 0;
}

bool ipt_trap_hold(struct thr *t, int sig, siginfo_t *si)
{
	if (sig != SIGTRAP || si->si_code > 0)
		return false;
	put_back(t, si, &t->held, &t->held_sent);
	put_back(t, si, &t->proc->held, &t->proc->held_sent);
	if (t->trap_unblocked) {
		t->trap_waits = true;
		t->held = *si;
	}
	return t->trap_unblocked || t->proc->trap_ignored;
}

void ipt_trap_begin(struct thr *t)
{
	if (ipt_proc_sigmask(t->tid, "SigIgn") & TRAP_BIT)
		t->proc->trap_ignored = true;
}

/* rt_sigaction came back: was SIGTRAP's handler set? The numbers are of 64-bit and 32-bit code. */
void ipt_trap_sigaction(struct thr *t)
{
	const struct user_regs_struct *r = &t->regs;
	bool is64 = !t->abi32;
	uint64_t act = is64 ? r->rsi : (uint32_t)r->rcx, handler = 0;

	if (r->rax || !act || (is64 ? r->rdi : (uint32_t)r->rbx) != SIGTRAP)
		return;
	if (ipt_mem_read(t->tid, act, &handler, is64 ? 8 : 4) == 0)
		t->proc->trap_ignored = handler == 1 /* SIG_IGN */;
}
