/* SPDX-License-Identifier: MIT */
/* Finds the command; nothing else. */
#include "cmd.h"

#include <errno.h>
#include <stdlib.h>

static int help(int argc, char **argv)
{
	struct ipt_diag diag = {0};

	if (argc < 2) {
		ipt_cmd_usage(stdout);
		return IPT_EXIT_OK;
	}
	if (argc > 2 || !ipt_cmd_find(argv[1])) {
		ipt_diag_err(&diag, IPT_E_USAGE, 0, "no such command '%.100s'", argv[argc - 1]);
		return ipt_report_err("help", -IPT_E_USAGE, &diag, NULL);
	}
	ipt_cmd_help(argv[1]);
	return IPT_EXIT_OK;
}

/* A full disk behind stdout must not pass for success. */
static int flush(int status)
{
	if (fflush(stdout) == 0 && !ferror(stdout))
		return status;
	return ipt_report_err("output", -EIO, NULL, "stdout");
}

int main(int argc, char **argv)
{
	const struct ipt_cmd *c;

	if (argc < 2) {
		ipt_cmd_usage(stderr);
		return IPT_EXIT_USAGE;
	}
	if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h")) {
		ipt_cmd_usage(stdout);
		return flush(IPT_EXIT_OK);
	}
	if (!strcmp(argv[1], "--version")) {
		puts("iptrace " IPT_VERSION);
		return flush(IPT_EXIT_OK);
	}
	if (!strcmp(argv[1], "help"))
		return flush(help(argc - 1, argv + 1));
	c = ipt_cmd_find(argv[1]);
	if (c)
		return flush(c->run(argc - 1, argv + 1));
	return flush(ipt_record_main("record", argc, argv));
}
