/* SPDX-License-Identifier: MIT */
/* The call stack of a stopped thread, by libunwind's remote unwinder. The only file that includes
 * libunwind. */
#include <libunwind-ptrace.h>
#include <time.h>

#include "session/priv.h"

#define MAX_NS 300000000ull /* a stack is an extra: unwinding one must not hold the process up */

struct reader {
	void *upt;
	pid_t tid;
};

/* Reads of memory by one call instead of one ptrace call a word. */
static int access_mem(unw_addr_space_t as, unw_word_t addr, unw_word_t *val, int write, void *arg)
{
	const struct reader *r = arg;

	(void)as;
	if (write)
		return -UNW_EINVAL;
	return ipt_mem_read(r->tid, addr, val, sizeof(*val)) ? -UNW_EINVAL : 0;
}

static int find_proc_info(unw_addr_space_t as, unw_word_t ip, unw_proc_info_t *pi, int need,
			  void *arg)
{
	return _UPT_find_proc_info(as, ip, pi, need, ((struct reader *)arg)->upt);
}

static void put_unwind_info(unw_addr_space_t as, unw_proc_info_t *pi, void *arg)
{
	_UPT_put_unwind_info(as, pi, ((struct reader *)arg)->upt);
}

static int get_dyn_info(unw_addr_space_t as, unw_word_t *list, void *arg)
{
	return _UPT_get_dyn_info_list_addr(as, list, ((struct reader *)arg)->upt);
}

static int access_reg(unw_addr_space_t as, unw_regnum_t reg, unw_word_t *val, int write, void *arg)
{
	return _UPT_access_reg(as, reg, val, write, ((struct reader *)arg)->upt);
}

static int access_fpreg(unw_addr_space_t as, unw_regnum_t reg, unw_fpreg_t *val, int write,
			void *arg)
{
	return _UPT_access_fpreg(as, reg, val, write, ((struct reader *)arg)->upt);
}

static int get_proc_name(unw_addr_space_t as, unw_word_t ip, char *buf, size_t n, unw_word_t *off,
			 void *arg)
{
	return _UPT_get_proc_name(as, ip, buf, n, off, ((struct reader *)arg)->upt);
}

static int no_resume(unw_addr_space_t as, unw_cursor_t *c, void *arg)
{
	(void)as;
	(void)c;
	(void)arg;
	return -UNW_EINVAL;
}

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
	unw_accessors_t acc = {
		.find_proc_info = find_proc_info,
		.put_unwind_info = put_unwind_info,
		.get_dyn_info_list_addr = get_dyn_info,
		.access_mem = access_mem,
		.access_reg = access_reg,
		.access_fpreg = access_fpreg,
		.resume = no_resume,
		.get_proc_name = get_proc_name,
	};
	struct reader r = {.tid = tid};
	unw_addr_space_t as;
	unw_cursor_t c;
	size_t n = 0;

	*flags = 2;
	r.upt = _UPT_create(tid);
	as = r.upt ? unw_create_addr_space(&acc, 0) : NULL;
	if (as && unw_init_remote(&c, as, &r) == 0) {
		*flags = 0;
		n = walk(&c, out, max, flags);
	}
	if (as)
		unw_destroy_addr_space(as);
	if (r.upt)
		_UPT_destroy(r.upt);
	return n;
}
