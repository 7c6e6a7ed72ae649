/* SPDX-License-Identifier: MIT */
/* The event stream of hand-made PT: order, epochs, gaps, breakpoints, loops. */
#include "scene.h"

#include "ptw.h"

#define VA 0x400000ull

/* nop; syscall; nop; syscall; jmp self; call +0; ret */
static const uint8_t prog[] = {
	0x90, 0x0f, 0x05, 0x90, 0x0f, 0x05,       /* 0: nop, 1: syscall, 3: nop, 4: syscall */
	0xeb, 0xfe,                               /* 6: jmp self */
	0xe8, 0x01, 0x00, 0x00, 0x00, 0xf4, 0xc3, /* 8: call 14; 13: hlt; 14: ret */
	0xff, 0xe0, 0x90, 0x74, 0xfd, 0x90, 0x0f,
	0x05, /* 15: jmp *rax 17: nop 18: je 17 20: nop
		 21: syscall */
};
/* The same length, other instructions: one of three bytes, then syscall. */
static const uint8_t prog2[] = {0x48, 0x89, 0xc0, 0x0f, 0x05};

static void finish_with(struct scene *s, struct ptw *w)
{
	ipt_wthread_pt(s->t, w->b.data, w->b.len);
	ipt_buf_fini(&w->b);
	scene_finish(s);
}

static void expect_kinds(const struct seen *k, const uint8_t *kinds, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		ck_assert_uint_lt(i, k->v.n);
		ck_assert_msg(k->v.v[i].kind == kinds[i], "event %zu is %s, not %s", i,
			      ipt_ev_name(k->v.v[i].kind), ipt_ev_name(kinds[i]));
	}
	ck_assert_uint_eq(k->v.n, n);
}

static const char *const both[] = {"ref", "insn"};

START_TEST(call_and_return_stand_between_runs)
{
	static const uint8_t want[] = {IPT_EV_THREAD, IPT_EV_ENABLE,  IPT_EV_RUN,
				       IPT_EV_CALL,   IPT_EV_RUN,     IPT_EV_RET,
				       IPT_EV_RUN,    IPT_EV_DISABLE, IPT_EV_THREAD};
	struct ptw w = {0};
	struct seen k = {0};
	struct scene s;

	scene_begin(&s, NULL);
	scene_code(&s, IPT_SB_MAP, VA, prog, sizeof(prog), 0, "/p");
	ptw_psb(&w);
	ptw_pge(&w, VA + 8);
	ptw_ip(&w, IPT_PKT_TIP, VA + 3);
	ptw_pgd(&w);
	finish_with(&s, &w);
	seen_decode(&k, &s, 0, both[_i]);
	expect_kinds(&k, want, sizeof(want));
	ck_assert_uint_eq(k.v.v[3].br.from, VA + 8);
	ck_assert_uint_eq(k.v.v[3].br.to, VA + 14);
	ck_assert_uint_eq(k.v.v[3].br.ret_to, VA + 13);
	ck_assert_uint_eq(k.v.v[5].br.to, VA + 3);
	ck_assert_uint_eq(k.v.v[6].n, 2);
	ck_assert_uint_eq(k.v.v[6].run.end, VA + 6);
	ck_assert_uint_eq(k.v.v[6].iclass, IPT_IC_FAR_CALL);
	ck_assert_uint_eq(k.v.v[7].how, IPT_DIS_SYNC);
	seen_free(&k);
	scene_end(&s);
}
END_TEST

