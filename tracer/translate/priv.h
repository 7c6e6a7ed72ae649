/* SPDX-License-Identifier: MIT */
/* What the files of translate share. */
#ifndef IPT_TRANSLATE_PRIV_H
#define IPT_TRANSLATE_PRIV_H

#include <pthread.h>
#include <sys/user.h>

#include "slot.h"
#include "translate.h"

#define MAX_ITEMS     160 /* instructions of a trace */
#define MAX_BRANCHES  40
#define MAX_EXITS     (MAX_BRANCHES + 2)
#define MAX_WAYS      24    /* indirect branches on a path */
#define BODY_MAX      32768 /* most bytes that one trace takes */
#define HOT_QUEUE     1024u /* a power of two */
#define AHEAD_MAX     256u
#define HOT_COUNT     64u /* a way out was taken so often: its trace may be worth more work */
#define HOT_LEVELS    3
#define SEGMENT_SLACK (64u << 10)
#define EXIT_CHUNK    IPT_RECORDS_CHUNK
#define TRACE_CHUNK   IPT_RECORDS_CHUNK
#define MAX_CHUNKS    4096u

enum regno { RAX, RCX, RDX, RBX, RSP, RBP, RSI, RDI };

enum stub_index { /* of LOW_ENTRY */
		  STUB_MISS,
		  STUB_FULL,
		  STUB_STEP,
		  STUB_MAPS,
		  STUB_STALE,
		  STUB_LOOKUP,
		  N_STUBS,
};

enum syscall_class { /* bytes of LOW_SYSTAB */
		     SYSC_PLAIN,
		     SYSC_STEP,
		     SYSC_MAPS,
		     SYSC_MMAP, /* MAPS when it maps code or replaces something */
};

/* --- records: ids of exits and traces, and two that no id reaches --- */

#define ID_RESUME 0xffffffffu /* back from a syscall; low and high half of the TSC follow */
#define ID_RAW    0xfffffffeu /* in place of a trace: address follows, low half first */
#define ID_OUT    0xfffffffdu /* as ID_RAW, of code that is filtered out */

enum exit_kind {
	EXIT_DIRECT,  /* to `target` */
	EXIT_JMP_IND, /* the id of the trace at the target follows */
	EXIT_CALL_IND,
	EXIT_RET,
	EXIT_SYSCALL, /* `target` is the instruction after it */
};

struct xexit {
	/* What converting a record of it looks at: one line of the CPU's cache. Special: quiet, a
	 * syscall, at a border of what is recorded; or none at all. Its ways go from the trace's
	 * head, or its last indirect branch, to here. */
	struct ipt_wexit w;
	uint8_t kind;
	uint8_t quiet;   /* its last branch may close a cycle without packets */
	bool out;        /* of code that is filtered out */
	bool target_out; /* direct, syscall: so is its target */
	uint32_t trace;
	uint64_t target;
	uint64_t likely;  /* indirect: where it goes most */
	uint32_t count;   /* how often it was taken (converter's, racy) */
	int32_t votes;    /* for `likely` */
	uint32_t jump;    /* its last instruction, in the cluster */
	uint32_t patch;   /* what tells that jump where to go: a rel32, or an address if `far`; 0:
			     none */
	uint32_t miss;    /* where that jump goes while not linked */
	uint32_t linked;  /* trace + 1 */
	uint32_t next_in; /* next exit + 1 that is linked to the same trace */
	bool far;         /* its target's translation may be out of reach of a rel32 */
} __attribute__((aligned(64)));

enum item_event {
	EV_NONE,
	EV_TAKEN,
	EV_NOT,
	EV_CALL,
	EV_RET,      /* to where the path goes on */
	EV_JMP_IND,  /* the same */
	EV_CALL_IND, /* the same */
};

struct item {          /* one instruction of a trace's path */
	int32_t delta; /* address - head */
	uint8_t event; /* enum item_event */
	uint8_t len;
};

