/* SPDX-License-Identifier: MIT */
/*
 * The binary records of a trace directory, as iptrace-trace(5) specifies them. Little-endian,
 * 8-byte aligned.
 *
 * DIR/sideband is struct ipt_sb_file_hdr, then records: struct ipt_sb_hdr and a payload, hdr.size
 * bytes in all. Readers skip records of unknown type by their size.
 */
#ifndef IPTRACE_FORMAT_H
#define IPTRACE_FORMAT_H

#include <stdint.h>

#define IPT_FORMAT_VERSION 2 /* since 2: IPT_SB_AT; a reader reads those before it, too */
#define IPT_SB_MAGIC       0x31425345434152ull /* "RACESB1\0" in file order */
#define IPT_SB_MAX_REC     (16u << 20)         /* bytes of the largest record */

struct ipt_sb_file_hdr {
	uint64_t magic;
	uint16_t version;
	uint16_t hdr_size; /* bytes of this header */
	uint32_t flags;    /* 0 */
};

enum ipt_sb_type {
	IPT_SB_THREAD_START = 1, /* struct ipt_sb_thread_start, comm */
	IPT_SB_THREAD_EXIT = 2,  /* struct ipt_sb_thread_exit */
	IPT_SB_EXEC = 3, /* struct ipt_sb_exec, path, argv (NUL separated); ends all maps of the
			    process */
	IPT_SB_MAP = 4, /* struct ipt_sb_map, positions, build-id, path; executable mappings only */
	IPT_SB_UNMAP = 5,    /* struct ipt_sb_range, positions */
	IPT_SB_PROTECT = 6,  /* struct ipt_sb_range, positions: range is no longer executable */
	IPT_SB_CODE = 7,     /* struct ipt_sb_map as for MAP: the bytes of a mapped range changed */
	IPT_SB_FORK = 8,     /* struct ipt_sb_fork */
	IPT_SB_SIGNAL = 9,   /* struct ipt_sb_signal */
	IPT_SB_SYSCALL = 10, /* struct ipt_sb_syscall */
	IPT_SB_COMM = 11,    /* comm, NUL-terminated */
	IPT_SB_GAP = 12,     /* struct ipt_sb_gap, text */
	IPT_SB_PROBE = 13,   /* reserved */
	IPT_SB_MARK = 14,    /* text */
	IPT_SB_STACK = 15,   /* struct ipt_sb_stack, return addresses (u64 each, innermost first) */
	IPT_SB_PROC_EXIT = 16, /* struct ipt_sb_thread_exit: wait status of a process */
	IPT_SB_AT = 17, /* struct ipt_sb_at: an earlier change of code begins for this thread */
};

enum ipt_sb_flags {
	IPT_SB_F_BOUNDED = 1, /* the position is not exact: it is at most `bound` away */
	IPT_SB_F_NO_TSC = 2,  /* tsc is unknown */
};

/* Head of each record. A position (pt_off) is a byte offset in the thread's PT stream: what the
 * record tells takes effect before the packet that begins there. It is a packet boundary. */
struct ipt_sb_hdr {
	uint16_t type;  /* enum ipt_sb_type */
	uint16_t flags; /* enum ipt_sb_flags */
	uint32_t size;  /* of header and payload, a multiple of 8 */
	uint32_t check; /* low half of XXH3-64 over the record with this field 0 */
	uint32_t pid;
	uint32_t tid;
	uint32_t gen;    /* of the tid */
	uint64_t seq;    /* global order, from 1, no holes */
	uint64_t tsc;    /* when */
	uint64_t pt_off; /* of the acting thread */
	uint64_t bound;  /* TSC ticks, with IPT_SB_F_BOUNDED; 0: unknown */
};

struct ipt_sb_thread_start {
	uint32_t ppid;    /* of the process; 0 unknown */
	uint32_t creator; /* tid that made it; 0 at launch and attach */
	uint32_t flags;   /* enum ipt_sb_thread_flags */
	uint32_t pad;
	/* comm, NUL-terminated, padded */
};

enum ipt_sb_thread_flags {
	IPT_SB_TF_LEADER = 1,   /* first thread of its process in this trace: a new address space
				   follows by MAP records */
	IPT_SB_TF_ATTACHED = 2, /* ran before the trace began */
	IPT_SB_TF_FORKED =
		4, /* process begins with the maps of process ppid as they are at this record */
	IPT_SB_TF_SHARES_VM =
		8, /* with FORKED: shares them for its life (vfork, CLONE_VM) until exec */
};

struct ipt_sb_thread_exit {
	uint32_t status; /* as wait(2) gives it */
	uint32_t flags;  /* 1: detached, still running; 2: became the leader's tid by exec; 4: end
			    not seen */
};

struct ipt_sb_exec {
	uint32_t old_tid; /* the tid that called exec, when it was not the leader's; else 0 */
	uint32_t n_path;  /* bytes of the path, NUL included */
	uint32_t n_argv;  /* bytes of argv, NULs included */
	uint32_t bits;    /* 32 or 64 */
};

/* Where a change of the address space takes effect in the stream of another thread of the process.
 */
struct ipt_sb_pos {
	uint32_t tid;
	uint32_t gen;
	uint64_t pt_off;
	uint64_t bound; /* TSC ticks; 0 with exact */
	uint32_t flags; /* enum ipt_sb_flags */
	uint32_t pad;
};