START_TEST(same_address_runs_the_code_of_its_epoch)
{
	struct ptw w = {0};
	struct seen k = {0};
	struct scene s;
	uint64_t pge;

	scene_begin(&s, NULL);
	scene_code(&s, IPT_SB_MAP, VA, prog, sizeof(prog), 0, "/p");
	ptw_psb(&w);
	ptw_pge(&w, VA);
	ptw_pgd(&w);
	pge = ptw_pge(&w, VA);
	ptw_pgd(&w);
	ipt_wthread_pt(s.t, w.b.data, w.b.len);
	scene_code(&s, IPT_SB_CODE, VA, prog2, sizeof(prog2), pge, "/p");
	w.b.len = 0;
	finish_with(&s, &w);
	seen_decode(&k, &s, 0, both[_i]);
	ck_assert_uint_eq(seen_find(&k, IPT_EV_RUN, 0)->n, 2);
	ck_assert_uint_eq(seen_find(&k, IPT_EV_RUN, 0)->run.end, VA + 3);
	ck_assert_uint_eq(seen_find(&k, IPT_EV_RUN, 1)->run.end, VA + 5);
	ck_assert_ptr_nonnull(seen_find(&k, IPT_EV_MAP, 0));
	ck_assert(seen_find(&k, IPT_EV_MAP, 0) < seen_find(&k, IPT_EV_RUN, 1));
	ck_assert(seen_find(&k, IPT_EV_MAP, 0) > seen_find(&k, IPT_EV_RUN, 0));
	ck_assert_uint_eq(k.stats.gaps, 0);
	seen_free(&k);
	scene_end(&s);
}
END_TEST

START_TEST(signal_comes_between_disable_and_enable)
{
	static const uint8_t want[] = {IPT_EV_THREAD,  IPT_EV_ENABLE, IPT_EV_RUN,    IPT_EV_ASYNC,
				       IPT_EV_DISABLE, IPT_EV_SIGNAL, IPT_EV_ENABLE, IPT_EV_RUN,
				       IPT_EV_DISABLE, IPT_EV_THREAD};
	struct ipt_sb_head h = {.pid = 100, .tid = 100};
	struct ipt_sb_signal sig = {.signo = 10};
	struct ptw w = {0};
	struct seen k = {0};
	struct scene s;

	scene_begin(&s, NULL);
	scene_code(&s, IPT_SB_MAP, VA, prog, sizeof(prog), 0, "/p");
	ptw_psb(&w);
	ptw_pge(&w, VA);
	ptw_ip(&w, IPT_PKT_FUP, VA + 1);
	ptw_pgd(&w);
	h.pt_off = w.b.len;
	ptw_pge(&w, VA + 3);
	ptw_pgd(&w);
	ipt_wthread_pt(s.t, w.b.data, w.b.len);
	ipt_writer_record(s.w, IPT_SB_SIGNAL, &h, &sig, sizeof(sig));
	w.b.len = 0;
	finish_with(&s, &w);
	seen_decode(&k, &s, 0, both[_i]);
	expect_kinds(&k, want, sizeof(want));
	ck_assert_uint_eq(k.v.v[3].br.from, VA + 1);
	seen_free(&k);
	scene_end(&s);
}
END_TEST

START_TEST(breakpoint_that_the_file_does_not_show_is_inferred)
{
	static const uint8_t want[] = {IPT_EV_THREAD, IPT_EV_NOTE,    IPT_EV_ENABLE,
				       IPT_EV_RUN,    IPT_EV_DISABLE, IPT_EV_ENABLE,
				       IPT_EV_RUN,    IPT_EV_DISABLE, IPT_EV_THREAD};
	struct ptw w = {0};
	struct seen k = {0};
	struct scene s;

	scene_begin(&s, NULL);
	scene_code(&s, IPT_SB_MAP, VA, prog, sizeof(prog), 0, "/p");
	ptw_psb(&w);
	ptw_pge(&w, VA + 17);
	ptw_pgd(&w);
	ptw_pge(&w, VA + 17);
	ptw_tnt(&w, 0, 1);
	ptw_pgd(&w);
	finish_with(&s, &w);
	seen_decode(&k, &s, 0, both[_i]);
	expect_kinds(&k, want, sizeof(want));
	ck_assert_uint_eq(k.v.v[3].n, 1);
	ck_assert_uint_eq(k.v.v[3].run.end, VA + 18);
	ck_assert_uint_eq(k.v.v[6].n, 4);
	ck_assert_uint_eq(k.stats.gaps, 0);
	seen_free(&k);
	scene_end(&s);
}
END_TEST

