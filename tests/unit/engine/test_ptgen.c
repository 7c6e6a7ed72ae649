/* SPDX-License-Identifier: MIT */
/*
 * ptgen against libipt's instruction decoder: random programs of real x86 bytes are walked at
 * random, the walk goes through ptgen, and libipt must list exactly the instructions walked.
 */
#include <check.h>
#include <intel-pt.h>
#include <stdlib.h>

#include "engine/engine.h"
#include "libipt_pkt.h"

#define N_SLOTS    400
#define SLOT       16 /* bytes; an instruction, then a jump over the rest */
#define MODE_SHIFT 60 /* the mode is listed with the address */
#define N_STEPS    6000

struct prog {
	uint64_t base;
	uint8_t code[N_SLOTS * SLOT];
};

struct walk {
	struct prog *prog;
	struct ipt_ptgen *gen;
	struct ipt_buf pt;
	uint64_t seed;
	bool mixed; /* 32-bit and 64-bit code */
	enum ipt_xmode mode;
	uint64_t ip;
	uint64_t tsc;
	IPT_VEC(uint64_t) ips;   /* walked, with modes */
	IPT_VEC(uint64_t) calls; /* return addresses */
};

static void put_rel32(uint8_t *p, unsigned int op_len, uint64_t slot, uint64_t to)
{
	int32_t rel = (int32_t)((int64_t)(to * SLOT) - (int64_t)(slot * SLOT + op_len + 4));

	memcpy(p + op_len, &rel, 4);
}

/* One instruction a slot, then one-byte NOPs. Direct jumps and calls go forward only, so that no
 * loop is without packets. */
static void fill_slot(struct prog *p, uint64_t slot, uint64_t *seed, bool mixed)
{
	static const uint8_t plain[][4] = {
		{2, 0xff, 0xe0},       {2, 0xff, 0xd0}, {1, 0xc3},       {2, 0x0f, 0x05}, {1, 0xcc},
		{2, 0xcd, 0x80},       {2, 0xf3, 0xa4}, {3, 0xc2, 8, 0}, {2, 0xe3, 0x06}, {1, 0xc3},
		{3, 0x0f, 0x1f, 0x00}, {2, 0x74, 0x00},
	};
	uint8_t *c = p->code + slot * SLOT;
	uint64_t r = (rnd(seed) >> 20) % 24;
	uint64_t ahead = slot + 1 + (rnd(seed) >> 20) % (N_SLOTS - slot);

	memset(c, 0x90, SLOT);
	if (slot == N_SLOTS - 1 || ahead >= N_SLOTS) {
		memcpy(c, "\xff\xe0", 2);
	} else if (r < 12) {
		memcpy(c, plain[r] + 1, plain[r][0]);
	} else if (r < 16) {
		c[0] = 0x0f;
		c[1] = 0x80 | (rnd(seed) >> 60);
		put_rel32(c, 2, slot, (rnd(seed) >> 20) % N_SLOTS);
	} else if (r < 17) {
		c[0] = 0xe9;
		put_rel32(c, 1, slot, ahead);
	} else if (r < 20) {
		c[0] = 0xe8;
		put_rel32(c, 1, slot, ahead);
	} else if (r < 21) {
		memcpy(c, "\xe8\0\0\0\0",
		       5); /* to the next instruction: not for the return stack */
	} else if (r < 22) {
		memcpy(c, "\xf3\x0f\xae\xe0", 4); /* PTWRITE */
	} else if (mixed) {
		memcpy(c, r & 1 ? "\xcf\x90" : "\xff\x28", 2); /* IRET, far jump */
	}
}

static void sink(void *arg, const uint8_t *p, size_t n)
{
	ipt_buf_append(arg, p, n);
}

static uint64_t any_slot(struct walk *w)
{
	return w->prog->base + (rnd(&w->seed) >> 20) % N_SLOTS * SLOT;
}

static bool chance(struct walk *w, unsigned int one_in)
{
	return (rnd(&w->seed) >> 20) % one_in == 0;
}

static enum ipt_xmode any_mode(struct walk *w)
{
	return !w->mixed || chance(w, 2) ? IPT_X64 : IPT_X32;
}

static void resume(struct walk *w, uint64_t ip, enum ipt_xmode mode)
{
	w->ip = ip;
	w->mode = mode;
	w->tsc += 100;
	ipt_ptgen_enable(w->gen, ip, mode, w->tsc);
}

static uint64_t go_ret(struct walk *w)
{
	uint64_t top;

	if (!w->calls.n || chance(w, 8))
		return any_slot(w);
	if (chance(w, 20) && w->calls.n > 3)
		w->calls.n -= 2; /* as longjmp's like would */
	top = w->calls.v[--w->calls.n];
	return top;
}

