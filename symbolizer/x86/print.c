/* SPDX-License-Identifier: MIT */
/* Text of one instruction, AT&T or Intel syntax. */
#include "x86/x86.h"

#include <Zycore/Format.h>
#include <Zydis/Zydis.h>

struct target_name {
	const char *name;
};

static ZydisFormatterFunc default_address;

/* Put the caller's name for the target of a direct branch. */
static ZyanStatus print_address(const ZydisFormatter *f, ZydisFormatterBuffer *buffer,
				ZydisFormatterContext *ctx)
{
	const struct target_name *t = ctx->user_data;
	ZyanString *s;
	ZyanStatus st;

	st = default_address(f, buffer, ctx);
	if (!ZYAN_SUCCESS(st) || !t || !t->name || !ctx->operand->imm.is_relative)
		return st;
	ZYAN_CHECK(ZydisFormatterBufferGetString(buffer, &s));
	return ZyanStringAppendFormat(s, " <%.300s>", t->name);
}

static ZydisFormatter *formatter_of(enum ipt_syntax syntax)
{
	static __thread ZydisFormatter f[2];
	static __thread bool ready;

	if (!ready) {
		for (int i = 0; i < 2; i++) {
			ZydisFormatterFunc hook = (ZydisFormatterFunc)&print_address;

			ZydisFormatterInit(&f[i], i == IPT_SYNTAX_ATT
							  ? ZYDIS_FORMATTER_STYLE_ATT
							  : ZYDIS_FORMATTER_STYLE_INTEL);
			ZydisFormatterSetProperty(&f[i], ZYDIS_FORMATTER_PROP_HEX_UPPERCASE,
						  ZYAN_FALSE);
			ZydisFormatterSetHook(&f[i], ZYDIS_FORMATTER_FUNC_PRINT_ADDRESS_ABS,
					      (const void **)&hook);
			default_address = hook;
		}
		ready = true;
	}
	return &f[syntax];
}

int ipt_x86_print(struct ipt_buf *out, const uint8_t *p, size_t n, uint64_t ip, enum ipt_xmode mode,
		  enum ipt_syntax syntax, const char *target_name)
{
	static const ZydisMachineMode modes[] = {ZYDIS_MACHINE_MODE_LONG_COMPAT_16,
						 ZYDIS_MACHINE_MODE_LONG_COMPAT_32,
						 ZYDIS_MACHINE_MODE_LONG_64};
	static const ZydisStackWidth widths[] = {ZYDIS_STACK_WIDTH_16, ZYDIS_STACK_WIDTH_32,
						 ZYDIS_STACK_WIDTH_64};
	struct target_name t = {target_name};
	ZydisDecodedOperand ops[ZYDIS_MAX_OPERAND_COUNT];
	ZydisDecodedInstruction z;
	ZydisDecoder dec;
	char text[512];

	ZydisDecoderInit(&dec, modes[mode], widths[mode]);
	if (!ZYAN_SUCCESS(ZydisDecoderDecodeFull(&dec, p, n, &z, ops)) ||
	    !ZYAN_SUCCESS(ZydisFormatterFormatInstruction(formatter_of(syntax), &z, ops,
							  z.operand_count_visible, text,
							  sizeof(text), ip, &t))) {
		ipt_buf_str(out, "(bad)");
		return -IPT_E_BADINSN;
	}
	ipt_buf_str(out, text);
	return 0;
}
