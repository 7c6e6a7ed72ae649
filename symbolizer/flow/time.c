/* SPDX-License-Identifier: MIT */
/* The clock of a thread: TSC to nanoseconds, never back. */
#include "flow/priv.h"

static uint64_t to_ns(const struct ipt_clock *c, uint64_t ticks)
{
	unsigned __int128 t = ticks;

	if (c->mult && c->shift < 64)
		t = t * c->mult >> c->shift;
	else if (c->tsc_hz)
		t = t * 1000000000u / c->tsc_hz;
	return t > UINT64_MAX ? UINT64_MAX : (uint64_t)t;
}

/* Between MTC packets libipt knows no better than the last one; with TSC packets alone nobody
 * knows how far the next one is. SDM "Mini Time Counter (MTC) Packet". */
static uint64_t bound_of(const struct ipt_clock *c, const struct scan *s)
{
	if (s->has_cyc)
		return 0;
	if (!s->has_mtc || !c->cpuid_15h_eax || c->mtc_freq > 15)
		return UINT64_MAX;
	return to_ns(c, ((uint64_t)c->cpuid_15h_ebx << c->mtc_freq) / c->cpuid_15h_eax);
}

void ipt_flow_clock_init(struct clock *c, const struct ipt_clock *cfg, const struct scan *s)
{
	memset(c, 0, sizeof(*c));
	c->cfg = *cfg;
	c->base = cfg->start_tsc;
	c->bound = bound_of(cfg, s);
}

bool ipt_flow_clock_tick(struct clock *c, uint64_t tsc, struct ipt_ev *ev)
{
	if (c->started && tsc <= c->last)
		return false;
	if (!c->started && !c->base)
		c->base = tsc;
	c->started = true;
	c->last = tsc;
	memset(ev, 0, sizeof(*ev));
	ev->kind = IPT_EV_TIME;
	ev->time.tsc = tsc;
	ev->time.ns = tsc > c->base ? to_ns(&c->cfg, tsc - c->base) : 0;
	ev->time.bound = c->bound;
	return true;
}
