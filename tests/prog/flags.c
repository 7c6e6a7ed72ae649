/* SPDX-License-Identifier: MIT */
/* flags [KIND]: flags that are used long after they were made, behind branches of every kind. */
#include "kinds.h"

#define FLAGS 0x8d5ul

unsigned char sets[16], jumps[16];
unsigned long at_end, flags_in;
void later(void) __asm__("later");

/* All conditions are asked five branches, a call and two returns after POPF. */
__asm__(".text\n"
	".macro ASK cc n\n"
	"set\\cc sets+\\n\n"
	"movb $0, jumps+\\n; j\\cc 1f; jmp 2f\n1: movb $1, jumps+\\n\n2:\n"
	".endm\n"
	"later: push flags_in; popfq; jmp 1f; ud2\n"
	"flags_ret: ret\n"
	"1: lea 2f(%rip), %rax; jmp *%rax; ud2\n"
	"2: call flags_ret; lea flags_ret(%rip), %rax; call *%rax\n"
	"mov $3, %ecx\n3: loop 3b\n jrcxz 4f; ud2\n"
	"4: push $5f; ret; ud2\n"
	"5: ASK o 0\nASK no 1\nASK b 2\nASK ae 3\nASK e 4\nASK ne 5\nASK be 6\nASK a 7\n"
	"ASK s 8\nASK ns 9\nASK p 10\nASK np 11\nASK l 12\nASK ge 13\nASK le 14\nASK g 15\n"
	"pushfq; pop at_end; ret\n");

static int holds(int cc, unsigned long f)
{
	int of = !!(f & 0x800), cf = f & 1, zf = !!(f & 0x40), sf = !!(f & 0x80), pf = !!(f & 4);
	const int v[8] = {of, cf, zf, cf | zf, sf, pf, sf != of, zf | (sf != of)};

	return v[cc / 2] ^ (cc & 1);
}

static void conditions(void)
{
	static const unsigned long bit[6] = {1, 4, 0x10, 0x40, 0x80, 0x800};

	for (int m = 0; m < 64; m++) {
		unsigned long f = 0;

		for (int i = 0; i < 6; i++)
			f |= m >> i & 1 ? bit[i] : 0;
		flags_in = f | 0x202;
		later();
		CHECK((at_end & FLAGS) == f);
		for (int cc = 0; cc < 16; cc++)
			CHECK(sets[cc] == holds(cc, f) && jumps[cc] == sets[cc]);
	}
}

/* Carry through calls, returns, jumps of each kind and loops. */
static void carry(void)
{
	unsigned long n = 0, rcx = 4;
	static void *to;

	__asm__ volatile("stc; call 1f; adc $0, %0; jmp 2f\n"
			 "1: jmp 3f\n3: ret\n"
			 "2: stc; lea 4f(%%rip), %%rax; mov %%rax, %2; jmp *%2; ud2\n"
			 "4: adc $0, %0; stc; call *5f(%%rip); jmp 6f; .balign 8\n5: .quad 1b\n"
			 "6: adc $0, %0; stc\n7: inc %%rdx; dec %%rdx; loop 7b; adc $0, %0\n"
			 "stc; push $8f; ret; ud2\n8: adc $0, %0"
			 : "+r"(n), "+c"(rcx), "=m"(to)
			 :
			 : "rax", "rdx", "cc", "memory");
	CHECK(n == 5);
}

static void chain(void)
{
	unsigned long a[6] = {-1ul, -1ul, -1ul, -1ul, -1ul, 1}, b[6] = {1, 0, 0, 0, 0, 2};
	unsigned long *p = a, *q = b, n = 6, v;

	__asm__ volatile("clc\n"
			 "1: mov (%1), %3; adc %3, (%0); lea 8(%0), %0; lea 8(%1), %1\n"
			 "dec %2; jz 2f; jmp 1b\n2:"
			 : "+r"(p), "+r"(q), "+r"(n), "=&r"(v)
			 :
			 : "cc", "memory");
	CHECK(!a[0] && !a[1] && !a[4] && a[5] == 4);
}

