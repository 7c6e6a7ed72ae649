/* SPDX-License-Identifier: MIT */
/* Expand a RUN to its instructions, and the names of events. */
#include "flow/flow.h"

/* A breakpoint that was inferred is not in the code: the RUN's own facts say what ran. */
static bool is_hidden_int3(const struct ipt_ev *run, const struct ipt_insn *insn)
{
	return run->n == 1 && run->last_len == 1 && run->iclass == IPT_IC_FAR_CALL &&
	       insn->iclass != IPT_IC_FAR_CALL;
}

bool ipt_run_next(struct ipt_run_it *it, const struct ipt_code *code, const struct ipt_ev *run)
{
	size_t n;
	int rc;

	if (it->started)
		it->ip += it->insn.len;
	else
		it->ip = run->run.ip;
	it->started = true;
	if (it->done >= run->n)
		return false;
	n = ipt_code_read(code, it->ip, it->bytes, sizeof(it->bytes));
	memset(&it->insn, 0, sizeof(it->insn));
	rc = n ? ipt_x86_decode(&it->insn, it->bytes, n, it->ip, run->how) : -IPT_E_NOCODE;
	if (rc)
		memset(&it->insn, 0, sizeof(it->insn));
	if (is_hidden_int3(run, &it->insn)) {
		memset(&it->insn, 0, sizeof(it->insn));
		it->bytes[0] = 0xcc;
		it->insn.len = 1;
		it->insn.iclass = IPT_IC_FAR_CALL;
		it->insn.sub = IPT_IS_INT3;
		rc = 0;
	}
	/* A direct jump inside a RUN goes to the byte after it, else the RUN would have ended. */
	it->done = rc ? run->n : it->done + 1;
	return !rc;
}

const char *ipt_ev_name(enum ipt_ev_kind kind)
{
	static const char *const names[IPT_EV_N_KINDS] = {
		[IPT_EV_RUN] = "run",         [IPT_EV_CALL] = "call",
		[IPT_EV_RET] = "ret",         [IPT_EV_JUMP] = "jump",
		[IPT_EV_ASYNC] = "async",     [IPT_EV_ENABLE] = "enable",
		[IPT_EV_DISABLE] = "disable", [IPT_EV_TIME] = "time",
		[IPT_EV_SIGNAL] = "signal",   [IPT_EV_SYSCALL] = "syscall",
		[IPT_EV_PTW] = "ptwrite",     [IPT_EV_CBR] = "cbr",
		[IPT_EV_PROBE] = "probe",     [IPT_EV_MARK] = "mark",
		[IPT_EV_GAP] = "gap",         [IPT_EV_MAP] = "map",
		[IPT_EV_THREAD] = "thread",   [IPT_EV_STACK] = "stack",
		[IPT_EV_EXEC] = "exec",       [IPT_EV_NOTE] = "note",
	};

	return (unsigned)kind < IPT_EV_N_KINDS ? names[kind] : "unknown";
}

const char *ipt_gap_name(enum ipt_gap_cause cause)
{
	switch (cause) {
	case IPT_GAP_NONE: return "none";
	case IPT_GAP_BUFFER_FULL: return "buffer-full";
	case IPT_GAP_RECORDER_DIED: return "recorder-died";
	case IPT_GAP_DISK_FULL: return "disk-full";
	case IPT_GAP_REFUSED: return "refused";
	case IPT_GAP_NOT_FOLLOWED: return "not-followed";
	case IPT_GAP_OVF: return "overflow";
	case IPT_GAP_NO_CODE: return "no-code";
	case IPT_GAP_BAD_PACKET: return "bad-packet";
	case IPT_GAP_FLOW: return "flow";
	case IPT_GAP_TRUNCATED: return "truncated";
	case IPT_GAP_NO_PSB: return "no-psb";
	case IPT_GAP_LIMIT: return "limit";
	}
	return "unknown";
}
