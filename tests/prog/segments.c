/* SPDX-License-Identifier: MIT */
/* segments [KIND]: the FS and GS bases are the program's own: set by arch_prctl and by WRGSBASE,
 * kept over branches, syscalls, signals, threads and forks. */
#include "kinds.h"
#include <asm/prctl.h>
#include <sys/auxv.h>

static long area[64], other[64];

static long gs_at(long off)
{
	long v;

	__asm__ volatile("mov %%gs:(%1), %0" : "=r"(v) : "r"(off));
	return v;
}

static void fill(void)
{
	for (int i = 0; i < 64; i++) {
		area[i] = 1000 + i;
		other[i] = 2000 + i;
	}
}

/* Operands of every kind by way of GS. */
static void operands(void)
{
	long v, w = 0, x;

	CHECK(!syscall(SYS_arch_prctl, ARCH_SET_GS, area));
	CHECK(!syscall(SYS_arch_prctl, ARCH_GET_GS, &v) && v == (long)area);
	__asm__ volatile(
		"mov %%gs:8, %0; add %%gs:16, %0; movl $5, %%gs:24; incq %%gs:32; push %%gs:40; "
		"pop %%gs:48\n"
		"mov $7, %%ecx; add %%gs:(,%%rcx,8), %0; movq %0, %%xmm0; movq %%xmm0, %%gs:64\n"
		"lock xadd %1, %%gs:72; jmp 1f\n1: lea 2f(%%rip), %%rax; mov %%rax, %%gs:80; jmp "
		"*%%gs:80; ud2\n"
		"2: lea 3f(%%rip), %%rax; mov %%rax, %%gs:88; call *%%gs:88; jmp 4f\n3: ret\n4:"
		: "=&r"(v), "+r"(w)
		:
		: "rax", "rcx", "memory", "cc", "xmm0");
	CHECK(v == 1001 + 1002 + 1007 && *(int *)(area + 3) == 5 && area[4] == 1005 &&
	      area[6] == 1005);
	CHECK(area[8] == v && w == 1009 && area[9] == 1009);
	/* The address is the base's, not GS' own, with LEA; with 32 bits it wraps before the base
	 * is added. */
	__asm__ volatile("lea %%gs:16, %0; mov $-8, %%edx; mov %%gs:24(%%edx), %1"
			 : "=r"(v), "=r"(x)
			 :
			 : "rdx");
	CHECK(v == 16 && x == area[2]);
	fill();
}

static void handler(int s, siginfo_t *si, void *uc)
{
	CHECK(gs_at(8) == 1001);
}

static void *thread(void *arg)
{
	unsigned long v = 0;

	/* A thread begins with what its maker had, and then has its own. */
	CHECK(!syscall(SYS_arch_prctl, ARCH_GET_GS, &v) && v == (unsigned long)area);
	CHECK(!syscall(SYS_arch_prctl, ARCH_SET_GS, other));
	for (int i = 0; i < 5; i++) {
		CHECK(gs_at(8) == 2001);
		sched_yield();
	}
	raise(SIGUSR2);
	return arg;
}

static void nothing(int s, siginfo_t *si, void *uc)
{
	CHECK(gs_at(16) == 2002);
}

static void kept(void)
{
	pthread_t t;
	int st;

	on(SIGUSR1, handler, 0);
	on(SIGUSR2, nothing, 0);
	CHECK(!syscall(SYS_arch_prctl, ARCH_SET_GS, area));
	for (int i = 0; i < 3; i++) {
		raise(SIGUSR1);
		CHECK(gs_at(24) == 1003);
	}
	pthread_create(&t, NULL, thread, NULL);
	pthread_join(t, NULL);
	CHECK(gs_at(8) == 1001);
	if (!fork()) {
		CHECK(gs_at(8) == 1001);
		CHECK(!syscall(SYS_arch_prctl, ARCH_SET_GS, other));
		CHECK(gs_at(8) == 2001);
		_exit(failures);
	}
	wait(&st);
	CHECK(st == 0 && gs_at(8) == 1001);
	if (!vfork()) {
		syscall(SYS_arch_prctl, ARCH_SET_GS, other);
		_exit(gs_at(8) != 2001);
	}
	wait(&st);
	CHECK(st == 0 && gs_at(8) == 1001);
}

static void instructions(void)
{
	unsigned long v, fs;

	if (!(getauxval(AT_HWCAP2) & 2))
		return;
	for (int i = 0; i < 3; i++) {
		__asm__ volatile("wrgsbase %0" : : "r"(i & 1 ? other : area));
		CHECK(gs_at(8) == (i & 1 ? 2001 : 1001));
		__asm__ volatile("mov $39, %%eax; syscall; rdgsbase %0"
				 : "=r"(v)
				 :
				 : "rax", "rcx", "r11", "memory");
		CHECK(v == (unsigned long)(i & 1 ? other : area));
		CHECK(!syscall(SYS_arch_prctl, ARCH_GET_GS, &v) &&
		      v == (unsigned long)(i & 1 ? other : area));
		__asm__ volatile("wrgsbase %0" : : "r"(i & 1 ? area : other));
		CHECK(gs_at(8) == (i & 1 ? 1001 : 2001));
	}
	/* 32-bit forms clear the upper half. */
	__asm__ volatile("rdgsbase %k0" : "=r"(v));
	CHECK(v == (unsigned int)(unsigned long)other);
	__asm__ volatile("rdfsbase %0; wrfsbase %2; mov %%fs:8, %1; wrfsbase %0"
			 : "=&r"(fs), "=&r"(v)
			 : "r"(area));
	CHECK(v == 1001);
	CHECK(!syscall(SYS_arch_prctl, ARCH_GET_FS, &v) && v == fs);
}

/* Selectors: loading the null selector into GS clears or keeps the base, as the CPU does. */
static void selectors(void)
{
	unsigned int sel;
	unsigned long v;

	CHECK(!syscall(SYS_arch_prctl, ARCH_SET_GS, area));
	__asm__ volatile("mov %%gs, %0" : "=r"(sel));
	CHECK(sel == 0 && gs_at(8) == 1001);
	__asm__ volatile("mov %0, %%gs" : : "r"(0));
	syscall(SYS_arch_prctl, ARCH_GET_GS, &v);
	CHECK(v == 0 || v == (unsigned long)area);
	syscall(SYS_arch_prctl, ARCH_SET_GS, area);
	CHECK(gs_at(8) == 1001);
}

/* FS is another thread control block for some time, without any call of the C library. */
static void fs(void)
{
	unsigned long old, v, r;

	__asm__ volatile("mov $158, %%eax; mov $0x1003, %%edi; mov %3, %%rsi; syscall\n"
			 "mov $158, %%eax; mov $0x1002, %%edi; mov %4, %%rsi; syscall; jmp 1f\n"
			 "1: mov %%fs:16, %0; lea 2f(%%rip), %%rax; jmp *%%rax\n"
			 "2: add %%fs:24, %0; mov $158, %%eax; mov $0x1002, %%edi; mov %2, %%rsi; "
			 "syscall; mov %%rax, %1"
			 : "=&r"(v), "=&r"(r), "+m"(old)
			 : "r"(&old), "r"(other)
			 : "rax", "rcx", "rdi", "rsi", "r11", "memory");
	CHECK(v == 2002 + 2003 && r == 0);
}

int main(int argc, char **argv)
{
	static const struct kind kinds[] = {
		{"operands", operands},   {"kept", kept}, {"instructions", instructions},
		{"selectors", selectors}, {"fs", fs},
	};

	fill();
	return run_kinds(kinds, LENGTH(kinds), argc, argv);
}
