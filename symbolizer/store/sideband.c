/* SPDX-License-Identifier: MIT */
/* Sideband records: their bytes read and checked. What they mean together is model.c's. */
#include <errno.h>
#include <stdlib.h>

#define XXH_STATIC_LINKING_ONLY /* its state on the stack */
#include <xxhash.h>

#include "internal.h"

#define CHECK_OFF offsetof(struct ipt_sb_hdr, check)

uint32_t ipt_sb_check(const uint8_t *rec, size_t size)
{
	static const uint8_t zero[4];
	XXH3_state_t st;

	/* Inside 64 bytes of stack alignment that XXH3's state asks for. */
	XXH3_INITSTATE(&st);
	XXH3_64bits_reset(&st);
	XXH3_64bits_update(&st, rec, CHECK_OFF);
	XXH3_64bits_update(&st, zero, sizeof(zero));
	XXH3_64bits_update(&st, rec + CHECK_OFF + 4, size - CHECK_OFF - 4);
	return (uint32_t)XXH3_64bits_digest(&st);
}

bool ipt_sb_version_ok(uint64_t version)
{
	return version >= 1 && version <= IPT_FORMAT_VERSION;
}

int ipt_sb_file_head(struct ipt_cur *c, struct ipt_diag *diag)
{
	uint64_t magic = ipt_cur_u64(c);
	uint16_t version = ipt_cur_u16(c), hdr_size = ipt_cur_u16(c);

	ipt_cur_u32(c);
	if (c->bad || magic != IPT_SB_MAGIC)
		return ipt_diag_err(diag, IPT_E_BADREC, 0, IPT_NAME_SIDEBAND ": no header");
	if (!ipt_sb_version_ok(version))
		return ipt_diag_err(diag, IPT_E_VERSION, 8,
				    IPT_NAME_SIDEBAND ": version %u, this program reads 1 to %u",
				    version, IPT_FORMAT_VERSION);
	if (hdr_size < sizeof(struct ipt_sb_file_hdr) || hdr_size % 8)
		return ipt_diag_err(diag, IPT_E_BADREC, 10,
				    IPT_NAME_SIDEBAND ": header of %u bytes", hdr_size);
	ipt_cur_skip(c, hdr_size - sizeof(struct ipt_sb_file_hdr));
	if (c->bad)
		return ipt_diag_err(diag, IPT_E_BADREC, 10, IPT_NAME_SIDEBAND ": header cut short");
	return 0;
}

static void read_head(struct ipt_sb_hdr *h, struct ipt_cur *c)
{
	h->type = ipt_cur_u16(c);
	h->flags = ipt_cur_u16(c);
	h->size = ipt_cur_u32(c);
	h->check = ipt_cur_u32(c);
	h->pid = ipt_cur_u32(c);
	h->tid = ipt_cur_u32(c);
	h->gen = ipt_cur_u32(c);
	h->seq = ipt_cur_u64(c);
	h->tsc = ipt_cur_u64(c);
	h->pt_off = ipt_cur_u64(c);
	h->bound = ipt_cur_u64(c);
}

int ipt_sb_next(struct ipt_rec *out, struct ipt_cur *c, uint64_t want_seq, const char **why)
{
	size_t left = ipt_cur_left(c);
	const uint8_t *rec = c->pos;

	*why = NULL;
	if (!left)
		return -IPT_E_EOS;
	*why = "cut inside a record";
	if (left < sizeof(struct ipt_sb_hdr))
		return -IPT_E_BADREC;
	read_head(&out->h, c);
	if (out->h.size < sizeof(struct ipt_sb_hdr) || out->h.size % 8 ||
	    out->h.size > IPT_SB_MAX_REC) {
		*why = "a record with an impossible size";
		return -IPT_E_BADREC;
	}
	out->n = out->h.size - sizeof(struct ipt_sb_hdr);
	out->payload = ipt_cur_bytes(c, out->n);
	if (!out->payload && out->n)
		return -IPT_E_BADREC;
	if (ipt_sb_check(rec, out->h.size) != out->h.check)
		*why = "a record with a wrong checksum";
	else if (out->h.seq != want_seq)
		*why = "a record out of sequence";
	else
		*why = NULL;
	return *why ? -IPT_E_BADREC : 0;
}

