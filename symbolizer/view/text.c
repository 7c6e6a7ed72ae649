/* SPDX-License-Identifier: MIT */
/* Pieces of text that several views show alike. */
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>

#include "view/view.h"
#include "view_priv.h"

void ipt_view_json_line(struct ipt_out *o, struct ipt_buf *json)
{
	uint8_t *to = ipt_buf_reserve(&o->buf, json->len + 1);
	size_t n = 0;

	/* Inside of strings a newline is escaped, so each one here is layout. */
	for (size_t i = 0; i < json->len; i++) {
		if (json->data[i] != '\n') {
			to[n++] = json->data[i];
			continue;
		}
		while (i + 1 < json->len && json->data[i + 1] == ' ')
			i++;
	}
	to[n++] = '\n';
	o->buf.len += n;
	json->len = 0;
	ipt_out_check(o);
}

void ipt_view_thread_head(struct ipt_out *o, const struct ipt_thread_info *t)
{
	ipt_out_printf(o, "# thread %u.%u.%u ", t->pid, t->tid, t->gen);
	ipt_out_escaped(o, t->comm ? t->comm : "");
	ipt_out_str(o, "\n");
}

void ipt_view_gap_text(struct ipt_buf *b, const struct ipt_ev *ev)
{
	ipt_buf_printf(b, "[gap: %s", ipt_gap_name((enum ipt_gap_cause)ev->how));
	if (ev->gap.ip)
		ipt_buf_printf(b, " at 0x%" PRIx64, ev->gap.ip);
	if (ev->gap.lost_bytes == UINT64_MAX)
		ipt_buf_str(b, ", lost an unknown amount");
	else
		ipt_buf_printf(b, ", lost %" PRIu64 " bytes", ev->gap.lost_bytes);
	ipt_buf_printf(b, " at offset 0x%" PRIx64, ev->off);
	if (ev->gap.resume_off == UINT64_MAX)
		ipt_buf_str(b, ", nothing follows");
	else
		ipt_buf_printf(b, ", goes on at 0x%" PRIx64, ev->gap.resume_off);
	if (ev->gap.text && *ev->gap.text) {
		ipt_buf_str(b, ": ");
		ipt_escape_term(b, ev->gap.text);
	}
	ipt_buf_str(b, "]");
}

void ipt_view_gap_json(struct ipt_out *o, const struct ipt_thread_info *t, const struct ipt_ev *ev)
{
	struct ipt_buf b = {0};
	struct ipt_json j;

	ipt_json_begin(&j, &b);
	ipt_json_open(&j, NULL, '{');
	ipt_json_str(&j, "event", "gap");
	ipt_json_u64(&j, "pid", t->pid);
	ipt_json_u64(&j, "tid", t->tid);
	ipt_json_u64(&j, "gen", t->gen);
	ipt_json_str(&j, "cause", ipt_gap_name((enum ipt_gap_cause)ev->how));
	ipt_json_u64(&j, "offset", ev->off);
	if (ev->gap.resume_off == UINT64_MAX)
		ipt_json_null(&j, "resume_offset");
	else
		ipt_json_u64(&j, "resume_offset", ev->gap.resume_off);
	if (ev->gap.lost_bytes == UINT64_MAX)
		ipt_json_null(&j, "lost_bytes");
	else
		ipt_json_u64(&j, "lost_bytes", ev->gap.lost_bytes);
	ipt_json_hex(&j, "ip", ev->gap.ip);
	ipt_json_str(&j, "text", ev->gap.text);
	ipt_json_close(&j, '}');
	ipt_view_json_line(o, &b);
	ipt_buf_fini(&b);
}

static void signal_text(struct ipt_buf *b, const struct ipt_rec *rec)
{
	struct ipt_sb_signal sig;
	const char *name;

	if (!rec || rec->n < sizeof(sig)) {
		ipt_buf_str(b, "[signal]");
		return;
	}
	memcpy(&sig, rec->payload, sizeof(sig));
	name = sigabbrev_np(sig.signo);
	ipt_buf_printf(b, "[signal %d%s%s at 0x%" PRIx64, sig.signo, name ? " SIG" : "",
		       name ? name : "", sig.ip);
	if (sig.handler)
		ipt_buf_printf(b, ", handler 0x%" PRIx64, sig.handler);
	ipt_buf_str(b, sig.flags & 1 ? ", ended the process]" : "]");
}

