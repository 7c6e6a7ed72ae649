/* SPDX-License-Identifier: MIT */
/*
 * The reference decoder over libipt: images, events, errors. The block decoder is used for speed;
 * where it reports an error, the instruction decoder makes the stretch since the last
 * synchronisation again and is believed. Each byte is so decoded at most twice.
 */
#include <errno.h>
#include <stdlib.h>

#include "flow/ref.h"

#define MAX_SECTIONS 4096
/* libipt's block cache takes 8 bytes for each of a section. */
#define MAX_SECTION_BYTES (1ull << 30)

static int read_code(uint8_t *buffer, size_t size, const struct pt_asid *asid, uint64_t ip,
		     void *context)
{
	struct ref *r = context;
	size_t n = ipt_code_read_at(r->job->code, r->epoch, ip, buffer, size);

	(void)asid;
	if (!n)
		return -pte_nomap;
	if (r->int3 && r->int3->ip - ip < n)
		buffer[r->int3->ip - ip] = 0xcc;
	return (int)n;
}

static void add_section(struct ref *r, struct pt_image *image, const struct ipt_map *m)
{
	const char *name = ipt_store_image_name(r->job->st, m->image);
	char *path;
	int isid;

	if (!name || m->end - m->start > MAX_SECTION_BYTES)
		return;
	path = ipt_xasprintf("%s/%s", ipt_store_dir(r->job->st), name);
	isid = pt_iscache_add_file(r->cache, path, m->image_off, m->end - m->start, m->start);
	/* What libipt does not take is read by callback. */
	if (isid > 0)
		pt_image_add_cached(image, r->cache, isid, NULL);
	free(path);
}

static struct pt_image *program_image(struct ref *r, uint32_t program)
{
	const struct ipt_map **maps;
	struct pt_image *image;
	size_t n;

	while (r->programs.n <= program)
		ipt_vec_push(&r->programs);
	if (r->programs.v[program])
		return r->programs.v[program];
	image = pt_image_alloc(NULL);
	if (!image)
		return r->bare;
	pt_image_set_callback(image, read_code, r);
	maps = ipt_xcalloc(MAX_SECTIONS, sizeof(*maps));
	n = ipt_code_stable(r->job->code, program, maps, MAX_SECTIONS);
	for (size_t i = 0; i < n; i++)
		add_section(r, image, maps[i]);
	free(maps);
	r->programs.v[program] = image;
	return image;
}

static void choose_image(struct ref *r)
{
	struct pt_image *image =
		r->int3 ? r->bare : program_image(r, ipt_code_program(r->job->code, r->epoch));

	r->stamp++;
	r->job->src.epoch = r->epoch;
	if (image == r->image)
		return;
	r->image = image;
	if (r->blk)
		pt_blk_set_image(r->blk, image);
	pt_insn_set_image(r->insn, image);
}

static uint64_t next_epoch(const struct ref *r)
{
	return ipt_code_epoch_off(r->job->code, r->epoch + 1);
}

bool ipt_ref_move(struct ref *r, uint64_t off)
{
	uint64_t at = ipt_min_u64(off, r->cap);

	r->job->src.at = ipt_max_u64(at, r->job->src.at);
	if (at < r->next_epoch)
		return false;
	while (next_epoch(r) <= at && r->epoch + 1 < ipt_code_n_epochs(r->job->code))
		r->epoch++;
	r->next_epoch = next_epoch(r);
	choose_image(r);
	return true;
}

void ipt_ref_begin(struct ref *r, uint64_t sync)
{
	r->sync = sync;
	/* Stretches mostly go on where the last one ended: no search from the first epoch. */
	if (ipt_code_epoch_off(r->job->code, r->epoch) > sync)
		r->epoch = 0;
	r->next_epoch = 0;
	r->int3 = NULL;
	r->cap = UINT64_MAX;
	r->cbr = 0;
	r->doubt = false;
	r->loop_n = r->loop_at = 0;
	r->image = NULL;
	r->job->src.at = sync;
	ipt_ref_move(r, sync);
}

/* Tracing goes on: code is what holds at this packet. */
static void resume(struct ref *r, uint64_t at)
{
	const struct scan *s = &r->job->scan;
	const struct int3 *was = r->int3;

	r->cap = ipt_flow_from(s->pgd.v, s->pgd.n, at);
	r->job->src.at = at;
	r->int3 = ipt_flow_int3(s, at);
	if (!ipt_ref_move(r, at) && was != r->int3)
		choose_image(r);
}

