/* SPDX-License-Identifier: MIT */
/* flow [KIND]: jump tables, deep mutual recursion, functions far longer than a page, targets that
 * hash alike, code that overlaps code, and code at the end of a mapping. */
#include "kinds.h"

typedef long (*fn)(long);

/* Computed goto and switch: a machine of one program. */
static long machine(const unsigned char *p)
{
	static const void *const ops[] = {&&push, &&add, &&mul, &&back, &&end, &&dup, &&drop};
	long s[16], *sp = s, n = 0;

	goto *ops[*p++];
push:
	*sp++ = *p++;
	goto *ops[*p++];
add:
	sp--;
	sp[-1] += sp[0];
	goto *ops[*p++];
mul:
	sp--;
	sp[-1] = sp[-1] * sp[0] % 1000003;
	goto *ops[*p++];
dup:
	*sp = sp[-1];
	sp++;
	goto *ops[*p++];
drop:
	sp--;
	goto *ops[*p++];
back:
	if (++n < 50)
		p -= *p + 1;
	else
		p++;
	goto *ops[*p++];
end:
	return sp[-1] * 100 + n;
}

static void computed(void)
{
	static const unsigned char prog[] = {0, 3, 0, 7, 2, 0, 5, 1, 5, 6, 3, 8, 4};

	long v = 3;
	for (int i = 0; i < 50; i++)
		v = (v * 7) % 1000003 + 5;
	CHECK(machine(prog) == v * 100 + 50);
}

__attribute__((noinline)) static long pick(long i)
{
	switch (i) {
#define C(n)                                                                                       \
	case n:                                                                                    \
		__asm__ volatile("");                                                              \
		return (n) * (n) + 1;
#define C8(n) C(n) C(n + 1) C(n + 2) C(n + 3) C(n + 4) C(n + 5) C(n + 6) C(n + 7)
		C8(0) C8(8) C8(16) C8(24) C8(32) C8(40) C8(48) C8(56) default : return -1;
	}
}

static void table(void)
{
	for (long i = 0; i < 400; i++) {
		long k = i * 37 % 70;

		CHECK(pick(k) == (k < 64 ? k * k + 1 : -1));
	}
}

static long odd(long n, long *sum);
__attribute__((noinline)) static long even(long n, long *sum)
{
	long r = n ? odd(n - 1, sum) : 1;

	*sum += n;
	return r;
}
__attribute__((noinline)) static long odd(long n, long *sum)
{
	long r = n ? even(n - 1, sum) : 0;

	*sum -= n;
	return r;
}

/* Returns from deeper than any predictor of returns remembers. */
static void mutual(void)
{
	static const int depths[] = {1, 15, 16, 17, 63, 64, 65, 66, 128, 129, 1000, 1025};

	for (size_t i = 0; i < LENGTH(depths); i++) {
		long sum = 0;

		CHECK(even(depths[i], &sum) == !(depths[i] & 1));
		CHECK(sum == (depths[i] + 1) / 2);
	}
}

/* 3,000 blocks of 64 bytes each: branches over more than 64 KiB, forward and back. */
long big(long) __asm__("big_function");
extern char big_begin[] __asm__("big_begin"), big_end[] __asm__("big_end");
__asm__(".text\nbig_begin: .balign 64\n"
	".set n, 0\n.rept 3000\n.balign 64\n"
	"add $1, %eax; rol $3, %rax; dec %edx; jnz 1f; jmp big_out\n"
	"1: imul $1103515245, %ecx; add $12345, %ecx; test $0x10000, %ecx\n"
	".if n >= 1500\n jz big_begin + 64 * (n - 1500)\n .else\n jz big_begin + 64 * (n + 1500)\n "
	".endif\n"
	".if n == 2999\n jmp big_begin\n .endif\n.set n, n + 1\n.endr\n"
	"big_out: ret\n"
	".balign 64\nbig_function: xor %eax, %eax; mov $4000, %edx; mov %edi, %ecx; jmp "
	"big_begin\n"
	"big_end:\n");

