/* SPDX-License-Identifier: MIT */
/* What the files of the session share: the recording, its processes, threads and address spaces.
 * Keeper's side. */
#ifndef IPT_SESSION_PRIV_H
#define IPT_SESSION_PRIV_H

#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/user.h>

#include "backend/backend.h"
#include "session/session.h"
#include "store/store.h"

/* --- messages between front end and keeper (msg.c) --- */

enum msg_type {
	MSG_SEIZED,  /* keeper: the launched child is under ptrace; its gate is open */
	MSG_STARTED, /* keeper: the trace directory is made; text: its name */
	MSG_WARN,
	MSG_ERROR, /* keeper: the recording failed: code, text */
	MSG_DONE,  /* keeper: all ended; flags */
	MSG_STOP,  /* front end: detach */
	MSG_PID,   /* front end: the launched child's pid in code */
};

enum msg_flags {
	MSG_F_LOST = 1,
	MSG_F_DETACHED = 2,
};

struct msg {
	uint32_t type; /* enum msg_type */
	int32_t code;
	uint32_t flags;
	uint32_t pad;
	uint64_t pos;
	char text[4096];
};

int ipt_msg_send(int fd, enum msg_type type, int code, uint32_t flags, const char *text);
/* 1: a message; 0: the other side is gone; negative errno (-EAGAIN without blocking). */
int ipt_msg_recv(int fd, struct msg *m, bool block);

/* --- address spaces (aspace.c, maps.c, capture.c) --- */

struct amap { /* one executable mapping */
	uint64_t start, end, pgoff, inode;
	uint32_t dev_major, dev_minor, prot, kind;
	bool shared;          /* MAP_SHARED */
	bool touched;         /* it is or was writable: its bytes may be others than the trace's */
	char *path;           /* owned */
	uint64_t file_start;  /* where its file's first page is mapped; 0 unknown */
	uint8_t build_id[32]; /* after ipt_maps_build_id() */
	size_t n_build_id;
};

struct amap_list {
	struct amap *v; /* owned, sorted */
	size_t n, cap;
};

struct code_change {    /* replaced code while threads ran translated */
	uint32_t epoch; /* of the translations made after it */
	uint64_t seq;   /* its record */
};

struct code_range {
	uint64_t lo, hi;
};

struct code_ranges {
	struct code_range *v; /* owned, sorted, apart */
	size_t n, cap;
};

struct aspace {
	unsigned int refs;
	bool only_some; /* only code in `only` is recorded */
	struct code_ranges only, excluded;
	struct amap_list maps;
	struct ipt_u64map pages; /* va >> 12 to 4096 code bytes, as the trace has them; owned */
	struct ipt_xl *xl;       /* its translations; counted; NULL: none (yet) */
	uint64_t xl_inode;       /* of the file that it shares with us */
	bool filtered;           /* its syscalls are: none may be made in its name */
	const char *xl_why;      /* why nothing is translated in it; NULL: it is */
	bool xl_retire;          /* to be given up as soon as no thread is inside */
	unsigned int n_inside;   /* threads that run translated */
	struct thr *last;        /* lent: it is let go when the others have left */
	struct ipt_u64map fresh; /* pages compared with the program's for the request at hand */
	IPT_VEC(struct code_change) changes;
};

struct aspace *ipt_aspace_new(void);
struct aspace *ipt_aspace_get(struct aspace *as);
void ipt_aspace_put(struct aspace *as);
struct aspace *ipt_aspace_copy(const struct aspace *as);
struct amap *ipt_aspace_find(struct aspace *as, uint64_t va);
/* Code bytes at @va that the trace has; count. */
size_t ipt_aspace_read(const struct aspace *as, uint64_t va, uint8_t *out, size_t n);
void ipt_aspace_drop(struct aspace *as, uint64_t start, uint64_t end);
void ipt_aspace_store(struct aspace *as, uint64_t va, const uint8_t *p, size_t n);

/* Executable mappings of a process from /proc (maps.c). */
int ipt_maps_read(struct amap_list *out, pid_t tid);
/* Fill in the build-id, from the memory of the process. */
void ipt_maps_build_id(struct amap *m, pid_t tid);
void ipt_maps_fini(struct amap_list *l);

/* --- tracees (tracee.c) --- */

enum thr_state {
	THR_NEW, /* seized or announced; its first stop has not come */
	THR_RUNNING,
	THR_STOPPED,
	THR_LISTEN, /* in a group stop */
	THR_DEAD,   /* said that it ends; its exit status has not come */
};

struct proc {
	pid_t pid;
	pid_t ppid;        /* 0 unknown */
	struct aspace *as; /* counted */
	unsigned int n_threads;
	siginfo_t held; /* a SIGTRAP sent to it again without its data */
	bool held_sent;
	bool no_tsc;       /* RDTSC faults in it; what is translated uses it at syscalls */
	bool begun;        /* a thread of it has been opened */
	bool trap_ignored; /* it ignores SIGTRAP; the kernel no longer does (trapmask.c) */
};

