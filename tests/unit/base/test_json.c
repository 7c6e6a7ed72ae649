/* SPDX-License-Identifier: MIT */
/* Our JSON text, read by jansson. */
#include "base/base.h"

#include <jansson.h>
#include <math.h>

#include "check_main.h"

static json_t *parse(struct ipt_buf *b)
{
	json_error_t e;
	json_t *j = json_loadb((char *)b->data, b->len, 0, &e);

	ck_assert_msg(j != NULL, "%s at %d: %.*s", e.text, e.position, (int)b->len,
		      (char *)b->data);
	ipt_buf_fini(b);
	return j;
}

START_TEST(values_come_back)
{
	struct ipt_buf b = {0};
	struct ipt_json w;
	json_t *j;

	ipt_json_begin(&w, &b);
	ipt_json_open(&w, NULL, '{');
	ipt_json_str(&w, "s", "a\"\n\xff");
	ipt_json_str(&w, "none", NULL);
	ipt_json_i64(&w, "i", INT64_MIN);
	ipt_json_u64(&w, "u", 4096);
	ipt_json_hex(&w, "h", UINT64_MAX);
	ipt_json_f64(&w, "f", 0.5);
	ipt_json_f64(&w, "nan", (double)NAN);
	ipt_json_f64(&w, "inf", -(double)INFINITY);
	ipt_json_bool(&w, "t", true);
	ipt_json_bool(&w, "k\"ey", false);
	ipt_json_close(&w, '}');
	j = parse(&b);
	ck_assert_str_eq(json_string_value(json_object_get(j, "s")), "a\"\n\xef\xbf\xbd");
	ck_assert(json_is_null(json_object_get(j, "none")));
	ck_assert_int_eq(json_integer_value(json_object_get(j, "i")), INT64_MIN);
	ck_assert_int_eq(json_integer_value(json_object_get(j, "u")), 4096);
	ck_assert_str_eq(json_string_value(json_object_get(j, "h")), "0xffffffffffffffff");
	ck_assert(json_real_value(json_object_get(j, "f")) == 0.5);
	ck_assert(json_is_null(json_object_get(j, "nan")));
	ck_assert(json_is_null(json_object_get(j, "inf")));
	ck_assert(json_is_true(json_object_get(j, "t")));
	ck_assert(json_is_false(json_object_get(j, "k\"ey")));
	json_decref(j);
}
END_TEST

START_TEST(nesting_and_empty_containers_are_valid)
{
	struct ipt_buf b = {0};
	struct ipt_json w;
	json_t *j;

	ipt_json_begin(&w, &b);
	ipt_json_open(&w, NULL, '[');
	for (int i = 0; i < 3; i++) {
		ipt_json_open(&w, NULL, '{');
		ipt_json_open(&w, "a", '[');
		for (int k = 0; k < i; k++)
			ipt_json_i64(&w, NULL, k);
		ipt_json_close(&w, ']');
		ipt_json_u64(&w, "after", 1);
		ipt_json_close(&w, '}');
	}
	ipt_json_open(&w, NULL, '{');
	ipt_json_close(&w, '}');
	ipt_json_close(&w, ']');
	j = parse(&b);
	ck_assert_uint_eq(json_array_size(j), 4);
	ck_assert_uint_eq(json_array_size(json_object_get(json_array_get(j, 2), "a")), 2);
	json_decref(j);
}
END_TEST

CHECK_MAIN("json", values_come_back, nesting_and_empty_containers_are_valid)
