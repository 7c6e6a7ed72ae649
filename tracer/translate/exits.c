/* SPDX-License-Identifier: MIT */
/*
 * Where a trace is entered by indirect branches and where it is left: each way out writes its id,
 * an indirect one the id of the trace that it comes to as well (that is done by that trace's
 * entry, which also checks that it is the right one).
 */
#include <assert.h>

#include "priv.h"

static void jcc(struct build *b, uint8_t cc, enum side_kind kind, uint32_t id, uint64_t target)
{
	struct side *s;

	ipt_emit8(&b->c, 0x0f);
	ipt_emit8(&b->c, (uint8_t)(0x80 | cc));
	ipt_emit32(&b->c, 0);
	s = ipt_xl_side(b, kind, b->c.n - 4);
	s->id = id;
	s->target = target;
}

/* cmp reg, gs:[SL_LIM]; reg is rax or rcx. */
static void cmp_limit(struct code *c, unsigned int reg)
{
	static const uint8_t op[] = {0x65, 0x48, 0x3b};

	ipt_emit(c, op, sizeof(op));
	ipt_emit8(c, (uint8_t)(reg << 3 | 4));
	ipt_emit8(c, 0x25);
	ipt_emit32(c, SL_LIM);
}

#define CC_AE 3
#define CC_NE 5

/* rax is the new pointer, the program's in SL_RAX; flags are needed by what follows. */
static void check_limit_quietly(struct build *b, uint32_t id, uint64_t target, unsigned int flags,
				uint32_t aux)
{
	static const uint8_t copy[] = {0x48, 0x89, 0xc1}; /* mov rcx, rax */
	struct code *c = &b->c;
	struct side *s;

	if (!(flags & PT_RCX))
		ipt_emit_gs_store(c, RCX, SL_RCX);
	ipt_xl_point(b, flags | PT_RCX, 0, aux);
	ipt_emit(c, copy, sizeof(copy));
	ipt_emit_save_flags(c);
	ipt_xl_point(b, flags | PT_RCX | PT_FLAGS, 0, aux);
	cmp_limit(c, RCX);
	jcc(b, CC_AE, SIDE_FULL, id, target);
	s = &b->sides[b->n_sides - 1];
	s->flags = (uint16_t)(flags | PT_RCX | PT_FLAGS);
	ipt_emit_load_flags(c);
	ipt_emit_gs_load(c, RCX, SL_RCX);
}

/* The record is written and rax is the new pointer: put the program's registers back, and see
 * whether the segment is full. */
static void end_record(struct build *b, uint32_t id, uint64_t target, unsigned int flags,
		       uint32_t aux)
{
	struct code *c = &b->c;
	bool dead = ipt_xl_flags_dead(b->x, target);

	if (dead)
		cmp_limit(c, RAX);
	else
		check_limit_quietly(b, id, target, flags, aux);
	if (flags & PT_RCX && dead)
		ipt_emit_gs_load(c, RCX, SL_RCX);
	ipt_emit_gs_load(c, RAX, SL_RAX);
	ipt_xl_point(b, flags & ~(unsigned int)(PT_RAX | PT_RCX), 0, aux);
	if (dead)
		jcc(b, CC_AE, SIDE_FULL, id, target);
}

void ipt_xl_entry(struct build *b)
{
	struct code *c = &b->c;
	uint64_t head = b->t->head;

	ipt_xl_point(b, PT_ENTRY | PT_RAX | PT_RCX, 0, ENTRY_TARGET);
	b->t->imm = b->t->code + c->n + 2;
	ipt_emit_imm64(c, RAX, -head);
	/* Until the sum is made rcx is the target, whatever rax. */
	ipt_emit_lea_sum(c, RCX, RAX);
	ipt_xl_point(b, PT_ENTRY | PT_RAX | PT_RCX, 0, ENTRY_SUM);
	ipt_emit8(c, 0xe3); /* jrcxz over the jump */
	ipt_emit8(c, 0x07);
	ipt_emit_jmp_abs(c, (uint32_t)b->x->low_va + LOW_ENTRY + 8 * STUB_LOOKUP);
	ipt_xl_point(b, PT_ENTRY | PT_RAX | PT_RCX, 0, ENTRY_HEAD);
	ipt_emit_gs_load(c, RAX, SL_PTR);
	ipt_emit_store_imm(c, RAX, 4, b->index);
	ipt_emit_lea8(c, RAX, RAX, 8);
	ipt_emit_gs_store(c, RAX, SL_PTR);
	ipt_xl_point(b, PT_RAX | PT_RCX, 0, 0);
	end_record(b, b->index | ID_TRACE, head, PT_RAX | PT_RCX, 0);
}

