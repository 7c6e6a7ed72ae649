/* SPDX-License-Identifier: MIT */
/*
 * ptgen in bulk: the same packets as one branch after the other makes them. Outcomes collect in a
 * register and become packets many at a time; how many there are is as good as random, so that
 * little here depends on it by a branch.
 */
#include "engine/ptgen_priv.h"

#define PREFETCH 1024

#define INLINE static inline __attribute__((always_inline))

/* What is known when the code is compiled: each way is compiled for itself. */
struct form {
	bool bmi2, long_tnt;
};

struct cursor {
	uint8_t *p;
	uint64_t acc;   /* outcomes that are in no packet yet, the oldest highest */
	unsigned int n; /* of them, 63 at most */
};

INLINE struct cursor begin(struct ipt_ptgen *g)
{
	return (struct cursor){g->out + g->n_out, g->tnt, g->n_tnt};
}

/* Six outcomes a byte, one bit from its low end, the newest in the lowest byte. */
INLINE uint64_t spread(uint64_t v, bool bmi2)
{
	uint64_t out;

	if (bmi2) {
		__asm__("pdep %2, %1, %0" : "=r"(out) : "r"(v), "r"(0x7e7e7e7e7e7e7e7eull));
		return out;
	}
	v = (v & 0xffffff) | (v & 0xffffff000000) << 8;
	v = (v & 0x00000fff00000fff) | (v & 0x00fff00000fff000) << 4;
	return ((v & 0x003f003f003f003f) | (v & 0x0fc00fc00fc00fc0) << 2) << 1;
}

/* The oldest @full times six outcomes, 8 times at most, as short packets: eight bytes are written
 * always, as many kept as there are. SDM "Taken/Not-taken (TNT) Packet": a stop bit above the
 * oldest outcome. */
INLINE void shorts(struct cursor *c, unsigned int full, bool bmi2)
{
	unsigned int rest = c->n - 6 * full;
	uint64_t bytes = __builtin_bswap64(spread(c->acc >> rest, bmi2) | 0x8080808080808080ull);

	/* Shifted in two steps: by 64 when there are none. */
	bytes = bytes >> (32 - 4 * full) >> (32 - 4 * full);
	memcpy(c->p, &bytes, sizeof(bytes));
	c->p += full;
	c->acc &= (1ull << rest) - 1;
	c->n = rest;
}

INLINE void long_one(struct cursor *c, unsigned int n)
{
	unsigned int rest = c->n - n;
	uint64_t bytes = (1ull << n | c->acc >> rest) << 16 | 0xa302;

	memcpy(c->p, &bytes, sizeof(bytes));
	c->p += sizeof(bytes);
	c->acc &= (1ull << rest) - 1;
	c->n = rest;
}

/* All full packets. */
INLINE void pack(struct cursor *c, struct form f)
{
	if (f.long_tnt) {
		if (c->n >= LONG_TNT)
			long_one(c, LONG_TNT);
		return;
	}
	if (__builtin_expect(c->n >= 54, 0))
		shorts(c, 4, f.bmi2);
	shorts(c, c->n / 6, f.bmi2);
}

/* All packets. */
INLINE void drain(struct cursor *c, struct form f)
{
	pack(c, f);
	if (f.long_tnt && c->n > 6) {
		long_one(c, c->n);
		return;
	}
	*c->p = (uint8_t)((1u << c->n | c->acc) << 1);
	c->p += c->n != 0;
	c->acc = 0;
	c->n = 0;
}

/* Full packets go out as soon as they are full, for who looks at the bytes made. */
INLINE void end(struct ipt_ptgen *g, struct cursor *c, struct form f)
{
	pack(c, f);
	g->n_out = (unsigned int)(c->p - g->out);
	g->tnt = c->acc;
	g->n_tnt = c->n;
}

/* @k at most 40. */
INLINE void some(struct cursor *c, uint64_t bits, unsigned int k, struct form f)
{
	if (__builtin_expect(c->n + k > 63, 0))
		pack(c, f);
	/* A long packet keeps up to 46 back. */
	if (f.long_tnt && __builtin_expect(c->n + k > 63, 0)) {
		unsigned int fill = LONG_TNT - c->n;

		c->acc = c->acc << fill | bits >> (k - fill);
		c->n = LONG_TNT;
		pack(c, f);
		k -= fill;
		bits &= (1ull << k) - 1;
	}
	c->acc = c->acc << k | bits;
	c->n += k;
}

