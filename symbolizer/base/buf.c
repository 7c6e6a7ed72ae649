/* SPDX-License-Identifier: MIT */
/* Growing bytes. */
#include "base/base.h"

#include <stdlib.h>

void ipt_buf_fini(struct ipt_buf *b)
{
	free(b->data);
	*b = (struct ipt_buf){0};
}

uint8_t *ipt_buf_reserve(struct ipt_buf *b, size_t n)
{
	size_t want, cap = b->cap ? b->cap : 64;

	ipt_assert(!__builtin_add_overflow(b->len, n, &want), "buffer size overflow");
	if (want > b->cap) {
		while (cap < want)
			cap *= 2;
		b->data = ipt_xrealloc(b->data, cap, 1);
		b->cap = cap;
	}
	return b->data + b->len;
}

void ipt_buf_append(struct ipt_buf *b, const void *p, size_t n)
{
	if (!n)
		return;
	memcpy(ipt_buf_reserve(b, n), p, n);
	b->len += n;
}

static void append_le(struct ipt_buf *b, uint64_t v, size_t n)
{
	uint8_t *p = ipt_buf_reserve(b, n);

	for (size_t i = 0; i < n; i++)
		p[i] = (uint8_t)(v >> (8 * i));
	b->len += n;
}

void ipt_buf_u8(struct ipt_buf *b, uint8_t v)
{
	append_le(b, v, 1);
}

void ipt_buf_u16(struct ipt_buf *b, uint16_t v)
{
	append_le(b, v, 2);
}

void ipt_buf_u32(struct ipt_buf *b, uint32_t v)
{
	append_le(b, v, 4);
}

void ipt_buf_u64(struct ipt_buf *b, uint64_t v)
{
	append_le(b, v, 8);
}

void ipt_buf_str(struct ipt_buf *b, const char *s)
{
	ipt_buf_append(b, s, strlen(s));
}

void ipt_buf_printf(struct ipt_buf *b, const char *fmt, ...)
{
	size_t room = 128;
	va_list ap;
	int n;

	for (;;) {
		va_start(ap, fmt);
		n = vsnprintf((char *)ipt_buf_reserve(b, room), room, fmt, ap);
		va_end(ap);
		ipt_assert(n >= 0, "bad format");
		if ((size_t)n < room)
			break;
		room = (size_t)n + 1;
	}
	b->len += (size_t)n;
}

void ipt_buf_pad(struct ipt_buf *b, size_t align)
{
	while (b->len & (align - 1))
		ipt_buf_u8(b, 0);
}
