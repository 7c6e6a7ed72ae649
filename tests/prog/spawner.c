/* SPDX-License-Identifier: MIT */
/* A thread is made and ends every millisecond, two count as fast as they can, the first one counts
 * lines out and stops with status 1 when a number is missing of what it counted. Runs until killed.
 */
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

static volatile unsigned long counts[2];

static void *count(void *arg)
{
	for (;;)
		counts[(long)arg]++;
}

static void *nothing(void *arg)
{
	return arg;
}

static void *spawn(void *arg)
{
	pthread_t t;

	for (;;) {
		if (pthread_create(&t, NULL, nothing, arg) == 0)
			pthread_join(t, NULL);
		usleep(1000);
	}
}

int main(void)
{
	pthread_t t;

	for (long i = 0; i < 2; i++)
		pthread_create(&t, NULL, count, (void *)i);
	pthread_create(&t, NULL, spawn, NULL);
	for (unsigned int k = 0;; k++) {
		printf("%u\n", k);
		fflush(stdout);
		usleep(10000);
	}
}
