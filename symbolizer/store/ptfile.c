/* SPDX-License-Identifier: MIT */
/* PT files as .pt.zst: one independent frame a flush, its content size in its header. */
#include <stdlib.h>

#include <zstd.h>

#include "internal.h"

#define LEVEL 1

int ipt_zpt_pack(struct ipt_buf *out, const void *p, size_t n)
{
	size_t bound = ZSTD_compressBound(n);
	uint8_t *to = ipt_buf_reserve(out, bound);
	size_t r = ZSTD_compress(to, bound, p, n, LEVEL);

	if (ZSTD_isError(r))
		return -IPT_E_LIMIT;
	out->len += r;
	return 0;
}

void ipt_zpt_scan(const uint8_t *p, size_t n, size_t *whole, uint64_t *bytes, const char **why)
{
	*whole = 0;
	*bytes = 0;
	*why = NULL;
	while (*whole < n) {
		size_t left = n - *whole, c = ZSTD_findFrameCompressedSize(p + *whole, left);
		unsigned long long d;

		*why = "cut inside a frame";
		if (ZSTD_isError(c) || !c || c > left)
			return;
		d = ZSTD_getFrameContentSize(p + *whole, left);
		*why = "a frame without its size, or beyond a limit";
		/* PT has a PSB and a TSC every few KiB, so real data never packs beyond some 500:1:
		 * more, on a large scale, is a bomb. */
		if (d == ZSTD_CONTENTSIZE_ERROR || d == ZSTD_CONTENTSIZE_UNKNOWN ||
		    d > IPT_STORE_MAX_FRAME || *bytes + d > IPT_STORE_MAX_PT_BYTES ||
		    (*bytes + d > (256u << 20) && (*bytes + d) / 2048 > *whole + c))
			return;
		*whole += c;
		*bytes += d;
		*why = NULL;
	}
}

size_t ipt_zpt_unpack(uint8_t *out, size_t bytes, const uint8_t *p, size_t whole)
{
	size_t in = 0, done = 0;

	while (in < whole) {
		size_t c = ZSTD_findFrameCompressedSize(p + in, whole - in), d;

		if (ZSTD_isError(c) || !c || c > whole - in)
			break;
		d = ZSTD_decompress(out + done, bytes - done, p + in, c);
		if (ZSTD_isError(d) || d > bytes - done)
			break;
		in += c;
		done += d;
	}
	return done;
}
