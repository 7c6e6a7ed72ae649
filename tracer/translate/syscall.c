/* SPDX-License-Identifier: MIT */
/*
 * SYSCALL without a stop. rcx and r11 are dead before it, since it overwrites both. Those that the
 * tracer must see are told by a table of numbers; those that change mappings are made, and told
 * afterwards.
 */
#include <sys/mman.h>

#include "priv.h"

static void jump_to_side(struct build *b, const uint8_t *op, size_t n, enum side_kind kind,
			 uint32_t id, uint64_t target)
{
	struct side *s;

	ipt_emit(&b->c, op, n);
	ipt_emit32(&b->c, 0);
	s = ipt_xl_side(b, kind, b->c.n - 4);
	s->id = id;
	s->target = target;
}

static void restore_number(struct build *b)
{
	static const uint8_t from_r11[] = {0x4c, 0x89, 0xd8}; /* mov rax, r11 */

	ipt_emit_load_flags(&b->c);
	ipt_emit(&b->c, from_r11, sizeof(from_r11));
}

/* What class of syscall is it? Falls through when it is a plain one. */
static void classify(struct build *b, uint32_t id, uint64_t ip)
{
	static const uint8_t to_r11[] = {0x49, 0x89, 0xc3};      /* mov r11, rax */
	static const uint8_t cmp[] = {0x49, 0x81, 0xfb};         /* cmp r11, imm32 */
	static const uint8_t class[] = {0x41, 0x0f, 0xb6, 0x8b}; /* movzx ecx, byte [r11+disp32] */
	static const uint8_t jae[] = {0x0f, 0x83}, jmp[] = {0xe9};
	struct code *c = &b->c;

	ipt_emit(c, to_r11, sizeof(to_r11));
	ipt_xl_point(b, PT_R11, 0, 0);
	ipt_emit_save_flags(c);
	ipt_xl_point(b, PT_R11 | PT_FLAGS, 0, 0);
	ipt_emit(c, cmp, sizeof(cmp));
	ipt_emit32(c, SYSTAB_MAX);
	jump_to_side(b, jae, sizeof(jae), SIDE_SYSCALL, id, ip);
	b->sides[b->n_sides - 1].back = 0;
	ipt_emit(c, class, sizeof(class));
	ipt_emit32(c, (uint32_t)b->x->low_va + LOW_SYSTAB);
	ipt_emit8(c, 0xe3); /* jrcxz over the jump */
	ipt_emit8(c, 0x05);
	jump_to_side(b, jmp, sizeof(jmp), SIDE_SYSCALL, id, ip);
	b->sides[b->n_sides - 1].back = c->n;
}

static void record(struct build *b, uint32_t id)
{
	struct code *c = &b->c;

	ipt_emit_gs_load(c, RCX, SL_PTR);
	ipt_emit_store_imm(c, RCX, 0, id);
	ipt_emit_lea8(c, RCX, RCX, 4);
	ipt_emit_gs_store(c, RCX, SL_PTR);
}

/* Back from the kernel: the time, and where it goes on. */
static void record_return(struct build *b, uint32_t id)
{
	static const uint8_t tsc[] = {0x0f, 0x31, 0x90};
	static const uint8_t store[] = {0x89, 0x41, 0x04, 0x89, 0x51, 0x08};
	struct code *c = &b->c;

	ipt_xl_point(b, PT_SYS, 0, id);
	ipt_emit_gs_store(c, RAX, SL_RAX);
	ipt_emit_gs_store(c, RDX, SL_RDX);
	ipt_xl_point(b, PT_SYS | PT_RAX | PT_RDX, 0, id);
	ipt_emit(c, tsc, 2);
	ipt_emit_gs_load(c, RCX, SL_PTR);
	ipt_emit_store_imm(c, RCX, 0, ID_RESUME);
	ipt_emit(c, store, sizeof(store));
	ipt_emit_lea8(c, RCX, RCX, 12);
	ipt_emit_gs_store(c, RCX, SL_PTR);
	ipt_xl_point(b, PT_RESUMED | PT_RAX | PT_RDX, 0, id);
}

/* A loop may have no other way back than a syscall. rcx is the new pointer, rax and rdx are put
 * aside; the flags are the program's. */
