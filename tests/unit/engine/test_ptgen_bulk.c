/* SPDX-License-Identifier: MIT */
/*
 * What ptgen makes of stretches, many at a time, against what it makes of the same instructions one
 * by one, and against libipt.
 */
#include "test_ptgen_walk.h"

#define LOT   40
#define CALLS 60
#define PIECE 60000 /* bytes; a large piece has more */

struct stretch {
	struct ipt_way way;
	uint64_t calls[CALLS];
	unsigned int depth, deepest;
	bool returned, begun;
};

struct pieces { /* a sink's */
	struct ipt_buf all;
	unsigned int n, n_small;
};

struct replay {
	struct ipt_ptgen_cfg cfg;
	struct ipt_ptgen *g;
	struct pieces got;
	uint64_t seed, tsc;
	bool singly; /* a call for each part of a way */
	bool own_psb;
	struct stretch s[LOT];
	struct ipt_went went[LOT];
	unsigned int n;
};

/* Only whole packets. */
static void take(void *arg, const uint8_t *p, size_t n)
{
	struct pieces *to = arg;
	struct ipt_pkt_ctx ctx = {0};
	struct ipt_pkt k;

	for (size_t off = 0; off < n; off += k.len)
		ck_assert_int_eq(ipt_pkt_decode(&k, p + off, n - off, &ctx), 0);
	to->n++;
	to->n_small += n < PIECE;
	ipt_buf_append(&to->all, p, n);
}

static void replay_init(struct replay *r, const struct ipt_ptgen_cfg *cfg, uint64_t seed)
{
	memset(r, 0, sizeof(*r));
	r->cfg = *cfg;
	r->seed = seed;
	r->g = ipt_ptgen_new(cfg, take, &r->got);
}

static void replay_fini(struct replay *r)
{
	ipt_ptgen_free(r->g);
	ipt_buf_fini(&r->got.all);
}

static void go_singly(struct replay *r, const struct ipt_way *way, uint64_t target)
{
	struct ipt_way rest = *way;
	struct ipt_went went = {&rest, target};

	if (way->psb_ip)
		ipt_ptgen_psb(r->g, way->psb_ip, r->tsc);
	ipt_ptgen_bits(r->g, way->bits, way->n_bits);
	if (way->inner || way->end == IPT_WAY_JMP || way->end == IPT_WAY_CALL) {
		rest.bits = rest.psb_ip = rest.n_bits = 0;
		ipt_ptgen_ways(r->g, &went, 1, r->tsc);
		return;
	}
	for (unsigned int i = 0; i < way->n_calls; i++)
		ipt_ptgen_call(r->g, way->calls[i]);
	if (way->end == IPT_WAY_RET)
		ipt_ptgen_ret(r->g, target);
}

static void submit(struct replay *r)
{
	if (r->singly)
		for (unsigned int i = 0; i < r->n; i++)
			go_singly(r, r->went[i].way, r->went[i].target);
	else
		ipt_ptgen_ways(r->g, r->went, r->n, r->tsc);
	r->s[0] = r->s[r->n];
	r->n = 0;
}

static void end_stretch(struct replay *r, enum ipt_way_end end, uint64_t target)
{
	struct stretch *s = &r->s[r->n];
	struct ipt_way *w = &s->way;

	if (!s->begun)
		return;
	w->end = (uint8_t)end;
	w->inner = s->returned ? (uint8_t)s->deepest : 0;
	w->n_calls = (uint8_t)s->depth;
	w->calls = s->calls;
	w->more = w->inner || w->n_calls || end != IPT_WAY_ON;
	r->went[r->n++] = (struct ipt_went){w, target};
	if (r->n == LOT - 1)
		submit(r);
	memset(&r->s[r->n], 0, sizeof(r->s[0]));
}

static void end_lot(struct replay *r)
{
	end_stretch(r, IPT_WAY_ON, 0);
	submit(r);
	memset(&r->s[0], 0, sizeof(r->s[0]));
}

static void pass_call(struct replay *r, struct stretch *s, const struct event *e)
{
	uint64_t ret = e->ip + e->insn.len;

	if (e->insn.target == ret)
		return;
	s->calls[s->depth++] = ret;
	if (s->depth > s->deepest)
		s->deepest = s->depth;
	if (s->depth == CALLS)
		end_stretch(r, IPT_WAY_ON, 0);
}

static void pass_bit(struct replay *r, struct stretch *s, bool bit)
{
	s->way.bits = s->way.bits << 1 | bit;
	if (++s->way.n_bits == 64)
		end_stretch(r, IPT_WAY_ON, 0);
}

