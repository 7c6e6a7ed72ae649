/* SPDX-License-Identifier: MIT */
/* Bytes of code: the few instructions that are put between the program's own. None touches flags,
 * the stack or vector registers but where it says so. SDM volume 2, "Instruction Format". */
#include "priv.h"

static void gs_op(struct code *c, uint8_t op, unsigned int reg, uint32_t off)
{
	uint64_t head = 0x65 | (uint64_t)(0x48 | (reg >> 3) << 2) << 8 | (uint64_t)op << 16 |
			(uint64_t)((reg & 7) << 3 | 4) << 24 | 0x25ull << 32 | (uint64_t)off << 40;

	memcpy(c->p + c->n, &head, sizeof(head));
	c->p[c->n + 8] = (uint8_t)(off >> 24);
	c->n += 9;
}

void ipt_emit_load_top(struct code *c)
{
	static const uint8_t load[] = {0x48, 0x8b, 0x0c, 0x24};

	ipt_emit(c, load, sizeof(load));
}

void ipt_emit_gs_load(struct code *c, unsigned int reg, uint32_t off)
{
	gs_op(c, 0x8b, reg, off);
}

void ipt_emit_gs_store(struct code *c, unsigned int reg, uint32_t off)
{
	gs_op(c, 0x89, reg, off);
}

/* mov dword gs:[off], imm */
void ipt_emit_gs_imm(struct code *c, uint32_t off, uint32_t imm)
{
	static const uint8_t op[] = {0x65, 0xc7, 0x04, 0x25};

	ipt_emit(c, op, sizeof(op));
	ipt_emit32(c, off);
	ipt_emit32(c, imm);
}

void ipt_emit_imm64(struct code *c, unsigned int reg, uint64_t v)
{
	ipt_emit8(c, (uint8_t)(0x48 | reg >> 3));
	ipt_emit8(c, (uint8_t)(0xb8 | (reg & 7)));
	ipt_emit64(c, v);
}

/* mov dword [base + disp], imm; base is one of the first eight, not rsp. */
void ipt_emit_store_imm(struct code *c, unsigned int base, uint8_t disp, uint32_t imm)
{
	ipt_emit8(c, 0xc7);
	ipt_emit8(c, (uint8_t)((disp ? 0x40 : 0) | base));
	if (disp)
		ipt_emit8(c, disp);
	ipt_emit32(c, imm);
}

/* lea dst, [base + disp]; not rsp. */
void ipt_emit_lea8(struct code *c, unsigned int dst, unsigned int base, int8_t disp)
{
	ipt_emit8(c, 0x48);
	ipt_emit8(c, 0x8d);
	ipt_emit8(c, (uint8_t)(0x40 | dst << 3 | base));
	ipt_emit8(c, (uint8_t)disp);
}

/* lea dst, [dst + other] */
void ipt_emit_lea_sum(struct code *c, unsigned int dst, unsigned int other)
{
	ipt_emit8(c, 0x48);
	ipt_emit8(c, 0x8d);
	ipt_emit8(c, (uint8_t)(dst << 3 | 4));
	ipt_emit8(c, (uint8_t)(other << 3 | dst));
}

void ipt_emit_save_flags(struct code *c)
{
	static const uint8_t lahf_seto[] = {0x9f, 0x0f, 0x90, 0xc0};

	ipt_emit(c, lahf_seto, sizeof(lahf_seto));
	ipt_emit_gs_store(c, RAX, SL_FLAGS);
}

void ipt_emit_load_flags(struct code *c)
{
	static const uint8_t add_sahf[] = {0x04, 0x7f, 0x9e};

	ipt_emit_gs_load(c, RAX, SL_FLAGS);
	ipt_emit(c, add_sahf, sizeof(add_sahf));
}

void ipt_emit_jmp_abs(struct code *c, uint32_t at)
{
	static const uint8_t op[] = {0xff, 0x24, 0x25};

	ipt_emit(c, op, sizeof(op));
	ipt_emit32(c, at);
}

void ipt_emit_patch(struct code *c, uint32_t pos, uint32_t to)
{
	uint32_t rel = to - (pos + 4);

	memcpy(c->p + pos, &rel, sizeof(rel));
}