/* The MAP, UNMAP, PROTECT or CODE with this seq, which does not name the thread of this record's
 * head, takes effect for it at the head's pt_off, as do all changes before it that it did not meet
 * yet. */
struct ipt_sb_at {
	uint64_t seq;
};

enum ipt_sb_map_kind {
	IPT_SB_MAP_FILE = 1,
	IPT_SB_MAP_VDSO = 2,
	IPT_SB_MAP_VSYSCALL = 3,
	IPT_SB_MAP_ANON = 4,
	IPT_SB_MAP_KERNEL = 5,
};

struct ipt_sb_map {
	uint64_t start, end; /* virtual addresses */
	uint64_t pgoff;      /* file offset of start, bytes */
	uint8_t image[16]; /* content id: XXH3-128, canonical form; all zero: bytes are not known */
	uint64_t image_off; /* where start's byte is in the image, bytes */
	uint64_t inode;
	uint32_t dev_major, dev_minor;
	uint32_t prot;       /* PROT_* */
	uint32_t kind;       /* enum ipt_sb_map_kind */
	uint32_t n_pos;      /* struct ipt_sb_pos that follow */
	uint32_t n_build_id; /* bytes, then padded to 8 */
	uint32_t n_path;     /* bytes, NUL included */
	uint32_t pad;
};

struct ipt_sb_range {
	uint64_t start, end;
	uint32_t prot;
	uint32_t n_pos;
};

struct ipt_sb_fork {
	uint32_t child_pid;
	uint32_t child_tid;
	uint32_t child_gen;
	uint32_t kind; /* enum ipt_sb_fork_kind */
};

enum ipt_sb_fork_kind {
	IPT_SB_FORK_FORK = 1,
	IPT_SB_FORK_VFORK = 2,
	IPT_SB_FORK_CLONE = 3,
	IPT_SB_FORK_THREAD = 4,
};

struct ipt_sb_signal {
	int32_t signo;
	int32_t code;     /* si_code */
	uint64_t addr;    /* si_addr of faults */
	uint64_t ip;      /* interrupted address */
	uint64_t handler; /* first instruction of the handler; 0: no handler ran */
	int32_t sender_pid;
	uint32_t flags; /* 1: ended the process */
};

struct ipt_sb_syscall {
	uint64_t nr;
	uint64_t args[6];
	int64_t ret;
	uint32_t flags; /* 1: args valid; 2: ret valid */
	uint32_t arch;  /* 32 or 64 */
};

enum ipt_gap_cause {
	IPT_GAP_NONE = 0,
	/* told by the recorder, in the sideband */
	IPT_GAP_BUFFER_FULL = 1, /* data overwritten or dropped: no room */
	IPT_GAP_RECORDER_DIED = 2,
	IPT_GAP_DISK_FULL = 3,
	IPT_GAP_REFUSED = 4,      /* the engine could not record this stretch */
	IPT_GAP_NOT_FOLLOWED = 5, /* an untraced child */
	/* found when decoding */
	IPT_GAP_OVF = 16,        /* OVF packet: lost in hardware */
	IPT_GAP_NO_CODE = 17,    /* no code bytes at an address */
	IPT_GAP_BAD_PACKET = 18, /* bytes that are no packet */
	IPT_GAP_FLOW = 19,       /* packets disagree with the code */
	IPT_GAP_TRUNCATED = 20,  /* the stream ends inside a packet */
	IPT_GAP_NO_PSB = 21,     /* data without a PSB to start at */
	IPT_GAP_LIMIT = 22,      /* a limit of the decoder, e.g. an endless loop without packets */
};

struct ipt_sb_gap {
	uint32_t cause; /* enum ipt_gap_cause */
	uint32_t flags; /* 1: lost_bytes is exact; 2: it is a lower bound; 0: unknown */
	uint64_t lost_bytes;
	uint64_t tsc_from, tsc_to; /* 0: unknown */
				   /* text, NUL-terminated, padded */
};

struct ipt_sb_stack {
	uint64_t ip;
	uint64_t sp;
	uint32_t n;     /* return addresses that follow, u64 each */
	uint32_t flags; /* 1: cut at a limit; 2: unwinding ended with an error */
};

#ifndef __cplusplus
_Static_assert(sizeof(struct ipt_sb_file_hdr) == 16, "format");
_Static_assert(sizeof(struct ipt_sb_hdr) == 56, "format");
_Static_assert(sizeof(struct ipt_sb_thread_start) == 16, "format");
_Static_assert(sizeof(struct ipt_sb_thread_exit) == 8, "format");
_Static_assert(sizeof(struct ipt_sb_exec) == 16, "format");
_Static_assert(sizeof(struct ipt_sb_pos) == 32, "format");
_Static_assert(sizeof(struct ipt_sb_at) == 8, "format");
_Static_assert(sizeof(struct ipt_sb_map) == 88, "format");
_Static_assert(sizeof(struct ipt_sb_range) == 24, "format");
_Static_assert(sizeof(struct ipt_sb_fork) == 16, "format");
_Static_assert(sizeof(struct ipt_sb_signal) == 40, "format");
_Static_assert(sizeof(struct ipt_sb_syscall) == 72, "format");
_Static_assert(sizeof(struct ipt_sb_gap) == 32, "format");
_Static_assert(sizeof(struct ipt_sb_stack) == 24, "format");
#endif

#endif