struct pending_signal { /* a signal about to be delivered; written at the next stop, when its
			   handler is known */
	bool set;
	struct ipt_sb_signal rec;
};

struct thr {
	pid_t tid;
	struct proc *proc; /* lent */
	struct sess *sess; /* lent */
	enum thr_state state;
	struct ipt_wthread *out;      /* the writer's */
	struct ipt_bthread *bt;       /* owned */
	struct user_regs_struct regs; /* at the last stop */
	struct pending_signal sig;
	char comm[64]; /* as last told */
	uint32_t creator;
	uint32_t start_flags;
	pid_t start_ppid;
	bool attached;
	bool abi32;            /* the syscall it makes is of the 32-bit kind */
	siginfo_t held;        /* the SIGTRAP that waits */
	bool held_sent;        /* it was sent again without its data */
	bool let_go;           /* a child that is not followed: detach at its first stop */
	bool untraced_restore; /* CLONE_UNTRACED was taken out of the flags of the clone it makes */
	uint64_t clone_flags;  /* of the clone it makes */
	uint64_t child_flags;  /* CLONE_UNTRACED was taken out of its own copy of the flags: they */
	uint64_t child_mem;    /* are put back at its first stop; address, 0 in a register */
	bool in_syscall;       /* its entry stop came */
	bool renewing;         /* resumed without stepping to an interrupt at once */
	uint64_t renew_sp;     /* stack pointer then */
	uint64_t resumed_ip;   /* where it was resumed last */
	uint64_t rseq;         /* its struct rseq; 0 none */
	bool rseq_asked;
	uint64_t mask; /* its signal mask, while SIGTRAP is unblocked in it */
	bool mask_known, trap_unblocked;
	bool trap_waits;          /* a SIGTRAP came that its mask blocks */
	FILE *step_log;           /* owned */
	struct ipt_xl_thread *xt; /* its slot in the translations; owned */
	bool first_filter;        /* the syscall it makes may bring a filter of syscalls */
	bool dying;           /* killed where it ran translated: its registers are not its own */
	bool must_step;       /* the instruction at its address is not translated */
	bool resend_stop;     /* a SIGSTOP came while it made a syscall for us */
	bool asked_stop;      /* interrupted by us to leave the translations */
	unsigned int n_steps; /* since it ran translated last */
	size_t told_changes;  /* of its address space */
	uint64_t n_stops;     /* times it was stopped, or asked, while translated */
};

struct sess {
	const struct ipt_record_opts *opts;
	const struct ipt_backend_ops *backend;
	struct ipt_backend_cfg bcfg;
	struct ipt_writer *w; /* NULL until the program is there */
	char dir[PATH_MAX];
	int ctl;        /* socket to the front end */
	pid_t main_pid; /* launched program; 0: attach */
	pid_t front;
	int main_status;           /* as wait(2); -1 unknown */
	struct ipt_u64map threads; /* tid to struct thr; owned */
	struct ipt_u64map procs;   /* pid to struct proc; owned */
	struct ipt_u64map early; /* tids that stopped before they were announced: value is the tick
				    of it + 1 */
	bool detaching;
	bool detached;
	bool fatal; /* stop at once: error was sent */
	bool disk_full;
	bool leave; /* detaching: what is left cannot be stopped; our end lets it go */
	unsigned int ticks, detach_ticks;
	int cpu;        /* the one we are bound to; -1 free */
	cpu_set_t cpus; /* where we may run when free */
	unsigned int since_place;
	uint64_t last_step_ns;
	struct ipt_xl_pool *pool;     /* converts records; owned; NULL: nothing is translated */
	uint64_t begin_ns, begin_tsc; /* of the monotonic clock and the TSC */
	bool clock_measured;
	uint64_t last_ask, ask_gap; /* TSC: last request; between requests, lately */
	uint32_t bell;              /* rung by signals and by who converts */
	struct ipt_bells *bells;    /* owned (xl_serve.c) */
	struct filter *filter;      /* owned; NULL: all code is recorded */
	unsigned int n_cpus;
	struct { /* stops taken from the kernel while waiting for others */
		pid_t tid;
		int status;
	} stash[64];
	size_t n_stash;
	struct ipt_diag diag;
};

