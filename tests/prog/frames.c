/* SPDX-License-Identifier: MIT */
/* frames [KIND]: handlers that edit the frame they return to, nest, or leave by other ways. */
#include "kinds.h"

#define FLAGS 0x8d5l

static char alt[65536] __attribute__((aligned(16)));
static ucontext_t kept;
static sigjmp_buf env;
static volatile int depth, deepest, skipped, seen;
long out[17];
void take(void) __asm__("take");
void fire(void) __asm__("fire");
void back_to(ucontext_t *) __asm__("back_to");
extern char capture[] __asm__("capture"), skip_end[] __asm__("skip_end");

__asm__(".text\n"
	"fire: push %rbx; push %rbp; push %r12; push %r13; push %r14; push %r15\n"
	"mov %rsp, frames_home; ud2\n"
	/* As `fire`, but at a syscall: kill(getpid(), SIGUSR1). */
	"take: push %rbx; push %rbp; push %r12; push %r13; push %r14; push %r15\n"
	"mov %rsp, frames_home; mov $39, %eax; syscall\n"
	"mov %eax, %edi; mov $10, %esi; mov $62, %eax; syscall\n"
	"ud2\n"
	/* rt_sigreturn */
	"back_to: push %rbx; push %rbp; push %r12; push %r13; push %r14; push %r15\n"
	"mov %rsp, frames_home; mov %rdi, %rsp; mov $15, %eax; syscall; ud2\n"
	"capture: mov %r8, out; mov %r9, out+8; mov %r10, out+16; mov %r11, out+24\n"
	"mov %r12, out+32; mov %r13, out+40; mov %r14, out+48; mov %r15, out+56\n"
	"mov %rdi, out+64; mov %rsi, out+72; mov %rbp, out+80; mov %rbx, out+88\n"
	"mov %rdx, out+96; mov %rax, out+104; mov %rcx, out+112; mov %rsp, out+120\n"
	"mov frames_home, %rsp; pushfq; pop out+128; cld\n"
	"pop %r15; pop %r14; pop %r13; pop %r12; pop %rbp; pop %rbx; ret\n"
	".data\nframes_home: .quad 0\n.text\n");

static void edit(int s, siginfo_t *si, void *uc)
{
	greg_t *r = ((ucontext_t *)uc)->uc_mcontext.gregs;

	seen++;
	for (int i = 0; i < 16; i++)
		r[i] = 0x0101010101010101l * (i + seen);
	r[REG_RIP] = (long)capture;
	r[REG_EFL] = (r[REG_EFL] & ~FLAGS) | (seen % 2 ? 0x895 : 0x40);
}

static void check_edit(void)
{
	for (int i = 0; i < 16; i++)
		CHECK(out[i] == 0x0101010101010101l * (i + seen));
	CHECK((out[16] & FLAGS) == (seen % 2 ? 0x895 : 0x40));
}

/* Every register and the flags come from the edited frame, also RCX and R11 behind a syscall. */
static void regs(void)
{
	on(SIGILL, edit, 0);
	on(SIGUSR1, edit, 0);
	for (int i = 0; i < 3; i++) {
		fire();
		check_edit();
		take();
		check_edit();
	}
}

static void over(int s, siginfo_t *si, void *uc)
{
	skipped++;
	((ucontext_t *)uc)->uc_mcontext.gregs[REG_RIP] += 2;
}

static void skip(void)
{
	on(SIGILL, over, 0);
	for (int i = 0; i < 20; i++)
		__asm__ volatile("ud2; nop; ud2; jmp 1f; ud2; 1: ud2");
	CHECK(skipped == 60);
}

static void turn(int s, siginfo_t *si, void *uc)
{
	greg_t *r = ((ucontext_t *)uc)->uc_mcontext.gregs;

	r[REG_EFL] ^= 0x41;
	r[REG_RIP] += 2;
}

/* A branch behind the fault goes the way of the flags that the handler set. */
static void flags(void)
{
	int a, b;

	on(SIGILL, turn, 0);
	__asm__ volatile("xor %0, %0; cmp %0, %0; ud2; je 1f; mov $1, %0\n1:" : "=&r"(a) : : "cc");
	__asm__ volatile("clc; ud2; sbb %0, %0" : "=r"(b) : : "cc");
	CHECK(a == 1 && b == -1);
}

