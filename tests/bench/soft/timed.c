/* SPDX-License-Identifier: MIT */
/* Runs a command and writes "STATUS WALL_NS CPU_NS ALL_NS" to a file: its shell-like exit status,
 * the time until it exited, the processor time of its whole tree, and the time until the last of
 * that tree was gone. Orphans come here (subreaper), so that helpers in sessions of their own are
 * counted too. Over the limit all are killed: status 124. */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

static volatile sig_atomic_t late;

static void on_alarm(int sig)
{
	(void)sig;
	late = 1;
	/* The signal may come just before the wait: come again. */
	alarm(1);
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static uint64_t tv_ns(struct timeval t)
{
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_usec * 1000u;
}

static void kill_children(void)
{
	FILE *f = fopen("/proc/thread-self/children", "r");
	int pid;

	if (!f)
		return;
	while (fscanf(f, "%d", &pid) == 1)
		kill(pid, SIGKILL);
	fclose(f);
}

/* Waits for everything below this process; returns the main child's wait status. */
static int reap(pid_t main_pid, uint64_t *main_end_ns)
{
	int main_status = 0;

	for (;;) {
		int status;
		pid_t pid;

		if (late)
			kill_children();
		pid = wait4(-1, &status, 0, NULL);
		if (pid < 0 && errno == EINTR)
			continue;
		if (pid < 0)
			return main_status;
		if (pid == main_pid) {
			main_status = status;
			*main_end_ns = now_ns();
		}
	}
}

static int shell_status(int status)
{
	if (late)
		return 124;
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

int main(int argc, char **argv)
{
	struct sigaction sa = {.sa_handler = on_alarm};
	uint64_t start_ns, end_ns = 0;
	struct rusage ru;
	int status, err;
	pid_t pid;
	FILE *f;

	if (argc < 4) {
		fprintf(stderr, "usage: timed LIMIT_SECONDS RESULT_FILE COMMAND [ARGS]\n");
		return 2;
	}
	f = fopen(argv[2], "we");
	if (!f || prctl(PR_SET_CHILD_SUBREAPER, 1) || sigaction(SIGALRM, &sa, NULL)) {
		perror("timed");
		return 2;
	}
	alarm((unsigned)atoi(argv[1]));
	start_ns = now_ns();
	err = posix_spawn(&pid, argv[3], NULL, NULL, argv + 3, environ);
	if (err) {
		errno = err;
		perror(argv[3]);
		return 2;
	}
	status = shell_status(reap(pid, &end_ns));
	getrusage(RUSAGE_CHILDREN, &ru);
	fprintf(f, "%d %lu %lu %lu\n", status, (unsigned long)(end_ns - start_ns),
		(unsigned long)(tv_ns(ru.ru_utime) + tv_ns(ru.ru_stime)),
		(unsigned long)(now_ns() - start_ns));
	return fclose(f) ? 2 : 0;
}
