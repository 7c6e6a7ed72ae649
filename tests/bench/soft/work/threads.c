/* SPDX-License-Identifier: MIT */
/* Workload: four threads fill hash tables of their own and meet at a mutex and a counter. usage:
 * threads ROUNDS */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { N_THREADS = 4, N_SLOTS = 4096, N_KEYS = 8000 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t total;
static atomic_uint done;
static unsigned rounds = 1;

static uint64_t fill(uint32_t *slots, uint64_t *state)
{
	uint64_t x = *state, sum = 0;

	for (unsigned i = 0; i < N_KEYS; i++) {
		uint32_t *slot;

		x = x * 0x5851f42d4c957f2du + 0x14057b7ef767814fu;
		slot = &slots[(x ^ x >> 29) % N_SLOTS];
		if (*slot % 4 == 3)
			sum += *slot;
		else
			sum ^= x >> 40;
		*slot += (uint32_t)(x >> 61) + 1;
	}
	*state = x;
	return sum;
}

static void *work(void *arg)
{
	uint32_t *slots = calloc(N_SLOTS, sizeof(*slots));
	uint64_t state = (uintptr_t)arg;

	if (!slots)
		return NULL;
	for (unsigned r = 0; r < rounds; r++) {
		uint64_t sum = fill(slots, &state);

		pthread_mutex_lock(&lock);
		total += sum;
		pthread_mutex_unlock(&lock);
		atomic_fetch_add(&done, 1);
	}
	free(slots);
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t t[N_THREADS];

	if (argc > 1)
		rounds = (unsigned)atoi(argv[1]);
	for (uintptr_t i = 0; i < N_THREADS; i++) {
		if (pthread_create(&t[i], NULL, work, (void *)(i + 1)))
			return 1;
	}
	for (int i = 0; i < N_THREADS; i++)
		pthread_join(t[i], NULL);
	printf("%llu %u\n", (unsigned long long)total, atomic_load(&done));
	return 0;
}