/* jne to the next one, which goes on: the last of them goes to the side. */
static void chain(struct code *c, uint32_t *before)
{
	if (*before)
		c->p[*before - 1] = (uint8_t)(c->n - *before);
	ipt_emit8(c, 0x75);
	ipt_emit8(c, 0);
	*before = c->n;
}

/* A piece of source of 8, 4, 2 or 1 bytes against what was translated. */
static void compare_piece(struct build *b, uint64_t va, const uint8_t *want, unsigned int n)
{
	struct code *c = &b->c;
	uint64_t v = 0;
	int32_t rel;
	uint32_t end;

	memcpy(&v, want, n);
	ipt_emit_imm64(c, RAX, v);
	/* cmp [rip + rel], rax/eax/ax/al */
	if (n == 2)
		ipt_emit8(c, 0x66);
	if (n == 8)
		ipt_emit8(c, 0x48);
	ipt_emit8(c, n == 1 ? 0x38 : 0x39);
	ipt_emit8(c, 0x05);
	end = c->n + 4;
	ipt_assert(ipt_xl_reaches(c->va + end, va, &rel), "code memory is near its source");
	ipt_emit32(c, (uint32_t)rel);
}

/* The largest aligned piece at @va of at most @left bytes: a program may set RFLAGS.AC. */
static unsigned int piece_at(uint64_t va, unsigned int left)
{
	unsigned int k = 8;

	while (k > left || va % k)
		k /= 2;
	return k;
}

void ipt_xl_check_source(struct build *b)
{
	const struct path *p = b->path;
	uint8_t src[MAX_ITEMS * IPT_INSN_MAX];
	unsigned int n = 0, k;
	uint32_t before = 0;
	bool flags = !ipt_xl_flags_dead(b->x, b->t->head);

	for (unsigned int i = 0; i < p->n; i++) {
		memcpy(src + n, p->v[i].bytes, p->v[i].f.i.len);
		n += p->v[i].f.i.len;
	}
	ipt_emit_gs_store(&b->c, RAX, SL_RAX);
	ipt_xl_point(b, PT_RAX, 0, 0);
	if (flags) {
		ipt_emit_save_flags(&b->c);
		ipt_xl_point(b, PT_RAX | PT_FLAGS, 0, 0);
	}
	for (unsigned int at = 0; at < n; at += k) {
		k = piece_at(b->t->head + at, n - at);
		compare_piece(b, b->t->head + at, src + at, k);
		if (at + k < n)
			chain(&b->c, &before);
	}
	if (before)
		b->c.p[before - 1] = (uint8_t)(b->c.n - before);
	jcc(b, CC_NE, SIDE_STALE, b->index, b->t->head);
	b->sides[b->n_sides - 1].flags = PT_RAX | (flags ? PT_FLAGS : 0);
	if (flags)
		ipt_emit_load_flags(&b->c);
	ipt_emit_gs_load(&b->c, RAX, SL_RAX);
	ipt_xl_point(b, 0, 0, 0);
}

void ipt_xl_request(struct build *b, unsigned int stub, uint64_t target, uint32_t id)
{
	static const uint8_t lea[] = {0x48, 0x8d, 0x0d}; /* lea rcx, [rip + rel] */
	struct code *c = &b->c;
	struct point *p = &b->points[b->n_points - 1];
	unsigned int flags = p->flags, aux = p->aux;

	ipt_emit_gs_store(c, RCX, SL_RCX);
	ipt_xl_point(b, flags | PT_RCX, 0, aux);
	ipt_emit(c, lea, sizeof(lea));
	ipt_emit32(c, 0);
	ipt_xl_literal_pair(b, target, id);
	ipt_emit_jmp_abs(c, (uint32_t)b->x->low_va + LOW_ENTRY + 8 * stub);
}

/* jmp to the translation of exit @id's target; until there is one, ask for it. What is changed
 * while threads run lies in one aligned word. */
void ipt_xl_jump_on(struct build *b, uint32_t id)
{
	static const uint8_t far[] = {0xff, 0x25, 2,    0,
				      0,    0,    0xcc, 0xcc}; /* jmp [the next 8 bytes] */
	struct code *c = &b->c;
	struct xexit *e = exit_at(b->x, id);

	while ((c->va + c->n + (e->far ? 0 : 1)) % (e->far ? 8 : 4))
		ipt_emit8(c, 0x90);
	e->jump = b->t->code + c->n;
	if (e->far) {
		ipt_emit(c, far, sizeof(far));
		e->patch = b->t->code + c->n;
		ipt_emit64(c, c->va + c->n + 8);
	} else {
		ipt_emit8(c, 0xe9);
		e->patch = b->t->code + c->n;
		ipt_emit32(c, 0);
	}
	e->miss = b->t->code + c->n;
	ipt_xl_request(b, STUB_MISS, e->target, id);
}

/*
 * The common way out, forward: nothing is looked at, so that all of them are the same bytes. The
 * places in it are told by ipt_xl_plain_flags().
 */
