/* SPDX-License-Identifier: MIT */
/* Classes of hand-assembled instructions; opcodes from the SDM's instruction pages. */
#include "x86/x86.h"

#include "check_main.h"

#define IP 0x401000ull

struct row {
	const char *name;
	const char *bytes; /* exactly the instruction */
	uint8_t len;
	enum ipt_xmode mode;
	enum ipt_iclass iclass;
	enum ipt_isub sub;
	uint64_t target;
};

#define R(name, bytes, mode, iclass, sub, target)                                                  \
	{                                                                                          \
		name, bytes, sizeof(bytes) - 1, IPT_X##mode, IPT_IC_##iclass, IPT_IS_##sub, target \
	}

static const struct row rows[] = {
	R("nop", "\x90", 64, OTHER, NONE, 0),
	R("ud2", "\x0f\x0b", 64, OTHER, NONE, 0),
	R("ud1", "\x0f\xb9\xc0", 64, OTHER, NONE, 0),
	R("endbr64", "\xf3\x0f\x1e\xfa", 64, OTHER, NONE, 0),
	R("hlt", "\xf4", 64, OTHER, NONE, 0),
	R("je short", "\x74\x10", 64, COND, NONE, IP + 0x12),
	R("je back", "\x74\xfe", 64, COND, NONE, IP),
	R("jne near", "\x0f\x85\x00\x01\x00\x00", 64, COND, NONE, IP + 0x106),
	R("loop", "\xe2\xfe", 64, COND, NONE, IP),
	R("loope", "\xe1\x02", 64, COND, NONE, IP + 4),
	R("loopne", "\xe0\x02", 64, COND, NONE, IP + 4),
	R("jrcxz", "\xe3\x05", 64, COND, NONE, IP + 7),
	R("jecxz", "\x67\xe3\x05", 64, COND, NONE, IP + 8),
	R("jmp short", "\xeb\x10", 64, JMP, NONE, IP + 0x12),
	R("jmp near", "\xe9\x00\x01\x00\x00", 64, JMP, NONE, IP + 0x105),
	R("bnd jmp", "\xf2\xe9\x00\x01\x00\x00", 64, JMP, NONE, IP + 0x106),
	R("call", "\xe8\x00\x00\x00\x00", 64, CALL, NONE, IP + 5),
	R("jmp rax", "\xff\xe0", 64, JMP_IND, NONE, 0),
	R("notrack jmp rax", "\x3e\xff\xe0", 64, JMP_IND, NONE, 0),
	R("jmp [rip]", "\xff\x25\x00\x00\x00\x00", 64, JMP_IND, NONE, 0),
	R("call rax", "\xff\xd0", 64, CALL_IND, NONE, 0),
	R("call [rax]", "\xff\x10", 64, CALL_IND, NONE, 0),
	R("ret", "\xc3", 64, RET, NONE, 0),
	R("repz ret", "\xf3\xc3", 64, RET, NONE, 0),
	R("bnd ret", "\xf2\xc3", 64, RET, NONE, 0),
	R("ret 8", "\xc2\x08\x00", 64, RET, NONE, 0),
	R("retf", "\xcb", 64, FAR_RET, NONE, 0),
	R("retf 8", "\xca\x08\x00", 64, FAR_RET, NONE, 0),
	R("retfq", "\x48\xcb", 64, FAR_RET, NONE, 0),
	R("iretd", "\xcf", 64, FAR_RET, IRET, 0),
	R("iretq", "\x48\xcf", 64, FAR_RET, IRET, 0),
	R("iretw", "\x66\xcf", 64, FAR_RET, IRET, 0),
	R("sysretq", "\x48\x0f\x07", 64, FAR_RET, NONE, 0),
	R("sysexit", "\x0f\x35", 64, FAR_RET, NONE, 0),
	R("syscall", "\x0f\x05", 64, FAR_CALL, SYSCALL, 0),
	R("sysenter", "\x0f\x34", 64, FAR_CALL, SYSENTER, 0),
	R("int 0x80", "\xcd\x80", 64, FAR_CALL, INT, 0),
	R("int 3 by CD", "\xcd\x03", 64, FAR_CALL, INT, 0),
	R("int3", "\xcc", 64, FAR_CALL, INT3, 0),
	R("int1", "\xf1", 64, FAR_CALL, INT1, 0),
	R("call far [rax]", "\xff\x18", 64, FAR_CALL, NONE, 0),
	R("call far rex.w", "\x48\xff\x18", 64, FAR_CALL, NONE, 0),
	R("jmp far [rax]", "\xff\x28", 64, FAR_JMP, NONE, 0),
	R("vmcall", "\x0f\x01\xc1", 64, FAR_CALL, NONE, 0),
	R("vmlaunch", "\x0f\x01\xc2", 64, FAR_RET, NONE, 0),
	R("vmresume", "\x0f\x01\xc3", 64, FAR_RET, NONE, 0),
	R("uiret", "\xf3\x0f\x01\xec", 64, FAR_RET, NONE, 0),
	R("ptwrite eax", "\xf3\x0f\xae\xe0", 64, PTWRITE, NONE, 0),
	R("ptwrite rax", "\xf3\x48\x0f\xae\xe0", 64, PTWRITE, NONE, 0),
	R("pushfq", "\x9c", 64, OTHER, PUSHF, 0),
	R("pushfw", "\x66\x9c", 64, OTHER, PUSHF, 0),
	R("popfq", "\x9d", 64, OTHER, POPF, 0),
	R("mov ss, ax", "\x8e\xd0", 64, OTHER, MOV_SS, 0),
	R("mov ss, [rax]", "\x8e\x10", 64, OTHER, MOV_SS, 0),
	R("mov fs, ax", "\x8e\xe0", 64, OTHER, RDFSGS_SEG, 0),
	R("mov gs, ax", "\x8e\xe8", 64, OTHER, RDFSGS_SEG, 0),
	R("pop fs", "\x0f\xa1", 64, OTHER, RDFSGS_SEG, 0),
	R("pop gs", "\x0f\xa9", 64, OTHER, RDFSGS_SEG, 0),
	R("wrfsbase", "\xf3\x48\x0f\xae\xd0", 64, OTHER, RDFSGS_SEG, 0),
	R("wrgsbase", "\xf3\x48\x0f\xae\xd8", 64, OTHER, RDFSGS_SEG, 0),
	R("mov ax, ss", "\x8c\xd0", 64, OTHER, NONE, 0),
	R("pop rax", "\x58", 64, OTHER, NONE, 0),
	R("xbegin", "\xc7\xf8\x10\x00\x00\x00", 64, OTHER, XBEGIN, IP + 0x16),
	R("xabort", "\xc6\xf8\x01", 64, OTHER, XABORT, 0),
	R("xend", "\x0f\x01\xd5", 64, OTHER, XEND, 0),
	R("rep movsb", "\xf3\xa4", 64, OTHER, REP_STRING, 0),
	R("rep movsq", "\xf3\x48\xa5", 64, OTHER, REP_STRING, 0),
	R("rep stosb", "\xf3\xaa", 64, OTHER, REP_STRING, 0),
	R("rep lodsb", "\xf3\xac", 64, OTHER, REP_STRING, 0),
	R("repe cmpsb", "\xf3\xa6", 64, OTHER, REP_STRING, 0),
	R("repne cmpsb", "\xf2\xa6", 64, OTHER, REP_STRING, 0),
	R("repne scasb", "\xf2\xae", 64, OTHER, REP_STRING, 0),
	/* F2 before MOVS, STOS and LODS repeats too on every CPU. */
	R("repne movsb", "\xf2\xa4", 64, OTHER, REP_STRING, 0),
	R("repne stosb", "\xf2\xaa", 64, OTHER, REP_STRING, 0),
	R("rep insb", "\xf3\x6c", 64, OTHER, REP_STRING, 0),
	R("rep outsb", "\xf3\x6e", 64, OTHER, REP_STRING, 0),
	R("movsb", "\xa4", 64, OTHER, NONE, 0),
	R("pause", "\xf3\x90", 64, OTHER, NONE, 0),
	R("movss", "\xf3\x0f\x10\xc1", 64, OTHER, NONE, 0),
	R("movsd xmm", "\xf2\x0f\x10\xc1", 64, OTHER, NONE, 0),
	/* 32-bit code. */
	R("call", "\xe8\x00\x01\x00\x00", 32, CALL, NONE, IP + 0x105),
	R("jmp wraps", "\xe9\xfb\xef\xbf\xff", 32, JMP, NONE, 0),
	R("jmp16", "\x66\xe9\x00\x01", 32, JMP, NONE, 0x1104),
	R("jcxz", "\x67\xe3\x02", 32, COND, NONE, IP + 5),
	R("jecxz", "\xe3\x02", 32, COND, NONE, IP + 4),
	R("jmp far ptr", "\xea\x78\x56\x34\x12\x33\x00", 32, FAR_JMP, NONE, 0),
	R("call far ptr", "\x9a\x78\x56\x34\x12\x33\x00", 32, FAR_CALL, NONE, 0),
	R("into", "\xce", 32, FAR_CALL, INTO, 0),
	R("int 0x80", "\xcd\x80", 32, FAR_CALL, INT, 0),
	R("sysenter", "\x0f\x34", 32, FAR_CALL, SYSENTER, 0),
	R("iret", "\xcf", 32, FAR_RET, IRET, 0),
	R("pop ss", "\x17", 32, OTHER, MOV_SS, 0),
	R("pop ds", "\x1f", 32, OTHER, RDFSGS_SEG, 0),
	R("pop es", "\x07", 32, OTHER, RDFSGS_SEG, 0),
	R("pushfd", "\x9c", 32, OTHER, PUSHF, 0),
	R("inc eax", "\x40", 32, OTHER, NONE, 0),
	R("ret", "\xc3", 32, RET, NONE, 0),
};

