/* SPDX-License-Identifier: MIT */
/*
 * translate: program code to code that records where it went. Makes translations of one address
 * space in memory shared with its threads, keeps them linked, tells the original state behind any
 * place in them, and turns the records that they leave into packets. Knows no ptrace: the host maps
 * the memory into the program, runs its threads there and answers their requests.
 */
#ifndef IPT_TRANSLATE_H
#define IPT_TRANSLATE_H

#include "base/base.h"
#include "engine/engine.h"
#include "x86/x86.h"

/* --- the memory shared with the program: one file, mapped by both sides --- */

#define IPT_XL_SLOTS         4096u
#define IPT_XL_SEGMENTS      6u
#define IPT_XL_SEGMENT_BYTES (1u << 20)
#define IPT_XL_SLOT_BYTES    (8ull << 20) /* control block, then segments */
#define IPT_XL_CLUSTERS      12u
#define IPT_XL_CLUSTER_BYTES (64ull << 20)

enum ipt_xl_prot { /* of a piece, in the program */
		   IPT_XL_RW,
		   IPT_XL_RX,
};

struct ipt_xl_piece { /* what the host maps into the program, shared */
	uint64_t va, off, size;
	uint64_t from; /* where it is mapped already and is to be moved from; 0: nowhere */
	enum ipt_xl_prot prot;
};

/* The first pieces: tables below 2 GiB, stubs behind them, slots and code memory anywhere. Code
 * memory is moved by clusters to where it is needed: no descriptor of the file stays open in the
 * program. */
#define IPT_XL_FIRST_PIECES 4u
#define IPT_XL_MAX_PIECES   (IPT_XL_CLUSTERS + 4u)

/* --- an address space's translations --- */

struct ipt_xl;

enum ipt_xl_page_flags {
	IPT_XL_PAGE_CHECK = 1, /* may change without a word: translations check their source */
	IPT_XL_PAGE_PEEK = 2,  /* asked with: no look at the program, no record is made */
};

struct ipt_xl_ops {
	/* The 4096 code bytes of the page at @va as they are now and as the trace has them; lent
	 * until the next call. NULL: no code there. *flags is read and written. */
	const uint8_t *(*page)(void *host, uint64_t va, unsigned int *flags);
	/* Is @va code that is filtered out? Asked when cfg.filtered. */
	bool (*outside)(void *host, uint64_t va);
	/* A hole of the program's address space for @size bytes within [lo, hi); 0: none. */
	uint64_t (*hole)(void *host, uint64_t lo, uint64_t hi, uint64_t size);
};

struct ipt_xl_cfg {
	bool noretcomp;
	bool all_syscalls; /* each syscall is stepped (they are recorded) */
	bool fsgsbase;
	bool filtered; /* some code is not to be recorded */
};

/* @host is handed to the ops; it may be changed with ipt_xl_host(). */
struct ipt_xl *ipt_xl_new(const struct ipt_xl_cfg *cfg, const struct ipt_xl_ops *ops, void *host);
struct ipt_xl *ipt_xl_get(struct ipt_xl *x);
void ipt_xl_put(struct ipt_xl *x);
/* Another address space with the same code uses it too (a fork), until ipt_xl_unshare(). */
struct ipt_xl *ipt_xl_share(struct ipt_xl *x);
void ipt_xl_unshare(struct ipt_xl *x);
unsigned int ipt_xl_sharers(const struct ipt_xl *x);
void ipt_xl_host(struct ipt_xl *x, void *host);

/* Size the file; where its first pieces go in the program. 0, -ENOMEM when there is no room, or an
 * errno. @fd is taken over. */
int ipt_xl_open(struct ipt_xl *x, int fd, struct ipt_xl_piece first[IPT_XL_FIRST_PIECES]);
/* Is there code memory within reach of @va? */
bool ipt_xl_near(const struct ipt_xl *x, uint64_t va);
/* The next cluster, near @va: to be mapped before ipt_xl_add_cluster(). -ENOSPC, -ENOMEM. */
int ipt_xl_next_cluster(struct ipt_xl *x, uint64_t va, struct ipt_xl_piece *piece);
void ipt_xl_add_cluster(struct ipt_xl *x, const struct ipt_xl_piece *piece);
/* Everything mapped into the program so far; count. */
size_t ipt_xl_pieces(const struct ipt_xl *x, struct ipt_xl_piece out[IPT_XL_MAX_PIECES]);
/* Is @va in the memory that threads run in? */
bool ipt_xl_inside(const struct ipt_xl *x, uint64_t va);
/* The program's instruction whose translation is at @va; 0: none is. */
uint64_t ipt_xl_original(const struct ipt_xl *x, uint64_t va);
/* True when code memory or tables are full: the space must be given up for a new one. */
bool ipt_xl_full(const struct ipt_xl *x);

/* The place where a thread at @head goes on, translating it when that was not done; 0: cannot be
 * translated, or no cluster is near (ipt_xl_near). */
