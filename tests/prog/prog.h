/* SPDX-License-Identifier: MIT */
/* What the target programs share. They are linked statically and kept short: every instruction of
 * theirs is single-stepped. */
#ifndef PROG_H
#define PROG_H

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#define TF 0x100ul

static inline void say(const char *s)
{
	if (write(1, s, strlen(s)) < 0)
		_exit(99);
}

static inline void say_n(const char *what, long n)
{
	char b[80];
	size_t i = sizeof(b);
	unsigned long u = n < 0 ? 0ul - (unsigned long)n : (unsigned long)n;

	b[--i] = '\n';
	do {
		b[--i] = (char)('0' + u % 10);
	} while ((u /= 10) && i > 2);
	if (n < 0)
		b[--i] = '-';
	say(what);
	if (write(1, b + i, sizeof(b) - i) < 0)
		_exit(99);
}

static inline void on(int sig, void (*fn)(int, siginfo_t *, void *), int flags)
{
	struct sigaction sa;

	memset(&sa, 0, sizeof(sa));
	sa.sa_sigaction = fn;
	sa.sa_flags = SA_SIGINFO | flags;
	sigaction(sig, &sa, NULL);
}

static inline void every_ms(int ms)
{
	struct itimerval it = {{0, ms * 1000}, {0, ms * 1000}};

	setitimer(ITIMER_REAL, &it, NULL);
}

#ifdef __x86_64__
static inline unsigned long flags_now(void)
{
	unsigned long f;

	/* Below the red zone. */
	__asm__ volatile("lea -128(%%rsp), %%rsp; pushfq; pop %0; lea 128(%%rsp), %%rsp" : "=r"(f));
	return f;
}
#endif

#endif
