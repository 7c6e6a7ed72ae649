/* SPDX-License-Identifier: MIT */
/* Text of untrusted bytes. */
#include "base/base.h"

#include "check_main.h"

struct row {
	const char *in, *term, *json;
};

static const struct row rows[] = {
	{"plain", "plain", "plain"},
	{"gr\xc3\xbc\xc3\x9f", "gr\xc3\xbc\xc3\x9f", "gr\xc3\xbc\xc3\x9f"},
	{"\xf0\x9f\x98\x80", "\xf0\x9f\x98\x80", "\xf0\x9f\x98\x80"},
	{"\x1b[31m", "\\x1b[31m", "\\u001b[31m"},
	{"a\nb\tc\x7f", "a\\x0ab\\x09c\\x7f", "a\\u000ab\\u0009c\\u007f"},
	{"\"\\", "\"\\", "\\\"\\\\"},
	/* C1 control, right-to-left override, byte order mark. */
	{"\xc2\x9b", "\\xc2\\x9b", "\\u009b"},
	{"\xe2\x80\xae", "\\xe2\\x80\\xae", "\\u202e"},
	{"\xef\xbb\xbf", "\\xef\\xbb\\xbf", "\\ufeff"},
	/* Not UTF-8: lone continuation, cut short, overlong, surrogate, beyond U+10FFFF, 0xff. */
	{"\x80", "\\x80", "\\ufffd"},
	{"x\xc3", "x\\xc3", "x\\ufffd"},
	{"\xe2\x82", "\\xe2\\x82", "\\ufffd\\ufffd"},
	{"\xc0\xaf", "\\xc0\\xaf", "\\ufffd\\ufffd"},
	{"\xe0\x80\xaf", "\\xe0\\x80\\xaf", "\\ufffd\\ufffd\\ufffd"},
	{"\xed\xa0\x80", "\\xed\\xa0\\x80", "\\ufffd\\ufffd\\ufffd"},
	{"\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80", "\\ufffd\\ufffd\\ufffd\\ufffd"},
	{"\xff", "\\xff", "\\ufffd"},
	{"\xc3(", "\\xc3(", "\\ufffd("},
};

START_TEST(terminal_text_holds_no_control_and_no_bad_utf8)
{
	for (size_t i = 0; i < IPT_ARRAY_SIZE(rows); i++) {
		struct ipt_buf b = {0};

		ipt_escape_term(&b, rows[i].in);
		ipt_buf_u8(&b, 0);
		ck_assert_msg(!strcmp((char *)b.data, rows[i].term), "row %zu: %s", i,
			      (char *)b.data);
		ipt_buf_fini(&b);
	}
}
END_TEST

START_TEST(json_text_is_valid_whatever_comes_in)
{
	for (size_t i = 0; i < IPT_ARRAY_SIZE(rows); i++) {
		struct ipt_buf b = {0};

		ipt_escape_json(&b, rows[i].in);
		ipt_buf_u8(&b, 0);
		ck_assert_msg(!strcmp((char *)b.data, rows[i].json), "row %zu: %s", i,
			      (char *)b.data);
		ipt_buf_fini(&b);
	}
}
END_TEST

CHECK_MAIN("escape", terminal_text_holds_no_control_and_no_bad_utf8,
	   json_text_is_valid_whatever_comes_in)
