/* SPDX-License-Identifier: MIT */
/* Requests of threads that run translated, and the keeper's wait for them and for stops at once. */
#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "session/priv.h"

#define WAKE_MAX   120u   /* bells waited for at once */
#define SPIN_TICKS 300000 /* TSC: looking on before sleeping; waking another CPU takes as long */
#define SLEEP_NS   100000000
#define POLL_NS    1000000 /* without futex_waitv() */
#define QUIET_NS   200000  /* when threads make no syscalls to wake us */

static void stop_it(struct thr *t)
{
	if (t->asked_stop)
		return;
	t->asked_stop = true;
	ptrace(PTRACE_INTERRUPT, t->tid, NULL, NULL);
}

static void act(struct thr *t, enum ipt_xl_ask ask, uint64_t va)
{
	struct aspace *as = t->proc->as;
	uint64_t tsc = ipt_sess_tsc();

	switch (ask) {
	case IPT_XL_ASK_NONE:
	case IPT_XL_ASK_DONE:
	case IPT_XL_ASK_WAIT: return;
	case IPT_XL_ASK_STEP: t->must_step = true; /* fall through */
	case IPT_XL_ASK_NEAR: stop_it(t); return;
	case IPT_XL_ASK_MAPS:
		ipt_xl_collect(t->xt, true, tsc);
		ipt_sess_sync_maps(t);
		break;
	case IPT_XL_ASK_STALE:
		ipt_xl_collect(t->xt, true, tsc);
		ipt_xl_invalidate(as->xl, va & ~4095ull, (va & ~4095ull) + 8192);
		break;
	}
	if (as->xl_retire) {
		stop_it(t);
		return;
	}
	ask = ipt_xl_answer(t->xt, &va);
	if (ask == IPT_XL_ASK_STEP || ask == IPT_XL_ASK_NEAR)
		act(t, ask, va);
}

static void note_ask(struct sess *s)
{
	uint64_t now = ipt_sess_tsc();

	s->ask_gap = (s->ask_gap * 3 + (now - s->last_ask)) / 4;
	s->last_ask = now;
}

static bool serve(struct thr *t)
{
	struct aspace *as = t->proc->as;
	enum ipt_xl_ask ask;
	uint64_t va;

	if (!t->xt || !ipt_xl_thread_inside(t->xt) || t->asked_stop)
		return false;
	ipt_xl_host(as->xl, t);
	ipt_u64map_fini(&as->fresh);
	ask = ipt_xl_serve(t->xt, &va, ipt_sess_tsc());
	if (ask == IPT_XL_ASK_NONE || ask == IPT_XL_ASK_WAIT)
		return false;
	note_ask(t->sess);
	if (ipt_xl_full(as->xl))
		ipt_xl_retire(t->sess, as);
	act(t, ask, va);
	return true;
}

bool ipt_xl_poll(struct sess *s)
{
	bool any = false, news;
	size_t it = 0;
	uint64_t key;
	void *v;

	if (!s->pool)
		return false;
	news = ipt_xl_pool_news(s->pool);
	while (ipt_u64map_next(&s->threads, &it, &key, &v)) {
		struct thr *t = v;

		if (t->state == THR_RUNNING && serve(t))
			any = true;
		if (news && t->xt)
			ipt_xl_collect(t->xt, false, 0);
		if (t->xt && !t->proc->as->xl_retire) {
			ipt_xl_host(t->proc->as->xl, t);
			any |= ipt_xl_improve(t->proc->as->xl);
		}
	}
	return any;
}

void ipt_xl_tick(struct sess *s)
{
	size_t it = 0;
	uint64_t key;
	void *v;

	while (s->pool && ipt_u64map_next(&s->threads, &it, &key, &v)) {
		struct thr *t = v;

		if (t->xt && ipt_xl_thread_inside(t->xt))
			ipt_xl_collect(t->xt, true, ipt_sess_tsc());
	}
}

/* --- waiting --- */

