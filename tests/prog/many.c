/* SPDX-License-Identifier: MIT */
/* many threads|forks|vforks|storm|timers N [US]: a lot of threads at once, of children one after
 * another; N seconds of a signal each US (100) microseconds, handled, beside a sum; N ms of timers
 * of all kinds.
 */
#include "kinds.h"
#include <sys/resource.h>

static int n, period = 100;
static pthread_barrier_t bar;
static volatile unsigned long hits;
static long total;

static void *worker(void *arg)
{
	long v = (long)arg;

	for (int i = 0; i < 10; i++)
		v = v * 31 % 1009;
	pthread_barrier_wait(&bar);
	__atomic_add_fetch(&total, v, __ATOMIC_RELAXED);
	return arg;
}

static void threads(void)
{
	pthread_t *t = calloc((size_t)n, sizeof(*t));
	pthread_attr_t at;
	long want = 0;

	pthread_attr_init(&at);
	pthread_attr_setstacksize(&at, 65536);
	pthread_barrier_init(&bar, NULL, (unsigned int)n);
	for (long i = 0; i < n; i++) {
		long v = i;

		for (int k = 0; k < 10; k++)
			v = v * 31 % 1009;
		want += v;
		if (pthread_create(&t[i], &at, worker, (void *)i)) {
			say("no more threads can be made\n");
			_exit(77);
		}
	}
	for (int i = 0; i < n; i++)
		pthread_join(t[i], NULL);
	CHECK(total == want);
}

static void children(pid_t (*make)(void))
{
	int st, sum = 0, want = 0;

	for (int i = 0; i < n; i++) {
		pid_t pid = make();

		if (!pid)
			_exit(i & 63);
		waitpid(pid, &st, 0);
		sum += WEXITSTATUS(st);
		want += i & 63;
	}
	CHECK(sum == want);
}

static void forks(void)
{
	children(fork);
}

static void vforks(void)
{
	int st, sum = 0, want = 0;

	for (int i = 0; i < n; i++) {
		pid_t pid = vfork();

		if (!pid)
			_exit(i & 63);
		waitpid(pid, &st, 0);
		sum += WEXITSTATUS(st);
		want += i & 63;
	}
	CHECK(sum == want);
}

static void tick(int s, siginfo_t *si, void *uc)
{
	hits++;
}

__attribute__((noinline)) static unsigned long sum_to(unsigned long k)
{
	unsigned long a = 1;

	for (unsigned long i = 0; i < k; i++)
		a = a * 6364136223846793005ul + (i % 3 ? i : ~i);
	return a;
}

/* The same sum again and again, each time with signals in other places. */
static void storm(void)
{
	struct itimerval it = {{0, period}, {0, period}};
	unsigned long want = sum_to(200), rounds = 0;
	struct timespec a, b;

	on(SIGALRM, tick, SA_RESTART);
	clock_gettime(CLOCK_MONOTONIC, &a);
	setitimer(ITIMER_REAL, &it, NULL);
	do {
		for (int i = 0; i < 5; i++, rounds++)
			CHECK(sum_to(200) == want);
		clock_gettime(CLOCK_MONOTONIC, &b);
	} while (b.tv_sec - a.tv_sec < n || (b.tv_sec - a.tv_sec == n && b.tv_nsec < a.tv_nsec));
	memset(&it, 0, sizeof(it));
	setitimer(ITIMER_REAL, &it, NULL);
	CHECK(hits > 0 && rounds > 0);
}

/* Alarms drive the program: its loops have no other end. */
static volatile int rung;

static void ring(int s, siginfo_t *si, void *uc)
{
	rung++;
}

static void timers(void)
{
	struct itimerval it = {{0, 0}, {0, n * 1000}};
	struct itimerspec ts = {{0, 0}, {0, n * 1000000l}};
	struct sigevent ev = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
	timer_t t;

	on(SIGALRM, ring, SA_RESTART);
	on(SIGVTALRM, ring, SA_RESTART);
	on(SIGPROF, ring, SA_RESTART);
	on(SIGUSR1, ring, SA_RESTART);
	setitimer(ITIMER_REAL, &it, NULL);
	while (rung < 1)
		;
	setitimer(ITIMER_VIRTUAL, &it, NULL);
	while (rung < 2)
		__asm__ volatile("nop; jmp 1f; 1: call 2f; jmp 3f; 2: ret; 3:");
	setitimer(ITIMER_PROF, &it, NULL);
	while (rung < 3)
		__asm__ volatile("pause");
	CHECK(!timer_create(CLOCK_MONOTONIC, &ev, &t) && !timer_settime(t, 0, &ts, NULL));
	while (rung < 4)
		sched_yield();
	CHECK(rung == 4);
}

int main(int argc, char **argv)
{
	static const struct kind kinds[] = {
		{"threads", threads}, {"forks", forks},   {"vforks", vforks},
		{"storm", storm},     {"timers", timers},
	};

	if (argc < 3)
		return 99;
	n = atoi(argv[2]);
	period = argc > 3 ? atoi(argv[3]) : period;
	return run_kinds(kinds, LENGTH(kinds), argc, argv);
}
