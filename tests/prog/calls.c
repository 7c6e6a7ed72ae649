/* SPDX-License-Identifier: MIT */
/* calls [KIND]: system calls seen from their instruction: the registers that they leave, odd
 * numbers, several in a row, and masks and dispositions of signals kept. */
#include "kinds.h"
#include <sys/auxv.h>

struct after {
	unsigned long rcx, r11, next, kept, flags;
	long rax;
};

static struct after last;

/* enter(nr, a, b, c, flags): the syscall, and what its registers are behind it. */
void enter(long nr, long a, long b, long c, unsigned long flags,
	   struct after *to) __asm__("enter_call");
__asm__(".text\n"
	"enter_call: push %rbx; push %rbp; push %r12; push %r13; push %r14; push %r15; push %r9\n"
	"mov %rdi, %rax; mov %rsi, %rdi; mov %rdx, %rsi; mov %rcx, %rdx; push %r8; popfq\n"
	"mov $0x11, %ebx; mov $0x22, %r8d; mov $0x33, %r9d; mov $0x44, %r10d; mov $0x55, %r12d\n"
	"mov $0x66, %r13d; mov $0x77, %r14d; mov $0x88, %r15d; mov $0x99, %ebp; syscall\n"
	"1: pushfq; add %rdi, %rbx; add %rsi, %rbx; add %rdx, %rbx; add %r8, %rbx; add %r9, %rbx\n"
	"add %r10, %rbx; add %r12, %rbx; add %r13, %rbx; add %r14, %rbx; add %r15, %rbx; add %rbp, "
	"%rbx\n"
	"pop %rbp; pop %r9; mov %rcx, (%r9); mov %r11, 8(%r9); lea 1b(%rip), %rdx; mov %rdx, "
	"16(%r9)\n"
	"mov %rbx, 24(%r9); mov %rbp, 32(%r9); mov %rax, 40(%r9); push $2; popfq\n"
	"pop %r15; pop %r14; pop %r13; pop %r12; pop %rbp; pop %rbx; ret\n");

static struct after raw(long nr, long a, long b, long c, unsigned long flags)
{
	enter(nr, a, b, c, flags, &last);
	return last;
}

static void registers(void)
{
	static const unsigned long flags[] = {0x202, 0xad7, 0x247, 0x202 | 0x200000, 0xed7};

	for (size_t i = 0; i < LENGTH(flags); i++) {
		struct after r = raw(SYS_getpid, 1, 2, 3, flags[i]);

		CHECK(r.rax == getpid());
		CHECK(r.rcx == r.next);
		CHECK(r.r11 == flags[i] && r.flags == flags[i]);
		CHECK(r.kept == 6 + 0x11 + 0x22 + 0x33 + 0x44 + 0x55 + 0x66 + 0x77 + 0x88 + 0x99);
	}
}

static void numbers(void)
{
	static const long none[] = {512,
				    513,
				    600,
				    1000,
				    0x7fffffff,
				    -1,
				    -2,
				    -1000,
				    511,
				    0x40000000 + 39,
				    0x40000000 + 512,
				    1l << 31,
				    0xffffffff};

	for (size_t i = 0; i < LENGTH(none); i++)
		say_n("error ", raw(none[i], 0, 0, 0, 0x202).rax == -ENOSYS ? -ENOSYS : 1);
	/* Only the lower half of RAX is the number. */
	CHECK(raw(0x1234567800000000l + SYS_getpid, 0, 0, 0, 0x202).rax == getpid());
	CHECK(raw(-4294967296l + SYS_getuid, 0, 0, 0, 0x202).rax == getuid());
	CHECK(raw(SYS_close, -1, 0, 0, 0x202).rax == -EBADF);
	CHECK(raw(SYS_mmap, 1, 0, 0, 0x202).rax == -EINVAL);
}

/* One syscall instruction with every number in turn, and the flags that decide kept over it. */
static void dispatcher(void)
{
	static const int nr[] = {SYS_getpid,      SYS_gettid, SYS_getuid, SYS_getppid,
				 SYS_sched_yield, SYS_mmap,   SYS_munmap, SYS_getpid};
	long p, sum = 0;

	for (int r = 0; r < 3; r++) {
		p = 0;
		for (size_t i = 0; i < LENGTH(nr); i++) {
			long v = nr[i], d = nr[i] == SYS_munmap ? p : 0;

			register long r10 __asm__("r10") = 0x22;
			register long r8 __asm__("r8") = -1;
			register long r9 __asm__("r9") = 0;
			__asm__ volatile("cmp $9, %%eax; syscall; jne 1f; lea (%%rax), %%rax\n1:"
					 : "+a"(v)
					 : "D"(d), "S"(4096l), "d"(3l), "r"(r10), "r"(r8), "r"(r9)
					 : "rcx", "r11", "memory", "cc");
			CHECK(v >= 0 || v < -4095);
			if (nr[i] == SYS_mmap)
				p = v;
			sum++;
		}
	}
	CHECK(sum == 24);
}

