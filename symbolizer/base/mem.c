/* SPDX-License-Identifier: MIT */
/* Allocation that cannot fail: a process without memory ends with a message. */
#include "base/base.h"

#include <stdlib.h>

static void out_of_memory(void)
{
	fputs("iptrace: out of memory\n", stderr);
	abort();
}

void *ipt_xcalloc(size_t n, size_t size)
{
	void *p = calloc(n ? n : 1, size ? size : 1);

	if (!p)
		out_of_memory();
	return p;
}

void *ipt_xrealloc(void *p, size_t n, size_t size)
{
	size_t bytes;

	if (__builtin_mul_overflow(n, size, &bytes))
		out_of_memory();
	p = realloc(p, bytes ? bytes : 1);
	if (!p)
		out_of_memory();
	return p;
}

char *ipt_xstrdup(const char *s)
{
	size_t n = strlen(s) + 1;
	char *d = ipt_xcalloc(n, 1);

	memcpy(d, s, n);
	return d;
}

char *ipt_xasprintf(const char *fmt, ...)
{
	va_list ap;
	char *s;
	int n;

	va_start(ap, fmt);
	n = vasprintf(&s, fmt, ap);
	va_end(ap);
	if (n < 0)
		out_of_memory();
	return s;
}