static void enter_kernel(struct walk *w, uint64_t after)
{
	ipt_ptgen_disable(w->gen, w->tsc++);
	if (chance(w, 5))
		resume(w, any_slot(w), any_mode(w));
	else
		resume(w, after, w->mode);
}

/* libipt applies a new mode as soon as it comes to the target's address, even when it does so
 * before the branch, on its way from the last packet. */
static bool was_lately_at(const struct walk *w, uint64_t ip)
{
	for (size_t i = w->ips.n, n = 0; i-- > 0 && n < 400; n++)
		if ((w->ips.v[i] & ((1ull << MODE_SHIFT) - 1)) == ip)
			return true;
	return false;
}

static void step(struct walk *w)
{
	const struct prog *p = w->prog;
	uint64_t off = w->ip - p->base, after, next;
	enum ipt_xmode mode = w->mode;
	struct ipt_insn in;

	ck_assert_int_eq(ipt_x86_decode(&in, p->code + off, sizeof(p->code) - off, w->ip, w->mode),
			 0);
	after = next = w->ip + in.len;
	*ipt_vec_push(&w->ips) = w->ip | (uint64_t)w->mode << MODE_SHIFT;
	switch (in.iclass) {
	case IPT_IC_COND: next = chance(w, 2) ? in.target : after; break;
	case IPT_IC_JMP: next = in.target; break;
	case IPT_IC_CALL:
		next = in.target;
		*ipt_vec_push(&w->calls) = after;
		break;
	case IPT_IC_CALL_IND:
		next = chance(w, 8) ? after : any_slot(w);
		*ipt_vec_push(&w->calls) = after;
		break;
	case IPT_IC_JMP_IND: next = any_slot(w); break;
	case IPT_IC_RET: next = go_ret(w); break;
	case IPT_IC_FAR_RET:
	case IPT_IC_FAR_JMP:
		next = any_slot(w);
		mode = was_lately_at(w, next) ? w->mode : any_mode(w);
		break;
	case IPT_IC_PTWRITE: ipt_ptgen_ptwrite(w->gen, w->ip, rnd(&w->seed), 4); break;
	default: break;
	}
	ipt_ptgen_insn(w->gen, &in, w->ip, next, mode, w->tsc++);
	if (in.iclass == IPT_IC_FAR_CALL) {
		enter_kernel(w, after);
		return;
	}
	w->ip = next;
	w->mode = mode;
}

static void make_walk(struct walk *w, struct prog *p, const struct ipt_ptgen_cfg *cfg,
		      uint64_t seed, bool mixed)
{
	memset(w, 0, sizeof(*w));
	w->prog = p;
	w->seed = seed;
	w->mixed = mixed;
	p->base = mixed ? 0x8048000 : 0x7f3344550000;
	for (uint64_t i = 0; i < N_SLOTS; i++)
		fill_slot(p, i, &w->seed, mixed);
	w->gen = ipt_ptgen_new(cfg, sink, &w->pt);
	resume(w, p->base, any_mode(w));
	for (int i = 0; i < N_STEPS; i++) {
		if (chance(w, 60)) {
			ipt_ptgen_async(w->gen, w->ip, w->tsc++);
			if (chance(w, 2))
				resume(w, any_slot(w), any_mode(w));
			else
				resume(w, w->ip, w->mode);
		}
		if (chance(w, 50))
			ipt_ptgen_flush(w->gen);
		step(w);
	}
	ipt_ptgen_async(w->gen, w->ip, w->tsc);
}

static void free_walk(struct walk *w)
{
	ipt_ptgen_free(w->gen);
	ipt_buf_fini(&w->pt);
	ipt_vec_fini(&w->ips);
	ipt_vec_fini(&w->calls);
}

static int read_code(uint8_t *buf, size_t n, const struct pt_asid *asid, uint64_t ip, void *arg)
{
	const struct prog *p = arg;
	uint64_t off = ip - p->base;

	(void)asid;
	if (off >= sizeof(p->code))
		return -pte_nomap;
	n = ipt_min_u64(n, sizeof(p->code) - off);
	memcpy(buf, p->code + off, n);
	return (int)n;
}