/* What is put aside at a place, and where. */
enum point_flags {
	PT_RAX = 1,       /* in SL_RAX */
	PT_RCX = 2,       /* in SL_RCX */
	PT_RDX = 4,       /* in SL_RDX */
	PT_FLAGS = 8,     /* in SL_FLAGS */
	PT_TMP = 16,      /* register `reg` in SL_TMP */
	PT_EXITED = 32,   /* exit `aux` is recorded: the thread stands at its target */
	PT_POPPED = 64,   /* rsp was raised by `aux` */
	PT_PUSHED = 128,  /* rsp was lowered by 8 */
	PT_RESUMED = 256, /* the return from the syscall is recorded too */
	PT_R11 = 512,     /* rax is in r11 */
	PT_SYS = 1024,    /* after the syscall; rax, rdx as PT_RAX, PT_RDX say */
	PT_ENTRY = 2048,  /* at the entry for indirect branches, in the way that `aux` says */
	PT_TAKE = 4096,   /* exit `aux` is being taken, not yet recorded */
	PT_UNDO = 8192,   /* the last record is to be taken back: its syscall is not made */
	PT_PLAIN = 16384, /* in a plain way out by exit `aux`: by the offset in it */
};

enum entry_stage {
	ENTRY_TARGET, /* rcx is the target */
	ENTRY_SUM,    /* the target is rcx - rax */
	ENTRY_HEAD,   /* the target is this trace's head */
};

struct point { /* from offset `off` of the trace on */
	uint32_t off;
	uint16_t flags; /* enum point_flags */
	uint8_t item;   /* instructions done */
	uint8_t reg;
	uint32_t aux;
};

struct trace {
	uint64_t head;
	uint32_t epoch;
	uint32_t code; /* offset of the whole in its cluster */
	uint32_t body; /* of the first instruction */
	uint32_t imm;  /* of the negated head in the entry for indirect branches */
	uint32_t size;
	uint32_t first_exit;
	uint32_t in; /* first exit + 1 linked to it */
	uint16_t n_items;
	uint16_t n_points;
	uint8_t n_exits;
	uint8_t cluster;
	bool dead;
	bool checks;               /* compares its source */
	uint8_t level;             /* times its code was formed anew by what was taken */
	bool queued;               /* to be formed anew */
	bool out;                  /* of code that is filtered out */
	struct ipt_went *ways;     /* up to each indirect branch on the path; owned */
	struct ipt_way *way_store; /* what they point to; owned */
	struct item *items;        /* owned */
	struct point *points;
};

struct cluster {
	uint64_t va;
	uint8_t *mem; /* our mapping */
	uint32_t used;
	uint32_t ready;           /* pages up to here are in memory */
	IPT_VEC(uint32_t) traces; /* in order of their code */
};

struct decoded {
	uint64_t ip; /* 0: empty */
	struct ipt_insn_full f;
	uint8_t bytes[IPT_INSN_MAX];
	bool bad, check;
};

#define DECODE_SLOTS 2048u

struct ipt_xl {
	unsigned int refs, sharers;
	struct ipt_xl_cfg cfg;
	const struct ipt_xl_ops *ops;
	void *host;
	int fd;
	uint64_t low_va, slots_va, store_va;
	uint8_t *low; /* our mapping of tables and stubs */
	uint8_t *slots;
	struct cluster clusters[IPT_XL_CLUSTERS];
	unsigned int n_clusters;
	struct trace *trace_chunks[MAX_CHUNKS];
	uint64_t *head_chunks[MAX_CHUNKS]; /* their heads, for who needs only these */
	uint32_t n_traces;
	struct xexit *exit_chunks[MAX_CHUNKS];
	uint32_t n_exits;
	uint32_t n_exits_whole; /* whose traces are made: what records may name */
	uint64_t *push_chunks[MAX_CHUNKS];
	uint32_t n_pushes;
	struct ipt_u64map heads;  /* address to trace + 1 */
	struct ipt_u64map pages;  /* page to struct page_traces */
	struct ipt_u64map wanted; /* address to first exit + 1 that waits for its translation */
	uint32_t n_hashed;
	uint32_t epoch;
	uint64_t slot_map[IPT_XL_SLOTS / 64];
	unsigned int n_slots; /* in the file */
	bool nosys;           /* threads wait without syscalls */
	bool full;
	bool peek;               /* only code that is known to be the same as ever */
	uint32_t hot[HOT_QUEUE]; /* traces taken often, from converters to the owner */
	uint32_t n_hot_in, n_hot_out;
	uint64_t ahead[AHEAD_MAX]; /* addresses likely to be wanted; the last first */
	uint32_t n_ahead, ahead_left;
	struct decoded *cache; /* owned */
	uint8_t *room;         /* what is left of a block for what lives as long as the space */
	size_t room_left;
	IPT_VEC(void *) blocks;   /* owned */
	uint64_t head_bits[1024]; /* which addresses may be heads */
	struct build *build;      /* owned: room for the trace being made */
	struct robust *robust;    /* before `low` (space.c) */
};

