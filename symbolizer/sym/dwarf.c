/* SPDX-License-Identifier: MIT */
/*
 * dwarf: opening debug data and the index of its units by address. Only the first DIE of each unit
 * is read here; lines and inlined calls of a unit are read when an address of it is asked for.
 */
#include <stdlib.h>

#include "sym/dwarf_priv.h"

#define MAX_UNITS      (1u << 20)
#define MAX_RANGE_LIST (1u << 20)

bool ipt_dw_ok(struct ipt_dwarf *d, Dwarf_Debug dbg, int res, Dwarf_Error err)
{
	if (res == DW_DLV_ERROR) {
		if (!d->trouble)
			d->trouble = ipt_intern_str(d->cfg.in, err ? dwarf_errmsg(err) : "error");
		if (err)
			dwarf_dealloc_error(dbg, err);
	}
	return res == DW_DLV_OK;
}

const char *ipt_dwarf_trouble(const struct ipt_dwarf *d)
{
	return d->trouble;
}

Dwarf_Die ipt_dw_die(struct ipt_dwarf *d, Dwarf_Debug dbg, Dwarf_Off off)
{
	Dwarf_Error err = NULL;
	Dwarf_Die die = NULL;

	return ipt_dw_ok(d, dbg, dwarf_offdie_b(dbg, off, 1, &die, &err), err) ? die : NULL;
}

uint64_t ipt_dw_number(struct ipt_dwarf *d, Dwarf_Die die, Dwarf_Half attr, uint64_t def)
{
	Dwarf_Error err = NULL;
	Dwarf_Attribute a = NULL;
	Dwarf_Unsigned u;
	Dwarf_Signed s;

	if (!ipt_dw_ok(d, d->dbg, dwarf_attr(die, attr, &a, &err), err))
		return def;
	err = NULL;
	if (dwarf_formudata(a, &u, &err) == DW_DLV_OK) {
		def = u;
	} else {
		if (err)
			dwarf_dealloc_error(d->dbg, err);
		err = NULL;
		if (ipt_dw_ok(d, d->dbg, dwarf_formsdata(a, &s, &err), err) && s >= 0)
			def = (uint64_t)s;
	}
	dwarf_dealloc_attribute(a);
	return def;
}

/* --- ranges --- */

static size_t add_span(const struct ipt_dwarf *d, uint64_t lo, uint64_t hi, uint32_t val,
		       struct ipt_spans *out)
{
	/* A linker that drops a function leaves its debug data, moved to address 0 or 1. */
	if (lo >= hi || lo < d->cfg.min_text)
		return 0;
	*ipt_vec_push(out) = (struct ipt_span){lo, hi, val};
	return 1;
}

/* Range list of DWARF 2 to 4. */
static size_t old_ranges(struct ipt_dwarf *d, const struct dw_cu *cu, Dwarf_Die die, Dwarf_Off off,
			 uint32_t val, struct ipt_spans *out)
{
	Dwarf_Error err = NULL;
	Dwarf_Ranges *r = NULL;
	Dwarf_Signed n = 0;
	Dwarf_Off real;
	Dwarf_Unsigned bytes;
	uint64_t base = cu->low;
	size_t added = 0;

	if (!ipt_dw_ok(d, d->dbg, dwarf_get_ranges_b(d->dbg, off, die, &real, &r, &n, &bytes, &err),
		       err))
		return 0;
	for (Dwarf_Signed i = 0; i < n && i < MAX_RANGE_LIST; i++) {
		if (r[i].dwr_type == DW_RANGES_ADDRESS_SELECTION)
			base = r[i].dwr_addr2;
		else if (r[i].dwr_type == DW_RANGES_ENTRY)
			added +=
				add_span(d, base + r[i].dwr_addr1, base + r[i].dwr_addr2, val, out);
	}
	dwarf_ranges_dealloc(d->dbg, r, n);
	return added;
}

/* Range list of DWARF 5. */
static size_t new_ranges(struct ipt_dwarf *d, Dwarf_Attribute a, Dwarf_Half form,
			 Dwarf_Unsigned where, uint32_t val, struct ipt_spans *out)
{
	Dwarf_Rnglists_Head head = NULL;
	Dwarf_Error err = NULL;
	Dwarf_Unsigned n = 0, set;
	size_t added = 0;

	if (!ipt_dw_ok(d, d->dbg,
		       dwarf_rnglists_get_rle_head(a, form, where, &head, &n, &set, &err), err))
		return 0;
	for (Dwarf_Unsigned i = 0; i < n && i < MAX_RANGE_LIST; i++) {
		unsigned len, code;
		Dwarf_Unsigned raw1, raw2, lo, hi;
		Dwarf_Bool absent = 0;

		err = NULL;
		if (!ipt_dw_ok(d, d->dbg,
			       dwarf_get_rnglists_entry_fields_a(head, i, &len, &code, &raw1, &raw2,
								 &absent, &lo, &hi, &err),
			       err))
			break;
		if (absent || code == DW_RLE_end_of_list || code == DW_RLE_base_address ||
		    code == DW_RLE_base_addressx)
			continue;
		added += add_span(d, lo, hi, val, out);
	}
	dwarf_dealloc_rnglists_head(head);
	return added;
}

