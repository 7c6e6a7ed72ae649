/* SPDX-License-Identifier: MIT */
/* The program's own instructions at another place: as they are, or with what depends on the place
 * made to fit. */
#include "priv.h"

bool ipt_xl_reaches(uint64_t end, uint64_t to, int32_t *rel)
{
	int64_t d = (int64_t)(to - end);

	*rel = (int32_t)d;
	return d == (int32_t)d;
}

static uint64_t rip_target(const struct path_item *it)
{
	int32_t disp;

	memcpy(&disp, it->bytes + it->f.rip_off, sizeof(disp));
	return it->ip + it->f.i.len + (uint64_t)(int64_t)disp;
}

/* A register that the instruction leaves alone and that can be a base without more bytes. */
static unsigned int free_reg(const struct path_item *it)
{
	static const uint8_t regs[] = {RAX, RCX, RDX, RBX, RSI, RDI};
	struct ipt_insn_use u = {.gpr_read = 0xffff};
	uint16_t used;

	ipt_x86_decode_use(&u, it->bytes, it->f.i.len);
	used = u.gpr_read | u.gpr_killed;

	for (size_t i = 0; i < IPT_ARRAY_SIZE(regs); i++) {
		if (!(used >> regs[i] & 1))
			return regs[i];
	}
	ipt_assert(false, "an instruction that uses all registers");
	return RAX;
}

/* The operand is out of reach: through a register. */
static void move_absolute(struct build *b, const struct path_item *it)
{
	struct code *c = &b->c;
	unsigned int reg = free_reg(it), rip = it->f.rip_off;
	uint8_t modrm = it->bytes[it->f.modrm_off];

	ipt_emit_gs_store(c, reg, SL_TMP);
	ipt_xl_point(b, PT_TMP, reg, 0);
	ipt_emit_imm64(c, reg, rip_target(it));
	ipt_emit(c, it->bytes, it->f.modrm_off);
	ipt_emit8(c, (uint8_t)((modrm & 0x38) | reg));
	ipt_emit(c, it->bytes + rip + 4, it->f.i.len - rip - 4u);
	b->item++;
	ipt_xl_point(b, PT_TMP, reg, 0);
	ipt_emit_gs_load(c, reg, SL_TMP);
	b->item--;
}

void ipt_xl_move(struct build *b, const struct path_item *it)
{
	struct code *c = &b->c;
	uint32_t at = c->n;
	int32_t rel;

	if (!it->f.rip_off) {
		ipt_emit(c, it->bytes, it->f.i.len);
		return;
	}
	if (!ipt_xl_reaches(c->va + at + it->f.i.len, rip_target(it), &rel)) {
		move_absolute(b, it);
		return;
	}
	ipt_emit(c, it->bytes, it->f.i.len);
	memcpy(c->p + at + it->f.rip_off, &rel, sizeof(rel));
}

/* FF /2 and FF /4 with their operand as the source of a MOV to rcx. */
void ipt_xl_load_target(struct build *b, const struct path_item *it)
{
	struct code *c = &b->c;
	unsigned int m = it->f.modrm_off;
	int32_t rel;

	if (it->f.rip_off) {
		if (ipt_xl_reaches(c->va + c->n + 7, rip_target(it), &rel)) {
			static const uint8_t load[] = {0x48, 0x8b, 0x0d};

			ipt_emit(c, load, sizeof(load));
			ipt_emit32(c, (uint32_t)rel);
		} else {
			static const uint8_t load[] = {0x48, 0x8b, 0x09};

			ipt_emit_imm64(c, RCX, rip_target(it));
			ipt_emit(c, load, sizeof(load));
		}
		return;
	}
	if (it->f.seg)
		ipt_emit8(c, it->f.seg);
	if (it->f.addr32)
		ipt_emit8(c, 0x67);
	ipt_emit8(c, (uint8_t)(0x48 | (it->f.rex & 3)));
	ipt_emit8(c, 0x8b);
	ipt_emit8(c, (uint8_t)((it->bytes[m] & 0xc7) | RCX << 3));
	ipt_emit(c, it->bytes + m + 1, it->f.i.len - m - 1u);
}

