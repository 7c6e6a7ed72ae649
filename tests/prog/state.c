/* SPDX-License-Identifier: MIT */
/* Prints what a program inherits: environment, descriptors, umask, limits, signals, groups. */
#include "prog.h"
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>

extern char **environ;

static void signals(void)
{
	static char buf[8192];
	FILE *f = fopen("/proc/self/status", "r");
	size_t n = fread(buf, 1, sizeof(buf) - 1, f);

	fclose(f);
	buf[n] = 0;
	for (char *l = strtok(buf, "\n"); l; l = strtok(NULL, "\n")) {
		/* SigQ counts the signals queued for all processes of the user. */
		if ((!strncmp(l, "Sig", 3) && l[3] != 'Q') || !strncmp(l, "Shd", 3) || !strncmp(l, "NoNew", 5) ||
		    !strncmp(l, "Secc", 4) || !strncmp(l, "Cap", 3) || !strncmp(l, "Threads", 7))
			puts(l);
	}
}

int main(int argc, char **argv)
{
	struct sigaction sa;
	char link[300], name[64];

	for (int i = 0; i < argc; i++)
		puts(argv[i]);
	for (char **e = environ; *e; e++)
		puts(*e);
	for (int fd = 0; fd < 20; fd++) {
		struct stat st;

		snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
		if (fstat(fd, &st) == 0)
			printf("fd %d %o %ld\n", fd, st.st_mode, lseek(fd, 0, SEEK_CUR) < 0 ? -1l : 0l);
	}
	printf("umask %o\n", umask(0));
	for (int i = 0; i < RLIMIT_NLIMITS; i++) {
		struct rlimit rl;

		getrlimit(i, &rl);
		printf("%d %lx %lx\n", i, rl.rlim_cur, rl.rlim_max);
	}
	printf("group %d session %d tty %d\n", getpgrp() == getppid() || getpgrp() == getpid(),
	       getsid(0) != getpid(), tcgetpgrp(0) < 0);
	printf("dumpable %d keep %d pdeath %d\n", prctl(PR_GET_DUMPABLE), prctl(PR_GET_KEEPCAPS), 0);
	printf("personality %x nice %d cwd %s\n", personality(0xffffffff), getpriority(PRIO_PROCESS, 0),
	       getcwd(link, sizeof(link)));
	for (int i = 1; i < 65; i++) {
		if (!sigaction(i, NULL, &sa) && sa.sa_handler != SIG_DFL)
			printf("sig %d\n", i);
	}
	signals();
	return 0;
}
