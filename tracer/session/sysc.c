/* SPDX-License-Identifier: MIT */
/* The syscalls a recording must know of: those that change mappings, and clones that want to be
 * untraced. */
#include <errno.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>

#include "session/priv.h"

/* The same for 32-bit code, whose numbers differ. */
enum nr32 {
	NR32_FORK = 2,
	NR32_EXECVE = 11,
	NR32_RSEQ = 386,
	NR32_MMAP = 90,
	NR32_MUNMAP = 91,
	NR32_IPC = 117,
	NR32_CLONE = 120,
	NR32_MPROTECT = 125,
	NR32_MREMAP = 163,
	NR32_VFORK = 190,
	NR32_MMAP2 = 192,
	NR32_PKEY_MPROTECT = 380,
	NR32_SIGACTION = 67,
	NR32_RT_SIGACTION = 174,
	NR32_PRCTL = 172,
	NR32_SECCOMP = 354,
	NR_CLONE3 = 435,
};

/* Is the thread at a syscall? Then the instruction says whose numbers and registers count: INT 0x80
 * means the 32-bit ones in 64-bit code too. */
static bool is_syscall_insn(struct thr *t)
{
	uint8_t code[2];
	bool old;

	if (ipt_aspace_read(t->proc->as, t->regs.rip, code, 2) != 2)
		return false;
	old = (code[0] == 0xcd && code[1] == 0x80) || (code[0] == 0x0f && code[1] == 0x34);
	if (!old && !(code[0] == 0x0f && code[1] == 0x05))
		return false;
	t->abi32 = old || ipt_step_mode(&t->regs) != IPT_X64;
	return true;
}

/* The flags of a clone about to be made, and where they are: 0 in a register, else the address in
 * memory. */
static bool clone_flags(struct thr *t, uint64_t *flags, uint64_t *mem)
{
	const struct user_regs_struct *r = &t->regs;
	bool is64 = !t->abi32;
	uint64_t nr = is64 ? r->rax : (uint32_t)r->rax;

	*mem = 0;
	if (nr == NR_CLONE3) {
		*mem = is64 ? r->rdi : (uint32_t)r->rbx;
		return ipt_mem_read(t->tid, *mem, flags, sizeof(*flags)) == 0;
	}
	if (is64) {
		*flags = nr == SYS_clone ? r->rdi : nr == SYS_vfork ? CLONE_VM | CLONE_VFORK : 0;
		return nr == SYS_clone || nr == SYS_fork || nr == SYS_vfork;
	}
	*flags = nr == NR32_CLONE   ? (uint32_t)r->rbx
		 : nr == NR32_VFORK ? CLONE_VM | CLONE_VFORK
				    : 0;
	return nr == NR32_CLONE || nr == NR32_FORK || nr == NR32_VFORK;
}

static void put_flags(struct thr *t, uint64_t mem, uint64_t flags)
{
	if (mem) {
		ipt_mem_write(t->tid, mem, &flags, sizeof(flags));
		return;
	}
	if (!t->abi32)
		t->regs.rdi = flags;
	else
		t->regs.rbx = flags;
	ptrace(PTRACE_SETREGS, t->tid, NULL, &t->regs);
}

static bool installs_filter(const struct thr *t, uint64_t nr)
{
	const struct user_regs_struct *r = &t->regs;
	uint64_t op = !t->abi32 ? r->rdi : (uint32_t)r->rbx;

	if (nr == (!t->abi32 ? SYS_prctl : NR32_PRCTL))
		return op == PR_SET_SECCOMP;
	return nr == (!t->abi32 ? SYS_seccomp : NR32_SECCOMP) && op <= SECCOMP_SET_MODE_FILTER;
}

/* Strict mode forbids the counter too. */
static bool forbids_tsc(const struct thr *t, uint64_t nr)
{
	const struct user_regs_struct *r = &t->regs;
	uint64_t op = !t->abi32 ? r->rdi : (uint32_t)r->rbx;
	uint64_t arg = !t->abi32 ? r->rsi : (uint32_t)r->rcx;

	if (nr == (!t->abi32 ? SYS_prctl : NR32_PRCTL))
		return (op == PR_SET_SECCOMP && arg == SECCOMP_MODE_STRICT) ||
		       (op == PR_SET_TSC && arg == PR_TSC_SIGSEGV);
	return nr == (!t->abi32 ? SYS_seccomp : NR32_SECCOMP) && op == SECCOMP_SET_MODE_STRICT;
}

/* From now on nothing may be asked of the kernel in the process's name, nor by code of ours. */
static void set_filtered(struct aspace *as, bool filtered)
{
	as->filtered = filtered;
	if (as->xl)
		ipt_xl_no_syscalls(as->xl, filtered);
}

void ipt_sysc_before(struct thr *t)
{
	uint64_t flags, mem;

	if (!is_syscall_insn(t))
		return;
	if (installs_filter(t, t->regs.rax) && !t->proc->as->filtered) {
		set_filtered(t->proc->as, true);
		t->first_filter = true;
	}
	if (forbids_tsc(t, t->regs.rax)) {
		t->proc->no_tsc = true;
		if (t->proc->as->xl)
			ipt_xl_step_syscalls(t->proc->as->xl);
	}
	if (!clone_flags(t, &flags, &mem))
		return;
	t->clone_flags = flags;
	if (flags & CLONE_UNTRACED) {
		put_flags(t, mem, flags & ~(uint64_t)CLONE_UNTRACED);
		t->untraced_restore = true;
	}
}

