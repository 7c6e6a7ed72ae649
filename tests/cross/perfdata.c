/* SPDX-License-Identifier: MIT */
/*
 * perfdata DIR OUT: write a thread's PT of a trace directory as a perf.data file, so that perf, as
 * a decoder and viewer that is not ours, reads the same bytes. It has one event of the intel_pt
 * PMU, one dummy event for the maps, and all PT as one AUX area. Layout: Linux,
 * tools/perf/Documentation/perf.data-file-format.txt. Code without a file of its own, such as the
 * vDSO, is named by its image in the trace directory.
 */
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>

#include "store/store.h"

enum { TYPE_AUXTRACE_INFO = 70, TYPE_AUXTRACE = 71 };
enum { PMU = 8, ID_PT = 1, ID_MAPS = 2, FEAT_AUXTRACE = 18 };
enum { CFG_PT = 1, CFG_TSC = 1 << 10, CFG_NORETCOMP = 1 << 11, CFG_BRANCH = 1 << 13 };
enum { HEAD = 104, N_INFO = 17, AUXTRACE_SIZE = 48, INDEX_ENTRIES = 1 };

struct perfdata {
	struct ipt_store *st;
	const struct ipt_thread_info *t;
	struct ipt_buf b;
	uint64_t clock;
};

static void put16(struct ipt_buf *b, uint16_t v)
{
	ipt_buf_append(b, &v, sizeof(v));
}

static void put32(struct ipt_buf *b, uint32_t v)
{
	ipt_buf_append(b, &v, sizeof(v));
}

static void put64(struct ipt_buf *b, uint64_t v)
{
	ipt_buf_append(b, &v, sizeof(v));
}

static void put_type(struct ipt_buf *b, uint32_t type, uint16_t misc, size_t size)
{
	put32(b, type);
	put16(b, misc);
	put16(b, (uint16_t)size);
}

static void put_ids(struct perfdata *p)
{
	put32(&p->b, p->t->pid);
	put32(&p->b, p->t->tid);
}

enum { TRAILER = 32 };

/* What sample_id_all appends: ids, time, CPU, event. */
static void put_trailer(struct perfdata *p)
{
	put_ids(p);
	put64(&p->b, p->clock);
	put32(&p->b, UINT32_MAX);
	put32(&p->b, 0);
	put64(&p->b, ID_MAPS);
}

static void put_attrs(struct perfdata *p)
{
	struct perf_event_attr pt = {.type = PMU,
				     .size = sizeof(pt),
				     .sample_period = 1,
				     .sample_type = PERF_SAMPLE_IP | PERF_SAMPLE_TID |
						    PERF_SAMPLE_TIME | PERF_SAMPLE_CPU |
						    PERF_SAMPLE_IDENTIFIER,
				     .read_format = PERF_FORMAT_ID,
				     .config = CFG_PT | CFG_BRANCH,
				     .exclude_kernel = 1,
				     .exclude_hv = 1,
				     .sample_id_all = 1};
	struct perf_event_attr maps = pt;

	if (ipt_store_info(p->st)->noretcomp)
		pt.config |= CFG_NORETCOMP;
	maps.type = PERF_TYPE_SOFTWARE;
	maps.config = PERF_COUNT_SW_DUMMY;
	maps.mmap = maps.mmap2 = maps.comm = maps.task = 1;
	ipt_buf_append(&p->b, &pt, sizeof(pt));
	put64(&p->b, HEAD);
	put64(&p->b, 8);
	ipt_buf_append(&p->b, &maps, sizeof(maps));
	put64(&p->b, HEAD + 8);
	put64(&p->b, 8);
}

/* Sizes and places are filled in when they are known. */
static void put_head(struct perfdata *p, uint64_t data_size)
{
	const uint64_t attr = sizeof(struct perf_event_attr) + 16;

	ipt_buf_append(&p->b, "PERFILE2", 8);
	put64(&p->b, HEAD);
	put64(&p->b, attr);
	put64(&p->b, HEAD + 16);
	put64(&p->b, 2 * attr);
	put64(&p->b, HEAD + 16 + 2 * attr);
	put64(&p->b, data_size);
	put64(&p->b, 0);
	put64(&p->b, 0);
	put64(&p->b, 1ull << FEAT_AUXTRACE);
	for (int i = 0; i < 3; i++)
		put64(&p->b, 0);
	put64(&p->b, ID_PT);
	put64(&p->b, ID_MAPS);
	put_attrs(p);
}

static void put_info(struct perfdata *p)
{
	const uint64_t words[N_INFO] = {PMU,     0, 1, 0, 1, CFG_TSC, CFG_NORETCOMP, 0, 0, 0, 0x200,
					0x3c000, 0, 0, 2, 0, 0};

	put_type(&p->b, TYPE_AUXTRACE_INFO, 0, 16 + sizeof(words));
	put32(&p->b, 1); /* Intel PT */
	put32(&p->b, 0);
	ipt_buf_append(&p->b, words, sizeof(words));
}