static size_t plain_range(struct ipt_dwarf *d, Dwarf_Die die, uint32_t val, struct ipt_spans *out)
{
	enum Dwarf_Form_Class class;
	Dwarf_Error err = NULL;
	Dwarf_Addr lo, hi;
	Dwarf_Half form;

	if (!ipt_dw_ok(d, d->dbg, dwarf_lowpc(die, &lo, &err), err))
		return 0;
	err = NULL;
	if (!ipt_dw_ok(d, d->dbg, dwarf_highpc_b(die, &hi, &form, &class, &err), err))
		return 0;
	return add_span(d, lo, class == DW_FORM_CLASS_CONSTANT ? lo + hi : hi, val, out);
}

size_t ipt_dw_ranges(struct ipt_dwarf *d, const struct dw_cu *cu, Dwarf_Die die, uint32_t val,
		     struct ipt_spans *out)
{
	Dwarf_Error err = NULL;
	Dwarf_Attribute a = NULL;
	Dwarf_Unsigned where = 0;
	Dwarf_Half form = 0;
	size_t n = 0;
	bool ok;

	if (!ipt_dw_ok(d, d->dbg, dwarf_attr(die, DW_AT_ranges, &a, &err), err))
		return plain_range(d, die, val, out);
	err = NULL;
	ok = ipt_dw_ok(d, d->dbg, dwarf_whatform(a, &form, &err), err);
	err = NULL;
	if (ok && form == DW_FORM_sec_offset)
		ok = ipt_dw_ok(d, d->dbg, dwarf_global_formref(a, &where, &err), err);
	else if (ok)
		ok = ipt_dw_ok(d, d->dbg, dwarf_formudata(a, &where, &err), err);
	if (ok && cu->version >= 5)
		n = new_ranges(d, a, form, where, val, out);
	else if (ok)
		n = old_ranges(d, cu, die, where, val, out);
	dwarf_dealloc_attribute(a);
	return n;
}

/* --- index --- */

/* A unit that does not say where its code is: its line table does. */
static void index_by_rows(struct ipt_dwarf *d, struct dw_cu *cu, uint32_t val,
			  struct ipt_spans *out)
{
	ipt_dw_load_rows(d, cu);
	for (size_t i = 0; i < cu->rows.n; i++) {
		struct ipt_span *last = out->n ? &out->v[out->n - 1] : NULL;

		if (last && last->val == val && last->hi == cu->rows.v[i].lo)
			last->hi = cu->rows.v[i].hi;
		else
			add_span(d, cu->rows.v[i].lo, cu->rows.v[i].hi, val, out);
	}
}

static void index_unit(struct ipt_dwarf *d, Dwarf_Die die, Dwarf_Half version,
		       struct ipt_spans *out)
{
	uint32_t val = (uint32_t)d->cus.n;
	Dwarf_Error err = NULL;
	struct dw_cu *cu;
	Dwarf_Half tag = 0;
	Dwarf_Addr low;
	Dwarf_Off off;

	if (!ipt_dw_ok(d, d->dbg, dwarf_tag(die, &tag, &err), err) ||
	    (tag != DW_TAG_compile_unit && tag != DW_TAG_skeleton_unit))
		return;
	err = NULL;
	if (!ipt_dw_ok(d, d->dbg, dwarf_dieoffset(die, &off, &err), err))
		return;
	cu = ipt_vec_push(&d->cus);
	cu->die = off;
	cu->version = version;
	err = NULL;
	if (ipt_dw_ok(d, d->dbg, dwarf_lowpc(die, &low, &err), err))
		cu->low = low;
	if (!ipt_dw_ranges(d, cu, die, val, out))
		index_by_rows(d, cu, val, out);
}

/* The unit whose first DIE is at @off, as a number; units are in the order of their offsets. */
static uint32_t unit_at(const struct ipt_dwarf *d, Dwarf_Off off)
{
	size_t lo = 0, hi = d->cus.n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (d->cus.v[mid].die < off)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < d->cus.n && d->cus.v[lo].die == off ? (uint32_t)lo : IPT_SEG_NONE;
}

