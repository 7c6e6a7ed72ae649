/* SPDX-License-Identifier: MIT */
/* PT bytes over a small fixed program: both decoders end, in order, and blame the bytes alone. */
#include <stdlib.h>
#include <unistd.h>

#include "flow/priv.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Branches of each kind, loops, a syscall, an int3, a way out of the code. */
static const uint8_t prog[] = {
	0x90, 0x0f, 0x05, 0x90, 0x0f, 0x05, 0xeb, 0xfe, 0xe8, 0x01, 0x00, 0x00, 0x00, 0xf4, 0xc3,
	0xff, 0xe0, 0x90, 0x74, 0xfd, 0x90, 0x0f, 0x05, 0xcc, 0xff, 0xd0, 0xe2, 0xfe, 0xe8, 0xfb,
	0xff, 0xff, 0xff, 0xf3, 0xa4, 0xc2, 0x08, 0x00, 0xe9, 0x00, 0x10, 0x00, 0x00, 0x0f, 0x0b,
};

static char dir[] = "/tmp/iptrace-fuzz-XXXXXX";
static struct ipt_store *st;
static struct ipt_images *im;
static struct ipt_code *code;

static void clean(void)
{
	char cmd[64];

	ipt_code_free(code);
	ipt_images_free(im);
	ipt_store_close(st);
	snprintf(cmd, sizeof(cmd), "rm -rf '%s'", dir);
	if (system(cmd))
		return;
}

static void map(struct ipt_writer *w, enum ipt_sb_type type, size_t skip, uint64_t off)
{
	struct ipt_sb_head h = {.pid = 1, .tid = 1, .pt_off = off};
	struct ipt_sb_map m = {.start = 0x400000, .end = 0x400000 + sizeof(prog) - skip};

	ipt_assert(!ipt_writer_image(w, prog + skip, sizeof(prog) - skip, m.image), "image");
	ipt_writer_map(w, type, &h, &m, NULL, 0, NULL, 0, "/p");
}

static void prepare(void)
{
	struct ipt_writer_cfg cfg = {.dir = dir, .force = true};
	struct ipt_session_info info = {
		.engine = "step",
		.tool = "fuzz",
		.host = "h",
		.kernel = "k",
		.command = "run",
		.cwd = "/",
		.cpu = {"GenuineIntel", 6, 94, 3},
		.clock = {.tsc_hz = 1000000000},
	};
	struct ipt_sb_thread_start start = {.flags = IPT_SB_TF_LEADER};
	static const uint8_t pads[4096];
	struct ipt_diag diag = {0};
	struct ipt_writer *w;
	struct ipt_wthread *t;

	ipt_assert(mkdtemp(dir) && !ipt_writer_new(&w, &cfg, &info, &diag), diag.text);
	t = ipt_writer_thread(w, 1, 1, &start, "p", 1);
	ipt_wthread_pt(t, pads, sizeof(pads));
	map(w, IPT_SB_MAP, 0, 0);
	map(w, IPT_SB_CODE, 1, 200);
	ipt_assert(!ipt_writer_finish(w, 0, &diag), diag.text);
	ipt_assert(!ipt_store_open(&st, dir, &diag), diag.text);
	ipt_assert(!ipt_images_new(&im, st, &diag), diag.text);
	ipt_assert(!ipt_code_new(&code, im, ipt_store_thread(st, 0), &diag), diag.text);
	atexit(clean);
}

struct check {
	uint64_t tsc, threads;
	bool timed;
};

static int take(void *arg, const struct ipt_ev *ev, size_t n)
{
	struct check *c = arg;

	for (size_t i = 0; i < n; i++) {
		struct ipt_run_it it = {0};
		uint32_t k = 0;

		c->threads += ev[i].kind == IPT_EV_THREAD;
		if (ev[i].kind == IPT_EV_TIME) {
			ipt_assert(!c->timed || ev[i].time.tsc > c->tsc, "the clock went back");
			c->timed = true;
			c->tsc = ev[i].time.tsc;
		}
		if (ev[i].kind != IPT_EV_RUN)
			continue;
		ipt_assert(ev[i].n > 0, "an empty run");
		while (ipt_run_next(&it, code, &ev[i]))
			k++;
		ipt_assert(k <= ev[i].n, "a run has more instructions than it says");
	}
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const decoders[] = {"ref", "insn"};
	struct ipt_flow_stats stats[2];

	if (!st)
		prepare();
	for (size_t i = 0; i < 2; i++) {
		struct job j = {.st = st, .code = code, .t = ipt_store_thread(st, 0)};
		struct ipt_flow_cfg cfg = {.decoder = decoders[i]};
		struct check c = {0};
		/* A copy of the exact size: reads beyond the end are seen. */
		uint8_t *copy = malloc(size ? size : 1);

		memcpy(copy, data, size);
		ipt_assert(!ipt_flow_decode_bytes(&j, copy, size, &cfg, take, &c, &stats[i]),
			   "decoding failed");
		ipt_assert(c.threads == 2, "the thread has no begin or end");
		free(copy);
	}
	return 0;
}