static unsigned long big_in_c(unsigned int c)
{
	unsigned long a = 0;
	int block = 0, left = 4000;

	for (;;) {
		a = (unsigned int)a + 1u;
		a = a << 3 | a >> 61;
		if (!--left)
			return a;
		c = c * 1103515245u + 12345;
		if (!(c & 0x10000))
			block = block >= 1500 ? block - 1500 : block + 1500;
		else
			block = (block + 1) % 3000;
	}
}

static void large(void)
{
	CHECK(big_end - big_begin > 180000);
	CHECK((unsigned long)big(7) == big_in_c(7));
}

/* 20,000 instructions without a branch, and 3,000 branches never taken. */
long straight(long) __asm__("straight_function");
long untaken(long) __asm__("untaken_function");
__asm__(".text\nstraight_function: mov %rdi, %rax\n.rept 2000\n lea 3(%rax), %rax; rol $1, %rax; "
	"not %rax\n.endr\nret\n"
	"untaken_function: mov %rdi, %rax; test %rdi, %rdi\n.rept 3000\n jz 1f; lea 1(%rax), "
	"%rax\n.endr\n ret\n1: xor %eax, %eax; ret\n");

static void long_code(void)
{
	unsigned long v = 5;

	for (int i = 0; i < 2000; i++) {
		v += 3;
		v = ~(v << 1 | v >> 63);
	}
	CHECK((unsigned long)straight(5) == v);
	CHECK(untaken(5) == 3005 && untaken(0) == 0);
}

