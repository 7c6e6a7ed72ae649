/* SPDX-License-Identifier: MIT */
/* Makes a trace directory from another tool's trace. */
#include "cmd.h"

struct import_opts {
	const char *dir;
	bool force;
	bool zstd;
};

#define OFF(m) offsetof(struct import_opts, m)

static const struct ipt_opt rows[] = {
	{'o', "output", "DIR", IPT_OPT_STRING, OFF(dir), "trace directory to make", NULL, 0, 0},
	{0, "force", NULL, IPT_OPT_FLAG, OFF(force), "replace an existing trace directory", NULL, 0,
	 0},
	{0, "zstd", NULL, IPT_OPT_FLAG, OFF(zstd), "compress the PT files", NULL, 0, 0},
	{0},
};

void ipt_cmd_import_tables(struct ipt_opt_table t[IPT_MAX_TABLES])
{
	t[0].rows = rows;
}

int ipt_cmd_import(int argc, char **argv)
{
	struct import_opts o = {0};
	struct ipt_opt_table t[] = {{rows, &o}, {0}};
	struct ipt_writer_cfg cfg = {0};
	struct ipt_diag diag;
	bool help;
	int first;

	ipt_report_diag(&diag, "import");
	first = ipt_opt_parse(t, argc, argv, &help, &diag);
	if (first < 0)
		return ipt_report_err("import", first, &diag, NULL);
	if (help) {
		ipt_cmd_help("import");
		return IPT_EXIT_OK;
	}
	if (!o.dir || argc - first != 1) {
		ipt_diag_err(&diag, IPT_E_USAGE, 0, "give -o DIR and one PATH");
		return ipt_report_err("import", -IPT_E_USAGE, &diag, NULL);
	}
	cfg.dir = o.dir;
	cfg.force = o.force;
	cfg.zstd = o.zstd;
	first = ipt_import_lldb(argv[first], &cfg, &diag);
	return first ? ipt_report_err("import", first, &diag, o.dir) : IPT_EXIT_OK;
}