/* Several in a row, and one as the target of a direct, an indirect branch and of a jump by its RCX.
 */
static void rows(void)
{
	long n, m, k = 0;

	__asm__ volatile(
		"mov $39, %%eax; syscall; mov $39, %%eax; syscall; mov $39, %%eax; jmp 1f; ud2\n"
		"1: syscall; mov %%rax, %0; mov $39, %%eax; lea 1f(%%rip), %%rdx; jmp *%%rdx; ud2\n"
		"1: syscall; mov %%rax, %1; inc %2; cmp $3, %2; je 2f; mov $39, %%eax; jmp *%%rcx; "
		"ud2\n2:"
		: "=&r"(n), "=&r"(m), "+r"(k)
		:
		: "rax", "rcx", "rdx", "r11", "memory", "cc");
	CHECK(n == getpid() && m == 39 && k == 3);
}

static __attribute__((noinline)) long hop(long i)
{
	__asm__ volatile("" : "+r"(i));
	return i + 1;
}

/* Everything is blocked, or ignored, while the program makes new indirect branches. */
static void masks(void)
{
	long (*volatile f)(long) = hop;
	sigset_t all, old, now, pend;
	struct sigaction sa;
	long n = 0;

	signal(SIGTRAP, SIG_IGN);
	signal(SIGUSR1, SIG_IGN);
	signal(SIGSEGV, SIG_IGN);
	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, &old);
	for (int i = 0; i < 300; i++)
		n = f(n);
	sigprocmask(SIG_BLOCK, NULL, &now);
	for (int s = 1; s < 65; s++)
		CHECK(sigismember(&now, s) == (s != SIGKILL && s != SIGSTOP && s != 32 && s != 33));
	CHECK(!sigpending(&pend) && sigisemptyset(&pend));
	raise(SIGUSR2);
	CHECK(!sigpending(&pend) && sigismember(&pend, SIGUSR2) && !sigismember(&pend, SIGTRAP));
	CHECK(!sigaction(SIGSEGV, NULL, &sa) && sa.sa_handler == SIG_IGN);
	signal(SIGUSR2, SIG_IGN);
	sigprocmask(SIG_SETMASK, &old, NULL);
	sigprocmask(SIG_BLOCK, NULL, &now);
	CHECK(!memcmp(&now, &old, 8) && n == 300);
	raise(SIGTRAP);
	signal(SIGTRAP, SIG_DFL);
}

/* What a program set of SIGTRAP is as it set it. Not with single-stepping, which shows it as
 * default. */
static void disposition(void)
{
	long (*volatile f)(long) = hop;
	struct sigaction sa;
	sigset_t set;

	signal(SIGTRAP, SIG_IGN);
	sigemptyset(&set);
	sigaddset(&set, SIGTRAP);
	sigprocmask(SIG_BLOCK, &set, NULL);
	for (int i = 0; i < 300; i++)
		f(i);
	CHECK(!sigaction(SIGTRAP, NULL, &sa) && sa.sa_handler == SIG_IGN);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	CHECK(!sigaction(SIGTRAP, NULL, &sa) && sa.sa_handler == SIG_IGN);
}

static volatile int traps;

static void trapped(int s, siginfo_t *si, void *uc)
{
	traps++;
	CHECK(si->si_code == SI_TKILL);
}

/* A SIGTRAP of the program's own, blocked, waits; new code runs meanwhile; it comes when let in. */
static void own_trap(void)
{
	long (*volatile f)(long) = hop;
	sigset_t set, pend;

	on(SIGTRAP, trapped, 0);
	sigemptyset(&set);
	sigaddset(&set, SIGTRAP);
	sigprocmask(SIG_BLOCK, &set, NULL);
	raise(SIGTRAP);
	for (int i = 0; i < 50; i++)
		f(i);
	CHECK(!sigpending(&pend) && sigismember(&pend, SIGTRAP) && traps == 0);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	CHECK(traps == 1);
}

/* The vDSO's functions. */
static void vdso(void)
{
	struct timespec a, b;
	struct timeval tv;
	unsigned int cpu, node;

	for (int i = 0; i < 5; i++) {
		CHECK(!clock_gettime(CLOCK_MONOTONIC, &a) && !clock_gettime(CLOCK_MONOTONIC, &b));
		CHECK(b.tv_sec > a.tv_sec || (b.tv_sec == a.tv_sec && b.tv_nsec >= a.tv_nsec));
		CHECK(!gettimeofday(&tv, NULL) && !getcpu(&cpu, &node) && time(NULL) > 1000000);
	}
	CHECK(getauxval(AT_SYSINFO_EHDR));
}

int main(int argc, char **argv)
{
	static const struct kind kinds[] = {
		{"registers", registers}, {"numbers", numbers}, {"dispatcher", dispatcher},
		{"rows", rows},           {"masks", masks},     {"disposition", disposition},
		{"owntrap", own_trap},    {"vdso", vdso},
	};

	return run_kinds(kinds, LENGTH(kinds), argc, argv);
}