/* Targets that differ in no bit below the 16th, by call, jump and return. */
static void alike(void)
{
	enum { N = 100, STEP = 65536 };
	char *base = mmap(NULL, (N + 1) * STEP, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	char *p = (char *)(((unsigned long)base + STEP - 1) & -STEP);
	long sum = 0, want = 0, v;

	for (int i = 0; i < N; i++) {
		unsigned char *c = (unsigned char *)p + (long)i * STEP + 0x140;

		memcpy(c, "\x8d\x87", 2); /* lea i(%rdi), %eax; ret */
		memcpy(c + 2, &i, 4);
		c[6] = 0xc3;
	}
	mprotect(base, (N + 1) * STEP, PROT_READ | PROT_EXEC);
	for (int r = 0; r < 3; r++) {
		for (int i = 0; i < N; i++) {
			int k = (i * (r ? 37 : 1)) % N;
			void *f = p + (long)k * STEP + 0x140;

			sum += ((fn)f)(r);
			/* By a jump, and by a return. */
			__asm__ volatile("push $1f; jmp *%1; ud2\n1:"
					 : "=a"(v)
					 : "r"(f), "D"(0l)
					 : "memory", "cc");
			sum += v;
			__asm__ volatile("push $1f; push %1; ret; ud2\n1:"
					 : "=a"(v)
					 : "r"(f), "D"(0l)
					 : "memory", "cc");
			sum += v;
			want += 3 * k + r;
		}
	}
	CHECK(sum == want);
}

/* The second byte of an instruction is the first of another. */
static void overlap(void)
{
	long a, b;

	for (int i = 0; i < 3; i++) {
		/* jmp to its own second byte: inc %eax */
		__asm__ volatile("xor %%eax, %%eax; .byte 0xeb, 0xff, 0xc0" : "=a"(a) : : "cc");
		CHECK(a == 1);
		/* mov $0xc0fff8b0, %ecx holds mov $-8, %al and inc %eax. */
		__asm__ volatile("xor %%eax, %%eax; mov $2, %%edx; mov $0, %%ebx\n"
				 "1: .byte 0xb9, 0xb0, 0xf8, 0xff, 0xc0\n"
				 "add %%eax, %%ebx; dec %%edx; jz 2f; jmp 1b + 1\n2:"
				 : "=b"(b)
				 :
				 : "rax", "rcx", "rdx", "cc");
		CHECK((unsigned int)b == 0xf9);
		/* A prefix jumped over. */
		__asm__ volatile("mov $5, %%eax; mov $5, %%ecx; test %1, %1; jz 1f + 1; jmp 1f\n"
				 "1: .byte 0xf0, 0x83, 0x04, 0x24, 0x00\n"
				 "add $1, %%eax"
				 : "=a"(a)
				 : "r"((long)(i & 1))
				 : "rcx", "cc", "memory");
		CHECK(a == 6);
	}
}

static volatile long hits, hit_rip, hit_addr;
static char *edge;

static void at_edge(int s, siginfo_t *si, void *uc)
{
	greg_t *r = ((ucontext_t *)uc)->uc_mcontext.gregs;

	hits++;
	hit_rip = r[REG_RIP];
	hit_addr = (long)si->si_addr;
	if (hits & 1) {
		/* Let it go on: the missing page comes with the rest of the code. */
		mprotect(edge, 4096, PROT_READ | PROT_EXEC);
	} else {
		r[REG_RIP] = *(long *)r[REG_RSP];
		r[REG_RSP] += 8;
	}
}

/* The last instruction ends with the mapping; is cut by it; goes on into a page that comes late. */
static void edges(void)
{
	char *p = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	fn f;

	edge = p + 4096;
	on(SIGSEGV, at_edge, 0);
	memcpy(edge - 4, "\x8d\x47\x05\xc3", 4); /* lea 5(%rdi), %eax; ret at the very end */
	memcpy(edge - 12, "\x8d\x47\x05\x74\x00\x90\xeb\x00", 8); /* falls into the one before */
	memcpy(edge, "\x90\xc3", 2);
	mprotect(edge, 4096, PROT_NONE);
	mprotect(p, 4096, PROT_READ | PROT_EXEC);
	f = (fn)(edge - 4);
	CHECK(f(1) == 6 && f(2) == 7);
	f = (fn)(edge - 12);
	CHECK(f(3) == 8 && hits == 0);
	mprotect(p, 8192, PROT_READ | PROT_WRITE);
	memcpy(edge - 3, "\x8d\x47\x05", 3); /* falls off the end */
	mprotect(edge, 4096, PROT_NONE);
	mprotect(p, 4096, PROT_READ | PROT_EXEC);
	f = (fn)(edge - 3);
	CHECK(f(4) == 9 && hits == 1 && hit_rip == (long)edge && hit_addr == (long)edge);
	mprotect(p, 8192, PROT_READ | PROT_WRITE);
	memcpy(edge - 3, "\xb8\x01\x02\x03\x04\xc3", 6); /* mov cut in the middle */
	mprotect(edge, 4096, PROT_NONE);
	mprotect(p, 4096, PROT_READ | PROT_EXEC);
	hits = 1;
	CHECK((int)f(4) != 0x04030201 && hits == 2 && hit_rip == (long)edge - 3 &&
	      hit_addr == (long)edge);
	hits = 0;
	CHECK((int)f(4) == 0x04030201 && hits == 1 && hit_rip == (long)edge - 3);
}

/* A branch to the end of a mapping that is not taken must not be followed. */
static void untrodden(void)
{
	char *p = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	static const unsigned char code[] = {
		0x48, 0x85, 0xff,             /* test %rdi, %rdi */
		0x75, 0x03,                   /* jne over the junk */
		0x06, 0x0e, 0x62,             /* no instructions */
		0x31, 0xc0, 0xff, 0xc0,       /* xor %eax, %eax; inc %eax */
		0x0f, 0x84, 0,    0x10, 0, 0, /* je a page on, into nothing */
		0xc3,
	};

	memcpy(p, code, sizeof(code));
	mprotect(p, 4096, PROT_READ | PROT_EXEC);
	munmap(p + 4096, 4096);
	CHECK(((fn)p)(5) == 1 && ((fn)p)(6) == 1);
}

int main(int argc, char **argv)
{
	static const struct kind kinds[] = {
		{"computed", computed}, {"table", table},    {"mutual", mutual},
		{"large", large},       {"long", long_code}, {"alike", alike},
		{"overlap", overlap},   {"edges", edges},    {"untrodden", untrodden},
	};

	return run_kinds(kinds, LENGTH(kinds), argc, argv);
}
