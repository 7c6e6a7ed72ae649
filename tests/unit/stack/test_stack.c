/* SPDX-License-Identifier: MIT */
/*
 * The call stack followed from made-up events. The names come from a table in here, which takes
 * the place of the symbol and image libraries for this program.
 */
#include <check.h>
#include <stdlib.h>

#include "stack/stack.h"

#define F(nr, base, text)                                                                          \
	{                                                                                          \
		.name = text, .linkage = text, .module = "prog", .path = "/prog", .lo = (base),    \
		.hi = (base) + 0x100, .id = (nr)                                                   \
	}

enum {
	MAIN = 0x1000,
	A = 0x1100,
	B = 0x1200,
	C = 0x1300,
	PLT = 0x1400,
	COLD = 0x1500,
	RESTORER = 0x1600,
	HANDLER = 0x1700,
	RESOLVE = 0x1800,
	ANON = 0x100000
};

static struct ipt_func funcs[] = {
	F(1, MAIN, "main"),
	F(2, A, "a"),
	F(3, B, "b"),
	F(4, C, "c"),
	F(5, PLT, "b@plt"),
	F(6, COLD, "a.cold"),
	F(7, RESTORER, "restorer"),
	F(8, HANDLER, "handler"),
	F(9, RESOLVE, "resolve"),
};
static struct ipt_func unknown = {
	.name = "?", .linkage = "?", .module = "?", .path = "?", .id = 10, .anon = true};

const struct ipt_func *ipt_sym_func(struct ipt_sym *s, const struct ipt_map *map, uint64_t va)
{
	(void)s;
	(void)map;
	for (size_t i = 0; i < IPT_ARRAY_SIZE(funcs); i++)
		if (va >= funcs[i].lo && va < funcs[i].hi)
			return &funcs[i];
	return &unknown;
}

const struct ipt_map *ipt_code_map(const struct ipt_code *c, uint64_t va)
{
	(void)c;
	(void)va;
	return NULL;
}

static struct ipt_stack *s;
static struct ipt_buf told;
static uint64_t self_sum, ran;
static bool quiet;

static void on_enter(void *arg, struct ipt_stack *st, struct ipt_sframe *f, size_t depth)
{
	static const char *const begins[] = {"call", "tail", "signal", "start", "initial", "below"};

	(void)arg;
	if (depth + 1 != ipt_stack_depth(st) || f->user)
		ck_abort_msg("frame of %s told with a wrong depth", f->func->name);
	if (!quiet)
		ipt_buf_printf(&told, "%s+%s@%zu ", begins[f->begin], f->func->name, depth);
}

static void on_leave(void *arg, struct ipt_stack *st, struct ipt_sframe *f, size_t depth,
		     enum ipt_frame_end how)
{
	static const char *const ends[] = {"return", "tail", "unwound", "sigret",
					   "lost",   "open", "exec"};

	(void)arg;
	(void)st;
	self_sum += f->insns;
	if (!quiet)
		ipt_buf_printf(&told, "%s-%s@%zu:%d ", ends[how], f->func->name, depth,
			       (int)f->insns_all);
}

static void on_run(void *arg, struct ipt_stack *st, struct ipt_sframe *f, const struct ipt_ev *ev)
{
	(void)arg;
	(void)st;
	(void)f;
	ran += ev->n;
}

static void setup(void)
{
	static const struct ipt_stack_ops ops = {
		.enter = on_enter, .leave = on_leave, .run = on_run};

	funcs[5].cold = true;
	funcs[5].parent = &funcs[1];
	funcs[4].plt = true;
	s = ipt_stack_new(NULL, NULL, &ops, NULL);
	self_sum = ran = 0;
	quiet = false;
}

static void teardown(void)
{
	ipt_stack_free(s);
	ipt_buf_fini(&told);
}

static void run(uint64_t ip, uint32_t n)
{
	ipt_stack_event(s, &(struct ipt_ev){.kind = IPT_EV_RUN, .n = n, .run = {ip, ip + n}});
}

