/* SPDX-License-Identifier: MIT */
/* A hot loop under a fast timer, the handler on its own stack; with an argument handlers nest. */
#include "prog.h"

static volatile int hits, depth;

static void tick(int s, siginfo_t *si, void *uc)
{
	(void)si, (void)uc;
	hits++;
	if (s == SIGALRM && depth == 0) {
		depth = 1;
		raise(SIGUSR1);
		raise(SIGUSR2);
		depth = 0;
	}
}

int main(int argc, char **argv)
{
	static char stack[65536];
	stack_t ss = {.ss_sp = stack, .ss_size = sizeof(stack)};
	unsigned long x = 1;

	(void)argv;
	sigaltstack(&ss, NULL);
	on(SIGALRM, tick, SA_ONSTACK | (argc > 1 ? SA_NODEFER : 0));
	on(SIGUSR1, tick, argc > 1 ? SA_ONSTACK : 0);
	on(SIGUSR2, tick, 0);
	every_ms(8);
	for (long i = 0; hits < 24; i++)
		x = x * 3 + (x >> 7);
	every_ms(0);
	say("done\n");
	return x == 0;
}
