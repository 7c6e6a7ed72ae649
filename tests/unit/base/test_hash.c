/* SPDX-License-Identifier: MIT */
/* The table against a plain array that does the same. */
#include "base/base.h"

#include <stdlib.h>

#include "check_main.h"

#define N_KEYS 700

static uint64_t rng = 12345;

static uint64_t next_random(void)
{
	rng ^= rng << 13;
	rng ^= rng >> 7;
	rng ^= rng << 17;
	return rng;
}

/* Keys as addresses come: near each other, page-aligned, and spread; 0 and the last one too. */
static uint64_t key_of(size_t i)
{
	if (i < 200)
		return i;
	if (i < 400)
		return 0x7f0000000000ull + (i << 12);
	if (i < 699)
		return i * 0x123456789abcdefull;
	return UINT64_MAX;
}

static void compare(const struct ipt_u64map *m, void **model)
{
	size_t n = 0, it = 0, seen = 0;
	uint64_t key;
	void *value;

	for (size_t i = 0; i < N_KEYS; i++) {
		ck_assert_ptr_eq(ipt_u64map_get(m, key_of(i)), model[i]);
		n += model[i] != NULL;
	}
	ck_assert_uint_eq(m->n, n);
	while (ipt_u64map_next(m, &it, &key, &value))
		seen++;
	ck_assert_uint_eq(seen, n);
}

START_TEST(random_puts_and_deletions_agree_with_a_model)
{
	static char values[4096];
	void *model[N_KEYS] = {0};
	struct ipt_u64map m = {0};

	for (int step = 0; step < 60000; step++) {
		size_t i = next_random() % N_KEYS;
		void *v = &values[next_random() % sizeof(values)], *old;
		/* Long stretches that mostly fill or mostly empty the table. */
		bool put = next_random() % 8 < (step / 5000 % 2 ? 2u : 6u);

		old = put ? ipt_u64map_put(&m, key_of(i), v) : ipt_u64map_del(&m, key_of(i));
		ck_assert_ptr_eq(old, model[i]);
		model[i] = put ? v : NULL;
		if (step % 500 == 0)
			compare(&m, model);
	}
	compare(&m, model);
	ipt_u64map_fini(&m);
}
END_TEST

START_TEST(an_empty_table_answers)
{
	struct ipt_u64map m = {0};
	size_t it = 0;
	uint64_t key;
	void *value;

	ck_assert_ptr_null(ipt_u64map_get(&m, 0));
	ck_assert_ptr_null(ipt_u64map_del(&m, 0));
	ck_assert(!ipt_u64map_next(&m, &it, &key, &value));
	ipt_u64map_fini(&m);
}
END_TEST

CHECK_MAIN("hash", random_puts_and_deletions_agree_with_a_model, an_empty_table_answers)