void ipt_xl_push_const(struct build *b, uint64_t v)
{
	struct code *c = &b->c;

	if ((int64_t)v == (int32_t)v) {
		ipt_emit8(c, 0x68);
		ipt_emit32(c, (uint32_t)v);
		return;
	}
	ipt_emit8(c, 0xff);
	ipt_emit8(c, 0x35);
	ipt_emit32(c, 0);
	ipt_xl_literal(b, v);
}

static struct side *side_of_branch(struct build *b, const struct path_item *it, uint32_t jump)
{
	struct side *s = ipt_xl_side(b, SIDE_EXIT, jump);

	s->id = ipt_xl_new_exit(b, EXIT_DIRECT, b->item + 1u, it->other, true);
	return s;
}

/* LOOP and JRCXZ reach 127 bytes only: they jump to a jump, or over it. */
static void short_only(struct build *b, const struct path_item *it)
{
	static const uint8_t over[] = {0x02, 0xeb, 0x05};
	struct code *c = &b->c;
	struct side *s;

	if (it->f.addr32)
		ipt_emit8(c, 0x67);
	ipt_emit8(c, it->bytes[it->f.op_off]);
	if (it->event == EV_NOT)
		ipt_emit(c, over, sizeof(over));
	else
		ipt_emit8(c, 0x05);
	s = side_of_branch(b, it, c->n + 1);
	if (it->event == EV_NOT) {
		c->n -= 2;
		b->item++;
		ipt_xl_point(b, 0, 0, 0);
		b->item--;
		c->n += 2;
	}
	ipt_xl_point(b, PT_TAKE, 0, s->id);
	ipt_emit8(c, 0xe9);
	ipt_emit32(c, 0);
}

void ipt_xl_cond(struct build *b, const struct path_item *it)
{
	struct code *c = &b->c;
	const uint8_t *op = it->bytes + it->f.op_off;
	uint8_t cc = op[0] == 0x0f ? op[1] & 0xf : op[0] & 0xf;

	if (op[0] >= 0xe0 && op[0] <= 0xe3) {
		short_only(b, it);
		return;
	}
	ipt_emit8(c, 0x0f);
	ipt_emit8(c, (uint8_t)(0x80 | (it->event == EV_TAKEN ? cc ^ 1 : cc)));
	ipt_emit32(c, 0);
	side_of_branch(b, it, c->n - 4);
}

unsigned int ipt_xl_ret_bytes(const struct path_item *it)
{
	const uint8_t *op = it->bytes + it->f.op_off;

	return 8u + (op[0] == 0xc2 ? op[1] | (unsigned int)op[2] << 8 : 0);
}

/* lea rsp, [rsp + bytes]: flags stay. */
void ipt_xl_raise_rsp(struct build *b, unsigned int bytes)
{
	struct code *c = &b->c;
	bool small = bytes < 128;

	ipt_emit8(c, 0x48);
	ipt_emit8(c, 0x8d);
	ipt_emit8(c, small ? 0x64 : 0xa4);
	ipt_emit8(c, 0x24);
	if (small)
		ipt_emit8(c, (uint8_t)bytes);
	else
		ipt_emit32(c, bytes);
}

static void side_of_ret(struct build *b, const struct path_item *it, uint32_t jump,
			unsigned int flags)
{
	struct side *s = ipt_xl_side(b, SIDE_RET, jump);

	s->id = ipt_xl_new_exit(b, EXIT_RET, b->item + 1u, 0, true);
	s->flags = (uint16_t)flags;
	s->pop = ipt_xl_ret_bytes(it);
}

/* cmp [rsp], return address; jne side. The flags are dead. */
static void compare_return(struct build *b, const struct path_item *it)
{
	static const uint8_t cmp_imm[] = {0x48, 0x81, 0x3c, 0x24};
	static const uint8_t cmp_rax[] = {0x48, 0x39, 0x04, 0x24};
	struct code *c = &b->c;

	if ((int64_t)it->other == (int32_t)it->other) {
		ipt_emit(c, cmp_imm, sizeof(cmp_imm));
		ipt_emit32(c, (uint32_t)it->other);
	} else {
		ipt_emit_gs_store(c, RAX, SL_RAX);
		ipt_xl_point(b, PT_RAX, 0, 0);
		ipt_emit_imm64(c, RAX, it->other);
		ipt_emit(c, cmp_rax, sizeof(cmp_rax));
		ipt_emit_gs_load(c, RAX, SL_RAX);
		ipt_xl_point(b, 0, 0, 0);
	}
	ipt_emit8(c, 0x0f);
	ipt_emit8(c, 0x85);
	ipt_emit32(c, 0);
	side_of_ret(b, it, c->n - 4, 0);
}

