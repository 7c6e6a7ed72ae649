/* SPDX-License-Identifier: MIT */
/* Run a view into memory. */
#ifndef VIEW_RUN_H
#define VIEW_RUN_H

#include <check.h>
#include <stdlib.h>
#include <unistd.h>

#include "view/view.h"

/* The view's text, NUL-terminated; the caller frees it. */
static inline char *run_view(struct ipt_store *st, const char *name,
			     const struct ipt_view_opts *opts, uint64_t *gaps)
{
	struct ipt_diag diag = {0};
	FILE *f = tmpfile();
	struct ipt_out out;
	off_t len;
	char *text;
	int err;

	ipt_out_init(&out, fileno(f));
	err = ipt_view_run(name, st, opts, &out, gaps, &diag);
	ck_assert_msg(!err, "%s: %d: %s", name, err, diag.text);
	ck_assert_int_eq(ipt_out_fini(&out), 0);
	len = lseek(fileno(f), 0, SEEK_END);
	text = ipt_xcalloc((size_t)len + 1, 1);
	ck_assert_int_eq(pread(fileno(f), text, (size_t)len, 0), len);
	fclose(f);
	return text;
}

#endif
