/* SPDX-License-Identifier: MIT */
/* Programs of several behaviours: each is a kind, checked by itself, run by its name or all in
 * turn. */
#ifndef KINDS_H
#define KINDS_H

#include "prog.h"

struct kind {
	const char *name;
	void (*fn)(void);
};

static volatile int failures;

static inline void failed(const char *what, int line)
{
	failures++;
	say("FAILED ");
	say(what);
	say_n(" in line ", line);
}

#define CHECK(cond) ((cond) ? (void)0 : failed(#cond, __LINE__))
#define LENGTH(a)   (sizeof(a) / sizeof((a)[0]))

static inline int run_kinds(const struct kind *k, size_t n, int argc, char **argv)
{
	size_t ran = 0;

	for (size_t i = 0; i < n; i++) {
		if (argc > 1 && strcmp(argv[1], k[i].name))
			continue;
		k[i].fn();
		say(k[i].name);
		say(failures ? " bad\n" : " good\n");
		ran++;
	}
	return !ran || failures;
}

#endif