static void nest(int s, siginfo_t *si, void *uc)
{
	char here;
	sigset_t set;

	CHECK(&here > alt && &here < alt + sizeof(alt));
	sigprocmask(SIG_BLOCK, NULL, &set);
	CHECK(!sigismember(&set, SIGUSR1) && sigismember(&set, SIGUSR2));
	if (++depth > deepest)
		deepest = depth;
	if (depth < 6)
		raise(SIGUSR1);
	depth--;
}

static void nested(void)
{
	struct sigaction sa = {.sa_sigaction = nest,
			       .sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK};
	stack_t ss = {.ss_sp = alt, .ss_size = sizeof(alt)};

	sigaltstack(&ss, NULL);
	sigaddset(&sa.sa_mask, SIGUSR2);
	sigaction(SIGUSR1, &sa, NULL);
	for (int i = 0; i < 3; i++) {
		deepest = 0;
		raise(SIGUSR1);
		CHECK(deepest == 6 && depth == 0);
	}
}

/* A signal in the handler of another, sent while blocked, comes exactly when it is unblocked. */
static volatile int order[4], ordered;

static void note(int s, siginfo_t *si, void *uc)
{
	order[ordered++ & 3] = s;
	if (s == SIGUSR1) {
		raise(SIGUSR2);
		order[ordered++ & 3] = 0;
	}
}

static void masked(void)
{
	struct sigaction sa = {.sa_sigaction = note, .sa_flags = SA_SIGINFO};

	sigaddset(&sa.sa_mask, SIGUSR2);
	sigaction(SIGUSR1, &sa, NULL);
	sigaction(SIGUSR2, &sa, NULL);
	ordered = 0;
	raise(SIGUSR1);
	CHECK(ordered == 3 && order[0] == SIGUSR1 && order[1] == 0 && order[2] == SIGUSR2);
}

static void keep(int s, siginfo_t *si, void *uc)
{
	memcpy(&kept, uc, sizeof(kept));
	((ucontext_t *)uc)->uc_mcontext.gregs[REG_RIP] = (long)capture;
}

/* A return from a signal that never came: into a context made by hand. */
static void made(void)
{
	on(SIGILL, keep, 0);
	fire();
	for (int i = 0; i < 3; i++) {
		for (int k = 0; k < 16; k++)
			kept.uc_mcontext.gregs[k] = k * 77 + i;
		kept.uc_mcontext.gregs[REG_RIP] = (long)capture;
		kept.uc_mcontext.gregs[REG_EFL] = 0x2 + (i & 1);
		kept.uc_mcontext.fpregs = NULL;
		back_to(&kept);
		for (int k = 0; k < 16; k++)
			CHECK(out[k] == k * 77 + i);
		CHECK((out[16] & 1) == (i & 1));
	}
}

static void xmm(int s, siginfo_t *si, void *uc)
{
	fpregset_t f = ((ucontext_t *)uc)->uc_mcontext.fpregs;

	f->_xmm[3].element[1] += 5;
	f->mxcsr = 0x7f80;
	((ucontext_t *)uc)->uc_mcontext.gregs[REG_RIP] += 2;
}

static void vectors(void)
{
	unsigned int v[4] = {1, 2, 3, 4}, w[4], csr, old = 0x1f80;

	on(SIGILL, xmm, 0);
	__asm__ volatile("movdqu %2, %%xmm3; ud2; movdqu %%xmm3, %0; stmxcsr %1; ldmxcsr %3"
			 : "=m"(w), "=m"(csr)
			 : "m"(v), "m"(old)
			 : "xmm3");
	CHECK(w[0] == 1 && w[1] == 7 && w[3] == 4);
	CHECK((csr & 0x6000) == 0x6000);
}

static void leap(int s, siginfo_t *si, void *uc)
{
	siglongjmp(env, ++seen);
}

static void longjmps(void)
{
	volatile int sum = 0;

	on(SIGSEGV, leap, 0);
	seen = 0;
	for (volatile int i = 0; i < 10; i++) {
		int r = sigsetjmp(env, 1);

		if (r)
			sum += r;
		else
			__asm__ volatile("call *%0" : : "r"(0x7000000000l + i) : "memory");
	}
	CHECK(sum == 55);
}

int main(int argc, char **argv)
{
	static const struct kind kinds[] = {
		{"regs", regs},     {"skip", skip}, {"flags", flags},     {"nested", nested},
		{"masked", masked}, {"made", made}, {"vectors", vectors}, {"longjmps", longjmps},
	};

	return run_kinds(kinds, LENGTH(kinds), argc, argv);
}
