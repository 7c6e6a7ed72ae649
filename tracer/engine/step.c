/* SPDX-License-Identifier: MIT */
/*
 * The step engine: one instruction at a time, the simplest correct code, and the oracle of the
 * others. It is told of every stop of its thread and says what ran between two of them. How a
 * thread is stopped and resumed is its host's.
 *
 * A thread is "armed" with the instruction it is resumed at. Syscalls are not stepped: the thread
 * runs to their entry and their exit, since the trap of a step out of the kernel is forced on the
 * thread and undoes a handler of SIGTRAP when that is blocked. Breakpoints end their packets before
 * the thread is resumed; everything else is told after the stop.
 */
#include "engine/engine.h"

#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/user.h>

#define FLAG_TF           0x100ull
#define FLAG_RF           0x10000ull
#define VSYSCALL_PAGE     0xffffffffff600000ull
#define USER64_CS         0x33
#define KERNEL_RESTART_LO (-516) /* -ERESTART_RESTARTBLOCK */
#define KERNEL_RESTART_HI (-512) /* -ERESTARTSYS */
#define SHADOW_MAX        64     /* MOV SS in a row that one step runs */

struct ipt_ethread {
	struct ipt_ptgen *g; /* owned */
	const struct ipt_remote_ops *remote;
	void *host;
	struct user_regs_struct regs; /* at the last stop */
	struct ipt_insn insn;         /* armed, at regs.rip */
	bool armed;                   /* insn is valid */
	bool sync_done;               /* armed insn and its TIP.PGD are in the stream already */
	bool restart;   /* the kernel will run the syscall again unless a handler comes first */
	bool signalled; /* a signal stop came; what is resumed is not known yet */
	uint64_t rseq_abort; /* the armed insn is in a restartable sequence: its abort handler */
	bool own_trap;
	bool in_syscall; /* between its entry and its exit */
	bool stale;      /* see engine.h */
	bool seen;       /* regs are those of a stop */
	uint64_t insns;
};

static struct ipt_ethread *thread_new(const struct ipt_ptgen_cfg *cfg,
				      const struct ipt_remote_ops *remote, void *host,
				      ipt_ptgen_sink sink, void *sink_arg)
{
	struct ipt_ethread *t = ipt_xcalloc(1, sizeof(*t));

	t->g = ipt_ptgen_new(cfg, sink, sink_arg);
	t->remote = remote;
	t->host = host;
	return t;
}

static void thread_free(struct ipt_ethread *t)
{
	if (!t)
		return;
	ipt_ptgen_free(t->g);
	free(t);
}

enum ipt_xmode ipt_step_mode(const struct user_regs_struct *r)
{
	return r->cs == USER64_CS ? IPT_X64 : IPT_X32;
}

static bool in_vsyscall(uint64_t ip)
{
	return (ip & ~0xfffull) == VSYSCALL_PAGE;
}

/* Inside the kernel with a restart to come: a value that no user code ever gets to see. */
static bool restart_due(const struct user_regs_struct *r)
{
	int64_t ax = (int64_t)r->rax;

	if (ipt_step_mode(r) != IPT_X64)
		ax = (int32_t)r->rax;
	return (int64_t)r->orig_rax >= 0 && ax >= KERNEL_RESTART_LO && ax <= KERNEL_RESTART_HI;
}

bool ipt_step_clean_regs(struct user_regs_struct *r)
{
	const uint64_t mask = ~(FLAG_TF | FLAG_RF);

	/* SYSCALL saves the flags in r11, the trap flag of the stepping with them. */
	if (ipt_step_mode(r) != IPT_X64 || !(r->r11 & FLAG_TF) || (r->eflags & FLAG_TF) ||
	    (r->r11 & mask) != (r->eflags & mask))
		return false;
	r->r11 &= ~FLAG_TF;
	return true;
}

