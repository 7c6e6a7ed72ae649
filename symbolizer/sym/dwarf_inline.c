/* SPDX-License-Identifier: MIT */
/* dwarf_inline: a unit's functions and inlined calls by address, and their names. */
#include <stdlib.h>

#include "sym/dwarf_priv.h"

#define MAX_DEPTH  256
#define MAX_DIES   (1u << 24) /* of one unit */
#define MAX_ORIGIN 16

struct walk {
	struct ipt_dwarf *d;
	struct dw_cu *cu;
	struct ipt_spans spans;
	uint32_t dies;
};

static void walk_children(struct walk *w, Dwarf_Die die, uint32_t parent, unsigned depth);

static bool holds_scopes(Dwarf_Half tag)
{
	switch (tag) {
	case DW_TAG_lexical_block:
	case DW_TAG_namespace:
	case DW_TAG_module:
	case DW_TAG_class_type:
	case DW_TAG_structure_type:
	case DW_TAG_union_type:
	case DW_TAG_enumeration_type:
	case DW_TAG_try_block:
	case DW_TAG_catch_block:
	case DW_TAG_with_stmt: return true;
	default: return false;
	}
}

/* A function without ranges is abstract or a declaration: nothing below it has code. */
static void walk_scope(struct walk *w, Dwarf_Die die, bool inlined, uint32_t parent, unsigned depth)
{
	uint32_t idx = (uint32_t)w->cu->scopes.n;
	Dwarf_Error err = NULL;
	struct dw_scope *s;
	Dwarf_Off off;

	if (!ipt_dw_ranges(w->d, w->cu, die, idx, &w->spans))
		return;
	s = ipt_vec_push(&w->cu->scopes);
	s->parent = inlined ? parent : IPT_SEG_NONE;
	s->inlined = inlined && parent != IPT_SEG_NONE;
	if (ipt_dw_ok(w->d, w->d->dbg, dwarf_dieoffset(die, &off, &err), err))
		s->die = off;
	if (inlined) {
		s->file = (uint32_t)ipt_dw_number(w->d, die, DW_AT_call_file, UINT32_MAX);
		s->line = (uint32_t)ipt_dw_number(w->d, die, DW_AT_call_line, 0);
		s->column = (uint32_t)ipt_dw_number(w->d, die, DW_AT_call_column, 0);
	}
	walk_children(w, die, idx, depth + 1);
}

static void walk_die(struct walk *w, Dwarf_Die die, uint32_t parent, unsigned depth)
{
	Dwarf_Error err = NULL;
	Dwarf_Half tag = 0;

	if (!ipt_dw_ok(w->d, w->d->dbg, dwarf_tag(die, &tag, &err), err))
		return;
	if (tag == DW_TAG_subprogram || tag == DW_TAG_inlined_subroutine)
		walk_scope(w, die, tag == DW_TAG_inlined_subroutine, parent, depth);
	else if (holds_scopes(tag))
		walk_children(w, die, parent, depth + 1);
}

static void walk_children(struct walk *w, Dwarf_Die die, uint32_t parent, unsigned depth)
{
	Dwarf_Debug dbg = w->d->dbg;
	Dwarf_Error err = NULL;
	Dwarf_Die child = NULL, next;

	if (depth >= MAX_DEPTH || !ipt_dw_ok(w->d, dbg, dwarf_child(die, &child, &err), err))
		return;
	while (child && w->dies++ < MAX_DIES) {
		walk_die(w, child, parent, depth);
		next = NULL;
		err = NULL;
		if (!ipt_dw_ok(w->d, dbg, dwarf_siblingof_b(dbg, child, 1, &next, &err), err))
			next = NULL;
		dwarf_dealloc_die(child);
		child = next;
	}
	if (child)
		dwarf_dealloc_die(child);
}

void ipt_dw_load_scopes(struct ipt_dwarf *d, struct dw_cu *cu)
{
	struct walk w = {.d = d, .cu = cu};
	Dwarf_Die die;

	if (cu->has_scopes)
		return;
	cu->has_scopes = true;
	die = ipt_dw_die(d, d->dbg, cu->die);
	if (!die)
		return;
	walk_children(&w, die, IPT_SEG_NONE, 0);
	dwarf_dealloc_die(die);
	ipt_span_flatten(&w.spans, &cu->segs);
	ipt_vec_fini(&w.spans);
}

/* --- names --- */

