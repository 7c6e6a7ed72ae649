/* SPDX-License-Identifier: MIT */
/*
 * The packets view: each packet of the chosen threads, without decoding flow. Bytes that are no
 * packet are told with their offset; the listing goes on at the next PSB.
 */
#include <errno.h>

#include "pt/pt.h"
#include "view/view.h"
#include "view_priv.h"

struct listing {
	const struct ipt_view_opts *opts;
	struct ipt_out *out;
	const struct ipt_thread_info *thread;
	struct ipt_lastip last;
	struct ipt_buf text; /* one packet's */
	struct ipt_buf json;
};

static bool has_ip(const struct ipt_pkt *pkt)
{
	return pkt->kind == IPT_PKT_TIP || pkt->kind == IPT_PKT_TIP_PGE ||
	       pkt->kind == IPT_PKT_TIP_PGD || pkt->kind == IPT_PKT_FUP;
}

static void open_json(struct listing *l, struct ipt_json *j, size_t off)
{
	ipt_json_begin(j, &l->json);
	ipt_json_open(j, NULL, '{');
	ipt_json_u64(j, "pid", l->thread->pid);
	ipt_json_u64(j, "tid", l->thread->tid);
	ipt_json_u64(j, "gen", l->thread->gen);
	ipt_json_u64(j, "off", off);
}

static void close_json(struct listing *l, struct ipt_json *j)
{
	ipt_json_close(j, '}');
	ipt_view_json_line(l->out, &l->json);
}

static void list_bad(struct listing *l, size_t off, size_t next, const char *why)
{
	struct ipt_json j;

	if (l->opts->json) {
		open_json(l, &j, off);
		ipt_json_null(&j, "packet");
		ipt_json_str(&j, "error", why);
		ipt_json_u64(&j, "skipped", next - off);
		close_json(l, &j);
	} else {
		ipt_out_printf(l->out, "%8zx  [%s: %zu bytes skipped]\n", off, why, next - off);
	}
}

static void list_packet(struct listing *l, const struct ipt_pkt *pkt, const uint8_t *p, size_t off)
{
	uint64_t ip = 0;
	bool known = false;
	struct ipt_json j;
	char hex[2 * IPT_PKT_MAX + 1] = "";

	if (pkt->kind == IPT_PKT_PSB)
		ipt_lastip_reset(&l->last);
	else if (pkt->kind == IPT_PKT_OVF)
		l->last.valid = false;
	else if (has_ip(pkt))
		known = ipt_lastip_update(&l->last, pkt, &ip);
	for (unsigned int i = 0; i < pkt->len; i++)
		snprintf(hex + 2 * i, 3, "%02x", p[i]);
	l->text.len = 0;
	ipt_pkt_text(&l->text, pkt, ip);
	ipt_buf_u8(&l->text, 0);
	if (!l->opts->json) {
		ipt_out_printf(l->out, "%8zx  %-32s  %s\n", off, hex, (char *)l->text.data);
		return;
	}
	open_json(l, &j, off);
	ipt_json_str(&j, "packet", ipt_pkt_name(pkt->kind));
	if (known)
		ipt_json_hex(&j, "ip", ip);
	ipt_json_str(&j, "bytes", hex);
	ipt_json_str(&j, "text", (char *)l->text.data);
	close_json(l, &j);
}

static void list_stream(struct listing *l, const uint8_t *p, size_t n)
{
	struct ipt_pkt_ctx ctx = {0};
	size_t off = 0, next;
	struct ipt_pkt pkt;
	int err;

	if (ipt_psb_next(p, n, &off))
		off = n;
	if (off)
		list_bad(l, 0, off, "no PSB before");
	while (off < n && !l->out->err) {
		err = ipt_pkt_decode(&pkt, p + off, n - off, &ctx);
		if (!err) {
			list_packet(l, &pkt, p + off, off);
			off += pkt.len;
			continue;
		}
		next = off + 1;
		if (ipt_psb_next(p, n, &next))
			next = n;
		list_bad(l, off, next, ipt_strerror(err));
		off = next;
	}
}

static int list_thread(struct listing *l, struct ipt_store *st, struct ipt_diag *diag)
{
	const uint8_t *p = NULL;
	size_t n = 0;
	int err = ipt_store_pt(st, l->thread, &p, &n, diag);

	if (err)
		return err;
	if (!l->opts->json)
		ipt_view_thread_head(l->out, l->thread);
	list_stream(l, p, n);
	return l->out->err;
}

int ipt_view_packets(struct ipt_store *st, const struct ipt_view_opts *opts, struct ipt_out *out,
		     struct ipt_diag *diag)
{
	struct listing l = {.opts = opts, .out = out};
	size_t n_listed = 0;
	int err = 0;

	for (size_t i = 0; i < ipt_store_n_threads(st) && !err; i++) {
		l.thread = ipt_store_thread(st, i);
		if (!ipt_walk_wants(opts, l.thread))
			continue;
		n_listed++;
		l.last = (struct ipt_lastip){0};
		err = list_thread(&l, st, diag);
	}
	if (!err && !n_listed && (opts->tid || opts->pid))
		err = ipt_diag_err(diag, ENOENT, 0, "no such thread in the trace");
	ipt_buf_fini(&l.text);
	ipt_buf_fini(&l.json);
	return err;
}