static int decode_at(struct ipt_ethread *t, struct ipt_insn *insn, uint64_t ip, enum ipt_xmode mode)
{
	uint8_t code[IPT_INSN_MAX];
	size_t n = t->remote->read_code(t->host, ip, code, sizeof(code));

	if (!n)
		return -IPT_E_NOCODE;
	return ipt_x86_decode(insn, code, n, ip, mode);
}

static bool filtered_out(const struct ipt_ethread *t, uint64_t ip)
{
	return t->remote->outside && t->remote->outside(t->host, ip);
}

static void enable_at(struct ipt_ethread *t, uint64_t ip, uint64_t tsc)
{
	if (ipt_ptgen_enabled(t->g))
		return;
	if (filtered_out(t, ip))
		ipt_ptgen_enable_outside(t->g);
	else
		ipt_ptgen_enable(t->g, ip, ipt_step_mode(&t->regs), tsc);
}

static void end_async(struct ipt_ethread *t, uint64_t ip, uint64_t tsc)
{
	if (ipt_ptgen_enabled(t->g))
		ipt_ptgen_async(t->g, ip, tsc);
}

static bool read_insn(void *arg, uint64_t ip, struct ipt_insn *insn)
{
	struct ipt_ethread *t = arg;

	return decode_at(t, insn, ip, ipt_step_mode(&t->regs)) == 0;
}

static void interrupt_at(struct ipt_ethread *t, uint64_t ip, uint64_t tsc)
{
	end_async(t, ip, tsc);
	enable_at(t, ip, tsc);
}

static void emit_inside(struct ipt_ethread *t, const struct ipt_insn *insn, uint64_t ip,
			uint64_t next, enum ipt_xmode next_mode, uint64_t tsc)
{
	bool quiet = ipt_quiet_cycle(insn, ip, read_insn, t);

	if (quiet)
		interrupt_at(t, ip, tsc);
	ipt_ptgen_insn(t->g, insn, ip, next, next_mode, tsc);
	if (quiet && next != ip)
		interrupt_at(t, next, tsc);
}

static void emit(struct ipt_ethread *t, const struct ipt_insn *insn, uint64_t ip, uint64_t next,
		 enum ipt_xmode next_mode, uint64_t tsc)
{
	bool kernel = insn->iclass == IPT_IC_FAR_CALL && insn->sub != IPT_IS_NONE;

	if (ipt_ptgen_outside(t->g)) {
		if (!kernel && !filtered_out(t, next))
			ipt_ptgen_come(t->g, next, next_mode, tsc);
		return;
	}
	if (!kernel && filtered_out(t, next))
		ipt_ptgen_leave(t->g, next,
				insn->iclass != IPT_IC_OTHER && insn->iclass != IPT_IC_PTWRITE);
	else
		emit_inside(t, insn, ip, next, next_mode, tsc);
	t->insns++;
	if (t->remote->log_ip)
		t->remote->log_ip(t->host, ip);
}

static bool is_syscall(const struct ipt_insn *i)
{
	return i->sub == IPT_IS_SYSCALL || i->sub == IPT_IS_SYSENTER ||
	       (i->sub == IPT_IS_INT && i->imm == 0x80);
}

/* Is it a syscall made at @ip that comes back at @next? From 32-bit code SYSENTER and SYSCALL come
 * back at a place that the kernel chooses. */
static bool syscall_before(const struct ipt_insn *insn, uint64_t ip, uint64_t next,
			   enum ipt_xmode mode)
{
	if (insn->sub == IPT_IS_SYSENTER || (insn->sub == IPT_IS_SYSCALL && mode != IPT_X64))
		return true;
	return is_syscall(insn) && next == ip + insn->len;
}

