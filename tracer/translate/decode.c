/* SPDX-License-Identifier: MIT */
/* Instructions of the program, kept while its code stays, and those that are not translated. */
#include "priv.h"

#define PAGE 4096u

static size_t fetch(struct ipt_xl *x, uint64_t ip, uint8_t out[IPT_INSN_MAX], bool *check)
{
	size_t got = 0;

	*check = false;
	while (got < IPT_INSN_MAX) {
		uint64_t va = ip + got;
		size_t n = ipt_min_u64(PAGE - va % PAGE, IPT_INSN_MAX - got);
		unsigned int flags = x->peek ? IPT_XL_PAGE_PEEK : 0;
		const uint8_t *page = x->ops->page(x->host, va & ~(uint64_t)(PAGE - 1), &flags);

		if (!page)
			break;
		memcpy(out + got, page + va % PAGE, n);
		if (flags & IPT_XL_PAGE_CHECK)
			*check = true;
		got += n;
		/* The next page only when the instruction may reach it. */
		if (got < IPT_INSN_MAX) {
			struct ipt_insn i;

			if (ipt_x86_decode(&i, out, got, ip, IPT_X64) == 0)
				break;
		}
	}
	return got;
}

const struct decoded *ipt_xl_decode(struct ipt_xl *x, uint64_t ip)
{
	struct decoded *d = &x->cache[(ip ^ ip >> 13) % DECODE_SLOTS];
	size_t n;

	if (d->ip != ip || !ip) {
		d->ip = ip;
		memset(d->bytes, 0, sizeof(d->bytes));
		n = fetch(x, ip, d->bytes, &d->check);
		d->bad = !n || ipt_x86_decode_full(&d->f, d->bytes, n, ip);
	}
	if (!d->bad)
		return d;
	d->ip = 0; /* it may be there next time */
	return NULL;
}

void ipt_xl_forget(struct ipt_xl *x, uint64_t start, uint64_t end)
{
	for (unsigned int i = 0; i < DECODE_SLOTS; i++) {
		if (x->cache[i].ip < end && x->cache[i].ip + IPT_INSN_MAX > start)
			x->cache[i].ip = 0;
	}
}

/* RDGSBASE and WRGSBASE (F3 0F AE /1, /3), SWAPGS: the base there is the tracer's. */
static bool gs_base(const struct decoded *d)
{
	const uint8_t *op = d->bytes + d->f.op_off;
	unsigned int reg = d->f.modrm_off ? d->bytes[d->f.modrm_off] >> 3 & 7 : 0;
	unsigned int mod = d->f.modrm_off ? d->bytes[d->f.modrm_off] >> 6 : 0;

	return !d->f.vector && op[0] == 0x0f && op[1] == 0xae && mod == 3 &&
	       (reg == 1 || reg == 3) && memchr(d->bytes, 0xf3, d->f.op_off);
}

/* FNSTENV, FNSAVE, FXSAVE and XSAVE store the address of the last x87 instruction. XSAVEC, which
 * the dynamic linker uses around its own work, and XSAVEOPT are let through. */
static bool x87_address(const struct decoded *d)
{
	const uint8_t *op = d->bytes + d->f.op_off;
	unsigned int reg = d->f.modrm_off ? d->bytes[d->f.modrm_off] >> 3 & 7 : 0;
	bool mem = d->f.modrm_off && d->bytes[d->f.modrm_off] >> 6 != 3;

	if (d->f.vector || !mem)
		return false;
	return (op[0] == 0xd9 && reg == 6) || (op[0] == 0xdd && reg == 6) ||
	       (op[0] == 0x0f && op[1] == 0xae && (reg == 0 || reg == 4));
}

/* Branches with a 66 prefix are not the same on all CPUs, but with REX.W, which calls of
 * __tls_get_addr() have to be long enough, it means nothing. */
static bool short_operands(const struct decoded *d)
{
	return d->f.opsize16 && !(d->f.rex & 8);
}

bool ipt_xl_refused(const struct decoded *d)
{
	const struct ipt_insn *i = &d->f.i;

	if (d->f.seg == 0x65 || gs_base(d) || x87_address(d))
		return true;
	switch ((enum ipt_iclass)i->iclass) {
	case IPT_IC_OTHER: break;
	case IPT_IC_COND: return short_operands(d);
	case IPT_IC_JMP:
	case IPT_IC_CALL:
	case IPT_IC_JMP_IND:
	case IPT_IC_CALL_IND:
	case IPT_IC_RET: return short_operands(d) || (d->f.rip_off && d->f.addr32);
	case IPT_IC_FAR_CALL: return i->sub != IPT_IS_SYSCALL;
	case IPT_IC_FAR_RET:
	case IPT_IC_FAR_JMP: return true;
	case IPT_IC_PTWRITE: break;
	}
	if (d->f.rip_off && d->f.addr32)
		return true;
	switch ((enum ipt_isub)i->sub) {
	case IPT_IS_POPF:
	case IPT_IS_XBEGIN:
	case IPT_IS_XABORT:
	case IPT_IS_XEND:
	case IPT_IS_MOV_SS:
	case IPT_IS_RDFSGS_SEG: return true;
	default: return false;
	}
}
