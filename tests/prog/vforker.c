/* SPDX-License-Identifier: MIT */
/* Waits in vfork for a child that sleeps. Runs until killed. */
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

int main(void)
{
	int st;

	for (;;) {
		puts("vfork");
		fflush(stdout);
		if (!vfork()) {
			sleep(20);
			_exit(0);
		}
		wait(&st);
	}
}