/* .debug_aranges knows of sections that the DIEs of strict DWARF 2 cannot tell of. */
static void index_aranges(struct ipt_dwarf *d, struct ipt_spans *out)
{
	Dwarf_Error err = NULL;
	Dwarf_Arange *list = NULL;
	Dwarf_Signed n = 0;

	if (!ipt_dw_ok(d, d->dbg, dwarf_get_aranges(d->dbg, &list, &n, &err), err))
		return;
	for (Dwarf_Signed i = 0; i < n; i++) {
		Dwarf_Unsigned seg, seg_size, len;
		Dwarf_Addr lo;
		Dwarf_Off off;
		uint32_t unit;

		err = NULL;
		if (ipt_dw_ok(d, d->dbg,
			      dwarf_get_arange_info_b(list[i], &seg, &seg_size, &lo, &len, &off,
						      &err),
			      err)) {
			unit = unit_at(d, off);
			if (unit != IPT_SEG_NONE)
				add_span(d, lo, lo + len, unit, out);
		}
		dwarf_dealloc(d->dbg, list[i], DW_DLA_ARANGE);
	}
	dwarf_dealloc(d->dbg, list, DW_DLA_LIST);
}

static void index_units(struct ipt_dwarf *d)
{
	struct ipt_spans spans = {0};

	for (uint32_t i = 0; i < MAX_UNITS; i++) {
		Dwarf_Unsigned len, type_off, next;
		Dwarf_Half version, addr, length, ext, type;
		Dwarf_Off abbrev;
		Dwarf_Sig8 sig;
		Dwarf_Error err = NULL;
		Dwarf_Die die = NULL;

		if (!ipt_dw_ok(d, d->dbg,
			       dwarf_next_cu_header_d(d->dbg, 1, &len, &version, &abbrev, &addr,
						      &length, &ext, &sig, &type_off, &next, &type,
						      &err),
			       err))
			break;
		err = NULL;
		if (!ipt_dw_ok(d, d->dbg, dwarf_siblingof_b(d->dbg, NULL, 1, &die, &err), err))
			continue;
		index_unit(d, die, version, &spans);
		dwarf_dealloc_die(die);
	}
	index_aranges(d, &spans);
	ipt_span_flatten(&spans, &d->segs);
	ipt_vec_fini(&spans);
}

static Dwarf_Debug open_fd(struct ipt_dwarf *d, int fd)
{
	Dwarf_Debug dbg = NULL;
	Dwarf_Error err = NULL;
	int res = dwarf_init_b(fd, DW_DLC_READ, DW_GROUPNUMBER_ANY, NULL, NULL, &dbg, &err);

	return ipt_dw_ok(d, dbg, res, err) ? dbg : NULL;
}

int ipt_dwarf_open(struct ipt_dwarf **out, const struct ipt_dwarf_cfg *cfg, struct ipt_diag *diag)
{
	struct ipt_dwarf *d = ipt_xcalloc(1, sizeof(*d));
	Dwarf_Error err = NULL;
	int rc;

	*out = NULL;
	d->cfg = *cfg;
	d->dbg = open_fd(d, cfg->fd);
	if (!d->dbg) {
		rc = ipt_diag_err(diag, IPT_E_NODEBUG, 0, "%s",
				  d->trouble ? d->trouble : "no DWARF");
		free(d);
		return rc;
	}
	if (cfg->alt_fd >= 0)
		d->alt = open_fd(d, cfg->alt_fd);
	if (d->alt)
		ipt_dw_ok(d, d->dbg, dwarf_set_tied_dbg(d->dbg, d->alt, &err), err);
	index_units(d);
	*out = d;
	return 0;
}

void ipt_dwarf_close(struct ipt_dwarf *d)
{
	Dwarf_Error err = NULL;

	if (!d)
		return;
	for (size_t i = 0; i < d->cus.n; i++) {
		ipt_vec_fini(&d->cus.v[i].rows);
		ipt_vec_fini(&d->cus.v[i].scopes);
		ipt_vec_fini(&d->cus.v[i].segs);
		free(d->cus.v[i].files);
	}
	ipt_vec_fini(&d->cus);
	ipt_vec_fini(&d->segs);
	dwarf_finish(d->dbg, &err);
	if (d->alt)
		dwarf_finish(d->alt, &err);
	free(d);
}

struct dw_cu *ipt_dw_cu_at(struct ipt_dwarf *d, uint64_t va)
{
	size_t seg = ipt_seg_find(&d->segs, va);

	if (!seg || d->segs.v[seg - 1].val == IPT_SEG_NONE)
		return NULL;
	return &d->cus.v[d->segs.v[seg - 1].val];
}
