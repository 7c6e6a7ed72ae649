/* SPDX-License-Identifier: MIT */
/* What the code from an address on needs of the registers: nothing is saved that is dead. */
#include "priv.h"

#define SCAN_MAX 12

bool ipt_xl_flags_dead(struct ipt_xl *x, uint64_t ip)
{
	uint8_t left = IPT_FLAGS_ARITH;

	for (int n = 0; n < SCAN_MAX; n++) {
		const struct decoded *d = ipt_xl_decode(x, ip);

		if (!d || (d->f.flags_read & left) || ipt_xl_refused(d))
			return false;
		left &= (uint8_t)~d->f.flags_killed;
		if (!left)
			return true;
		switch (d->f.i.iclass) {
		case IPT_IC_OTHER:
			/* It may store the flags, or fault for good. */
			if (d->f.i.sub == IPT_IS_PUSHF)
				return false;
			ip += d->f.i.len;
			break;
		case IPT_IC_JMP:
		case IPT_IC_CALL: ip = d->f.i.target; break;
		default: return false;
		}
	}
	return false;
}
