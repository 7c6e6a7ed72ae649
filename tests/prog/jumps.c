/* SPDX-License-Identifier: MIT */
/* setjmp and longjmp from deep, and fibres by ucontext. */
#include "prog.h"

static jmp_buf env;
static ucontext_t home, fibre[2];
static int turns;

__attribute__((noinline)) static int deep(int n)
{
	volatile int here = n;

	if (!n)
		longjmp(env, 5);
	return deep(n - 1) + here;
}

static void run(int me)
{
	for (int i = 0; i < 4; i++) {
		turns++;
		swapcontext(&fibre[me], &fibre[!me]);
	}
	turns += 100;
	setcontext(&home);
}

int main(void)
{
	static char st[2][16384];
	volatile int got = 0;

	for (volatile int i = 0; i < 5; i++) {
		int r = setjmp(env);

		if (!r)
			deep(5);
		got += r;
	}
	for (int i = 0; i < 2; i++) {
		getcontext(&fibre[i]);
		fibre[i].uc_stack.ss_sp = st[i];
		fibre[i].uc_stack.ss_size = sizeof(st[i]);
		makecontext(&fibre[i], (void (*)(void))run, 1, i);
	}
	swapcontext(&home, &fibre[0]);
	say_n("got ", got);
	say_n("turns ", turns);
	return 0;
}
