/* SPDX-License-Identifier: MIT */
/* Any bytes decode to an instruction within the input or to an error; printing agrees on which. */
#include <stdlib.h>

#include "x86/x86.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	struct ipt_buf text = {0};

	for (int mode = IPT_X16; mode <= IPT_X64; mode++) {
		struct ipt_insn insn = {0};
		int err = ipt_x86_decode(&insn, p, n, 0x401000, (enum ipt_xmode)mode);

		if (!err && (!insn.len || insn.len > n || insn.len > IPT_INSN_MAX))
			abort();
		if (err && err != -IPT_E_TRUNC && err != -IPT_E_BADINSN)
			abort();
		text.len = 0;
		if (!err && ipt_x86_print(&text, p, insn.len, 0x401000, (enum ipt_xmode)mode,
					  IPT_SYNTAX_INTEL, "name"))
			abort();
	}
	ipt_buf_fini(&text);
	return 0;
}