/* Counters and marks that converters and the owner touch without order: a lost update does no harm.
 */
#define SEEN(x)    __atomic_load_n(&(x), __ATOMIC_RELAXED)
#define MARK(x, v) __atomic_store_n(&(x), (v), __ATOMIC_RELAXED)

static inline struct trace *trace_at(const struct ipt_xl *x, uint32_t i)
{
	return &x->trace_chunks[i / TRACE_CHUNK][i % TRACE_CHUNK];
}

static inline uint64_t head_at(const struct ipt_xl *x, uint32_t i)
{
	return x->head_chunks[i / TRACE_CHUNK][i % TRACE_CHUNK];
}

static inline struct xexit *exit_at(const struct ipt_xl *x, uint32_t i)
{
	return &x->exit_chunks[i / EXIT_CHUNK][i % EXIT_CHUNK];
}

/* Memory that lives as long as the space, zeroed (space.c). */
void *ipt_xl_keep(struct ipt_xl *x, size_t n);

/* Is @va filtered out? Owner's. */
static inline bool outside(const struct ipt_xl *x, uint64_t va)
{
	return x->cfg.filtered && x->ops->outside(x->host, va);
}

static inline uint32_t head_bit(uint64_t va)
{
	return (uint32_t)(va ^ va >> 16) & 0xffff;
}

/* --- decode.c --- */

/* The instruction at @ip; NULL: none, or no code. Lent until the next call. */
const struct decoded *ipt_xl_decode(struct ipt_xl *x, uint64_t ip);
void ipt_xl_forget(struct ipt_xl *x, uint64_t start, uint64_t end);
/* Instructions that must be stepped. */
bool ipt_xl_refused(const struct decoded *d);

/* --- live.c --- */

/* Are the arithmetic flags overwritten before they are read from @ip on? */
bool ipt_xl_flags_dead(struct ipt_xl *x, uint64_t ip);

/* --- form.c --- */

enum end_kind { END_DIRECT, END_JMP_IND, END_CALL_IND, END_RET, END_SYSCALL };

struct path_item {
	uint64_t ip;
	uint64_t other; /* COND: the way not taken; RET, indirect: where it goes on the path */
	struct ipt_insn_full f;
	uint8_t bytes[IPT_INSN_MAX];
	uint8_t event;
};

struct path {
	struct path_item v[MAX_ITEMS];
	unsigned int n, n_branches, n_ways;
	enum end_kind end;
	uint64_t next; /* END_DIRECT, END_SYSCALL: where it goes on */
	bool hot;      /* laid by the profile */
	bool check;    /* source must be compared */
	bool quiet;    /* ends with a branch that may close a cycle without packets */
};

/* Lay the path from @head; false: nothing can be translated there. @hot: long, by the profile. */
bool ipt_xl_form(struct ipt_xl *x, struct path *p, uint64_t head, bool hot);
/* May a trace from @head hold the instruction at @ip? */
bool ipt_xl_in_reach(uint64_t head, uint64_t ip);
/* Where the indirect way out @e goes nearly always; 0: here and there. */
uint64_t ipt_xl_likely(const struct xexit *e);

/* --- emit.c: bytes of code --- */

struct code {
	uint8_t *p;  /* where it is written */
	uint64_t va; /* where it runs */
	uint32_t n;
};

static inline void ipt_emit(struct code *c, const void *bytes, size_t n)
{
	memcpy(c->p + c->n, bytes, n);
	c->n += (uint32_t)n;
}

static inline void ipt_emit8(struct code *c, uint8_t v)
{
	c->p[c->n++] = v;
}

static inline void ipt_emit32(struct code *c, uint32_t v)
{
	ipt_emit(c, &v, sizeof(v));
}

static inline void ipt_emit64(struct code *c, uint64_t v)
{
	ipt_emit(c, &v, sizeof(v));
}

