/* SPDX-License-Identifier: MIT */
/* Threads that convert records while the program makes more. One thread's records are converted in
 * order, by one worker at a time. */
#include "priv.h"

#include <signal.h>
#include <stdlib.h>

#define MAX_WORKERS 8u

struct ipt_xl_pool {
	pthread_mutex_t lock;
	pthread_cond_t more, less;
	struct work *first, **tail;
	pthread_t workers[MAX_WORKERS];
	unsigned int n_workers;
	bool end;
	void (*wake)(void *arg);
	void *wake_arg;
};

/* The first whose thread nobody converts for. */
static struct work *next_work(struct ipt_xl_pool *p)
{
	for (struct work **w = &p->first; *w; w = &(*w)->next) {
		struct work *found = *w;

		if (found->t->running)
			continue;
		*w = found->next;
		if (!*w)
			p->tail = w;
		found->next = NULL;
		return found;
	}
	return NULL;
}

static void finish(struct work *w)
{
	struct ipt_xl_thread *t = w->t;

	if (w->first) {
		*t->done_tail = w->first;
		t->done_tail = w->tail;
	}
	t->busy[w->segment]--;
	t->queued--;
	t->running = false;
	free(w);
}

static void run(struct work *w)
{
	w->t->cur = w;
	ipt_ptgen_batch(w->t->g, true);
	ipt_xl_convert(w->t, w->p, w->end, w->tsc);
	ipt_ptgen_batch(w->t->g, false);
	w->t->cur = NULL;
}

static void *worker(void *arg)
{
	struct ipt_xl_pool *p = arg;
	struct work *w;

	pthread_mutex_lock(&p->lock);
	for (;;) {
		w = next_work(p);
		if (!w && p->end)
			break;
		if (!w) {
			pthread_cond_wait(&p->more, &p->lock);
			continue;
		}
		w->t->running = true;
		pthread_mutex_unlock(&p->lock);
		run(w);
		pthread_mutex_lock(&p->lock);
		finish(w);
		pthread_cond_broadcast(&p->less);
		if (p->first)
			pthread_cond_signal(&p->more);
		p->wake(p->wake_arg);
	}
	pthread_mutex_unlock(&p->lock);
	return NULL;
}

struct ipt_xl_pool *ipt_xl_pool_new(unsigned int workers, void (*wake)(void *arg), void *arg)
{
	struct ipt_xl_pool *p = ipt_xcalloc(1, sizeof(*p));
	sigset_t all, old;

	pthread_mutex_init(&p->lock, NULL);
	pthread_cond_init(&p->more, NULL);
	pthread_cond_init(&p->less, NULL);
	p->tail = &p->first;
	p->wake = wake;
	p->wake_arg = arg;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	while (p->n_workers < workers && p->n_workers < MAX_WORKERS &&
	       pthread_create(&p->workers[p->n_workers], NULL, worker, p) == 0)
		p->n_workers++;
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return p;
}

void ipt_xl_pool_free(struct ipt_xl_pool *p)
{
	if (!p)
		return;
	pthread_mutex_lock(&p->lock);
	p->end = true;
	pthread_cond_broadcast(&p->more);
	pthread_mutex_unlock(&p->lock);
	for (unsigned int i = 0; i < p->n_workers; i++)
		pthread_join(p->workers[i], NULL);
	pthread_mutex_destroy(&p->lock);
	pthread_cond_destroy(&p->more);
	pthread_cond_destroy(&p->less);
	free(p);
}

void ipt_xl_submit(struct ipt_xl_thread *t, const uint8_t *p, const uint8_t *end,
		   unsigned int segment, uint64_t tsc)
{
	struct ipt_xl_pool *pool = t->pool;
	struct work *w = ipt_xcalloc(1, sizeof(*w));

	*w = (struct work){.t = t, .p = p, .end = end, .tsc = tsc, .segment = segment};
	w->tail = &w->first;
	pthread_mutex_lock(&pool->lock);
	t->busy[segment]++;
	t->queued++;
	if (pool->n_workers) {
		*pool->tail = w;
		pool->tail = &w->next;
		pthread_cond_signal(&pool->more);
	} else {
		run(w);
		finish(w);
	}
	pthread_mutex_unlock(&pool->lock);
}

void ipt_xl_wait_idle(struct ipt_xl_thread *t)
{
	pthread_mutex_lock(&t->pool->lock);
	while (t->queued)
		pthread_cond_wait(&t->pool->less, &t->pool->lock);
	pthread_mutex_unlock(&t->pool->lock);
}

bool ipt_xl_segment_free(struct ipt_xl_thread *t, unsigned int segment)
{
	bool is;

	pthread_mutex_lock(&t->pool->lock);
	is = !t->busy[segment];
	pthread_mutex_unlock(&t->pool->lock);
	return is;
}

struct out_piece *ipt_xl_take_done(struct ipt_xl_thread *t)
{
	struct out_piece *first;

	pthread_mutex_lock(&t->pool->lock);
	first = t->done;
	t->done = NULL;
	t->done_tail = &t->done;
	pthread_mutex_unlock(&t->pool->lock);
	return first;
}
