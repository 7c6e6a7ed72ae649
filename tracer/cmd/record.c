/* SPDX-License-Identifier: MIT */
/* Options of record and attach, checked before anything is done; recording itself is
 * record_run.c over tracer/session. */
#include "cmd.h"

#include <errno.h>
#include <stdlib.h>

#define OFF(m) offsetof(struct ipt_record_args, m)

static const struct ipt_opt common[] = {
	{'o', "output", "DIR", IPT_OPT_STRING, OFF(dir),
	 "trace directory to make (default iptrace.PROGRAM.PID)", NULL, 0, 0},
	{0, "force", NULL, IPT_OPT_FLAG, OFF(force), "replace an existing trace directory", NULL, 0,
	 0},
	{'p', "pid", "PID", IPT_OPT_PIDS, OFF(pids),
	 "attach to running processes: PID[,PID...], repeatable", NULL, 0, 0},
	{'f', "follow", NULL, IPT_OPT_FLAG, OFF(follow),
	 "follow child processes too (threads always are)", NULL, 0, 0},
	{0, "engine", "NAME", IPT_OPT_CHOICE, OFF(engine), "auto, helper, perf, translate or step",
	 "auto|helper|perf|translate|step", 0, 0},
	{'m', "buffer", "SIZE", IPT_OPT_SIZE, OFF(buffer),
	 "bytes kept in memory for each thread (default 64K)", NULL, 4096, 1ull << 30},
	{0, "only", "NAME", IPT_OPT_LIST, OFF(only),
	 "record only code of NAME: module, function or FUNC@MODULE; repeatable", NULL, 0, 0},
	{0, "exclude", "NAME", IPT_OPT_LIST, OFF(exclude), "do not record code of NAME; repeatable",
	 NULL, 0, 0},
	{0, "noretcomp", NULL, IPT_OPT_FLAG, OFF(noretcomp),
	 "a target packet for every return, no compression", NULL, 0, 0},
	{0, "psb", "BYTES", IPT_OPT_SIZE, OFF(psb),
	 "synchronisation point at least every so many bytes (default 4K)", NULL, 128, 16u << 20},
	{0, "long-tnt", NULL, IPT_OPT_FLAG, OFF(long_tnt),
	 "up to 47 branches a packet instead of 6", NULL, 0, 0},
	{0, "syscalls", NULL, IPT_OPT_FLAG, OFF(syscalls),
	 "record numbers, arguments and results of system calls", NULL, 0, 0},
	{0, "zstd", NULL, IPT_OPT_FLAG, OFF(zstd), "compress the PT files", NULL, 0, 0},
	{0, "step-log", "FILE", IPT_OPT_STRING, OFF(step_log),
	 "debugging aid: write each address as executed", NULL, 0, 0},
	{'q', "quiet", NULL, IPT_OPT_FLAG, OFF(quiet), "no summary, only errors", NULL, 0, 0},
	{'v', "verbose", NULL, IPT_OPT_COUNT, OFF(verbose), "say more; repeatable", NULL, 0, 0},
	{0, "kill-on-exit", NULL, IPT_OPT_FLAG, OFF(kill_on_exit),
	 "kill the traced processes when iptrace is killed", NULL, 0, 0},
	{'S', "snapshot", NULL, IPT_OPT_UNBUILT, 0, NULL, NULL, 0, 0},
	{'a', "all-cpus", NULL, IPT_OPT_UNBUILT, 0, NULL, NULL, 0, 0},
	{0, "config", NULL, IPT_OPT_UNBUILT, 0, NULL, NULL, 0, 0},
	{0},
};

static const struct ipt_opt launch[] = {
	{'u', "user", "USER", IPT_OPT_STRING, OFF(user), "run the program as USER (needs root)",
	 NULL, 0, 0},
	{'E', "env", "VAR=VAL", IPT_OPT_LIST, OFF(env),
	 "set VAR for the program; VAR alone removes it; repeatable", NULL, 0, 0},
	{0},
};

void ipt_cmd_record_tables(struct ipt_opt_table t[IPT_MAX_TABLES])
{
	t[0].rows = common;
	t[1].rows = launch;
}

void ipt_cmd_attach_tables(struct ipt_opt_table t[IPT_MAX_TABLES])
{
	t[0].rows = common;
}

static int usage(const char *cmd, const char *text)
{
	struct ipt_diag diag = {0};

	ipt_diag_err(&diag, IPT_E_USAGE, 0, "%s", text);
	return ipt_report_err(cmd, -IPT_E_USAGE, &diag, NULL);
}

/* What the rows cannot say. 0 or the exit status. */
static int check(const struct ipt_record_args *o)
{
	if (o->pids.n && o->argv)
		return usage(o->cmd, "a program and -p together: give one of them");
	if (!o->pids.n && !o->argv)
		return usage(o->cmd, strcmp(o->cmd, "attach") ? "no program given"
							      : "no process given: use -p PID");
	if (o->pids.n && (o->user || o->env.n))
		return usage(o->cmd, "-u and -E are for a program that is started, not for -p");
	for (size_t i = 0; i < o->env.n; i++) {
		if (o->env.v[i][0] == '=')
			return usage(o->cmd, "-E: a variable without a name");
	}
	if (o->argv && !o->argv[0][0])
		return usage(o->cmd, "the program's name is empty");
	return 0;
}

static int run(struct ipt_record_args *o, int argc, char **argv)
{
	struct ipt_opt_table t[IPT_MAX_TABLES] = {{0}};
	bool attach = !strcmp(o->cmd, "attach"), help;
	struct ipt_diag diag = {0};
	int first, status;

	ipt_cmd_record_tables(t);
	if (attach)
		t[1].rows = NULL;
	t[0].dst = t[1].dst = o;
	first = ipt_opt_parse(t, argc, argv, &help, &diag);
	if (first < 0)
		return ipt_report_err(o->cmd, first, &diag, NULL);
	if (help) {
		ipt_cmd_help(o->cmd);
		return IPT_EXIT_OK;
	}
	if (first < argc)
		o->argv = argv + first;
	if (o->pids.n)
		o->cmd = "attach";
	status = check(o);
	if (!status)
		status = ipt_caps_engine(o->cmd, o->engine, o->verbose > 0, &o->engine);
	return status ? status : ipt_record_run(o);
}

int ipt_record_main(const char *cmd, int argc, char **argv)
{
	struct ipt_record_args o = {
		.cmd = cmd, .engine = "auto", .call_argc = argc, .call_argv = argv};
	int status = run(&o, argc, argv);

	ipt_vec_fini(&o.pids);
	free(o.env.v);
	free(o.only.v);
	free(o.exclude.v);
	return status;
}

int ipt_cmd_record(int argc, char **argv)
{
	return ipt_record_main("record", argc, argv);
}

int ipt_cmd_attach(int argc, char **argv)
{
	return ipt_record_main("attach", argc, argv);
}
