/* SPDX-License-Identifier: MIT */
/* Makes fuzzed bytes a sideband that gets past the checks of its frame: head of the file, size,
 * sequence and checksum of each record. Payloads stay as they are. */
#ifndef SB_FIX_H
#define SB_FIX_H

#include "store/internal.h"

/* Called with each record before its checksum is made; may be NULL. */
typedef void (*sb_fix_fn)(void *arg, struct ipt_sb_hdr *h, uint8_t *payload, size_t n);

/* Bytes of @p that are a whole sideband afterwards. */
static inline size_t sb_fix(uint8_t *p, size_t n, sb_fix_fn fn, void *arg)
{
	struct ipt_sb_file_hdr f = {
		.magic = IPT_SB_MAGIC, .version = IPT_FORMAT_VERSION, .hdr_size = sizeof(f)};
	struct ipt_sb_hdr h;
	size_t at = sizeof(f);

	if (n < sizeof(f))
		return n;
	memcpy(p, &f, sizeof(f));
	for (uint64_t seq = 1; n - at >= sizeof(h); seq++) {
		memcpy(&h, p + at, sizeof(h));
		h.size &= ~7u;
		if (h.size < sizeof(h))
			h.size = sizeof(h);
		if (h.size > n - at)
			h.size = (uint32_t)(n - at) & ~7u;
		h.seq = seq;
		h.check = 0;
		if (fn)
			fn(arg, &h, p + at + sizeof(h), h.size - sizeof(h));
		memcpy(p + at, &h, sizeof(h));
		h.check = ipt_sb_check(p + at, h.size);
		memcpy(p + at, &h, sizeof(h));
		at += h.size;
	}
	return at;
}

#endif
