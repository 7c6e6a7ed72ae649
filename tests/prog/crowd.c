/* SPDX-License-Identifier: MIT */
/* crowd N: N threads that wake now and then; the first one counts lines out from 20 calls deep.
 * Runs until killed. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void *wake(void *arg)
{
	for (;;)
		usleep(20000 + (useconds_t)(long)arg);
}

static int deep(int n)
{
	if (n) {
		int r = deep(n - 1);

		__asm__ volatile("" ::: "memory");
		return r + 1;
	}
	for (int k = 0;; k++) {
		printf("%d\n", k);
		fflush(stdout);
		usleep(10000);
	}
}

int main(int argc, char **argv)
{
	int n = argc > 1 ? atoi(argv[1]) : 4;
	pthread_t t;

	for (long i = 1; i < n; i++)
		pthread_create(&t, NULL, wake, (void *)i);
	return deep(20);
}