START_TEST(instructions_have_their_class)
{
	for (size_t i = 0; i < IPT_ARRAY_SIZE(rows); i++) {
		const struct row *r = &rows[i];
		struct ipt_insn insn;

		memset(&insn, 0xcd, sizeof(insn));
		ck_assert_msg(
			!ipt_x86_decode(&insn, (const uint8_t *)r->bytes, r->len, IP, r->mode),
			"%s: refused", r->name);
		ck_assert_msg(insn.len == r->len, "%s: length %u", r->name, insn.len);
		ck_assert_msg(insn.iclass == r->iclass, "%s: class %u", r->name, insn.iclass);
		ck_assert_msg(insn.sub == r->sub, "%s: sub %u", r->name, insn.sub);
		ck_assert_msg(insn.target == r->target, "%s: target %#llx", r->name,
			      (unsigned long long)insn.target);
	}
}
END_TEST

START_TEST(an_instruction_cut_short_wants_more)
{
	for (size_t i = 0; i < IPT_ARRAY_SIZE(rows); i++) {
		const struct row *r = &rows[i];

		for (size_t n = 0; n < r->len; n++) {
			struct ipt_insn insn;

			ck_assert_msg(ipt_x86_decode(&insn, (const uint8_t *)r->bytes, n, IP,
						     r->mode) == -IPT_E_TRUNC,
				      "%s: %zu bytes", r->name, n);
		}
	}
}
END_TEST

