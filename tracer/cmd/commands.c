/* SPDX-License-Identifier: MIT */
/* The table of commands and their help. */
#include "cmd.h"

#include <stdlib.h>

const struct ipt_cmd ipt_cmds[] = {
#define IPT_CMD(name, experimental, about, args)                                                   \
	{#name, experimental, about, args, ipt_cmd_##name, ipt_cmd_##name##_tables},
#include "commands.def"
#undef IPT_CMD
	{0},
};

const struct ipt_cmd *ipt_cmd_find(const char *name)
{
	for (const struct ipt_cmd *c = ipt_cmds; c->name; c++) {
		if (!strcmp(c->name, name))
			return c;
	}
	return NULL;
}

void ipt_cmd_help(const char *name)
{
	struct ipt_opt_table t[IPT_MAX_TABLES] = {{0}};
	const struct ipt_cmd *c = ipt_cmd_find(name);
	struct ipt_buf b = {0};

	ipt_assert(c, "help of an unknown command");
	c->tables(t);
	ipt_buf_printf(&b, "usage: iptrace %s %s\n%s%s\n\n", c->name, c->args, c->about,
		       c->experimental ? " (experimental)" : "");
	ipt_opt_help(&b, t);
	ipt_buf_printf(&b, "\nThe whole story: man iptrace-%s\n", c->name);
	fwrite(b.data, 1, b.len, stdout);
	ipt_buf_fini(&b);
}

void ipt_cmd_usage(FILE *f)
{
	fputs("usage: iptrace [RECORD OPTIONS] [--] PROGRAM [ARGS]\n"
	      "       iptrace [RECORD OPTIONS] -p PID[,PID...]\n"
	      "       iptrace COMMAND [OPTIONS] [ARGS]\n"
	      "       iptrace help [COMMAND] | --help | --version\n"
	      "\nRecords every instruction of every thread of a program and tells it back.\n"
	      "A program named like a command is run with \"iptrace -- NAME\".\n\ncommands:\n",
	      f);
	for (const struct ipt_cmd *c = ipt_cmds; c->name; c++)
		fprintf(f, "  %-10s %s%s\n", c->name, c->about,
			c->experimental ? " (experimental)" : "");
	fputs("\nOptions of recording: iptrace help record\n", f);
}