static void put_comm(struct perfdata *p)
{
	char comm[16] = {0};

	snprintf(comm, sizeof(comm), "%s", p->t->comm ? p->t->comm : "");
	put_type(&p->b, PERF_RECORD_COMM, PERF_RECORD_MISC_COMM_EXEC | PERF_RECORD_MISC_USER,
		 8 + 8 + sizeof(comm) + TRAILER);
	put_ids(p);
	ipt_buf_append(&p->b, comm, sizeof(comm));
	put_trailer(p);
}

static void put_map(struct perfdata *p, const struct ipt_sb_map *m, uint64_t pgoff,
		    const char *path)
{
	size_t n = strlen(path) + 1, padded = (n + 7) & ~(size_t)7;

	put_type(&p->b, PERF_RECORD_MMAP2, PERF_RECORD_MISC_USER, 72 + padded + TRAILER);
	put_ids(p);
	put64(&p->b, m->start);
	put64(&p->b, m->end - m->start);
	put64(&p->b, pgoff);
	for (int i = 0; i < 3; i++) /* device, inode, generation: not compared */
		put64(&p->b, 0);
	put32(&p->b, 5);
	put32(&p->b, 2);
	ipt_buf_append(&p->b, path, n);
	for (; n < padded; n++)
		ipt_buf_u8(&p->b, 0);
	put_trailer(p);
}

static void put_maps(struct perfdata *p)
{
	for (size_t i = 0; i < ipt_store_n_recs(p->st); i++) {
		const struct ipt_rec *r = ipt_store_rec(p->st, i);
		struct ipt_rec_map m;
		const char *name;
		char *path;

		if (r->h.type != IPT_SB_MAP || r->h.pid != p->t->pid || ipt_rec_map_parse(&m, r))
			continue;
		name = ipt_store_image_name(p->st, m.m.image);
		if (m.path[0] == '/') {
			put_map(p, &m.m, m.m.pgoff, m.path);
		} else if (name) {
			path = ipt_xasprintf("%s/%s", ipt_store_dir(p->st), name);
			put_map(p, &m.m, m.m.image_off, path);
			free(path);
		}
	}
	put_type(&p->b, PERF_RECORD_ITRACE_START, 0, 16 + TRAILER);
	put_ids(p);
	put_trailer(p);
}

/* The AUX area with its index, which perf wants among the features. */
static int put_pt(struct perfdata *p, size_t *data_end, struct ipt_diag *diag)
{
	const uint8_t *pt;
	size_t n, at = p->b.len;
	int err = ipt_store_pt(p->st, p->t, &pt, &n, diag);

	if (err)
		return err;
	put_type(&p->b, TYPE_AUXTRACE, 0, AUXTRACE_SIZE);
	put64(&p->b, (n + 7) & ~(uint64_t)7);
	put64(&p->b, 0);
	put64(&p->b, 0);
	put32(&p->b, 0);
	put32(&p->b, p->t->tid);
	put32(&p->b, UINT32_MAX);
	put32(&p->b, 0);
	ipt_buf_append(&p->b, pt, n);
	for (; n & 7; n++)
		ipt_buf_u8(&p->b, 0);
	p->clock = INT64_MAX;
	put_type(&p->b, PERF_RECORD_EXIT, PERF_RECORD_MISC_USER, 8 + 24 + TRAILER);
	put32(&p->b, p->t->pid);
	put32(&p->b, 1);
	put32(&p->b, p->t->tid);
	put32(&p->b, 1);
	put64(&p->b, p->clock);
	put_trailer(p);
	*data_end = p->b.len;
	put64(&p->b, p->b.len + 16);
	put64(&p->b, 24);
	put64(&p->b, INDEX_ENTRIES);
	put64(&p->b, at);
	put64(&p->b, AUXTRACE_SIZE);
	return 0;
}

static int write_perfdata(struct perfdata *p, const char *to, struct ipt_diag *diag)
{
	size_t data, data_end;
	uint64_t size;
	FILE *f;
	int err;

	put_head(p, 0);
	data = p->b.len;
	put_info(p);
	put_comm(p);
	put_maps(p);
	err = put_pt(p, &data_end, diag);
	if (err)
		return err;
	size = data_end - data;
	memcpy(p->b.data + 48, &size, sizeof(size));
	f = fopen(to, "wb");
	if (!f || fwrite(p->b.data, 1, p->b.len, f) != p->b.len || fclose(f))
		return -1;
	return 0;
}

int main(int argc, char **argv)
{
	struct perfdata p = {.clock = 1};
	struct ipt_diag diag = {0};
	int err;

	if (argc != 3) {
		fprintf(stderr, "usage: perfdata DIR OUT\n");
		return 2;
	}
	if (ipt_store_open(&p.st, argv[1], &diag)) {
		fprintf(stderr, "perfdata: %s\n", diag.text);
		return 1;
	}
	if (!ipt_store_n_threads(p.st))
		return 1;
	p.t = ipt_store_thread(p.st, 0);
	err = write_perfdata(&p, argv[2], &diag);
	if (err)
		fprintf(stderr, "perfdata: %s: %s\n", argv[2], diag.text);
	ipt_buf_fini(&p.b);
	ipt_store_close(p.st);
	return err ? 1 : 0;
}