START_TEST(bytes_after_the_instruction_do_not_count)
{
	const uint8_t b[20] = {0xe8, 0, 0, 0, 0, 0xff, 0xff, 0xff};
	struct ipt_insn insn;

	ck_assert_int_eq(ipt_x86_decode(&insn, b, sizeof(b), IP, IPT_X64), 0);
	ck_assert_uint_eq(insn.len, 5);
}
END_TEST

START_TEST(what_is_no_instruction_is_refused)
{
	static const uint8_t bad64[][2] = {{0x06, 0x90}, {0xea, 0x90}, {0xce, 0x90}, {0x17, 0x90}};
	uint8_t prefixes[16];
	struct ipt_insn insn;

	for (size_t i = 0; i < IPT_ARRAY_SIZE(bad64); i++)
		ck_assert_int_eq(ipt_x86_decode(&insn, bad64[i], 2, IP, IPT_X64), -IPT_E_BADINSN);
	memset(prefixes, 0x66, sizeof(prefixes));
	ck_assert_int_eq(ipt_x86_decode(&insn, prefixes, 16, IP, IPT_X64), -IPT_E_BADINSN);
	ck_assert_int_eq(ipt_x86_decode(&insn, prefixes, 14, IP, IPT_X64), -IPT_E_TRUNC);
}
END_TEST

START_TEST(operand_sizes_and_immediates_are_told)
{
	struct ipt_insn insn;

	ck_assert_int_eq(ipt_x86_decode(&insn, (const uint8_t *)"\xcd\x80", 2, IP, IPT_X64), 0);
	ck_assert_uint_eq(insn.imm, 0x80);
	ck_assert_int_eq(ipt_x86_decode(&insn, (const uint8_t *)"\x9c", 1, IP, IPT_X64), 0);
	ck_assert_uint_eq(insn.opsize, 8);
	ck_assert_int_eq(ipt_x86_decode(&insn, (const uint8_t *)"\x66\x9c", 2, IP, IPT_X64), 0);
	ck_assert_uint_eq(insn.opsize, 2);
	ck_assert_int_eq(ipt_x86_decode(&insn, (const uint8_t *)"\x9c", 1, IP, IPT_X32), 0);
	ck_assert_uint_eq(insn.opsize, 4);
	ck_assert_int_eq(ipt_x86_decode(&insn, (const uint8_t *)"\xc3", 1, IP, IPT_X64), 0);
	ck_assert_uint_eq(insn.opsize, 8);
	ck_assert_int_eq(ipt_x86_decode(&insn, (const uint8_t *)"\xe8\0\0\0\0", 5, IP, IPT_X64), 0);
	ck_assert_uint_eq(insn.opsize, 8);
}
END_TEST

CHECK_MAIN("decode", instructions_have_their_class, an_instruction_cut_short_wants_more,
	   bytes_after_the_instruction_do_not_count, what_is_no_instruction_is_refused,
	   operand_sizes_and_immediates_are_told)
