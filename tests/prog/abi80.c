/* SPDX-License-Identifier: MIT */
/* abi80 ignore|map|clone: 64-bit code makes 32-bit syscalls by INT 0x80: SIGTRAP ignored and
 * raised; code mapped and run; a child that wants to be untraced. */
#include "prog.h"

enum { NR32_CLONE = 120, NR32_RT_SIGACTION = 174, NR32_MMAP2 = 192 };

static long int80(long nr, long a, long b, long c, long d, long e)
{
	int r;

	__asm__ volatile("int $0x80"
			 : "=a"(r)
			 : "0"(nr), "b"(a), "c"(b), "d"(c), "S"(d), "D"(e)
			 : "r8", "r9", "r10", "r11", "memory");
	return r;
}

static struct {
	unsigned int handler, flags, restorer;
	unsigned long long mask;
} ignore = {1, 0, 0, 0};

int main(int argc, char **argv)
{
	const char *k = argc > 1 ? argv[1] : "";
	int st = 0;

	if (!strcmp(k, "ignore")) {
		say_n("sigaction ", int80(NR32_RT_SIGACTION, SIGTRAP, (long)&ignore, 0, 8, 0));
		raise(SIGTRAP);
		say("alive\n");
	} else if (!strcmp(k, "map")) {
		unsigned char *p = (unsigned char *)(uintptr_t)(unsigned int)int80(
			NR32_MMAP2, 0x50000000, 4096, 7, 0x32, -1);

		memcpy(p, "\xb8\x07\0\0\0\xc3", 6);
		say_n("seven ", ((int (*)(void))(uintptr_t)p)());
	} else {
		long c = int80(NR32_CLONE, 0x00800000 | SIGCHLD, 0, 0, 0, 0);

		if (!c)
			_exit(3);
		waitpid((pid_t)c, &st, 0);
		say_n("child ", st);
	}
	return 0;
}
