/* SPDX-License-Identifier: MIT */
/* Blocking syscalls and a handler, with and without SA_RESTART. */
#include "prog.h"

static volatile int hits;
static int p[2];

static void tick(int s, siginfo_t *si, void *uc)
{
	(void)s, (void)si, (void)uc;
	hits++;
	if (hits % 4 == 0 && write(p[1], "y", 1) != 1)
		_exit(9);
}

static void once(int restart)
{
	struct timespec ts = {5, 0}, rem = {0, 0};
	char c = 0;
	long r;

	on(SIGALRM, tick, restart);
	hits = 0;
	every_ms(10);
	r = nanosleep(&ts, &rem);
	say_n("sleep ", r ? errno : 0);
	say_n("rest ", rem.tv_sec);
	do {
		r = read(p[0], &c, 1);
	} while (r < 0 && errno == EINTR && !restart);
	say_n("read ", r < 0 ? -errno : c);
	r = pause();
	say_n("pause ", errno);
	every_ms(0);
	while (hits % 4)
		raise(SIGALRM);
}

int main(void)
{
	if (pipe(p))
		return 1;
	once(0);
	once(SA_RESTART);
	return 0;
}