/* Could @insn at @ip have gone to @next? */
static bool feasible(const struct ipt_insn *insn, uint64_t ip, uint64_t next, enum ipt_xmode mode)
{
	uint64_t seq = ip + insn->len;

	if (mode != IPT_X64)
		seq &= 0xffffffffu;
	switch ((enum ipt_iclass)insn->iclass) {
	case IPT_IC_OTHER:
	case IPT_IC_PTWRITE: return next == seq;
	case IPT_IC_COND: return next == seq || next == insn->target;
	case IPT_IC_JMP:
	case IPT_IC_CALL: return next == insn->target;
	case IPT_IC_JMP_IND:
	case IPT_IC_CALL_IND:
	case IPT_IC_RET:
	case IPT_IC_FAR_CALL:
	case IPT_IC_FAR_RET:
	case IPT_IC_FAR_JMP: return true;
	}
	return false;
}

static void lost(struct ipt_ethread *t, uint64_t from, uint64_t to, uint64_t tsc)
{
	end_async(t, from, tsc);
	if (t->remote->lost)
		t->remote->lost(t->host, from, to);
}

/* PUSHF stored the trap flag of the stepping: take it out of the stack. */
static void clean_pushed_flags(struct ipt_ethread *t, const struct user_regs_struct *now)
{
	uint16_t low;

	if (t->regs.eflags & FLAG_TF)
		return;
	if (t->remote->read(t->host, now->rsp, &low, sizeof(low)) == 0 && (low & FLAG_TF)) {
		low &= (uint16_t)~FLAG_TF;
		t->remote->write(t->host, now->rsp, &low, sizeof(low));
	}
}

/* Stepping over MOV SS or POP SS runs the next instruction too (its traps are held back for one
 * instruction); where that is another of them, some CPUs hold them back again. True when the armed
 * instruction and those after it lead to @end: those before the last are written, @last is at *@at.
 */
static bool shadow_chain(struct ipt_ethread *t,
			 bool (*is_end)(const struct ipt_insn *, uint64_t at, uint64_t end,
					enum ipt_xmode),
			 uint64_t end, struct ipt_insn *last, uint64_t *at, uint64_t tsc)
{
	enum ipt_xmode mode = ipt_step_mode(&t->regs);
	struct ipt_insn chain[SHADOW_MAX];
	uint64_t ip = t->regs.rip;
	size_t n = 0;

	*last = t->insn;
	while (last->sub == IPT_IS_MOV_SS && n < SHADOW_MAX && !is_end(last, ip, end, mode)) {
		chain[n++] = *last;
		ip += last->len;
		if (decode_at(t, last, ip, mode))
			return false;
	}
	if (!is_end(last, ip, end, mode))
		return false;
	*at = ip;
	ip = t->regs.rip;
	for (size_t i = 0; i < n; i++) {
		emit(t, &chain[i], ip, ip + chain[i].len, mode, tsc);
		ip += chain[i].len;
	}
	return true;
}

static bool emit_shadow(struct ipt_ethread *t, const struct user_regs_struct *now, uint64_t tsc)
{
	struct ipt_insn last;
	uint64_t at;

	if (!shadow_chain(t, feasible, now->rip, &last, &at, tsc))
		return false;
	t->insn = last;
	emit(t, &last, at, now->rip, ipt_step_mode(now), tsc);
	return true;
}

/* Control went from before @ip to @to, and the first instruction there ran. */
static void diverted(struct ipt_ethread *t, uint64_t ip, uint64_t to,
		     const struct user_regs_struct *now, uint64_t tsc)
{
	struct ipt_insn next;

	end_async(t, ip, tsc);
	if (now->rip == to)
		return;
	if (decode_at(t, &next, to, ipt_step_mode(&t->regs)) ||
	    !feasible(&next, to, now->rip, ipt_step_mode(&t->regs))) {
		lost(t, ip, now->rip, tsc);
		return;
	}
	enable_at(t, to, tsc);
	t->insn = next;
	emit(t, &next, to, now->rip, ipt_step_mode(now), tsc);
}

/* A stop makes the kernel abort a restartable sequence when the thread goes on: nothing of the
 * armed instruction happened. */
static bool sequence_aborted(struct ipt_ethread *t)
{
	return t->rseq_abort && !t->remote->rseq_abort(t->host, t->regs.rip);
}

