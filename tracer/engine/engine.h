/* SPDX-License-Identifier: MIT */
/*
 * engine: software PT. ptgen turns branches into packets; step makes branches by single-stepping.
 * Knows no ptrace and no files: it reaches its thread through struct ipt_remote_ops and hands bytes
 * to a sink.
 */
#ifndef IPT_ENGINE_H
#define IPT_ENGINE_H

#include "base/base.h"
#include "pt/pt.h"
#include "x86/x86.h"

/* --- ptgen: branches in, packet bytes out. User-mode tracing (CTL.User=1, OS=0). --- */

struct ipt_ptgen_cfg {
	bool noretcomp;     /* every RET is a TIP */
	bool long_tnt;      /* TNT up to 47 bits a packet instead of 6 */
	bool no_tsc;        /* no TSC packets at all */
	uint32_t psb_bytes; /* PSB+ at least every so many bytes; 0: 4096; least 128 */
	uint8_t cbr;        /* core:bus ratio told in PSB+; 0: no CBR packet */
};

/* Gets whole packets; @n is at most a few hundred bytes a call, in a batch at most 64 KiB. */
typedef void (*ipt_ptgen_sink)(void *arg, const uint8_t *p, size_t n);

struct ipt_ptgen;
struct ipt_ptgen *ipt_ptgen_new(const struct ipt_ptgen_cfg *cfg, ipt_ptgen_sink sink, void *arg);
void ipt_ptgen_free(struct ipt_ptgen *g);

/* User code begins or goes on at @ip: PSB+ first when due (always before the first packet), TSC,
 * MODE.Exec when it changed since the last PSB or enable, TIP.PGE. Only while disabled. */
void ipt_ptgen_enable(struct ipt_ptgen *g, uint64_t ip, enum ipt_xmode mode, uint64_t tsc);
/* Synchronous end at a far transfer (SYSCALL, INT n, INT3 ...): TIP.PGD without IP. Only while
 * enabled. */
void ipt_ptgen_disable(struct ipt_ptgen *g, uint64_t tsc);
/* Asynchronous end before @ip (signal, fault): FUP(ip), TIP.PGD without IP. Only while enabled. */
void ipt_ptgen_async(struct ipt_ptgen *g, uint64_t ip, uint64_t tsc);

/*
 * User code that is filtered out (SDM "Filtering by IP"): enabled, but outside, no packets are made
 * until ipt_ptgen_come(); disable, async, insn, ptwrite and psb may be called, and write nothing.
 */
/* User code begins or goes on outside. Only while disabled. */
void ipt_ptgen_enable_outside(struct ipt_ptgen *g);
/* Inside user code goes on outside, at @next: after a branch (in place of its own packet) TIP.PGD
 * with the IP, else FUP, TIP.PGD. */
void ipt_ptgen_leave(struct ipt_ptgen *g, uint64_t next, bool branch);
/* Outside user code goes on inside, at @next: as ipt_ptgen_enable(). */
void ipt_ptgen_come(struct ipt_ptgen *g, uint64_t next, enum ipt_xmode mode, uint64_t tsc);
bool ipt_ptgen_outside(const struct ipt_ptgen *g);

/* The instruction at @ip executed and went to @next. Looks at insn->iclass; far transfers to user
 * code of another mode (far jump, far return, iret) give TIP with MODE.Exec of @next_mode. SYSCALL
 * and other FAR_CALLs into the kernel give nothing here: the caller calls disable. PSB+ goes out
 * before the packet of a branch when due. */
void ipt_ptgen_insn(struct ipt_ptgen *g, const struct ipt_insn *insn, uint64_t ip, uint64_t next,
		    enum ipt_xmode next_mode, uint64_t tsc);
/* The instruction at @ip is not executed yet; an internal point where a PSB+ may be placed: called
 * by ptgen_insn. */
void ipt_ptgen_ptwrite(struct ipt_ptgen *g, uint64_t ip, uint64_t payload, uint8_t size);
/* Data was lost; execution goes on at @ip: OVF, FUP. */
void ipt_ptgen_overflow(struct ipt_ptgen *g, uint64_t ip, uint64_t tsc);
/*
 * The stream goes on elsewhere, or @others bytes of it were made elsewhere: nothing that was known
 * counts any more, and the next packets are a PSB+. @enabled: in 64-bit user code, inside.
 */
void ipt_ptgen_seam(struct ipt_ptgen *g, bool enabled, uint64_t others);
/* Write out pending TNT bits. Makes the stream decodable to the last branch; costs compression. */
void ipt_ptgen_flush(struct ipt_ptgen *g);
bool ipt_ptgen_enabled(const struct ipt_ptgen *g);
/* Bytes made: those that the sink has and those that are collected. Pending TNT bits are none. */
uint64_t ipt_ptgen_pos(const struct ipt_ptgen *g);

