/* SPDX-License-Identifier: MIT */
/* How an instruction is encoded, and which registers and flags it needs and overwrites. */
#include "x86/x86.h"

#include "priv.h"

static uint8_t arith(ZydisAccessedFlagsMask m)
{
	uint8_t out = 0;

	out |= m & ZYDIS_CPUFLAG_CF ? 1 : 0;
	out |= m & ZYDIS_CPUFLAG_PF ? 2 : 0;
	out |= m & ZYDIS_CPUFLAG_AF ? 4 : 0;
	out |= m & ZYDIS_CPUFLAG_ZF ? 8 : 0;
	out |= m & ZYDIS_CPUFLAG_SF ? 16 : 0;
	out |= m & ZYDIS_CPUFLAG_OF ? 32 : 0;
	return out;
}

/* Shifts by zero and strings of no length leave the flags as they are. */
static bool may_keep_flags(const ZydisDecodedInstruction *z)
{
	return z->meta.category == ZYDIS_CATEGORY_SHIFT ||
	       z->meta.category == ZYDIS_CATEGORY_ROTATE || ipt_x86_is_string_op(z);
}

static void flags_of(struct ipt_insn_full *f, const ZydisDecodedInstruction *z)
{
	const ZydisAccessedFlags *a = z->cpu_flags;

	if (!a)
		return;
	f->flags_read = arith(a->tested);
	if (!may_keep_flags(z))
		f->flags_killed = arith(a->modified | a->set_0 | a->set_1);
	f->flags_killed &= (uint8_t)~f->flags_read;
}

static int gpr_number(ZydisRegister r)
{
	ZydisRegister whole = ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, r);

	if (whole < ZYDIS_REGISTER_RAX || whole > ZYDIS_REGISTER_R15)
		return -1;
	return whole - ZYDIS_REGISTER_RAX;
}

static void read_reg(struct ipt_insn_use *f, ZydisRegister r)
{
	int n = gpr_number(r);

	if (n >= 0)
		f->gpr_read |= (uint16_t)(1u << n);
}

static void operand(struct ipt_insn_use *f, const ZydisDecodedOperand *o)
{
	const ZydisOperandActions writes = ZYDIS_OPERAND_ACTION_MASK_WRITE;
	int n;

	if (o->type == ZYDIS_OPERAND_TYPE_MEMORY) {
		read_reg(f, o->mem.base);
		read_reg(f, o->mem.index);
		if ((o->actions & writes) && (o->visibility == ZYDIS_OPERAND_VISIBILITY_EXPLICIT ||
					      o->mem.base != ZYDIS_REGISTER_RSP))
			f->writes_mem = true;
		return;
	}
	if (o->type != ZYDIS_OPERAND_TYPE_REGISTER)
		return;
	n = gpr_number(o->reg.value);
	if (n < 0)
		return;
	/* A write of 32 bits clears the rest; smaller ones and conditional ones keep it. */
	if (o->actions == ZYDIS_OPERAND_ACTION_WRITE && o->size >= 32)
		f->gpr_killed |= (uint16_t)(1u << n);
	else
		f->gpr_read |= (uint16_t)(1u << n);
}

static void encoding_of(struct ipt_insn_full *f, const ZydisDecodedInstruction *z)
{
	f->vector = z->encoding != ZYDIS_INSTRUCTION_ENCODING_LEGACY;
	f->opsize16 = z->attributes & ZYDIS_ATTRIB_HAS_OPERANDSIZE;
	f->addr32 = z->attributes & ZYDIS_ATTRIB_HAS_ADDRESSSIZE;
	if (z->attributes & ZYDIS_ATTRIB_HAS_SEGMENT_GS)
		f->seg = 0x65;
	else if (z->attributes & ZYDIS_ATTRIB_HAS_SEGMENT_FS)
		f->seg = 0x64;
	if (z->attributes & ZYDIS_ATTRIB_HAS_MODRM) {
		f->modrm_off = z->raw.modrm.offset;
		if (z->raw.modrm.mod == 0 && z->raw.modrm.rm == 5)
			f->rip_off = z->raw.disp.offset;
	}
	f->op_off = z->raw.prefix_count;
	if (z->attributes & ZYDIS_ATTRIB_HAS_REX) {
		f->rex = (uint8_t)(0x40 | z->raw.rex.W << 3 | z->raw.rex.R << 2 |
				   z->raw.rex.X << 1 | z->raw.rex.B);
		f->op_off = (uint8_t)(z->raw.rex.offset + 1);
	}
}

int ipt_x86_decode_full(struct ipt_insn_full *f, const uint8_t *p, size_t n, uint64_t ip)
{
	ZydisDecodedInstruction z;
	int err = ipt_x86_status(ZydisDecoderDecodeInstruction(ipt_x86_decoder(IPT_X64), NULL, p,
							       n < IPT_INSN_MAX ? n : IPT_INSN_MAX,
							       &z),
				 n);

	if (err)
		return err;
	memset(f, 0, sizeof(*f));
	ipt_x86_classify(&f->i, &z, ip, IPT_X64);
	encoding_of(f, &z);
	flags_of(f, &z);
	return 0;
}

int ipt_x86_decode_use(struct ipt_insn_use *u, const uint8_t *p, size_t n)
{
	ZydisDecodedOperand ops[ZYDIS_MAX_OPERAND_COUNT];
	ZydisDecodedInstruction z;
	int err =
		ipt_x86_status(ZydisDecoderDecodeFull(ipt_x86_decoder(IPT_X64), p,
						      n < IPT_INSN_MAX ? n : IPT_INSN_MAX, &z, ops),
			       n);

	if (err)
		return err;
	*u = (struct ipt_insn_use){.gpr_read = 0};
	for (unsigned int k = 0; k < z.operand_count; k++)
		operand(u, &ops[k]);
	u->gpr_killed &= (uint16_t)~u->gpr_read;
	return 0;
}
