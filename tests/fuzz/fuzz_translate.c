/* SPDX-License-Identifier: MIT */
/* Any bytes as code: they are translated from each of the first addresses, ahead as far as it goes,
 * given up and translated again, and no assertion about a trace's room fails. */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "translate/translate.h"

#define BASE 0x7f0000000000ull

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

static uint8_t code[2][4096];

static const uint8_t *page(void *host, uint64_t va, unsigned int *flags)
{
	(void)host;
	*flags = code[0][4095] & 1 ? IPT_XL_PAGE_CHECK : 0;
	return va - BASE < sizeof(code) ? code[(va - BASE) / 4096] : NULL;
}

static uint64_t hole(void *host, uint64_t lo, uint64_t hi, uint64_t size)
{
	static uint64_t last;

	(void)host;
	(void)hi;
	if (lo == 0x10000)
		return 0x40000000;
	if (size > 1ull << 32)
		return 0x100000000000ull;
	last = (last + 1) % 4;
	return BASE + 0x10000000 * (last + 1);
}

/* Borders in the midst of code. */
static bool outside(void *host, uint64_t va)
{
	(void)host;
	return va >> 5 & 1;
}

static const struct ipt_xl_ops ops = {.page = page, .outside = outside, .hole = hole};

static struct ipt_xl *space(void)
{
	struct ipt_xl_cfg cfg = {.noretcomp = code[0][4094] & 1, .filtered = code[0][4094] & 2};
	struct ipt_xl *x = ipt_xl_new(&cfg, &ops, NULL);
	struct ipt_xl_piece first[IPT_XL_FIRST_PIECES], cluster;
	int fd = memfd_create("fuzz", MFD_CLOEXEC);

	if (fd < 0 || ipt_xl_open(x, fd, first) || ipt_xl_next_cluster(x, BASE, &cluster))
		exit(77);
	ipt_xl_add_cluster(x, &cluster);
	return x;
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	struct ipt_xl *x;

	memset(code, 0x90, sizeof(code));
	memcpy(code, p, n < sizeof(code) ? n : sizeof(code));
	x = space();
	for (int round = 0; round < 2; round++) {
		for (unsigned int off = 0; off < 8; off++) {
			uint64_t at = ipt_xl_enter(x, BASE + off);

			if (at && (!ipt_xl_inside(x, at) || ipt_xl_enter(x, BASE + off) != at))
				abort();
			while (ipt_xl_ahead(x))
				;
		}
		ipt_xl_invalidate(x, BASE, BASE + sizeof(code));
	}
	ipt_xl_put(x);
	return 0;
}