static void emit(struct ref *r, enum ipt_ev_kind kind, uint8_t how, uint64_t from, uint64_t to,
		 uint64_t next_ip)
{
	struct ipt_ev ev = {.kind = kind, .how = how};

	ev.br.from = from;
	ev.br.to = to;
	ipt_flow_event(&r->job->src, &ev, next_ip);
}

static void enabled(struct ref *r, const struct pt_event *ev, uint64_t off)
{
	const struct scan *s = &r->job->scan;
	uint64_t at = r->sync;

	if (!ev->status_update)
		at = ipt_flow_before(s->pge.v, s->pge.n, off);
	if (at == UINT64_MAX || at < r->sync)
		at = r->sync;
	resume(r, at);
	emit(r, IPT_EV_ENABLE, 0, 0, ev->variant.enabled.ip, 0);
}

static void overflow(struct ref *r, const struct pt_event *ev, uint64_t off)
{
	struct ipt_ev gap = {.kind = IPT_EV_GAP, .how = IPT_GAP_OVF};

	gap.gap.ip = ev->ip_suppressed ? 0 : ev->variant.overflow.ip;
	gap.gap.text = ev->ip_suppressed ? "packets lost in hardware, tracing is off after it"
					 : "packets lost in hardware, goes on at ip";
	gap.gap.resume_off = off;
	gap.gap.lost_bytes = UINT64_MAX;
	resume(r, ipt_max_u64(ipt_min_u64(off, r->cap), r->job->src.at));
	ipt_flow_event(&r->job->src, &gap, 0);
}

static bool is_far(uint8_t iclass)
{
	return iclass == IPT_IC_FAR_CALL || iclass == IPT_IC_FAR_RET || iclass == IPT_IC_FAR_JMP;
}

static void left(struct ref *r, const struct pt_event *ev, uint64_t off)
{
	uint64_t at = ev->variant.async_disabled.at, to;

	r->job->src.at = ipt_max_u64(ipt_min_u64(off, r->cap), r->job->src.at);
	if (ev->type == ptev_async_disabled) {
		to = ev->ip_suppressed ? 0 : ev->variant.async_disabled.ip;
		emit(r, IPT_EV_ASYNC, 0, at, 0, at);
		emit(r, IPT_EV_DISABLE, IPT_DIS_ASYNC, at, to, 0);
	} else {
		to = ev->ip_suppressed ? 0 : ev->variant.disabled.ip;
		/* Where a breakpoint is not in the code, the block decoder walks on to the next
		 * branch, and says nothing. */
		r->doubt = ev->ip_suppressed && !is_far(r->job->src.run.ev.iclass);
		emit(r, IPT_EV_DISABLE, ev->ip_suppressed ? IPT_DIS_SYNC : IPT_DIS_FILTER,
		     r->job->src.last_ip, to, to);
	}
}

static void async_branch(struct ref *r, const struct pt_event *ev)
{
	uint64_t from = ev->variant.async_branch.from, to = ev->variant.async_branch.to;

	emit(r, IPT_EV_ASYNC, 0, from, to, from);
	emit(r, IPT_EV_DISABLE, IPT_DIS_ASYNC, from, to, 0);
	emit(r, IPT_EV_ENABLE, 0, 0, to, 0);
}

static void payload(struct ref *r, enum ipt_ev_kind kind, uint32_t n, uint64_t value)
{
	struct ipt_ev ev = {.kind = kind, .n = n};

	ev.payload = value;
	ipt_flow_event(&r->job->src, &ev, 0);
}

void ipt_ref_event(struct ref *r, const struct pt_event *ev, uint64_t off)
{
	r->loop_n = r->loop_at = 0;
	switch (ev->type) {
	case ptev_enabled: enabled(r, ev, off); break;
	case ptev_disabled:
	case ptev_async_disabled: left(r, ev, off); break;
	case ptev_async_branch: async_branch(r, ev); break;
	case ptev_overflow: overflow(r, ev, off); break;
	case ptev_ptwrite:
		payload(r, IPT_EV_PTW, ev->variant.ptwrite.size, ev->variant.ptwrite.payload);
		break;
	case ptev_cbr:
		if (r->cbr != ev->variant.cbr.ratio)
			payload(r, IPT_EV_CBR, 0, ev->variant.cbr.ratio);
		r->cbr = ev->variant.cbr.ratio;
		break;
	default: break;
	}
	if (ev->has_tsc)
		ipt_flow_time(&r->job->src, ev->tsc);
}

static uint8_t class_of(enum pt_insn_class c)
{
	switch (c) {
	case ptic_call: return IPT_IC_CALL;
	case ptic_return: return IPT_IC_RET;
	case ptic_jump: return IPT_IC_JMP;
	case ptic_cond_jump: return IPT_IC_COND;
	case ptic_far_call: return IPT_IC_FAR_CALL;
	case ptic_far_return: return IPT_IC_FAR_RET;
	case ptic_far_jump: return IPT_IC_FAR_JMP;
	case ptic_ptwrite: return IPT_IC_PTWRITE;
	default: return IPT_IC_OTHER;
	}
}

