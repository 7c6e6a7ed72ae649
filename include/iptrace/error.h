/* SPDX-License-Identifier: MIT */
/* Error codes of iptrace. Functions return 0 or a negative code: -errno below 1000, -IPT_E_* from
 * 1000. */
#ifndef IPTRACE_ERROR_H
#define IPTRACE_ERROR_H

#include <stdint.h>

enum ipt_error {
#define IPT_E(name, number, text) IPT_E_##name = number,
#include "iptrace/error.def"
#undef IPT_E
};

/* Where a failing call writes what it knows. Caller's memory; zero it before the first use. */
struct ipt_diag {
	int code;       /* positive: errno or enum ipt_error; 0 when nothing failed */
	uint64_t pos;   /* offset or address the text speaks of */
	char text[512]; /* object and fact, no newline */
	/* Called for each warning (trouble that did not stop the call); may be NULL. */
	void (*warn)(void *arg, const char *text);
	void *warn_arg;
};

/* Text of a code, positive or negative; never NULL; static memory for our codes, strerror's else.
 */
const char *ipt_strerror(int code);

#endif
