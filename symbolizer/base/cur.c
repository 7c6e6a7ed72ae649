/* SPDX-License-Identifier: MIT */
/* Bounded reader over outside bytes, little-endian. */
#include "base/base.h"

const uint8_t *ipt_cur_bytes(struct ipt_cur *c, size_t n)
{
	const uint8_t *p = c->pos;

	if (c->bad || n > ipt_cur_left(c)) {
		c->bad = true;
		return NULL;
	}
	c->pos += n;
	return p;
}

void ipt_cur_skip(struct ipt_cur *c, size_t n)
{
	ipt_cur_bytes(c, n);
}

static uint64_t read_le(struct ipt_cur *c, size_t n)
{
	const uint8_t *p = ipt_cur_bytes(c, n);
	uint64_t v = 0;

	for (size_t i = 0; p && i < n; i++)
		v |= (uint64_t)p[i] << (8 * i);
	return v;
}

uint8_t ipt_cur_u8(struct ipt_cur *c)
{
	return (uint8_t)read_le(c, 1);
}

uint16_t ipt_cur_u16(struct ipt_cur *c)
{
	return (uint16_t)read_le(c, 2);
}

uint32_t ipt_cur_u32(struct ipt_cur *c)
{
	return (uint32_t)read_le(c, 4);
}

uint64_t ipt_cur_u64(struct ipt_cur *c)
{
	return read_le(c, 8);
}
