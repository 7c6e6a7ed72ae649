/* SPDX-License-Identifier: MIT */
/* loops [KIND]: the branches that have only a short form, in every direction, with counts at the
 * edges of 32 and 64 bits; none of them changes flags. */
#include "kinds.h"

struct went {
	unsigned long rcx, rounds, flags;
};

/* Forward and backward form of one branch: rounds is how often it was taken (at most 5). */
#define BOTH(name, insn)                                                                           \
	static struct went name##_back(unsigned long rcx, unsigned long flags)                     \
	{                                                                                          \
		struct went w = {rcx, 0, flags};                                                   \
                                                                                                   \
		__asm__ volatile("jmp 2f\n"                                                        \
				 "1: lea 1(%1), %1; pushfq; cmp $5, %1; je 3f; popfq\n"            \
				 "2: push %2; popfq; " insn " 1b\n"                                \
				 "pushfq; 3: pop %2"                                               \
				 : "+c"(w.rcx), "+r"(w.rounds), "+r"(w.flags)                      \
				 :                                                                 \
				 : "cc", "memory");                                                \
		return w;                                                                          \
	}                                                                                          \
	static struct went name##_ahead(unsigned long rcx, unsigned long flags)                    \
	{                                                                                          \
		struct went w = {rcx, 0, flags};                                                   \
                                                                                                   \
		__asm__ volatile("push %2; popfq; " insn " 1f\n"                                   \
				 "jmp 2f; ud2\n"                                                   \
				 "1: lea 1(%1), %1\n"                                              \
				 "2: pushfq; pop %2"                                               \
				 : "+c"(w.rcx), "+r"(w.rounds), "+r"(w.flags)                      \
				 :                                                                 \
				 : "cc", "memory");                                                \
		return w;                                                                          \
	}
BOTH(jrcxz, "jrcxz")
BOTH(jecxz, "jecxz")
BOTH(loop, "loop")
BOTH(loope, "loope")
BOTH(loopne, "loopne")
BOTH(loop32, "addr32 loop")
BOTH(loope32, "addr32 loope")

static const unsigned long counts[] = {0, 1, 2, 3, 1ul << 32, (1ul << 32) + 1, -1ul};

/* What the manual says of one execution. */
static int goes(const char *k, unsigned long *rcx, unsigned long flags)
{
	int small = strstr(k, "32") != NULL, z = (flags & 0x40) != 0;

	if (k[0] == 'j')
		return k[1] == 'r' ? !*rcx : !(unsigned int)*rcx;
	*rcx = small ? (unsigned int)*rcx - 1u : *rcx - 1;
	return *rcx && (!strncmp(k, "loope", 5) ? z : !strncmp(k, "loopne", 6) ? !z : 1);
}

static void check(const char *k, struct went (*back)(unsigned long, unsigned long),
		  struct went (*ahead)(unsigned long, unsigned long))
{
	for (size_t i = 0; i < LENGTH(counts); i++) {
		for (int f = 0; f < 4; f++) {
			unsigned long flags = 0x202 | (f & 1 ? 0x40 : 0) | (f & 2 ? 0x895 : 0);
			unsigned long rcx = counts[i], rounds = 0;
			struct went w = ahead(rcx, flags);
			int taken = goes(k, &rcx, flags);

			CHECK(w.rcx == rcx && w.rounds == (unsigned long)taken && w.flags == flags);
			w = back(counts[i], flags);
			rcx = counts[i];
			while (rounds < 5 && goes(k, &rcx, flags))
				rounds++;
			CHECK(w.rcx == rcx && w.rounds == rounds && w.flags == flags);
		}
	}
}

#define KIND(n)                                                                                    \
	static void n(void)                                                                        \
	{                                                                                          \
		check(#n, n##_back, n##_ahead);                                                    \
	}
KIND(jrcxz)
KIND(jecxz)
KIND(loop)
KIND(loope)
KIND(loopne)
KIND(loop32)
KIND(loope32)

int main(int argc, char **argv)
{
	static const struct kind kinds[] = {
		{"jrcxz", jrcxz},   {"jecxz", jecxz},   {"loop", loop},       {"loope", loope},
		{"loopne", loopne}, {"loop32", loop32}, {"loope32", loope32},
	};

	return run_kinds(kinds, LENGTH(kinds), argc, argv);
}