/* mov rcx, [rsp] */
void ipt_emit_load_top(struct code *c);
void ipt_emit_gs_load(struct code *c, unsigned int reg, uint32_t off);
void ipt_emit_gs_store(struct code *c, unsigned int reg, uint32_t off);
void ipt_emit_gs_imm(struct code *c, uint32_t off, uint32_t imm);
void ipt_emit_imm64(struct code *c, unsigned int reg, uint64_t v);
void ipt_emit_store_imm(struct code *c, unsigned int base, uint8_t disp, uint32_t imm);
void ipt_emit_lea8(struct code *c, unsigned int dst, unsigned int base, int8_t disp);
void ipt_emit_lea_sum(struct code *c, unsigned int dst, unsigned int other);
void ipt_emit_save_flags(struct code *c); /* into SL_FLAGS; takes rax */
void ipt_emit_load_flags(struct code *c); /* from there; takes rax */
/* jmp [abs32] */
void ipt_emit_jmp_abs(struct code *c, uint32_t at);
/* rel32 at @pos goes to offset @to of the same code. */
void ipt_emit_patch(struct code *c, uint32_t pos, uint32_t to);

/* --- build.c, exits.c, insn.c: one trace --- */

enum side_kind {
	SIDE_EXIT, /* the other way of a conditional branch */
	SIDE_RET,  /* the return address was another */
	SIDE_IND,  /* the target was another */
	SIDE_FULL, /* segment full: entry or exit `id` */
	SIDE_STALE,
	SIDE_SYSCALL, /* not a plain one */
	SIDE_NOTIFY,
	SIDE_FULL_SYSCALL, /* segment full after syscall `id` */
};

struct side { /* code behind the body */
	enum side_kind kind;
	uint32_t jump; /* rel32 that goes there */
	uint32_t back; /* where it may come back to */
	uint32_t id;
	uint8_t item; /* instructions done when it is reached */
	uint16_t flags;
	uint64_t target;            /* original address for the request */
	unsigned int pop;           /* RET: bytes */
	const struct path_item *it; /* IND */
};

#define MAX_SIDES (2 * MAX_EXITS + 8)
#define ID_TRACE  0x80000000u /* in SL_ID: the rest is a trace */

struct literal {
	uint32_t pos; /* rel32 that refers to it */
	uint64_t value, second;
	bool pair;
};

struct build {
	struct ipt_xl *x;
	const struct path *path;
	struct trace *t;
	uint32_t index; /* of the trace */
	struct code c;
	struct side sides[MAX_SIDES];
	unsigned int n_sides;
	struct literal literals[2 * MAX_SIDES + MAX_ITEMS];
	unsigned int n_literals;
	struct point points[MAX_ITEMS * 6];
	unsigned int n_points;
	unsigned int item;   /* instructions done so far */
	unsigned int n_ways; /* of the trace, made so far */
};

/* Make trace @index of @path in @cluster; its entry for indirect branches first. */
void ipt_xl_build(struct ipt_xl *x, uint32_t index, const struct path *path, unsigned int cluster);
/* From here on this holds. */
void ipt_xl_point(struct build *b, unsigned int flags, unsigned int reg, uint32_t aux);
/* @off: the last instruction went the other way than the path. */
uint32_t ipt_xl_new_exit(struct build *b, enum exit_kind kind, unsigned int done, uint64_t target,
			 bool off);
struct side *ipt_xl_side(struct build *b, enum side_kind kind, uint32_t jump);
/* The rel32 just emitted refers to @value. */
void ipt_xl_literal(struct build *b, uint64_t value);
void ipt_xl_literal_pair(struct build *b, uint64_t value, uint64_t second);

/* insn.c */
void ipt_xl_move(struct build *b, const struct path_item *it);
void ipt_xl_load_target(struct build *b, const struct path_item *it);
void ipt_xl_push_const(struct build *b, uint64_t v);
void ipt_xl_cond(struct build *b, const struct path_item *it);
void ipt_xl_ret_on_path(struct build *b, const struct path_item *it);
void ipt_xl_ind_on_path(struct build *b, const struct path_item *it);
unsigned int ipt_xl_ret_bytes(const struct path_item *it);
void ipt_xl_raise_rsp(struct build *b, unsigned int bytes);
/* Can @to be reached by a rel32 that ends at @end? */
bool ipt_xl_reaches(uint64_t end, uint64_t to, int32_t *rel);