static void check_limit(struct build *b, uint32_t id)
{
	static const uint8_t save[] = {0x9f, 0x0f, 0x90, 0xc0};            /* lahf; seto al */
	static const uint8_t cmp[] = {0x65, 0x48, 0x3b, 0x0c, 0x25};       /* cmp rcx, gs:[] */
	static const uint8_t keep[] = {0x0f, 0x93, 0xc2, 0x04, 0x7f, 0x9e, /* setae dl; flags */
				       0x0f, 0xb6, 0xca, 0xe3, 0x05}; /* movzx ecx, dl; jrcxz */
	static const uint8_t jmp[] = {0xe9};
	struct code *c = &b->c;
	uint32_t off = SL_LIM;

	ipt_emit_gs_load(c, RCX, SL_PTR);
	ipt_emit(c, save, sizeof(save));
	ipt_emit(c, cmp, sizeof(cmp));
	ipt_emit32(c, off);
	ipt_emit(c, keep, sizeof(keep));
	jump_to_side(b, jmp, sizeof(jmp), SIDE_FULL_SYSCALL, id, exit_at(b->x, id)->target);
}

static void leave_kernel(struct build *b, uint32_t id)
{
	struct code *c = &b->c;

	ipt_emit_gs_load(c, RDX, SL_RDX);
	ipt_emit_gs_load(c, RAX, SL_RAX);
	ipt_xl_point(b, PT_RESUMED, 0, id);
	ipt_emit_imm64(c, RCX, exit_at(b->x, id)->target);
}

void ipt_xl_exit_syscall(struct build *b, const struct path_item *it)
{
	static const uint8_t syscall[] = {0x0f, 0x05}, jmp[] = {0xe9};
	struct code *c = &b->c;
	uint64_t next = it->ip + it->f.i.len;
	/* The way to a syscall that is stepped ends before it. */
	uint32_t before = ipt_xl_new_exit(b, EXIT_DIRECT, b->item, it->ip, false);
	uint32_t id = ipt_xl_new_exit(b, EXIT_SYSCALL, b->item + 1u, next, false);

	classify(b, before, it->ip);
	restore_number(b);
	ipt_xl_point(b, 0, 0, 0);
	record(b, id);
	ipt_xl_point(b, PT_UNDO, 0, 0);
	ipt_emit(c, syscall, sizeof(syscall));
	record_return(b, id);
	ipt_emit_gs_load(c, RCX, SL_NOTIFY);
	ipt_emit8(c, 0xe3);
	ipt_emit8(c, 0x05);
	jump_to_side(b, jmp, sizeof(jmp), SIDE_NOTIFY, id, next);
	check_limit(b, id);
	leave_kernel(b, id);
	ipt_xl_jump_on(b, id);
}

/* Not plain: ecx is the class when it can go back. */
void ipt_xl_side_syscall(struct build *b, const struct side *s)
{
	static const uint8_t is_step[] = {0x80, 0xf9, SYSC_STEP, 0x74}; /* cmp cl; je */
	static const uint8_t is_mmap[] = {0x80, 0xf9, SYSC_MMAP, 0x75, 15};
	static const uint8_t exec[] = {0xf6, 0xc2, PROT_EXEC, 0x75, 10}; /* test dl; jnz */
	static const uint8_t fixed[] = {0x41, 0xf6, 0xc2, MAP_FIXED};    /* test r10b */
	static const uint8_t jz[] = {0x0f, 0x84};
	struct code *c = &b->c;
	uint32_t step = 0;

	ipt_xl_point(b, PT_R11 | PT_FLAGS, 0, 0);
	if (s->back) {
		ipt_emit(c, is_step, sizeof(is_step));
		step = c->n;
		ipt_emit8(c, 0);
		ipt_emit(c, is_mmap, sizeof(is_mmap));
		ipt_emit(c, exec, sizeof(exec));
		ipt_emit(c, fixed, sizeof(fixed));
		ipt_emit(c, jz, sizeof(jz));
		ipt_emit32(c, 0);
		ipt_emit_patch(c, c->n - 4, s->back);
		ipt_emit_gs_imm(c, SL_NOTIFY, 1);
		ipt_emit8(c, 0xe9);
		ipt_emit32(c, 0);
		ipt_emit_patch(c, c->n - 4, s->back);
		c->p[step] = (uint8_t)(c->n - step - 1);
	}
	restore_number(b);
	ipt_xl_point(b, PT_TAKE, 0, s->id);
	record(b, s->id);
	ipt_xl_point(b, PT_EXITED, 0, s->id);
	ipt_xl_request(b, STUB_STEP, s->target, s->id);
}

void ipt_xl_side_notify(struct build *b, const struct side *s)
{
	ipt_xl_point(b, PT_RESUMED | PT_RAX | PT_RDX, 0, s->id);
	ipt_emit_gs_imm(&b->c, SL_NOTIFY, 0);
	leave_kernel(b, s->id);
	ipt_xl_request(b, STUB_MAPS, s->target, s->id);
}

void ipt_xl_side_full(struct build *b, const struct side *s)
{
	ipt_xl_point(b, PT_RESUMED | PT_RAX | PT_RDX, 0, s->id);
	leave_kernel(b, s->id);
	ipt_xl_request(b, STUB_FULL, s->target, s->id);
}
