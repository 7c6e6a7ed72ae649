/* SPDX-License-Identifier: MIT */
/* Signals that are ignored, by choice or by default, in user code and in blocking syscalls. */
#include "prog.h"

static pid_t parent;

static void *sender(void *arg)
{
	struct timespec ts = {0, 15000000};

	for (int i = 0; i < 4; i++) {
		nanosleep(&ts, NULL);
		syscall(SYS_tgkill, getpid(), parent, i % 2 ? SIGWINCH : SIGUSR1);
	}
	nanosleep(&ts, NULL);
	if (write(*(int *)arg, "x", 1) != 1)
		_exit(9);
	return NULL;
}

int main(void)
{
	struct timespec ts = {0, 120000000};
	int p[2], st;
	pthread_t t;
	char c = 0;

	parent = getpid();
	signal(SIGUSR1, SIG_IGN);
	raise(SIGUSR1);
	raise(SIGWINCH);
	raise(SIGURG);
	raise(SIGCONT);
	if (pipe(p))
		return 1;
	pthread_create(&t, NULL, sender, &p[1]);
	if (read(p[0], &c, 1) != 1 || c != 'x')
		return 2;
	pthread_join(t, NULL);
	pthread_create(&t, NULL, sender, &p[1]);
	/* What is left to sleep is written also when the sleep goes on: ptrace wakes for ignored
	 * signals. */
	if (nanosleep(&ts, NULL))
		return 3;
	pthread_join(t, NULL);
	for (int i = 0; i < 3; i++) {
		if (!fork())
			_exit(i);
	}
	for (int i = 0; i < 3; i++)
		wait(&st);
	say("unmoved\n");
	return 0;
}
