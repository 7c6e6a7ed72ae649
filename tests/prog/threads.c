/* SPDX-License-Identifier: MIT */
/* Four threads that meet at a barrier and a mutex. */
#include "prog.h"

static pthread_barrier_t bar;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long sum;

static void *work(void *arg)
{
	for (long i = 0; i < 20; i++) {
		pthread_mutex_lock(&lock);
		sum += i * (long)arg;
		pthread_mutex_unlock(&lock);
	}
	pthread_barrier_wait(&bar);
	return arg;
}

int main(void)
{
	pthread_t t[4];

	pthread_barrier_init(&bar, NULL, 4);
	for (long i = 0; i < 4; i++)
		pthread_create(&t[i], NULL, work, (void *)(i + 1));
	for (int i = 0; i < 4; i++)
		pthread_join(t[i], NULL);
	say_n("sum ", sum);
	return sum != 1900;
}
