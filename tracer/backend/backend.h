/* SPDX-License-Identifier: MIT */
/*
 * backend: where a thread's PT bytes come from. The session tells a backend of each thread's life
 * and stops; the backend appends to the thread's PT file and says how the thread is to be resumed.
 */
#ifndef IPT_BACKEND_H
#define IPT_BACKEND_H

#include "base/base.h"
#include "engine/engine.h"
#include "store/store.h"
#include "translate/translate.h"

enum ipt_resume {
	IPT_RESUME_STEP,    /* one instruction */
	IPT_RESUME_SYSCALL, /* to the next entry to or exit from a syscall */
	IPT_RESUME_CONT,
};

struct ipt_backend_cfg {
	struct ipt_ptgen_cfg pt;
};

struct ipt_bthread; /* one thread under a backend */

struct ipt_backend_ops {
	const char *name;
	const char *about; /* one clause */
	bool slowed;       /* the program runs slower than it is: times are not its own */
	bool translates;   /* threads run in a code cache where they can */
	/* Can it be used here? 0, or a negative code with the reason. */
	int (*probe)(char *why, size_t n);
	/* The thread is stopped for the first time. @out is lent and outlives the bthread. */
	struct ipt_bthread *(*thread_new)(const struct ipt_backend_cfg *cfg,
					  const struct ipt_remote_ops *remote, void *host,
					  struct ipt_wthread *out);
	/* No more bytes come; hands over what is left. */
	void (*thread_free)(struct ipt_bthread *t);
	void (*stopped)(struct ipt_bthread *t, const struct ipt_stop *stop);
	enum ipt_resume (*resume)(struct ipt_bthread *t, uint64_t tsc);
	/* Code of the thread's process is about to change. After it the writer's position is exact
	 * for the thread: true; false when the backend cannot give one. */
	bool (*code_break)(struct ipt_bthread *t, uint64_t tsc);
	bool (*own_trap)(const struct ipt_bthread *t);
	/* The kernel must forget its stepping before the next step; NULL: never. */
	bool (*stale)(const struct ipt_bthread *t);
	uint64_t (*insns)(const struct ipt_bthread *t); /* UINT64_MAX: not known */
};

/* By name; "auto" or NULL chooses: the first that can be used, in order of trust. NULL: no such
 * engine, or it cannot be used (reason in @why). */
const struct ipt_backend_ops *ipt_backend_choose(const char *name, char *why, size_t n);

extern const struct ipt_backend_ops ipt_backend_step;
extern const struct ipt_backend_ops ipt_backend_translate;

/* --- of the software engines: a thread that the host runs translated between stretches of stepping
 * --- */

struct ipt_ptgen *ipt_software_ptgen(const struct ipt_bthread *t);
/* It runs under @xt from now on; NULL: under none. */
void ipt_software_translated(struct ipt_bthread *t, struct ipt_xl_thread *xt);
void ipt_software_at(struct ipt_bthread *t, const struct user_regs_struct *regs);
bool ipt_software_idle(const struct ipt_bthread *t);
uint64_t ipt_software_stepped(const struct ipt_bthread *t);

#endif
