/* SPDX-License-Identifier: MIT */
/* Address spaces as the trace knows them: executable mappings and the code bytes recorded of them.
 */
#include <stdlib.h>

#include "session/priv.h"

#define PAGE 4096u

struct aspace *ipt_aspace_new(void)
{
	struct aspace *as = ipt_xcalloc(1, sizeof(*as));

	as->refs = 1;
	return as;
}

struct aspace *ipt_aspace_get(struct aspace *as)
{
	as->refs++;
	return as;
}

void ipt_aspace_put(struct aspace *as)
{
	size_t it = 0;
	uint64_t key;
	void *page;

	if (!as || --as->refs)
		return;
	while (ipt_u64map_next(&as->pages, &it, &key, &page))
		free(page);
	ipt_u64map_fini(&as->pages);
	ipt_maps_fini(&as->maps);
	ipt_u64map_fini(&as->fresh);
	ipt_vec_fini(&as->changes);
	ipt_vec_fini(&as->only);
	ipt_vec_fini(&as->excluded);
	ipt_xl_unshare(as->xl);
	free(as);
}

struct aspace *ipt_aspace_copy(const struct aspace *as)
{
	struct aspace *c = ipt_aspace_new();
	size_t it = 0;
	uint64_t key;
	void *page;

	for (size_t i = 0; i < as->maps.n; i++) {
		struct amap *m = ipt_vec_push(&c->maps);

		*m = as->maps.v[i];
		m->path = ipt_xstrdup(as->maps.v[i].path);
	}
	while (ipt_u64map_next(&as->pages, &it, &key, &page)) {
		uint8_t *copy = ipt_xcalloc(1, PAGE);

		memcpy(copy, page, PAGE);
		ipt_u64map_put(&c->pages, key, copy);
	}
	if (as->xl && !as->xl_retire)
		c->xl = ipt_xl_share(as->xl);
	c->xl_inode = as->xl_inode;
	c->xl_why = as->xl_why;
	c->filtered = as->filtered;
	ipt_filter_copy(c, as);
	return c;
}

struct amap *ipt_aspace_find(struct aspace *as, uint64_t va)
{
	size_t lo = 0, hi = as->maps.n;

	while (lo < hi) {
		size_t mid = (lo + hi) / 2;

		if (as->maps.v[mid].end <= va)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < as->maps.n && as->maps.v[lo].start <= va ? &as->maps.v[lo] : NULL;
}

size_t ipt_aspace_read(const struct aspace *as, uint64_t va, uint8_t *out, size_t n)
{
	size_t got = 0;

	while (got < n) {
		const uint8_t *page = ipt_u64map_get(&as->pages, (va + got) / PAGE);
		size_t off = (va + got) % PAGE;
		size_t k = ipt_min_u64(PAGE - off, n - got);

		if (!page)
			break;
		memcpy(out + got, page + off, k);
		got += k;
	}
	return got;
}

void ipt_aspace_drop(struct aspace *as, uint64_t start, uint64_t end)
{
	/* Of a huge range only what is known is visited. */
	if ((end - start) / PAGE <= as->pages.n) {
		for (uint64_t p = start / PAGE; p < end / PAGE; p++)
			free(ipt_u64map_del(&as->pages, p));
		return;
	}
	for (size_t it = 0;;) {
		uint64_t key;
		void *page;

		if (!ipt_u64map_next(&as->pages, &it, &key, &page))
			return;
		if (key >= start / PAGE && key < end / PAGE) {
			free(ipt_u64map_del(&as->pages, key));
			it = 0; /* deletion moves entries */
		}
	}
}

void ipt_aspace_store(struct aspace *as, uint64_t va, const uint8_t *p, size_t n)
{
	for (size_t off = 0; off + PAGE <= n; off += PAGE) {
		uint8_t *page = ipt_u64map_get(&as->pages, (va + off) / PAGE);

		if (!page) {
			page = ipt_xcalloc(1, PAGE);
			ipt_u64map_put(&as->pages, (va + off) / PAGE, page);
		}
		memcpy(page, p + off, PAGE);
	}
}