INLINE void outcomes(struct cursor *c, uint64_t bits, unsigned int k, struct form f)
{
	if (__builtin_expect(k > 40, 0)) {
		some(c, bits >> 32, k - 32, f);
		bits &= 0xffffffff;
		k = 32;
	}
	some(c, bits, k, f);
}

INLINE void tip(struct ipt_ptgen *g, struct cursor *c, uint64_t target, struct form f)
{
	drain(c, f);
	c->p = put_ip_op(g, c->p, OP_TIP, target);
}

INLINE void ret(struct ipt_ptgen *g, struct cursor *c, uint64_t target, struct form f)
{
	if (pop_matches(g, target))
		some(c, 1, 1, f);
	else
		tip(g, c, target, f);
}

/* Calls nested so deep pushed over the oldest entries. */
static inline void push_over(struct ipt_ptgen *g, unsigned int depth)
{
	unsigned int left = depth < RET_DEPTH ? RET_DEPTH - depth : 0;

	if (g->all.n > left)
		g->all.n = left;
	if (g->apart && g->comp.n > left)
		g->comp.n = left;
}

INLINE void end_way(struct ipt_ptgen *g, struct cursor *c, const struct ipt_way *w, uint64_t target,
		    struct form f)
{
	if (w->inner)
		push_over(g, w->inner);
	for (unsigned int i = 0; i < w->n_calls; i++)
		push_call(g, w->calls[i]);
	switch ((enum ipt_way_end)w->end) {
	case IPT_WAY_ON: break;
	case IPT_WAY_RET: ret(g, c, target, f); break;
	case IPT_WAY_CALL:
		if (w->ret)
			push_call(g, w->ret);
		tip(g, c, target, f);
		break;
	case IPT_WAY_JMP: tip(g, c, target, f); break;
	}
}

/* Place in the buffer from which on a PSB is due, or the buffer is to be handed over. */
static const uint8_t *out_until(const struct ipt_ptgen *g)
{
	uint64_t psb = g->psb_at + g->cfg.psb_bytes - PSB_MARGIN;
	uint64_t left = psb > g->pos ? psb - g->pos : 0;

	if (g->psb_due || !g->batch)
		return g->out;
	return g->out + (left < OUT_MAX - OUT_ROOM ? left : OUT_MAX - OUT_ROOM);
}

static void __attribute__((noinline))
look(struct ipt_ptgen *g, const struct ipt_way *way, uint64_t tsc)
{
	hand_over(g);
	if (way->psb_ip && is_psb_due(g))
		ipt_ptgen_put_psb(g, way->psb_ip, tsc);
}

INLINE void one_way(struct ipt_ptgen *g, struct cursor *c, const struct ipt_way *way,
		    uint64_t target, struct form f)
{
	outcomes(c, way->bits, way->n_bits, f);
	if (way->more)
		end_way(g, c, way, target, f);
}

INLINE void ways(struct ipt_ptgen *g, const struct ipt_went *w, size_t n, uint64_t tsc,
		 struct form f)
{
	const uint8_t *until = out_until(g);
	struct cursor c = begin(g);

	for (size_t i = 0; i < n; i++) {
		const struct ipt_way *way = w[i].way;

		if (__builtin_expect(c.p >= until, 0)) {
			end(g, &c, f);
			look(g, way, tsc);
			until = out_until(g);
			c = begin(g);
		}
		one_way(g, &c, way, w[i].target, f);
	}
	end(g, &c, f);
	hand_over(g);
}

/* The next record's exit; NULL: it is none that is told here. */
INLINE const struct ipt_wexit *exit_of(const struct ipt_records *r, const uint32_t id[2])
{
	const struct ipt_wexit *e;

	if (id[0] >= r->n_exits)
		return NULL;
	e = (const void *)((const char *)r->exits[id[0] / IPT_RECORDS_CHUNK] +
			   id[0] % IPT_RECORDS_CHUNK * r->stride);
	if (e->special || e->epoch > r->epoch || (e->indirect && id[1] >= r->n_targets))
		return NULL;
	return e;
}

