/* SPDX-License-Identifier: MIT */
/* Find PSBs in raw bytes, both directions. */
#include "pt/pt.h"

#define PSB_LEN 16

static const uint8_t psb[PSB_LEN] = {0x02, 0x82, 0x02, 0x82, 0x02, 0x82, 0x02, 0x82,
				     0x02, 0x82, 0x02, 0x82, 0x02, 0x82, 0x02, 0x82};

/*
 * The payload of the packet before a PSB may end in the same bytes, so that a run of 02 82 is
 * longer than one PSB. The real PSB is then the end of the run: no packet that may follow a PSB
 * begins with 02 82, except another PSB.
 */
static bool is_psb(const uint8_t *p, size_t n, size_t at)
{
	size_t more = 0;

	if (n < PSB_LEN || at > n - PSB_LEN || memcmp(p + at, psb, PSB_LEN))
		return false;
	for (at += PSB_LEN; more < 8 && n - at >= 2; at += 2, more++)
		if (memcmp(p + at, psb, 2))
			break;
	return more == 0 || more == 8;
}

int ipt_psb_next(const uint8_t *p, size_t n, size_t *pos)
{
	size_t at = *pos;

	while (at < n) {
		const uint8_t *q = memmem(p + at, n - at, psb, PSB_LEN);

		if (!q)
			break;
		at = (size_t)(q - p);
		if (is_psb(p, n, at)) {
			*pos = at;
			return 0;
		}
		at += 2;
	}
	return -IPT_E_EOS;
}

int ipt_psb_prev(const uint8_t *p, size_t n, size_t *pos)
{
	size_t at;

	if (n < PSB_LEN)
		return -IPT_E_EOS;
	at = *pos < n - PSB_LEN + 1 ? *pos : n - PSB_LEN + 1;
	while (at-- > 0) {
		if (p[at] == psb[0] && is_psb(p, n, at)) {
			*pos = at;
			return 0;
		}
	}
	return -IPT_E_EOS;
}
