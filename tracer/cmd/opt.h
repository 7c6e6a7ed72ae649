/* SPDX-License-Identifier: MIT */
/*
 * Option tables. Parsing, --help and the check of the man pages come from the same rows. Parsing
 * stops at the first argument that is no option, and does nothing but fill the caller's struct.
 */
#ifndef IPT_OPT_H
#define IPT_OPT_H

#include "base/base.h"

enum ipt_opt_kind {
	IPT_OPT_FLAG,    /* bool, set to true */
	IPT_OPT_STRING,  /* const char *, lent from argv */
	IPT_OPT_U32,     /* uint32_t in [min, max] */
	IPT_OPT_U64,     /* uint64_t in [min, max] */
	IPT_OPT_SIZE,    /* uint64_t bytes in [min, max], with K, M or G */
	IPT_OPT_LIST,    /* struct ipt_strs: one string more each time */
	IPT_OPT_PIDS,    /* struct ipt_pids: comma or blank lists, repeatable */
	IPT_OPT_RANGE,   /* struct ipt_opt_range: FROM..TO, either may be missing */
	IPT_OPT_CHOICE,  /* const char *, one of `choices` ("a|b|c") */
	IPT_OPT_COUNT,   /* unsigned, one more each time */
	IPT_OPT_UNBUILT, /* refused: known, not built; not shown by --help */
};

struct ipt_strs {
	const char **v; /* NULL-terminated; the array is owned, the strings are lent */
	size_t n, cap;
};

struct ipt_pids {
	pid_t *v;
	size_t n, cap;
};

struct ipt_opt_range {
	uint64_t from, to; /* half open; to 0: no end */
};

struct ipt_opt {
	char letter;      /* 0: none */
	const char *name; /* long, without dashes; NULL: none */
	const char *arg;  /* name of the argument; NULL for FLAG and COUNT */
	enum ipt_opt_kind kind;
	size_t off; /* of the member in the struct that is filled */
	const char *help;
	const char *choices; /* CHOICE */
	uint64_t min, max;   /* U32, U64, SIZE; max 0: the type's own */
};

/* A table and the struct its rows fill. Lists of tables end with rows NULL. */
struct ipt_opt_table {
	const struct ipt_opt *rows; /* ended by a row without letter and name */
	void *dst;                  /* lent */
};

void ipt_strs_add(struct ipt_strs *l, const char *s);

/*
 * Parse argv[1..]. Returns the index of the first argument that is not an option (after "--" when
 * there is one), or -IPT_E_USAGE with the reason in @diag. *help is set by -h and --help, which end
 * the parsing.
 */
int ipt_opt_parse(const struct ipt_opt_table *tables, int argc, char **argv, bool *help,
		  struct ipt_diag *diag);

/* Append the rows as --help shows them. */
void ipt_opt_help(struct ipt_buf *out, const struct ipt_opt_table *tables);

/* Numbers as options take them: decimal or 0x. 0 or -EINVAL (also beyond 64 bits). */
int ipt_opt_number(uint64_t *v, const char *s);
/* A number with K, M or G (1024 each). */
int ipt_opt_size(uint64_t *v, const char *s);
/* FROM..TO, FROM.., ..TO. */
int ipt_opt_range(struct ipt_opt_range *r, const char *s);
/* Appends; 0 or -EINVAL for an empty list, a bad number, or 0. */
int ipt_opt_pids(struct ipt_pids *l, const char *s);

#endif
