/* SPDX-License-Identifier: MIT */
/* Hands the options of record and attach to tracer/session and tells how it ended. */
#include "cmd.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "session/session.h"
#include "view/view.h"

static void summary(const struct ipt_record_args *a, const struct ipt_record_result *res)
{
	const struct ipt_view_opts opts = {0};
	struct ipt_store *st = NULL;
	struct ipt_diag diag = {0};
	struct ipt_out out;

	if (a->quiet || !res->dir[0])
		return;
	if (ipt_store_open(&st, res->dir, &diag)) {
		ipt_report_note(a->cmd, "%s: %s", res->dir, diag.text);
		return;
	}
	ipt_out_init(&out, STDERR_FILENO);
	if (ipt_view_run("summary", st, &opts, &out, NULL, &diag))
		ipt_report_note(a->cmd, "%s: %s", res->dir, diag.text);
	ipt_out_fini(&out);
	ipt_store_close(st);
}

static int failed(const struct ipt_record_args *a, const struct ipt_record_result *res, int err,
		  const struct ipt_diag *diag)
{
	int status = ipt_report_err(a->cmd, err, diag, res->exec_failed ? a->argv[0] : NULL);

	if (!res->exec_failed)
		return status;
	return err == -ENOENT || err == -ENOTDIR ? IPT_EXIT_NOTFOUND : IPT_EXIT_NOEXEC;
}

/* The program's own status; data lost without need must not pass for success. */
static int outcome(const struct ipt_record_args *a, const struct ipt_record_result *res)
{
	int status = 0;

	if (a->argv && WIFSIGNALED(res->status))
		status = 128 + WTERMSIG(res->status);
	else if (a->argv && WIFEXITED(res->status))
		status = WEXITSTATUS(res->status);
	if (!res->lost)
		return status;
	ipt_report_note(a->cmd, "%s: data was lost; see 'iptrace info %s'", res->dir, res->dir);
	return a->argv && !status ? IPT_EXIT_LOST : status;
}

int ipt_record_run(const struct ipt_record_args *a)
{
	struct ipt_record_opts o = {
		.argv = (const char *const *)a->argv,
		.pids = a->pids.v,
		.n_pids = a->pids.n,
		.dir = a->dir,
		.force = a->force,
		.follow = a->follow,
		.engine = a->engine,
		.buffer_bytes = (size_t)a->buffer,
		.noretcomp = a->noretcomp,
		.long_tnt = a->long_tnt,
		.psb_bytes = (uint32_t)a->psb,
		.syscalls = a->syscalls,
		.zstd = a->zstd,
		.step_log = a->step_log,
		.user = a->user,
		.env = a->env.v,
		.only = a->only.v,
		.exclude = a->exclude.v,
		.kill_on_exit = a->kill_on_exit,
		.verbose = a->verbose > 0,
		.options = (const char *const *)a->call_argv,
	};
	struct ipt_record_result *res = ipt_xcalloc(1, sizeof(*res));
	struct ipt_diag diag;
	int err, status;

	ipt_report_diag(&diag, a->cmd);
	err = ipt_session_run(res, &o, &diag);
	if (err) {
		status = failed(a, res, err, &diag);
	} else {
		status = outcome(a, res);
		summary(a, res);
	}
	free(res);
	return status;
}
