/* SPDX-License-Identifier: MIT */
/* The table of decoders, and what they have in common: the frame around a thread's events. */
#include <stdlib.h>

#include "flow/priv.h"

static const struct decoder decoders[] = {
	{"ref", ipt_ref_block},
	{"insn", ipt_ref_insn},
};

const struct decoder *ipt_flow_decoder(const char *name)
{
	if (!name)
		return &decoders[0];
	for (size_t i = 0; i < IPT_ARRAY_SIZE(decoders); i++) {
		if (!strcmp(decoders[i].name, name))
			return &decoders[i];
	}
	return NULL;
}

static void edge(struct out *o, uint8_t how, uint64_t off, const struct ipt_rec *rec)
{
	struct pev pe = {.ev = {.kind = IPT_EV_THREAD, .how = how, .off = off, .rec = rec}};

	pe.epoch = ipt_code_current(o->code);
	/* Marks have their own place: none may come before the begin. */
	pe.at = 0;
	if (!how) {
		size_t n = o->marks.v.n;

		o->marks.v.n = 0;
		ipt_flow_out(o, &pe);
		o->marks.v.n = n;
	} else {
		ipt_flow_out(o, &pe);
	}
}

static void gap(struct job *j, enum ipt_gap_cause cause, uint64_t off, uint64_t resume,
		uint64_t lost, const char *text)
{
	struct ipt_ev ev = {.kind = IPT_EV_GAP, .how = (uint8_t)cause};

	ev.gap.text = text;
	ev.gap.resume_off = resume;
	ev.gap.lost_bytes = lost;
	j->src.at = off;
	ipt_flow_event(&j->src, &ev, 0);
	ipt_flow_release(&j->src);
}

static void tail(struct job *j)
{
	const struct scan *s = &j->scan;

	ipt_flow_begin(&j->src);
	if (s->trunc != UINT64_MAX)
		gap(j, IPT_GAP_TRUNCATED, s->trunc, UINT64_MAX, s->n - s->trunc,
		    "the stream ends inside a packet");
}

static int run_job(struct job *j, const struct decoder *d, struct out *o)
{
	const struct scan *s = &j->scan;
	int rc = 0;

	edge(o, 0, 0, o->marks.start);
	if (s->head_data)
		gap(j, IPT_GAP_NO_PSB, 0, s->first_psb, ipt_min_u64(s->first_psb, s->n),
		    "data without a PSB to start at");
	if (s->first_psb != UINT64_MAX)
		rc = d->run(j);
	if (!o->rc && !rc)
		tail(j);
	/* The last changes of the code come after the last packet: the current epoch stays. */
	ipt_flow_out_marks(o, UINT64_MAX);
	edge(o, 1, s->n, o->marks.exit);
	ipt_flow_out_flush(o);
	return o->rc ? o->rc : rc;
}

int ipt_flow_decode_bytes(struct job *j, const uint8_t *p, size_t n, const struct ipt_flow_cfg *cfg,
			  ipt_ev_fn fn, void *arg, struct ipt_flow_stats *stats)
{
	const struct decoder *d = ipt_flow_decoder(cfg ? cfg->decoder : NULL);
	struct out *o;
	int rc;

	if (!d)
		return ipt_diag_err(j->diag, IPT_E_UNSUPPORTED, 0, "no decoder is called %s",
				    cfg->decoder);
	o = ipt_xcalloc(1, sizeof(*o));
	o->fn = fn;
	o->arg = arg;
	o->code = j->code;
	ipt_code_seek(j->code, 0);
	ipt_flow_scan(&j->scan, p, n, j->code);
	ipt_flow_marks_init(&o->marks, j->st, j->t, &j->scan);
	ipt_flow_clock_init(&j->src.clock, &ipt_store_info(j->st)->clock, &j->scan);
	j->src.out = o;
	j->src.no_time = cfg && cfg->no_time;
	rc = run_job(j, d, o);
	o->stats.psbs = j->scan.n_psb;
	if (stats)
		*stats = o->stats;
	ipt_flow_source_fini(&j->src);
	ipt_flow_marks_fini(&o->marks);
	ipt_flow_scan_fini(&j->scan);
	free(o);
	return rc;
}

int ipt_flow_decode(struct ipt_store *st, struct ipt_code *code, const struct ipt_thread_info *t,
		    const struct ipt_flow_cfg *cfg, ipt_ev_fn fn, void *arg,
		    struct ipt_flow_stats *stats, struct ipt_diag *diag)
{
	struct job j = {.st = st, .code = code, .t = t, .diag = diag};
	const uint8_t *p;
	size_t n;
	int rc = ipt_store_pt(st, t, &p, &n, diag);

	return rc < 0 ? rc : ipt_flow_decode_bytes(&j, p, n, cfg, fn, arg, stats);
}
