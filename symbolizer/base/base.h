/* SPDX-License-Identifier: MIT */
/*
 * base: what every folder needs and that knows nothing of PT: errors, bounded reading, growing
 * buffers, tables, interned strings, files, JSON text. Nothing here prints or exits.
 */
#ifndef IPT_BASE_H
#define IPT_BASE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>

#include "iptrace/error.h"

#define IPT_PRINTF(fmt, first) __attribute__((format(printf, fmt, first)))
#define IPT_ARRAY_SIZE(a)      (sizeof(a) / sizeof((a)[0]))

static inline uint64_t ipt_min_u64(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static inline uint64_t ipt_max_u64(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* --- errors (err.c) --- */

/* Fill @diag (may be NULL) and return -@code. @code is positive. */
int ipt_diag_err(struct ipt_diag *diag, int code, uint64_t pos, const char *fmt, ...)
	IPT_PRINTF(4, 5);
/* Hand a warning to the sink of @diag; nothing happens without one. */
void ipt_diag_warn(struct ipt_diag *diag, const char *fmt, ...) IPT_PRINTF(2, 3);

/* For our own bugs, on in every build; never for input. Writes to stderr and aborts. */
#define ipt_assert(cond, text)                                                                     \
	do {                                                                                       \
		if (!(cond))                                                                       \
			ipt_assert_failed(__FILE__, __LINE__, text);                               \
	} while (0)
void ipt_assert_failed(const char *file, int line, const char *text) __attribute__((noreturn));

/* --- memory (mem.c): out of memory is fatal for the process (abort with a message); never NULL ---
 */

void *ipt_xcalloc(size_t n, size_t size);
void *ipt_xrealloc(void *p, size_t n, size_t size);
char *ipt_xstrdup(const char *s);
char *ipt_xasprintf(const char *fmt, ...) IPT_PRINTF(1, 2);

/* --- bounded reader over outside bytes (cur.c): the only way to parse --- */

struct ipt_cur {
	const uint8_t *begin;
	const uint8_t *pos;
	const uint8_t *end;
	bool bad; /* set by the first read beyond the end; all later reads give 0 */
};

static inline struct ipt_cur ipt_cur_make(const void *p, size_t n)
{
	const uint8_t *b = p;

	return (struct ipt_cur){b, b, b + n, false};
}

static inline size_t ipt_cur_left(const struct ipt_cur *c)
{
	return (size_t)(c->end - c->pos);
}

static inline size_t ipt_cur_off(const struct ipt_cur *c)
{
	return (size_t)(c->pos - c->begin);
}

uint8_t ipt_cur_u8(struct ipt_cur *c);
uint16_t ipt_cur_u16(struct ipt_cur *c);
uint32_t ipt_cur_u32(struct ipt_cur *c);
uint64_t ipt_cur_u64(struct ipt_cur *c);
/* @n bytes, lent from the buffer under the cursor; NULL (and bad) when fewer are left. */
const uint8_t *ipt_cur_bytes(struct ipt_cur *c, size_t n);
void ipt_cur_skip(struct ipt_cur *c, size_t n);

/* --- growing bytes (buf.c) --- */

struct ipt_buf {
	uint8_t *data; /* owned */
	size_t len;
	size_t cap;
};

void ipt_buf_fini(struct ipt_buf *b);
/* Room for @n more bytes; returns where to write them (len is not moved). */
uint8_t *ipt_buf_reserve(struct ipt_buf *b, size_t n);
void ipt_buf_append(struct ipt_buf *b, const void *p, size_t n);
void ipt_buf_u8(struct ipt_buf *b, uint8_t v);
void ipt_buf_u16(struct ipt_buf *b, uint16_t v);
void ipt_buf_u32(struct ipt_buf *b, uint32_t v);
void ipt_buf_u64(struct ipt_buf *b, uint64_t v);
void ipt_buf_str(struct ipt_buf *b, const char *s);
void ipt_buf_printf(struct ipt_buf *b, const char *fmt, ...) IPT_PRINTF(2, 3);
/* Pad with zeroes to a multiple of @align (a power of two). */
void ipt_buf_pad(struct ipt_buf *b, size_t align);

/* --- typed dynamic array: struct { T *v; size_t n, cap; } --- */

#define IPT_VEC(T)                                                                                 \
	struct {                                                                                   \
		T *v;                                                                              \
		size_t n;                                                                          \
		size_t cap;                                                                        \
	}
#define ipt_vec_push(vec)                                                                          \
	((vec)->n == (vec)->cap                                                                    \
		 ? ((vec)->cap = (vec)->cap ? (vec)->cap * 2 : 8,                                  \
		    (vec)->v = ipt_xrealloc((vec)->v, (vec)->cap, sizeof(*(vec)->v)))              \
		 : (vec)->v,                                                                       \
	 memset(&(vec)->v[(vec)->n], 0, sizeof(*(vec)->v)), &(vec)->v[(vec)->n++])
#define ipt_vec_fini(vec) (free((vec)->v), (vec)->v = NULL, (vec)->n = (vec)->cap = 0)

/* --- table keyed by u64 (hash.c); values are pointers, owned by the caller --- */

struct ipt_u64map {
	struct ipt_u64slot *slots; /* owned */
	size_t n;
	size_t cap;
};

void ipt_u64map_fini(struct ipt_u64map *m);
void *ipt_u64map_get(const struct ipt_u64map *m, uint64_t key);
/* Insert or replace; @value must not be NULL. Returns the former value or NULL. */
void *ipt_u64map_put(struct ipt_u64map *m, uint64_t key, void *value);
/* Remove; returns the former value or NULL. */
void *ipt_u64map_del(struct ipt_u64map *m, uint64_t key);
/* Visit in no order: *it starts at 0; false at the end. The table must not change meanwhile. */
bool ipt_u64map_next(const struct ipt_u64map *m, size_t *it, uint64_t *key, void **value);

/* --- every string stored once (intern.c) --- */

struct ipt_intern;
struct ipt_intern *ipt_intern_new(void);
void ipt_intern_free(struct ipt_intern *in);
/* The stored copy; lives as long as @in. */
const char *ipt_intern_str(struct ipt_intern *in, const char *s);
const char *ipt_intern_strn(struct ipt_intern *in, const char *s, size_t n);

/* --- files (fileio.c) --- */

enum ipt_file_flags {
	IPT_FILE_PLAIN =
		1, /* in a folder that is not trusted: a link or anything but a regular file is
		      -IPT_E_UNSAFE (else links are followed, and what is no file is -EINVAL) */
	IPT_FILE_COW = 2, /* map: the copy in memory may be written */
};

/* Open a regular file for reading, without waiting for a fifo. */
int ipt_file_open(int *fd, uint64_t *size, int dirfd, const char *name, unsigned int flags,
		  struct ipt_diag *diag);
/* Whole file, at most @max bytes (-IPT_E_LIMIT beyond), NUL added after the end. *data is the
 * caller's (free). */
int ipt_file_read(uint8_t **data, size_t *len, int dirfd, const char *name, size_t max,
		  unsigned int flags, struct ipt_diag *diag);
/* Write all or fail: loops over short writes and EINTR. */
int ipt_fd_write(int fd, const void *p, size_t n);
/* Write @name by a temporary file in the same folder, fsync and rename: a crash leaves the old or
 * the new one. */
int ipt_file_replace(int dirfd, const char *name, const void *p, size_t n, struct ipt_diag *diag);
/* Map a file. An empty file gives *p = NULL and *len = 0. Undo with ipt_file_unmap. */
int ipt_file_map(const uint8_t **p, size_t *len, int dirfd, const char *name, unsigned int flags,
		 struct ipt_diag *diag);
void ipt_file_unmap(const uint8_t *p, size_t len);
/* True when @name has no "..", no leading '/', no empty part and no control bytes. */
bool ipt_name_is_safe(const char *name);

/* --- text of untrusted bytes (escape.c) --- */

/* Append @s for a terminal: control bytes, DEL, C1 controls and invalid UTF-8 become \xNN; tab and
 * newline too. */
void ipt_escape_term(struct ipt_buf *b, const char *s);
/* Append @s as the inside of a JSON string, valid UTF-8 whatever @s holds (bad bytes become
 * U+FFFD). */
void ipt_escape_json(struct ipt_buf *b, const char *s);

/* --- JSON text (json.c): writes objects and arrays in order, with commas and escapes --- */

struct ipt_json {
	struct ipt_buf *out; /* lent */
	int depth;
	bool comma[32];
};

void ipt_json_begin(struct ipt_json *j, struct ipt_buf *out);
void ipt_json_open(struct ipt_json *j, const char *key,
		   char bracket);                      /* '{' or '['; key NULL inside arrays */
void ipt_json_close(struct ipt_json *j, char bracket); /* '}' or ']' */
void ipt_json_str(struct ipt_json *j, const char *key, const char *s); /* NULL @s writes null */
void ipt_json_u64(struct ipt_json *j, const char *key, uint64_t v);
void ipt_json_i64(struct ipt_json *j, const char *key, int64_t v);
void ipt_json_hex(struct ipt_json *j, const char *key, uint64_t v); /* as a string "0x..." */
void ipt_json_f64(struct ipt_json *j, const char *key, double v);
void ipt_json_bool(struct ipt_json *j, const char *key, bool v);
void ipt_json_null(struct ipt_json *j, const char *key);

#endif
