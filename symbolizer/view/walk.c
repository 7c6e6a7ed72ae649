/* SPDX-License-Identifier: MIT */
/* Drives the decoded events of the chosen threads through a view, thread after thread. */
#include <errno.h>

#include "view/view.h"
#include "view_priv.h"

struct walking {
	struct ipt_walk w;
	const struct ipt_view_ops *ops;
	void *state;
	uint64_t n_gaps;
};

bool ipt_walk_wants(const struct ipt_view_opts *opts, const struct ipt_thread_info *t)
{
	return (!opts->tid || opts->tid == t->tid) && (!opts->pid || opts->pid == t->pid);
}

static int deliver(void *arg, const struct ipt_ev *ev, size_t n)
{
	struct walking *wk = arg;

	for (size_t i = 0; i < n; i++) {
		bool gap = ev[i].kind == IPT_EV_GAP;
		int err;

		wk->n_gaps += gap;
		err = gap ? wk->ops->gap(wk->state, &wk->w, &ev[i])
			  : wk->ops->event(wk->state, &wk->w, &ev[i]);
		if (err)
			return err;
	}
	ipt_out_check(wk->w.out);
	return wk->w.out->err;
}

static int walk_thread(struct walking *wk, const struct ipt_thread_info *t)
{
	const struct ipt_flow_cfg cfg = {.decoder = wk->w.opts->decoder};
	struct ipt_walk *w = &wk->w;
	int err;

	w->thread = t;
	w->stats = (struct ipt_flow_stats){0};
	err = ipt_code_new(&w->code, w->images, t, w->diag);
	if (err)
		return err;
	if (wk->ops->thread_begin)
		err = wk->ops->thread_begin(wk->state, w);
	if (!err)
		err = ipt_flow_decode(w->st, w->code, t, &cfg, deliver, wk, &w->stats, w->diag);
	if (err == IPT_WALK_ENOUGH)
		err = 0;
	if (!err && wk->ops->thread_end)
		err = wk->ops->thread_end(wk->state, w);
	ipt_code_free(w->code);
	w->code = NULL;
	return err;
}

static int walk_threads(struct walking *wk)
{
	int err = 0;

	for (size_t i = 0; !err && i < ipt_store_n_threads(wk->w.st); i++) {
		const struct ipt_thread_info *t = ipt_store_thread(wk->w.st, i);

		if (ipt_walk_wants(wk->w.opts, t))
			err = walk_thread(wk, t);
	}
	return err;
}

int ipt_walk_run(const struct ipt_view_ops *ops, struct ipt_store *st,
		 const struct ipt_view_opts *opts, struct ipt_out *out, uint64_t *n_gaps,
		 struct ipt_diag *diag)
{
	struct walking wk = {.w = {.st = st, .opts = opts, .out = out, .diag = diag}, .ops = ops};
	int err, end_err;

	err = ipt_images_new(&wk.w.images, st, diag);
	if (err)
		return err;
	if (ops->names)
		err = ipt_sym_new(&wk.w.sym, st, &opts->sym, diag);
	if (err)
		goto out_images;
	err = ops->begin(&wk.state, &wk.w);
	if (err)
		goto out_sym;
	err = walk_threads(&wk);
	/* end() shows totals: of what was walked, even when a later thread failed. */
	end_err = ops->end(wk.state, &wk.w);
	err = err ? err : end_err;
	if (n_gaps)
		*n_gaps = wk.n_gaps;
out_sym:
	ipt_sym_free(wk.w.sym);
out_images:
	ipt_images_free(wk.w.images);
	return err;
}

struct counting {
	uint64_t insns, gaps;
};

static int count(void *arg, const struct ipt_ev *ev, size_t n)
{
	struct counting *c = arg;

	for (size_t i = 0; i < n; i++) {
		if (ev[i].kind == IPT_EV_RUN)
			c->insns += ev[i].n;
		/* Those of the recorder are in the sideband and counted there. */
		c->gaps += ev[i].kind == IPT_EV_GAP && ev[i].how >= IPT_GAP_OVF;
	}
	return 0;
}

int ipt_walk_count(struct ipt_store *st, struct ipt_images *images, const struct ipt_thread_info *t,
		   const char *decoder, uint64_t *insns, uint64_t *gaps, struct ipt_diag *diag)
{
	const struct ipt_flow_cfg cfg = {.decoder = decoder, .no_time = true};
	struct ipt_flow_stats stats = {0};
	struct counting c = {0};
	struct ipt_code *code;
	int err;

	err = ipt_code_new(&code, images, t, diag);
	if (err)
		return err;
	err = ipt_flow_decode(st, code, t, &cfg, count, &c, &stats, diag);
	ipt_code_free(code);
	*insns = c.insns;
	*gaps = c.gaps;
	return err;
}
