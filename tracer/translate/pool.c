/* SPDX-License-Identifier: MIT */
/*
 * Threads that convert records while the program makes more. Each piece of work is a stretch of its
 * own, which begins with a PSB+ and needs to know nothing of what came before: pieces of one thread
 * are converted at once, and handed out in order.
 */
#include "priv.h"

#include <signal.h>
#include <stdlib.h>

#define MAX_WORKERS 16u
#define MAX_SPARE   8u

struct ipt_xl_pool {
	pthread_mutex_t lock;
	pthread_cond_t more, less;
	struct work *first, **tail;
	pthread_t workers[MAX_WORKERS];
	unsigned int n_workers;
	struct ipt_ptgen_cfg cfg;
	struct ipt_ptgen *own; /* for work without workers; owned */
	struct ipt_buf *out;   /* where `own` writes now */
	/* Of work that is done: fresh memory costs more than what is written to it. */
	struct ipt_buf spare[MAX_SPARE];
	unsigned int n_spare;
	bool news; /* work was done; racy */
	bool end;
	void (*wake)(void *arg);
	void *wake_arg;
};

static void take_bytes(void *arg, const uint8_t *p, size_t n)
{
	struct ipt_buf **out = arg;

	if (*out)
		ipt_buf_append(*out, p, n);
}

static void run(struct work *w, struct ipt_ptgen *g, struct ipt_buf **out)
{
	*out = NULL;
	ipt_ptgen_seam(g, w->enabled, 0);
	*out = &w->out;
	w->c.g = g;
	w->c.unsure = w->enabled && w->c.x->cfg.filtered;
	ipt_ptgen_batch(g, true);
	ipt_xl_convert(&w->c, w->p, w->end, false);
	ipt_ptgen_flush(g);
	ipt_ptgen_batch(g, false);
	w->outside = ipt_ptgen_outside(g);
	*out = NULL;
}

static void finish(struct work *w)
{
	w->finished = true;
	w->t->busy[w->segment]--;
	w->t->queued--;
}

static void *worker(void *arg)
{
	struct ipt_xl_pool *p = arg;
	struct ipt_buf *out = NULL;
	struct ipt_ptgen *g = ipt_ptgen_new(&p->cfg, take_bytes, &out);
	struct work *w;

	pthread_mutex_lock(&p->lock);
	for (;;) {
		w = p->first;
		if (!w && p->end)
			break;
		if (!w) {
			pthread_cond_wait(&p->more, &p->lock);
			continue;
		}
		p->first = w->next;
		if (!p->first)
			p->tail = &p->first;
		pthread_mutex_unlock(&p->lock);
		run(w, g, &out);
		pthread_mutex_lock(&p->lock);
		finish(w);
		pthread_cond_broadcast(&p->less);
		MARK(p->news, true);
		p->wake(p->wake_arg);
	}
	pthread_mutex_unlock(&p->lock);
	ipt_ptgen_free(g);
	return NULL;
}

struct ipt_xl_pool *ipt_xl_pool_new(unsigned int workers, const struct ipt_ptgen_cfg *cfg,
				    void (*wake)(void *arg), void *arg)
{
	struct ipt_xl_pool *p = ipt_xcalloc(1, sizeof(*p));
	sigset_t all, old;

	pthread_mutex_init(&p->lock, NULL);
	pthread_cond_init(&p->more, NULL);
	pthread_cond_init(&p->less, NULL);
	p->tail = &p->first;
	p->cfg = *cfg;
	p->own = ipt_ptgen_new(cfg, take_bytes, &p->out);
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
	ipt_ptgen_free(p->own);
	for (unsigned int i = 0; i < p->n_spare; i++)
		ipt_buf_fini(&p->spare[i]);
	free(p);
}

bool ipt_xl_pool_news(struct ipt_xl_pool *p)
{
	bool is = SEEN(p->news);

	if (is)
		MARK(p->news, false);
	return is;
}

void ipt_xl_submit(struct ipt_xl_thread *t, const uint8_t *p, const uint8_t *end,
		   unsigned int segment)
{
	struct ipt_xl_pool *pool = t->pool;
	struct work *w = ipt_xcalloc(1, sizeof(*w));

	*w = (struct work){.t = t, .c = t->c, .p = p, .end = end, .segment = segment};
	w->c.insns = 0;
	pthread_mutex_lock(&pool->lock);
	if (pool->n_spare)
		w->out = pool->spare[--pool->n_spare];
	/* Records converted before may have ended inside a syscall. */
	w->enabled = t->works || ipt_ptgen_enabled(t->c.g);
	t->busy[segment]++;
	t->queued++;
	*t->works_tail = w;
	t->works_tail = &w->next_done;
	/* A log of instructions is written in order. */
	if (pool->n_workers && !w->c.log_ip) {
		*pool->tail = w;
		pool->tail = &w->next;
		pthread_cond_signal(&pool->more);
	} else {
		run(w, pool->own, &pool->out);
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

struct work *ipt_xl_take_work(struct ipt_xl_thread *t)
{
	struct work *w;

	pthread_mutex_lock(&t->pool->lock);
	w = t->works;
	if (w && !w->finished)
		w = NULL;
	if (w) {
		t->works = w->next_done;
		if (!t->works)
			t->works_tail = &t->works;
	}
	pthread_mutex_unlock(&t->pool->lock);
	return w;
}

void ipt_xl_free_work(struct ipt_xl_pool *p, struct work *w)
{
	pthread_mutex_lock(&p->lock);
	if (p->n_spare < MAX_SPARE) {
		w->out.len = 0;
		p->spare[p->n_spare++] = w->out;
		w->out = (struct ipt_buf){0};
	}
	pthread_mutex_unlock(&p->lock);
	ipt_buf_fini(&w->out);
	free(w);
}
