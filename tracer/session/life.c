/* SPDX-License-Identifier: MIT */
/* A traced thread's beginning, end and exec, as the trace tells them. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "session/priv.h"

static void open_step_log(struct thr *t)
{
	const char *base = t->sess->opts->step_log;
	char *name;

	if (!base)
		return;
	name = ipt_xasprintf("%s.%d.%d.%u", base, t->proc->pid, t->tid, ipt_wthread_gen(t->out));
	t->step_log = fopen(name, "we");
	if (!t->step_log)
		ipt_sess_warn(t->sess, "%s: %s: no step log of this thread", name, strerror(errno));
	free(name);
}

void ipt_thr_comm(struct thr *t)
{
	struct ipt_sb_head h = ipt_thr_head(t);
	char comm[sizeof(t->comm)];

	ipt_proc_comm(comm, sizeof(comm), t->tid);
	if (!comm[0] || !strcmp(comm, t->comm))
		return;
	memcpy(t->comm, comm, sizeof(comm));
	ipt_writer_record(t->sess->w, IPT_SB_COMM, &h, comm, strlen(comm) + 1);
}

static void write_stack(struct thr *t)
{
	struct ipt_sb_head h = ipt_thr_head(t);
	uint64_t addr[IPT_INITSTACK_MAX];
	struct ipt_sb_stack st = {.ip = t->regs.rip, .sp = t->regs.rsp};
	struct ipt_buf b = {0};

	st.n = (uint32_t)ipt_initstack(t->tid, addr, IPT_ARRAY_SIZE(addr), &st.flags);
	ipt_buf_append(&b, &st, sizeof(st));
	ipt_buf_append(&b, addr, st.n * sizeof(addr[0]));
	ipt_writer_record(t->sess->w, IPT_SB_STACK, &h, b.data, b.len);
	ipt_buf_fini(&b);
}

void ipt_thr_open(struct thr *t)
{
	struct ipt_sb_thread_start start;

	if (!t->proc->begun)
		t->start_flags |= IPT_SB_TF_LEADER;
	t->proc->begun = true;
	start = (struct ipt_sb_thread_start){
		.ppid = (uint32_t)t->start_ppid,
		.creator = t->creator,
		.flags = t->start_flags,
	};
	ipt_proc_comm(t->comm, sizeof(t->comm), t->tid);
	t->out = ipt_writer_thread(t->sess->w, t->proc->pid, t->tid, &start, t->comm,
				   ipt_sess_tsc());
	open_step_log(t);
}

void ipt_thr_begin(struct thr *t)
{
	struct sess *s = t->sess;
	bool new_space;

	if (!t->out)
		ipt_thr_open(t);
	new_space = (t->start_flags & (IPT_SB_TF_LEADER | IPT_SB_TF_FORKED)) == IPT_SB_TF_LEADER;
	t->abi32 = ipt_step_mode(&t->regs) != IPT_X64;
	t->bt = s->backend->thread_new(&s->bcfg, &ipt_remote, t, t->out);
	if (new_space)
		ipt_trap_begin(t);
	if (new_space && t->attached)
		ipt_sess_fresh_maps(t);
	/* A thread that was made begins anew; a forked one goes on below its parent's calls. */
	if (t->attached || (t->start_flags & IPT_SB_TF_FORKED))
		write_stack(t);
	ipt_thr_tell(t, IPT_STOP_OTHER, 0);
}

void ipt_thr_end(struct thr *t, int status, uint32_t flags)
{
	struct sess *s = t->sess;
	struct ipt_sb_thread_exit ex = {.status = (uint32_t)status, .flags = flags};

	if (!t->out)
		return;
	ipt_xl_end(t);
	if (t->bt) {
		if (t->sig.set)
			ipt_sess_write_signal(t, 0, WIFSIGNALED(status));
		if (!(flags & 1) && t->tid == t->proc->pid && !(flags & 2)) {
			struct ipt_sb_head h = ipt_thr_head(t);

			ipt_writer_record(s->w, IPT_SB_PROC_EXIT, &h, &ex, sizeof(ex));
		}
		if (s->backend->translates) {
			ipt_wthread_stepped(t->out, ipt_software_stepped(t->bt));
			ipt_wthread_stops(t->out, t->n_stops);
		}
		s->backend->thread_free(t->bt);
		t->bt = NULL;
	}
	ipt_wthread_exit(t->out, &ex, ipt_sess_tsc());
	t->out = NULL;
}

static char *read_link(pid_t tid, const char *what)
{
	char name[64], path[PATH_MAX];
	ssize_t n;

	snprintf(name, sizeof(name), "/proc/%d/%s", tid, what);
	n = readlink(name, path, sizeof(path) - 1);
	path[n < 0 ? 0 : n] = 0;
	return ipt_xstrdup(path);
}

static void read_cmdline(struct ipt_buf *b, pid_t tid)
{
	char name[64];
	ssize_t n;
	int fd;

	snprintf(name, sizeof(name), "/proc/%d/cmdline", tid);
	fd = open(name, O_RDONLY | O_CLOEXEC);
	while (fd >= 0 && b->len < (8u << 20) &&
	       (n = read(fd, ipt_buf_reserve(b, 65536), 65536)) > 0)
		b->len += (size_t)n;
	if (fd >= 0)
		close(fd);
	if (!b->len || b->data[b->len - 1])
		ipt_buf_u8(b, 0);
}

static void write_exec(struct thr *t, pid_t old_tid)
{
	struct ipt_sb_head h = ipt_thr_head(t);
	struct ipt_buf b = {0}, argv = {0};
	char *exe = read_link(t->tid, "exe");
	struct ipt_sb_exec ex = {
		.old_tid = old_tid == t->tid ? 0 : (uint32_t)old_tid,
		.n_path = (uint32_t)strlen(exe) + 1,
		.bits = ipt_step_mode(&t->regs) == IPT_X64 ? 64 : 32,
	};

	read_cmdline(&argv, t->tid);
	ex.n_argv = (uint32_t)argv.len;
	ipt_buf_append(&b, &ex, sizeof(ex));
	ipt_buf_append(&b, exe, ex.n_path);
	ipt_buf_append(&b, argv.data, argv.len);
	ipt_writer_record(t->sess->w, IPT_SB_EXEC, &h, b.data, b.len);
	ipt_buf_fini(&b);
	ipt_buf_fini(&argv);
	free(exe);
}

/* After exec only the caller lives, under the leader's tid. */
static void end_siblings(struct thr *t, pid_t old_tid)
{
	struct sess *s = t->sess;
	struct thr *old = old_tid != t->tid ? ipt_sess_thr(s, old_tid) : NULL;

	if (old) {
		ipt_thr_end(old, 0, 2);
		ipt_sess_del_thr(s, old);
	}
}

void ipt_thr_exec(struct thr *t, pid_t old_tid)
{
	struct aspace *as = t->proc->as;

	end_siblings(t, old_tid);
	t->sig.set = false;
	ipt_xl_end(t);
	ipt_thr_tell(t, IPT_STOP_EXEC, 0);
	t->proc->as = ipt_aspace_new();
	ipt_aspace_put(as);
	write_exec(t, old_tid);
	ipt_thr_comm(t);
	ipt_sess_fresh_maps(t);
}