static const struct cls *classify(struct ref *r, uint64_t ip, uint8_t mode, uint8_t iclass,
				  uint8_t size)
{
	struct cls *c = &r->cls[(ip ^ (ip >> REF_CLS_BITS)) & ((1u << REF_CLS_BITS) - 1)];
	uint8_t bytes[IPT_INSN_MAX];
	struct ipt_insn insn;
	size_t n;

	if (c->ip == ip && c->stamp == r->stamp && c->mode == mode && c->len)
		return c;
	c->ip = ip;
	c->stamp = r->stamp;
	c->mode = mode;
	n = ipt_code_read_at(r->job->code, r->epoch, ip, bytes, sizeof(bytes));
	if (r->int3 && r->int3->ip == ip) {
		c->len = 1;
		c->iclass = IPT_IC_FAR_CALL;
	} else if (n && !ipt_x86_decode(&insn, bytes, n, ip, mode)) {
		c->len = insn.len;
		c->iclass = insn.iclass;
	} else {
		/* libipt decoded what Zydis does not: its word is all there is. */
		c->len = size ? size : 1;
		c->iclass = iclass;
	}
	return c;
}

/* Without a packet the way through the code is fixed: the same branch again means for ever. */
static bool loops(struct ref *r, uint64_t ip, uint8_t iclass)
{
	if (iclass != IPT_IC_JMP && iclass != IPT_IC_CALL) {
		if (iclass != IPT_IC_OTHER)
			r->loop_n = r->loop_at = 0;
		return false;
	}
	if (r->loop_n && r->loop_ip == ip)
		return true;
	if (r->loop_n++ == r->loop_at) {
		r->loop_ip = ip;
		r->loop_at = r->loop_at * 2 + 1;
	}
	return false;
}

bool ipt_ref_piece(struct ref *r, uint64_t ip, uint64_t last, uint32_t n, enum pt_exec_mode mode,
		   enum pt_insn_class iclass, uint8_t size)
{
	struct piece p = {.ip = ip, .last = last, .n = n};
	const struct cls *c;

	p.mode = mode == ptem_16bit ? IPT_X16 : mode == ptem_32bit ? IPT_X32 : IPT_X64;
	c = classify(r, last, p.mode, class_of(iclass), size);
	p.end = last + c->len;
	p.iclass = c->iclass;
	ipt_flow_piece(&r->job->src, &p);
	return !loops(r, last, p.iclass);
}

/* Packets of a CPU may have its errata. */
static void set_cpu(struct ref *r, const struct ipt_cpu *cpu)
{
	if (!strcmp(cpu->vendor, "GenuineIntel") || !strcmp(cpu->vendor, "intel"))
		r->config.cpu.vendor = pcv_intel;
	r->config.cpu.family = (uint16_t)cpu->family;
	r->config.cpu.model = (uint8_t)cpu->model;
	r->config.cpu.stepping = (uint8_t)cpu->stepping;
	if (r->config.cpu.vendor != pcv_intel || cpu->model > 0xff ||
	    pt_cpu_errata(&r->config.errata, &r->config.cpu) < 0) {
		ipt_diag_warn(r->job->diag,
			      "cpu %s %u/%u/%u is not known to libipt: no errata are applied",
			      cpu->vendor, cpu->family, cpu->model, cpu->stepping);
		memset(&r->config.errata, 0, sizeof(r->config.errata));
	}
}

static void set_origin(struct ref *r)
{
	const struct ipt_session_info *info = ipt_store_info(r->job->st);

	if (!info->slowed)
		set_cpu(r, &info->cpu);
	r->config.mtc_freq = info->clock.mtc_freq;
	r->config.nom_freq = info->clock.nom_freq;
	r->config.cpuid_0x15_eax = info->clock.cpuid_15h_eax;
	r->config.cpuid_0x15_ebx = info->clock.cpuid_15h_ebx;
}

static void ref_fini(struct ref *r)
{
	if (r->blk)
		pt_blk_free_decoder(r->blk);
	if (r->insn)
		pt_insn_free_decoder(r->insn);
	for (size_t i = 0; i < r->programs.n; i++)
		pt_image_free(r->programs.v[i]);
	ipt_vec_fini(&r->programs);
	pt_image_free(r->bare);
	pt_iscache_free(r->cache);
	free(r->cls);
}

