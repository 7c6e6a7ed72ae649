/* SPDX-License-Identifier: MIT */
/* dwarf_line: a unit's line program as rows [lo, hi) sorted for binary search, and its file names.
 */
#include <stdlib.h>

#include "sym/dwarf_priv.h"

#define MAX_OVERLAP 16 /* rows to look back over where sequences overlap */

struct raw_row {
	uint64_t addr;
	uint64_t file, line, column;
	bool end;
};

/* File numbers begin at 1 before DWARF 5, at 0 since. */
static void load_files(struct ipt_dwarf *d, struct dw_cu *cu, Dwarf_Die die)
{
	Dwarf_Error err = NULL;
	Dwarf_Signed n = 0;
	char **names = NULL;
	size_t first = cu->version >= 5 ? 0 : 1;

	if (!ipt_dw_ok(d, d->dbg, dwarf_srcfiles(die, &names, &n, &err), err))
		return;
	cu->files = ipt_xcalloc((size_t)n + 1, sizeof(*cu->files));
	cu->n_files = (size_t)n + first;
	for (Dwarf_Signed i = 0; i < n; i++) {
		cu->files[(size_t)i + first] = ipt_intern_str(d->cfg.in, names[i]);
		dwarf_dealloc(d->dbg, names[i], DW_DLA_STRING);
	}
	dwarf_dealloc(d->dbg, names, DW_DLA_LIST);
}

static bool get_row(struct ipt_dwarf *d, Dwarf_Line l, struct raw_row *r)
{
	Dwarf_Error err = NULL;
	Dwarf_Addr addr;
	Dwarf_Bool end;
	Dwarf_Unsigned file, line, col;

	if (!ipt_dw_ok(d, d->dbg, dwarf_lineaddr(l, &addr, &err), err) ||
	    !ipt_dw_ok(d, d->dbg, dwarf_lineendsequence(l, &end, &err), err) ||
	    !ipt_dw_ok(d, d->dbg, dwarf_line_srcfileno(l, &file, &err), err) ||
	    !ipt_dw_ok(d, d->dbg, dwarf_lineno(l, &line, &err), err) ||
	    !ipt_dw_ok(d, d->dbg, dwarf_lineoff_b(l, &col, &err), err))
		return false;
	*r = (struct raw_row){addr, file, line, col, end};
	return true;
}

static void add_row(struct dw_cu *cu, const struct raw_row *r, uint64_t hi)
{
	struct ipt_row *o;

	if (r->addr >= hi)
		return;
	o = ipt_vec_push(&cu->rows);
	o->lo = r->addr;
	o->hi = hi;
	o->file = r->file < cu->n_files ? cu->files[r->file] : NULL;
	o->line = (uint32_t)r->line;
	o->column = (uint32_t)r->column;
}

static void add_rows(struct ipt_dwarf *d, struct dw_cu *cu, Dwarf_Line *lines, Dwarf_Signed n)
{
	struct raw_row prev = {.end = true}, r;
	bool dropped = false;

	for (Dwarf_Signed i = 0; i < n; i++) {
		if (!get_row(d, lines[i], &r))
			return;
		if (prev.end)
			dropped = r.addr < d->cfg.min_text;
		else if (!dropped)
			add_row(cu, &prev, r.addr);
		prev = r;
	}
}

static int row_cmp(const void *pa, const void *pb)
{
	const struct ipt_row *a = pa, *b = pb;

	if (a->lo != b->lo)
		return a->lo < b->lo ? -1 : 1;
	return a->hi < b->hi ? -1 : a->hi > b->hi;
}

void ipt_dw_load_rows(struct ipt_dwarf *d, struct dw_cu *cu)
{
	Dwarf_Line_Context ctx = NULL;
	Dwarf_Unsigned version = 0;
	Dwarf_Error err = NULL;
	Dwarf_Small tables = 0;
	Dwarf_Line *lines = NULL;
	Dwarf_Signed n = 0;
	Dwarf_Die die;

	if (cu->has_rows)
		return;
	cu->has_rows = true;
	die = ipt_dw_die(d, d->dbg, cu->die);
	if (!die)
		return;
	if (ipt_dw_ok(d, d->dbg, dwarf_srclines_b(die, &version, &tables, &ctx, &err), err)) {
		load_files(d, cu, die);
		err = NULL;
		if (tables == 1 &&
		    ipt_dw_ok(d, d->dbg, dwarf_srclines_from_linecontext(ctx, &lines, &n, &err),
			      err))
			add_rows(d, cu, lines, n);
		dwarf_srclines_dealloc_b(ctx);
	}
	dwarf_dealloc_die(die);
	if (cu->rows.n)
		qsort(cu->rows.v, cu->rows.n, sizeof(*cu->rows.v), row_cmp);
}

const struct ipt_row *ipt_dw_row_in(const struct dw_cu *cu, uint64_t va)
{
	size_t lo = 0, hi = cu->rows.n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (cu->rows.v[mid].lo <= va)
			lo = mid + 1;
		else
			hi = mid;
	}
	for (size_t i = 0; i < MAX_OVERLAP && lo > i; i++)
		if (va < cu->rows.v[lo - 1 - i].hi)
			return &cu->rows.v[lo - 1 - i];
	return NULL;
}

const struct ipt_row *ipt_dwarf_row(struct ipt_dwarf *d, uint64_t va)
{
	struct dw_cu *cu = ipt_dw_cu_at(d, va);

	if (!cu)
		return NULL;
	ipt_dw_load_rows(d, cu);
	return ipt_dw_row_in(cu, va);
}
