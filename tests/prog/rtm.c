/* SPDX-License-Identifier: MIT */
/* A transaction: under the stepping it always aborts, the fallback must count. */
#include "prog.h"
#include <cpuid.h>

int main(void)
{
	unsigned int a, b, c, d;
	volatile int x = 0;

	if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(b & (1u << 11)))
		return 77;
	for (int i = 0; i < 3; i++) {
		unsigned int st = 0xffffffff;

		__asm__ volatile("xbegin 1f\n1:" : "+a"(st) : : "memory");
		if (st == 0xffffffff) {
			x = x + 1;
			__asm__ volatile("xend" : : : "memory");
		} else {
			x = x + 1;
		}
	}
	__asm__ volatile("xtest" : : : "cc");
	say_n("x ", x);
	return x != 3;
}
