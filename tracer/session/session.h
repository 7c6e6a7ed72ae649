/* SPDX-License-Identifier: MIT */
/*
 * session: one recording by ptrace. The caller's process is the front end; all ptrace is done by a
 * keeper process of its own session, which restores and detaches every thread when the front end
 * goes away.
 */
#ifndef IPT_SESSION_H
#define IPT_SESSION_H

#include <limits.h>

#include "base/base.h"

struct ipt_record_opts {         /* strings and arrays are lent for the call */
	const char *const *argv; /* NULL-terminated program and arguments; NULL to attach */
	const pid_t *pids;       /* processes to attach to */
	size_t n_pids;
	const char *dir; /* NULL: iptrace.PROGRAM.PID in the current folder */
	bool force;
	bool follow;           /* follow children, not only threads */
	const char *engine;    /* "auto" (NULL), "step", ... */
	uint64_t buffer_bytes; /* PT kept in memory a thread; 0: 64 KiB */
	bool noretcomp;
	bool long_tnt;
	uint32_t psb_bytes; /* 0: 4096 */
	bool syscalls;      /* record syscalls in the sideband */
	bool zstd;
	/* NULL-terminated names of modules and functions (FUNC@MODULE for one of a module), each an
	 * fnmatch pattern: code to record (NULL: all), and code not to; may be NULL. */
	const char *const *only, *const *exclude;
	const char *step_log;   /* write the stepped IPs to FILE.PID.TID.GEN; NULL: do not */
	const char *user;       /* run the program as this user; NULL: as we are */
	const char *const *env; /* NULL-terminated "VAR=VAL" to add, "VAR" to remove; may be NULL */
	bool kill_on_exit;
	bool verbose;
	const char *const *options; /* NULL-terminated: how iptrace was called, for the manifest;
				       may be NULL */
};

struct ipt_record_result {
	char dir[PATH_MAX]; /* the trace directory; "" when none was made */
	char engine[16];
	char why[160];    /* why this engine, one clause */
	int status;       /* launched program: as wait(2); attach: 0 */
	bool exec_failed; /* the program could not be started: errno in the returned code */
	bool lost;        /* data was lost that should not have been */
	bool detached;    /* attach: ended by the user, the targets live on */
};

/*
 * Record until the program ends, the attached processes end, or (attach) SIGINT, SIGTERM or SIGHUP
 * arrives. 0, or a negative code with @diag filled: -ENOENT/-EACCES/-ENOEXEC (program), -ESRCH,
 * -EPERM, -IPT_E_TRACED (attach), -EEXIST (directory), ... Warnings go to diag->warn in the
 * caller's process.
 */
int ipt_session_run(struct ipt_record_result *res, const struct ipt_record_opts *opts,
		    struct ipt_diag *diag);

#endif