static const uint8_t plain[] = {
	0x65, 0x48, 0x89, 0x04, 0x25, SL_RAX, 0, 0, 0, /* mov gs:[SL_RAX], rax */
	0x65, 0x48, 0x8b, 0x04, 0x25, SL_PTR, 0, 0, 0, /* mov rax, gs:[SL_PTR] */
	0xc7, 0x00, 0,    0,    0,    0,               /* mov dword [rax], id */
	0x48, 0x8d, 0x40, 0x04,                        /* lea rax, [rax + 4] */
	0x65, 0x48, 0x89, 0x04, 0x25, SL_PTR, 0, 0, 0, /* mov gs:[SL_PTR], rax */
	0x65, 0x48, 0x8b, 0x04, 0x25, SL_RAX, 0, 0, 0, /* mov rax, gs:[SL_RAX] */
	0xe9, 0,    0,    0,    0,                     /* jmp target */
	0x65, 0x48, 0x89, 0x0c, 0x25, SL_RCX, 0, 0, 0, /* mov gs:[SL_RCX], rcx */
	0x48, 0x8d, 0x0d, 8,    0,    0,      0,       /* lea rcx, [the 16 bytes at the end] */
	0xff, 0x24, 0x25, 0,    0,    0,      0,       /* jmp [LOW_ENTRY] */
	0xcc,
};

enum plain_offset {
	PLAIN_SAVED = 9,
	PLAIN_ID = 20,
	PLAIN_RECORDED = 37,
	PLAIN_RESTORED = 46,
	PLAIN_PATCH = 47,
	PLAIN_MISS = 51,
	PLAIN_MISS_SAVED = 60,
	PLAIN_ENTRY = 70,
	PLAIN_LITERAL = 75,
};

static_assert((PLAIN_LITERAL - PLAIN_PATCH) % 4 == 0, "both can be aligned");
static_assert(sizeof(plain) == PLAIN_LITERAL, "the offsets are those of the bytes");

unsigned int ipt_xl_plain_flags(uint32_t off)
{
	if (off < PLAIN_SAVED)
		return PT_TAKE;
	if (off < PLAIN_RECORDED)
		return PT_TAKE | PT_RAX;
	if (off < PLAIN_RESTORED)
		return PT_EXITED | PT_RAX;
	return off < PLAIN_MISS_SAVED ? PT_EXITED : PT_EXITED | PT_RCX;
}

static void exit_plain(struct build *b, uint32_t id)
{
	struct code *c = &b->c;
	struct xexit *e = exit_at(b->x, id);
	uint32_t at, entry = (uint32_t)b->x->low_va + LOW_ENTRY + 8 * STUB_MISS;

	ipt_xl_point(b, PT_TAKE, 0, id);
	/* So that the jump's rel32 and the literal are aligned (a program may set RFLAGS.AC). */
	while ((c->va + c->n + PLAIN_LITERAL) % 8)
		ipt_emit8(c, 0x90);
	ipt_xl_point(b, PT_PLAIN, 0, id);
	at = c->n;
	ipt_emit(c, plain, sizeof(plain));
	memcpy(c->p + at + PLAIN_ID, &id, sizeof(id));
	memcpy(c->p + at + PLAIN_ENTRY, &entry, sizeof(entry));
	ipt_emit64(c, e->target);
	ipt_emit64(c, id);
	e->jump = b->t->code + at + PLAIN_RESTORED;
	e->patch = b->t->code + at + PLAIN_PATCH;
	e->miss = b->t->code + at + PLAIN_MISS;
}

void ipt_xl_exit_direct(struct build *b, uint32_t id)
{
	struct code *c = &b->c;
	const struct xexit *e = exit_at(b->x, id);

	/* Of code that is filtered out only the first translations tell of themselves. */
	if (e->out && e->target_out && b->path->hot) {
		ipt_xl_point(b, PT_EXITED, 0, id);
		ipt_xl_jump_on(b, id);
		return;
	}
	/* Each cycle has a way back, or out and in, which sees whether the segment is full. */
	if (e->target > b->t->head && !e->far && e->out == e->target_out) {
		exit_plain(b, id);
		return;
	}
	ipt_xl_point(b, PT_TAKE, 0, id);
	ipt_emit_gs_store(c, RAX, SL_RAX);
	ipt_xl_point(b, PT_TAKE | PT_RAX, 0, id);
	ipt_emit_gs_load(c, RAX, SL_PTR);
	ipt_emit_store_imm(c, RAX, 0, id);
	ipt_emit_lea8(c, RAX, RAX, 4);
	ipt_emit_gs_store(c, RAX, SL_PTR);
	ipt_xl_point(b, PT_EXITED | PT_RAX, 0, id);
	end_record(b, id, e->target, PT_EXITED | PT_RAX, id);
	ipt_xl_jump_on(b, id);
}