static void direction(void)
{
	static char src[8] = "abcdefg", dst[8];

	__asm__ volatile("std; call 1f; jmp 2f\n1: ret\n2: mov $7, %%ecx; rep movsb; cld"
			 :
			 : "S"(src + 6), "D"(dst + 6)
			 : "rcx", "memory", "cc");
	CHECK(!strcmp(dst, "abcdefg"));
}

/* LAHF, SAHF, PUSHF, POPF, BT, CMC, rotates and shifts by zero, a branch between each two. */
static void ways(void)
{
	unsigned long r = 0, x = 0x8000000000000001ul;
	unsigned char ah;

	__asm__ volatile("xor %%eax, %%eax; jmp 1f\n1: lahf; jmp 2f\n2: mov %%ah, %0\n"
			 : "=r"(ah)
			 :
			 : "rax", "cc");
	CHECK((ah & 0xd5) == 0x44);
	__asm__ volatile(
		"mov $0xd5, %%ah; sahf; jmp 1f\n1: mov $0, %%ecx; shl %%cl, %%rax; jmp 2f\n"
		"2: rol $0, %%eax; jnc 3f; jnz 3f; jns 3f; jnp 3f; inc %0\n3:"
		: "+r"(r)
		:
		: "rax", "rcx", "cc");
	CHECK(r == 1);
	__asm__ volatile(
		"bt $63, %1; jmp 1f\n1: rcl $1, %1; jmp 2f\n2: rcl $1, %1; jmp 3f\n3: cmc\n"
		"jmp 4f\n4: sbb %0, %0; not %0"
		: "=&r"(r), "+r"(x)
		:
		: "cc");
	CHECK(x == 7 && r == 0);
	__asm__ volatile(
		"mov $5, %%eax; mov $6, %%ecx; cmpxchg %%ecx, %%ecx; call 1f; jmp 2f\n1: ret\n"
		"2: setz %%al; movzbl %%al, %%eax"
		: "=a"(r)
		:
		: "rcx", "cc");
	CHECK(r == 0);
	/* AF by way of a decimal-like sum. */
	__asm__ volatile("mov $0xf, %%al; add $1, %%al; jmp 1f\n1: pushfq; pop %0; jmp 2f\n2:"
			 : "=r"(r)
			 :
			 : "rax", "cc");
	CHECK((r & FLAGS) == 0x10);
}

/* Both edges of a branch use the flags again. */
static void again(void)
{
	long n = 0;

	for (long i = -3; i < 4; i++) {
		__asm__ volatile("cmp $0, %1; je 1f; jl 2f; jg 3f; ud2\n"
				 "1: ja 9f; jb 9f; jnp 9f; add $1, %0; jmp 8f\n"
				 "2: jae 4f; ud2\n4: js 5f; ud2\n5: add $10, %0; jmp 8f\n"
				 "3: jbe 9f; js 9f; jo 9f; add $100, %0; jmp 8f\n"
				 "9: ud2\n8:"
				 : "+r"(n)
				 : "r"(i)
				 : "cc");
	}
	CHECK(n == 331);
}

/* The identification and alignment-check flags are kept over branches and a syscall. */
static void system_flags(void)
{
	unsigned long f;

	__asm__ volatile(
		"pushfq; orq $0x200000, (%%rsp); popfq; jmp 1f\n1: mov $39, %%eax; syscall\n"
		"jmp 2f\n2: pushfq; pop %0; pushfq; andq $~0x200000, (%%rsp); popfq"
		: "=r"(f)
		:
		: "rax", "rcx", "r11", "cc", "memory");
	CHECK(f & 0x200000);
	/* Alignment checking: an access that is not aligned raises SIGBUS, also in translated code.
	 */
	__asm__ volatile("pushfq; orq $0x40000, (%%rsp); popfq; jmp 1f\n1: jmp 2f\n"
			 "2: pushfq; pop %0; pushfq; andq $~0x40000, (%%rsp); popfq"
			 : "=r"(f)
			 :
			 : "cc", "memory");
	CHECK(f & 0x40000);
}

int main(int argc, char **argv)
{
	static const struct kind kinds[] = {
		{"conditions", conditions}, {"carry", carry}, {"chain", chain},
		{"direction", direction},   {"ways", ways},   {"again", again},
		{"system", system_flags},
	};

	return run_kinds(kinds, LENGTH(kinds), argc, argv);
}
