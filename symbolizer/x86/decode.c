/* SPDX-License-Identifier: MIT */
/* Zydis to ipt_insn. */
#include "x86/x86.h"

#include "priv.h"

struct row {
	uint16_t mnemonic;
	uint8_t iclass;
	uint8_t sub;
};

static const struct row rows[] = {
	{ZYDIS_MNEMONIC_SYSCALL, IPT_IC_FAR_CALL, IPT_IS_SYSCALL},
	{ZYDIS_MNEMONIC_SYSENTER, IPT_IC_FAR_CALL, IPT_IS_SYSENTER},
	{ZYDIS_MNEMONIC_INT, IPT_IC_FAR_CALL, IPT_IS_INT},
	{ZYDIS_MNEMONIC_INT3, IPT_IC_FAR_CALL, IPT_IS_INT3},
	{ZYDIS_MNEMONIC_INT1, IPT_IC_FAR_CALL, IPT_IS_INT1},
	{ZYDIS_MNEMONIC_INTO, IPT_IC_FAR_CALL, IPT_IS_INTO},
	{ZYDIS_MNEMONIC_VMCALL, IPT_IC_FAR_CALL, IPT_IS_NONE},
	{ZYDIS_MNEMONIC_VMLAUNCH, IPT_IC_FAR_RET, IPT_IS_NONE},
	{ZYDIS_MNEMONIC_VMRESUME, IPT_IC_FAR_RET, IPT_IS_NONE},
	{ZYDIS_MNEMONIC_SYSRET, IPT_IC_FAR_RET, IPT_IS_NONE},
	{ZYDIS_MNEMONIC_SYSEXIT, IPT_IC_FAR_RET, IPT_IS_NONE},
	{ZYDIS_MNEMONIC_IRET, IPT_IC_FAR_RET, IPT_IS_IRET},
	{ZYDIS_MNEMONIC_IRETD, IPT_IC_FAR_RET, IPT_IS_IRET},
	{ZYDIS_MNEMONIC_IRETQ, IPT_IC_FAR_RET, IPT_IS_IRET},
	{ZYDIS_MNEMONIC_UIRET, IPT_IC_FAR_RET, IPT_IS_NONE},
	{ZYDIS_MNEMONIC_PTWRITE, IPT_IC_PTWRITE, IPT_IS_NONE},
	{ZYDIS_MNEMONIC_PUSHF, IPT_IC_OTHER, IPT_IS_PUSHF},
	{ZYDIS_MNEMONIC_PUSHFD, IPT_IC_OTHER, IPT_IS_PUSHF},
	{ZYDIS_MNEMONIC_PUSHFQ, IPT_IC_OTHER, IPT_IS_PUSHF},
	{ZYDIS_MNEMONIC_POPF, IPT_IC_OTHER, IPT_IS_POPF},
	{ZYDIS_MNEMONIC_POPFD, IPT_IC_OTHER, IPT_IS_POPF},
	{ZYDIS_MNEMONIC_POPFQ, IPT_IC_OTHER, IPT_IS_POPF},
	{ZYDIS_MNEMONIC_XBEGIN, IPT_IC_OTHER, IPT_IS_XBEGIN},
	{ZYDIS_MNEMONIC_XABORT, IPT_IC_OTHER, IPT_IS_XABORT},
	{ZYDIS_MNEMONIC_XEND, IPT_IC_OTHER, IPT_IS_XEND},
	{ZYDIS_MNEMONIC_WRFSBASE, IPT_IC_OTHER, IPT_IS_RDFSGS_SEG},
	{ZYDIS_MNEMONIC_WRGSBASE, IPT_IC_OTHER, IPT_IS_RDFSGS_SEG},
};

