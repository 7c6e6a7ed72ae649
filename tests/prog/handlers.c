/* SPDX-License-Identifier: MIT */
/* Job control: stops itself; its child continues it; also siglongjmp out of nested handlers, and a
 * masked signal that stays pending. */
#include "prog.h"

static sigjmp_buf env;
static volatile int log_n;

static void inner(int s, siginfo_t *si, void *uc)
{
	(void)s, (void)si, (void)uc;
	log_n += 10;
	siglongjmp(env, 3);
}

static void outer(int s, siginfo_t *si, void *uc)
{
	(void)s, (void)si, (void)uc;
	log_n++;
	raise(SIGUSR2);
}

static void on_cont(int s, siginfo_t *si, void *uc)
{
	(void)s, (void)si, (void)uc;
	log_n += 1000;
}

int main(void)
{
	struct timespec ts = {0, 30000000};
	sigset_t set, old;
	int st;
	pid_t pid;

	on(SIGUSR1, outer, 0);
	on(SIGUSR2, inner, 0);
	on(SIGCONT, on_cont, SA_RESTART);
	for (volatile int i = 0; i < 3; i++) {
		if (!sigsetjmp(env, 1))
			raise(SIGUSR1);
	}
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigprocmask(SIG_BLOCK, &set, &old);
	raise(SIGUSR1);
	say_n("blocked ", log_n);
	if (!sigsetjmp(env, 1))
		sigprocmask(SIG_SETMASK, &old, NULL);
	say_n("freed ", log_n);
	pid = fork();
	if (!pid) {
		nanosleep(&ts, NULL);
		kill(getppid(), SIGCONT);
		_exit(0);
	}
	raise(SIGSTOP);
	waitpid(pid, &st, 0);
	say_n("went on ", log_n);
	return 0;
}
