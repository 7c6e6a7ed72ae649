/* SPDX-License-Identifier: MIT */
/* One stretch with libipt's instruction decoder, the arbiter. */
#include "flow/ref.h"

static uint64_t offset(const struct ref *r)
{
	uint64_t off;

	return pt_insn_get_offset(r->insn, &off) < 0 ? r->sync : off;
}

static int events(struct ref *r, int status)
{
	struct pt_event ev;

	while (status >= 0 && (status & pts_event_pending)) {
		memset(&ev, 0, sizeof(ev));
		status = pt_insn_event(r->insn, &ev, sizeof(ev));
		if (status < 0)
			break;
		ipt_ref_event(r, &ev, offset(r));
	}
	return status;
}

static void tick(struct ref *r)
{
	uint64_t tsc;
	uint32_t mtc, cyc;

	if (pt_insn_time(r->insn, &tsc, &mtc, &cyc) >= 0)
		ipt_flow_time(&r->job->src, tsc);
}

void ipt_ref_insn_stretch(struct ref *r, uint64_t sync, struct stop *stop)
{
	struct source *s = &r->job->src;
	struct pt_insn insn;
	int status = pt_insn_sync_set(r->insn, sync);

	ipt_ref_begin(r, sync);
	while (!s->out->rc) {
		stop->ip = 0;
		status = events(r, status);
		if (status < 0)
			break;
		ipt_ref_move(r, offset(r));
		memset(&insn, 0, sizeof(insn));
		status = pt_insn_next(r->insn, &insn, sizeof(insn));
		stop->ip = insn.ip;
		/* An instruction may have been decoded before what came after it failed. */
		if (insn.iclass != ptic_error &&
		    !ipt_ref_piece(r, insn.ip, insn.ip, 1, insn.mode, insn.iclass, insn.size)) {
			stop->limit = true;
			break;
		}
		if (status < 0)
			break;
		if (s->run_open && ipt_ref_timed(s->run.ev.iclass))
			tick(r);
	}
	stop->code = status < 0 ? status : 0;
	stop->off = offset(r);
}
