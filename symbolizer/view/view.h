/* SPDX-License-Identifier: MIT */
/*
 * view: everything a person or another tool sees of a trace. A view is a row in views.def and a
 * struct ipt_view_ops; walk.c drives the events of the chosen threads through it.
 */
#ifndef IPT_VIEW_H
#define IPT_VIEW_H

#include "base/base.h"
#include "flow/flow.h"
#include "store/store.h"
#include "sym/sym.h"

/* Buffered writer of a view's data. Broken pipes end the walk quietly. */
struct ipt_out {
	int fd;
	struct ipt_buf buf;
	int err;     /* first write error, negative errno; 0 none */
	bool colour; /* terminal attributes may be used */
};

void ipt_out_init(struct ipt_out *o, int fd);
/* Flush; 0 or the first error. */
int ipt_out_fini(struct ipt_out *o);
void ipt_out_printf(struct ipt_out *o, const char *fmt, ...) IPT_PRINTF(2, 3);
void ipt_out_str(struct ipt_out *o, const char *s);     /* as it is */
void ipt_out_escaped(struct ipt_out *o, const char *s); /* untrusted, for people */
/* Write when the buffer is large; call it now and then. */
void ipt_out_check(struct ipt_out *o);

struct ipt_view_opts { /* zero: defaults */
	bool json;
	const char *format; /* insn: "ip" or NULL */
	enum ipt_syntax syntax;
	bool source, no_source; /* insn: source lines on (default when known) or off */
	uint32_t tid;           /* only this thread; 0 all */
	uint32_t pid;
	uint64_t from_insn, to_insn; /* --range of instruction numbers [from, to); to 0: no end */
	const char *by;              /* report: "function" (NULL), "module", "thread" */
	const char *sort;            /* report: "self" (NULL), "total", "calls", "name" */
	uint32_t limit;              /* report: rows; 0 all. tree: depth */
	uint64_t min_insns;          /* tree: hide calls with fewer instructions */
	const char *only_func;       /* tree: only calls of it */
	const char *decoder;
	struct ipt_sym_cfg sym;
};

/* One run of one view over a store. */
struct ipt_walk {
	struct ipt_store *st;      /* lent */
	struct ipt_images *images; /* owned by the walk */
	struct ipt_sym *sym;       /* owned by the walk; NULL for views without names */
	const struct ipt_view_opts *opts;
	struct ipt_out *out;
	struct ipt_diag *diag;
	/* of the thread being walked: */
	const struct ipt_thread_info *thread;
	struct ipt_code *code;
	struct ipt_flow_stats stats;
};

struct ipt_view_ops {
	const char *name;
	bool names; /* wants walk->sym */
	int (*begin)(void **state, struct ipt_walk *w);
	int (*thread_begin)(void *state, struct ipt_walk *w); /* may be NULL */
	int (*event)(void *state, struct ipt_walk *w, const struct ipt_ev *ev);
	int (*gap)(void *state, struct ipt_walk *w, const struct ipt_ev *ev); /* never NULL */
	int (*thread_end)(void *state, struct ipt_walk *w);                   /* may be NULL */
	int (*end)(void *state, struct ipt_walk *w);                          /* frees state */
};

/* Views that read the store only (info, packets) have run() instead. */
struct ipt_view {
	const char *name;
	const char *about;              /* one line */
	const struct ipt_view_ops *ops; /* or NULL */
	int (*run)(struct ipt_store *st, const struct ipt_view_opts *opts, struct ipt_out *out,
		   struct ipt_diag *diag);
};

const struct ipt_view *ipt_view_find(const char *name);
/* Run a view by name. 0; -ENOENT unknown view or thread; -EPIPE when the reader of @out went away.
 * Gaps are no error: *n_gaps (may be NULL) counts them. */
int ipt_view_run(const char *name, struct ipt_store *st, const struct ipt_view_opts *opts,
		 struct ipt_out *out, uint64_t *n_gaps, struct ipt_diag *diag);

#endif
