/* SPDX-License-Identifier: MIT */
/* Taking threads under ptrace: a launched child, or every thread of a process that runs. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <unistd.h>

#include "session/priv.h"

static unsigned long options_of(const struct sess *s)
{
	unsigned long o = PTRACE_O_TRACEEXEC | PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK |
			  PTRACE_O_TRACEVFORK | PTRACE_O_TRACEEXIT | PTRACE_O_TRACESYSGOOD;

	return s->opts->kill_on_exit ? o | PTRACE_O_EXITKILL : o;
}

int ipt_seize_child(struct sess *s, pid_t pid)
{
	struct thr *t;

	if (ptrace(PTRACE_SEIZE, pid, NULL, (void *)options_of(s)) < 0)
		return -errno;
	t = ipt_sess_add_thr(s, pid, ipt_sess_add_proc(s, pid, s->front, ipt_aspace_new()));
	t->state = THR_RUNNING;
	t->start_flags = IPT_SB_TF_LEADER;
	t->start_ppid = s->front;
	return 0;
}

static long yama_scope(void)
{
	char c = 0;
	int fd = open("/proc/sys/kernel/yama/ptrace_scope", O_RDONLY | O_CLOEXEC);

	if (fd >= 0) {
		if (read(fd, &c, 1) != 1)
			c = 0;
		close(fd);
	}
	return c >= '0' && c <= '9' ? c - '0' : -1;
}

/* Why this thread cannot be traced, with the remedy. */
static void explain(struct sess *s, pid_t pid, pid_t tid, int err)
{
	long tracer = ipt_proc_status(tid, "TracerPid");
	long uid = ipt_proc_status(tid, "Uid");
	long scope = yama_scope();
	char link[64], path[PATH_MAX];

	snprintf(link, sizeof(link), "/proc/%d/exe", pid);
	if (err == ESRCH)
		ipt_sess_fail(s, ESRCH, "process %d: no such process", pid);
	else if (tracer > 0)
		ipt_sess_fail(s, IPT_E_TRACED,
			      "process %d: already traced by process %ld; stop that one first", pid,
			      tracer);
	else if (pid == s->front || pid == getpid())
		ipt_sess_fail(s, EPERM, "process %d: iptrace cannot trace itself", pid);
	else if (geteuid() == 0 && readlink(link, path, sizeof(path)) < 0 && errno == ENOENT)
		ipt_sess_fail(s, EPERM, "process %d: a kernel thread has no user code to trace",
			      pid);
	else if (uid >= 0 && (uid_t)uid != geteuid() && geteuid() != 0)
		ipt_sess_fail(
			s, EPERM,
			"process %d: belongs to user %ld; run iptrace as that user or as root", pid,
			uid);
	else if (scope >= 1 && geteuid() != 0)
		ipt_sess_fail(
			s, EPERM,
			"process %d: not permitted, since kernel.yama.ptrace_scope is %ld; set "
			"it to 0 or run iptrace as root",
			pid, scope);
	else
		ipt_sess_fail(s, err, "process %d: %s%s", pid, strerror(err),
			      err == EPERM
				      ? "; it may be set-user-id or not dumpable: run iptrace with "
					"CAP_SYS_PTRACE"
				      : "");
}

/* One pass over /proc/PID/task: 1 when a new thread was seized, 0 when none, negative errno. */
static int seize_pass(struct sess *s, struct proc *p, bool *any)
{
	char name[64];
	struct dirent *e;
	int found = 0, err = 0;
	DIR *d;

	snprintf(name, sizeof(name), "/proc/%d/task", p->pid);
	d = opendir(name);
	if (!d)
		return -ESRCH;
	while (!err && (e = readdir(d))) {
		pid_t tid = (pid_t)strtol(e->d_name, NULL, 10);
		struct thr *t;

		if (tid <= 0 || ipt_sess_thr(s, tid))
			continue;
		if (ptrace(PTRACE_SEIZE, tid, NULL, (void *)options_of(s)) < 0) {
			/* Ours already (cloned by a seized thread), gone, or a real obstacle. */
			if (errno == ESRCH || ipt_proc_status(tid, "TracerPid") == getpid())
				continue;
			err = -errno;
			explain(s, p->pid, tid, errno);
			break;
		}
		ptrace(PTRACE_INTERRUPT, tid, NULL, NULL);
		t = ipt_sess_add_thr(s, tid, p);
		t->attached = true;
		t->state = THR_NEW;
		t->start_flags = IPT_SB_TF_ATTACHED;
		t->start_ppid = p->ppid;
		*any = true;
		found = 1;
	}
	closedir(d);
	return err ? err : found;
}

int ipt_seize_process(struct sess *s, pid_t pid)
{
	long tgid = ipt_proc_status(pid, "Tgid");
	bool any = false;
	struct proc *p;
	int r;

	if (tgid < 0) {
		explain(s, pid, pid, ESRCH);
		return -ESRCH;
	}
	if (ipt_sess_proc(s, (pid_t)tgid))
		return 0; /* named twice */
	if (tgid == s->front || tgid == getpid()) {
		explain(s, (pid_t)tgid, (pid_t)tgid, EPERM);
		return -EPERM;
	}
	p = ipt_sess_add_proc(s, (pid_t)tgid, (pid_t)ipt_proc_status((pid_t)tgid, "PPid"),
			      ipt_aspace_new());
	do {
		r = seize_pass(s, p, &any);
	} while (r > 0);
	if (r < 0 || !any) {
		if (r >= 0 || r == -ESRCH)
			explain(s, pid, pid, ESRCH);
		return r < 0 ? r : -ESRCH;
	}
	return 0;
}
