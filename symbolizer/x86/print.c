/* SPDX-License-Identifier: MIT */
/*
 * Text of one instruction, AT&T or Intel syntax, laid out as objdump does: mnemonics padded,
 * operands without blanks between them, immediates without sign, addresses without padding.
 */
#include "x86/x86.h"

#include <Zycore/Format.h>
#include <Zydis/Zydis.h>

#define MNEMONIC_WIDTH 6

struct extras {
	const char *target_name; /* of a direct branch; NULL unknown */
};

static ZydisFormatterFunc default_mnemonic[2];
static ZydisFormatterFunc default_mem[2];

/* Conditions have two names each; these are the ones other tools write. */
static const char *condition(const char *m)
{
	static const struct {
		const char *from, *to;
	} names[] = {{"z", "e"},   {"nz", "ne"}, {"nb", "ae"},
		     {"nbe", "a"}, {"nl", "ge"}, {"nle", "g"}};

	for (size_t i = 0; i < IPT_ARRAY_SIZE(names); i++)
		if (!strcmp(m, names[i].from))
			return names[i].to;
	return m;
}

static char width_letter(unsigned bits)
{
	return bits == 8 ? 'b' : bits == 16 ? 'w' : bits == 32 ? 'l' : 'q';
}

/* The AT&T names of sign extensions without operands; NULL for others. */
static const char *att_extension(ZydisMnemonic id)
{
	switch (id) {
	case ZYDIS_MNEMONIC_CBW: return "cbtw";
	case ZYDIS_MNEMONIC_CWDE: return "cwtl";
	case ZYDIS_MNEMONIC_CDQE: return "cltq";
	case ZYDIS_MNEMONIC_CWD: return "cwtd";
	case ZYDIS_MNEMONIC_CDQ: return "cltd";
	case ZYDIS_MNEMONIC_CQO: return "cqto";
	default: return NULL;
	}
}

static bool att_name(char *to, size_t n, const ZydisFormatterContext *ctx)
{
	const char *m = ZydisMnemonicGetString(ctx->instruction->mnemonic);

	switch (ctx->instruction->mnemonic) {
	case ZYDIS_MNEMONIC_MOVZX:
	case ZYDIS_MNEMONIC_MOVSX:
	case ZYDIS_MNEMONIC_MOVSXD:
		snprintf(to, n, "mov%c%c%c", m[3], width_letter(ctx->operands[1].size),
			 width_letter(ctx->operands[0].size));
		return true;
	case ZYDIS_MNEMONIC_NOP:
		if (!ctx->instruction->operand_count_visible)
			return false;
		snprintf(to, n, "nop%c", width_letter(ctx->instruction->operand_width));
		return true;
	default: return false;
	}
}

/* The usual name of the mnemonic into @to; false when the library's is the usual one. */
static bool usual_name(char *to, size_t n, const ZydisFormatterContext *ctx, bool att)
{
	static const char *const families[] = {"cmov", "set", "j"};
	const char *m = ZydisMnemonicGetString(ctx->instruction->mnemonic);
	const char *name = att ? att_extension(ctx->instruction->mnemonic) : NULL;

	if (att && att_name(to, n, ctx))
		return true;
	/* The library adds a width, which the name has. */
	if (!strcmp(m, "movd") || !strcmp(m, "movq") || (m[0] == 'v' && strncmp(m, "vcvt", 4) != 0))
		name = m;
	if (!strcmp(m, "mov") && ctx->instruction->raw.imm[0].size == 64)
		name = "movabs";
	if (name) {
		snprintf(to, n, "%s", name);
		return true;
	}
	for (size_t i = 0; i < IPT_ARRAY_SIZE(families); i++) {
		size_t len = strlen(families[i]);

		if (strncmp(m, families[i], len) != 0)
			continue;
		snprintf(to, n, "%s%s", families[i], condition(m + len));
		return strcmp(to, m) != 0;
	}
	return false;
}

static ZyanStatus print_mnemonic(const ZydisFormatter *f, ZydisFormatterBuffer *buffer,
				 ZydisFormatterContext *ctx)
{
	bool att = f->style == ZYDIS_FORMATTER_STYLE_ATT;
	ZyanUSize len;
	ZyanString *s;
	char name[32];

	ZYAN_CHECK(ZydisFormatterBufferGetString(buffer, &s));
	if (usual_name(name, sizeof(name), ctx, att))
		ZYAN_CHECK(ZyanStringAppendFormat(s, "%s", name));
	else
		ZYAN_CHECK(default_mnemonic[!att](f, buffer, ctx));
	if (!ctx->instruction->operand_count_visible)
		return ZYAN_STATUS_SUCCESS;
	ZYAN_CHECK(ZyanStringGetSize(s, &len));
	for (; len < MNEMONIC_WIDTH; len++)
		ZYAN_CHECK(ZyanStringAppendFormat(s, " "));
	return ZYAN_STATUS_SUCCESS;
}

