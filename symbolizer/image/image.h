/* SPDX-License-Identifier: MIT */
/*
 * image: code in time, from the trace directory alone. A struct ipt_code is the executable memory
 * of one thread's process as that thread meets it along its PT stream.
 *
 * Rules. The thread begins with what the sideband says of its process at its start_seq (a forked
 * process begins with its parent's maps). Each later change applies at the thread's own position
 * for it (its entry among the record's positions; the record's own pt_off when the thread is the
 * acting one; else that of an AT record for the change and the thread). Changes that only add (the
 * range held no code) may be applied early; all others apply exactly at their position, which lies
 * before a TIP.PGE.
 */
#ifndef IPT_IMAGE_H
#define IPT_IMAGE_H

#include "base/base.h"
#include "store/store.h"

struct ipt_map { /* one executable mapping; immutable; lives as long as its ipt_images */
	uint64_t start, end; /* virtual addresses */
	uint64_t pgoff;      /* file offset of start */
	const char *path;    /* as mapped; "[vdso]", "" for anonymous */
	const uint8_t *build_id;
	size_t n_build_id;
	uint64_t inode;
	uint32_t dev_major, dev_minor;
	uint32_t kind;        /* enum ipt_sb_map_kind */
	const uint8_t *bytes; /* end - start of them; NULL: not known */
	uint8_t image[IPT_IMAGE_ID_LEN];
	uint64_t image_off; /* of start in the image file */
	uint32_t id;        /* unique in the ipt_images, from 1 */
};

struct ipt_images; /* all maps of a store */
int ipt_images_new(struct ipt_images **out, struct ipt_store *st, struct ipt_diag *diag);
void ipt_images_free(struct ipt_images *im);

/* One epoch: the maps that hold from a PT position on. */
struct ipt_epoch {
	uint64_t pt_off; /* of the thread: takes effect before the packet at this offset; 0 for the
			    first */
	const struct ipt_map *const *maps; /* sorted by start, not overlapping */
	size_t n_maps;
	bool exact; /* position known exactly */
};

struct ipt_code; /* a thread's code in time */
/* Epochs are made such that additive changes do not make a new epoch where an earlier one can hold
 * them. */
int ipt_code_new(struct ipt_code **out, struct ipt_images *im, const struct ipt_thread_info *t,
		 struct ipt_diag *diag);
void ipt_code_free(struct ipt_code *c);
size_t ipt_code_n_epochs(const struct ipt_code *c);
const struct ipt_epoch *ipt_code_epoch(const struct ipt_code *c, size_t i);

/* Where epoch @i begins, without making its list of maps; UINT64_MAX beyond the last. */
uint64_t ipt_code_epoch_off(const struct ipt_code *c, size_t i);
/* Goes up by one at each exec. */
uint32_t ipt_code_program(const struct ipt_code *c, size_t i);
/* Maps with bytes, at most @cap, of which the range never holds other code while @program runs: one
 * image for all its epochs. All others must be read with ipt_code_read_at(). Returns the count. */
size_t ipt_code_stable(const struct ipt_code *c, uint32_t program, const struct ipt_map **out,
		       size_t cap);

/* Make epoch @i the current one (flow does so as it decodes); lookups below use it. */
void ipt_code_seek(struct ipt_code *c, size_t i);
size_t ipt_code_current(const struct ipt_code *c);
/* The map at @va in the current epoch, or NULL. */
const struct ipt_map *ipt_code_map(const struct ipt_code *c, uint64_t va);
/* Copy up to @n code bytes at @va; crosses adjacent maps. Count copied; 0: none known. */
size_t ipt_code_read(const struct ipt_code *c, uint64_t va, uint8_t *out, size_t n);
/* The same in epoch @epoch. */
size_t ipt_code_read_at(const struct ipt_code *c, size_t epoch, uint64_t va, uint8_t *out,
			size_t n);

#endif
