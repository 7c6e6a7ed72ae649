/* SPDX-License-Identifier: MIT */
/* traps int3|int3-dfl|int3-long|icebp|icebp-dfl|raise|raise-dfl|ignore: SIGTRAPs of the program's
 * own. */
#include "prog.h"

static volatile int n;

static void trap(int s, siginfo_t *si, void *uc)
{
	greg_t *ip = &((ucontext_t *)uc)->uc_mcontext.gregs[REG_RIP];

	(void)s;
	n++;
	/* Some virtual machines report INT1 at its own address. */
	if (si->si_code > 0 && *(const unsigned char *)*ip == 0xf1)
		++*ip;
	say_n("code ", si->si_code);
	/* That of another signal is that of the last fault: under stepping, the step's. */
	if (si->si_code > 0)
		say_n("trapno ", (long)((ucontext_t *)uc)->uc_mcontext.gregs[REG_TRAPNO]);
}

static void fire(const char *k)
{
	if (!strncmp(k, "int3-long", 9))
		__asm__ volatile(".byte 0xcd, 3");
	else if (!strncmp(k, "int3", 4))
		__asm__ volatile("int3");
	else if (!strncmp(k, "icebp", 5))
		__asm__ volatile(".byte 0xf1");
	else
		raise(SIGTRAP);
}

int main(int argc, char **argv)
{
	const char *k = argc > 1 ? argv[1] : "int3";

	if (!strcmp(k, "ignore"))
		signal(SIGTRAP, SIG_IGN);
	else if (!strstr(k, "-dfl"))
		on(SIGTRAP, trap, 0);
	fire(k);
	fire(k);
	say_n("traps ", n);
	return n;
}
