/* SPDX-License-Identifier: MIT */
/* Nanoseconds a call of the packet generator in batches, each the best of some rounds. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "engine/engine.h"

#define N_CALLS  (1u << 16)
#define N_ROUNDS 300
#define N_INPUT  4096 /* outcomes and targets prepared beforehand */

struct input {
	uint64_t bits[N_INPUT];
	uint64_t near[N_INPUT]; /* targets 2 to 6 bytes long, as programs mix them */
	struct ipt_way way[N_INPUT];
	struct ipt_went went[N_INPUT];
};

static uint64_t rnd(uint64_t *s)
{
	*s ^= *s << 13;
	*s ^= *s >> 7;
	*s ^= *s << 17;
	return *s * 0x2545f4914f6cdd1dull;
}

static void sink(void *arg, const uint8_t *p, size_t n)
{
	uint64_t *sum = arg;

	*sum += n + p[n - 1];
}

static void fill(struct input *in)
{
	static const uint64_t base[4] = {0x401000, 0x402000, 0x483000, 0x7f3344550000};
	uint64_t seed = 1;

	for (unsigned int i = 0; i < N_INPUT; i++) {
		uint64_t r = rnd(&seed);
		/* Every fourth ends at an indirect branch. */
		bool jumps = r >> 62 == 0;

		in->bits[i] = r & 0xfff;
		in->near[i] = base[r >> 40 & 3] + (r >> 20 & 0xff0);
		in->way[i] = (struct ipt_way){.bits = in->bits[i],
					      .n_bits = 12,
					      .psb_ip = 0x401000,
					      .end = jumps ? IPT_WAY_JMP : IPT_WAY_ON,
					      .more = jumps};
		in->went[i] = (struct ipt_went){&in->way[i], jumps ? in->near[i] : 0};
	}
}

static void run_bits(struct ipt_ptgen *g, const struct input *in)
{
	for (unsigned int i = 0; i < N_CALLS; i++)
		ipt_ptgen_bits(g, in->bits[i % N_INPUT], 12);
}

/* A call and its return. */
static void run_call_ret(struct ipt_ptgen *g, const struct input *in)
{
	for (unsigned int i = 0; i < N_CALLS; i++) {
		ipt_ptgen_call(g, in->near[i % N_INPUT]);
		ipt_ptgen_ret(g, in->near[i % N_INPUT]);
	}
}

/* A return to no call, which is an IP packet. */
static void run_tip(struct ipt_ptgen *g, const struct input *in)
{
	for (unsigned int i = 0; i < N_CALLS; i++)
		ipt_ptgen_ret(g, in->near[i % N_INPUT]);
}

static void run_ways(struct ipt_ptgen *g, const struct input *in)
{
	for (unsigned int i = 0; i < N_CALLS; i += N_INPUT)
		ipt_ptgen_ways(g, in->went, N_INPUT, i);
}

static double seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void measure(const char *what, bool long_tnt, const struct input *in,
		    void (*run)(struct ipt_ptgen *, const struct input *))
{
	struct ipt_ptgen_cfg cfg = {.long_tnt = long_tnt};
	double best = 1e9;

	for (unsigned int i = 0; i < N_ROUNDS; i++) {
		uint64_t sum = 0;
		struct ipt_ptgen *g = ipt_ptgen_new(&cfg, sink, &sum);
		double t;

		ipt_ptgen_enable(g, 0x401000, IPT_X64, 1);
		ipt_ptgen_batch(g, true);
		t = seconds();
		run(g, in);
		t = seconds() - t;
		if (t < best)
			best = t;
		ipt_ptgen_free(g);
	}
	printf("%-10s %-5s %6.2f ns\n", what, long_tnt ? "long" : "short", best * 1e9 / N_CALLS);
}

int main(void)
{
	struct input *in = ipt_xcalloc(1, sizeof(*in));

	fill(in);
	for (int long_tnt = 1; long_tnt >= 0; long_tnt--) {
		measure("bits(12)", long_tnt, in, run_bits);
		measure("call+ret", long_tnt, in, run_call_ret);
		measure("tip", long_tnt, in, run_tip);
		measure("way", long_tnt, in, run_ways);
	}
	free(in);
	return 0;
}