START_TEST(breakpoint_after_other_code_adds_no_instructions)
{
	struct seen k[2] = {0};
	struct ptw w = {0};
	struct scene s;

	scene_begin(&s, NULL);
	scene_code(&s, IPT_SB_MAP, VA, prog, sizeof(prog), 0, "/p");
	ptw_psb(&w);
	/* Reached by a jump, so that no enable tells where it was. */
	ptw_pge(&w, VA + 15);
	ptw_ip(&w, IPT_PKT_TIP, VA + 17);
	ptw_pgd(&w);
	ptw_pge(&w, VA + 17);
	ptw_tnt(&w, 0, 1);
	ptw_pgd(&w);
	finish_with(&s, &w);
	for (int i = 0; i < 2; i++)
		seen_decode(&k[i], &s, 0, both[i]);
	ck_assert_uint_eq(k[0].v.n, k[1].v.n);
	for (size_t i = 0; i < k[0].v.n; i++)
		ck_assert(seen_equal(&k[0].v.v[i], &k[1].v.v[i]));
	for (int i = 0; i < 2; i++)
		seen_free(&k[i]);
	scene_end(&s);
}
END_TEST

START_TEST(endless_loop_without_packets_is_a_gap)
{
	struct ptw w = {0};
	struct seen k = {0};
	struct scene s;

	scene_begin(&s, NULL);
	scene_code(&s, IPT_SB_MAP, VA, prog, sizeof(prog), 0, "/p");
	ptw_psb(&w);
	ptw_pge(&w, VA + 6);
	ptw_tnt(&w, 1, 1);
	ptw_psb(&w);
	ptw_pge(&w, VA);
	ptw_pgd(&w);
	finish_with(&s, &w);
	seen_decode(&k, &s, 0, both[_i]);
	ck_assert_uint_eq(k.stats.gaps, 1);
	ck_assert_uint_eq(seen_find(&k, IPT_EV_GAP, 0)->how, IPT_GAP_LIMIT);
	ck_assert_uint_lt(k.stats.insns, 100);
	ck_assert_uint_eq(seen_find(&k, IPT_EV_DISABLE, 0)->how, IPT_DIS_SYNC);
	seen_free(&k);
	scene_end(&s);
}
END_TEST

START_TEST(code_that_is_not_there_is_a_gap_and_decoding_goes_on)
{
	struct ptw w = {0};
	struct seen k = {0};
	const struct ipt_ev *gap;
	struct scene s;
	uint64_t psb;

	scene_begin(&s, NULL);
	scene_code(&s, IPT_SB_MAP, VA, prog, sizeof(prog), 0, "/p");
	ptw_psb(&w);
	ptw_pge(&w, VA + 15);
	ptw_ip(&w, IPT_PKT_TIP, 0x900000);
	ptw_ip(&w, IPT_PKT_TIP, VA);
	ptw_pgd(&w);
	psb = ptw_psb(&w);
	ptw_pge(&w, VA + 3);
	ptw_pgd(&w);
	finish_with(&s, &w);
	seen_decode(&k, &s, 0, both[_i]);
	ck_assert_uint_eq(k.stats.gaps, 1);
	gap = seen_find(&k, IPT_EV_GAP, 0);
	ck_assert_uint_eq(gap->how, IPT_GAP_NO_CODE);
	ck_assert_uint_eq(gap->gap.ip, 0x900000);
	ck_assert_uint_eq(gap->gap.resume_off, psb);
	ck_assert_uint_eq(seen_find(&k, IPT_EV_RUN, 1)->run.ip, VA + 3);
	seen_free(&k);
	scene_end(&s);
}
END_TEST

START_TEST(cut_tail_and_head_without_psb_are_gaps)
{
	struct ptw w = {0};
	struct seen k = {0};
	struct scene s;

	scene_begin(&s, NULL);
	scene_code(&s, IPT_SB_MAP, VA, prog, sizeof(prog), 0, "/p");
	ptw_tnt(&w, 1, 1);
	ptw_psb(&w);
	ptw_pge(&w, VA);
	ptw_pgd(&w);
	ptw_tsc(&w, 77);
	w.b.len -= 3;
	finish_with(&s, &w);
	seen_decode(&k, &s, 0, both[_i]);
	ck_assert_uint_eq(k.stats.gaps, 2);
	ck_assert_uint_eq(seen_find(&k, IPT_EV_GAP, 0)->how, IPT_GAP_NO_PSB);
	ck_assert_uint_eq(seen_find(&k, IPT_EV_GAP, 0)->gap.resume_off, 1);
	ck_assert_uint_eq(seen_find(&k, IPT_EV_GAP, 1)->how, IPT_GAP_TRUNCATED);
	seen_free(&k);
	scene_end(&s);
}
END_TEST

