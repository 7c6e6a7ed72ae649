/* SPDX-License-Identifier: MIT */
/* What the files of store/ share and nobody else sees. */
#ifndef IPT_STORE_INTERNAL_H
#define IPT_STORE_INTERNAL_H

#include "store/store.h"

/* --- limits: what a reader is willing to hold --- */

#define IPT_STORE_MAX_MANIFEST  (64u << 20)   /* bytes of manifest.json */
#define IPT_STORE_MAX_VALUES    4000000u      /* JSON values in it: bounds the parser's memory */
#define IPT_STORE_MAX_THREADS   1000000u      /* threads, and processes */
#define IPT_STORE_MAX_RECS      (32u << 20)   /* sideband records */
#define IPT_STORE_MAX_LISTED    50000u        /* threads and processes named in a manifest */
#define IPT_STORE_MAX_NOTES     64u           /* of a process */
#define IPT_STORE_MAX_ALL_NOTES 4096u         /* that a writer keeps */
#define IPT_STORE_MAX_NOTE      256u          /* bytes of one */
#define IPT_STORE_MAX_PT_BYTES  (64ull << 30) /* of one thread, decompressed */
#define IPT_STORE_MAX_FRAME     (64u << 20)   /* one zstd frame, decompressed */
#define IPT_STORE_RESERVE_BYTES (1u << 20)    /* kept free for the end of a recording */

/* --- names inside the directory (names.c) --- */

#define IPT_NAME_MANIFEST "manifest.json"
#define IPT_NAME_SIDEBAND "sideband"
#define IPT_NAME_THREADS  "threads"
#define IPT_NAME_IMAGES   "images"
#define IPT_NAME_INDEX    "index.json"
#define IPT_NAME_RESERVE  "reserve" /* only while a recorder writes */
#define IPT_NAME_MAX      64

/* Name inside threads/ and inside images/. */
void ipt_name_pt(char out[IPT_NAME_MAX], uint32_t pid, uint32_t tid, uint32_t gen, bool zstd);
void ipt_name_image(char out[IPT_NAME_MAX], const uint8_t id[IPT_IMAGE_ID_LEN]);
bool ipt_name_parse_pt(const char *name, uint32_t *pid, uint32_t *tid, uint32_t *gen, bool *zstd);
bool ipt_name_parse_image(const char *name, uint8_t id[IPT_IMAGE_ID_LEN]);
/* Is @name one that a trace directory holds in @sub ("" for its top)? */
bool ipt_name_is_ours(const char *sub, const char *name);

/* --- files that nobody is trusted with (files.c) --- */

int ipt_store_open_dir(int *fd, int dirfd, const char *name);
/* Make a directory for a new trace, as struct ipt_writer_cfg says. */
int ipt_store_make_dir(int *fd, bool *made, const char *dir, bool force, struct ipt_diag *diag);
/* Delete what a trace directory holds; nothing when it holds anything else (-ENOTEMPTY). */
int ipt_store_clear_dir(int dirfd, struct ipt_diag *diag, const char *dir);

/* --- processes and threads told by the sideband (model.c) --- */

struct ipt_model {
	struct ipt_intern *strs;                   /* owned */
	IPT_VEC(struct ipt_proc_info *) procs;     /* owned */
	IPT_VEC(struct ipt_thread_info *) threads; /* owned */
	struct ipt_u64map by_tid;                  /* gen << 32 | tid to thread */
	struct ipt_u64map by_pid;                  /* to the latest process of that pid */
	uint64_t n_orphans;                        /* records of a thread that never started */
	uint64_t n_dups;                           /* threads that began twice */
	uint64_t n_notes;                          /* of all processes */
};

void ipt_model_init(struct ipt_model *m);
void ipt_model_fini(struct ipt_model *m);
struct ipt_thread_info *ipt_model_thread(const struct ipt_model *m, uint32_t tid, uint32_t gen);
/* Take in one record. 0, or -IPT_E_LIMIT when there are too many threads. */
int ipt_model_add(struct ipt_model *m, const struct ipt_sb_hdr *h, const uint8_t *payload,
		  size_t n);

/* A thread of which nothing is known beside its names. */
void ipt_model_thread_init(struct ipt_thread_info *t, uint32_t pid, uint32_t tid, uint32_t gen);
/* Keep a remark on the latest process of @pid, within the limits above. */
void ipt_model_note(struct ipt_model *m, uint32_t pid, const char *text);
/* Put the remarks of @from's processes to the same ones of @m. */
void ipt_model_move_notes(struct ipt_model *m, struct ipt_model *from);

/* --- records (sideband.c) --- */

/* The value of hdr.check for a record of hdr.size bytes at @rec. */
uint32_t ipt_sb_check(const uint8_t *rec, size_t size);
/* Read and check the record at the cursor. 0, -IPT_E_EOS, or -IPT_E_BADREC with *why set. */
int ipt_sb_next(struct ipt_rec *out, struct ipt_cur *c, uint64_t want_seq, const char **why);
/* Read and check the head of the file; moves the cursor to the first record. */
int ipt_sb_file_head(struct ipt_cur *c, struct ipt_diag *diag);
/* Can this program read a format of that version? */
bool ipt_sb_version_ok(uint64_t version);
bool ipt_sb_changes_code(unsigned type);
/* Does the payload hold what its type asks for? NULL, or what is wrong. */
const char *ipt_sb_fault(const struct ipt_rec *r);

