/* SPDX-License-Identifier: MIT */
/* Parses command lines by option tables and prints the tables. What an option means is elsewhere.
 */
#include "opt.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>

void ipt_strs_add(struct ipt_strs *l, const char *s)
{
	if (l->n + 2 > l->cap) {
		l->cap = l->cap ? l->cap * 2 : 8;
		l->v = ipt_xrealloc(l->v, l->cap, sizeof(*l->v));
	}
	l->v[l->n++] = s;
	l->v[l->n] = NULL;
}

static int number_upto(uint64_t *v, const char *s, const char **end)
{
	char *e;

	/* strtoull would take signs and blanks. */
	if (!isdigit((unsigned char)*s))
		return -EINVAL;
	errno = 0;
	*v = strtoull(s, &e, s[0] == '0' && (s[1] == 'x' || s[1] == 'X') ? 16 : 10);
	*end = e;
	return errno ? -EINVAL : 0;
}

int ipt_opt_number(uint64_t *v, const char *s)
{
	const char *end;
	uint64_t n;

	if (number_upto(&n, s, &end) || *end)
		return -EINVAL;
	*v = n;
	return 0;
}

int ipt_opt_size(uint64_t *v, const char *s)
{
	static const char units[] = "KMG";
	unsigned shift = 0;
	const char *end, *u;
	uint64_t n;

	if (number_upto(&n, s, &end))
		return -EINVAL;
	if (*end) {
		u = strchr(units, toupper((unsigned char)*end));
		if (!u || end[1])
			return -EINVAL;
		shift = 10u * (unsigned)(u - units + 1);
	}
	if (n > UINT64_MAX >> shift)
		return -EINVAL;
	*v = n << shift;
	return 0;
}

int ipt_opt_range(struct ipt_opt_range *r, const char *s)
{
	const char *dots = strstr(s, "..");
	struct ipt_opt_range out = {0};
	const char *end;

	if (!dots || (dots == s && !dots[2]))
		return -EINVAL;
	if (dots != s && (number_upto(&out.from, s, &end) || end != dots))
		return -EINVAL;
	if (dots[2] && (ipt_opt_number(&out.to, dots + 2) || out.to <= out.from))
		return -EINVAL;
	*r = out;
	return 0;
}

static bool is_separator(char c)
{
	return c == ',' || c == ' ' || c == '\t' || c == '\n';
}

int ipt_opt_pids(struct ipt_pids *l, const char *s)
{
	size_t found = 0;
	uint64_t n;

	while (*s) {
		if (is_separator(*s)) {
			s++;
			continue;
		}
		if (number_upto(&n, s, &s) || n == 0 || n > INT_MAX || (*s && !is_separator(*s)))
			return -EINVAL;
		*ipt_vec_push(l) = (pid_t)n;
		found++;
	}
	return found ? 0 : -EINVAL;
}

static bool is_choice(const char *choices, const char *s)
{
	size_t len = strlen(s);

	for (const char *c = choices; len && *c;) {
		size_t n = strcspn(c, "|");

		if (n == len && !memcmp(c, s, n))
			return true;
		c += n + (c[n] == '|');
	}
	return false;
}

static int bad_arg(const struct ipt_opt *o, const char *arg, const char *want,
		   struct ipt_diag *diag)
{
	struct ipt_buf text = {0};

	ipt_escape_term(&text, arg);
	ipt_diag_err(diag, IPT_E_USAGE, 0, "%s%s: '%.*s' is not %s", o->name ? "--" : "-",
		     o->name ? o->name : (char[]){o->letter, 0}, (int)ipt_min_u64(text.len, 200),
		     text.len ? (const char *)text.data : "", want);
	ipt_buf_fini(&text);
	return -IPT_E_USAGE;
}

static int store_number(const struct ipt_opt *o, void *at, const char *arg, struct ipt_diag *diag)
{
	uint64_t max = o->max ? o->max : o->kind == IPT_OPT_U32 ? UINT32_MAX : UINT64_MAX;
	char want[128];
	uint64_t v;
	int err;

	err = o->kind == IPT_OPT_SIZE ? ipt_opt_size(&v, arg) : ipt_opt_number(&v, arg);
	if (err || v < o->min || v > max) {
		snprintf(want, sizeof(want), "a %s from %llu to %llu",
			 o->kind == IPT_OPT_SIZE ? "size (bytes, or with K, M, G)" : "number",
			 (unsigned long long)o->min, (unsigned long long)max);
		return bad_arg(o, arg, want, diag);
	}
	if (o->kind == IPT_OPT_U32)
		*(uint32_t *)at = (uint32_t)v;
	else
		*(uint64_t *)at = v;
	return 0;
}

static int store(const struct ipt_opt *o, void *dst, const char *arg, struct ipt_diag *diag)
{
	void *at = (char *)dst + o->off;
	char want[160];

	switch (o->kind) {
	case IPT_OPT_FLAG: *(bool *)at = true; return 0;
	case IPT_OPT_COUNT: ++*(unsigned *)at; return 0;
	case IPT_OPT_STRING:
		if (!*arg)
			return bad_arg(o, arg, "a name", diag);
		*(const char **)at = arg;
		return 0;
	case IPT_OPT_LIST:
		if (!*arg)
			return bad_arg(o, arg, "a value", diag);
		ipt_strs_add(at, arg);
		return 0;
	case IPT_OPT_U32:
	case IPT_OPT_U64:
	case IPT_OPT_SIZE: return store_number(o, at, arg, diag);
	case IPT_OPT_PIDS:
		return ipt_opt_pids(at, arg) ? bad_arg(o, arg, "a list of process ids", diag) : 0;
	case IPT_OPT_RANGE:
		return ipt_opt_range(at, arg) ? bad_arg(o, arg, "a range FROM..TO", diag) : 0;
	case IPT_OPT_CHOICE:
		if (is_choice(o->choices, arg)) {
			*(const char **)at = arg;
			return 0;
		}
		snprintf(want, sizeof(want), "one of %s", o->choices);
		return bad_arg(o, arg, want, diag);
	case IPT_OPT_UNBUILT: break;
	}
	return ipt_diag_err(diag, IPT_E_USAGE, 0, "%s%s is not supported yet", o->name ? "--" : "-",
			    o->name ? o->name : (char[]){o->letter, 0});
}