static const char *die_text(struct ipt_dwarf *d, Dwarf_Debug dbg, Dwarf_Die die, Dwarf_Half attr)
{
	Dwarf_Error err = NULL;
	char *text = NULL;

	if (!ipt_dw_ok(d, dbg, dwarf_die_text(die, attr, &text, &err), err) || !text || !text[0])
		return NULL;
	return ipt_intern_str(d->cfg.in, text);
}

/* Where @die's @attr leads: the DIE, with *dbg set to the file it is in. */
static Dwarf_Die follow(struct ipt_dwarf *d, Dwarf_Debug *dbg, Dwarf_Die die, Dwarf_Half attr)
{
	Dwarf_Error err = NULL;
	Dwarf_Attribute a = NULL;
	Dwarf_Half form = 0;
	Dwarf_Off off = 0;
	bool ok;

	if (!ipt_dw_ok(d, *dbg, dwarf_attr(die, attr, &a, &err), err))
		return NULL;
	err = NULL;
	ok = ipt_dw_ok(d, *dbg, dwarf_whatform(a, &form, &err), err);
	err = NULL;
	ok = ok && ipt_dw_ok(d, *dbg, dwarf_global_formref(a, &off, &err), err);
	dwarf_dealloc_attribute(a);
	if (!ok)
		return NULL;
	if (form == DW_FORM_GNU_ref_alt || form == DW_FORM_ref_sup4 || form == DW_FORM_ref_sup8) {
		if (!d->alt)
			return NULL;
		*dbg = d->alt;
	}
	return ipt_dw_die(d, *dbg, off);
}

static const char *find_name(struct ipt_dwarf *d, Dwarf_Off off)
{
	Dwarf_Debug dbg = d->dbg;
	Dwarf_Die die = ipt_dw_die(d, dbg, off);
	const char *plain = NULL, *linkage = NULL;

	for (int i = 0; die && !linkage && i < MAX_ORIGIN; i++) {
		Dwarf_Die next;

		linkage = die_text(d, dbg, die, DW_AT_linkage_name);
		if (!linkage)
			linkage = die_text(d, dbg, die, DW_AT_MIPS_linkage_name);
		if (!plain)
			plain = die_text(d, dbg, die, DW_AT_name);
		next = linkage ? NULL : follow(d, &dbg, die, DW_AT_abstract_origin);
		if (!next && !linkage)
			next = follow(d, &dbg, die, DW_AT_specification);
		dwarf_dealloc_die(die);
		die = next;
	}
	if (die)
		dwarf_dealloc_die(die);
	return linkage ? linkage : plain;
}

static const char *scope_name(struct ipt_dwarf *d, struct dw_scope *s)
{
	char *readable;

	if (s->named)
		return s->name;
	s->named = true;
	s->name = find_name(d, s->die);
	readable = s->name && !d->cfg.no_demangle ? ipt_sym_demangle(s->name) : NULL;
	if (readable)
		s->name = ipt_intern_str(d->cfg.in, readable);
	free(readable);
	return s->name;
}

/* --- frames --- */

static struct dw_scope *scope_at(struct dw_cu *cu, uint64_t va)
{
	size_t seg = ipt_seg_find(&cu->segs, va);

	if (!seg || cu->segs.v[seg - 1].val == IPT_SEG_NONE)
		return NULL;
	return &cu->scopes.v[cu->segs.v[seg - 1].val];
}

size_t ipt_dwarf_frames(struct ipt_dwarf *d, uint64_t va, struct ipt_frame *frames, size_t max)
{
	struct dw_cu *cu = ipt_dw_cu_at(d, va);
	const struct ipt_row *r;
	struct dw_scope *s;
	struct ipt_frame f = {0};
	size_t n = 0;

	if (!cu)
		return 0;
	ipt_dw_load_rows(d, cu);
	ipt_dw_load_scopes(d, cu);
	r = ipt_dw_row_in(cu, va);
	s = scope_at(cu, va);
	if (r) {
		f.file = r->file;
		f.line = r->line;
		f.column = r->column;
	}
	if (!s && !r)
		return 0;
	for (; n < max; n++) {
		f.func = s ? scope_name(d, s) : NULL;
		f.inlined = s && s->inlined;
		frames[n] = f;
		if (!f.inlined)
			return n + 1;
		f.file = s->file < cu->n_files ? cu->files[s->file] : NULL;
		f.line = s->line;
		f.column = s->column;
		s = &cu->scopes.v[s->parent];
	}
	return n;
}