uint64_t ipt_xl_enter(struct ipt_xl *x, uint64_t head);
/* Code in [start, end) changed or went away: no thread gets into its translations any more. */
void ipt_xl_invalidate(struct ipt_xl *x, uint64_t start, uint64_t end);
/* A new version of some code exists from now on; its number. */
uint32_t ipt_xl_bump(struct ipt_xl *x);
/* Translate some code that is likely to be wanted soon. False: there is nothing to do. */
bool ipt_xl_ahead(struct ipt_xl *x);
/* Ways out were taken so often that their code is worth forming anew: do so. True when something
 * was done. */
bool ipt_xl_improve(struct ipt_xl *x);

/* --- threads --- */

struct ipt_xl_thread; /* one thread's slot, records and their conversion */

struct ipt_xl_pool;
/* @workers threads that convert; 0: conversion happens where records are collected. @wake is called
 * by a worker after each piece of work. */
struct ipt_xl_pool *ipt_xl_pool_new(unsigned int workers, const struct ipt_ptgen_cfg *cfg,
				    void (*wake)(void *arg), void *arg);
void ipt_xl_pool_free(struct ipt_xl_pool *p);
/* Was work done since this was asked last? It is to be handed out: its memory is used again. */
bool ipt_xl_pool_news(struct ipt_xl_pool *p);

/* What conversion hands out, in order, from ipt_xl_collect() only. */
struct ipt_xl_sink {
	void (*pt)(void *arg, const uint8_t *p, size_t n);
	/* The thread is about to run code of version @epoch for the first time: the stream has a
	 * break for it here. */
	void (*epoch)(void *arg, uint32_t epoch);
	/* Records were lost: the program wrote into the memory that holds them. */
	void (*lost)(void *arg);
	/* An instruction was executed; NULL: not wanted. */
	void (*log_ip)(void *arg, uint64_t ip);
};

/* @g is lent: packets go there, in batches while records are converted. NULL when all slots are
 * taken. */
struct ipt_xl_thread *ipt_xl_thread_new(struct ipt_xl *x, struct ipt_xl_pool *pool,
					struct ipt_ptgen *g, const struct ipt_xl_sink *sink,
					void *arg);
void ipt_xl_thread_free(struct ipt_xl_thread *t);
/* It goes into the cache at @regs (original state): sets rip and gs base of @regs. */
bool ipt_xl_thread_enter(struct ipt_xl_thread *t, struct user_regs_struct *regs, uint64_t tsc);
/*
 * It was stopped with @regs inside: all that it did is converted, @regs become the original state.
 * @in_kernel: it stands in or right after a syscall. False: the place is not known (a bug).
 */
bool ipt_xl_thread_leave(struct ipt_xl_thread *t, struct user_regs_struct *regs, uint64_t tsc);
/* It is gone, registers unknown: convert what it recorded. */
void ipt_xl_thread_gone(struct ipt_xl_thread *t, uint64_t tsc);
/* Hand out what conversion made so far. @all: wait for it, and convert what has been recorded up to
 * now (the thread waits for an answer, or is stopped). */
void ipt_xl_collect(struct ipt_xl_thread *t, bool all, uint64_t tsc);
bool ipt_xl_thread_inside(const struct ipt_xl_thread *t);
/* It waits for an answer and its code is about to change: all that it did is converted, its stream
 * ends with a break until the answer. */
bool ipt_xl_break(struct ipt_xl_thread *t, uint64_t tsc);
/* It has been told of all versions up to now. */
void ipt_xl_thread_told(struct ipt_xl_thread *t);
uint64_t ipt_xl_thread_insns(const struct ipt_xl_thread *t);
uint64_t ipt_xl_thread_asks(const struct ipt_xl_thread *t);

/* --- requests of threads that wait --- */

enum ipt_xl_ask {
	IPT_XL_ASK_NONE,
	IPT_XL_ASK_DONE,  /* served */
	IPT_XL_ASK_WAIT,  /* served later: no free segment */
	IPT_XL_ASK_STEP,  /* stop it: the instruction at *va must be stepped, or has no code */
	IPT_XL_ASK_NEAR,  /* stop it: code memory near *va must be mapped first */
	IPT_XL_ASK_MAPS,  /* look for changed mappings, then answer */
	IPT_XL_ASK_STALE, /* code at *va changed: look, then answer */
};

/* Look at the thread's request and serve it, or say what the host must do. */
enum ipt_xl_ask ipt_xl_serve(struct ipt_xl_thread *t, uint64_t *va, uint64_t tsc);
/* Let a thread go on that asked for MAPS or STALE. As ipt_xl_serve(). */
enum ipt_xl_ask ipt_xl_answer(struct ipt_xl_thread *t, uint64_t *va);
/* Threads that wait make no syscalls from now on, not even to wake the tracer. */
void ipt_xl_no_syscalls(struct ipt_xl *x, bool none);
/* No syscall is made without a stop any more, as with cfg.all_syscalls. */
void ipt_xl_step_syscalls(struct ipt_xl *x);
/* The counter that requests raise, and the word that says that the tracer sleeps. */
uint32_t *ipt_xl_bell(const struct ipt_xl *x);

#endif