struct thr *ipt_sess_thr(struct sess *s, pid_t tid);
struct thr *ipt_sess_add_thr(struct sess *s, pid_t tid, struct proc *p);
void ipt_sess_del_thr(struct sess *s, struct thr *t);
struct proc *ipt_sess_proc(struct sess *s, pid_t pid);
struct proc *ipt_sess_add_proc(struct sess *s, pid_t pid, pid_t ppid, struct aspace *as);
void ipt_sess_del_proc(struct sess *s, struct proc *p);
/* Text of /proc/TID/comm. */
void ipt_proc_comm(char *out, size_t n, pid_t tid);
/* A decimal field of /proc/TID/status ("Tgid", "TracerPid", "PPid", "Uid"); -1 unknown. */
long ipt_proc_status(pid_t tid, const char *field);
/* A hexadecimal signal mask of it ("SigCgt"); 0 unknown. */
uint64_t ipt_proc_sigmask(pid_t tid, const char *field);

/* --- records of changes (sideband.c) --- */

uint64_t ipt_sess_tsc(void);
struct ipt_sb_head ipt_thr_head(const struct thr *t);
/* The process's mappings changed, perhaps: compare with /proc and record. */
void ipt_sess_sync_maps(struct thr *t);
/* All mappings anew (exec, first thread of an attached process). */
void ipt_sess_fresh_maps(struct thr *t);
/* Make sure that the trace knows the code at the thread's address as it is now; bytes for the
 * engine follow. */
void ipt_sess_check_code(struct thr *t);
/* The page of code at @va as the trace has it, when nothing can have changed it since; NULL. */
const uint8_t *ipt_sess_known_page(struct thr *t, uint64_t va);
/* The page of code at @va as it is and as the trace has it; NULL: no code there. Lent. */
const uint8_t *ipt_sess_code_page(struct thr *t, uint64_t va, bool *changeable);
void ipt_sess_write_signal(struct thr *t, uint64_t handler, bool fatal);
void ipt_sess_write_syscall(struct thr *t, bool returned);

/* --- threads' life (life.c) --- */

/* Open its file: THREAD_START. */
void ipt_thr_open(struct thr *t);
/* The thread is at its first stop: open it when that was not done, tell the backend. */
void ipt_thr_begin(struct thr *t);
/* It is gone: @status as wait(2), @flags of THREAD_EXIT. */
void ipt_thr_end(struct thr *t, int status, uint32_t flags);
void ipt_thr_exec(struct thr *t, pid_t old_tid);
/* Record its name when it has another than last told. */
void ipt_thr_comm(struct thr *t);

/* --- new threads and processes (births.c) --- */

/* A fork, vfork or clone event of @t. */
void ipt_birth_event(struct thr *t, int event);
/* The first stop of a thread that was made under trace. The thread may be gone afterwards. */
void ipt_birth_first_stop(struct thr *t);
/* Take those that stopped @age ticks ago and that nobody has told of. */
void ipt_birth_adopt(struct sess *s, unsigned int age);

/* --- stops (loop.c) and what is done beside them (tick.c) --- */

void ipt_sess_loop(struct sess *s);
/* Resume, or let go when the recording ends. The thread may be gone afterwards. */
void ipt_thr_resume(struct thr *t, int sig);
/* Tell the backend of a stop at the registers last read. */
void ipt_thr_tell(struct thr *t, enum ipt_stop_kind kind, int sig);
void ipt_sess_tick(struct sess *s);

/* --- syscalls made for a stopped thread (inject.c) --- */

struct inject { /* a thread borrowed */
	struct thr *t;
	uint64_t insn; /* address of a SYSCALL instruction */
	uint64_t mask; /* its signal mask */
	struct user_regs_struct saved;
	bool gone; /* it ended meanwhile */
};

/* Does it have a filter of syscalls that we do not have? */
bool ipt_sess_own_filter(const struct thr *t);
/* The thread stands in user code, or in a syscall that the kernel is to restart. False: no place to
 * make a syscall at. */
bool ipt_inject_begin(struct inject *in, struct thr *t);
/* Result as the kernel gives it. */
int64_t ipt_inject(struct inject *in, uint64_t nr, const uint64_t args[6]);
void ipt_inject_end(struct inject *in);

/* --- threads that run translated (xl.c, xl_map.c, xl_serve.c) --- */

/* Go on translated instead of stepped, when that is possible. */
bool ipt_xl_try_enter(struct thr *t);
/* It stopped: where it runs translated, the registers become its own. */
void ipt_xl_left(struct thr *t);
void ipt_xl_fix_siginfo(struct thr *t, siginfo_t *si);
/* It ended. */
void ipt_xl_end(struct thr *t);
/* May it be let go now, with @sig? Somebody must take the translations out when all have left. */
enum ipt_xl_go { IPT_XL_GO, IPT_XL_GO_HELD, IPT_XL_GO_LATER };
enum ipt_xl_go ipt_xl_may_go(struct thr *t, int sig);
/* It is about to be let go: take out of its process what is ours. */
void ipt_xl_let_go(struct thr *t, int sig);
/* Those held are let go, whoever else has not left. */
void ipt_xl_give_up(struct sess *s);
/* Code of [start, end) changed or went; @seq is the record of it. Before it the thread's stream had
 * its break. */