/* --- manifest.c --- */

struct ipt_manifest {
	struct ipt_session_info info; /* strings in strs */
	const char **argv, **options; /* owned; info's lists point here */
	enum ipt_status status;
	int exit_status;
	uint64_t lost_records;
	uint64_t records;        /* in the sideband at the end; 0: not told */
	struct ipt_intern *strs; /* owned */
	struct ipt_model sum;    /* threads and processes as the recorder summed them up */
};

void ipt_manifest_init(struct ipt_manifest *m);
void ipt_manifest_fini(struct ipt_manifest *m);
/* Copy what a recorder says of its session. */
void ipt_manifest_set_info(struct ipt_manifest *m, const struct ipt_session_info *info);
/* Text of a manifest; threads and processes of @model (may be NULL). */
void ipt_manifest_write(struct ipt_buf *out, const struct ipt_manifest *m,
			const struct ipt_model *model);
/* Parse @n bytes into an initialised @m. -IPT_E_BADMAN, -IPT_E_VERSION, -IPT_E_NOTTRACE. */
int ipt_manifest_parse(struct ipt_manifest *m, const uint8_t *p, size_t n, struct ipt_diag *diag);
/* A string that may hold any bytes: as JSON string when it is UTF-8, else {"bytes": hex}. */
struct ipt_json;
void ipt_manifest_str(struct ipt_json *j, const char *key, const char *s);

/* --- PT files (ptfile.c) --- */

/* Bytes of a .pt.zst that are in whole frames, and what they hold. *why: what is wrong with the
 * rest, or NULL. */
void ipt_zpt_scan(const uint8_t *p, size_t n, size_t *whole, uint64_t *bytes, const char **why);
/* Decompress @whole bytes of frames into @out of @bytes. How many bytes came out right. */
size_t ipt_zpt_unpack(uint8_t *out, size_t bytes, const uint8_t *p, size_t whole);
/* Append one frame with @n bytes. 0 or -IPT_E_LIMIT. */
int ipt_zpt_pack(struct ipt_buf *out, const void *p, size_t n);

/* --- images.c: those that a writer has kept --- */

struct ipt_image_table {
	struct ipt_u64map by_id; /* low half of the id to struct ipt_image_entry, chained */
	IPT_VEC(struct ipt_image_entry *) v; /* owned */
};

struct ipt_image_entry {
	uint8_t id[IPT_IMAGE_ID_LEN];
	uint64_t size;
	struct ipt_image_entry *next; /* same low half */
	char *path;                   /* owned; NULL: not named yet */
	uint32_t kind;
	uint8_t build_id[64];
	uint32_t n_build_id;
	IPT_VEC(struct ipt_sb_map) maps; /* distinct places, at most 16 */
};

void ipt_image_id(uint8_t id[IPT_IMAGE_ID_LEN], const void *p, size_t n);
bool ipt_image_id_is_zero(const uint8_t id[IPT_IMAGE_ID_LEN]);
void ipt_image_table_fini(struct ipt_image_table *t);
struct ipt_image_entry *ipt_image_table_get(const struct ipt_image_table *t,
					    const uint8_t id[IPT_IMAGE_ID_LEN]);
struct ipt_image_entry *ipt_image_table_add(struct ipt_image_table *t,
					    const uint8_t id[IPT_IMAGE_ID_LEN], uint64_t size);
void ipt_image_entry_note(struct ipt_image_entry *e, const struct ipt_sb_map *m,
			  const uint8_t *build_id, size_t n_build_id, const char *path);
void ipt_image_index_write(struct ipt_buf *out, const struct ipt_image_table *t);

/* --- reader's inside, for validate.c --- */

struct ipt_store_thread {
	char pt_name[IPT_NAME_MAX + 8];
	bool zstd, present;
	const char *why; /* what is wrong with the end of the file, or NULL */
	uint64_t file_bytes;
	const uint8_t *map; /* owned */
	size_t n_map;       /* bytes of map, from mmap */
	const uint8_t *pt;
	size_t n_pt;
	bool loaded;
};

struct ipt_store_image {
	uint8_t id[IPT_IMAGE_ID_LEN];
	struct ipt_store_image *next;
	char name[IPT_NAME_MAX];
	const uint8_t *map; /* owned */
	size_t n_map;
	bool checked;
};

struct ipt_store {
	char *dir; /* owned */
	int dirfd, threads_fd, images_fd;
	struct ipt_manifest man;
	struct ipt_model model;
	const uint8_t *sb; /* private map of the sideband: owned */
	size_t n_sb;
	IPT_VEC(struct ipt_rec) recs;
	IPT_VEC(const struct ipt_rec *) at; /* AT records by tid, gen, seq of the change, own seq */
	struct ipt_store_thread *pt;        /* owned; one for each of model.threads */
	struct ipt_u64map images; /* low half of id to struct ipt_store_image (owned), chained */
	char salvaged[256];
	uint64_t n_clamped; /* positions beyond a stream's end */
	uint64_t first_clamped_seq;
};

/* Fill st->at from st->recs (at.c). */
void ipt_store_sort_at(struct ipt_store *st);

#endif
