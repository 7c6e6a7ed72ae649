/* SPDX-License-Identifier: MIT */
/* births KIND: children by every kind of call; each writes a line and ends with 5. */
#include "prog.h"
#include <linux/sched.h>
#include <spawn.h>

extern char **environ;
static char stack[65536] __attribute__((aligned(16)));
static volatile int shared;

static int child(void *arg)
{
	(void)arg;
	shared = 1;
	say("child\n");
	_exit(5);
}

static pid_t raw_clone(unsigned long flags)
{
	return (pid_t)syscall(SYS_clone, flags | SIGCHLD, 0, 0, 0, 0);
}

static pid_t by_clone3(unsigned long flags)
{
	struct clone_args a;
	pid_t pid;

	memset(&a, 0, sizeof(a));
	a.flags = flags;
	a.exit_signal = SIGCHLD;
	pid = (pid_t)syscall(SYS_clone3, &a, sizeof(a));
	if (a.flags != flags)
		_exit(90);
	return pid;
}

static pid_t by_vfork_exec(const char *self)
{
	pid_t pid = vfork();

	if (!pid) {
		execl(self, self, "leaf", (char *)NULL);
		_exit(91);
	}
	return pid;
}

static pid_t start(const char *k, const char *self)
{
	char *leaf[] = {(char *)self, "leaf", NULL};
	pid_t pid = -1;

	if (!strcmp(k, "vfork"))
		return by_vfork_exec(self);
	if (!strcmp(k, "spawn"))
		return posix_spawn(&pid, self, NULL, NULL, leaf, environ) ? -1 : pid;
	if (!strcmp(k, "vm"))
		return clone(child, stack + sizeof(stack), CLONE_VM | SIGCHLD, NULL);
	if (!strcmp(k, "fork"))
		pid = fork();
	else if (!strcmp(k, "untraced"))
		pid = raw_clone(CLONE_UNTRACED);
	else if (!strcmp(k, "clone3"))
		pid = by_clone3(0);
	else if (!strcmp(k, "clone3-untraced"))
		pid = by_clone3(CLONE_UNTRACED);
	if (!pid)
		child(NULL);
	return pid;
}

int main(int argc, char **argv)
{
	const char *k = argc > 1 ? argv[1] : "fork";
	int st = -1;

	if (!strcmp(k, "leaf"))
		child(NULL);
	for (int i = 0; i < 2; i++) {
		pid_t pid = start(k, "/proc/self/exe");

		if (pid <= 0 || waitpid(pid, &st, 0) != pid)
			return 92;
		say_n("ended ", WEXITSTATUS(st));
	}
	say_n("shared ", shared);
	return 0;
}
