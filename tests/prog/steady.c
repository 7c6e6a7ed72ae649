/* SPDX-License-Identifier: MIT */
/* steady busy|threads|forks|signals|jit MS: work of one kind for so many milliseconds, each piece
 * of it held against its known result; then "right" and status 0. For recorders that are killed
 * meanwhile. */
#include "kinds.h"

static double end;

static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec * 1e3 + (double)ts.tv_nsec / 1e6;
}

static unsigned long twist(unsigned long a)
{
	return a % 5 ? a * 3 + 1 : a / 5;
}

static unsigned long twirl(unsigned long a)
{
	return a ^ a << 7;
}

/* Branches of all kinds. */
static __attribute__((noinline)) unsigned long sum_of(unsigned long n)
{
	static unsigned long (*const volatile ways[])(unsigned long) = {twist, twirl};
	unsigned long a = n;

	for (unsigned long i = 0; i < n; i++)
		a = ways[a >> 3 & 1](a) + (i % 3 ? i : ~i);
	return a;
}

static void busy(void)
{
	unsigned long want = sum_of(3000);

	while (now() < end)
		CHECK(sum_of(3000) == want);
}

static void *work(void *arg)
{
	busy();
	return arg;
}

static void threads(void)
{
	pthread_t t[8];

	for (int i = 0; i < 8; i++)
		pthread_create(&t[i], NULL, work, NULL);
	for (int i = 0; i < 8; i++)
		pthread_join(t[i], NULL);
}

static void forks(void)
{
	int want = (int)(sum_of(300) & 63), st;

	while (now() < end) {
		pid_t pid = fork();

		if (!pid)
			_exit((int)(sum_of(300) & 63));
		CHECK(waitpid(pid, &st, 0) == pid && WIFEXITED(st) && WEXITSTATUS(st) == want);
	}
}

static volatile unsigned long hits;

static void hit(int s, siginfo_t *si, void *uc)
{
	hits++;
}

static void signals(void)
{
	struct itimerval it = {{0, 300}, {0, 300}};

	on(SIGALRM, hit, SA_RESTART);
	setitimer(ITIMER_REAL, &it, NULL);
	busy();
	it = (struct itimerval){{0, 0}, {0, 0}};
	setitimer(ITIMER_REAL, &it, NULL);
	CHECK(hits > 3);
}

/* New code each time, in the same place. */
static void jit(void)
{
	unsigned char *p = mmap(NULL, 4096, 7, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	for (unsigned int n = 0; now() < end; n++) {
		p[0] = 0xb8; /* mov $n, %eax; ret */
		memcpy(p + 1, &n, 4);
		p[5] = 0xc3;
		CHECK(((unsigned int (*)(void))p)() == n);
		CHECK(sum_of(n % 50) == sum_of(n % 50));
	}
}

int main(int argc, char **argv)
{
	static const struct kind kinds[] = {
		{"busy", busy},       {"threads", threads}, {"forks", forks},
		{"signals", signals}, {"jit", jit},
	};

	if (argc < 3)
		return 99;
	end = now() + atof(argv[2]);
	if (!run_kinds(kinds, LENGTH(kinds), argc, argv))
		say("right\n");
	return failures;
}
