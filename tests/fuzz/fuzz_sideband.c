/* SPDX-License-Identifier: MIT */
/* Any bytes as the sideband, as they are and with the frame of each record put right: every parser
 * of records stays inside the record, and the model takes in what it is given. */
#include <stdlib.h>

#include "sb_fix.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

static void must(bool cond)
{
	if (!cond)
		abort();
}

static void read_positions(struct ipt_cur pos, size_t n_pos)
{
	struct ipt_sb_pos one;
	size_t n = 0;

	while (ipt_rec_pos_next(&pos, &one))
		n++;
	must(n == n_pos);
}

static void read_record(const struct ipt_rec *r)
{
	struct ipt_rec_map map;
	struct ipt_sb_range range;
	struct ipt_cur pos;
	size_t text = 0;

	must(r->n == r->h.size - sizeof(r->h));
	for (size_t off = 0; off < r->n + 9; off += 8)
		text += strlen(ipt_rec_text(r, off));
	must(text <= r->n * (r->n + 9) / 8);
	must(!ipt_rec_at_seq(r) || (r->h.type == IPT_SB_AT && !ipt_sb_fault(r)));
	if (!ipt_rec_map_parse(&map, r)) {
		must(map.m.start < map.m.end && !ipt_sb_fault(r));
		must(strlen(map.path) <= r->n);
		if (map.m.n_build_id)
			must(map.build_id + map.m.n_build_id <= r->payload + r->n);
		read_positions(map.pos, map.m.n_pos);
	} else if (!ipt_rec_range_parse(&range, &pos, r)) {
		must(range.start < range.end && !ipt_sb_fault(r));
		read_positions(pos, range.n_pos);
	}
}

static void read_all(const uint8_t *p, size_t n, bool whole)
{
	struct ipt_cur c = ipt_cur_make(p, n);
	struct ipt_model model;
	struct ipt_rec r = {0};
	const char *why = NULL;
	uint64_t seq = 1;
	int err;

	if (ipt_sb_file_head(&c, NULL))
		return;
	ipt_model_init(&model);
	while (!(err = ipt_sb_next(&r, &c, seq, &why))) {
		must(!why && r.h.seq == seq);
		read_record(&r);
		must(!ipt_model_add(&model, &r.h, r.payload, r.n));
		seq++;
	}
	must(err == -IPT_E_EOS ? !why : err == -IPT_E_BADREC && why);
	must(!whole || err == -IPT_E_EOS);
	ipt_model_fini(&model);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	uint8_t *copy = malloc(n + !n);
	size_t whole;

	read_all(p, n, false);
	if (n)
		memcpy(copy, p, n);
	whole = sb_fix(copy, n, NULL, NULL);
	read_all(copy, whole, whole >= sizeof(struct ipt_sb_file_hdr));
	free(copy);
	return 0;
}
