/* SPDX-License-Identifier: MIT */
/*
 * plt: names for the entries of procedure linkage tables. An entry jumps through a GOT slot, and
 * the relocation of that slot names the function; the layout of the table need not be known.
 */
#include <stdlib.h>

#include "sym/sym_priv.h"

static uint32_t get_u32(const uint8_t *p)
{
	return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

/* The slot an entry jumps through; 0: none. An entry may begin with ENDBR and a BND prefix. */
static uint64_t entry_slot(const struct ipt_plt *plt, size_t off)
{
	static const uint8_t endbr[] = {0xf3, 0x0f, 0x1e};
	const uint8_t *p = plt->p + off, *end = plt->p + plt->n;
	uint32_t disp;

	if (end - p >= 4 && memcmp(p, endbr, 3) == 0)
		p += 4;
	if (end - p >= 1 && *p == 0xf2)
		p++;
	if (end - p < 6 || p[0] != 0xff || (p[1] != 0x25 && p[1] != 0xa3))
		return 0;
	disp = get_u32(p + 2);
	if (p[1] == 0xa3)
		return plt->is64 ? 0 : (uint32_t)(plt->got + disp);
	if (!plt->is64)
		return disp;
	return plt->va + (uint64_t)(p + 6 - plt->p) + (uint64_t)(int64_t)(int32_t)disp;
}

/* True for the entries that lead to the dynamic linker: a push of the slot's number, and the first
 * entry, which pushes the map. Naming them keeps a lazy call one call. */
static bool is_lazy_entry(const struct ipt_plt *plt, size_t off)
{
	static const uint8_t endbr[] = {0xf3, 0x0f, 0x1e};
	const uint8_t *p = plt->p + off, *end = plt->p + plt->n;

	if (end - p >= 4 && memcmp(p, endbr, 3) == 0)
		p += 4;
	return end - p >= 6 && (p[0] == 0x68 || (p[0] == 0xff && (p[1] == 0x35 || p[1] == 0xb3)));
}

static const struct ipt_plt_rel *find_rel(const struct ipt_plt *plt, uint64_t slot)
{
	size_t lo = 0, hi = plt->n_rels;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (plt->rels[mid].slot < slot)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < plt->n_rels && plt->rels[lo].slot == slot ? &plt->rels[lo] : NULL;
}

void ipt_plt_decode(const struct ipt_plt *plt, struct ipt_intern *in, struct ipt_elf_syms *out)
{
	for (size_t off = 0; off < plt->n; off += plt->entry) {
		uint64_t slot = entry_slot(plt, off);
		const struct ipt_plt_rel *r = slot ? find_rel(plt, slot) : NULL;
		struct ipt_elf_sym *s;
		char *name;

		if (!r && !is_lazy_entry(plt, off))
			continue;
		if (!r)
			name = ipt_xstrdup(".plt");
		else if (r->name)
			name = ipt_xasprintf("%s@plt", r->name);
		else
			name = ipt_xasprintf("*ABS*+0x%llx@plt", (unsigned long long)r->addend);
		s = ipt_vec_push(out);
		s->lo = plt->va + off;
		s->hi = plt->va + ipt_min_u64(off + plt->entry, plt->n);
		s->name = ipt_intern_str(in, name);
		s->rank = 1;
		s->plt = true;
		free(name);
	}
}