static bool overlaps_code(const struct aspace *as, uint64_t start, uint64_t len)
{
	for (size_t i = 0; i < as->maps.n; i++) {
		if (as->maps.v[i].start < start + len && start < as->maps.v[i].end)
			return true;
	}
	return false;
}

static bool changes_maps64(const struct thr *t)
{
	const struct user_regs_struct *r = &t->regs;
	const struct aspace *as = t->proc->as;

	switch (r->orig_rax) {
	case SYS_mmap:
		return (r->rdx & PROT_EXEC) ||
		       ((r->r10 & MAP_FIXED) && overlaps_code(as, r->rdi, r->rsi));
	case SYS_mprotect:
	case SYS_pkey_mprotect: return (r->rdx & PROT_EXEC) || overlaps_code(as, r->rdi, r->rsi);
	case SYS_munmap: return overlaps_code(as, r->rdi, r->rsi);
	case SYS_mremap:
	case SYS_remap_file_pages:
	case SYS_shmat:
	case SYS_shmdt:
	case SYS_arch_prctl:
	case SYS_personality: return true;
	default: return false;
	}
}

static bool changes_maps32(const struct thr *t)
{
	switch (t->regs.orig_rax) {
	case NR32_MMAP:
	case NR32_MMAP2:
	case NR32_MUNMAP:
	case NR32_IPC:
	case NR32_MPROTECT:
	case NR32_MREMAP:
	case NR32_PKEY_MPROTECT: return true;
	default: return false;
	}
}

/* Where the flags of the clone that @t makes are: 0 in a register. */
static uint64_t flags_place(const struct thr *t)
{
	if (t->regs.orig_rax != NR_CLONE3)
		return 0;
	return !t->abi32 ? t->regs.rdi : (uint32_t)t->regs.rbx;
}

void ipt_sysc_child(const struct thr *t, struct thr *c)
{
	if (!t->untraced_restore)
		return;
	c->child_flags = t->clone_flags;
	c->child_mem = flags_place(t);
}

void ipt_sysc_child_begins(struct thr *c)
{
	if (c->child_flags)
		put_flags(c, c->child_mem, c->child_flags);
	c->child_flags = 0;
}

static bool is_sigaction(const struct thr *t)
{
	if (!t->abi32)
		return t->regs.orig_rax == SYS_rt_sigaction;
	return t->regs.orig_rax == NR32_SIGACTION || t->regs.orig_rax == NR32_RT_SIGACTION;
}

void ipt_sysc_after(struct thr *t)
{
	if (t->untraced_restore) {
		put_flags(t, flags_place(t), t->clone_flags);
		t->untraced_restore = false;
	}
	/* rseq() may have been this one, and an exec ends it. */
	if (t->regs.orig_rax == (!t->abi32 ? SYS_rseq : NR32_RSEQ) ||
	    t->regs.orig_rax == (!t->abi32 ? SYS_execve : NR32_EXECVE))
		t->rseq_asked = false;
	if (t->first_filter && !ipt_sess_own_filter(t))
		set_filtered(t->proc->as, false);
	t->first_filter = false;
	if (is_sigaction(t))
		ipt_trap_sigaction(t);
	if (!t->abi32 ? changes_maps64(t) : changes_maps32(t))
		ipt_sess_sync_maps(t);
	if (t->sess->opts->syscalls)
		ipt_sess_write_syscall(t, true);
}

/* --- waits that end with EINTR whenever the thread is stopped --- */

#define DEFAULT_IGNORED                                                                            \
	(1ull << (SIGCHLD - 1) | 1ull << (SIGCONT - 1) | 1ull << (SIGURG - 1) |                    \
	 1ull << (SIGWINCH - 1))

static bool is_wait(uint64_t nr)
{
	static const uint16_t waits[] = {
		SYS_epoll_wait, SYS_epoll_pwait,     SYS_epoll_pwait2, SYS_semop, SYS_semtimedop,
		SYS_msgsnd,     SYS_msgrcv,          SYS_io_getevents, SYS_read,  SYS_recvfrom,
		SYS_recvmsg,    SYS_rt_sigtimedwait, SYS_recvmmsg,     SYS_readv,
	};

	for (size_t i = 0; i < IPT_ARRAY_SIZE(waits); i++) {
		if (waits[i] == nr)
			return true;
	}
	return false;
}

void ipt_sysc_keep_waiting(struct thr *t, int sig)
{
	struct user_regs_struct *r = &t->regs;
	uint64_t ignored, bit = sig ? 1ull << (sig - 1) : 0, due;

	if ((int64_t)r->rax != -EINTR || (int64_t)r->orig_rax < 0 || t->abi32 ||
	    ipt_step_mode(r) != IPT_X64 || !is_wait(r->orig_rax))
		return;
	ignored = ipt_proc_sigmask(t->tid, "SigIgn") |
		  (DEFAULT_IGNORED & ~ipt_proc_sigmask(t->tid, "SigCgt"));
	due = (ipt_proc_sigmask(t->tid, "SigPnd") | ipt_proc_sigmask(t->tid, "ShdPnd")) &
	      ~ipt_proc_sigmask(t->tid, "SigBlk");
	if ((due | bit) & ~ignored)
		return;
	r->rip -= 2;
	r->rax = r->orig_rax;
	r->orig_rax = (uint64_t)-1;
	ptrace(PTRACE_SETREGS, t->tid, NULL, r);
	if (t->bt)
		ipt_software_at(t->bt, r);
}
