/* SPDX-License-Identifier: MIT */
/* fibres [KIND]: threads of control of the program's own making: stacks switched by hand with RET,
 * with an indirect jump, and by longjmp between them. */
#include "kinds.h"

#define FIBRES 3
static char stacks[FIBRES][16384] __attribute__((aligned(16)));
static void *sp[FIBRES + 1];
static int turns[FIBRES], live;
static jmp_buf at[FIBRES + 1];
void switch_ret(void **from, void *to) __asm__("switch_ret");
void switch_jmp(void **from, void *to) __asm__("switch_jmp");
static void (*swap)(void **, void *);

__asm__(".text\n"
	"switch_ret: push %rbx; push %rbp; push %r12; push %r13; push %r14; push %r15\n"
	"mov %rsp, (%rdi); mov %rsi, %rsp\n"
	"pop %r15; pop %r14; pop %r13; pop %r12; pop %rbp; pop %rbx; ret\n"
	"switch_jmp: push %rbx; push %rbp; push %r12; push %r13; push %r14; push %r15\n"
	"mov %rsp, (%rdi); mov %rsi, %rsp\n"
	"pop %r15; pop %r14; pop %r13; pop %r12; pop %rbp; pop %rbx; pop %rcx; jmp *%rcx\n");

__attribute__((noinline)) static void yield_deep(int me, int depth)
{
	if (depth) {
		yield_deep(me, depth - 1);
		turns[me] += depth;
	} else {
		swap(&sp[me], sp[(me + 1) % (FIBRES + 1)]);
	}
}

static void fibre(void)
{
	int me = live++;

	for (int i = 0;; i++)
		yield_deep(me, (i + me) % 4);
}

static void rounds(void (*how)(void **, void *))
{
	swap = how;
	live = 0;
	memset(turns, 0, sizeof(turns));
	for (int i = 0; i < FIBRES; i++) {
		void **p = (void **)(stacks[i] + sizeof(stacks[i]) - 64);

		p[6] = (void *)fibre;
		sp[i] = p;
	}
	for (int i = 0; i < 40; i++)
		swap(&sp[FIBRES], sp[0]);
	CHECK(live == FIBRES);
	for (int me = 0; me < FIBRES; me++) {
		int want = 0;

		for (int i = 0; i < 39; i++) {
			int d = (i + me) % 4;

			want += d * (d + 1) / 2;
		}
		CHECK(turns[me] == want);
	}
}

static void by_ret(void)
{
	rounds(switch_ret);
}
static void by_jmp(void)
{
	rounds(switch_jmp);
}

static void leaper(void)
{
	int me = live++;

	for (;;) {
		turns[me]++;
		if (!setjmp(at[me]))
			longjmp(at[(me + 1) % (FIBRES + 1)], 1);
	}
}

/* The first visit of each stack is by a switch, the others by longjmp. */
static void by_longjmp(void)
{
	live = 0;
	memset(turns, 0, sizeof(turns));
	for (int i = FIBRES - 1; i >= 0; i--) {
		void **p = (void **)(stacks[i] + sizeof(stacks[i]) - 64);

		p[6] = (void *)leaper;
		live = i;
		if (i == FIBRES - 1) {
			if (!setjmp(at[FIBRES]))
				switch_ret(&sp[FIBRES], p);
		} else if (!setjmp(at[i + 1])) {
			switch_ret(&sp[FIBRES], p);
		}
	}
	for (int i = 0; i < FIBRES; i++)
		CHECK(turns[i] >= 1);
}

int main(int argc, char **argv)
{
	static const struct kind kinds[] = {
		{"ret", by_ret}, {"jmp", by_jmp}, {"longjmp", by_longjmp}};

	return run_kinds(kinds, LENGTH(kinds), argc, argv);
}
