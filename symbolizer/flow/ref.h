/* SPDX-License-Identifier: MIT */
/*
 * The fence around libipt: only ref_libipt.c, ref_blk.c and ref_insn.c include this header, and
 * only it includes <intel-pt.h>.
 *
 * Images. Code that never changes while a program runs is given to libipt as files of the trace
 * directory in one pt_image a program, so that its block caches stay. All other code (JIT, ranges
 * used twice, inferred breakpoints) is read by callback in the epoch that holds, and libipt keeps
 * none of it: stale bytes cannot be served. libipt's cache of the last section is compared with the
 * image's own entry on each use, so switching images is safe too.
 */
#ifndef IPT_FLOW_REF_H
#define IPT_FLOW_REF_H

#include <intel-pt.h>

#include "flow/priv.h"

#define REF_CLS_BITS 14

struct cls { /* what the instruction at ip is */
	uint64_t ip;
	uint32_t stamp;
	uint8_t mode, len, iclass;
};

struct stop {     /* why a stretch ended */
	int code; /* negative enum pt_error_code; -pte_eos at the end */
	bool limit;
	uint64_t off, ip;
};

struct ref {
	struct job *job;
	struct pt_config config;
	struct pt_image_section_cache *cache;
	IPT_VEC(struct pt_image *) programs; /* NULL until used */
	struct pt_image *bare;               /* callback only */
	struct pt_image *image;              /* now in use */
	size_t epoch;                        /* of the decoder, ahead of the view's */
	uint64_t next_epoch;                 /* where the next one begins */
	const struct int3 *int3;             /* in this enable period */
	uint64_t cap;                        /* the TIP.PGD that ends this period */
	uint64_t sync;
	bool doubt; /* tracing ended at an instruction that does not end it */
	uint64_t cbr;
	/* endless loops without packets: Brent's search for a cycle */
	uint64_t loop_ip, loop_n, loop_at;
	uint32_t stamp;
	struct cls *cls;
	struct pt_block_decoder *blk;
	struct pt_insn_decoder *insn;
};

/* ref_libipt.c */
void ipt_ref_begin(struct ref *r, uint64_t sync);
void ipt_ref_event(struct ref *r, const struct pt_event *ev, uint64_t off);
/* The image changed: tell the decoder. */
bool ipt_ref_move(struct ref *r, uint64_t off);
/* Hand over instructions from @ip to @last; false: an endless loop without packets. */
bool ipt_ref_piece(struct ref *r, uint64_t ip, uint64_t last, uint32_t n, enum pt_exec_mode mode,
		   enum pt_insn_class iclass, uint8_t size);
static inline bool ipt_ref_timed(uint8_t iclass)
{
	return iclass == IPT_IC_COND || iclass == IPT_IC_RET || iclass == IPT_IC_JMP_IND ||
	       iclass == IPT_IC_CALL_IND;
}

/* ref_blk.c, ref_insn.c: decode from the PSB at @sync to the end or an error. */
void ipt_ref_blk_stretch(struct ref *r, uint64_t sync, struct stop *stop);
void ipt_ref_insn_stretch(struct ref *r, uint64_t sync, struct stop *stop);

#endif
