/* SPDX-License-Identifier: MIT */
/* Calls into the vsyscall page. Exit status 77 when there is none. */
#include "prog.h"

int main(void)
{
	long (*vtime)(long *) = (void *)0xffffffffff600400ul;
	long (*vgtod)(struct timeval *, void *) = (void *)0xffffffffff600000ul;
	struct timeval tv = {0, 0};
	long a, b = 0;

	a = vtime(NULL);
	vgtod(&tv, NULL);
	for (int i = 0; i < 3; i++)
		b = vtime(NULL);
	return a > 1000 && tv.tv_sec >= a - 1 && b >= a ? 0 : 1;
}
