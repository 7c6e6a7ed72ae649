/* SPDX-License-Identifier: MIT */
/* Any bytes as an LLDB bundle's trace.json: an error with a reason, or a bundle with all texts. */
#include <stdlib.h>

#include "store/lldb_in.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

static void look(const struct ipt_lldb *b)
{
	if (!memchr(b->cpu.vendor, 0, sizeof(b->cpu.vendor)) || b->clock.shift > 63)
		abort();
	for (size_t i = 0; i < b->procs.n; i++) {
		const struct ipt_lldb_process *p = &b->procs.v[i];

		for (size_t k = 0; k < p->threads.n; k++) {
			if (!p->threads.v[k].trace || !*p->threads.v[k].trace)
				abort();
		}
		for (size_t k = 0; k < p->modules.n; k++) {
			if (!p->modules.v[k].path || !*p->modules.v[k].path)
				abort();
		}
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	struct ipt_diag diag = {0};
	struct ipt_lldb b = {0};
	int err = ipt_lldb_parse(&b, p, n, &diag);

	if (err > 0 || (err && !*diag.text))
		abort();
	if (!err)
		look(&b);
	ipt_lldb_fini(&b);
	return 0;
}
