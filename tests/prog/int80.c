/* SPDX-License-Identifier: MIT */
/* int 0x80: in a 64-bit program, and in a 32-bit one. */
#include <string.h>
#include <unistd.h>

static char text[] = "by int 0x80\n";

int main(void)
{
	long r = 4, pid = 20;

	/* Static and not position independent: the address fits in 32 bits. */
	__asm__ volatile("int $0x80" : "+a"(r) : "b"(1), "c"(text), "d"(sizeof(text) - 1) : "memory");
	__asm__ volatile("int $0x80" : "+a"(pid) : : "memory");
	return r == sizeof(text) - 1 && pid == getpid() ? 0 : 1;
}