/* exits.c */
void ipt_xl_entry(struct build *b);
void ipt_xl_check_source(struct build *b);
void ipt_xl_exit_direct(struct build *b, uint32_t id);
/* Flags of a place at @off of a plain way out. */
unsigned int ipt_xl_plain_flags(uint32_t off);
/* @off: the path goes elsewhere. */
void ipt_xl_exit_indirect(struct build *b, const struct path_item *it, enum exit_kind kind,
			  bool off);
void ipt_xl_sides(struct build *b);
void ipt_xl_jump_on(struct build *b, uint32_t id);
/* The rest of an indirect exit: rcx holds the target, SL_RCX and SL_RAX the program's. */
void ipt_xl_go_indirect(struct build *b, uint32_t id);
/* Ask the tracer: rcx and rax are the program's. */
void ipt_xl_request(struct build *b, unsigned int stub, uint64_t target, uint32_t id);

/* syscall.c */
void ipt_xl_exit_syscall(struct build *b, const struct path_item *it);
void ipt_xl_side_syscall(struct build *b, const struct side *s);
void ipt_xl_side_notify(struct build *b, const struct side *s);
void ipt_xl_side_full(struct build *b, const struct side *s);

/* --- cache.c --- */

/* Trace @index was left often. Any thread. */
void ipt_xl_warm(struct ipt_xl *x, uint32_t index);

void ipt_xl_add_head(struct ipt_xl *x, uint32_t index);
void ipt_xl_link(struct ipt_xl *x, uint32_t exit, uint32_t trace);
/* The cluster where code at @va is translated; -1: none is near. */
int ipt_xl_cluster_for(const struct ipt_xl *x, uint64_t va);
bool ipt_xl_is_head(const struct ipt_xl *x, uint64_t va);
struct trace *ipt_xl_find(const struct ipt_xl *x, uint64_t head, uint32_t *index);
uint64_t ipt_xl_body_va(const struct ipt_xl *x, const struct trace *t);
/* The trace whose code holds @va; NULL. */
struct trace *ipt_xl_trace_of(const struct ipt_xl *x, uint64_t va, uint32_t *index);
int ipt_xl_cluster_of(const struct ipt_xl *x, uint64_t va);

/* --- space.c --- */

extern const uint8_t ipt_xl_stubs[], ipt_xl_stubs_end[], ipt_xl_stub_miss[], ipt_xl_stub_full[],
	ipt_xl_stub_step[], ipt_xl_stub_maps[], ipt_xl_stub_stale[], ipt_xl_stub_lookup[],
	ipt_xl_stub_empty[], ipt_xl_stub_probe[], ipt_xl_stub_none[], ipt_xl_stub_saved[],
	ipt_xl_stub_wait[];

uint64_t ipt_xl_stub_va(const struct ipt_xl *x, const uint8_t *stub);
struct xexit *ipt_xl_exit_chunk(void);
/* Memory of ours that will be written: get its pages at once, which is cheaper. */
void ipt_xl_touch(void *p, uint64_t size);
/* Control block of a free slot; -1: none. */
int ipt_xl_slot_take(struct ipt_xl *x);
void ipt_xl_slot_release(struct ipt_xl *x, int slot);

/* --- conv.c, thread.c, pool.c --- */

/* A stretch of a thread's records on its way to packets. */
struct conv {
	const struct ipt_xl *x;                               /* lent */
	struct ipt_ptgen *g;                                  /* lent */
	void (*epoch_begins)(struct conv *c, uint32_t epoch); /* in the middle of its packets */
	void (*log_ip)(void *arg, uint64_t ip);               /* NULL: not wanted */
	void *log_arg;
	uint64_t resume_ip; /* after the syscall that it is in; 0: it is in none */
	bool resume_out;    /* that is filtered out */
	bool unsure;        /* whether it begins in code that is filtered out */
	uint64_t tsc;       /* of the last record that told one */
	uint32_t epoch;
	unsigned int sample; /* records still to be counted */
	uint32_t n_exits;    /* that there are */
	bool broken;         /* records made no sense: the rest was dropped */
	uint64_t insns;
};

struct work {                   /* records to convert */
	struct work *next;      /* in the pool's queue */
	struct work *next_done; /* of the thread, in order */
	struct conv c;
	const uint8_t *p, *end;
	unsigned int segment;
	bool finished;
	bool enabled; /* it begins in user code */
	bool outside; /* it ended in code that is filtered out */
	struct ipt_xl_thread *t;
	struct ipt_buf out;
};