static bool is_end(const struct ipt_opt *o)
{
	return !o->letter && !o->name;
}

/* The row for a letter, or for a name of @n bytes; *dst is what it fills. */
static const struct ipt_opt *find(const struct ipt_opt_table *t, char letter, const char *name,
				  size_t n, void **dst)
{
	for (; t->rows; t++) {
		for (const struct ipt_opt *o = t->rows; !is_end(o); o++) {
			if (letter ? o->letter == letter
				   : o->name && strlen(o->name) == n && !memcmp(o->name, name, n)) {
				*dst = t->dst;
				return o;
			}
		}
	}
	return NULL;
}

static bool takes_arg(const struct ipt_opt *o)
{
	return o->kind != IPT_OPT_FLAG && o->kind != IPT_OPT_COUNT && o->kind != IPT_OPT_UNBUILT;
}

static int unknown(const char *text, size_t n, struct ipt_diag *diag)
{
	struct ipt_buf b = {0};

	char *s = ipt_xcalloc(n + 1, 1);

	memcpy(s, text, n);
	ipt_escape_term(&b, s);
	ipt_buf_u8(&b, 0);
	ipt_diag_err(diag, IPT_E_USAGE, 0, "unknown option '%.200s'", (const char *)b.data);
	free(s);
	ipt_buf_fini(&b);
	return -IPT_E_USAGE;
}

static int parse_long(const struct ipt_opt_table *t, char **argv, int *i, struct ipt_diag *diag)
{
	const char *name = argv[*i] + 2, *eq = strchr(name, '=');
	size_t n = eq ? (size_t)(eq - name) : strlen(name);
	void *dst = NULL;
	const struct ipt_opt *o = find(t, 0, name, n, &dst);
	const char *arg = eq ? eq + 1 : NULL;

	if (!o)
		return unknown(argv[*i], n + 2, diag);
	if (!takes_arg(o)) {
		if (arg && o->kind != IPT_OPT_UNBUILT)
			return ipt_diag_err(diag, IPT_E_USAGE, 0, "--%s takes no argument",
					    o->name);
	} else if (!arg) {
		arg = argv[++*i];
		if (!arg)
			return ipt_diag_err(diag, IPT_E_USAGE, 0, "--%s needs an argument %s",
					    o->name, o->arg);
	}
	return store(o, dst, arg, diag);
}

/* One argument of letters: flags may be joined, -vq; the first that takes an argument ends it. */
static int parse_letters(const struct ipt_opt_table *t, char **argv, int *i, bool *help,
			 struct ipt_diag *diag)
{
	for (const char *s = argv[*i] + 1; *s; s++) {
		void *dst = NULL;
		const struct ipt_opt *o = find(t, *s, NULL, 0, &dst);
		const char *arg = NULL;
		int err;

		if (!o && *s == 'h') {
			*help = true;
			return 0;
		}
		if (!o) /* the letter, or all of a UTF-8 sequence that stands there */
			return unknown(argv[*i], strlen(argv[*i]), diag);
		if (takes_arg(o)) {
			arg = s[1] ? s + 1 : argv[++*i];
			if (!arg)
				return ipt_diag_err(diag, IPT_E_USAGE, 0,
						    "-%c needs an argument %s", o->letter, o->arg);
		}
		err = store(o, dst, arg, diag);
		if (err || takes_arg(o))
			return err;
	}
	return 0;
}

int ipt_opt_parse(const struct ipt_opt_table *tables, int argc, char **argv, bool *help,
		  struct ipt_diag *diag)
{
	int i, err;

	*help = false;
	for (i = 1; i < argc; i++) {
		if (argv[i][0] != '-' || !argv[i][1])
			return i;
		if (!strcmp(argv[i], "--"))
			return i + 1;
		if (!strcmp(argv[i], "--help")) {
			*help = true;
			return i;
		}
		err = argv[i][1] == '-' ? parse_long(tables, argv, &i, diag)
					: parse_letters(tables, argv, &i, help, diag);
		if (err)
			return err;
		if (*help)
			return i;
	}
	return argc;
}

static void help_row(struct ipt_buf *out, const struct ipt_opt *o)
{
	char left[96];
	int n = 0;

	if (o->letter)
		n += snprintf(left, sizeof(left), "-%c", o->letter);
	if (o->name)
		n += snprintf(left + n, sizeof(left) - (size_t)n, "%s--%s", n ? ", " : "    ",
			      o->name);
	if (o->arg)
		n += snprintf(left + n, sizeof(left) - (size_t)n, "%s%s", o->name ? "=" : " ",
			      o->arg);
	if (n > 26)
		ipt_buf_printf(out, "  %s\n  %26s  %s\n", left, "", o->help);
	else
		ipt_buf_printf(out, "  %-26s  %s\n", left, o->help);
}

void ipt_opt_help(struct ipt_buf *out, const struct ipt_opt_table *tables)
{
	for (; tables->rows; tables++) {
		for (const struct ipt_opt *o = tables->rows; !is_end(o); o++) {
			if (o->kind != IPT_OPT_UNBUILT)
				help_row(out, o);
		}
	}
	ipt_buf_printf(out, "  %-26s  %s\n", "-h, --help", "show this text");
}