/* The same of any target in rcx without touching flags: rcx and rax are put aside before. Where the
 * jump to the side is. */
static uint32_t jump_unless(struct build *b, uint64_t target)
{
	struct code *c = &b->c;

	ipt_emit_imm64(c, RAX, -target);
	ipt_emit_lea_sum(c, RCX, RAX);
	ipt_emit8(c, 0xe3); /* jrcxz over the jump */
	ipt_emit8(c, 0x05);
	ipt_emit8(c, 0xe9);
	ipt_emit32(c, 0);
	return c->n - 4;
}

static void put_pair_aside(struct build *b)
{
	ipt_emit_gs_store(&b->c, RCX, SL_RCX);
	ipt_emit_gs_store(&b->c, RAX, SL_RAX);
	ipt_xl_point(b, PT_RCX | PT_RAX, 0, 0);
}

static void put_pair_back(struct build *b)
{
	ipt_emit_gs_load(&b->c, RCX, SL_RCX);
	ipt_emit_gs_load(&b->c, RAX, SL_RAX);
	ipt_xl_point(b, 0, 0, 0);
}

static void compare_return_quietly(struct build *b, const struct path_item *it)
{
	put_pair_aside(b);
	ipt_emit_load_top(&b->c);
	side_of_ret(b, it, jump_unless(b, it->other), PT_RCX | PT_RAX);
	put_pair_back(b);
}

void ipt_xl_ret_on_path(struct build *b, const struct path_item *it)
{
	if (ipt_xl_flags_dead(b->x, it->other))
		compare_return(b, it);
	else
		compare_return_quietly(b, it);
	ipt_xl_raise_rsp(b, ipt_xl_ret_bytes(it));
}

static void side_of_ind(struct build *b, const struct path_item *it, uint32_t jump,
			unsigned int flags)
{
	struct side *s = ipt_xl_side(b, SIDE_IND, jump);

	s->it = it;
	s->flags = (uint16_t)flags;
}

/* cmp rcx, target; jne side. The flags are dead. */
static void compare_target(struct build *b, const struct path_item *it)
{
	static const uint8_t cmp_imm[] = {0x48, 0x81, 0xf9};
	static const uint8_t cmp_rax[] = {0x48, 0x39, 0xc1};
	struct code *c = &b->c;

	ipt_emit_gs_store(c, RCX, SL_RCX);
	ipt_xl_point(b, PT_RCX, 0, 0);
	ipt_xl_load_target(b, it);
	if ((int64_t)it->other == (int32_t)it->other) {
		ipt_emit(c, cmp_imm, sizeof(cmp_imm));
		ipt_emit32(c, (uint32_t)it->other);
	} else {
		ipt_emit_gs_store(c, RAX, SL_RAX);
		ipt_xl_point(b, PT_RCX | PT_RAX, 0, 0);
		ipt_emit_imm64(c, RAX, it->other);
		ipt_emit(c, cmp_rax, sizeof(cmp_rax));
		ipt_emit_gs_load(c, RAX, SL_RAX);
	}
	ipt_emit_gs_load(c, RCX, SL_RCX);
	ipt_xl_point(b, 0, 0, 0);
	ipt_emit8(c, 0x0f);
	ipt_emit8(c, 0x85);
	ipt_emit32(c, 0);
	side_of_ind(b, it, c->n - 4, 0);
}

static void compare_target_quietly(struct build *b, const struct path_item *it)
{
	put_pair_aside(b);
	ipt_xl_load_target(b, it);
	side_of_ind(b, it, jump_unless(b, it->other), PT_RCX | PT_RAX);
	put_pair_back(b);
}

void ipt_xl_ind_on_path(struct build *b, const struct path_item *it)
{
	if (ipt_xl_flags_dead(b->x, it->other))
		compare_target(b, it);
	else
		compare_target_quietly(b, it);
	if (it->event == EV_CALL_IND)
		ipt_xl_push_const(b, it->ip + it->f.i.len);
}