struct ipt_xl_thread {
	struct ipt_xl *x; /* counted */
	struct ipt_xl_pool *pool;
	struct ipt_xl_sink sink;
	void *sink_arg;
	int slot;
	uint8_t *ctl; /* our mapping of its slot */
	uint64_t ctl_va;
	unsigned int segment; /* being filled */
	uint64_t from;        /* records from this address on have not been handed to conversion */
	uint64_t asks;
	uint64_t app_gs; /* the program's gs base */
	bool inside;     /* runs in the cache */
	bool broken;     /* its stream has a break that ends with the answer */
	struct conv c;   /* what is converted here and now */
	uint64_t insns;  /* handed out */
	/* Under the pool's lock. */
	unsigned int busy[IPT_XL_SEGMENTS]; /* work not done on each segment */
	unsigned int queued;
	struct work *works, **works_tail; /* not handed out yet, in order */
};

/* Convert records [p, end). With @hold a syscall at the end, which may not have been made yet, is
 * left: where what is left begins. */
const uint8_t *ipt_xl_convert(struct conv *c, const uint8_t *p, const uint8_t *end, bool hold);
/* The first @items instructions of trace @index ran; nothing else of it. */
void ipt_xl_convert_part(struct conv *c, uint32_t index, unsigned int items);
/* As if the record of @exit (direct) stood there. */
void ipt_xl_convert_exit(struct conv *c, uint32_t exit);
/* The indirect exit @exit went to @target, which is filtered out or not. */
void ipt_xl_convert_raw(struct conv *c, uint32_t exit, uint64_t target, bool out);
/* User code goes on at @ip. */
void ipt_xl_user_begins(struct conv *c, uint64_t ip, bool out);
/* Code of version @epoch holds from here, at @ip, on. */
void ipt_xl_begin_epoch(struct conv *c, uint64_t ip, uint32_t epoch);

/* Queue records [p, end) of @segment, of a thread that is in user code behind them. */
void ipt_xl_submit(struct ipt_xl_thread *t, const uint8_t *p, const uint8_t *end,
		   unsigned int segment);
/* All of its work is done. */
void ipt_xl_wait_idle(struct ipt_xl_thread *t);
bool ipt_xl_segment_free(struct ipt_xl_thread *t, unsigned int segment);
/* The next piece of work that is done and in order; the caller's, until it gives it back. NULL:
 * none. */
struct work *ipt_xl_take_work(struct ipt_xl_thread *t);
void ipt_xl_free_work(struct ipt_xl_pool *p, struct work *w);

/* --- where.c --- */

enum place_kind {
	PLACE_UNKNOWN,
	PLACE_PART,   /* `items` of trace `trace` are done */
	PLACE_TAKE,   /* exit `exit` is being taken */
	PLACE_EXITED, /* all is recorded; stands at `ip` */
	PLACE_RAW,    /* the indirect exit whose id stands at the pointer goes to `ip` */
};

struct place {
	enum place_kind kind;
	uint32_t trace, exit;
	unsigned int items;
	uint64_t ip;
	bool undo; /* the last record is taken back */
};

/* What @regs inside stand for; they become the original ones but for rip. */
struct place ipt_xl_where(const struct ipt_xl_thread *t, struct user_regs_struct *regs);

static inline uint64_t slot_u64(const struct ipt_xl_thread *t, unsigned int off)
{
	return __atomic_load_n((const uint64_t *)(const void *)(t->ctl + off), __ATOMIC_ACQUIRE);
}

static inline uint32_t slot_u32(const struct ipt_xl_thread *t, unsigned int off)
{
	return __atomic_load_n((const uint32_t *)(const void *)(t->ctl + off), __ATOMIC_ACQUIRE);
}

static inline void slot_put64(struct ipt_xl_thread *t, unsigned int off, uint64_t v)
{
	__atomic_store_n((uint64_t *)(void *)(t->ctl + off), v, __ATOMIC_RELEASE);
}

static inline void slot_put32(struct ipt_xl_thread *t, unsigned int off, uint32_t v)
{
	__atomic_store_n((uint32_t *)(void *)(t->ctl + off), v, __ATOMIC_RELEASE);
}

#endif
