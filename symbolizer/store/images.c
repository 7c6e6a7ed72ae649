/* SPDX-License-Identifier: MIT */
/* Content ids of code bytes, and the writer's list of the images it has kept. */
#include <stdlib.h>

#include <xxhash.h>

#include "internal.h"

#define MAX_PLACES 16

void ipt_image_id(uint8_t id[IPT_IMAGE_ID_LEN], const void *p, size_t n)
{
	XXH128_canonical_t c;

	XXH128_canonicalFromHash(&c, XXH3_128bits(p, n));
	memcpy(id, c.digest, IPT_IMAGE_ID_LEN);
}

bool ipt_image_id_is_zero(const uint8_t id[IPT_IMAGE_ID_LEN])
{
	static const uint8_t zero[IPT_IMAGE_ID_LEN];

	return !memcmp(id, zero, sizeof(zero));
}

static uint64_t key_of(const uint8_t id[IPT_IMAGE_ID_LEN])
{
	uint64_t key;

	memcpy(&key, id + 8, sizeof(key));
	return key;
}

void ipt_image_table_fini(struct ipt_image_table *t)
{
	for (size_t i = 0; i < t->v.n; i++) {
		ipt_vec_fini(&t->v.v[i]->maps);
		free(t->v.v[i]->path);
		free(t->v.v[i]);
	}
	ipt_vec_fini(&t->v);
	ipt_u64map_fini(&t->by_id);
}

struct ipt_image_entry *ipt_image_table_get(const struct ipt_image_table *t,
					    const uint8_t id[IPT_IMAGE_ID_LEN])
{
	struct ipt_image_entry *e = ipt_u64map_get(&t->by_id, key_of(id));

	while (e && memcmp(e->id, id, IPT_IMAGE_ID_LEN))
		e = e->next;
	return e;
}

struct ipt_image_entry *ipt_image_table_add(struct ipt_image_table *t,
					    const uint8_t id[IPT_IMAGE_ID_LEN], uint64_t size)
{
	struct ipt_image_entry *e = ipt_xcalloc(1, sizeof(*e));

	memcpy(e->id, id, IPT_IMAGE_ID_LEN);
	e->size = size;
	*ipt_vec_push(&t->v) = e;
	e->next = ipt_u64map_put(&t->by_id, key_of(id), e);
	return e;
}

void ipt_image_entry_note(struct ipt_image_entry *e, const struct ipt_sb_map *m,
			  const uint8_t *build_id, size_t n_build_id, const char *path)
{
	if (!e->path) {
		e->path = ipt_xstrdup(path ? path : "");
		e->kind = m->kind;
		e->n_build_id = (uint32_t)ipt_min_u64(n_build_id, sizeof(e->build_id));
		if (e->n_build_id)
			memcpy(e->build_id, build_id, e->n_build_id);
	}
	for (size_t i = 0; i < e->maps.n; i++) {
		const struct ipt_sb_map *o = &e->maps.v[i];

		if (o->start == m->start && o->end == m->end && o->image_off == m->image_off)
			return;
	}
	if (e->maps.n < MAX_PLACES)
		*ipt_vec_push(&e->maps) = *m;
}

static const char *kind_name(uint32_t kind)
{
	switch (kind) {
	case IPT_SB_MAP_FILE: return "file";
	case IPT_SB_MAP_VDSO: return "vdso";
	case IPT_SB_MAP_VSYSCALL: return "vsyscall";
	case IPT_SB_MAP_ANON: return "anon";
	case IPT_SB_MAP_KERNEL: return "kernel";
	default: return "unknown";
	}
}

static void write_entry(struct ipt_json *j, const struct ipt_image_entry *e)
{
	char hash[IPT_NAME_MAX], hex[2 * sizeof(e->build_id) + 1] = "";

	ipt_name_image(hash, e->id);
	for (uint32_t i = 0; i < e->n_build_id; i++)
		snprintf(hex + 2 * i, 3, "%02x", e->build_id[i]);
	ipt_json_open(j, NULL, '{');
	ipt_json_str(j, "hash", hash);
	ipt_json_u64(j, "size", e->size);
	ipt_json_str(j, "kind", kind_name(e->kind));
	ipt_manifest_str(j, "path", e->path ? e->path : "");
	ipt_json_str(j, "build_id", hex);
	ipt_json_hex(j, "start", e->maps.n ? e->maps.v[0].start : 0);
	ipt_json_open(j, "segments", '[');
	for (size_t i = 0; i < e->maps.n; i++) {
		const struct ipt_sb_map *m = &e->maps.v[i];

		ipt_json_open(j, NULL, '{');
		ipt_json_hex(j, "start", m->start);
		ipt_json_hex(j, "end", m->end);
		ipt_json_hex(j, "offset", m->pgoff);
		ipt_json_hex(j, "image_offset", m->image_off);
		ipt_json_u64(j, "prot", m->prot);
		ipt_json_close(j, '}');
	}
	ipt_json_close(j, ']');
	ipt_json_close(j, '}');
}

void ipt_image_index_write(struct ipt_buf *out, const struct ipt_image_table *t)
{
	struct ipt_json j;

	ipt_json_begin(&j, out);
	ipt_json_open(&j, NULL, '{');
	ipt_json_open(&j, "images", '[');
	for (size_t i = 0; i < t->v.n; i++)
		write_entry(&j, t->v.v[i]);
	ipt_json_close(&j, ']');
	ipt_json_close(&j, '}');
	ipt_buf_u8(out, '\n');
}
