/* SPDX-License-Identifier: MIT */
/* sym_test: temporary folders, tools' output and maps of ELF files for the tests of sym. */
#ifndef SYM_TEST_H
#define SYM_TEST_H

#include "sym/sym.h"

#define BIAS 0x10000000ULL /* where the tests load files */

/* A map for each executable segment of a file, loaded at BIAS. */
struct maps {
	struct ipt_map v[8];
	size_t n;
	uint8_t build_id[64];
	char path[4096];
};

/* Enter a new temporary folder. */
void tmp_enter(void);
/* Leave and remove it. */
void tmp_leave(void);
/* Run a shell command; false when it fails. */
bool run(const char *fmt, ...) IPT_PRINTF(1, 2);
/* The output of a shell command, opened for reading (pclose). */
FILE *output_of(const char *fmt, ...) IPT_PRINTF(1, 2);
bool have_tool(const char *name);

/* @with_id: put the file's build-id into the maps. */
bool maps_of(struct maps *m, const char *path, bool with_id);
const struct ipt_map *map_at(const struct maps *m, uint64_t link_va);
/* A sym whose warnings are counted in *warnings. */
struct ipt_sym *sym_with(const char *const *search, bool no_demangle, unsigned *warnings);
const struct ipt_func *func_at(struct ipt_sym *s, const struct maps *m, uint64_t link_va);
/* Link-time address of a symbol by nm; 0: none. */
uint64_t nm_addr(const char *path, const char *name);

#endif
