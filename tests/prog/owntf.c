/* SPDX-License-Identifier: MIT */
/* Sets its own trap flag and counts its steps, also over a syscall, PUSHF and a REP string. */
#include "prog.h"

static volatile long steps, wrong;

static void trap(int s, siginfo_t *si, void *uc)
{
	(void)s, (void)uc;
	steps++;
	if (si->si_code != TRAP_TRACE)
		wrong++;
}

int main(void)
{
	unsigned long pushed = 0;
	char a[8] = "abcdefg", b[8];

	on(SIGTRAP, trap, 0);
	for (int i = 0; i < 3; i++) {
		void *d = b, *s = a;
		long n = 8;

		__asm__ volatile("lea -128(%%rsp), %%rsp\n\t"
				 "pushfq; orq $0x100, (%%rsp); popfq\n\t"
				 "nop; nop; xor %%eax, %%eax; mov $39, %%eax; syscall\n\t"
				 "mov $8, %%ecx; rep movsb\n\t"
				 "pushfq; mov (%%rsp), %0\n\t"
				 "andq $~0x100, (%%rsp); popfq\n\t"
				 "nop; lea 128(%%rsp), %%rsp"
				 : "=&r"(pushed), "+D"(d), "+S"(s), "+c"(n)
				 :
				 : "rax", "r11", "memory", "cc");
		(void)n;
	}
	say_n("steps ", steps);
	say_n("wrong ", wrong);
	say_n("pushed ", (long)(pushed & TF));
	return 0;
}
