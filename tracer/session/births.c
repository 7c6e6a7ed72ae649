/* SPDX-License-Identifier: MIT */
/* New threads and processes: told of by who made them, by their own first stop, or by nobody. */
#include <sched.h>
#include <sys/ptrace.h>

#include "session/priv.h"

static enum ipt_sb_fork_kind fork_kind(int event, bool thread)
{
	if (thread)
		return IPT_SB_FORK_THREAD;
	return event == PTRACE_EVENT_VFORK  ? IPT_SB_FORK_VFORK
	       : event == PTRACE_EVENT_FORK ? IPT_SB_FORK_FORK
					    : IPT_SB_FORK_CLONE;
}

static struct thr *make_child(struct thr *t, pid_t tid, pid_t tgid, int event)
{
	struct sess *s = t->sess;
	bool thread = tgid == t->proc->pid;
	bool shares = thread || event == PTRACE_EVENT_VFORK || (t->clone_flags & CLONE_VM);
	struct proc *p = t->proc;
	struct thr *c;

	if (!thread) {
		struct aspace *as = shares ? ipt_aspace_get(p->as) : ipt_aspace_copy(p->as);

		p = ipt_sess_add_proc(s, tgid, t->proc->pid, as);
		p->trap_ignored = t->proc->trap_ignored;
		p->no_tsc = t->proc->no_tsc;
	}
	c = ipt_sess_add_thr(s, tid, p);
	c->state = THR_NEW;
	c->creator = (uint32_t)t->tid;
	c->start_ppid = p->ppid;
	c->let_go = !thread && !s->opts->follow;
	if (!thread)
		c->start_flags = IPT_SB_TF_FORKED | (shares ? IPT_SB_TF_SHARES_VM : 0u);
	return c;
}

void ipt_birth_event(struct thr *t, int event)
{
	struct sess *s = t->sess;
	unsigned long msg = 0;
	struct ipt_sb_fork rec;
	struct ipt_sb_head h;
	struct thr *c;
	long tgid;
	pid_t tid;

	if (ptrace(PTRACE_GETEVENTMSG, t->tid, NULL, &msg) < 0 || !t->out)
		return;
	tid = (pid_t)msg;
	tgid = ipt_proc_status(tid, "Tgid");
	if (tgid < 0)
		tgid = t->clone_flags & CLONE_THREAD ? t->proc->pid : tid;
	c = ipt_sess_thr(s, tid);
	if (!c)
		c = make_child(t, tid, (pid_t)tgid, event);
	ipt_sysc_child(t, c);
	if (!c->let_go && !c->out)
		ipt_thr_open(c);
	h = ipt_thr_head(t);
	rec = (struct ipt_sb_fork){
		.child_pid = (uint32_t)tgid,
		.child_tid = (uint32_t)tid,
		.child_gen = c->out ? ipt_wthread_gen(c->out) : UINT32_MAX,
		.kind = fork_kind(event, tgid == t->proc->pid),
	};
	ipt_writer_record(s->w, IPT_SB_FORK, &h, &rec, sizeof(rec));
	if (ipt_u64map_del(&s->early, (uint64_t)tid))
		ipt_birth_first_stop(c);
}

void ipt_birth_first_stop(struct thr *t)
{
	if (ptrace(PTRACE_GETREGS, t->tid, NULL, &t->regs) < 0)
		return;
	t->state = THR_STOPPED;
	ipt_sysc_child_begins(t);
	if (t->let_go) {
		if (ipt_step_clean_regs(&t->regs))
			ptrace(PTRACE_SETREGS, t->tid, NULL, &t->regs);
	} else if (!t->bt) {
		ipt_thr_begin(t);
	}
	ipt_thr_resume(t, 0);
}

/* A child whose parent died before it could tell of it. It has not run yet: it is taken as one that
 * is attached to. */
static void adopt_orphan(struct sess *s, pid_t tid)
{
	long tgid = ipt_proc_status(tid, "Tgid"), ppid = ipt_proc_status(tid, "PPid");
	struct proc *p;
	struct thr *t;

	ipt_u64map_del(&s->early, (uint64_t)tid);
	if (tgid < 0 || !s->w)
		return;
	p = ipt_sess_proc(s, (pid_t)tgid);
	if (!p)
		p = ipt_sess_add_proc(s, (pid_t)tgid, (pid_t)ppid, ipt_aspace_new());
	t = ipt_sess_add_thr(s, tid, p);
	t->start_ppid = (pid_t)ppid;
	t->let_go = !p->begun && !s->opts->follow;
	t->attached = !t->let_go;
	t->start_flags = IPT_SB_TF_ATTACHED;
	ipt_birth_first_stop(t);
}

/* Those that have waited for @age ticks. */
void ipt_birth_adopt(struct sess *s, unsigned int age)
{
	size_t it = 0;
	uint64_t key;
	void *v;

	while (ipt_u64map_next(&s->early, &it, &key, &v)) {
		if (s->ticks - ((uintptr_t)v - 1) >= age) {
			adopt_orphan(s, (pid_t)key);
			it = 0; /* the table changed */
		}
	}
}
