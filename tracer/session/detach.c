/* SPDX-License-Identifier: MIT */
/* Letting threads go with nothing of the tracing left in them. */
#include <sys/ptrace.h>

#include "session/priv.h"

bool ipt_thr_step_trap_pending(const struct thr *t)
{
	struct __ptrace_peeksiginfo_args args = {.off = 0, .flags = 0, .nr = 32};
	siginfo_t si[32];
	long n = ptrace(PTRACE_PEEKSIGINFO, t->tid, &args, si);

	for (long i = 0; i < n; i++) {
		if (si[i].si_signo == SIGTRAP &&
		    (si[i].si_code == TRAP_TRACE || si[i].si_code == TRAP_BRKPT))
			return true;
	}
	return false;
}

void ipt_thr_detach(struct thr *t, int sig)
{
	struct sess *s = t->sess;

	ipt_thr_tell(t, IPT_STOP_EXIT, 0);
	if (t->sig.set)
		ipt_sess_write_signal(t, 0, false);
	if (t->out)
		ipt_thr_comm(t);
	ipt_trap_restore(t);
	ipt_xl_let_go(t, sig);
	ptrace(PTRACE_DETACH, t->tid, NULL, (void *)(long)sig);
	ipt_thr_end(t, 0, 1);
	ipt_sess_del_thr(s, t);
}

void ipt_sess_detach_all(struct sess *s)
{
	size_t it = 0;
	uint64_t key;
	void *v;

	if (s->detaching)
		return;
	s->detaching = true;
	ipt_place_free(s);
	/* A stopped one is let go where its stop is handled; the rest come to a stop. */
	while (ipt_u64map_next(&s->threads, &it, &key, &v))
		ptrace(PTRACE_INTERRUPT, ((const struct thr *)v)->tid, NULL, NULL);
}
