/* SPDX-License-Identifier: MIT */
/* cmd: options to calls. The only folder that prints words and picks exit statuses. */
#ifndef IPT_CMD_H
#define IPT_CMD_H

#include "base/base.h"
#include "view/view.h"

#include "opt.h"

enum ipt_exit {
	IPT_EXIT_OK = 0,
	IPT_EXIT_DIFFERS = 1, /* check found faults */
	IPT_EXIT_USAGE = 2,
	IPT_EXIT_LOST = 124,     /* the program gave 0, data was lost */
	IPT_EXIT_FAILED = 125,   /* the tool itself */
	IPT_EXIT_NOEXEC = 126,   /* program found, not executable */
	IPT_EXIT_NOTFOUND = 127, /* program not found */
};

#define IPT_MAX_TABLES 8

struct ipt_cmd {
	const char *name;
	bool experimental;
	const char *about;
	const char *args; /* of the synopsis */
	int (*run)(int argc, char **argv);
	/* Fill @t with the command's tables (rows NULL ends them); dst is not for filling. */
	void (*tables)(struct ipt_opt_table t[IPT_MAX_TABLES]);
};

#define IPT_CMD(name, experimental, about, args)                                                   \
	int ipt_cmd_##name(int argc, char **argv);                                                 \
	void ipt_cmd_##name##_tables(struct ipt_opt_table t[IPT_MAX_TABLES]);
#include "commands.def"
#undef IPT_CMD

/* --- commands.c --- */

extern const struct ipt_cmd ipt_cmds[]; /* ended by name NULL */
const struct ipt_cmd *ipt_cmd_find(const char *name);
/* Help of one command to stdout. */
void ipt_cmd_help(const char *name);
/* Help of the whole to @f. */
void ipt_cmd_usage(FILE *f);

/* --- report_err.c: code to text and exit status --- */

/* "iptrace: CMD: OBJECT: FACT; NEXT STEP" on stderr; returns the exit status. @object may be NULL;
 * @diag (may be NULL) gives the fact, else the code's own text. */
int ipt_report_err(const char *cmd, int err, const struct ipt_diag *diag, const char *object);
/* A diagnostic whose warnings go to stderr as "iptrace: CMD: warning: ...". */
void ipt_report_diag(struct ipt_diag *diag, const char *cmd);
/* "iptrace: CMD: TEXT" on stderr, with untrusted bytes escaped. */
void ipt_report_note(const char *cmd, const char *fmt, ...) IPT_PRINTF(2, 3);

/* --- record and attach --- */

struct ipt_record_args {
	const char *cmd;      /* "record" or "attach", for messages */
	const char *dir;      /* -o; NULL: iptrace.PROGRAM.PID */
	bool force;           /* replace an existing trace directory */
	struct ipt_pids pids; /* -p; none: start argv */
	bool follow;          /* -f: children too; threads always */
	const char *engine;   /* "auto" or one that can be used */
	uint64_t buffer;      /* -m bytes a thread; 0: the default */
	bool noretcomp;
	uint64_t psb; /* bytes between PSBs; 0: the default */
	bool long_tnt;
	bool syscalls;
	bool zstd;
	const char *step_log; /* NULL: none */
	const char *user;     /* -u; NULL: unchanged */
	struct ipt_strs env;  /* -E VAR=VAL */
	struct ipt_strs only, exclude;
	bool quiet;
	unsigned verbose;
	bool kill_on_exit;
	char **argv; /* program and arguments; NULL for attach */
	/* How iptrace was called, for the manifest. */
	int call_argc;
	char **call_argv;
};

/* Common entry of both; @cmd for messages. The default form of the program, too. */
int ipt_record_main(const char *cmd, int argc, char **argv);
/* Record as @o says and return the exit status (record_run.c, over tracer/session). */
int ipt_record_run(const struct ipt_record_args *o);

/* --- reading commands (read.c) --- */

struct ipt_read_opts {
	struct ipt_view_opts view;
	struct ipt_strs search;
	struct ipt_opt_range range;
	bool intel, att;
	uint32_t depth; /* tree */
};

extern const struct ipt_opt ipt_opts_json[], ipt_opts_decoder[], ipt_opts_select[],
	ipt_opts_range[], ipt_opts_symbols[];

/*
 * Parse the options of @cmd into @o. Returns the index of the first argument that is none, or a
 * negative number when the caller is to return *status (help shown, or wrong usage).
 */
int ipt_read_parse(const char *cmd, int argc, char **argv, struct ipt_read_opts *o, int *status);
/* Open the store that the arguments name (none: the newest in the current folder). 0, or the exit
 * status. */
int ipt_read_open(const char *cmd, struct ipt_store **st, int argc, char **argv, int first);
/* The whole of a view command: parse, open, run, report gaps. */
int ipt_read_view(const char *cmd, int argc, char **argv);

/* --- caps --- */

struct ipt_engine_cap {
	const char *name;
	bool usable;
	char why[256]; /* why not, with the remedy; or what it is, when usable */
};

struct ipt_caps {
	char vendor[16];
	bool pt_cpu;                      /* CPUID.7.EBX[25] */
	int pt_pmu;                       /* perf's type number; -1 none */
	bool helper;                      /* /dev/iptrace is there */
	int ptrace_scope;                 /* -1 no Yama */
	int paranoid;                     /* perf_event_paranoid; INT_MIN unknown */
	uint64_t caps;                    /* effective capabilities */
	struct ipt_engine_cap engines[4]; /* in order of choice */
	const char *chosen;
};

void ipt_caps_probe(struct ipt_caps *c);
/* Resolve --engine: 0 and *name, or the exit status after a message. Says which and why when
 * @verbose. */
int ipt_caps_engine(const char *cmd, const char *want, bool verbose, const char **name);

#endif
