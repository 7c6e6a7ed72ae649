/* SPDX-License-Identifier: MIT */
/* A SIGTRAP that comes with a value while it is blocked keeps the value, for sigwaitinfo and for a
 * handler. */
#include "prog.h"

static volatile int value, code;

static void trap(int s, siginfo_t *si, void *uc)
{
	(void)s;
	(void)uc;
	value = si->si_value.sival_int;
	code = si->si_code;
}

static void *sender(void *arg)
{
	struct timespec ts = {0, 20000000};
	union sigval v = {.sival_int = 4711};

	(void)arg;
	nanosleep(&ts, NULL);
	sigqueue(getpid(), SIGTRAP, v);
	nanosleep(&ts, NULL);
	return NULL;
}

static void send_while_running(void)
{
	pthread_t t;

	pthread_create(&t, NULL, sender, NULL);
	for (volatile long i = 0; i < 4000; i++)
		;
	pthread_join(t, NULL);
}

int main(void)
{
	siginfo_t si;
	sigset_t m;

	sigemptyset(&m);
	sigaddset(&m, SIGTRAP);
	pthread_sigmask(SIG_BLOCK, &m, NULL);
	send_while_running();
	say_n("waited for ", sigwaitinfo(&m, &si));
	say_n("value ", si.si_value.sival_int);
	say_n("code ", si.si_code);
	on(SIGTRAP, trap, 0);
	send_while_running();
	pthread_sigmask(SIG_UNBLOCK, &m, NULL);
	say_n("value ", value);
	say_n("code ", code);
	return 0;
}