static void branch(enum ipt_ev_kind kind, uint64_t from, uint64_t to, uint64_t ret_to)
{
	ipt_stack_event(s, &(struct ipt_ev){.kind = (uint8_t)kind, .br = {from, to, ret_to}});
}

/* Call @to from @from, five bytes long, and run one instruction there. */
static void call(uint64_t from, uint64_t to)
{
	branch(IPT_EV_CALL, from, to, from + 5);
	run(to, 1);
}

static void ret(uint64_t to)
{
	branch(IPT_EV_RET, 0, to, 0);
	run(to, 1);
}

static void jump(uint64_t to)
{
	branch(IPT_EV_JUMP, 0, to, 0);
	run(to, 1);
}

static void disable(enum ipt_disable_how how)
{
	ipt_stack_event(s, &(struct ipt_ev){.kind = IPT_EV_DISABLE, .how = (uint8_t)how});
}

static void interrupt(uint64_t at)
{
	branch(IPT_EV_ASYNC, at, 0, 0);
	disable(IPT_DIS_ASYNC);
}

static void enable(uint64_t to)
{
	branch(IPT_EV_ENABLE, 0, to, 0);
	run(to, 1);
}

static void record(enum ipt_ev_kind kind, const void *p, size_t n)
{
	struct ipt_rec rec = {.payload = p, .n = n};

	ipt_stack_event(s, &(struct ipt_ev){.kind = (uint8_t)kind, .rec = &rec});
}

static void signal_at(uint64_t ip)
{
	struct ipt_sb_signal sig = {.signo = 14, .ip = ip, .handler = HANDLER};

	record(IPT_EV_SIGNAL, &sig, sizeof(sig));
}

static void event(enum ipt_ev_kind kind, uint8_t how)
{
	ipt_stack_event(s, &(struct ipt_ev){.kind = (uint8_t)kind, .how = how});
}

/* What was told since the last time. */
static void expect(const char *want)
{
	ipt_buf_u8(&told, 0);
	ck_assert_str_eq((const char *)told.data, want);
	told.len = 0;
}

START_TEST(calls_and_returns_nest)
{
	run(MAIN, 3);
	call(MAIN + 3, A);
	call(A + 1, B);
	ret(A + 6);
	ret(MAIN + 8);
	event(IPT_EV_THREAD, 1);
	expect("start+main@0 call+a@1 call+b@2 return-b@2:1 return-a@1:3 open-main@0:7 ");
	ck_assert_uint_eq(self_sum, ran);
}
END_TEST

START_TEST(longjmp_closes_the_skipped_frames_each_time)
{
	run(MAIN, 1);
	expect("start+main@0 ");
	for (int i = 0; i < 1000; i++) {
		call(MAIN + 1, A);
		call(A + 1, B);
		call(B + 1, C);
		jump(MAIN + 0x20);
		ck_assert_uint_eq(ipt_stack_depth(s), 1);
		expect("call+a@1 call+b@2 call+c@3 unwound-c@3:1 unwound-b@2:2 unwound-a@1:3 ");
	}
}
END_TEST

START_TEST(longjmp_finds_its_frame_in_code_without_symbols)
{
	run(MAIN, 1);
	for (int i = 0; i < 100; i++) {
		call(MAIN + 1, ANON);
		call(ANON + 1, ANON + 0x100); /* setjmp */
		ret(ANON + 6);
		call(ANON + 0x20, ANON + 0x200);
		call(ANON + 0x210, ANON + 0x300);
		ck_assert_uint_eq(ipt_stack_depth(s), 4);
		jump(ANON + 6);
		ck_assert_uint_eq(ipt_stack_depth(s), 2);
		ret(MAIN + 6);
		ck_assert_uint_eq(ipt_stack_depth(s), 1);
	}
}
END_TEST