/* The armed instruction at @ip ran and left the thread at @now. */
static void executed(struct ipt_ethread *t, const struct user_regs_struct *now, uint64_t tsc)
{
	uint64_t ip = t->regs.rip;
	const struct ipt_insn *insn = &t->insn;

	if (!t->armed) {
		lost(t, ip, now->rip, tsc);
		return;
	}
	if (sequence_aborted(t)) {
		diverted(t, ip, t->rseq_abort, now, tsc);
		return;
	}
	if (insn->sub == IPT_IS_REP_STRING && now->rip == ip)
		return; /* one iteration: the instruction is not done */
	if (insn->sub == IPT_IS_MOV_SS && now->rip != ip + insn->len) {
		if (!emit_shadow(t, now, tsc))
			lost(t, ip, now->rip, tsc);
	} else if (insn->sub == IPT_IS_XBEGIN) {
		/* The trap flag aborts a transaction at once; the trap may come only after the
		 * first instruction of the fallback. */
		diverted(t, ip, insn->target, now, tsc);
		return;
	} else if (!feasible(insn, ip, now->rip, ipt_step_mode(&t->regs))) {
		lost(t, ip, now->rip, tsc);
		return;
	} else {
		emit(t, insn, ip, now->rip, ipt_step_mode(now), tsc);
	}
	if (t->insn.sub == IPT_IS_PUSHF)
		clean_pushed_flags(t, now);
	/* An INTO that traps not: decoders expect a far transfer of each. */
	if (t->insn.sub == IPT_IS_INTO && ipt_ptgen_enabled(t->g))
		ipt_ptgen_disable(t->g, tsc);
}

/* The vsyscall page is no code: the kernel emulates the call and returns, and the step runs the
 * instruction there. */
static void ran_vsyscall(struct ipt_ethread *t, const struct user_regs_struct *now, uint64_t tsc)
{
	uint64_t ret = 0;

	end_async(t, t->regs.rip, tsc);
	if (t->remote->read(t->host, t->regs.rsp, &ret, sizeof(ret)) || now->rip == ret)
		return;
	t->armed = decode_at(t, &t->insn, ret, ipt_step_mode(now)) == 0;
	t->regs.rip = ret;
	enable_at(t, ret, tsc);
	executed(t, now, tsc);
}

static void on_step(struct ipt_ethread *t, const struct user_regs_struct *now, uint64_t tsc)
{
	t->own_trap = t->regs.eflags & FLAG_TF;
	if (in_vsyscall(t->regs.rip)) {
		ran_vsyscall(t, now, tsc);
	} else {
		/* An ignored signal, or a break while it ran: nothing else ran before. */
		enable_at(t, t->regs.rip, tsc);
		executed(t, now, tsc);
	}
	t->stale = t->armed && (t->insn.sub == IPT_IS_POPF || t->insn.sub == IPT_IS_IRET);
}

static void emit_syscall(struct ipt_ethread *t, const struct ipt_insn *insn, uint64_t ip,
			 const struct user_regs_struct *now, uint64_t tsc)
{
	enable_at(t, ip, tsc);
	emit(t, insn, ip, now->rip, ipt_step_mode(now), tsc);
	ipt_ptgen_disable(t->g, tsc);
}

/* A syscall that was interrupted and ignored the signal executes its instruction again. */
static bool ran_restart(struct ipt_ethread *t, const struct user_regs_struct *now, uint64_t tsc)
{
	struct ipt_insn insn;
	uint64_t ip = now->rip - 2;

	if (ipt_ptgen_enabled(t->g) || decode_at(t, &insn, ip, ipt_step_mode(now)) ||
	    insn.len != 2 || !is_syscall(&insn))
		return false;
	emit_syscall(t, &insn, ip, now, tsc);
	return true;
}

