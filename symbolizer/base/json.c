/* SPDX-License-Identifier: MIT */
/* Writes JSON text in order, with commas and escapes. */
#include "base/base.h"

void ipt_json_begin(struct ipt_json *j, struct ipt_buf *out)
{
	*j = (struct ipt_json){.out = out};
}

static void lead(struct ipt_json *j, const char *key)
{
	if (j->comma[j->depth])
		ipt_buf_u8(j->out, ',');
	if (j->depth)
		ipt_buf_printf(j->out, "\n%*s", j->depth, "");
	j->comma[j->depth] = true;
	if (key) {
		ipt_buf_u8(j->out, '"');
		ipt_escape_json(j->out, key);
		ipt_buf_str(j->out, "\": ");
	}
}

void ipt_json_open(struct ipt_json *j, const char *key, char bracket)
{
	lead(j, key);
	ipt_buf_u8(j->out, (uint8_t)bracket);
	ipt_assert(j->depth + 1 < (int)IPT_ARRAY_SIZE(j->comma), "JSON nested too deep");
	j->comma[++j->depth] = false;
}

void ipt_json_close(struct ipt_json *j, char bracket)
{
	bool had = j->comma[j->depth];

	ipt_assert(j->depth > 0, "JSON closed too often");
	j->depth--;
	if (had)
		ipt_buf_printf(j->out, "\n%*s", j->depth, "");
	ipt_buf_u8(j->out, (uint8_t)bracket);
	if (!j->depth)
		ipt_buf_u8(j->out, '\n');
}

void ipt_json_str(struct ipt_json *j, const char *key, const char *s)
{
	if (!s) {
		ipt_json_null(j, key);
		return;
	}
	lead(j, key);
	ipt_buf_u8(j->out, '"');
	ipt_escape_json(j->out, s);
	ipt_buf_u8(j->out, '"');
}

void ipt_json_u64(struct ipt_json *j, const char *key, uint64_t v)
{
	lead(j, key);
	ipt_buf_printf(j->out, "%llu", (unsigned long long)v);
}

void ipt_json_i64(struct ipt_json *j, const char *key, int64_t v)
{
	lead(j, key);
	ipt_buf_printf(j->out, "%lld", (long long)v);
}

void ipt_json_hex(struct ipt_json *j, const char *key, uint64_t v)
{
	lead(j, key);
	ipt_buf_printf(j->out, "\"0x%llx\"", (unsigned long long)v);
}

void ipt_json_f64(struct ipt_json *j, const char *key, double v)
{
	lead(j, key);
	if (v != v || v - v != 0)
		ipt_buf_str(j->out, "null"); /* JSON has no NaN and no infinity */
	else
		ipt_buf_printf(j->out, "%.9g", v);
}

void ipt_json_bool(struct ipt_json *j, const char *key, bool v)
{
	lead(j, key);
	ipt_buf_str(j->out, v ? "true" : "false");
}

void ipt_json_null(struct ipt_json *j, const char *key)
{
	lead(j, key);
	ipt_buf_str(j->out, "null");
}