START_TEST(exception_lands_by_return_in_a_frame_further_down)
{
	run(MAIN, 1);
	call(MAIN + 1, A);
	call(A + 1, B);
	call(B + 1, C);
	told.len = 0;
	ret(A + 0x40); /* a landing pad, no return address of any frame */
	expect("unwound-c@3:1 unwound-b@2:2 ");
	call(A + 0x41, C);
	ret(A + 0x46);
	ret(MAIN + 6);
	ck_assert_uint_eq(ipt_stack_depth(s), 1);
}
END_TEST

START_TEST(return_of_a_tail_call_closes_both)
{
	run(MAIN, 1);
	call(MAIN + 1, A);
	run(B, 2); /* a direct jump makes no event */
	ret(MAIN + 6);
	expect("start+main@0 call+a@1 tail+b@2 return-b@2:2 tail-a@1:3 ");
}
END_TEST

START_TEST(functions_that_jump_to_each_other_do_not_grow_the_stack)
{
	run(MAIN, 1);
	call(MAIN + 1, A);
	for (int i = 0; i < 100000; i++) {
		jump(B);
		jump(C);
		jump(A);
		ck_assert_uint_le(ipt_stack_depth(s), 4);
		told.len = 0;
	}
	ret(MAIN + 6);
	ck_assert_uint_eq(ipt_stack_depth(s), 1);
}
END_TEST

START_TEST(a_cold_part_is_its_function)
{
	run(MAIN, 1);
	call(MAIN + 1, A);
	run(COLD + 4, 2);
	run(A + 0x30, 2);
	run(COLD, 1);
	ret(MAIN + 6);
	expect("start+main@0 call+a@1 return-a@1:6 ");
}
END_TEST

START_TEST(a_plt_stub_counts_for_the_function_called)
{
	run(MAIN, 1);
	call(MAIN + 1, PLT);
	jump(B);
	ret(MAIN + 6);
	expect("start+main@0 call+b@1 return-b@1:2 ");
	event(IPT_EV_THREAD, 1);
	ck_assert_uint_eq(self_sum, ran);
}
END_TEST

START_TEST(a_lazy_plt_stub_goes_through_the_resolver)
{
	run(MAIN, 1);
	call(MAIN + 1, PLT);
	run(PLT + 0x20, 2);
	jump(RESOLVE);
	call(RESOLVE + 1, C);
	ret(RESOLVE + 6);
	jump(B);
	ret(MAIN + 6);
	expect("start+main@0 call+resolve@1 call+c@2 return-c@2:1 tail+b@2 return-b@2:1 "
	       "tail-resolve@1:7 ");
	event(IPT_EV_THREAD, 1);
	ck_assert_uint_eq(self_sum, ran);
}
END_TEST

START_TEST(a_stub_that_is_interrupted_is_told_as_itself)
{
	run(MAIN, 1);
	call(MAIN + 1, PLT);
	event(IPT_EV_GAP, IPT_GAP_OVF);
	expect("start+main@0 call+b@plt@1 lost-b@plt@1:1 lost-main@0:2 ");
	ck_assert_uint_eq(self_sum, ran);
}
END_TEST

START_TEST(signal_handler_runs_above_the_interrupted_function)
{
	run(MAIN, 1);
	call(MAIN + 1, A);
	told.len = 0;
	for (int i = 0; i < 100; i++) {
		interrupt(A + 1);
		signal_at(A + 1);
		enable(HANDLER);
		call(HANDLER + 1, B);
		ret(HANDLER + 6);
		ret(RESTORER);
		disable(IPT_DIS_SYNC);
		enable(A + 1);
		expect("signal+handler@2 call+b@3 return-b@3:1 tail+restorer@3 "
		       "sigret-restorer@3:1 sigret-handler@2:4 ");
	}
	ret(MAIN + 6);
	ck_assert_uint_eq(ipt_stack_depth(s), 1);
}
END_TEST

START_TEST(system_call_in_a_handler_is_no_sigreturn)
{
	run(MAIN, 1);
	interrupt(MAIN + 1);
	signal_at(MAIN + 1);
	enable(HANDLER);
	disable(IPT_DIS_SYNC);
	enable(HANDLER + 1);
	disable(IPT_DIS_SYNC);
	enable(HANDLER); /* run_end - 2: the call is started again */
	expect("start+main@0 signal+handler@1 ");
}
END_TEST