static int ref_init(struct ref *r, struct job *j, bool blocks)
{
	memset(r, 0, sizeof(*r));
	r->job = j;
	pt_config_init(&r->config);
	set_origin(r);
	/* libipt asks for bytes it may write and never does. */
	r->config.begin = (uint8_t *)(uintptr_t)j->scan.p;
	r->config.end = r->config.begin + j->scan.n;
	r->cls = ipt_xcalloc((size_t)1 << REF_CLS_BITS, sizeof(*r->cls));
	r->cache = pt_iscache_alloc(NULL);
	r->bare = pt_image_alloc(NULL);
	r->insn = pt_insn_alloc_decoder(&r->config);
	if (blocks) {
		r->config.flags.variant.block.end_on_call = 1;
		r->config.flags.variant.block.end_on_jump = 1;
		r->blk = pt_blk_alloc_decoder(&r->config);
	}
	if (!r->cache || !r->bare || !r->insn || (blocks && !r->blk)) {
		ref_fini(r);
		return ipt_diag_err(j->diag, ENOMEM, 0, "libipt: no decoder");
	}
	pt_image_set_callback(r->bare, read_code, r);
	return 0;
}

/* The next PSB after what failed; -pte_eos: there is none. */
static int next_sync(struct ref *r, uint64_t *sync)
{
	int status = pt_insn_sync_forward(r->insn);
	uint64_t off = 0;
	size_t pos;

	if (status == -pte_eos)
		return status;
	if (pt_insn_get_sync_offset(r->insn, &off) >= 0 && (*sync == UINT64_MAX || off > *sync)) {
		*sync = off;
		return 0;
	}
	/* Going on at a PSB that failed before would never end. */
	pos = *sync == UINT64_MAX ? 0 : (size_t)*sync + 1;
	if (ipt_psb_next(r->job->scan.p, r->job->scan.n, &pos))
		return -pte_eos;
	*sync = pos;
	return 0;
}

static uint8_t cause_of(const struct stop *stop)
{
	switch (stop->limit ? pte_overflow : -stop->code) {
	case pte_nomap: return IPT_GAP_NO_CODE;
	case pte_bad_opc:
	case pte_bad_packet: return IPT_GAP_BAD_PACKET;
	case pte_overflow: return IPT_GAP_LIMIT;
	default: return IPT_GAP_FLOW;
	}
}

static void give_gap(struct ref *r, const struct stop *stop, uint64_t resume_off)
{
	struct ipt_ev gap = {.kind = IPT_EV_GAP, .how = cause_of(stop)};
	struct source *s = &r->job->src;
	uint64_t end = resume_off == UINT64_MAX ? r->job->scan.n : resume_off;

	gap.gap.ip = stop->ip;
	gap.gap.text =
		stop->limit ? "endless loop without packets" : pt_errstr(pt_errcode(stop->code));
	gap.gap.resume_off = resume_off;
	gap.gap.lost_bytes = end > stop->off ? end - stop->off : 0;
	ipt_flow_event(s, &gap, stop->ip);
	/* Where it stopped, not where its marks belong. */
	s->held.v[s->held.n - 1].ev.off = stop->off;
	ipt_flow_release(s);
}

static void stretch(struct ref *r, uint64_t sync, struct stop *stop)
{
	struct source *s = &r->job->src;
	struct clock clock = s->clock;

	ipt_flow_begin(s);
	memset(stop, 0, sizeof(*stop));
	if (r->blk) {
		ipt_ref_blk_stretch(r, sync, stop);
		if (stop->code == -pte_eos || s->out->rc)
			return;
		ipt_flow_again(s, &clock);
		memset(stop, 0, sizeof(*stop));
	}
	ipt_ref_insn_stretch(r, sync, stop);
}

static int decode(struct job *j, bool blocks)
{
	struct ref *r = ipt_xcalloc(1, sizeof(*r));
	uint64_t sync = UINT64_MAX;
	struct stop stop;
	int rc = ref_init(r, j, blocks);

	if (rc) {
		free(r);
		return rc;
	}
	rc = next_sync(r, &sync);
	while (!rc && !j->src.out->rc) {
		stretch(r, sync, &stop);
		if (stop.code == -pte_eos && !stop.limit) {
			ipt_flow_release(&j->src);
			break;
		}
		/* Whatever the arbiter did not make again cannot be taken back. */
		j->src.skip = 0;
		rc = next_sync(r, &sync);
		give_gap(r, &stop, rc ? UINT64_MAX : sync);
	}
	ref_fini(r);
	free(r);
	return 0;
}

int ipt_ref_block(struct job *j)
{
	return decode(j, true);
}

int ipt_ref_insn(struct job *j)
{
	return decode(j, false);
}