static void pass_ret(struct replay *r, struct stretch *s, const struct event *e)
{
	if (r->cfg.noretcomp || !s->depth || s->calls[s->depth - 1] != e->next) {
		end_stretch(r, IPT_WAY_RET, e->next);
		return;
	}
	s->depth--;
	s->returned = true;
	pass_bit(r, s, true);
}

static bool is_told_in_bulk(const struct event *e)
{
	switch (e->insn.iclass) {
	case IPT_IC_COND:
	case IPT_IC_CALL:
	case IPT_IC_RET:
	case IPT_IC_CALL_IND:
	case IPT_IC_JMP_IND: return e->kind == EVENT_INSN;
	default: return false;
	}
}

static void feed(struct replay *r, const struct event *e)
{
	struct stretch *s;

	if (!is_told_in_bulk(e)) {
		if (e->kind == EVENT_INSN)
			return; /* no packet */
		end_lot(r);
		apply(r->g, e);
		return;
	}
	if (e->psb)
		end_lot(r);
	else if (rnd(&r->seed) >> 60 == 0)
		end_stretch(r, IPT_WAY_ON, 0);
	s = &r->s[r->n];
	s->begun = true;
	r->tsc = e->psb || r->own_psb ? e->tsc : r->tsc;
	/* One by one a PSB never comes before a call. */
	if (!s->way.psb_ip && (r->own_psb || e->insn.iclass != IPT_IC_CALL))
		s->way.psb_ip = e->ip;
	switch (e->insn.iclass) {
	case IPT_IC_COND: pass_bit(r, s, e->next != e->ip + e->insn.len); break;
	case IPT_IC_CALL: pass_call(r, s, e); break;
	case IPT_IC_RET: pass_ret(r, s, e); break;
	case IPT_IC_CALL_IND:
		s->way.ret = e->ip + e->insn.len;
		end_stretch(r, IPT_WAY_CALL, e->next);
		break;
	default: end_stretch(r, IPT_WAY_JMP, e->next); break;
	}
}

static void replay(struct replay *r, const struct walk *w, bool batch)
{
	ipt_ptgen_batch(r->g, batch);
	for (size_t i = 0; i < w->events.n; i++)
		feed(r, &w->events.v[i]);
	end_lot(r);
	ipt_ptgen_flush(r->g);
	ipt_ptgen_batch(r->g, false);
}

static void check_same(const struct ipt_ptgen_cfg *cfg, const struct walk *w, uint64_t seed)
{
	for (int how = 0; how < 4; how++) {
		struct replay r;
		size_t same = 0;

		replay_init(&r, cfg, seed);
		r.singly = how & 1;
		replay(&r, w, how & 2);
		while (same < w->pt.len && same < r.got.all.len &&
		       w->pt.data[same] == r.got.all.data[same])
			same++;
		ck_assert_msg(same == w->pt.len && same == r.got.all.len,
			      "seed %lu, way %d: %zu bytes the same of %zu and %zu", seed, how,
			      same, w->pt.len, r.got.all.len);
		ck_assert_uint_eq(ipt_ptgen_pos(r.g), same);
		replay_fini(&r);
	}
}

static struct ipt_ptgen_cfg make_cfg(int i)
{
	return (struct ipt_ptgen_cfg){
		.long_tnt = i & 1, .noretcomp = i & 2, .psb_bytes = i & 4 ? 128 : 4096};
}

START_TEST(bulk_makes_the_bytes_that_single_instructions_make)
{
	struct ipt_ptgen_cfg cfg = make_cfg(_i);

	for (uint64_t seed = 1; seed <= 4; seed++) {
		struct prog *p = ipt_xcalloc(1, sizeof(*p));
		struct walk w;

		make_walk(&w, p, &cfg, seed * 104729 + (uint64_t)_i, false);
		check_same(&cfg, &w, seed);
		free_walk(&w);
		free(p);
	}
}
END_TEST

/* Addresses that differ from each other in each of the ways that IP packets know. */
static uint64_t any_ip(struct walk *w)
{
	static const uint64_t base[] = {0x401000, 0x412000, 0x7f3344550000, 0x7ffe00000000,
					0xffffffffff600000};

	return base[(rnd(&w->seed) >> 20) % IPT_ARRAY_SIZE(base)] + rnd_bits(&w->seed, 12) * 16;
}

