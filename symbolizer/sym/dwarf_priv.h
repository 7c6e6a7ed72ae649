/* SPDX-License-Identifier: MIT */
/* What dwarf.c, dwarf_line.c and dwarf_inline.c share; they alone include libdwarf's headers. */
#ifndef IPT_SYM_DWARF_PRIV_H
#define IPT_SYM_DWARF_PRIV_H

#include <libdwarf/dwarf.h>
#include <libdwarf/libdwarf.h>

#include "sym/sym_priv.h"

struct dw_scope { /* a function or an inlined call */
	Dwarf_Off die;
	const char *name;            /* NULL until asked for */
	uint32_t parent;             /* IPT_SEG_NONE: outermost */
	uint32_t file, line, column; /* of the call, when inlined */
	bool inlined, named;
};

struct dw_cu {
	Dwarf_Off die;
	Dwarf_Half version;
	uint64_t low; /* base of its range lists */
	bool has_rows, has_scopes;
	struct {
		struct ipt_row *v;
		size_t n, cap;
	} rows;             /* sorted */
	const char **files; /* by file number */
	size_t n_files;
	struct {
		struct dw_scope *v;
		size_t n, cap;
	} scopes;             /* a parent before its children */
	struct ipt_segs segs; /* val: the innermost scope */
};

struct ipt_dwarf {
	struct ipt_dwarf_cfg cfg;
	Dwarf_Debug dbg, alt;
	const char *trouble; /* interned */
	struct {
		struct dw_cu *v;
		size_t n, cap;
	} cus;
	struct ipt_segs segs; /* val: the unit */
};

/* True for DW_DLV_OK; an error is noted and its memory given back. */
bool ipt_dw_ok(struct ipt_dwarf *d, Dwarf_Debug dbg, int res, Dwarf_Error err);
/* The DIE at @off; NULL on error. */
Dwarf_Die ipt_dw_die(struct ipt_dwarf *d, Dwarf_Debug dbg, Dwarf_Off off);
/* An unsigned number; @def when it is not there. */
uint64_t ipt_dw_number(struct ipt_dwarf *d, Dwarf_Die die, Dwarf_Half attr, uint64_t def);
/* Append the address ranges of @die, with @val; count appended. */
size_t ipt_dw_ranges(struct ipt_dwarf *d, const struct dw_cu *cu, Dwarf_Die die, uint32_t val,
		     struct ipt_spans *out);
void ipt_dw_load_rows(struct ipt_dwarf *d, struct dw_cu *cu);
void ipt_dw_load_scopes(struct ipt_dwarf *d, struct dw_cu *cu);
struct dw_cu *ipt_dw_cu_at(struct ipt_dwarf *d, uint64_t va);
const struct ipt_row *ipt_dw_row_in(const struct dw_cu *cu, uint64_t va);

#endif
