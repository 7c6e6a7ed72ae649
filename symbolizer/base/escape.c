/* SPDX-License-Identifier: MIT */
/* Text of untrusted bytes, for terminals and for JSON. */
#include "base/base.h"

/* Length of the valid UTF-8 sequence at @s, 0 when there is none; *cp is its code point. */
static size_t utf8_len(const uint8_t *s, uint32_t *cp)
{
	static const uint32_t least[5] = {0, 0, 0x80, 0x800, 0x10000};
	size_t n = s[0] < 0x80 ? 1 : s[0] >= 0xf0 ? 4 : s[0] >= 0xe0 ? 3 : s[0] >= 0xc0 ? 2 : 0;

	if (n == 0 || s[0] > 0xf4)
		return 0;
	*cp = n == 1 ? s[0] : s[0] & (0x7fu >> n);
	for (size_t i = 1; i < n; i++) {
		if ((s[i] & 0xc0) != 0x80)
			return 0;
		*cp = *cp << 6 | (s[i] & 0x3fu);
	}
	if (*cp < least[n] || *cp > 0x10ffff || (*cp >= 0xd800 && *cp < 0xe000))
		return 0;
	return n;
}

/* Code points that move the cursor or turn the direction of writing. */
static bool is_control(uint32_t cp)
{
	return cp < 0x20 || (cp >= 0x7f && cp < 0xa0) || (cp >= 0x200e && cp <= 0x200f) ||
	       (cp >= 0x2028 && cp <= 0x202e) || (cp >= 0x2066 && cp <= 0x2069) || cp == 0xfeff;
}

void ipt_escape_term(struct ipt_buf *b, const char *s)
{
	const uint8_t *p = (const uint8_t *)s;
	uint32_t cp = 0;

	while (*p) {
		size_t n = utf8_len(p, &cp);

		if (n && !is_control(cp)) {
			ipt_buf_append(b, p, n);
		} else {
			n = n ? n : 1;
			for (size_t i = 0; i < n; i++)
				ipt_buf_printf(b, "\\x%02x", p[i]);
		}
		p += n;
	}
}

void ipt_escape_json(struct ipt_buf *b, const char *s)
{
	const uint8_t *p = (const uint8_t *)s;
	uint32_t cp = 0;

	while (*p) {
		size_t n = utf8_len(p, &cp);

		if (!n) {
			ipt_buf_str(b, "\\ufffd");
			p++;
			continue;
		}
		if (*p == '"' || *p == '\\')
			ipt_buf_printf(b, "\\%c", *p);
		else if (is_control(cp))
			ipt_buf_printf(b, "\\u%04x", cp);
		else
			ipt_buf_append(b, p, n);
		p += n;
	}
}
