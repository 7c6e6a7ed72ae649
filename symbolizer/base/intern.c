/* SPDX-License-Identifier: MIT */
/* Every string stored once; chained by a 64-bit hash. */
#include "base/base.h"

#include <stdlib.h>

struct entry {
	struct entry *next;
	size_t len;
	char text[];
};

struct ipt_intern {
	struct ipt_u64map by_hash; /* owns chains of struct entry */
};

struct ipt_intern *ipt_intern_new(void)
{
	return ipt_xcalloc(1, sizeof(struct ipt_intern));
}

void ipt_intern_free(struct ipt_intern *in)
{
	size_t it = 0;
	uint64_t key;
	void *value;

	if (!in)
		return;
	while (ipt_u64map_next(&in->by_hash, &it, &key, &value)) {
		for (struct entry *e = value, *next; e; e = next) {
			next = e->next;
			free(e);
		}
	}
	ipt_u64map_fini(&in->by_hash);
	free(in);
}

static uint64_t fnv1a(const char *s, size_t n)
{
	uint64_t h = 0xcbf29ce484222325ull;

	for (size_t i = 0; i < n; i++)
		h = (h ^ (uint8_t)s[i]) * 0x100000001b3ull;
	return h;
}

const char *ipt_intern_strn(struct ipt_intern *in, const char *s, size_t n)
{
	uint64_t h = fnv1a(s, n);
	struct entry *head = ipt_u64map_get(&in->by_hash, h), *e;

	for (e = head; e; e = e->next) {
		if (e->len == n && !memcmp(e->text, s, n))
			return e->text;
	}
	e = ipt_xcalloc(1, sizeof(*e) + n + 1);
	e->next = head;
	e->len = n;
	memcpy(e->text, s, n);
	ipt_u64map_put(&in->by_hash, h, e);
	return e->text;
}

const char *ipt_intern_str(struct ipt_intern *in, const char *s)
{
	return ipt_intern_strn(in, s, strlen(s));
}