/* Where a direct branch goes, with the caller's name for it; also absolute memory operands. */
static ZyanStatus print_address(const ZydisFormatter *f, ZydisFormatterBuffer *buffer,
				ZydisFormatterContext *ctx)
{
	const struct extras *x = ctx->user_data;
	bool branch =
		ctx->operand->type == ZYDIS_OPERAND_TYPE_IMMEDIATE && ctx->operand->imm.is_relative;
	ZyanU64 va = 0;
	ZyanString *s;

	(void)f;
	ZYAN_CHECK(ZydisCalcAbsoluteAddress(ctx->instruction, ctx->operand, ctx->runtime_address,
					    &va));
	ZYAN_CHECK(ZydisFormatterBufferGetString(buffer, &s));
	ZYAN_CHECK(ZyanStringAppendFormat(s, "0x%llx", (unsigned long long)va));
	if (branch && x->target_name)
		return ZyanStringAppendFormat(s, " <%.300s>", x->target_name);
	return ZYAN_STATUS_SUCCESS;
}

/* A displacement of zero that is in the code is shown, as other tools do. */
static ZyanStatus print_mem(const ZydisFormatter *f, ZydisFormatterBuffer *buffer,
			    ZydisFormatterContext *ctx)
{
	const ZydisDecodedOperandMem *m = &ctx->operand->mem;
	bool att = f->style == ZYDIS_FORMATTER_STYLE_ATT;
	ZyanUSize before, after;
	const char *data, *paren;
	char tail[128];
	ZyanString *s;

	ZYAN_CHECK(ZydisFormatterBufferGetString(buffer, &s));
	ZYAN_CHECK(ZyanStringGetSize(s, &before));
	ZYAN_CHECK(default_mem[!att](f, buffer, ctx));
	if (!att || !ctx->instruction->raw.disp.size || m->disp.value || (!m->base && !m->index))
		return ZYAN_STATUS_SUCCESS;
	ZYAN_CHECK(ZyanStringGetSize(s, &after));
	ZYAN_CHECK(ZyanStringGetData(s, &data));
	paren = memchr(data + before, '(', after - before);
	if (!paren)
		return ZYAN_STATUS_SUCCESS;
	snprintf(tail, sizeof(tail), "%.*s", (int)(data + after - paren), paren);
	ZYAN_CHECK(ZyanStringTruncate(s, (ZyanUSize)(paren - data)));
	return ZyanStringAppendFormat(s, "0x0%s", tail);
}

/* Immediates as wide as the operation, without sign. */
static ZyanStatus print_imm(const ZydisFormatter *f, ZydisFormatterBuffer *buffer,
			    ZydisFormatterContext *ctx)
{
	unsigned bits = ctx->instruction->operand_width;
	uint64_t v = ctx->operand->imm.value.u;
	ZyanString *s;

	if (!ctx->operand->imm.is_signed)
		bits = 64;
	if (bits < 64)
		v &= (1ull << bits) - 1;
	ZYAN_CHECK(ZydisFormatterBufferGetString(buffer, &s));
	return ZyanStringAppendFormat(s, "%s0x%llx",
				      f->style == ZYDIS_FORMATTER_STYLE_ATT ? "$" : "",
				      (unsigned long long)v);
}

static void set_up(ZydisFormatter *f, enum ipt_syntax syntax)
{
	ZydisFormatterFunc mnemonic = (ZydisFormatterFunc)&print_mnemonic;
	ZydisFormatterFunc address = (ZydisFormatterFunc)&print_address;
	ZydisFormatterFunc mem = (ZydisFormatterFunc)&print_mem;
	ZydisFormatterFunc imm = (ZydisFormatterFunc)&print_imm;

	ZydisFormatterInit(f, syntax == IPT_SYNTAX_ATT ? ZYDIS_FORMATTER_STYLE_ATT
						       : ZYDIS_FORMATTER_STYLE_INTEL);
	ZydisFormatterSetProperty(f, ZYDIS_FORMATTER_PROP_HEX_UPPERCASE, ZYAN_FALSE);
	ZydisFormatterSetProperty(f, ZYDIS_FORMATTER_PROP_FORCE_RELATIVE_RIPREL, ZYAN_TRUE);
	ZydisFormatterSetProperty(f, ZYDIS_FORMATTER_PROP_DISP_PADDING, ZYDIS_PADDING_DISABLED);
	ZydisFormatterSetHook(f, ZYDIS_FORMATTER_FUNC_PRINT_MNEMONIC, (const void **)&mnemonic);
	ZydisFormatterSetHook(f, ZYDIS_FORMATTER_FUNC_PRINT_ADDRESS_ABS, (const void **)&address);
	ZydisFormatterSetHook(f, ZYDIS_FORMATTER_FUNC_FORMAT_OPERAND_MEM, (const void **)&mem);
	ZydisFormatterSetHook(f, ZYDIS_FORMATTER_FUNC_PRINT_IMM, (const void **)&imm);
	default_mnemonic[syntax == IPT_SYNTAX_INTEL] = mnemonic;
	default_mem[syntax == IPT_SYNTAX_INTEL] = mem;
}

