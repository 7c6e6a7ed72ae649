/* SPDX-License-Identifier: MIT */
/* faults read|write|exec|null|div|ud2|gp|in|hlt|movss|canon: faults that are handled, first by
 * changing the frame's RIP, then by longjmp. */
#include "prog.h"

extern char resume_here[] __asm__("resume_here");
static sigjmp_buf env;
static volatile int n, by_jump;
static char *volatile hole;

static void fault(int s, siginfo_t *si, void *uc)
{
	n++;
	say_n("sig ", s);
	say_n("code ", si->si_code);
	if (by_jump)
		siglongjmp(env, 1);
	((ucontext_t *)uc)->uc_mcontext.gregs[REG_RIP] = (long)resume_here;
}

__attribute__((noinline)) static void fire(char k)
{
	switch (k) {
	case 'r': __asm__ volatile("mov (%0), %%al" : : "r"(hole) : "al"); break;
	case 'w': __asm__ volatile("rep stosb" : : "D"(hole - 3), "c"(9) : "memory"); break;
	case 'e': __asm__ volatile("mov %%rsp, %%rbx; call *%0" : : "r"(hole) : "rbx"); break;
	case 'n': __asm__ volatile("mov %%rsp, %%rbx; jmp *%0" : : "r"(0l) : "rbx"); break;
	case 'd': __asm__ volatile("xor %%edx, %%edx; div %%ecx" : : "a"(1), "c"(0) : "edx"); break;
	case 'u': __asm__ volatile("ud2"); break;
	case 'g': __asm__ volatile("int $0x21"); break;
	case 'i': __asm__ volatile("in $0x80, %%al" : : : "al"); break;
	case 'h': __asm__ volatile("hlt"); break;
	case 'm': __asm__ volatile("mov %%ss, %%eax; mov %%eax, %%ss; mov (%0), %%al" : : "r"(hole) : "al"); break;
	case 'c': __asm__ volatile("mov (%0), %%al" : : "r"(1ul << 62) : "al"); break;
	}
}

int main(int argc, char **argv)
{
	char k = argc > 1 ? argv[1][0] : 'r';
	char *p = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	munmap(p + 4096, 4096);
	hole = p + 4096;
	for (int s = 1; s < 32; s++) {
		if (s == SIGSEGV || s == SIGFPE || s == SIGILL || s == SIGBUS || s == SIGTRAP)
			on(s, fault, 0);
	}
	fire(k);
	__asm__ volatile(".globl resume_here\nresume_here: and $-16, %rsp; call after");
	return 98;
}

/* Reached with whatever stack the fault left. */
__attribute__((used, noreturn)) void after(void) __asm__("after");
void after(void)
{
	static char k;
	char arg[64];
	FILE *f = fopen("/proc/self/cmdline", "r");
	size_t got = f ? fread(arg, 1, sizeof(arg) - 1, f) : 0;

	arg[got] = 0;
	k = arg[strlen(arg) + 1];
	by_jump = 1;
	for (volatile int i = 0; i < 2; i++) {
		if (!sigsetjmp(env, 1))
			fire(k);
	}
	say_n("faults ", n);
	_exit(n);
}
