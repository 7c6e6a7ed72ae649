/* SPDX-License-Identifier: MIT */
/* attached SECONDS: threads that wait in all the ways there are and threads that compute, each with
 * a gs base of its own, for somebody to attach to and detach from. Nothing may be seen of it: no
 * wait ends early or late, no sum is wrong, no mapping is new at the end. SIGUSR1s are counted. */
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <errno.h>
#include <asm/prctl.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static volatile int over, bad;
static int fds[2];
static uint32_t word;
static volatile unsigned long sums, naps, hits;

#define CHECK(x) ((x) ? (void)0 : wrong(#x, __LINE__))

static void wrong(const char *what, int line)
{
	bad = 1;
	printf("line %d: not so: %s (errno %d)\n", line, what, errno);
	fflush(stdout);
}

static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static void *on_futex(void *arg)
{
	CHECK(syscall(SYS_futex, &word, FUTEX_WAIT, 0, NULL, NULL, 0) == 0);
	return arg;
}

static void *on_read(void *arg)
{
	char c;

	CHECK(read(fds[0], &c, 1) == 0);
	return arg;
}

static void *on_poll(void *arg)
{
	struct pollfd p = {.fd = fds[0], .events = POLLIN};

	CHECK(poll(&p, 1, -1) == 1);
	return arg;
}

static void *on_poll_time(void *arg)
{
	struct pollfd p = {.fd = fds[0], .events = POLLIN};
	double t = now();

	CHECK(poll(&p, 1, 600000) == 1);
	return arg;
}

static void *on_select(void *arg)
{
	fd_set set;

	FD_ZERO(&set);
	FD_SET(fds[0], &set);
	CHECK(select(fds[0] + 1, &set, NULL, NULL, NULL) == 1);
	return arg;
}

static void *on_epoll(void *arg)
{
	struct epoll_event ev = {.events = EPOLLIN};
	int e = epoll_create1(0);

	CHECK(!epoll_ctl(e, EPOLL_CTL_ADD, fds[0], &ev));
	CHECK(epoll_wait(e, &ev, 1, -1) == 1);
	return arg;
}

static void *on_sem(void *arg)
{
	struct sembuf op = {0, -1, 0};
	int id = (int)(long)arg;

	/* Ends when the set is removed. */
	CHECK(semop(id, &op, 1) == -1 && errno == EIDRM);
	return arg;
}

static void *on_sleep(void *arg)
{
	while (!over) {
		struct timespec ts = {0, 50000000};
		double t = now();

		CHECK(nanosleep(&ts, NULL) == 0);
		t = now() - t;
		CHECK(t >= 0.05 && t < 3);
		naps++;
	}
	return arg;
}

static unsigned long sum_of(unsigned long n)
{
	unsigned long a = n;

	for (unsigned long i = 0; i < n; i++)
		a = a * 6364136223846793005ul + (i % 3 ? i : ~i);
	return a;
}

static unsigned long gs_base(void)
{
	unsigned long v = 0;

	syscall(SYS_arch_prctl, ARCH_GET_GS, &v);
	return v;
}

static void *on_sum(void *arg)
{
	unsigned long want = sum_of(5000), n = 0, own[2] = {0, 4711};
	unsigned long v;

	syscall(SYS_arch_prctl, ARCH_SET_GS, own);
	while (!over) {
		CHECK(sum_of(5000) == want);
		sums++;
		CHECK(gs_base() == (unsigned long)own);
		if (++n % 64 == 0)
			usleep(100);
	}
	__asm__ volatile("movq %%gs:8, %0" : "=r"(v));
	CHECK(v == 4711);
	return arg;
}

static void hit(int sig)
{
	hits++;
}

static int maps(char *out, size_t size)
{
	FILE *f = fopen("/proc/self/maps", "r");
	char line[512];
	int n = 0;

	*out = 0;
	while (fgets(line, sizeof(line), f)) {
		if (strstr(line, " r-xp ") || strstr(line, " r-xs ") || strstr(line, "memfd")) {
			n++;
			strncat(out, line, size - strlen(out) - 1);
		}
	}
	fclose(f);
	return n;
}

int main(int argc, char **argv)
{
	int sem = semget(IPC_PRIVATE, 1, 0600);
	static char before[65536], after[65536];
	void *(*const kinds[])(void *) = {on_futex, on_read, on_poll,  on_poll_time, on_select,
					  on_epoll, on_sem,  on_sleep, on_sum,       on_sum};
	pthread_t t[sizeof(kinds) / sizeof(*kinds)];
	struct sigaction sa = {.sa_handler = hit, .sa_flags = SA_RESTART};
	sigset_t set;
	double end;
	int n = maps(before, sizeof(before));

	signal(SIGUSR2, SIG_IGN);
	sigaction(SIGUSR1, &sa, NULL);
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	pipe(fds);
	for (size_t i = 0; i < sizeof(t) / sizeof(*t); i++)
		pthread_create(&t[i], NULL, kinds[i], (void *)(long)sem);
	pthread_sigmask(SIG_UNBLOCK, &set, NULL);
	end = now() + atof(argv[1]);
	printf("ready\n");
	fflush(stdout);
	while (now() < end && access("stop", F_OK))
		usleep(10000);
	if (maps(after, sizeof(after)) != n)
		printf("mappings were:\n%sand are:\n%s", before, after), bad = 1;
	over = 1;
	word = 1;
	syscall(SYS_futex, &word, FUTEX_WAKE, 99, NULL, NULL, 0);
	close(fds[1]);
	semctl(sem, 0, IPC_RMID);
	for (size_t i = 0; i < sizeof(t) / sizeof(*t); i++)
		pthread_join(t[i], NULL);
	printf("%lu signals\n", hits);
	fflush(stdout);
	CHECK(sums > 10 && naps > 2);
	return bad;
}
