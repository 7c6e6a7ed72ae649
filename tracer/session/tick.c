/* SPDX-License-Identifier: MIT */
/* What is done beside the stops, every tenth of a second: look after the front end, write, give up
 * waiting. */
#include <errno.h>
#include <poll.h>

#include "session/priv.h"

/* Threads that no request stops (a parent in vfork) are in a syscall, with all of theirs given
 * back: the kernel lets them go when we end. */
static void leave_rest(struct sess *s)
{
	size_t it = 0;
	uint64_t key;
	void *v;

	while (ipt_u64map_next(&s->threads, &it, &key, &v)) {
		const struct thr *t = v;

		bool untouched = t->state == THR_NEW && t->attached && !t->bt;

		if (!untouched && (t->state != THR_RUNNING || !t->in_syscall || t->trap_unblocked))
			return;
	}
	it = 0;
	while (ipt_u64map_next(&s->threads, &it, &key, &v)) {
		struct thr *t = v;

		ipt_thr_tell(t, IPT_STOP_EXIT, 0);
		ipt_thr_end(t, 0, 1);
	}
	s->leave = true;
}

static void kill_targets(struct sess *s)
{
	size_t it = 0;
	uint64_t key;
	void *v;

	while (ipt_u64map_next(&s->procs, &it, &key, &v))
		kill(((const struct proc *)v)->pid, SIGKILL);
}

static void check_front(struct sess *s)
{
	struct pollfd p = {.fd = s->ctl, .events = POLLIN};
	struct msg m;
	int r;

	if (s->detaching || poll(&p, 1, 0) <= 0)
		return;
	r = ipt_msg_recv(s->ctl, &m, false);
	if (r == -EAGAIN || (r == 1 && m.type != MSG_STOP))
		return;
	if (r != 1 && s->opts->kill_on_exit) {
		kill_targets(s);
		return;
	}
	s->detached = true;
	ipt_sess_detach_all(s);
}

void ipt_sess_tick(struct sess *s)
{
	s->ticks++;
	check_front(s);
	if (s->detaching && ++s->detach_ticks >= 4) {
		ipt_xl_give_up(s);
		leave_rest(s);
	}
	if (!s->w)
		return;
	ipt_birth_adopt(s, s->detaching ? 0 : 5);
	ipt_xl_tick(s);
	ipt_writer_flush(s->w);
	if (ipt_writer_error(s->w) && !s->detaching) {
		s->disk_full = true;
		ipt_sess_warn(s, "%s: %s; the program runs on untraced", s->dir,
			      ipt_strerror(ipt_writer_error(s->w)));
		ipt_sess_detach_all(s);
	}
}
