/* SPDX-License-Identifier: MIT */
/*
 * flow: PT packets and code to one stream of decoded events per thread, the only thing views read.
 * Instructions are not events: a RUN is a stretch of contiguous instructions; ipt_run_next()
 * expands it.
 */
#ifndef IPT_FLOW_H
#define IPT_FLOW_H

#include "base/base.h"
#include "image/image.h"
#include "pt/pt.h"
#include "store/store.h"
#include "x86/x86.h"

enum ipt_ev_kind {
	IPT_EV_RUN,   /* contiguous instructions were executed */
	IPT_EV_CALL,  /* the last RUN ended with a near call that was taken; the next RUN is at `to`
		       */
	IPT_EV_RET,   /* ... a near return */
	IPT_EV_JUMP,  /* ... an indirect jump (direct jumps make no event: see the next RUN) */
	IPT_EV_ASYNC, /* execution was interrupted before `from` (signal, interrupt, fault); DISABLE
			 follows */
	IPT_EV_ENABLE,  /* user code goes on at `to` (TIP.PGE) */
	IPT_EV_DISABLE, /* tracing stopped: how says why */
	IPT_EV_TIME,    /* the clock now; never goes back within a thread */
	IPT_EV_SIGNAL,  /* a signal was delivered (sideband) */
	IPT_EV_SYSCALL, /* sideband, with --syscalls */
	IPT_EV_PTW,     /* PTWRITE payload */
	IPT_EV_CBR,     /* core:bus ratio */
	IPT_EV_PROBE,
	IPT_EV_MARK,
	IPT_EV_GAP, /* instructions are missing here */
	IPT_EV_MAP, /* the code changed: a new epoch is current; drop what you cached of addresses
		     */
	IPT_EV_THREAD, /* first and last event of each thread */
	IPT_EV_STACK,  /* initial call stack (attach), before the first ENABLE */
	IPT_EV_EXEC,   /* the process is another program from here on */
	IPT_EV_NOTE, /* the decoder inferred something (text): e.g. a breakpoint not in the file */
	IPT_EV_N_KINDS
};

enum ipt_disable_how {
	IPT_DIS_SYNC,   /* far transfer: syscall, int n, int3 */
	IPT_DIS_ASYNC,  /* after ASYNC */
	IPT_DIS_FILTER, /* left the filter's range, TraceStop */
};

struct ipt_ev {
	uint8_t kind; /* enum ipt_ev_kind */
	uint8_t how;  /* RUN: enum ipt_xmode; DISABLE: enum ipt_disable_how; THREAD: 0 begin, 1 end;
			 GAP: enum ipt_gap_cause */
	uint8_t iclass;   /* RUN: class of the last instruction (enum ipt_iclass) */
	uint8_t last_len; /* RUN: bytes of the last instruction */
	uint32_t n;       /* RUN: instructions; PTW: size */
	uint64_t off;     /* PT offset reached */
	union {
		struct {
			uint64_t ip, end; /* first instruction, first byte after the last one */
		} run;
		struct {
			uint64_t from, to; /* from: the branching instruction (ASYNC: interrupted);
					      0 unknown */
			uint64_t ret_to;   /* CALL: the address after it */
		} br;
		struct {
			uint64_t tsc;
			uint64_t ns; /* since the start of the trace; tsc ticks where the frequency
					is unknown */
			uint64_t bound; /* the clock may be this much late, in the unit of ns;
					   UINT64_MAX: unknown */
		} time;
		struct {
			uint64_t ip;         /* where decoding stopped (OVF: goes on); 0 unknown */
			const char *text;    /* lent for the call; reason in words */
			uint64_t resume_off; /* PT offset where it goes on; UINT64_MAX: it does not
					      */
			uint64_t lost_bytes; /* UINT64_MAX unknown */
		} gap;
		const struct ipt_rec
			*rec;     /* SIGNAL, SYSCALL, MARK, STACK, EXEC; THREAD (may be NULL) */
		uint64_t payload; /* PTW, CBR */
		const char *text; /* NOTE; lent for the call */
	};
};

/* Receives events in order, in batches. Return 0 to go on, negative to stop (handed back by
 * decode). */
typedef int (*ipt_ev_fn)(void *arg, const struct ipt_ev *ev, size_t n);

struct ipt_flow_stats {
	uint64_t insns, runs, gaps, psbs;
	uint64_t notes;
};

struct ipt_flow_cfg {
	const char *decoder; /* "ref" (NULL: the default); "insn": libipt's instruction decoder
				alone */
	bool no_time;        /* do not make TIME events */
};

/*
 * Decode one thread. @code is moved from epoch to epoch as the stream goes on, so a view may look
 * addresses up in it while it gets events. Bad data is not a failure: it makes a GAP event and
 * decoding goes on at the next PSB. 0; what @fn returned; -IPT_E_UNSUPPORTED for an unknown
 * decoder; errno's.
 */
int ipt_flow_decode(struct ipt_store *st, struct ipt_code *code, const struct ipt_thread_info *t,
		    const struct ipt_flow_cfg *cfg, ipt_ev_fn fn, void *arg,
		    struct ipt_flow_stats *stats, struct ipt_diag *diag);

/* Expand a RUN: start with it = {0}. One instruction a call; false at the end (or when bytes are
 * missing). */
struct ipt_run_it {
	uint64_t ip;
	uint32_t done;
	struct ipt_insn insn; /* of the instruction returned */
	uint8_t bytes[IPT_INSN_MAX];
	bool started;
};
bool ipt_run_next(struct ipt_run_it *it, const struct ipt_code *code, const struct ipt_ev *run);

const char *ipt_ev_name(enum ipt_ev_kind kind);
const char *ipt_gap_name(enum ipt_gap_cause cause); /* "buffer-full", "no-code", ... */

#endif
