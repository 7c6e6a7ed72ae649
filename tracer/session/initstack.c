/* SPDX-License-Identifier: MIT */
/* The call stack of a stopped thread, by libunwind's remote unwinder. The only file that includes
 * libunwind. */
#include <libunwind-ptrace.h>
#include <time.h>

#include "session/priv.h"

#define MAX_NS 300000000ull /* a stack is an extra: unwinding one must not hold the process up */

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ull + (uint64_t)ts.tv_nsec;
}

static size_t walk(unw_cursor_t *c, uint64_t *out, size_t max, uint32_t *flags)
{
	uint64_t end = now_ns() + MAX_NS;
	size_t n = 0;
	int r;

	while ((r = unw_step(c)) > 0) {
		unw_word_t ip;

		if (n == max || now_ns() > end) {
			*flags |= 1;
			return n;
		}
		if (unw_get_reg(c, UNW_REG_IP, &ip) < 0 || !ip)
			break;
		out[n++] = ip;
	}
	if (r < 0)
		*flags |= 2;
	return n;
}

size_t ipt_initstack(pid_t tid, uint64_t *out, size_t max, uint32_t *flags)
{
	unw_addr_space_t as;
	unw_cursor_t c;
	void *upt;
	size_t n = 0;

	*flags = 2;
	upt = _UPT_create(tid);
	as = upt ? unw_create_addr_space(&_UPT_accessors, 0) : NULL;
	if (as && unw_init_remote(&c, as, upt) == 0) {
		*flags = 0;
		n = walk(&c, out, max, flags);
	}
	if (as)
		unw_destroy_addr_space(as);
	if (upt)
		_UPT_destroy(upt);
	return n;
}
