/* SPDX-License-Identifier: MIT */
/*
 * store: the trace directory (iptrace-trace(5)). One writer makes it, append-only and safe against
 * a crash at any moment; readers open what is complete, running or cut short, and trust nothing in
 * it.
 */
#ifndef IPT_STORE_H
#define IPT_STORE_H

#include "base/base.h"
#include "iptrace/format.h"

#define IPT_IMAGE_ID_LEN 16

/* --- what the manifest says beside processes and threads --- */

struct ipt_cpu {
	char vendor[16]; /* "GenuineIntel", ... */
	uint32_t family, model, stepping;
};

struct ipt_clock {
	uint64_t tsc_hz; /* 0: unknown */
	uint32_t cpuid_15h_eax, cpuid_15h_ebx, cpuid_15h_ecx;
	uint8_t mtc_freq, nom_freq; /* RTIT_CTL.MTCFreq; max non-turbo ratio */
	/* perf's: ns = zero + tsc * mult >> shift; mult 0: none */
	uint32_t mult;
	uint16_t shift;
	uint64_t zero;
	uint64_t start_tsc, start_realtime_ns;
};

enum ipt_status {
	IPT_STATUS_RUNNING, /* being written, or the recorder died: salvaged on read */
	IPT_STATUS_COMPLETE,
};

struct ipt_session_info {   /* strings are lent to the writer for the call; owned by the reader's
			       store */
	const char *engine; /* "step", "translate", "helper", "perf", "import" */
	const char *tool;   /* "iptrace 0.1.0" */
	const char *host, *kernel;
	const char *command; /* "run", "attach" or "import" */
	const char *cwd;
	const char *const *argv;    /* NULL-terminated; of the traced program; NULL for attach */
	const char *const *options; /* NULL-terminated; how iptrace was called */
	struct ipt_cpu cpu;
	struct ipt_clock clock;
	bool noretcomp;
	bool slowed; /* times are those of a run slowed by software */
};

/* --- writer --- */

struct ipt_writer;
struct ipt_wthread; /* one PT file; owned by the writer */

struct ipt_writer_cfg {
	const char *dir;
	bool force; /* replace an existing trace directory (only one that holds a manifest, or is
		       empty) */
	bool zstd;  /* PT files as .pt.zst: one independent frame a flush */
	size_t buffer_bytes; /* PT kept in memory a thread before it is written; 0: 64 KiB */
};

/* Make the directory, images/, threads/, the manifest with status running and an empty sideband,
 * all fsynced. -EEXIST when it exists (and not force); other errno's. Nothing is left behind on
 * failure. */
int ipt_writer_new(struct ipt_writer **out, const struct ipt_writer_cfg *cfg,
		   const struct ipt_session_info *info, struct ipt_diag *diag);
/* Flush all, write images/index.json and the manifest with status complete. Frees @w always.
 * @exit_status as wait(2) of the main program, -1 unknown. The first write error of the recording
 * is returned. */
int ipt_writer_finish(struct ipt_writer *w, int exit_status, struct ipt_diag *diag);
/* Free without the final manifest: the directory stays as after a crash. */
void ipt_writer_abandon(struct ipt_writer *w);

/* After the first failed write (disk full) all calls below go on but write nothing more of that
 * file, and count what was lost; the failure stays readable here: 0, or the negative errno. */
int ipt_writer_error(const struct ipt_writer *w);
/* A better value for the clock's tsc_hz than the session began with. */
void ipt_writer_tsc_hz(struct ipt_writer *w, uint64_t hz);

/* Begin a thread: appends THREAD_START, creates threads/PID.TID.GEN.pt. The generation is chosen
 * here: one more than the last for this tid. */
struct ipt_wthread *ipt_writer_thread(struct ipt_writer *w, pid_t pid, pid_t tid,
				      const struct ipt_sb_thread_start *start, const char *comm,
				      uint64_t tsc);
uint32_t ipt_wthread_gen(const struct ipt_wthread *t);
/* Append PT bytes. Packets must not be split across a flush: @n bytes hold whole packets. */
void ipt_wthread_pt(struct ipt_wthread *t, const void *p, size_t n);
/* Bytes appended so far: the position of the next packet. */
uint64_t ipt_wthread_pos(const struct ipt_wthread *t);
/* Appends THREAD_EXIT, flushes and closes the file; @t is gone. */
void ipt_wthread_exit(struct ipt_wthread *t, const struct ipt_sb_thread_exit *exit, uint64_t tsc);
/* Count instructions the engine knows to have recorded (manifest's `instructions`). */
void ipt_wthread_count(struct ipt_wthread *t, uint64_t insns);
/* Of these, how many were single-stepped in an engine that has a faster way; and how often the
 * thread was stopped or waited for the recorder. Both add up, and stay unknown without a call (0 is
 * a count, too). */