START_TEST(next_signal_at_sigreturn_does_not_nest)
{
	run(MAIN, 1);
	interrupt(MAIN + 1);
	for (int i = 0; i < 100; i++) {
		signal_at(MAIN + 1);
		enable(HANDLER);
		ret(RESTORER);
		disable(IPT_DIS_SYNC);
		ck_assert_uint_eq(ipt_stack_depth(s), 3);
	}
	enable(MAIN + 1);
	ck_assert_uint_eq(ipt_stack_depth(s), 1);
}
END_TEST

START_TEST(longjmp_out_of_a_handler_unwinds_it)
{
	run(MAIN, 1);
	call(MAIN + 1, A);
	interrupt(A + 1);
	signal_at(A + 1);
	enable(HANDLER);
	told.len = 0;
	jump(MAIN + 0x50);
	expect("unwound-handler@2:1 unwound-a@1:2 ");
}
END_TEST

START_TEST(reading_the_instruction_pointer_is_no_call)
{
	run(MAIN, 1);
	branch(IPT_EV_CALL, MAIN + 1, MAIN + 6, MAIN + 6);
	run(MAIN + 6, 2);
	expect("start+main@0 ");
}
END_TEST

START_TEST(recursion_is_closed_level_by_level)
{
	quiet = true;
	run(MAIN, 1);
	call(MAIN + 1, A);
	for (int i = 0; i < 100000; i++)
		call(A + 1, A);
	ck_assert_uint_eq(ipt_stack_depth(s), 100002);
	for (int i = 0; i < 100000; i++)
		ret(A + 6);
	ck_assert_uint_eq(ipt_stack_depth(s), 2);
	ret(MAIN + 6);
	ck_assert_uint_eq(ipt_stack_depth(s), 1);
}
END_TEST

START_TEST(depth_is_capped_and_comes_back)
{
	quiet = true;
	run(MAIN, 1);
	call(MAIN + 1, A);
	for (int i = 0; i < 1100000; i++)
		call(A + 1, A);
	ck_assert_uint_eq(ipt_stack_depth(s), 1u << 20);
	for (int i = 0; i < 1100000; i++)
		ret(A + 6);
	ret(MAIN + 6);
	ck_assert_uint_eq(ipt_stack_depth(s), 1);
	event(IPT_EV_THREAD, 1);
	ck_assert_uint_eq(self_sum, ran);
}
END_TEST

START_TEST(returns_below_the_start_add_callers)
{
	run(C + 5, 2);
	ret(B + 6);
	ret(A + 6);
	ret(MAIN + 6);
	event(IPT_EV_THREAD, 1);
	expect("start+c@0 return-c@0:2 below+b@0 return-b@0:3 below+a@0 return-a@0:4 below+main@0 "
	       "open-main@0:5 ");
}
END_TEST

START_TEST(first_stack_is_there_from_the_start)
{
	struct {
		struct ipt_sb_stack st;
		uint64_t ret[2];
	} p = {{.ip = B + 7, .n = 2}, {A + 6, MAIN + 6}};

	record(IPT_EV_STACK, &p, sizeof(p));
	enable(B + 7);
	ret(A + 6);
	ret(MAIN + 6);
	expect("initial+main@0 initial+a@1 initial+b@2 return-b@2:1 return-a@1:2 ");
}
END_TEST

START_TEST(first_stack_longer_than_its_record_is_cut)
{
	struct ipt_sb_stack st = {.ip = B + 7, .n = UINT32_MAX};

	record(IPT_EV_STACK, &st, sizeof(st));
	expect("initial+b@0 ");
	record(IPT_EV_STACK, &st, 3);
}
END_TEST

