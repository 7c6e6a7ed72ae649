/* SPDX-License-Identifier: MIT */
/* Loops that leave no packet. */
#include "engine/engine.h"

#define QUIET_MAX 1024

bool ipt_quiet_cycle(const struct ipt_insn *branch, uint64_t ip,
		     bool (*read)(void *arg, uint64_t ip, struct ipt_insn *insn), void *arg)
{
	struct ipt_insn i = *branch;
	uint64_t at = ip;

	if ((i.iclass != IPT_IC_JMP && i.iclass != IPT_IC_CALL) || i.target > ip)
		return false;
	for (int n = 0; n < QUIET_MAX; n++) {
		at = i.iclass == IPT_IC_OTHER ? at + i.len : i.target;
		if (at == ip)
			return true;
		if (!read(arg, at, &i) ||
		    (i.iclass != IPT_IC_OTHER && i.iclass != IPT_IC_JMP && i.iclass != IPT_IC_CALL))
			return false;
	}
	return true; /* rather one pair too many */
}