static void deep_call(struct walk *w, bool indirect)
{
	struct ipt_insn in = {.len = 5, .iclass = indirect ? IPT_IC_CALL_IND : IPT_IC_CALL};
	uint64_t next = any_ip(w);

	in.target = indirect ? 0 : next;
	*ipt_vec_push(&w->calls) = w->ip + in.len;
	tell_insn(w, &in, next, IPT_X64);
	w->ip = next;
}

static void deep_ret(struct walk *w)
{
	struct ipt_insn in = {.len = 1, .iclass = IPT_IC_RET};
	uint64_t next = w->calls.n ? w->calls.v[--w->calls.n] : any_ip(w);

	if (chance(w, 50))
		next = any_ip(w);
	tell_insn(w, &in, next, IPT_X64);
	w->ip = next;
}

static void deep_other(struct walk *w)
{
	struct ipt_insn in = {.len = 2, .iclass = IPT_IC_COND};
	uint64_t next = w->ip + (chance(w, 2) ? 2 : 64);

	if (chance(w, 20)) {
		in.iclass = IPT_IC_JMP_IND;
		next = any_ip(w);
	}
	tell_insn(w, &in, next, IPT_X64);
	w->ip = next;
}

/* Far down and up again, over and over, deeper than returns are remembered. */
static void make_deep(struct walk *w, const struct ipt_ptgen_cfg *cfg, uint64_t seed)
{
	memset(w, 0, sizeof(*w));
	w->seed = seed;
	w->gen = ipt_ptgen_new(cfg, sink, &w->pt);
	resume(w, any_ip(w), IPT_X64);
	for (unsigned int round = 0; round < 80; round++) {
		bool down = chance(w, 2);

		for (unsigned int i = 0; i < 40; i++) {
			unsigned int r = (rnd(&w->seed) >> 20) % 10;

			if (r < 3)
				deep_other(w);
			else if ((r < 9) == down)
				deep_call(w, r == 8);
			else
				deep_ret(w);
		}
	}
	tell_async(w);
}

START_TEST(bulk_remembers_as_many_returns_as_single_instructions_do)
{
	struct ipt_ptgen_cfg cfg = make_cfg(_i);

	for (uint64_t seed = 1; seed <= 8; seed++) {
		struct walk w;

		make_deep(&w, &cfg, seed * 15485863 + (uint64_t)_i);
		check_same(&cfg, &w, seed);
		free_walk(&w);
	}
}
END_TEST

/* From each PSB at which @r began stretches libipt must list the rest of the walk. */
static void check_each_start(struct walk *w, const struct replay *r)
{
	const struct ipt_buf *pt = &r->got.all;
	unsigned int n_psb = 0;

	for (size_t pos = 0; !ipt_psb_next(pt->data, pt->len, &pos); pos++, n_psb++) {
		struct ipt_buf got = {0};
		int err = list(w, pt, pos, &got);
		size_t n = got.len / 8;

		ck_assert_msg(!err, "libipt from %zu: %s", pos, pt_errstr(pt_errcode(err)));
		ck_assert_uint_le(n, w->ips.n);
		ck_assert(pos || n == w->ips.n);
		ck_assert(!memcmp(got.data, w->ips.v + (w->ips.n - n), got.len));
		ipt_buf_fini(&got);
	}
	ck_assert_uint_gt(n_psb, 10);
}

START_TEST(libipt_follows_bulk_from_each_psb)
{
	struct ipt_ptgen_cfg cfg = make_cfg(_i), rare = cfg;

	cfg.psb_bytes = 256;
	rare.psb_bytes = 1 << 24;
	for (uint64_t seed = 1; seed <= 2; seed++) {
		struct prog *p = ipt_xcalloc(1, sizeof(*p));
		struct walk w;
		struct replay r;

		make_walk(&w, p, &rare, seed * 7919 + (uint64_t)_i, false);
		replay_init(&r, &cfg, seed);
		r.own_psb = true;
		replay(&r, &w, true);
		check_each_start(&w, &r);
		replay_fini(&r);
		free_walk(&w);
		free(p);
	}
}
END_TEST

/* @n outcomes of pseudo-random value, 12 a call. */
static void make_bits(struct replay *r, unsigned int n)
{
	for (unsigned int i = 0; i < n; i += 12)
		ipt_ptgen_bits(r->g, rnd(&r->seed) >> 52, 12);
}

