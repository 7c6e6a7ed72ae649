/* SPDX-License-Identifier: MIT */
/* Names of the files inside a trace directory: made and recognised here only. */
#include <stdlib.h>

#include "internal.h"

void ipt_name_pt(char out[IPT_NAME_MAX], uint32_t pid, uint32_t tid, uint32_t gen, bool zstd)
{
	snprintf(out, IPT_NAME_MAX, "%u.%u.%u.pt%s", pid, tid, gen, zstd ? ".zst" : "");
}

void ipt_name_image(char out[IPT_NAME_MAX], const uint8_t id[IPT_IMAGE_ID_LEN])
{
	for (int i = 0; i < IPT_IMAGE_ID_LEN; i++)
		snprintf(out + 2 * i, 3, "%02x", id[i]);
}

static bool parse_u32(const char **s, uint32_t *out)
{
	uint64_t v = 0;
	const char *p = *s;

	/* One spelling a number, so that a name is known by making it again. */
	if (*p < '0' || *p > '9' || (*p == '0' && p[1] >= '0' && p[1] <= '9'))
		return false;
	for (; *p >= '0' && *p <= '9'; p++) {
		v = v * 10 + (uint64_t)(*p - '0');
		if (v > UINT32_MAX)
			return false;
	}
	*s = p;
	*out = (uint32_t)v;
	return true;
}

static const char *parse_thread(const char *name, uint32_t *pid, uint32_t *tid, uint32_t *gen)
{
	const char *s = name;

	if (!parse_u32(&s, pid) || *s++ != '.' || !parse_u32(&s, tid) || *s++ != '.' ||
	    !parse_u32(&s, gen))
		return NULL;
	return s;
}

bool ipt_name_parse_pt(const char *name, uint32_t *pid, uint32_t *tid, uint32_t *gen, bool *zstd)
{
	const char *s = parse_thread(name, pid, tid, gen);

	if (!s)
		return false;
	*zstd = !strcmp(s, ".pt.zst");
	return *zstd || !strcmp(s, ".pt");
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool ipt_name_parse_image(const char *name, uint8_t id[IPT_IMAGE_ID_LEN])
{
	if (strlen(name) != 2 * IPT_IMAGE_ID_LEN)
		return false;
	for (int i = 0; i < IPT_IMAGE_ID_LEN; i++) {
		int hi = hex_digit(name[2 * i]), lo = hex_digit(name[2 * i + 1]);

		if (hi < 0 || lo < 0)
			return false;
		id[i] = (uint8_t)(hi << 4 | lo);
	}
	return true;
}

static bool is_one_of(const char *name, const char *const *list)
{
	for (; *list; list++) {
		if (!strcmp(name, *list))
			return true;
	}
	return false;
}

bool ipt_name_is_ours(const char *sub, const char *name)
{
	static const char *const top[] = {IPT_NAME_MANIFEST,
					  IPT_NAME_MANIFEST ".tmp",
					  IPT_NAME_SIDEBAND,
					  IPT_NAME_RESERVE,
					  IPT_NAME_THREADS,
					  IPT_NAME_IMAGES,
					  NULL};
	static const char *const images[] = {IPT_NAME_INDEX, IPT_NAME_INDEX ".tmp", "new.tmp",
					     NULL};
	uint8_t id[IPT_IMAGE_ID_LEN];
	uint32_t pid, tid, gen;
	const char *s;
	bool zstd;

	if (!*sub)
		return is_one_of(name, top);
	if (!strcmp(sub, IPT_NAME_IMAGES))
		return is_one_of(name, images) || ipt_name_parse_image(name, id);
	s = parse_thread(name, &pid, &tid, &gen);
	return ipt_name_parse_pt(name, &pid, &tid, &gen, &zstd) || (s && !strcmp(s, ".psb"));
}