static ZydisFormatter *formatter_of(enum ipt_syntax syntax)
{
	static __thread ZydisFormatter f[2];
	static __thread bool ready;

	if (!ready) {
		set_up(&f[IPT_SYNTAX_ATT], IPT_SYNTAX_ATT);
		set_up(&f[IPT_SYNTAX_INTEL], IPT_SYNTAX_INTEL);
		ready = true;
	}
	return &f[syntax];
}

static uint64_t data_address(const ZydisDecodedInstruction *z, const ZydisDecodedOperand *ops,
			     uint64_t ip)
{
	ZyanU64 va = 0;

	for (size_t i = 0; i < z->operand_count_visible; i++)
		if (ops[i].type == ZYDIS_OPERAND_TYPE_MEMORY &&
		    (ops[i].mem.base == ZYDIS_REGISTER_RIP ||
		     ops[i].mem.base == ZYDIS_REGISTER_EIP) &&
		    ZYAN_SUCCESS(ZydisCalcAbsoluteAddress(z, &ops[i], ip, &va)))
			return va;
	return 0;
}

/* Blanks after commas between operands go; names in <> are left as they are. @star goes before the
 * operand of an indirect branch, which is the last word. */
static void put_text(struct ipt_buf *out, const char *text, bool star)
{
	const char *last = strrchr(text, ' ');
	bool inside = false;

	for (; *text; text++) {
		inside |= *text == '<';
		ipt_buf_u8(out, (uint8_t)*text);
		if (*text == ',' && !inside && text[1] == ' ')
			text++;
		else if (star && text == last)
			ipt_buf_u8(out, '*');
	}
}

static bool is_indirect(const ZydisDecodedInstruction *z, const ZydisDecodedOperand *ops)
{
	return (z->mnemonic == ZYDIS_MNEMONIC_CALL || z->mnemonic == ZYDIS_MNEMONIC_JMP) &&
	       (ops[0].type == ZYDIS_OPERAND_TYPE_REGISTER ||
		ops[0].type == ZYDIS_OPERAND_TYPE_MEMORY);
}

int ipt_x86_print_data(struct ipt_buf *out, const uint8_t *p, size_t n, uint64_t ip,
		       enum ipt_xmode mode, enum ipt_syntax syntax, const char *target_name,
		       uint64_t *data)
{
	static const ZydisMachineMode modes[] = {ZYDIS_MACHINE_MODE_LONG_COMPAT_16,
						 ZYDIS_MACHINE_MODE_LONG_COMPAT_32,
						 ZYDIS_MACHINE_MODE_LONG_64};
	static const ZydisStackWidth widths[] = {ZYDIS_STACK_WIDTH_16, ZYDIS_STACK_WIDTH_32,
						 ZYDIS_STACK_WIDTH_64};
	struct extras x = {.target_name = target_name};
	ZydisDecodedOperand ops[ZYDIS_MAX_OPERAND_COUNT];
	ZydisDecodedInstruction z;
	ZydisDecoder dec;
	char text[512];

	*data = 0;
	ZydisDecoderInit(&dec, modes[mode], widths[mode]);
	if (!ZYAN_SUCCESS(ZydisDecoderDecodeFull(&dec, p, n, &z, ops))) {
		ipt_buf_str(out, "(bad)");
		return -IPT_E_BADINSN;
	}
	/* Long NOPs encode a second operand that nobody shows. */
	if (z.mnemonic == ZYDIS_MNEMONIC_NOP && z.operand_count_visible)
		z.operand_count_visible = 1;
	if (!ZYAN_SUCCESS(ZydisFormatterFormatInstruction(formatter_of(syntax), &z, ops,
							  z.operand_count_visible, text,
							  sizeof(text), ip, &x))) {
		ipt_buf_str(out, "(bad)");
		return -IPT_E_BADINSN;
	}
	put_text(out, text, syntax == IPT_SYNTAX_ATT && is_indirect(&z, ops));
	*data = data_address(&z, ops, ip);
	return 0;
}

int ipt_x86_print(struct ipt_buf *out, const uint8_t *p, size_t n, uint64_t ip, enum ipt_xmode mode,
		  enum ipt_syntax syntax, const char *target_name)
{
	uint64_t data;

	return ipt_x86_print_data(out, p, n, ip, mode, syntax, target_name, &data);
}
