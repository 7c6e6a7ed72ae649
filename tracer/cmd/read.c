/* SPDX-License-Identifier: MIT */
/* The reading commands: options, then one call into view. */
#include "cmd.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#define OFF(m) offsetof(struct ipt_read_opts, m)

const struct ipt_opt ipt_opts_json[] = {
	{0, "json", NULL, IPT_OPT_FLAG, OFF(view.json), "JSON for programs instead of text", NULL,
	 0, 0},
	{0},
};

const struct ipt_opt ipt_opts_decoder[] = {
	{0, "decoder", "NAME", IPT_OPT_CHOICE, OFF(view.decoder),
	 "ref (blocks) or insn (one instruction at a time, slower)", "ref|insn", 0, 0},
	{0},
};

const struct ipt_opt ipt_opts_select[] = {
	{0, "tid", "TID", IPT_OPT_U32, OFF(view.tid), "only this thread", NULL, 1, 0},
	{0, "pid", "PID", IPT_OPT_U32, OFF(view.pid), "only threads of this process", NULL, 1, 0},
	{0},
};

const struct ipt_opt ipt_opts_range[] = {
	{0, "range", "FROM..TO", IPT_OPT_RANGE, OFF(range),
	 "only instructions FROM (from 0) up to, without, TO of each thread", NULL, 0, 0},
	{0},
};

const struct ipt_opt ipt_opts_symbols[] = {
	{0, "search", "DIR", IPT_OPT_LIST, OFF(search),
	 "look here for programs and debug files; repeatable", NULL, 0, 0},
	{0, "no-demangle", NULL, IPT_OPT_FLAG, OFF(view.sym.no_demangle),
	 "names as in the symbol table", NULL, 0, 0},
	{0},
};

static const struct ipt_opt insn_opts[] = {
	{0, "format", "NAME", IPT_OPT_CHOICE, OFF(view.format), "ip: addresses only", "ip", 0, 0},
	{0, "intel", NULL, IPT_OPT_FLAG, OFF(intel), "Intel syntax", NULL, 0, 0},
	{0, "att", NULL, IPT_OPT_FLAG, OFF(att), "AT&T syntax (the default)", NULL, 0, 0},
	{0, "no-source", NULL, IPT_OPT_FLAG, OFF(view.no_source), "no source lines", NULL, 0, 0},
	{0},
};

static const struct ipt_opt tree_opts[] = {
	{'D', "depth", "DEPTH", IPT_OPT_U32, OFF(depth), "only so many levels", NULL, 1, 0},
	{'F', "func", "FUNC", IPT_OPT_STRING, OFF(view.only_func),
	 "only calls of FUNC and what they call", NULL, 0, 0},
	{0, "min-insns", "N", IPT_OPT_U64, OFF(view.min_insns), "hide calls of fewer instructions",
	 NULL, 0, 0},
	{0},
};

static const struct ipt_opt report_opts[] = {
	{0, "by", "KEY", IPT_OPT_CHOICE, OFF(view.by), "function, module or thread",
	 "function|module|thread", 0, 0},
	{0, "sort", "KEY", IPT_OPT_CHOICE, OFF(view.sort), "self, total, calls or name",
	 "self|total|calls|name", 0, 0},
	{0, "limit", "ROWS", IPT_OPT_U32, OFF(view.limit), "only the first rows", NULL, 1, 0},
	{0},
};

void ipt_cmd_info_tables(struct ipt_opt_table t[IPT_MAX_TABLES])
{
	t[0].rows = ipt_opts_json;
}

void ipt_cmd_packets_tables(struct ipt_opt_table t[IPT_MAX_TABLES])
{
	t[0].rows = ipt_opts_select;
	t[1].rows = ipt_opts_json;
}

static void walking(struct ipt_opt_table t[IPT_MAX_TABLES], const struct ipt_opt *own)
{
	t[0].rows = ipt_opts_select;
	t[1].rows = ipt_opts_range;
	t[2].rows = own;
	t[3].rows = ipt_opts_symbols;
	t[4].rows = ipt_opts_decoder;
	t[5].rows = ipt_opts_json;
}

void ipt_cmd_insn_tables(struct ipt_opt_table t[IPT_MAX_TABLES])
{
	walking(t, insn_opts);
}

void ipt_cmd_tree_tables(struct ipt_opt_table t[IPT_MAX_TABLES])
{
	walking(t, tree_opts);
}

void ipt_cmd_report_tables(struct ipt_opt_table t[IPT_MAX_TABLES])
{
	walking(t, report_opts);
}

