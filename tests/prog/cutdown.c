/* SPDX-License-Identifier: MIT */
/* cutdown threads|forks N: processes that end in the middle of what they do. threads: three run
 * branches when a sibling calls exit_group. forks: a process that does nothing but fork is killed.
 */
#include "prog.h"

static void *branches(void *arg)
{
	__asm__ volatile("1: call 2f; test %%eax, %%eax; jne 3f\n"
			 "3: cmp %%eax, %%eax; je 4f; nop\n"
			 "4: jmp 1b\n"
			 "2: ret" ::
				 : "cc");
	return arg;
}

static void threads(void)
{
	pthread_t t;

	for (int i = 0; i < 3; i++)
		pthread_create(&t, NULL, branches, NULL);
	usleep(3000);
	_exit(0);
}

static void forks(void)
{
	for (;;) {
		if (fork() == 0)
			_exit(0);
	}
}

int main(int argc, char **argv)
{
	int n = argc > 2 ? atoi(argv[2]) : 10, st;
	int with_threads = argc > 1 && !strcmp(argv[1], "threads");

	for (int i = 0; i < n; i++) {
		pid_t p = fork();

		if (!p)
			with_threads ? threads() : forks();
		if (!with_threads) {
			usleep(3000u + (unsigned int)(i * 7919) % 20000u);
			kill(p, SIGKILL);
		}
		waitpid(p, &st, 0);
	}
	say("done\n");
	return 0;
}