/* Instructions that shadow the next one, and the syscall after them. */
static bool ran_shadowed(struct ipt_ethread *t, const struct user_regs_struct *now, uint64_t tsc)
{
	struct ipt_insn last;
	uint64_t at;

	if (t->insn.sub != IPT_IS_MOV_SS)
		return false;
	enable_at(t, t->regs.rip, tsc);
	if (!shadow_chain(t, syscall_before, now->rip, &last, &at, tsc))
		return false;
	emit_syscall(t, &last, at, now, tsc);
	return true;
}

static void on_sysentry(struct ipt_ethread *t, const struct user_regs_struct *now, uint64_t tsc)
{
	bool known;

	t->in_syscall = true;
	t->signalled = false;
	if (t->armed && syscall_before(&t->insn, t->regs.rip, now->rip, ipt_step_mode(&t->regs))) {
		emit_syscall(t, &t->insn, t->regs.rip, now, tsc);
		return;
	}
	known = t->armed ? ran_shadowed(t, now, tsc) : t->restart && ran_restart(t, now, tsc);
	if (!known)
		lost(t, t->regs.rip, now->rip, tsc);
}

static void on_sysexit(struct ipt_ethread *t, const struct user_regs_struct *now, uint64_t tsc)
{
	/* Without an entry it was stepped. */
	if (!t->in_syscall && t->armed && is_syscall(&t->insn))
		emit_syscall(t, &t->insn, t->regs.rip, now, tsc);
	else if (!t->in_syscall && t->restart)
		ran_restart(t, now, tsc);
	t->in_syscall = false;
	t->signalled = false;
}

static void on_signal(struct ipt_ethread *t, const struct user_regs_struct *now, uint64_t tsc)
{
	if (t->armed && !t->sync_done && now->rip != t->regs.rip) {
		/* A trap after the instruction (INTO, INT1): it is done. */
		enable_at(t, t->regs.rip, tsc);
		executed(t, now, tsc);
		if (t->insn.iclass == IPT_IC_FAR_CALL && ipt_ptgen_enabled(t->g))
			ipt_ptgen_disable(t->g, tsc);
	}
	end_async(t, now->rip, tsc);
	t->signalled = true;
}

/* It may have been killed after an instruction, or at a syscall, whose trap never came. */
static void on_exit_stop(struct ipt_ethread *t, const struct user_regs_struct *now, uint64_t tsc)
{
	if (t->armed && !t->sync_done && now->rip != t->regs.rip) {
		if (!is_syscall(&t->insn))
			on_step(t, now, tsc);
		else if (!t->in_syscall &&
			 syscall_before(&t->insn, t->regs.rip, now->rip, ipt_step_mode(&t->regs)))
			emit_syscall(t, &t->insn, t->regs.rip, now, tsc);
	}
	end_async(t, now->rip, tsc);
}

static void stopped(struct ipt_ethread *t, const struct ipt_stop *stop)
{
	struct user_regs_struct now = *stop->regs;

	t->own_trap = false;
	/* A ptrace event may come between an instruction and the trap that tells of it: wait for
	 * that one. */
	if (stop->kind == IPT_STOP_OTHER && t->seen)
		return;
	t->seen = true;
	if (stop->kind != IPT_STOP_SIGNAL)
		t->stale = false;
	switch (stop->kind) {
	case IPT_STOP_STEP:
		on_step(t, &now, stop->tsc);
		t->signalled = false;
		break;
	case IPT_STOP_SYSENTRY: on_sysentry(t, &now, stop->tsc); break;
	case IPT_STOP_SYSEXIT: on_sysexit(t, &now, stop->tsc); break;
	case IPT_STOP_SIGNAL: on_signal(t, &now, stop->tsc); break;
	case IPT_STOP_ENTRY: t->signalled = false; break;
	case IPT_STOP_EXEC:
		end_async(t, now.rip, stop->tsc);
		t->in_syscall = true;
		t->signalled = false;
		break;
	case IPT_STOP_EXIT: on_exit_stop(t, &now, stop->tsc); break;
	case IPT_STOP_OTHER: break;
	}
	if (!ipt_ptgen_enabled(t->g) && ipt_step_clean_regs(&now))
		t->remote->set_regs(t->host, &now);
	t->restart = !ipt_ptgen_enabled(t->g) && !t->in_syscall && restart_due(&now) &&
		     stop->kind != IPT_STOP_ENTRY;
	t->regs = now;
	t->armed = t->sync_done = false;
}