static void syscall_text(struct ipt_buf *b, const struct ipt_rec *rec)
{
	struct ipt_sb_syscall sc;

	if (!rec || rec->n < sizeof(sc)) {
		ipt_buf_str(b, "[syscall]");
		return;
	}
	memcpy(&sc, rec->payload, sizeof(sc));
	ipt_buf_printf(b, "[syscall %" PRIu64, sc.nr);
	if (sc.flags & 1) {
		ipt_buf_str(b, "(");
		for (size_t i = 0; i < IPT_ARRAY_SIZE(sc.args); i++)
			ipt_buf_printf(b, "%s0x%" PRIx64, i ? ", " : "", sc.args[i]);
		ipt_buf_str(b, ")");
	}
	if (sc.flags & 2)
		ipt_buf_printf(b, " = %" PRId64, sc.ret);
	ipt_buf_str(b, "]");
}

static void mark_text(struct ipt_buf *b, const struct ipt_rec *rec)
{
	ipt_buf_str(b, "[mark ");
	ipt_escape_term(b, rec ? ipt_rec_text(rec, 0) : "");
	ipt_buf_str(b, "]");
}

static void exec_text(struct ipt_buf *b, const struct ipt_rec *rec)
{
	ipt_buf_str(b, "[exec ");
	ipt_escape_term(b, rec ? ipt_rec_text(rec, sizeof(struct ipt_sb_exec)) : "");
	ipt_buf_str(b, "]");
}

bool ipt_view_event_text(struct ipt_buf *b, const struct ipt_ev *ev)
{
	static const char *const why[] = {"system call or interrupt instruction", "interrupted",
					  "filtered"};

	switch ((enum ipt_ev_kind)ev->kind) {
	case IPT_EV_ENABLE: ipt_buf_printf(b, "[enable at 0x%" PRIx64 "]", ev->br.to); return true;
	case IPT_EV_DISABLE:
		ipt_buf_printf(b, "[disable: %s]", ev->how < 3 ? why[ev->how] : "unknown");
		return true;
	case IPT_EV_SIGNAL: signal_text(b, ev->rec); return true;
	case IPT_EV_SYSCALL: syscall_text(b, ev->rec); return true;
	case IPT_EV_MARK: mark_text(b, ev->rec); return true;
	case IPT_EV_EXEC: exec_text(b, ev->rec); return true;
	case IPT_EV_PTW: ipt_buf_printf(b, "[ptwrite 0x%" PRIx64 "]", ev->payload); return true;
	case IPT_EV_NOTE:
		ipt_buf_str(b, "[note: ");
		ipt_escape_term(b, ev->text ? ev->text : "");
		ipt_buf_str(b, "]");
		return true;
	case IPT_EV_GAP: ipt_view_gap_text(b, ev); return true;
	case IPT_EV_RUN:
	case IPT_EV_CALL:
	case IPT_EV_RET:
	case IPT_EV_JUMP:
	case IPT_EV_ASYNC:
	case IPT_EV_TIME:
	case IPT_EV_CBR:
	case IPT_EV_PROBE:
	case IPT_EV_MAP:
	case IPT_EV_THREAD:
	case IPT_EV_STACK:
	case IPT_EV_N_KINDS: return false;
	}
	return false;
}

void ipt_view_u64(struct ipt_buf *b, uint64_t v)
{
	char digits[24];
	int n = snprintf(digits, sizeof(digits), "%" PRIu64, v);

	for (int i = 0; i < n; i++) {
		if (i && (n - i) % 3 == 0)
			ipt_buf_u8(b, ',');
		ipt_buf_u8(b, (uint8_t)digits[i]);
	}
}

void ipt_view_column(struct ipt_out *o, int width, uint64_t v)
{
	struct ipt_buf b = {0};

	ipt_view_u64(&b, v);
	ipt_out_printf(o, "%*.*s", width, (int)b.len, (const char *)b.data);
	ipt_buf_fini(&b);
}

void ipt_view_place(struct ipt_buf *b, const struct ipt_func *f, uint64_t va, bool offset)
{
	const char *plus = f->anon ? strrchr(f->name, '+') : NULL;

	if (plus && va >= f->lo) {
		ipt_buf_append(b, f->name, (size_t)(plus - f->name));
		ipt_buf_printf(b, "+0x%" PRIx64,
			       (uint64_t)strtoull(plus + 1, NULL, 16) + (va - f->lo));
		return;
	}
	ipt_buf_str(b, f->name);
	if (offset)
		ipt_buf_printf(b, "+0x%" PRIx64, va - f->lo);
}

void ipt_view_frame_name(struct ipt_buf *b, const struct ipt_sframe *f)
{
	bool called =
		f->begin == IPT_FB_CALL || f->begin == IPT_FB_TAIL || f->begin == IPT_FB_SIGNAL;

	if (called && f->func->anon && f->entry)
		ipt_view_place(b, f->func, f->entry, false);
	else
		ipt_buf_str(b, f->func->name);
}

const char *ipt_view_time_unit(const struct ipt_store *st)
{
	const struct ipt_clock *c = &ipt_store_info(st)->clock;

	return c->mult || c->tsc_hz ? "ns" : "ticks";
}
