/* SPDX-License-Identifier: MIT */
/* The writer's inside: shared by writer.c (files) and wrecord.c (bytes of records). */
#ifndef IPT_STORE_WPRIV_H
#define IPT_STORE_WPRIV_H

#include "internal.h"

struct ipt_wthread {
	struct ipt_writer *w;         /* its owner */
	struct ipt_thread_info *info; /* owned by w->model, or spare */
	struct ipt_thread_info spare;
	char name[IPT_NAME_MAX];
	struct ipt_buf buf;  /* whole packets that are not in the file yet */
	uint64_t pos;        /* bytes appended; stands still after an error */
	uint64_t file_pos;   /* of these, in the file */
	int error;           /* negative errno of the first failed write */
	uint64_t lost_since; /* bytes lost after the first loss was told */
	size_t slot;         /* in w->live */
};

struct ipt_writer {
	char *dir; /* owned */
	int dirfd, threads_fd, images_fd, sb_fd;
	bool zstd;
	size_t buffer_bytes;
	struct ipt_buf sb;   /* records not in the file yet */
	uint64_t sb_pending; /* how many */
	bool sb_maps;        /* some of them change the address space */
	uint64_t sb_size;    /* bytes of whole records in the file */
	uint64_t sb_room;    /* bytes that may still be written, once disk_full */
	uint64_t seq;        /* of the last record */
	int error, sb_error; /* negative errno of the first failed write */
	bool disk_full, flushing;
	struct ipt_u64map gens;             /* tid to next generation, as a pointer */
	IPT_VEC(struct ipt_wthread *) live; /* owned */
	struct ipt_image_table images;
	struct ipt_model model;
	struct ipt_manifest man;
};

/* Append a record; size, seq and check of @h are filled in (writer.c). Its seq; 0: not kept. */
uint64_t ipt_writer_queue(struct ipt_writer *w, struct ipt_sb_hdr *h, const void *payload,
			  size_t n);
void ipt_writer_start_record(struct ipt_writer *w, uint32_t pid, uint32_t tid, uint32_t gen,
			     const struct ipt_sb_thread_start *start, const char *comm,
			     uint64_t tsc);

#endif