/*
 * Does the way from the branch at @ip come to it again without a packet? How often it went round
 * could not be told from the packets, so such a branch gets a pair of its own, as an interrupt
 * gives it. Only backward branches are asked: every cycle has one. @read gives the instruction at
 * an address; false: there is none.
 */
bool ipt_quiet_cycle(const struct ipt_insn *branch, uint64_t ip,
		     bool (*read)(void *arg, uint64_t ip, struct ipt_insn *insn), void *arg);

/*
 * In bulk, for who knows the outcomes of whole stretches; only while enabled, inside. A PSB+ comes
 * where the caller lets it: at ipt_ptgen_psb and at the beginning of ways.
 */
/*
 * While on, packets collect and reach the sink in large pieces. Off, as it is at first: what is
 * collected goes out, and each call hands over. Pending TNT bits stay pending.
 */
void ipt_ptgen_batch(struct ipt_ptgen *g, bool on);
/* Outcomes of @n (0 to 64) conditional branches and compressed returns, the oldest highest; no
 * other bits are set. */
void ipt_ptgen_bits(struct ipt_ptgen *g, uint64_t bits, unsigned int n);
/* A near call that returns to @ret, not one to the next instruction. */
void ipt_ptgen_call(struct ipt_ptgen *g, uint64_t ret);
/* A near return to @next. */
void ipt_ptgen_ret(struct ipt_ptgen *g, uint64_t next);
/* PSB+ before the instruction at @ip, the next one that makes a packet, when one is due. Calls from
 * before it are forgotten: those that come after it are told after it. */
void ipt_ptgen_psb(struct ipt_ptgen *g, uint64_t ip, uint64_t tsc);

enum ipt_way_end {
	IPT_WAY_ON, /* nothing that makes a packet */
	IPT_WAY_JMP,
	IPT_WAY_CALL,
	IPT_WAY_RET,
};

struct ipt_way { /* outcomes of a stretch of code */
	/* Of conditional branches and returns to calls in the stretch, the oldest highest; no other
	 * bits are set. */
	uint64_t bits;
	/* The first instruction that calls or makes a packet; 0: no PSB+ here. A PSB+ before it
	 * forgets the calls of earlier ways only: were one of this way's calls before it, a decoder
	 * that starts there would miss that call. */
	uint64_t psb_ip;
	uint64_t ret; /* CALL: where it returns to; 0: the call is to the next instruction */
	const uint64_t *calls; /* return addresses of those that have not returned; lent */
	uint8_t n_bits;        /* 64 at most */
	uint8_t n_calls;
	uint8_t inner; /* deepest nest of calls that the stretch returned from, 64 at most */
	uint8_t end;   /* enum ipt_way_end: how it ends */
	bool more;     /* something but bits: calls, inner, end */
};

struct ipt_went { /* a way that was gone */
	const struct ipt_way *way;
	uint64_t target; /* where its last branch went */
};

/* @n ways one after the other. */
void ipt_ptgen_ways(struct ipt_ptgen *g, const struct ipt_went *w, size_t n, uint64_t tsc);

/* The same from records: numbers of exits, 4 bytes each, one that is indirect followed by the
 * number of its target. */
struct ipt_wexit {
	struct ipt_way way;            /* the last one up to it */
	const struct ipt_went *before; /* ways up to that; lent */
	uint32_t epoch;
	uint16_t n_items; /* instructions up to it */
	uint8_t n_before; /* 24 at most */
	bool indirect;
	bool special; /* not told in bulk */
};

#define IPT_RECORDS_CHUNK 4096u

struct ipt_records {
	/* Tables in chunks of IPT_RECORDS_CHUNK: exits, each the beginning of `stride` bytes;
	 * addresses of targets. */
	const void *const *exits;
	const uint64_t *const *targets;
	size_t stride;
	uint32_t n_exits, n_targets;
	uint32_t epoch; /* exits of later ones are not told in bulk */
	uint64_t insns; /* told are added */
};

/* Tell records from @p to @end as far as that can be done in bulk; where the rest begins, at the
 * latest 8 bytes before @end. */
const uint8_t *ipt_ptgen_records(struct ipt_ptgen *g, struct ipt_records *r, const uint8_t *p,
				 const uint8_t *end, uint64_t tsc);

/* --- software engines: make branches of a thread that its host resumes and stops --- */

struct user_regs_struct;