struct ipt_bells {
	uint32_t *word[WAKE_MAX + 1];
	uint32_t seen[WAKE_MAX + 1];
	unsigned int n;
	bool more;  /* than can be waited for */
	bool quiet; /* some do not ring loud enough to wake us */
};

static void add_bell(struct ipt_bells *b, uint32_t *word)
{
	for (unsigned int i = 0; i < b->n; i++) {
		if (b->word[i] == word)
			return;
	}
	if (b->n > WAKE_MAX) {
		b->more = true;
		return;
	}
	b->word[b->n] = word;
	b->seen[b->n++] = __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

bool ipt_xl_listen(struct sess *s)
{
	struct ipt_bells *b = s->bells;
	size_t it = 0;
	uint64_t key;
	void *v;

	if (!b)
		s->bells = b = ipt_xcalloc(1, sizeof(*b));
	b->n = 0;
	b->more = b->quiet = false;
	add_bell(b, &s->bell);
	while (ipt_u64map_next(&s->procs, &it, &key, &v)) {
		const struct proc *p = v;

		if (p->as && p->as->xl && p->as->n_inside) {
			add_bell(b, ipt_xl_bell(p->as->xl));
			b->quiet |= p->as->filtered;
		}
	}
	return b->n > 1;
}

static bool rung(const struct ipt_bells *b)
{
	for (unsigned int i = 0; i < b->n; i++) {
		if (__atomic_load_n(b->word[i], __ATOMIC_ACQUIRE) != b->seen[i])
			return true;
	}
	return false;
}

/* The second word of a bell asks threads to wake us. */
static void say_asleep(const struct ipt_bells *b, bool asleep)
{
	for (unsigned int i = 1; i < b->n; i++)
		__atomic_store_n(b->word[i] + 1, asleep, __ATOMIC_SEQ_CST);
}

static void wait_for(const struct ipt_bells *b)
{
	struct futex_waitv v[WAKE_MAX + 1];
	struct timespec ts;
	long r;

	for (unsigned int i = 0; i < b->n; i++) {
		v[i] = (struct futex_waitv){
			.val = b->seen[i], .uaddr = (uintptr_t)b->word[i], .flags = FUTEX_32};
	}
	clock_gettime(CLOCK_MONOTONIC, &ts);
	ts.tv_nsec += b->quiet ? QUIET_NS : b->more ? POLL_NS : SLEEP_NS;
	if (ts.tv_nsec >= 1000000000) {
		ts.tv_nsec -= 1000000000;
		ts.tv_sec++;
	}
	r = syscall(SYS_futex_waitv, v, b->n, 0, &ts, CLOCK_MONOTONIC);
	if (r < 0 && errno == ENOSYS) {
		ts = (struct timespec){.tv_nsec = POLL_NS};
		nanosleep(&ts, NULL);
	}
}

/* Nothing is asked: translate what is likely to be asked for, until something is. */
static void look_ahead(struct sess *s)
{
	size_t it = 0;
	uint64_t key;
	void *v;

	while (!rung(s->bells) && ipt_u64map_next(&s->threads, &it, &key, &v)) {
		struct thr *t = v;

		if (!t->xt || !ipt_xl_thread_inside(t->xt) || t->proc->as->xl_retire)
			continue;
		ipt_xl_host(t->proc->as->xl, t);
		while (!rung(s->bells) && ipt_xl_ahead(t->proc->as->xl))
			;
	}
}

void ipt_xl_sleep(struct sess *s)
{
	/* Where requests come one after the other the next is near too; else the CPU is better
	 * used by who converts. */
	bool soon = s->n_cpus > 1 && s->ask_gap < 4 * SPIN_TICKS;
	uint64_t until = ipt_sess_tsc() + (soon ? SPIN_TICKS : 0);
	struct ipt_bells *b = s->bells;

	look_ahead(s);
	while (!rung(b)) {
		if (ipt_sess_tsc() < until) {
			__builtin_ia32_pause();
			continue;
		}
		say_asleep(b, true);
		if (!rung(b))
			wait_for(b);
		say_asleep(b, false);
		return;
	}
}
