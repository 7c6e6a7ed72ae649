/* SPDX-License-Identifier: MIT */
/* Records put together by the writer, one call a kind. */
#include <stdlib.h>

#include "wpriv.h"

uint64_t ipt_writer_record(struct ipt_writer *w, enum ipt_sb_type type, const struct ipt_sb_head *h,
			   const void *payload, size_t n)
{
	struct ipt_sb_hdr hdr = {.type = (uint16_t)type,
				 .flags = h->flags,
				 .pid = h->pid,
				 .tid = h->tid,
				 .gen = h->gen,
				 .tsc = h->tsc,
				 .pt_off = h->pt_off,
				 .bound = h->bound};

	return ipt_writer_queue(w, &hdr, payload, n);
}

void ipt_writer_start_record(struct ipt_writer *w, uint32_t pid, uint32_t tid, uint32_t gen,
			     const struct ipt_sb_thread_start *start, const char *comm,
			     uint64_t tsc)
{
	struct ipt_sb_head h = {.pid = pid, .tid = tid, .gen = gen, .tsc = tsc};
	struct ipt_buf b = {0};

	ipt_buf_append(&b, start, sizeof(*start));
	ipt_buf_append(&b, comm ? comm : "", strlen(comm ? comm : "") + 1);
	ipt_writer_record(w, IPT_SB_THREAD_START, &h, b.data, b.len);
	ipt_buf_fini(&b);
}

uint64_t ipt_writer_map(struct ipt_writer *w, enum ipt_sb_type type, const struct ipt_sb_head *h,
			struct ipt_sb_map *m, const struct ipt_sb_pos *pos, size_t n_pos,
			const uint8_t *build_id, size_t n_build_id, const char *path)
{
	struct ipt_image_entry *e;
	struct ipt_buf b = {0};
	uint64_t seq;

	ipt_assert(type == IPT_SB_MAP || type == IPT_SB_CODE, "not a mapping's record");
	path = path ? path : "";
	m->n_pos = (uint32_t)n_pos;
	m->n_build_id = (uint32_t)n_build_id;
	m->n_path = (uint32_t)strlen(path) + 1;
	m->pad = 0;
	ipt_buf_append(&b, m, sizeof(*m));
	if (n_pos)
		ipt_buf_append(&b, pos, n_pos * sizeof(*pos));
	if (n_build_id)
		ipt_buf_append(&b, build_id, n_build_id);
	ipt_buf_pad(&b, 8);
	ipt_buf_append(&b, path, m->n_path);
	seq = ipt_writer_record(w, type, h, b.data, b.len);
	ipt_buf_fini(&b);
	e = ipt_image_table_get(&w->images, m->image);
	if (e)
		ipt_image_entry_note(e, m, build_id, n_build_id, path);
	return seq;
}

uint64_t ipt_writer_range(struct ipt_writer *w, enum ipt_sb_type type, const struct ipt_sb_head *h,
			  uint64_t start, uint64_t end, uint32_t prot, const struct ipt_sb_pos *pos,
			  size_t n_pos)
{
	struct ipt_sb_range r = {
		.start = start, .end = end, .prot = prot, .n_pos = (uint32_t)n_pos};
	struct ipt_buf b = {0};
	uint64_t seq;

	ipt_assert(type == IPT_SB_UNMAP || type == IPT_SB_PROTECT, "not a range's record");
	ipt_buf_append(&b, &r, sizeof(r));
	if (n_pos)
		ipt_buf_append(&b, pos, n_pos * sizeof(*pos));
	seq = ipt_writer_record(w, type, h, b.data, b.len);
	ipt_buf_fini(&b);
	return seq;
}

uint64_t ipt_writer_at(struct ipt_writer *w, const struct ipt_sb_head *h, uint64_t seq)
{
	struct ipt_sb_at at = {.seq = seq};

	return seq ? ipt_writer_record(w, IPT_SB_AT, h, &at, sizeof(at)) : 0;
}

void ipt_writer_gap(struct ipt_writer *w, const struct ipt_sb_head *h, const struct ipt_sb_gap *gap,
		    const char *text)
{
	struct ipt_buf b = {0};

	text = text ? text : "";
	ipt_buf_append(&b, gap, sizeof(*gap));
	ipt_buf_append(&b, text, strlen(text) + 1);
	ipt_writer_record(w, IPT_SB_GAP, h, b.data, b.len);
	ipt_buf_fini(&b);
}