/* What an engine needs of its host; @host is the host's thread. */
struct ipt_remote_ops {
	/* Code bytes at @va as the trace directory knows them now; count, 0 none (vsyscall page).
	 */
	size_t (*read_code)(void *host, uint64_t va, uint8_t *out, size_t n);
	/* Memory of the thread; 0 or negative errno. */
	int (*read)(void *host, uint64_t va, void *out, size_t n);
	int (*write)(void *host, uint64_t va, const void *p, size_t n);
	int (*set_regs)(void *host, const struct user_regs_struct *regs);
	/* An instruction was executed (canonical sequence); may be NULL. */
	void (*log_ip)(void *host, uint64_t ip);
	/* The abort handler of the restartable sequence that @ip stands in; 0: in none. A step in
	 * one makes the kernel go there. */
	uint64_t (*rseq_abort)(void *host, uint64_t ip);
	/* Is @ip code that is filtered out? May be NULL. */
	bool (*outside)(void *host, uint64_t ip);
	/* Control went from @from to @to by no instruction that is known: the stretch between is
	 * not recorded. */
	void (*lost)(void *host, uint64_t from, uint64_t to);
};

enum ipt_stop_kind {
	IPT_STOP_STEP,     /* the instruction it was resumed for is done (#DB) */
	IPT_STOP_SYSENTRY, /* in the kernel, before the syscall */
	IPT_STOP_SYSEXIT,  /* on the way out of the kernel; no instruction after the syscall is done
			    */
	IPT_STOP_SIGNAL,   /* about to take signal `sig`; nothing of the next instruction is done */
	IPT_STOP_ENTRY,    /* at the first instruction of a signal handler */
	IPT_STOP_OTHER,    /* ptrace event, group stop: nothing is done */
	IPT_STOP_EXEC,     /* in execve, the new program in place */
	IPT_STOP_EXIT,     /* about to end; no more user code */
};

struct ipt_stop {
	enum ipt_stop_kind kind;
	int sig; /* SIGNAL */
	const struct user_regs_struct *regs;
	uint64_t tsc;
};

enum ipt_step_how {
	IPT_HOW_STEP,    /* one instruction */
	IPT_HOW_SYSCALL, /* to the next entry to or exit from a syscall */
};

struct ipt_ethread; /* a thread under an engine */

struct ipt_engine_ops {
	const char *name;
	/* The thread is stopped at regs of the first stop(); @in_kernel: inside a syscall. */
	struct ipt_ethread *(*thread_new)(const struct ipt_ptgen_cfg *cfg,
					  const struct ipt_remote_ops *remote, void *host,
					  ipt_ptgen_sink sink, void *sink_arg);
	void (*thread_free)(struct ipt_ethread *t);
	/* The thread stopped. Emits what happened since it was resumed. */
	void (*stopped)(struct ipt_ethread *t, const struct ipt_stop *stop);
	/* The host is about to resume it. Emits what is certain beforehand (breakpoints). How: a
	 * thread that runs to its next syscall stop meets no user code but the syscall's own. */
	enum ipt_step_how (*resume)(struct ipt_ethread *t, uint64_t tsc);
	/* POPF or IRET ran: the kernel took the trap flag of the stepping for the program's, and
	 * must forget its stepping (resume without) before the next step. */
	bool (*stale)(const struct ipt_ethread *t);
	/* Code is about to change: end the packets so that the stream has a position for it (while
	 * stopped). */
	void (*code_break)(struct ipt_ethread *t, uint64_t tsc);
	/* True while the stream stands between TIP.PGD and TIP.PGE. */
	bool (*disabled)(const struct ipt_ethread *t);
	uint64_t (*insns)(const struct ipt_ethread *t);
	/* True when a SIGTRAP for the thread's own trap flag is due with this STEP stop. */
	bool (*own_trap)(const struct ipt_ethread *t);
};

extern const struct ipt_engine_ops ipt_engine_step;

/* For an engine that runs a thread by other means between stretches of stepping. */
/* The generator of its packets; lent. */
struct ipt_ptgen *ipt_step_ptgen(const struct ipt_ethread *t);
/* The thread stands at @regs, and all that it did is in the packets. */
void ipt_step_at(struct ipt_ethread *t, const struct user_regs_struct *regs);
/* Nothing is under way: 64-bit user code may go on at the registers last told by other means. */
bool ipt_step_idle(const struct ipt_ethread *t);

/* Mode of the code that a stopped thread is in; 16-bit segments pass for 32-bit ones. */
enum ipt_xmode ipt_step_mode(const struct user_regs_struct *regs);
/* Take the trap flag that stepping left in the saved flags (r11) of a thread inside a syscall out
 * of @regs. True when @regs changed. Also for children that are let go. */
bool ipt_step_clean_regs(struct user_regs_struct *regs);

#endif