/* libipt's listing into @out. 0, or the error that ended it. */
static int list(struct walk *w, struct ipt_buf *out)
{
	struct pt_image *image = pt_image_alloc("prog");
	struct pt_insn_decoder *d;
	struct pt_config cfg;
	int status;

	pt_config_init(&cfg);
	cfg.begin = w->pt.data;
	cfg.end = w->pt.data + w->pt.len;
	d = pt_insn_alloc_decoder(&cfg);
	pt_image_set_callback(image, read_code, w->prog);
	pt_insn_set_image(d, image);
	status = pt_insn_sync_forward(d);
	while (status >= 0) {
		struct pt_insn insn;

		if (status & pts_event_pending) {
			struct pt_event ev;

			status = pt_insn_event(d, &ev, sizeof(ev));
			continue;
		}
		if (status & pts_eos)
			break;
		memset(&insn, 0, sizeof(insn));
		status = pt_insn_next(d, &insn, sizeof(insn));
		if (insn.iclass != ptic_error)
			ipt_buf_u64(out, insn.ip | (uint64_t)(insn.mode - ptem_16bit)
							   << MODE_SHIFT);
	}
	pt_insn_free_decoder(d);
	pt_image_free(image);
	return status < 0 && status != -pte_eos ? status : 0;
}

static void check_packets(const struct walk *w, const struct ipt_ptgen_cfg *cfg)
{
	struct ipt_pkt_ctx ctx = {0};
	struct ipt_pkt k;
	size_t off = 0, psb_at = 0;
	bool was_long = false;

	while (off < w->pt.len) {
		ck_assert_int_eq(ipt_pkt_decode(&k, w->pt.data + off, w->pt.len - off, &ctx), 0);
		if (k.kind == IPT_PKT_PSB)
			psb_at = off;
		was_long |= k.kind == IPT_PKT_TNT64;
		off += k.len;
		ck_assert_uint_le(off - psb_at, ipt_max_u64(cfg->psb_bytes, 128) + IPT_PKT_MAX);
	}
	ck_assert(cfg->long_tnt || !was_long);
	ck_assert_uint_eq(off, ipt_ptgen_pos(w->gen));
}

static void walk_and_compare(const struct ipt_ptgen_cfg *cfg, uint64_t seed, bool mixed)
{
	struct prog *p = ipt_xcalloc(1, sizeof(*p));
	struct ipt_buf got = {0};
	struct walk w;
	size_t same = 0, n;
	int err;

	make_walk(&w, p, cfg, seed, mixed);
	check_packets(&w, cfg);
	err = list(&w, &got);
	n = got.len / 8;
	while (same < n && same < w.ips.n && !memcmp(got.data + 8 * same, &w.ips.v[same], 8))
		same++;
	ck_assert_msg(!err && same == n && same == w.ips.n,
		      "seed %lu: libipt %s, %zu of %zu walked the same, %zu listed", seed,
		      pt_errstr(pt_errcode(err)), same, w.ips.n, n);
	ipt_buf_fini(&got);
	free_walk(&w);
	free(p);
}

START_TEST(libipt_lists_exactly_the_walk)
{
	struct ipt_ptgen_cfg cfg = {.noretcomp = _i & 1,
				    .long_tnt = _i & 2,
				    .psb_bytes = _i & 4 ? 128 : 4096,
				    .no_tsc = _i & 8,
				    .cbr = _i & 4 ? 30 : 0};

	for (uint64_t seed = 1; seed <= 12; seed++)
		walk_and_compare(&cfg, seed * 7919 + (uint64_t)_i, _i & 16);
}
END_TEST

static struct ipt_insn make_insn(enum ipt_iclass iclass, uint8_t len, uint64_t target)
{
	return (struct ipt_insn){.len = len, .iclass = (uint8_t)iclass, .target = target};
}

static enum ipt_pkt_kind last_kind(const struct ipt_buf *b)
{
	struct ipt_pkt_ctx ctx = {0};
	struct ipt_pkt k = {0};

	for (size_t off = 0; off < b->len; off += k.len)
		ck_assert_int_eq(ipt_pkt_decode(&k, b->data + off, b->len - off, &ctx), 0);
	return k.kind;
}

/* Calls @depth deep, then returns all the way; counts the compressed ones. */
static unsigned int n_compressed(bool noretcomp, unsigned int depth, uint64_t wrong_at)
{
	struct ipt_ptgen_cfg cfg = {.noretcomp = noretcomp, .psb_bytes = 1 << 20};
	struct ipt_buf b = {0};
	struct ipt_ptgen *g = ipt_ptgen_new(&cfg, sink, &b);
	struct ipt_insn call = make_insn(IPT_IC_CALL, 5, 0x9000), ret = make_insn(IPT_IC_RET, 1, 0);
	unsigned int n = 0;

	ipt_ptgen_enable(g, 0x1000, IPT_X64, 1);
	for (unsigned int i = 0; i < depth; i++)
		ipt_ptgen_insn(g, &call, 0x1000 + 16 * i, 0x9000, IPT_X64, 1);
	for (unsigned int i = depth; i-- > 0;) {
		uint64_t to = i == wrong_at ? 0x5555 : 0x1000 + 16 * i + 5;

		ipt_ptgen_insn(g, &ret, 0x9000, to, IPT_X64, 1);
		ipt_ptgen_flush(g);
		n += last_kind(&b) == IPT_PKT_TNT;
	}
	ipt_ptgen_free(g);
	ipt_buf_fini(&b);
	return n;
}

