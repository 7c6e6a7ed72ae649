/* SPDX-License-Identifier: MIT */
/* An LLDB bundle as read: between lldb_json.c (its text) and lldb_in.c (what is made of it). */
#ifndef IPT_STORE_LLDB_IN_H
#define IPT_STORE_LLDB_IN_H

#include "internal.h"

struct ipt_lldb_thread {
	uint32_t tid;
	char *trace; /* owned; as in the json */
};

struct ipt_lldb_module {
	char *path, *file; /* owned; file NULL: same as path */
	char *uuid;        /* owned; NULL: none */
	uint64_t load;
};

struct ipt_lldb_process {
	uint32_t pid;
	IPT_VEC(struct ipt_lldb_thread) threads;
	IPT_VEC(struct ipt_lldb_module) modules;
};

struct ipt_lldb {
	struct ipt_cpu cpu;
	struct ipt_clock clock;
	IPT_VEC(struct ipt_lldb_process) procs;
};

/* Parse trace.json. -IPT_E_BADJSON names the field; -IPT_E_UNSUPPORTED. @b is to be freed always.
 */
int ipt_lldb_parse(struct ipt_lldb *b, const uint8_t *p, size_t n, struct ipt_diag *diag);
void ipt_lldb_fini(struct ipt_lldb *b);

#endif