int ipt_rec_map_parse(struct ipt_rec_map *out, const struct ipt_rec *r)
{
	struct ipt_cur c = ipt_cur_make(r->payload, r->n);
	struct ipt_rec_map o = {.path = ""};
	const uint8_t *p = ipt_cur_bytes(&c, sizeof(o.m));
	const char *path;

	if (!p || (r->h.type != IPT_SB_MAP && r->h.type != IPT_SB_CODE))
		return -IPT_E_BADREC;
	memcpy(&o.m, p, sizeof(o.m)); /* little-endian, like every machine this runs on */
	if (o.m.start >= o.m.end || o.m.n_pos > r->n / sizeof(struct ipt_sb_pos) ||
	    o.m.n_build_id > 1024)
		return -IPT_E_BADREC;
	p = ipt_cur_bytes(&c, (size_t)o.m.n_pos * sizeof(struct ipt_sb_pos));
	if (!p)
		return -IPT_E_BADREC;
	o.pos = ipt_cur_make(p, (size_t)o.m.n_pos * sizeof(struct ipt_sb_pos));
	o.build_id = ipt_cur_bytes(&c, (o.m.n_build_id + 7u) & ~7u);
	if (!o.build_id && o.m.n_build_id)
		return -IPT_E_BADREC;
	if (o.m.n_path) {
		path = (const char *)ipt_cur_bytes(&c, o.m.n_path);
		if (!path || path[o.m.n_path - 1] || strlen(path) + 1 != o.m.n_path)
			return -IPT_E_BADREC;
		o.path = path;
	}
	*out = o;
	return 0;
}

int ipt_rec_range_parse(struct ipt_sb_range *out, struct ipt_cur *pos, const struct ipt_rec *r)
{
	struct ipt_cur c = ipt_cur_make(r->payload, r->n);
	const uint8_t *p = ipt_cur_bytes(&c, sizeof(*out));
	struct ipt_sb_range range;

	if (!p || (r->h.type != IPT_SB_UNMAP && r->h.type != IPT_SB_PROTECT))
		return -IPT_E_BADREC;
	memcpy(&range, p, sizeof(range));
	if (range.start >= range.end || range.n_pos > r->n / sizeof(struct ipt_sb_pos))
		return -IPT_E_BADREC;
	p = ipt_cur_bytes(&c, (size_t)range.n_pos * sizeof(struct ipt_sb_pos));
	if (!p)
		return -IPT_E_BADREC;
	*out = range;
	*pos = ipt_cur_make(p, (size_t)range.n_pos * sizeof(struct ipt_sb_pos));
	return 0;
}

bool ipt_rec_pos_next(struct ipt_cur *pos, struct ipt_sb_pos *out)
{
	const uint8_t *p;

	if (ipt_cur_left(pos) < sizeof(*out))
		return false;
	p = ipt_cur_bytes(pos, sizeof(*out));
	memcpy(out, p, sizeof(*out));
	return true;
}

const char *ipt_rec_text(const struct ipt_rec *r, size_t off)
{
	if (off >= r->n || !memchr(r->payload + off, 0, r->n - off))
		return "";
	return (const char *)r->payload + off;
}

static const char *exec_fault(const struct ipt_rec *r)
{
	struct ipt_sb_exec e;

	memcpy(&e, r->payload, sizeof(e));
	if ((uint64_t)e.n_path + e.n_argv > r->n - sizeof(e))
		return "exec: path and argv beyond the record";
	if (!e.n_path || r->payload[sizeof(e) + e.n_path - 1])
		return "exec: path without an end";
	if (e.n_argv && r->payload[sizeof(e) + e.n_path + e.n_argv - 1])
		return "exec: argv without an end";
	return NULL;
}

static size_t least_payload(unsigned type)
{
	switch (type) {
	case IPT_SB_THREAD_START: return sizeof(struct ipt_sb_thread_start);
	case IPT_SB_THREAD_EXIT:
	case IPT_SB_PROC_EXIT: return sizeof(struct ipt_sb_thread_exit);
	case IPT_SB_EXEC: return sizeof(struct ipt_sb_exec);
	case IPT_SB_FORK: return sizeof(struct ipt_sb_fork);
	case IPT_SB_SIGNAL: return sizeof(struct ipt_sb_signal);
	case IPT_SB_SYSCALL: return sizeof(struct ipt_sb_syscall);
	case IPT_SB_GAP: return sizeof(struct ipt_sb_gap);
	case IPT_SB_STACK: return sizeof(struct ipt_sb_stack);
	case IPT_SB_AT: return sizeof(struct ipt_sb_at);
	default: return 0;
	}
}

const char *ipt_sb_fault(const struct ipt_rec *r)
{
	struct ipt_rec_map map;
	struct ipt_sb_range range;
	struct ipt_sb_stack stack;
	struct ipt_cur pos;

	if (r->n < least_payload(r->h.type))
		return "payload is too short for its type";
	switch (r->h.type) {
	case IPT_SB_MAP:
	case IPT_SB_CODE: return ipt_rec_map_parse(&map, r) ? "bad mapping" : NULL;
	case IPT_SB_UNMAP:
	case IPT_SB_PROTECT: return ipt_rec_range_parse(&range, &pos, r) ? "bad range" : NULL;
	case IPT_SB_EXEC: return exec_fault(r);
	case IPT_SB_COMM: return memchr(r->payload, 0, r->n) ? NULL : "comm without an end";
	case IPT_SB_STACK:
		memcpy(&stack, r->payload, sizeof(stack));
		return stack.n > (r->n - sizeof(stack)) / 8 ? "stack beyond the record" : NULL;
	default: return NULL;
	}
}
