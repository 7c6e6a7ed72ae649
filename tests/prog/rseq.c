/* SPDX-License-Identifier: MIT */
/* An rseq critical section that is aborted by preemption or a signal: goes to its abort handler. */
#include "prog.h"

struct rseq_cs {
	uint32_t version, flags;
	uint64_t start, offset, abort;
} __attribute__((aligned(32)));

struct rseq {
	uint32_t cpu_id_start, cpu_id;
	uint64_t cs;
	uint32_t flags, pad[5];
} __attribute__((aligned(32)));

extern const ptrdiff_t __rseq_offset;
static volatile int hits;

static void tick(int s, siginfo_t *si, void *uc)
{
	(void)s, (void)si, (void)uc;
	hits++;
}

int main(void)
{
	struct rseq *rs = (void *)((char *)__builtin_thread_pointer() + __rseq_offset);
	long aborts = 0, n = 0;

	if ((int)rs->cpu_id < 0)
		return 77;
	on(SIGALRM, tick, 0);
	every_ms(8);
	while (aborts < 2 || hits < 2) {
		__asm__ volatile(".pushsection .data.cs, \"aw\"\n.balign 32\n"
				 "3: .long 0, 0\n.quad 1f, 2f - 1f, 4f\n.popsection\n\t"
				 "lea 3b(%%rip), %%rax; mov %%rax, %2\n"
				 "1:\n\t"
				 "mov $40, %%ecx\n"
				 "6:\tdec %%ecx; jnz 6b\n\t"
				 "inc %0\n"
				 "2:\n\t"
				 "jmp 5f\n\t"
				 ".byte 0x0f, 0xb9, 0x3d\n.long 0x53053053\n"
				 "4:\tinc %1\n"
				 "5:\n"
				 : "+r"(n), "+r"(aborts), "+m"(rs->cs)
				 :
				 : "rax", "rcx", "memory", "cc");
		rs->cs = 0;
	}
	say("aborted\n");
	return 0;
}
