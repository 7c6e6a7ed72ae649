/* SPDX-License-Identifier: MIT */
/* each: the functions of a file by name, for who looks for code rather than for names. */
#include <errno.h>
#include <fnmatch.h>
#include <stdlib.h>

#include "sym/sym_priv.h"

static bool file_offset(const struct ipt_elf *e, uint64_t va, uint64_t *off)
{
	for (size_t i = 0; i < e->load.n; i++) {
		const struct ipt_elf_range *r = &e->load.v[i];

		if (va >= r->lo && va < r->hi) {
			*off = r->off + (va - r->lo);
			return true;
		}
	}
	return false;
}

/* Symbols without a size reach to the next one. */
static uint64_t end_of(const struct ipt_elf *e, const struct ipt_elf_sym *s)
{
	size_t next = ipt_seg_find(&e->segs, s->lo);

	if (s->hi > s->lo)
		return s->hi;
	return next < e->segs.n ? e->segs.v[next].lo : s->lo;
}

static struct ipt_elf *open_map(const struct ipt_sym_cfg *cfg, const struct ipt_map *map)
{
	struct ipt_elf *e;
	bool replaced;

	if (map->path[0] == '/')
		return ipt_sym_find_elf(cfg, map, &replaced);
	if (!map->bytes || ipt_elf_open_mem(&e, map->bytes, map->end - map->start, map->path, NULL))
		return NULL;
	return e;
}

int ipt_sym_each(const struct ipt_sym_cfg *cfg, const struct ipt_map *map,
		 void (*fn)(void *arg, const struct ipt_sym_def *def), void *arg)
{
	struct ipt_elf *e = open_map(cfg, map), *debug;

	if (!e)
		return -ENOENT;
	debug = ipt_sym_find_debug(cfg, e);
	ipt_elf_symbols(e, debug);
	for (size_t i = 0; i < e->syms.n; i++) {
		const struct ipt_elf_sym *s = &e->syms.v[i];
		struct ipt_sym_def def = {.linkage = s->name, .size = end_of(e, s) - s->lo};

		if (def.size && file_offset(e, s->lo, &def.off))
			fn(arg, &def);
	}
	ipt_elf_close(e);
	ipt_elf_close(debug);
	return 0;
}

/* Without the suffix of a part or a version; "@plt" is none. */
static size_t plain_length(const char *name)
{
	static const char *const parts[] = {".cold",      ".part.",    ".isra.",
					    ".constprop", ".lto_priv", ".llvm."};
	const char *version = strchr(name, '@');
	size_t n = version && strcmp(version, "@plt") ? (size_t)(version - name) : strlen(name);

	for (size_t i = 0; i < IPT_ARRAY_SIZE(parts); i++) {
		const char *at = strstr(name + 1, parts[i]);

		n = at ? ipt_min_u64(n, (uint64_t)(at - name)) : n;
	}
	return n;
}

static bool matches(char *name, const char *pattern)
{
	bool is = name && fnmatch(pattern, name, 0) == 0;

	free(name);
	return is;
}

bool ipt_sym_is_called(const char *linkage, const char *pattern)
{
	char *plain;
	bool is;

	if (!linkage[0])
		return false;
	if (fnmatch(pattern, linkage, 0) == 0)
		return true;
	plain = ipt_xasprintf("%.*s", (int)plain_length(linkage), linkage);
	is = fnmatch(pattern, plain, 0) == 0 || matches(ipt_sym_demangle(plain), pattern) ||
	     matches(ipt_sym_demangle_name(plain), pattern);
	free(plain);
	return is;
}
