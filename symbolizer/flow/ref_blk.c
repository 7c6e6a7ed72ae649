/* SPDX-License-Identifier: MIT */
/* One stretch with libipt's block decoder. */
#include "flow/ref.h"

static uint64_t offset(const struct ref *r)
{
	uint64_t off;

	return pt_blk_get_offset(r->blk, &off) < 0 ? r->sync : off;
}

static int events(struct ref *r, int status)
{
	struct pt_event ev;

	while (status >= 0 && (status & pts_event_pending)) {
		memset(&ev, 0, sizeof(ev));
		status = pt_blk_event(r->blk, &ev, sizeof(ev));
		if (status < 0)
			break;
		ipt_ref_event(r, &ev, offset(r));
		/* For the arbiter to settle, before an ENABLE lets go what is held. */
		if (r->doubt)
			return -pte_bad_query;
	}
	return status;
}

/* Time moves where a packet was taken: at a branch that needs one. */
static void tick(struct ref *r)
{
	uint64_t tsc;
	uint32_t mtc, cyc;

	if (pt_blk_time(r->blk, &tsc, &mtc, &cyc) >= 0)
		ipt_flow_time(&r->job->src, tsc);
}

void ipt_ref_blk_stretch(struct ref *r, uint64_t sync, struct stop *stop)
{
	struct source *s = &r->job->src;
	struct pt_block b;
	int status = pt_blk_sync_set(r->blk, sync);

	ipt_ref_begin(r, sync);
	while (!s->out->rc) {
		status = events(r, status);
		if (status < 0)
			break;
		ipt_ref_move(r, offset(r));
		b.ninsn = 0;
		b.size = 0;
		b.truncated = 0;
		status = pt_blk_next(r->blk, &b, sizeof(b));
		if (b.ninsn && !ipt_ref_piece(r, b.ip, b.end_ip, b.ninsn, b.mode, b.iclass,
					      b.truncated ? b.size : 0)) {
			stop->limit = true;
			break;
		}
		if (status < 0)
			break;
		if (b.ninsn && s->run_open && ipt_ref_timed(s->run.ev.iclass))
			tick(r);
	}
	stop->code = status < 0 ? status : 0;
	stop->off = offset(r);
}