static int parse(const char *cmd, int argc, char **argv, struct ipt_read_opts *o, int *status)
{
	struct ipt_opt_table t[IPT_MAX_TABLES] = {{0}};
	struct ipt_diag diag = {0};
	int first;
	bool help;

	ipt_cmd_find(cmd)->tables(t);
	for (size_t i = 0; t[i].rows; i++)
		t[i].dst = o;
	first = ipt_opt_parse(t, argc, argv, &help, &diag);
	if (first >= 0 && !help && o->intel && o->att)
		first = ipt_diag_err(&diag, IPT_E_USAGE, 0, "--intel and --att together");
	if (first < 0) {
		*status = ipt_report_err(cmd, first, &diag, NULL);
		return -1;
	}
	if (help) {
		ipt_cmd_help(cmd);
		*status = IPT_EXIT_OK;
		return -1;
	}
	o->view.from_insn = o->range.from;
	o->view.to_insn = o->range.to;
	o->view.syntax = o->intel ? IPT_SYNTAX_INTEL : IPT_SYNTAX_ATT;
	o->view.sym.search = o->search.v;
	if (o->depth)
		o->view.limit = o->depth;
	return first;
}

int ipt_read_parse(const char *cmd, int argc, char **argv, struct ipt_read_opts *o, int *status)
{
	*o = (struct ipt_read_opts){0};
	return parse(cmd, argc, argv, o, status);
}

int ipt_read_open(const char *cmd, struct ipt_store **st, int argc, char **argv, int first)
{
	struct ipt_diag diag;
	char *newest = NULL;
	const char *dir = argv[first];
	int err;

	ipt_report_diag(&diag, cmd);
	if (argc - first > 1) {
		bool opt = argv[first + 1][0] == '-';

		ipt_diag_err(&diag, IPT_E_USAGE, 0, "%s: '%.100s'",
			     opt ? "options go before the directory"
				 : "one trace directory at a time",
			     argv[first + 1]);
		return ipt_report_err(cmd, -IPT_E_USAGE, &diag, NULL);
	}
	if (!dir) {
		err = ipt_store_newest(&newest, ".");
		if (err) {
			ipt_diag_err(&diag, IPT_E_NOTTRACE, 0, "no trace in the current folder");
			return ipt_report_err(cmd, -IPT_E_NOTTRACE, &diag, NULL);
		}
		dir = newest;
	}
	err = ipt_store_open(st, dir, &diag);
	if (err)
		err = ipt_report_err(cmd, err, &diag, dir);
	else if (ipt_store_salvaged(*st))
		ipt_report_note(cmd, "%s: salvaged: %s", dir, ipt_store_salvaged(*st));
	free(newest);
	return err;
}

static int run_view(const char *cmd, struct ipt_store *st, const struct ipt_view_opts *opts)
{
	struct ipt_diag diag;
	struct ipt_out out;
	uint64_t gaps = 0;
	int err, err2;

	ipt_report_diag(&diag, cmd);
	fflush(stdout);
	ipt_out_init(&out, STDOUT_FILENO);
	err = ipt_view_run(cmd, st, opts, &out, &gaps, &diag);
	err2 = ipt_out_fini(&out);
	if (err == -EPIPE || (!err && err2 == -EPIPE))
		return IPT_EXIT_OK; /* a reader like head(1) has what it wanted */
	/* A walk that could not write ends with the writer's error. */
	if (err2)
		return ipt_report_err(cmd, err2, NULL, "standard output");
	if (err)
		return ipt_report_err(cmd, err, &diag, ipt_store_dir(st));
	if (gaps)
		ipt_report_note(cmd, "%s: %llu gap%s: instructions are missing; see 'iptrace info'",
				ipt_store_dir(st), (unsigned long long)gaps, gaps == 1 ? "" : "s");
	return IPT_EXIT_OK;
}

int ipt_read_view(const char *cmd, int argc, char **argv)
{
	struct ipt_store *st = NULL;
	struct ipt_read_opts o;
	int first, status = 0;

	/* Writes then fail with EPIPE, which ends the walk quietly. */
	signal(SIGPIPE, SIG_IGN);
	first = ipt_read_parse(cmd, argc, argv, &o, &status);
	if (first >= 0)
		status = ipt_read_open(cmd, &st, argc, argv, first);
	if (st)
		status = run_view(cmd, st, &o.view);
	ipt_store_close(st);
	free(o.search.v);
	return status;
}

int ipt_cmd_info(int argc, char **argv)
{
	return ipt_read_view("info", argc, argv);
}

int ipt_cmd_insn(int argc, char **argv)
{
	return ipt_read_view("insn", argc, argv);
}

int ipt_cmd_tree(int argc, char **argv)
{
	return ipt_read_view("tree", argc, argv);
}

int ipt_cmd_report(int argc, char **argv)
{
	return ipt_read_view("report", argc, argv);
}

int ipt_cmd_packets(int argc, char **argv)
{
	return ipt_read_view("packets", argc, argv);
}
