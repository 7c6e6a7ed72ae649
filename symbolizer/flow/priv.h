/* SPDX-License-Identifier: MIT */
/* flow, private: the way of an event from a decoder to the view. */
#ifndef IPT_FLOW_PRIV_H
#define IPT_FLOW_PRIV_H

#include "flow/flow.h"

/* --- scan.c: what our own packet walk finds before a decoder runs --- */

struct int3 { /* a breakpoint that the file does not show */
	uint64_t pge_off, ip;
};

struct scan_note {
	uint64_t off;
	char text[120];
};

struct scan {
	const uint8_t *p; /* the bytes to decode: the store's, or the copy */
	size_t n;
	struct ipt_buf copy;
	IPT_VEC(uint64_t) pge;
	IPT_VEC(uint64_t) pgd;
	IPT_VEC(struct int3) int3;
	IPT_VEC(struct scan_note) notes;
	IPT_VEC(uint64_t) exstop; /* offsets where we put an EXSTOP for a packet libipt lacks */
	uint64_t first_psb;       /* UINT64_MAX: none */
	uint64_t trunc;           /* where a packet is cut by the end; UINT64_MAX: none */
	uint64_t n_psb;
	bool head_data; /* something but PAD before the first PSB */
	bool has_cyc, has_mtc;
};

void ipt_flow_scan(struct scan *s, const uint8_t *p, size_t n, const struct ipt_code *code);
void ipt_flow_scan_fini(struct scan *s);
/* Last value below @off, or first at or above it; UINT64_MAX: none. */
uint64_t ipt_flow_before(const uint64_t *v, size_t n, uint64_t off);
uint64_t ipt_flow_from(const uint64_t *v, size_t n, uint64_t off);
const struct int3 *ipt_flow_int3(const struct scan *s, uint64_t pge_off);

/* --- time.c --- */

struct clock {
	struct ipt_clock cfg;
	uint64_t base, last;
	bool started;
	uint64_t bound;
};

void ipt_flow_clock_init(struct clock *c, const struct ipt_clock *cfg, const struct scan *s);
/* Make a TIME event when the clock moved on. */
bool ipt_flow_clock_tick(struct clock *c, uint64_t tsc, struct ipt_ev *ev);

/* --- marks.c: sideband events and notes in the order of the stream --- */

struct mark {
	uint64_t off;
	uint64_t order;
	struct ipt_ev ev;
};

struct marks {
	IPT_VEC(struct mark) v;
	size_t next;
	const struct ipt_rec *start, *exit;
};

void ipt_flow_marks_init(struct marks *m, const struct ipt_store *st,
			 const struct ipt_thread_info *t, const struct scan *s);
void ipt_flow_marks_fini(struct marks *m);

/* --- events.c: runs are joined, branches get their targets, a tail is held back --- */

struct pev { /* an event and where it belongs */
	struct ipt_ev ev;
	uint64_t at; /* offset of the packet that made it: marks at or below come first */
	size_t epoch;
};

struct out { /* to the view */
	ipt_ev_fn fn;
	void *arg;
	struct ipt_ev batch[256];
	size_t n;
	int rc; /* first failure of fn: nothing is delivered from then on */
	struct ipt_code *code;
	struct marks marks;
	bool timed;
	uint64_t last_tsc; /* of the last TIME */
	struct ipt_flow_stats stats;
};

void ipt_flow_out(struct out *o, const struct pev *pe);
void ipt_flow_out_marks(struct out *o, uint64_t upto);
void ipt_flow_out_flush(struct out *o);

struct piece {                  /* instructions as a decoder hands them over */
	uint64_t ip, last, end; /* first, last, and the first byte after the last */
	uint32_t n;
	uint8_t mode, iclass;
};

struct source { /* from a decoder */
	struct out *out;
	struct clock clock;
	bool no_time;
	IPT_VEC(struct pev) held;
	uint64_t delivered; /* since the stretch began */
	uint64_t skip;      /* so many were delivered by the decoder before */
	bool run_open;
	struct pev run;
	uint64_t run_last; /* its last instruction */
	bool branch_open;  /* the run before ended with a branch of unknown target */
	struct pev branch;
	uint64_t last_ip; /* last instruction of all */
	uint64_t at;
	size_t epoch;
};

void ipt_flow_begin(struct source *s);
/* Forget what is held; the next decoder makes the whole stretch again. */
void ipt_flow_again(struct source *s, const struct clock *c);
void ipt_flow_piece(struct source *s, const struct piece *p);
void ipt_flow_time(struct source *s, uint64_t tsc);
/* An event that is no run; @next_ip: where code would have gone on (0 unknown). */
void ipt_flow_event(struct source *s, const struct ipt_ev *ev, uint64_t next_ip);
/* Deliver all that is held. */
void ipt_flow_release(struct source *s);
void ipt_flow_source_fini(struct source *s);

/* --- decoders.c --- */

struct job {
	struct ipt_store *st;
	struct ipt_code *code;
	const struct ipt_thread_info *t;
	struct scan scan;
	struct source src;
	struct ipt_diag *diag;
};

struct decoder {
	const char *name;
	int (*run)(struct job *j);
};

const struct decoder *ipt_flow_decoder(const char *name);
/* Decode other bytes than the store's: for tests. st, code, t and diag of @j are set. */
int ipt_flow_decode_bytes(struct job *j, const uint8_t *p, size_t n, const struct ipt_flow_cfg *cfg,
			  ipt_ev_fn fn, void *arg, struct ipt_flow_stats *stats);
int ipt_ref_block(struct job *j);
int ipt_ref_insn(struct job *j);

#endif