START_TEST(gap_loses_all_frames_and_begins_anew)
{
	run(MAIN, 1);
	call(MAIN + 1, A);
	event(IPT_EV_GAP, IPT_GAP_OVF);
	run(B + 4, 1);
	ret(MAIN + 6);
	expect("start+main@0 call+a@1 lost-a@1:1 lost-main@0:2 start+b@0 return-b@0:1 "
	       "below+main@0 ");
}
END_TEST

START_TEST(exec_ends_all)
{
	run(MAIN, 1);
	call(MAIN + 1, A);
	event(IPT_EV_EXEC, 0);
	run(C, 1);
	expect("start+main@0 call+a@1 exec-a@1:1 exec-main@0:2 start+c@0 ");
}
END_TEST

START_TEST(switching_stacks_does_not_drift)
{
	run(MAIN, 1);
	call(MAIN + 1, A);
	for (int i = 0; i < 1000; i++) {
		jump(C + 0x10 + (uint64_t)i % 8); /* into another fibre */
		call(C + 0x20, B);
		jump(A + 0x10); /* and back */
		call(A + 0x20, B);
		ck_assert_uint_le(ipt_stack_depth(s), 4);
	}
}
END_TEST

START_TEST(hand_made_return_to_a_function_is_a_tail_call)
{
	run(MAIN, 1);
	call(MAIN + 1, A);
	branch(IPT_EV_RET, A + 3, B, 0);
	run(B, 1);
	ret(MAIN + 6);
	expect("start+main@0 call+a@1 tail+b@2 return-b@2:1 tail-a@1:2 ");
}
END_TEST

START_TEST(clock_is_known_at_entry)
{
	ck_assert_uint_eq(ipt_stack_now_ns(s), UINT64_MAX);
	run(MAIN, 1);
	ck_assert_uint_eq(ipt_stack_frame(s, 0)->t0_ns, UINT64_MAX);
	ipt_stack_event(s, &(struct ipt_ev){.kind = IPT_EV_TIME, .time = {.ns = 77}});
	call(MAIN + 1, A);
	ck_assert_uint_eq(ipt_stack_frame(s, 1)->t0_ns, 77);
	ck_assert_uint_eq(ipt_stack_frame(s, 1)->call_ip, MAIN + 1);
	ck_assert_uint_eq(ipt_stack_frame(s, 1)->ret_to, MAIN + 6);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {
		calls_and_returns_nest,
		longjmp_closes_the_skipped_frames_each_time,
		longjmp_finds_its_frame_in_code_without_symbols,
		exception_lands_by_return_in_a_frame_further_down,
		return_of_a_tail_call_closes_both,
		functions_that_jump_to_each_other_do_not_grow_the_stack,
		a_cold_part_is_its_function,
		a_plt_stub_counts_for_the_function_called,
		a_lazy_plt_stub_goes_through_the_resolver,
		a_stub_that_is_interrupted_is_told_as_itself,
		signal_handler_runs_above_the_interrupted_function,
		system_call_in_a_handler_is_no_sigreturn,
		next_signal_at_sigreturn_does_not_nest,
		longjmp_out_of_a_handler_unwinds_it,
		reading_the_instruction_pointer_is_no_call,
		recursion_is_closed_level_by_level,
		depth_is_capped_and_comes_back,
		returns_below_the_start_add_callers,
		first_stack_is_there_from_the_start,
		first_stack_longer_than_its_record_is_cut,
		gap_loses_all_frames_and_begins_anew,
		exec_ends_all,
		switching_stacks_does_not_drift,
		hand_made_return_to_a_function_is_a_tail_call,
		clock_is_known_at_entry,
	};
	Suite *suite = suite_create("stack");
	TCase *tc = tcase_create("stack");
	SRunner *sr;
	int failed;

	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_set_timeout(tc, 60);
	for (size_t i = 0; i < IPT_ARRAY_SIZE(tests); i++)
		tcase_add_test(tc, tests[i]);
	suite_add_tcase(suite, tc);
	sr = srunner_create(suite);
	srunner_run_all(sr, CK_NORMAL);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed != 0;
}
