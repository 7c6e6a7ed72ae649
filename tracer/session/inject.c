/* SPDX-License-Identifier: MIT */
/* Syscalls made for a stopped thread, in its name: its registers and signal mask are put back. */
#include <errno.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#include "session/priv.h"

/* A SYSCALL instruction in code that the trace knows and that is still mapped. */
static uint64_t find_syscall(const struct aspace *as)
{
	for (size_t i = 0; i < as->maps.n; i++) {
		const struct amap *m = &as->maps.v[i];

		if (m->kind == IPT_SB_MAP_ANON || m->kind == IPT_SB_MAP_VSYSCALL || (m->prot & 2))
			continue;
		for (uint64_t va = m->start; va < m->end; va += 4096) {
			const uint8_t *page = ipt_u64map_get(&as->pages, va >> 12);

			for (unsigned int k = 0; page && k + 1 < 4096; k++) {
				if (page[k] == 0x0f && page[k + 1] == 0x05)
					return va + k;
			}
		}
	}
	return 0;
}

bool ipt_inject_begin(struct inject *in, struct thr *t)
{
	uint64_t all = ~0ull;

	*in = (struct inject){.t = t, .insn = find_syscall(t->proc->as), .saved = t->regs};
	return in->insn && ptrace(PTRACE_GETSIGMASK, t->tid, (void *)8ul, &in->mask) == 0 &&
	       ptrace(PTRACE_SETSIGMASK, t->tid, (void *)8ul, &all) == 0;
}

static void stash(struct sess *s, pid_t tid, int status)
{
	if (s->n_stash < IPT_ARRAY_SIZE(s->stash)) {
		s->stash[s->n_stash].tid = tid;
		s->stash[s->n_stash++].status = status;
	}
}

/* The timer's signals end a wait early. */
static bool wait_for(pid_t tid, int *status)
{
	pid_t got;

	do {
		got = waitpid(tid, status, __WALL);
	} while (got < 0 && errno == EINTR);
	return got == tid;
}

/* To the next entry to or exit from a syscall. */
static bool to_syscall_stop(struct inject *in)
{
	struct thr *t = in->t;
	int status;

	for (;;) {
		if (ptrace(PTRACE_SYSCALL, t->tid, NULL, NULL) < 0 || !wait_for(t->tid, &status)) {
			in->gone = true;
			return false;
		}
		if (WIFSTOPPED(status) && WSTOPSIG(status) == (SIGTRAP | 0x80))
			return true;
		if (!WIFSTOPPED(status) || status >> 16 == PTRACE_EVENT_EXIT) {
			stash(t->sess, t->tid, status);
			in->gone = true;
			return false;
		}
		/* A stop signal, or our own interrupt: the one is sent again when we are done. */
		if (WSTOPSIG(status) == SIGSTOP && !(status >> 16))
			in->t->resend_stop = true;
	}
}

int64_t ipt_inject(struct inject *in, uint64_t nr, const uint64_t args[6])
{
	struct user_regs_struct r = in->saved;

	if (in->gone)
		return -ESRCH;
	r.rip = in->insn;
	r.rax = nr;
	r.orig_rax = (uint64_t)-1;
	r.rdi = args[0];
	r.rsi = args[1];
	r.rdx = args[2];
	r.r10 = args[3];
	r.r8 = args[4];
	r.r9 = args[5];
	if (ptrace(PTRACE_SETREGS, in->t->tid, NULL, &r) < 0 || !to_syscall_stop(in) ||
	    !to_syscall_stop(in) || ptrace(PTRACE_GETREGS, in->t->tid, NULL, &r) < 0)
		return -ESRCH;
	return (int64_t)r.rax;
}

/* What the kernel does for a syscall that a signal without a handler interrupted: it will not do it
 * any more. */
static void restart(struct user_regs_struct *r)
{
	int64_t ax = (int64_t)r->rax;

	if ((int64_t)r->orig_rax >= 0 && ax >= -516 && ax <= -512 && ax != -515) {
		r->rax = ax == -516 ? 219 /* restart_syscall */ : r->orig_rax;
		r->rip -= 2;
	}
	r->orig_rax = (uint64_t)-1;
}

void ipt_inject_end(struct inject *in)
{
	struct thr *t = in->t;

	if (in->gone)
		return;
	restart(&in->saved);
	ptrace(PTRACE_SETREGS, t->tid, NULL, &in->saved);
	ptrace(PTRACE_SETSIGMASK, t->tid, (void *)8ul, &in->mask);
	t->regs = in->saved;
	if (t->resend_stop)
		kill(t->tid, SIGSTOP);
	t->resend_stop = false;
}
