/* SPDX-License-Identifier: MIT */
/* What the files of view share. */
#ifndef IPT_VIEW_PRIV_H
#define IPT_VIEW_PRIV_H

#include "stack/stack.h"
#include "view/view.h"

extern const struct ipt_view_ops ipt_view_insn_ops;
extern const struct ipt_view_ops ipt_view_tree_ops;
extern const struct ipt_view_ops ipt_view_report_ops;

typedef int ipt_view_run_fn(struct ipt_store *st, const struct ipt_view_opts *opts,
			    struct ipt_out *out, struct ipt_diag *diag);
ipt_view_run_fn ipt_view_info;
ipt_view_run_fn ipt_view_summary;
ipt_view_run_fn ipt_view_packets;

/* --- walk.c --- */

int ipt_walk_run(const struct ipt_view_ops *ops, struct ipt_store *st,
		 const struct ipt_view_opts *opts, struct ipt_out *out, uint64_t *n_gaps,
		 struct ipt_diag *diag);
/* A view hands this back from event() when it needs no more of this thread. */
#define IPT_WALK_ENOUGH (-ECANCELED)
bool ipt_walk_wants(const struct ipt_view_opts *opts, const struct ipt_thread_info *t);
/* Decode one thread and only count: instructions and gaps found by the decoder. 0 or negative. */
int ipt_walk_count(struct ipt_store *st, struct ipt_images *images, const struct ipt_thread_info *t,
		   const char *decoder, uint64_t *insns, uint64_t *gaps, struct ipt_diag *diag);

/* --- text.c --- */

/* One JSON value on one line: drops the line breaks that struct ipt_json puts for people. */
void ipt_view_json_line(struct ipt_out *o, struct ipt_buf *json);
void ipt_view_thread_head(struct ipt_out *o, const struct ipt_thread_info *t);
/* "[gap: ...]", without newline. */
void ipt_view_gap_text(struct ipt_buf *b, const struct ipt_ev *ev);
/* {"gap":...} with the thread's ids; one line. */
void ipt_view_gap_json(struct ipt_out *o, const struct ipt_thread_info *t, const struct ipt_ev *ev);
/* "[signal 11 (Segmentation fault) at 0x...]" and the like for events that are no instructions;
 * false for those that have no line. */
bool ipt_view_event_text(struct ipt_buf *b, const struct ipt_ev *ev);
/* Name of the function at @va, "name+0x12" with @offset; in code without symbols the module and
 * the offset in its file. */
void ipt_view_place(struct ipt_buf *b, const struct ipt_func *f, uint64_t va, bool offset);
/* Name of what a frame runs: in code without symbols the place that was called. */
void ipt_view_frame_name(struct ipt_buf *b, const struct ipt_sframe *f);
/* What ipt_ev.time.ns counts: "ns", or "ticks" where the trace has no frequency. */
const char *ipt_view_time_unit(const struct ipt_store *st);
/* Thousands are set off by commas. */
void ipt_view_u64(struct ipt_buf *b, uint64_t v);
/* The same, right-aligned in @width columns. */
void ipt_view_column(struct ipt_out *o, int width, uint64_t v);

#endif
