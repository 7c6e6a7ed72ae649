/* SPDX-License-Identifier: MIT */
/* ends N | leader | race | segv | abort | kill | recurse | worker: every way to end. */
#include "prog.h"

static void *worker(void *arg)
{
	struct timespec ts = {0, 20000000};

	nanosleep(&ts, NULL);
	say("worker\n");
	if (arg)
		exit(9);
	return NULL;
}

static void *racer(void *arg)
{
	pthread_barrier_wait(arg);
	_exit(11);
	return arg;
}

static void race(void)
{
	static pthread_barrier_t bar;
	pthread_t t;

	pthread_barrier_init(&bar, NULL, 8);
	for (int i = 0; i < 7; i++)
		pthread_create(&t, NULL, racer, &bar);
	racer(&bar);
}

__attribute__((noinline)) static int recurse(int n)
{
	volatile char room[2000];

	room[0] = (char)n;
	room[1999] = (char)n;
	return recurse(n + 1) + room[0];
}

int main(int argc, char **argv)
{
	const char *k = argc > 1 ? argv[1] : "0";
	pthread_t t;

	if (!strcmp(k, "leader") || !strcmp(k, "worker")) {
		for (int i = 0; i < (k[0] == 'w' ? 1 : 2); i++)
			pthread_create(&t, NULL, worker, k[0] == 'w' ? &t : NULL);
		pthread_exit(NULL);
	}
	if (!strcmp(k, "race"))
		race();
	if (!strcmp(k, "segv"))
		*(volatile int *)8 = 1;
	if (!strcmp(k, "abort"))
		abort();
	if (!strcmp(k, "kill"))
		raise(SIGKILL);
	if (!strcmp(k, "term"))
		raise(SIGTERM);
	if (!strcmp(k, "recurse"))
		return recurse(0);
	return atoi(k);
}
