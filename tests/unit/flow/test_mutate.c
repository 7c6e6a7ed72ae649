/* SPDX-License-Identifier: MIT */
/* Damaged streams: whatever the bytes are, decoding ends soon, with the frame whole. */
#include "scene.h"

#include "flow/priv.h"
#include "ptw.h"

#define VA     0x400000ull
#define ROUNDS 4000

/* call 7; jmp *rax; ret; je 8; nop; syscall */
static const uint8_t prog[] = {0xe8, 0x02, 0x00, 0x00, 0x00, 0xff, 0xe0, 0xc3,
			       0x74, 0xfe, 0x90, 0x0f, 0x05, 0xeb, 0xfe, 0xcc};

static uint64_t seed = 0x2545f4914f6cdd1dull;

static uint64_t rnd(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed;
}

static void good_stream(struct ptw *w)
{
	for (int i = 0; i < 40; i++) {
		if (i % 8 == 0)
			ptw_psb(w);
		ptw_tsc(w, 1000 + (uint64_t)i * 100);
		ptw_pge(w, VA);
		ptw_ip(w, IPT_PKT_TIP, VA + 5);
		ptw_ip(w, IPT_PKT_TIP, VA + 8);
		ptw_tnt(w, 6, 3);
		ptw_pgd(w);
		ptw_pge(w, VA + 10);
		ptw_ip(w, IPT_PKT_FUP, VA + 11);
		ptw_pgd(w);
	}
}

static void damage(struct ipt_buf *b)
{
	size_t at = rnd() % b->len;

	switch (rnd() % 4) {
	case 0: b->data[at] ^= (uint8_t)(1u << rnd() % 8); break;
	case 1: b->len = at + 1; break;
	case 2: /* insert */
		ipt_buf_u8(b, 0);
		memmove(b->data + at + 1, b->data + at, b->len - at - 1);
		b->data[at] = (uint8_t)rnd();
		break;
	default: /* delete */
		memmove(b->data + at, b->data + at + 1, b->len - at - 1);
		b->len -= b->len > 1;
		break;
	}
}

START_TEST(damaged_streams_end_and_make_gaps)
{
	struct ptw good = {0};
	struct scene s;
	uint64_t gaps = 0;
	struct ipt_flow_stats whole;

	scene_begin(&s, NULL);
	scene_code(&s, IPT_SB_MAP, VA, prog, sizeof(prog), 0, "/p");
	good_stream(&good);
	ipt_wthread_pt(s.t, good.b.data, good.b.len);
	scene_finish(&s);
	for (int i = 0; i <= ROUNDS; i++) {
		struct seen k = {.quiet = true};
		struct job j = {.st = s.st, .t = ipt_store_thread(s.st, 0)};
		struct ipt_flow_cfg cfg = {.decoder = i & 1 ? "insn" : "ref"};
		struct ipt_buf b = {0};

		ipt_buf_append(&b, good.b.data, good.b.len);
		for (uint64_t n = i ? 1 + rnd() % 4 : 0; n; n--)
			damage(&b);
		ck_assert_int_eq(ipt_code_new(&k.code, s.im, j.t, NULL), 0);
		j.code = k.code;
		ck_assert_int_eq(
			ipt_flow_decode_bytes(&j, b.data, b.len, &cfg, seen_take, &k, &k.stats), 0);
		if (!i) {
			whole = k.stats;
			ck_assert_uint_eq(whole.gaps, 0);
		}
		/* One bad packet can lose no more than it is worth, and invent no endless code. */
		ck_assert_uint_le(k.stats.insns, whole.insns * 4);
		ck_assert_uint_le(k.stats.gaps, b.len);
		gaps += k.stats.gaps;
		ipt_buf_fini(&b);
		seen_free(&k);
	}
	ck_assert_uint_gt(gaps, ROUNDS / 4);
	ipt_buf_fini(&good.b);
	scene_end(&s);
}
END_TEST

#include "check_main.h"

CHECK_MAIN("flow_mutate", damaged_streams_end_and_make_gaps)
