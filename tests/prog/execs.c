/* SPDX-License-Identifier: MIT */
/* execs main|thread|fail|memfd: becoming another program, with threads beside. */
#include "prog.h"
#include <fcntl.h>

static void go(void)
{
	char *av[] = {"execs", "leaf", NULL};
	char *ev[] = {"A=b", NULL};

	execve("/proc/self/exe", av, ev);
	_exit(80);
}

static void *loop(void *arg)
{
	/* A loop that leaves packets: one of direct jumps alone cannot be told from one turn of it. */
	for (volatile long i = 1; i; i++)
		__asm__ volatile("pause");
	return arg;
}

static void *sleeper(void *arg)
{
	pause();
	return arg;
}

static void *execer(void *arg)
{
	go();
	return arg;
}

static void by_memfd(void)
{
	char *av[] = {"execs", "leaf", NULL};
	char *ev[] = {NULL};
	static char buf[65536];
	int in = open("/proc/self/exe", O_RDONLY), out = memfd_create("copy of it", 0);
	ssize_t n;

	while ((n = read(in, buf, sizeof(buf))) > 0) {
		if (write(out, buf, (size_t)n) != n)
			_exit(81);
	}
	fexecve(out, av, ev);
	_exit(82);
}

static int failing(void)
{
	char *av[] = {"none", NULL};

	if (execve("/nonexistent/none", av, av) == 0 || errno != ENOENT)
		return 1;
	if (execve("/dev/null", av, av) == 0 || errno != EACCES)
		return 2;
	if (execve("/etc/passwd", av, av) == 0 || errno != EACCES)
		return 3;
	say("failed as it must\n");
	return 0;
}

int main(int argc, char **argv)
{
	const char *k = argc > 1 ? argv[1] : "main";
	pthread_t t;

	if (!strcmp(k, "leaf")) {
		say("leaf\n");
		return getpid() == (pid_t)syscall(SYS_gettid) ? 6 : 7;
	}
	if (!strcmp(k, "fail"))
		return failing();
	if (!strcmp(k, "memfd"))
		by_memfd();
	for (int i = 0; i < 3; i++)
		pthread_create(&t, NULL, i == 1 ? loop : sleeper, NULL);
	if (!strcmp(k, "thread")) {
		pthread_create(&t, NULL, execer, NULL);
		pause();
	}
	go();
	return 83;
}