static bool shadows_syscall(struct ipt_ethread *t)
{
	struct ipt_insn next = t->insn;
	uint64_t ip = t->regs.rip;

	for (int i = 0; i < SHADOW_MAX && next.sub == IPT_IS_MOV_SS; i++) {
		ip += next.len;
		if (decode_at(t, &next, ip, ipt_step_mode(&t->regs)))
			return false;
	}
	return next.sub != t->insn.sub && is_syscall(&next);
}

static enum ipt_step_how how_to(struct ipt_ethread *t)
{
	if (t->restart || t->in_syscall)
		return IPT_HOW_SYSCALL;
	return t->armed && (is_syscall(&t->insn) || shadows_syscall(t)) ? IPT_HOW_SYSCALL
									: IPT_HOW_STEP;
}

static enum ipt_step_how resume(struct ipt_ethread *t, uint64_t tsc)
{
	const struct user_regs_struct *r = &t->regs;

	if (t->restart || t->in_syscall || t->armed)
		return how_to(t);
	t->armed = !in_vsyscall(r->rip) && decode_at(t, &t->insn, r->rip, ipt_step_mode(r)) == 0;
	t->rseq_abort = t->remote->rseq_abort ? t->remote->rseq_abort(t->host, r->rip) : 0;
	if (t->signalled)
		return how_to(t);
	enable_at(t, r->rip, tsc);
	if (t->armed && t->insn.sub == IPT_IS_INT3) {
		emit(t, &t->insn, r->rip, r->rip + t->insn.len, ipt_step_mode(r), tsc);
		ipt_ptgen_disable(t->g, tsc);
		t->sync_done = true;
	}
	return how_to(t);
}

struct ipt_ptgen *ipt_step_ptgen(const struct ipt_ethread *t)
{
	return t->g;
}

void ipt_step_at(struct ipt_ethread *t, const struct user_regs_struct *regs)
{
	t->regs = *regs;
	t->seen = true;
	t->armed = t->sync_done = t->stale = t->signalled = t->in_syscall = t->own_trap = false;
	t->restart = !ipt_ptgen_enabled(t->g) && restart_due(regs);
}

bool ipt_step_idle(const struct ipt_ethread *t)
{
	return t->seen && !t->restart && !t->in_syscall && !t->signalled && !t->stale &&
	       !t->armed && ipt_step_mode(&t->regs) == IPT_X64 && !(t->regs.eflags & FLAG_TF);
}

static bool stale(const struct ipt_ethread *t)
{
	return t->stale;
}

static void code_break(struct ipt_ethread *t, uint64_t tsc)
{
	/* While running, the thread stands before its armed instruction, as far as the stream
	 * knows. */
	if (ipt_ptgen_enabled(t->g)) {
		ipt_ptgen_async(t->g, t->regs.rip, tsc);
		ipt_ptgen_flush(t->g);
	}
}

static bool disabled(const struct ipt_ethread *t)
{
	return !ipt_ptgen_enabled(t->g);
}

static uint64_t insns(const struct ipt_ethread *t)
{
	return t->insns;
}

static bool own_trap(const struct ipt_ethread *t)
{
	return t->own_trap;
}

const struct ipt_engine_ops ipt_engine_step = {
	.name = "step",
	.thread_new = thread_new,
	.thread_free = thread_free,
	.stopped = stopped,
	.resume = resume,
	.stale = stale,
	.code_break = code_break,
	.disabled = disabled,
	.insns = insns,
	.own_trap = own_trap,
};