void ipt_wthread_stepped(struct ipt_wthread *t, uint64_t insns);
void ipt_wthread_stops(struct ipt_wthread *t, uint64_t n);
/* A remark on process @pid that `info` shows, such as why parts of it were single-stepped. The same
 * text is kept once, long ones are cut, and there is room for 64 a process. */
void ipt_writer_note(struct ipt_writer *w, pid_t pid, const char *text);

/* Write what is buffered, sideband after PT and images before sideband, so that no record speaks of
 * bytes that are not there. Called now and then by the recorder (bounded loss on a crash). */
int ipt_writer_flush(struct ipt_writer *w);

struct ipt_sb_head { /* what the writer cannot know of a record's header */
	uint32_t pid, tid, gen;
	uint16_t flags;
	uint64_t tsc, pt_off, bound;
};

/* Append a record: header from @h, seq and check filled in, @payload padded to 8. Returns its seq;
 * 0: it could not be kept. So do the three below. */
uint64_t ipt_writer_record(struct ipt_writer *w, enum ipt_sb_type type, const struct ipt_sb_head *h,
			   const void *payload, size_t n);
/* MAP or CODE: sizes inside @m are filled in from the arguments. */
uint64_t ipt_writer_map(struct ipt_writer *w, enum ipt_sb_type type, const struct ipt_sb_head *h,
			struct ipt_sb_map *m, const struct ipt_sb_pos *pos, size_t n_pos,
			const uint8_t *build_id, size_t n_build_id, const char *path);
/* UNMAP or PROTECT. */
uint64_t ipt_writer_range(struct ipt_writer *w, enum ipt_sb_type type, const struct ipt_sb_head *h,
			  uint64_t start, uint64_t end, uint32_t prot, const struct ipt_sb_pos *pos,
			  size_t n_pos);
/* AT: the change with @seq (of the two above, which did not name it), and all that came before and
 * have no position yet, take effect for the thread of @h at its pt_off. Nothing when @seq is 0. To
 * be called before the PT from there on is appended; once is enough when a thread meets several
 * changes at one place: for the last. Positions of a thread must not go back with rising @seq. */
uint64_t ipt_writer_at(struct ipt_writer *w, const struct ipt_sb_head *h, uint64_t seq);
/* GAP: also counts for the manifest. */
void ipt_writer_gap(struct ipt_writer *w, const struct ipt_sb_head *h, const struct ipt_sb_gap *gap,
		    const char *text);

/* Keep code bytes once per content; id[] gets their content id. A sparse or huge range is the
 * caller's to bound. */
int ipt_writer_image(struct ipt_writer *w, const void *p, size_t n, uint8_t id[IPT_IMAGE_ID_LEN]);

/* --- reader --- */

struct ipt_store;

struct ipt_proc_info { /* owned by the store */
	uint32_t pid, gen;
	uint32_t ppid;
	const char *comm; /* last known */
	const char *exe;  /* of the last exec, or of the first file map; "" unknown */
	int32_t status;   /* as wait(2); -1 unknown */
	uint64_t start_seq;
	const char **notes; /* the recorder's remarks; NULL when there are none */
	size_t n_notes;
};

struct ipt_thread_info { /* owned by the store */
	uint32_t pid, tid, gen;
	uint32_t index;     /* in the store's list */
	const char *comm;   /* last known */
	uint64_t start_seq; /* changes of the address space with a lower seq were made before it
			       began */
	uint64_t end_seq;   /* of THREAD_EXIT; UINT64_MAX: none */
	uint64_t start_tsc, end_tsc; /* 0 unknown */
	int32_t status;              /* as wait(2); -1 unknown */
	uint32_t start_flags, exit_flags;
	uint64_t pt_bytes;          /* decompressed; of whole frames only */
	uint64_t instructions;      /* counted by the recorder; UINT64_MAX unknown */
	uint64_t step_instructions; /* of these, single-stepped; UINT64_MAX unknown */
	uint64_t stops;             /* by the recorder; UINT64_MAX unknown */
	uint64_t n_gaps;            /* GAP records */
	uint64_t lost_bytes;        /* at least, of GAP records */
};

struct ipt_rec { /* one sideband record, lent until the store closes */
	struct ipt_sb_hdr h;
	const uint8_t *payload; /* 8-byte aligned */
	size_t n;               /* bytes */
};