void ipt_xl_go_indirect(struct build *b, uint32_t id)
{
	static const uint8_t low16[] = {0x0f, 0xb7, 0xc1}; /* movzx eax, cx */
	static const uint8_t jump[] = {0xff, 0x24, 0xc5};  /* jmp [rax*8 + disp32] */
	struct code *c = &b->c;

	ipt_emit_gs_load(c, RAX, SL_PTR);
	ipt_emit_store_imm(c, RAX, 0, id);
	ipt_emit(c, low16, sizeof(low16));
	ipt_emit(c, jump, sizeof(jump));
	ipt_emit32(c, (uint32_t)b->x->low_va + LOW_CODE);
}

void ipt_xl_exit_indirect(struct build *b, const struct path_item *it, enum exit_kind kind,
			  bool off)
{
	struct code *c = &b->c;
	uint32_t id = ipt_xl_new_exit(b, kind, b->item + 1u, 0, off);
	uint64_t ret = it->ip + it->f.i.len;

	ipt_emit_gs_store(c, RCX, SL_RCX);
	ipt_emit_gs_store(c, RAX, SL_RAX);
	ipt_xl_point(b, PT_RCX | PT_RAX, 0, 0);
	if (kind == EXIT_RET) {
		ipt_emit_load_top(c);
		ipt_xl_raise_rsp(b, ipt_xl_ret_bytes(it));
		ipt_xl_point(b, PT_RCX | PT_RAX | PT_POPPED, 0, ipt_xl_ret_bytes(it));
	} else {
		ipt_xl_load_target(b, it);
	}
	if (kind == EXIT_CALL_IND) {
		exit_at(b->x, id)->w.way.ret = ret;
		ipt_xl_push_const(b, ret);
		ipt_xl_point(b, PT_RCX | PT_RAX | PT_PUSHED, 0, 0);
	}
	ipt_xl_go_indirect(b, id);
}

static void side_ret(struct build *b, const struct side *s)
{
	struct code *c = &b->c;

	ipt_xl_point(b, s->flags, 0, 0);
	if (!s->flags) {
		ipt_emit_gs_store(c, RCX, SL_RCX);
		ipt_emit_gs_store(c, RAX, SL_RAX);
	}
	ipt_xl_point(b, PT_RCX | PT_RAX, 0, 0);
	ipt_emit_load_top(c);
	ipt_xl_raise_rsp(b, s->pop);
	ipt_xl_point(b, PT_RCX | PT_RAX | PT_POPPED, 0, s->pop);
	ipt_xl_go_indirect(b, s->id);
}

/* Registers put aside before a request come back first. */
static void put_back(struct build *b, const struct side *s, unsigned int keep, uint32_t aux)
{
	ipt_xl_point(b, keep | s->flags, 0, aux);
	if (s->flags & PT_FLAGS)
		ipt_emit_load_flags(&b->c);
	if (s->flags & PT_RCX)
		ipt_emit_gs_load(&b->c, RCX, SL_RCX);
	if (s->flags & PT_RAX)
		ipt_emit_gs_load(&b->c, RAX, SL_RAX);
	ipt_xl_point(b, keep, 0, aux);
}

static void side_full(struct build *b, const struct side *s)
{
	bool entry = s->id & ID_TRACE;

	put_back(b, s, entry ? 0 : PT_EXITED, entry ? 0 : s->id);
	ipt_xl_request(b, STUB_FULL, s->target, s->id);
}

static void side(struct build *b, const struct side *s)
{
	switch (s->kind) {
	case SIDE_EXIT: ipt_xl_exit_direct(b, s->id); break;
	case SIDE_RET: side_ret(b, s); break;
	case SIDE_IND:
		put_back(b, s, 0, 0);
		ipt_xl_exit_indirect(
			b, s->it, s->it->event == EV_CALL_IND ? EXIT_CALL_IND : EXIT_JMP_IND, true);
		break;
	case SIDE_FULL: side_full(b, s); break;
	case SIDE_STALE:
		put_back(b, s, 0, 0);
		ipt_xl_request(b, STUB_STALE, s->target, s->id);
		break;
	case SIDE_SYSCALL: ipt_xl_side_syscall(b, s); break;
	case SIDE_NOTIFY: ipt_xl_side_notify(b, s); break;
	case SIDE_FULL_SYSCALL: ipt_xl_side_full(b, s); break;
	}
}

/* Sides make sides: their limit checks. */
void ipt_xl_sides(struct build *b)
{
	for (unsigned int i = 0; i < b->n_sides; i++) {
		struct side s = b->sides[i];

		ipt_emit_patch(&b->c, s.jump, b->c.n);
		b->item = s.item;
		side(b, &s);
	}
}
