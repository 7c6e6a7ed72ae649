/* SPDX-License-Identifier: MIT */
/* Large string copies interrupted by a timer. */
#include "prog.h"

static volatile int hits;
static char a[3000], b[3000];

static void tick(int s, siginfo_t *si, void *uc)
{
	(void)s, (void)si, (void)uc;
	hits++;
}

int main(void)
{
	on(SIGALRM, tick, 0);
	every_ms(5);
	memset(a, 7, sizeof(a));
	for (int i = 0; i < 5 || (hits < 3 && i < 100000); i++) {
		void *d = b, *s = a;
		long n = sizeof(a);

		memset(b, 0, 8);
		__asm__ volatile("rep movsb" : "+D"(d), "+S"(s), "+c"(n) : : "memory");
		if (n || memcmp(a, b, 64))
			return 1;
	}
	say("copied\n");
	return 0;
}