START_TEST(clock_counts_from_the_start_and_never_back)
{
	struct ptw w = {0};
	struct seen k = {0};
	struct scene s;

	scene_begin(&s, NULL);
	scene_code(&s, IPT_SB_MAP, VA, prog, sizeof(prog), 0, "/p");
	ptw_psb(&w);
	ptw_tsc(&w, 1500);
	ptw_pge(&w, VA);
	ptw_pgd(&w);
	ptw_tsc(&w, 1200);
	ptw_pge(&w, VA);
	ptw_pgd(&w);
	ptw_tsc(&w, 3000);
	ptw_pge(&w, VA);
	ptw_pgd(&w);
	finish_with(&s, &w);
	seen_decode(&k, &s, 0, both[_i]);
	/* 1 GHz from 1000. */
	ck_assert_uint_eq(seen_find(&k, IPT_EV_TIME, 0)->time.ns, 500);
	ck_assert_uint_eq(seen_find(&k, IPT_EV_TIME, 1)->time.ns, 2000);
	ck_assert_ptr_null(seen_find(&k, IPT_EV_TIME, 2));
	seen_free(&k);
	scene_end(&s);
}
END_TEST

START_TEST(packets_unknown_to_libipt_are_notes)
{
	struct ipt_pkt cfe = {.kind = IPT_PKT_CFE};
	struct ptw w = {0};
	struct seen k = {0};
	struct scene s;

	cfe.cfe.type = 1;
	cfe.cfe.vector = 14;
	cfe.cfe.ip = true;
	scene_begin(&s, NULL);
	scene_code(&s, IPT_SB_MAP, VA, prog, sizeof(prog), 0, "/p");
	ptw_psb(&w);
	ptw_pge(&w, VA);
	ptw_put(&w, &cfe);
	ptw_ip(&w, IPT_PKT_FUP, VA + 1);
	ptw_pgd(&w);
	ptw_pge(&w, VA + 3);
	ptw_put(&w, &cfe);
	ptw_ip(&w, IPT_PKT_FUP, VA + 4);
	ptw_psb(&w);
	finish_with(&s, &w);
	seen_decode(&k, &s, 0, both[_i]);
	ck_assert_uint_eq(k.stats.notes, 2);
	ck_assert_ptr_nonnull(seen_find(&k, IPT_EV_ASYNC, 0));
	ck_assert_uint_eq(seen_find(&k, IPT_EV_RUN, 0)->n, 1);
	seen_free(&k);
	scene_end(&s);
}
END_TEST

int main(void)
{
	const TTest *tests[] = {call_and_return_stand_between_runs,
				same_address_runs_the_code_of_its_epoch,
				signal_comes_between_disable_and_enable,
				breakpoint_that_the_file_does_not_show_is_inferred,
				breakpoint_after_other_code_adds_no_instructions,
				endless_loop_without_packets_is_a_gap,
				code_that_is_not_there_is_a_gap_and_decoding_goes_on,
				cut_tail_and_head_without_psb_are_gaps,
				clock_counts_from_the_start_and_never_back,
				packets_unknown_to_libipt_are_notes};
	Suite *s = suite_create("flow");
	TCase *tc = tcase_create("flow");
	SRunner *sr;
	int failed;

	for (size_t i = 0; i < IPT_ARRAY_SIZE(tests); i++)
		tcase_add_loop_test(tc, tests[i], 0, 2);
	suite_add_tcase(s, tc);
	sr = srunner_create(s);
	srunner_run_all(sr, CK_NORMAL);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed != 0;
}
