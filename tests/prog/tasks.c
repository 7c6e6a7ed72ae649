/* SPDX-License-Identifier: MIT */
/* tasks [KIND]: threads and processes made by hand: a raw clone into assembler code, one that
 * shares memory and is no thread, children of children, ends of threads while others run. */
#include "kinds.h"
#include <linux/futex.h>
#include <linux/sched.h>

static char stack[3][65536] __attribute__((aligned(16)));
static volatile int done, value, cleared;

/* raw_thread(flags, stack, tid): the child returns into assembler code, on its own stack, and ends
 * there. */
long raw_thread(unsigned long flags, void *sp, volatile int *tid) __asm__("raw_thread");
__asm__(".text\n"
	"raw_thread: mov %rdx, %r10; mov $56, %eax; syscall; test %eax, %eax; jz 1f; ret\n"
	"1: mov $10, %ecx\n2: add %ecx, value; loop 2b\n"
	"call 3f; jmp *4f(%rip); ud2\n3: push %rax; pop %rax; ret\n"
	".balign 8\n4: .quad 5f\n5: lock incl done; xor %edi, %edi; mov $60, %eax; syscall; ud2\n");

static void wait_for(volatile int *word, int from)
{
	while (*word == from)
		syscall(SYS_futex, word, FUTEX_WAIT, from, NULL, NULL, 0);
}

#define THREAD (CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM)

static void raw(void)
{
	for (int i = 0; i < 3; i++) {
		done = value = 0;
		cleared = 1;
		CHECK(raw_thread(THREAD | CLONE_CHILD_CLEARTID, stack[i] + 60000, &cleared) > 0);
		wait_for(&cleared, 1);
		CHECK(done == 1 && value == 55);
	}
}

static void shared(void)
{
	int st;
	long pid;

	done = value = 0;
	pid = raw_thread(CLONE_VM | SIGCHLD, stack[0] + 60000, NULL);
	CHECK(pid > 0 && waitpid((pid_t)pid, &st, 0) == pid && st == 0);
	CHECK(done == 1 && value == 55);
	/* Three at a time. */
	done = value = 0;
	for (int i = 0; i < 3; i++)
		CHECK(raw_thread(CLONE_VM | CLONE_FILES | SIGCHLD, stack[i] + 60000, NULL) > 0);
	for (int i = 0; i < 3; i++)
		wait(&st);
	CHECK(done == 3);
}

/* vfork whose child runs code that its parent has not run, and changes its variables. */
static __attribute__((noinline)) int fresh(int n)
{
	int s = 0;

	for (int i = 0; i < n; i++)
		s += i % 3 ? i : -i;
	return s;
}

static void borrowed(void)
{
	int st;

	for (int i = 0; i < 3; i++) {
		pid_t pid = vfork();

		if (!pid) {
			value = fresh(20 + i);
			_exit(i);
		}
		waitpid(pid, &st, 0);
		CHECK(WEXITSTATUS(st) == i && value == fresh(20 + i));
	}
}

static int descend(int n)
{
	int st, sum = 1;
	pid_t pid[2];

	if (!n)
		return 1;
	for (int i = 0; i < 2; i++) {
		pid[i] = fork();
		if (!pid[i])
			_exit(descend(n - 1));
	}
	for (int i = 0; i < 2; i++) {
		waitpid(pid[i], &st, 0);
		sum += WEXITSTATUS(st);
	}
	return sum;
}

static void tree(void)
{
	CHECK(descend(3) == 15);
}

/* A chain: each forks the next and ends at once; the last one's end is told by a pipe. */
static void chain(void)
{
	int p[2], st;
	char c = 0;

	CHECK(!pipe(p));
	if (!fork()) {
		for (int i = 0; i < 5; i++) {
			if (fork())
				_exit(0);
		}
		_exit(write(p[1], "x", 1) != 1);
	}
	close(p[1]);
	CHECK(read(p[0], &c, 1) == 1 && c == 'x');
	close(p[0]);
	wait(&st);
}

/* Threads that end by return and by the bare syscall while others run. */
static volatile long spins[2];
static volatile int stop, bare = 1;

static void *spin(void *arg)
{
	while (!stop)
		++spins[(long)arg];
	return arg;
}

static void *leaves(void *arg)
{
	return arg;
}

static void ends(void)
{
	pthread_t t[3];
	void *r;

	for (long i = 0; i < 2; i++)
		pthread_create(&t[i], NULL, spin, (void *)i);
	pthread_create(&t[2], NULL, leaves, (void *)77);
	while (!spins[0] || !spins[1])
		sched_yield();
	pthread_join(t[2], &r);
	CHECK((long)r == 77);
	for (int i = 0; i < 3; i++) {
		bare = 1;
		CHECK(raw_thread(THREAD | CLONE_CHILD_CLEARTID, stack[i] + 60000, &bare) > 0);
		wait_for(&bare, 1);
	}
	long n = spins[1];
	while (spins[1] == n)
		sched_yield();
	stop = 1;
	for (int i = 0; i < 2; i++)
		pthread_join(t[i], NULL);
}

/* All threads signal one another and themselves. */
static volatile int got;

static void count(int s, siginfo_t *si, void *uc)
{
	__atomic_add_fetch(&got, 1, __ATOMIC_SEQ_CST);
}

static void *signaller(void *arg)
{
	for (int i = 0; i < 5; i++)
		pthread_kill(pthread_self(), SIGUSR1);
	return arg;
}

static void signals(void)
{
	pthread_t t[4];

	on(SIGUSR1, count, SA_RESTART);
	for (int i = 0; i < 4; i++)
		pthread_create(&t[i], NULL, signaller, NULL);
	for (int i = 0; i < 4; i++)
		pthread_join(t[i], NULL);
	CHECK(got == 20);
}

int main(int argc, char **argv)
{
	static const struct kind kinds[] = {
		{"raw", raw},     {"shared", shared}, {"borrowed", borrowed}, {"tree", tree},
		{"chain", chain}, {"ends", ends},     {"signals", signals},
	};

	return run_kinds(kinds, LENGTH(kinds), argc, argv);
}
