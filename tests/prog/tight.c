/* SPDX-License-Identifier: MIT */
/* tight KIND [MS]: programs that left no room: a filter of syscalls that kills, limits of memory,
 * files and descriptors, locked memory. Each then runs code that it has not run before, with
 * indirect branches. */
#include "kinds.h"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>

static char *window;

/* 16 new pieces of code each time, in memory that was there before. */
static int work(void)
{
	int sum = 0;

	for (int i = 0; i < 16; i++) {
		unsigned char *p = (unsigned char *)window + i * 256;

		/* mov $i, %eax; jmp to its end; ret */
		p[0] = 0xb8;
		memcpy(p + 1, &i, 4);
		memcpy(p + 5, "\xeb\x10", 2);
		p[23] = 0xc3;
		sum += ((int (*)(void))p)();
	}
	return sum;
}

static __attribute__((noinline)) int fresh(int n)
{
	int s = 0;

	for (int i = 0; i < n; i++) {
		switch (i * 7 % 11) {
		case 0: s += 3; break;
		case 1: s ^= 5; break;
		case 2: s -= n; break;
		case 3: s += i; break;
		case 4: s *= 3; break;
		case 5: s ^= 77; break;
		default: s++;
		}
	}
	return s;
}

static void rest(void)
{
	static volatile int n = 200;
	int a = fresh(n);

	CHECK(work() == 120);
	CHECK(fresh(n) == a);
}

static void limit(int what, unsigned long n)
{
	struct rlimit rl = {n, n};

	CHECK(!setrlimit(what, &rl));
}

static void filter(unsigned int action, unsigned int flags)
{
	static struct sock_filter f[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_write, 3, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 2, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rt_sigreturn, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = {LENGTH(f), f};

	f[4].k = action;
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	CHECK(!syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &prog));
}

/* Any other syscall than write, exit_group and rt_sigreturn kills. */
static void seccomp(void)
{
	filter(SECCOMP_RET_KILL_PROCESS, 0);
	rest();
}

static volatile int started;
static volatile unsigned long rounds[3];
static int more_ms;

static void *on_own(void *arg)
{
	volatile unsigned long *n = arg;
	int want = fresh(200);

	__atomic_add_fetch(&started, 1, __ATOMIC_RELAXED);
	for (;;) {
		CHECK(fresh(200) == want);
		++*n;
	}
}

/* The filter comes over threads that run. They can do nothing then but compute. */
static void together(void)
{
	struct timespec a, b;
	pthread_t t;

	for (int i = 0; i < 3; i++)
		pthread_create(&t, NULL, on_own, (void *)&rounds[i]);
	while (started < 3)
		sched_yield();
	clock_gettime(CLOCK_MONOTONIC, &a);
	filter(SECCOMP_RET_KILL_PROCESS, SECCOMP_FILTER_FLAG_TSYNC);
	rounds[0] = rounds[1] = rounds[2] = 0;
	say("filtered\n");
	rest();
	do {
		fresh(100);
		clock_gettime(CLOCK_MONOTONIC, &b);
	} while ((b.tv_sec - a.tv_sec) * 1000 + (b.tv_nsec - a.tv_nsec) / 1000000 < more_ms);
	for (int i = 0; i < 3; i++)
		while (rounds[i] < 2)
			__asm__ volatile("pause");
}

static volatile int refused;

static void on_sys(int s, siginfo_t *si, void *uc)
{
	refused++;
	CHECK(si->si_code == 1 && si->si_syscall == SYS_getppid);
	((ucontext_t *)uc)->uc_mcontext.gregs[REG_RAX] = -77;
}

/* Any other raises SIGSYS, whose handler gives the result. */
static void emulated(void)
{
	long v;

	on(SIGSYS, on_sys, 0);
	filter(SECCOMP_RET_TRAP, 0);
	for (int i = 0; i < 3; i++) {
		__asm__ volatile("syscall" : "=a"(v) : "0"(SYS_getppid) : "rcx", "r11", "memory");
		CHECK(v == -77);
	}
	CHECK(refused == 3);
	rest();
}

/* Any other fails. */
static void denied(void)
{
	filter(SECCOMP_RET_ERRNO | EPERM, 0);
	CHECK(syscall(SYS_getppid) == -1 && errno == EPERM);
	CHECK(mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED);
	rest();
}

/* Strict mode, whose only other syscalls are read and exit. */
static void strict(void)
{
	CHECK(!prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT, 0, 0, 0));
	rest();
	say("strict done\n");
	syscall(SYS_exit, failures);
}

static void memory(void)
{
	limit(RLIMIT_AS, 1 << 20);
	limit(RLIMIT_DATA, 0);
	CHECK(mmap(NULL, 2 << 20, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED);
	rest();
}

static void file_size(void)
{
	int fd = memfd_create("x", 0);

	limit(RLIMIT_FSIZE, 4096);
	signal(SIGXFSZ, SIG_IGN);
	CHECK(pwrite(fd, "x", 1, 4096) == -1 && errno == EFBIG);
	close(fd);
	rest();
}

static void files(void)
{
	limit(RLIMIT_NOFILE, 3);
	CHECK(dup(0) == -1 && errno == EMFILE);
	rest();
	limit(RLIMIT_NOFILE, 0);
	CHECK(dup(0) == -1);
	rest();
}

static void closed(void)
{
	for (int i = 0; i < 1024; i++)
		i == 1 ? 0 : close(i);
	CHECK(!syscall(SYS_close_range, 3, ~0u, 0));
	rest();
	CHECK(dup(1) == 0);
}

static void locked(void)
{
	struct rlimit rl;

	getrlimit(RLIMIT_MEMLOCK, &rl);
	rl.rlim_cur = rl.rlim_max < 4 << 20 ? rl.rlim_max : 4 << 20;
	CHECK(!setrlimit(RLIMIT_MEMLOCK, &rl));
	/* Not allowed everywhere; the work must go on in both cases. */
	say(mlockall(MCL_CURRENT | MCL_FUTURE) ? "not locked\n" : "locked\n");
	rest();
}

static void undumpable(void)
{
	int st;

	CHECK(!prctl(PR_SET_DUMPABLE, 0, 0, 0, 0));
	rest();
	if (!fork()) {
		rest();
		_exit(failures);
	}
	wait(&st);
	CHECK(st == 0 && prctl(PR_GET_DUMPABLE) == 0);
}

static void cpu(void)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(0, &set);
	if (!sched_setaffinity(0, sizeof(set), &set)) {
		rest();
		CPU_ZERO(&set);
		CHECK(!sched_getaffinity(0, sizeof(set), &set) && CPU_COUNT(&set) == 1 &&
		      CPU_ISSET(0, &set));
	}
}

int main(int argc, char **argv)
{
	static const struct kind kinds[] = {
		{"seccomp", seccomp},       {"emulated", emulated}, {"denied", denied},
		{"strict", strict},         {"memory", memory},     {"filesize", file_size},
		{"files", files},           {"closed", closed},     {"locked", locked},
		{"undumpable", undumpable}, {"cpu", cpu},           {"together", together},
	};

	more_ms = argc > 2 ? atoi(argv[2]) : 0;
	window = mmap(NULL, 4096, 7, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	/* One at a time: what each does cannot be undone. */
	return argc < 2 ? 99 : run_kinds(kinds, LENGTH(kinds), argc, argv);
}
