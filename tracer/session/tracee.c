/* SPDX-License-Identifier: MIT */
/* Tables of the traced processes and threads, and what /proc says of them. */
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "session/priv.h"

struct thr *ipt_sess_thr(struct sess *s, pid_t tid)
{
	return ipt_u64map_get(&s->threads, (uint64_t)tid);
}

struct thr *ipt_sess_add_thr(struct sess *s, pid_t tid, struct proc *p)
{
	struct thr *t = ipt_xcalloc(1, sizeof(*t));

	t->tid = tid;
	t->proc = p;
	t->sess = s;
	if (p)
		p->n_threads++;
	ipt_u64map_put(&s->threads, (uint64_t)tid, t);
	return t;
}

void ipt_sess_del_thr(struct sess *s, struct thr *t)
{
	struct proc *p = t->proc;

	ipt_u64map_del(&s->threads, (uint64_t)t->tid);
	if (t->step_log)
		fclose(t->step_log);
	free(t);
	if (p && --p->n_threads == 0)
		ipt_sess_del_proc(s, p);
}

struct proc *ipt_sess_proc(struct sess *s, pid_t pid)
{
	return ipt_u64map_get(&s->procs, (uint64_t)pid);
}

struct proc *ipt_sess_add_proc(struct sess *s, pid_t pid, pid_t ppid, struct aspace *as)
{
	struct proc *p = ipt_xcalloc(1, sizeof(*p));

	p->pid = pid;
	p->ppid = ppid;
	p->as = as;
	ipt_u64map_put(&s->procs, (uint64_t)pid, p);
	return p;
}

void ipt_sess_del_proc(struct sess *s, struct proc *p)
{
	if (ipt_u64map_get(&s->procs, (uint64_t)p->pid) == p)
		ipt_u64map_del(&s->procs, (uint64_t)p->pid);
	ipt_aspace_put(p->as);
	free(p);
}

static ssize_t read_proc(char *out, size_t n, pid_t tid, const char *what)
{
	char name[64];
	ssize_t got;
	int fd;

	snprintf(name, sizeof(name), "/proc/%d/%s", tid, what);
	fd = open(name, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	got = read(fd, out, n - 1);
	close(fd);
	if (got >= 0)
		out[got] = 0;
	return got;
}

void ipt_proc_comm(char *out, size_t n, pid_t tid)
{
	ssize_t got = read_proc(out, n, tid, "comm");

	if (got < 0)
		got = 0;
	out[got] = 0;
	if (got && out[got - 1] == '\n')
		out[got - 1] = 0;
}

static const char *status_field(char *buf, size_t n, pid_t tid, const char *field)
{
	size_t len = strlen(field);

	if (read_proc(buf, n, tid, "status") < 0)
		return NULL;
	for (char *l = buf; l; l = strchr(l, '\n'), l = l ? l + 1 : NULL) {
		if (!strncmp(l, field, len) && l[len] == ':')
			return l + len + 1;
	}
	return NULL;
}

long ipt_proc_status(pid_t tid, const char *field)
{
	char buf[8192];
	const char *v = status_field(buf, sizeof(buf), tid, field);

	return v ? strtol(v, NULL, 10) : -1;
}

uint64_t ipt_proc_sigmask(pid_t tid, const char *field)
{
	char buf[8192];
	const char *v = status_field(buf, sizeof(buf), tid, field);

	return v ? strtoull(v, NULL, 16) : 0;
}