START_TEST(returns_compress_as_deep_as_the_hardware_remembers)
{
	ck_assert_uint_eq(n_compressed(false, 10, 99), 10);
	ck_assert_uint_eq(n_compressed(false, 64, 99), 64);
	ck_assert_uint_eq(n_compressed(false, 70, 99), 64);
	ck_assert_uint_eq(n_compressed(true, 10, 99), 0);
}
END_TEST

START_TEST(a_mismatched_return_is_a_tip_and_all_decoders_agree_after_it)
{
	ck_assert_uint_eq(n_compressed(false, 10, 9), 0);
	ck_assert_uint_eq(n_compressed(false, 10, 0), 9);
}
END_TEST

/* A decoder that pops at every RET has the outer call on top, libipt the inner one. */
START_TEST(a_return_is_a_tip_where_decoders_would_disagree)
{
	struct ipt_ptgen_cfg cfg = {.psb_bytes = 1 << 20};
	struct ipt_buf b = {0};
	struct ipt_ptgen *g = ipt_ptgen_new(&cfg, sink, &b);
	struct ipt_insn call = make_insn(IPT_IC_CALL, 5, 0x9000), ret = make_insn(IPT_IC_RET, 1, 0);

	ipt_ptgen_enable(g, 0x1000, IPT_X64, 1);
	ipt_ptgen_insn(g, &call, 0x1000, 0x9000, IPT_X64, 1);
	ipt_ptgen_insn(g, &call, 0x2000, 0x9000, IPT_X64, 1);
	ipt_ptgen_insn(g, &ret, 0x9000, 0x5555, IPT_X64, 1);
	ck_assert_int_eq(last_kind(&b), IPT_PKT_TIP);
	ipt_ptgen_insn(g, &ret, 0x9000, 0x2005, IPT_X64, 1);
	ipt_ptgen_flush(g);
	ck_assert_int_eq(last_kind(&b), IPT_PKT_TIP);
	ipt_ptgen_free(g);
	ipt_buf_fini(&b);
}
END_TEST

START_TEST(after_a_loss_the_stream_goes_on_at_the_given_address)
{
	struct ipt_ptgen_cfg cfg = {.psb_bytes = 4096};
	struct ipt_buf b = {0};
	struct ipt_ptgen *g = ipt_ptgen_new(&cfg, sink, &b);
	struct ipt_pkt_ctx ctx = {0};
	struct ipt_pkt k = {0};
	uint64_t ip = 0;
	bool ovf = false;
	struct ipt_lastip last = {0};

	ipt_ptgen_enable(g, 0x7f0000001000, IPT_X64, 1);
	ipt_ptgen_overflow(g, 0x7f0000002000, 2);
	for (size_t off = 0; off < b.len; off += k.len) {
		ck_assert_int_eq(ipt_pkt_decode(&k, b.data + off, b.len - off, &ctx), 0);
		ovf |= k.kind == IPT_PKT_OVF;
		if (k.kind == IPT_PKT_OVF)
			last.valid = false;
		if (k.kind == IPT_PKT_FUP)
			ck_assert(ipt_lastip_update(&last, &k, &ip));
	}
	ck_assert(ovf);
	ck_assert_uint_eq(ip, 0x7f0000002000);
	ck_assert(ipt_ptgen_enabled(g));
	ipt_ptgen_free(g);
	ipt_buf_fini(&b);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("ptgen");
	TCase *tc = tcase_create("all");
	SRunner *r;
	int failed;

	tcase_set_timeout(tc, 60);
	tcase_add_loop_test(tc, libipt_lists_exactly_the_walk, 0, 32);
	tcase_add_test(tc, returns_compress_as_deep_as_the_hardware_remembers);
	tcase_add_test(tc, a_mismatched_return_is_a_tip_and_all_decoders_agree_after_it);
	tcase_add_test(tc, a_return_is_a_tip_where_decoders_would_disagree);
	tcase_add_test(tc, after_a_loss_the_stream_goes_on_at_the_given_address);
	suite_add_tcase(s, tc);
	r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