void ipt_xl_changed(struct thr *t, uint64_t start, uint64_t end, uint64_t seq);
/* Code was added where none was. */
void ipt_xl_added(struct thr *t);
/* Give up all translations of @as. */
void ipt_xl_retire(struct sess *s, struct aspace *as);
extern const struct ipt_xl_ops ipt_xl_host_ops;
/* NULL: done; else why not. */
const char *ipt_xl_setup(struct thr *t);
bool ipt_xl_map_cluster(struct thr *t, uint64_t va);
void ipt_xl_unmap(struct thr *t);
/* Serve waiting threads. True when there was something to do. */
bool ipt_xl_poll(struct sess *s);
/* What comes from now on ends the next ipt_xl_sleep(): stops, signals, requests, work done. True
 * when a thread runs translated: others tell of themselves by stops only. */
bool ipt_xl_listen(struct sess *s);
void ipt_xl_sleep(struct sess *s);
void ipt_xl_tick(struct sess *s);

/* --- code that is not recorded (filter.c) --- */

/* NULL: there is none. */
struct filter *ipt_filter_new(const struct ipt_record_opts *o);
void ipt_filter_free(struct filter *f);
/* Say which names nothing had. */
void ipt_filter_end(struct sess *s);
/* The mappings of @as changed. */
void ipt_filter_maps(struct filter *f, struct aspace *as);
void ipt_filter_copy(struct aspace *to, const struct aspace *from);
/* Is code at @va not to be recorded? */
bool ipt_filter_outside(const struct aspace *as, uint64_t va);

/* --- reaching a stopped thread (remote.c) --- */

extern const struct ipt_remote_ops ipt_remote;
int ipt_mem_read(pid_t tid, uint64_t va, void *out, size_t n);
/* As much as can be read from @va on; count. */
size_t ipt_mem_read_some(pid_t tid, uint64_t va, void *out, size_t n);
int ipt_mem_write(pid_t tid, uint64_t va, const void *p, size_t n);

/* --- call stack at attach (initstack.c) --- */

#define IPT_INITSTACK_MAX 256
/* Return addresses of a stopped thread, innermost first. Count; *flags as in struct ipt_sb_stack.
 */
size_t ipt_initstack(pid_t tid, uint64_t *out, size_t max, uint32_t *flags);

/* --- SIGTRAP while stepping (trapmask.c) --- */

void ipt_trap_unblock(struct thr *t); /* before a step */
void ipt_trap_restore(struct thr *t); /* before all else */
/* Is this signal to be kept from the thread now? */
bool ipt_trap_hold(struct thr *t, int sig, siginfo_t *si);
void ipt_trap_begin(struct thr *t);     /* first thread of a process that was not forked */
void ipt_trap_sigaction(struct thr *t); /* after rt_sigaction */

/* --- the rest --- */

/* --- the clock and the machine (hostinfo.c) --- */

void ipt_sess_begin_clock(struct sess *s);
void ipt_sess_end_clock(struct sess *s);
void ipt_sess_host_info(struct sess *s, struct ipt_session_info *info);

int ipt_sess_open_writer(struct sess *s);       /* keeper.c */
void ipt_place_near(struct sess *s, pid_t tid); /* place.c */
/* Run anywhere again. */
void ipt_place_free(struct sess *s);
int ipt_seize_process(struct sess *s, pid_t pid);                          /* seize.c */
int ipt_seize_child(struct sess *s, pid_t pid);                            /* seize.c */
void ipt_sess_detach_all(struct sess *s);                                  /* detach.c */
void ipt_thr_detach(struct thr *t, int sig);                               /* detach.c */
bool ipt_thr_step_trap_pending(const struct thr *t);                       /* detach.c */
void ipt_sess_warn(struct sess *s, const char *fmt, ...) IPT_PRINTF(2, 3); /* keeper.c */
void ipt_sess_fail(struct sess *s, int code, const char *fmt, ...) IPT_PRINTF(3, 4);
/* The keeper's main. Returns the process's exit status. */
int ipt_keeper_main(const struct ipt_record_opts *opts, const struct ipt_backend_ops *backend,
		    int ctl, int gate, bool launch);
/* Syscalls that matter (sysc.c): before the thread is resumed at one, and after it came back. */
void ipt_sysc_before(struct thr *t);
void ipt_sysc_after(struct thr *t);
/* It stopped, with @sig to come or 0: a wait that ended only because of us, or of a signal that it
 * ignores, is begun again. */
void ipt_sysc_keep_waiting(struct thr *t, int sig);
/* A child was born of @t: it may have a copy of flags that we changed. */
void ipt_sysc_child(const struct thr *t, struct thr *c);
void ipt_sysc_child_begins(struct thr *c);

#endif
