/* SPDX-License-Identifier: MIT */
/* INTO and BOUND of 32-bit code: a trap that is taken after the instruction, and a fault. */
#include <signal.h>
#include <string.h>
#include <ucontext.h>
#include <unistd.h>

static volatile int n;

static void on_segv(int s, siginfo_t *si, void *v)
{
	ucontext_t *uc = v;
	const unsigned char *ip = (const unsigned char *)uc->uc_mcontext.gregs[REG_EIP];

	(void)s, (void)si;
	n++;
	if (ip[0] == 0x62)
		uc->uc_mcontext.gregs[REG_EIP] += 2;
}

int main(void)
{
	struct sigaction sa;
	int lim[2] = {1, 5};

	memset(&sa, 0, sizeof(sa));
	sa.sa_sigaction = on_segv;
	sa.sa_flags = SA_SIGINFO;
	sigaction(SIGSEGV, &sa, NULL);
	__asm__ volatile("mov $0x7fffffff, %%eax; into; inc %%eax; into; nop; xor %%eax, %%eax; into" : : : "eax", "cc");
	__asm__ volatile("bound %0, (%1); bound %2, (%1)" : : "r"(3), "r"(lim), "a"(9) : "memory");
	__asm__ volatile("pushf; popf; pusha; popa; push %%es; pop %%es" : : : "memory", "cc");
	return n;
}
