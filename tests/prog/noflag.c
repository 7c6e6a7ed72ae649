/* SPDX-License-Identifier: MIT */
/* Looks for a trap flag that is not the program's: in pushed flags, in r11 after a syscall, in the
 * flags of a signal frame; in the main thread, another thread and forked children. */
#include "prog.h"

static volatile int bad;

__attribute__((always_inline)) static inline long r11_after(long nr)
{
	unsigned long r11;
	long r = nr;

	__asm__ volatile("syscall; mov %%r11, %1" : "+a"(r), "=r"(r11) : "D"(0), "S"(0), "d"(0)
			 : "rcx", "r11", "memory");
	if (r11 & TF)
		bad |= 1;
	return r;
}

static void look(int s, siginfo_t *si, void *uc)
{
	(void)s, (void)si;
	if (((ucontext_t *)uc)->uc_mcontext.gregs[REG_EFL] & TF)
		bad |= 2;
	if (flags_now() & TF)
		bad |= 4;
}

static void pushes(void)
{
	unsigned short w;

	if (flags_now() & TF)
		bad |= 8;
	__asm__ volatile("lea -128(%%rsp), %%rsp; pushfw; popw %0; lea 128(%%rsp), %%rsp" : "=r"(w));
	if (w & TF)
		bad |= 8;
	/* POPF of what PUSHF gave, and PUSHF in the shadow of MOV SS */
	__asm__ volatile("lea -128(%%rsp), %%rsp; pushfq; popfq; pushfq; popw %0; lea 6(%%rsp), %%rsp;"
			 "lea 128(%%rsp), %%rsp" : "=r"(w) : : "cc");
	if (w & TF)
		bad |= 8;
	__asm__ volatile("lea -128(%%rsp), %%rsp; mov %%ss, %%ax; mov %%ax, %%ss; pushfq; popw %%ax;"
			 "lea 6(%%rsp), %%rsp; lea 128(%%rsp), %%rsp; mov %%ax, %0"
			 : "=r"(w) : : "rax", "cc");
	if (w & TF)
		bad |= 16;
}

static void *all(void *arg)
{
	r11_after(SYS_getpid);
	pushes();
	raise(SIGUSR1);
	r11_after(SYS_sched_yield);
	return arg;
}

int main(void)
{
	pthread_t t;
	int st = 0;

	on(SIGUSR1, look, 0);
	all(NULL);
	pthread_create(&t, NULL, all, NULL);
	pthread_join(t, NULL);
	if (r11_after(SYS_fork) == 0) {
		all(NULL);
		_exit(bad);
	}
	wait(&st);
	bad |= st;
	if (r11_after(SYS_vfork) == 0)
		_exit(bad);
	wait(&st);
	say_n("bad ", bad | st);
	return bad | st;
}
