/* SPDX-License-Identifier: MIT */
/* The table of views and running one by its name. */
#include "view/view.h"

#include <errno.h>

#include "view_priv.h"

static const struct ipt_view views[] = {
#define IPT_VIEW(view_name, view_ops, view_run, text)                                              \
	{.name = #view_name, .about = text, .ops = view_ops, .run = view_run},
#include "views.def"
#undef IPT_VIEW
};

const struct ipt_view *ipt_view_find(const char *name)
{
	for (size_t i = 0; i < IPT_ARRAY_SIZE(views); i++)
		if (!strcmp(views[i].name, name))
			return &views[i];
	return NULL;
}

/* -ENOENT when the options name a thread or process that the trace does not have. */
static int check_threads(const struct ipt_store *st, const struct ipt_view_opts *opts,
			 struct ipt_diag *diag)
{
	if (!opts->tid && !opts->pid)
		return 0;
	for (size_t i = 0; i < ipt_store_n_threads(st); i++)
		if (ipt_walk_wants(opts, ipt_store_thread(st, i)))
			return 0;
	if (opts->tid)
		return ipt_diag_err(diag, ENOENT, 0, "no thread %u in the trace", opts->tid);
	return ipt_diag_err(diag, ENOENT, 0, "no process %u in the trace", opts->pid);
}

int ipt_view_run(const char *name, struct ipt_store *st, const struct ipt_view_opts *opts,
		 struct ipt_out *out, uint64_t *n_gaps, struct ipt_diag *diag)
{
	const struct ipt_view *v = ipt_view_find(name);
	int err;

	if (n_gaps)
		*n_gaps = 0;
	if (!v)
		return ipt_diag_err(diag, ENOENT, 0, "no view named '%.64s'", name);
	err = check_threads(st, opts, diag);
	if (err)
		return err;
	if (v->ops)
		err = ipt_walk_run(v->ops, st, opts, out, n_gaps, diag);
	else
		err = v->run(st, opts, out, diag);
	return err ? err : out->err;
}