INLINE const uint8_t *records(struct ipt_ptgen *g, struct ipt_records *r, const uint8_t *p,
			      const uint8_t *stop, uint64_t tsc, struct form f)
{
	const uint8_t *until = out_until(g);
	struct cursor c = begin(g);
	uint64_t insns = 0;
	uint32_t id[2];

	for (; stop - p >= (ptrdiff_t)sizeof(id); p += sizeof(id[0])) {
		const struct ipt_wexit *e;

		memcpy(id, p, sizeof(id));
		/* They were written by another CPU a moment ago. */
		__builtin_prefetch(p + PREFETCH);
		e = exit_of(r, id);
		if (!e)
			break;
		if (__builtin_expect(c.p >= until, 0)) {
			end(g, &c, f);
			look(g, e->n_before ? e->before[0].way : &e->way, tsc);
			until = out_until(g);
			c = begin(g);
		}
		for (unsigned int i = 0; i < e->n_before; i++)
			one_way(g, &c, e->before[i].way, e->before[i].target, f);
		insns += e->n_items;
		if (!e->indirect) {
			one_way(g, &c, &e->way, 0, f);
			continue;
		}
		outcomes(&c, e->way.bits, e->way.n_bits, f);
		end_way(g, &c, &e->way,
			r->targets[id[1] / IPT_RECORDS_CHUNK][id[1] % IPT_RECORDS_CHUNK], f);
		p += sizeof(id[1]);
	}
	end(g, &c, f);
	hand_over(g);
	r->insns += insns;
	return p;
}

__attribute__((target("bmi2"))) static void ways_bmi2(struct ipt_ptgen *g, const struct ipt_went *w,
						      size_t n, uint64_t tsc)
{
	ways(g, w, n, tsc, (struct form){.bmi2 = true});
}

void ipt_ptgen_ways(struct ipt_ptgen *g, const struct ipt_went *w, size_t n, uint64_t tsc)
{
	if (g->cfg.long_tnt)
		ways(g, w, n, tsc, (struct form){.long_tnt = true});
	else if (g->bmi2)
		ways_bmi2(g, w, n, tsc);
	else
		ways(g, w, n, tsc, (struct form){.bmi2 = false});
}

__attribute__((target("bmi2"))) static const uint8_t *
records_bmi2(struct ipt_ptgen *g, struct ipt_records *r, const uint8_t *p, const uint8_t *stop,
	     uint64_t tsc)
{
	return records(g, r, p, stop, tsc, (struct form){.bmi2 = true});
}

const uint8_t *ipt_ptgen_records(struct ipt_ptgen *g, struct ipt_records *r, const uint8_t *p,
				 const uint8_t *stop, uint64_t tsc)
{
	if (g->cfg.long_tnt)
		return records(g, r, p, stop, tsc, (struct form){.long_tnt = true});
	if (g->bmi2)
		return records_bmi2(g, r, p, stop, tsc);
	return records(g, r, p, stop, tsc, (struct form){.bmi2 = false});
}

void ipt_ptgen_bits(struct ipt_ptgen *g, uint64_t bits, unsigned int n)
{
	struct form f = {.long_tnt = g->cfg.long_tnt};
	struct cursor c = begin(g);

	outcomes(&c, bits, n, f);
	end(g, &c, f);
	hand_over(g);
}

void ipt_ptgen_call(struct ipt_ptgen *g, uint64_t ret_to)
{
	push_call(g, ret_to);
}

void ipt_ptgen_ret(struct ipt_ptgen *g, uint64_t next)
{
	struct form f = {.long_tnt = g->cfg.long_tnt};
	struct cursor c = begin(g);

	ret(g, &c, next, f);
	end(g, &c, f);
	hand_over(g);
}

void ipt_ptgen_psb(struct ipt_ptgen *g, uint64_t ip, uint64_t tsc)
{
	if (!g->outside && is_psb_due(g))
		ipt_ptgen_put_psb(g, ip, tsc);
	hand_over(g);
}

void ipt_ptgen_batch(struct ipt_ptgen *g, bool on)
{
	g->batch = on;
	hand_over(g);
}