const ZydisDecoder *ipt_x86_decoder(enum ipt_xmode mode)
{
	static __thread ZydisDecoder dec[3];
	static __thread bool ready;

	if (!ready) {
		ZydisDecoderInit(&dec[IPT_X16], ZYDIS_MACHINE_MODE_LONG_COMPAT_16,
				 ZYDIS_STACK_WIDTH_16);
		ZydisDecoderInit(&dec[IPT_X32], ZYDIS_MACHINE_MODE_LONG_COMPAT_32,
				 ZYDIS_STACK_WIDTH_32);
		ZydisDecoderInit(&dec[IPT_X64], ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
		ready = true;
	}
	return &dec[mode];
}

bool ipt_x86_is_string_op(const ZydisDecodedInstruction *z)
{
	return z->meta.category == ZYDIS_CATEGORY_STRINGOP ||
	       z->meta.category == ZYDIS_CATEGORY_IOSTRINGOP;
}

static bool writes_segment(const ZydisDecodedInstruction *z, bool *ss)
{
	/* MOV Sreg, r/m (8E /r) and POP Sreg; the register is in the operand, here read from the
	 * opcode. */
	if (z->opcode_map == ZYDIS_OPCODE_MAP_DEFAULT) {
		*ss = (z->opcode == 0x8e && z->raw.modrm.reg == 2) || z->opcode == 0x17;
		return z->opcode == 0x8e || z->opcode == 0x17 || z->opcode == 0x07 ||
		       z->opcode == 0x1f;
	}
	*ss = false;
	return z->opcode_map == ZYDIS_OPCODE_MAP_0F && (z->opcode == 0xa1 || z->opcode == 0xa9);
}

static void classify_other(struct ipt_insn *insn, const ZydisDecodedInstruction *z)
{
	bool ss;

	for (size_t i = 0; i < IPT_ARRAY_SIZE(rows); i++) {
		if (rows[i].mnemonic == z->mnemonic) {
			insn->iclass = rows[i].iclass;
			insn->sub = rows[i].sub;
			if (insn->sub == IPT_IS_INT)
				insn->imm = (uint16_t)z->raw.imm[0].value.u;
			return;
		}
	}
	if (ipt_x86_is_string_op(z) &&
	    (z->attributes &
	     (ZYDIS_ATTRIB_HAS_REP | ZYDIS_ATTRIB_HAS_REPE | ZYDIS_ATTRIB_HAS_REPNE)))
		insn->sub = IPT_IS_REP_STRING;
	else if ((z->mnemonic == ZYDIS_MNEMONIC_MOV || z->mnemonic == ZYDIS_MNEMONIC_POP) &&
		 writes_segment(z, &ss))
		insn->sub = ss ? IPT_IS_MOV_SS : IPT_IS_RDFSGS_SEG;
}

static void classify(struct ipt_insn *insn, const ZydisDecodedInstruction *z)
{
	bool direct = z->raw.imm[0].is_relative;
	bool far = z->meta.branch_type == ZYDIS_BRANCH_TYPE_FAR;

	switch ((int)z->meta.category) {
	case ZYDIS_CATEGORY_COND_BR:
		/* Zydis counts XBEGIN, XEND and XABORT here; they take no TNT bit. */
		if (!direct || z->mnemonic == ZYDIS_MNEMONIC_XBEGIN)
			break;
		insn->iclass = IPT_IC_COND;
		return;
	case ZYDIS_CATEGORY_UNCOND_BR:
		if (z->mnemonic != ZYDIS_MNEMONIC_JMP)
			break;
		insn->iclass = far ? IPT_IC_FAR_JMP : direct ? IPT_IC_JMP : IPT_IC_JMP_IND;
		return;
	case ZYDIS_CATEGORY_CALL:
		if (z->mnemonic != ZYDIS_MNEMONIC_CALL)
			break;
		insn->iclass = far ? IPT_IC_FAR_CALL : direct ? IPT_IC_CALL : IPT_IC_CALL_IND;
		return;
	case ZYDIS_CATEGORY_RET:
		if (z->mnemonic != ZYDIS_MNEMONIC_RET)
			break;
		insn->iclass = far ? IPT_IC_FAR_RET : IPT_IC_RET;
		return;
	default: break;
	}
	classify_other(insn, z);
}

static uint64_t direct_target(const struct ipt_insn *insn, const ZydisDecodedInstruction *z,
			      uint64_t ip, enum ipt_xmode mode)
{
	uint64_t t = ip + insn->len + (uint64_t)z->raw.imm[0].value.s;

	if (mode == IPT_X64)
		return t;
	return z->operand_width == 16 ? t & 0xffff : t & 0xffffffffu;
}

void ipt_x86_classify(struct ipt_insn *insn, const ZydisDecodedInstruction *z, uint64_t ip,
		      enum ipt_xmode mode)
{
	*insn = (struct ipt_insn){
		.len = z->length,
		.iclass = IPT_IC_OTHER,
		.opsize = (uint8_t)(z->operand_width / 8),
	};
	classify(insn, z);
	if (z->raw.imm[0].is_relative)
		insn->target = direct_target(insn, z, ip, mode);
}

int ipt_x86_status(ZyanStatus st, size_t n)
{
	if (st == ZYDIS_STATUS_NO_MORE_DATA)
		return n < IPT_INSN_MAX ? -IPT_E_TRUNC : -IPT_E_BADINSN;
	return ZYAN_SUCCESS(st) ? 0 : -IPT_E_BADINSN;
}

int ipt_x86_decode(struct ipt_insn *insn, const uint8_t *p, size_t n, uint64_t ip,
		   enum ipt_xmode mode)
{
	ZydisDecodedInstruction z;
	int err = ipt_x86_status(ZydisDecoderDecodeInstruction(ipt_x86_decoder(mode), NULL, p,
							       n < IPT_INSN_MAX ? n : IPT_INSN_MAX,
							       &z),
				 n);

	if (!err)
		ipt_x86_classify(insn, &z, ip, mode);
	return err;
}