/* Parsed view of MAP and CODE; pointers into the record. */
struct ipt_rec_map {
	struct ipt_sb_map m;
	const uint8_t *build_id;
	const char *path;   /* NUL-terminated */
	struct ipt_cur pos; /* for ipt_rec_pos_next */
};

/* Open and validate. A running or cut-short trace opens too: ipt_store_salvaged() says why. Codes:
 * -IPT_E_NOTTRACE, -IPT_E_VERSION, -IPT_E_BADMAN, -IPT_E_BADREC (sideband header), errno's. A
 * record that fails its checksum ends the sideband there (salvaged). */
int ipt_store_open(struct ipt_store **out, const char *dir, struct ipt_diag *diag);
void ipt_store_close(struct ipt_store *st);

const char *ipt_store_dir(const struct ipt_store *st);
const struct ipt_session_info *ipt_store_info(const struct ipt_store *st);
enum ipt_status ipt_store_status(const struct ipt_store *st);
/* NULL when the trace is whole; else why it is not ("recorder did not finish", "sideband cut at
 * 0x..."). */
const char *ipt_store_salvaged(const struct ipt_store *st);
/* The traced program's wait status; -1 unknown. */
int ipt_store_exit_status(const struct ipt_store *st);

size_t ipt_store_n_procs(const struct ipt_store *st);
const struct ipt_proc_info *ipt_store_proc(const struct ipt_store *st, size_t i);
size_t ipt_store_n_threads(const struct ipt_store *st);
const struct ipt_thread_info *ipt_store_thread(const struct ipt_store *st, size_t i);
/* File name of a thread's PT inside the directory, e.g. "threads/810.812.0.pt"; owned by the store.
 */
const char *ipt_store_pt_name(const struct ipt_store *st, const struct ipt_thread_info *t);

size_t ipt_store_n_recs(const struct ipt_store *st);
const struct ipt_rec *ipt_store_rec(const struct ipt_store *st, size_t i);
/* 0 or -IPT_E_BADREC. */
int ipt_rec_map_parse(struct ipt_rec_map *out, const struct ipt_rec *r);
/* Range of UNMAP and PROTECT; *pos for ipt_rec_pos_next. */
int ipt_rec_range_parse(struct ipt_sb_range *out, struct ipt_cur *pos, const struct ipt_rec *r);
bool ipt_rec_pos_next(struct ipt_cur *pos, struct ipt_sb_pos *out);
/* The change that an AT record speaks of; 0: @r is no AT record. */
uint64_t ipt_rec_at_seq(const struct ipt_rec *r);
/* The AT record (the first) for change @seq and a thread; NULL when there is none. */
const struct ipt_rec *ipt_store_at(const struct ipt_store *st, uint64_t seq, uint32_t tid,
				   uint32_t gen);
/* NUL-terminated text at @off of the payload; "" when there is none. */
const char *ipt_rec_text(const struct ipt_rec *r, size_t off);

/* The PT bytes of a thread, mapped (or decompressed); lent until the store closes. Loaded on first
 * use. */
int ipt_store_pt(struct ipt_store *st, const struct ipt_thread_info *t, const uint8_t **p,
		 size_t *n, struct ipt_diag *diag);
/* An image's bytes, mapped; lent until the store closes. -IPT_E_NOCODE when the id is all zero or
 * not there. */
int ipt_store_image(struct ipt_store *st, const uint8_t id[IPT_IMAGE_ID_LEN], const uint8_t **p,
		    size_t *n, struct ipt_diag *diag);
/* Its file name ("images/<hex>"), for libraries that want a file; owned by the store. NULL when not
 * there. */
const char *ipt_store_image_name(struct ipt_store *st, const uint8_t id[IPT_IMAGE_ID_LEN]);

/* Check all that open does not: every image's content id, record payloads, positions inside
 * streams, PT files without records and the reverse. Each fault is handed to diag->warn; returns
 * the count of faults, or a negative code. */
int ipt_store_validate(struct ipt_store *st, struct ipt_diag *diag);

/* Newest trace directory in @folder (by manifest mtime): caller frees *name. -ENOENT when there is
 * none. */
int ipt_store_newest(char **name, const char *folder);

/* --- import (lldb_in.c) --- */

/* Make a trace directory from an LLDB intel-pt bundle: @path is its trace.json or the folder that
 * holds it. */
int ipt_import_lldb(const char *path, const struct ipt_writer_cfg *cfg, struct ipt_diag *diag);

#endif