START_TEST(a_batch_reaches_the_sink_in_large_pieces)
{
	struct ipt_ptgen_cfg cfg = make_cfg(_i);
	struct replay r;
	uint64_t made;

	replay_init(&r, &cfg, 1);
	ipt_ptgen_enable(r.g, 0x401000, IPT_X64, 1);
	ipt_ptgen_batch(r.g, true);
	make_bits(&r, 3000000);
	ck_assert_uint_gt(r.got.n, 4);
	ck_assert_uint_le(r.got.n_small, 1); /* that of the enable */
	made = ipt_ptgen_pos(r.g);
	ck_assert_uint_gt(made, r.got.all.len);
	ipt_ptgen_batch(r.g, false);
	ck_assert_uint_eq(made, r.got.all.len);
	ck_assert_uint_eq(made, ipt_ptgen_pos(r.g));
	replay_fini(&r);
}
END_TEST

START_TEST(without_a_batch_each_call_hands_over)
{
	struct ipt_ptgen_cfg cfg = make_cfg(_i);
	struct replay r;

	replay_init(&r, &cfg, 1);
	ipt_ptgen_enable(r.g, 0x401000, IPT_X64, 1);
	for (unsigned int i = 0; i < 20; i++) {
		ipt_ptgen_bits(r.g, 5, 3);
		ipt_ptgen_ret(r.g, 0x402000 + i);
		ck_assert_uint_eq(r.got.all.len, ipt_ptgen_pos(r.g));
		ck_assert_uint_eq(r.got.n, 2 + i);
	}
	replay_fini(&r);
}
END_TEST

/* Each count of bits on each count of pending ones. */
START_TEST(outcomes_are_the_same_however_many_come_at_once)
{
	struct ipt_ptgen_cfg cfg = make_cfg(_i);

	for (unsigned int n = 0; n <= 64; n++) {
		struct replay one, many;

		replay_init(&one, &cfg, 1);
		replay_init(&many, &cfg, 1);
		for (unsigned int i = 0; i < 100; i++) {
			uint64_t bits = n ? rnd(&one.seed) >> (64 - n) : 0;

			ipt_ptgen_bits(many.g, bits, n);
			for (unsigned int k = n; k-- > 0;)
				ipt_ptgen_bits(one.g, bits >> k & 1, 1);
		}
		ipt_ptgen_flush(one.g);
		ipt_ptgen_flush(many.g);
		ck_assert_uint_eq(one.got.all.len, many.got.all.len);
		ck_assert(!one.got.all.len ||
			  !memcmp(one.got.all.data, many.got.all.data, one.got.all.len));
		replay_fini(&one);
		replay_fini(&many);
	}
}
END_TEST

START_TEST(after_a_seam_nothing_is_known)
{
	struct ipt_ptgen_cfg cfg = {.psb_bytes = 1 << 20};
	struct replay r;
	struct ipt_pkt_ctx ctx = {0};
	struct ipt_pkt k;
	uint64_t pos;

	replay_init(&r, &cfg, 1);
	ipt_ptgen_enable(r.g, 0x401000, IPT_X64, 1);
	ipt_ptgen_call(r.g, 0x402000);
	ipt_ptgen_seam(r.g, true, 1000);
	pos = ipt_ptgen_pos(r.g);
	ck_assert_uint_eq(pos, r.got.all.len + 1000);
	ipt_ptgen_psb(r.g, 0x403000, 2);
	ck_assert_int_eq(
		ipt_pkt_decode(&k, r.got.all.data + pos - 1000, r.got.all.len + 1000 - pos, &ctx),
		0);
	ck_assert_int_eq(k.kind, IPT_PKT_PSB);
	pos = r.got.all.len;
	ipt_ptgen_ret(r.g, 0x402000);
	ck_assert_int_eq(ipt_pkt_decode(&k, r.got.all.data + pos, r.got.all.len - pos, &ctx), 0);
	ck_assert_int_eq(k.kind, IPT_PKT_TIP);
	replay_fini(&r);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("ptgen_bulk");
	TCase *tc = tcase_create("all");
	SRunner *r;
	int failed;

	tcase_set_timeout(tc, 60);
	tcase_add_loop_test(tc, bulk_makes_the_bytes_that_single_instructions_make, 0, 8);
	tcase_add_loop_test(tc, bulk_remembers_as_many_returns_as_single_instructions_do, 0, 8);
	tcase_add_loop_test(tc, libipt_follows_bulk_from_each_psb, 0, 4);
	tcase_add_loop_test(tc, a_batch_reaches_the_sink_in_large_pieces, 0, 2);
	tcase_add_loop_test(tc, without_a_batch_each_call_hands_over, 0, 2);
	tcase_add_loop_test(tc, outcomes_are_the_same_however_many_come_at_once, 0, 2);
	tcase_add_test(tc, after_a_seam_nothing_is_known);
	suite_add_tcase(s, tc);
	r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
