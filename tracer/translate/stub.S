/* SPDX-License-Identifier: MIT */
/*
 * Code that every translated program shares: the second lookup of indirect targets, and the wait for
 * the tracer. It is copied into the traced process; gs holds the thread's control block and all
 * addresses come from there. It leaves the stack alone.
 */
#include "slot.h"

	.intel_syntax noprefix
	.section .rodata
	.p2align 6
	.globl ipt_xl_stubs, ipt_xl_stubs_end, ipt_xl_stub_miss, ipt_xl_stub_full, ipt_xl_stub_step
	.globl ipt_xl_stub_maps, ipt_xl_stub_stale, ipt_xl_stub_lookup, ipt_xl_stub_empty
	.globl ipt_xl_stub_probe, ipt_xl_stub_none, ipt_xl_stub_saved, ipt_xl_stub_wait
	.hidden ipt_xl_stubs, ipt_xl_stubs_end, ipt_xl_stub_miss, ipt_xl_stub_full, ipt_xl_stub_step
	.hidden ipt_xl_stub_maps, ipt_xl_stub_stale, ipt_xl_stub_lookup, ipt_xl_stub_empty
	.hidden ipt_xl_stub_probe, ipt_xl_stub_none, ipt_xl_stub_saved, ipt_xl_stub_wait
ipt_xl_stubs:

/* Requests. SL_RCX holds rcx, which points to {u64 target, u32 id}. */
	.macro	request name, kind
ipt_xl_stub_\name:
	mov	gs:[SL_SAVE_RAX], rax
	mov	eax, \kind
	jmp	1f
	.endm
	request	miss, SL_REQ_MISS
	request	full, SL_REQ_FULL
	request	step, SL_REQ_STEP
	request	maps, SL_REQ_MAPS
	request	stale, SL_REQ_STALE
1:
	mov	gs:[SL_KIND], eax
	mov	rax, [rcx]
	mov	gs:[SL_TARGET], rax
	mov	eax, [rcx + 8]
	mov	gs:[SL_ID], eax
	mov	rax, gs:[SL_RCX]
	mov	gs:[SL_SAVE_RCX], rax
	/* rax and rcx are put aside, rcx is not overwritten before ipt_xl_stub_saved. */
ipt_xl_stub_wait:
	lahf
	seto	al
	mov	gs:[SL_SAVE_FL], rax
	mov	gs:[SL_SAVE_RDX], rdx
	mov	gs:[SL_SAVE_RSI], rsi
	mov	gs:[SL_SAVE_RDI], rdi
	mov	gs:[SL_SAVE_R10], r10
	mov	gs:[SL_SAVE_R11], r11
ipt_xl_stub_saved:
	mov	dword ptr gs:[SL_STATE], SL_STATE_POSTED
	mov	rdx, gs:[SL_BELL]
	lock inc dword ptr [rdx]
	cmp	dword ptr [rdx + 4], 0
	je	2f
	cmp	dword ptr gs:[SL_NOSYS], 0
	jne	2f
	mov	dword ptr [rdx + 4], 0
	mov	rdi, rdx
	mov	esi, 1			/* FUTEX_WAKE */
	mov	edx, 1
	mov	eax, 202
	syscall
	/* A full segment is no matter of microseconds: leave the CPU to the tracer. */
2:	cmp	dword ptr gs:[SL_KIND], SL_REQ_FULL
	je	4f
11:	mov	ecx, gs:[SL_SPIN]
3:	cmp	dword ptr gs:[SL_STATE], SL_STATE_DONE
	je	5f
	pause
	dec	ecx
	jnz	3b
4:	mov	rdx, gs:[SL_LOW]
	test	dword ptr [rdx + LOW_ALIVE], FUTEX_OWNER_DIED_BIT
	jnz	6f
	cmp	dword ptr gs:[SL_NOSYS], 0
	jne	11b
	mov	rdi, gs:[SL_SELF]
	lea	r10, [rdi + SL_TIMEOUT]
	add	rdi, SL_STATE
	mov	eax, SL_STATE_POSTED
	mov	edx, SL_STATE_ASLEEP
	lock cmpxchg dword ptr [rdi], edx
	xor	esi, esi		/* FUTEX_WAIT */
	mov	eax, 202
	syscall
	cmp	dword ptr gs:[SL_STATE], SL_STATE_DONE
	jne	4b
5:	mov	dword ptr gs:[SL_STATE], SL_STATE_NONE
	jmp	7f
	/* The tracer is gone: go on in the program's own code. */
6:	mov	rax, gs:[SL_TARGET]
	mov	gs:[SL_REPLY], rax
7:	mov	rax, gs:[SL_SAVE_FL]
	add	al, 0x7f
	sahf
	mov	rdx, gs:[SL_SAVE_RDX]
	mov	rsi, gs:[SL_SAVE_RSI]
	mov	rdi, gs:[SL_SAVE_RDI]
	mov	r10, gs:[SL_SAVE_R10]
	mov	r11, gs:[SL_SAVE_R11]
	mov	rcx, gs:[SL_SAVE_RCX]
	mov	rax, gs:[SL_SAVE_RAX]
	jmp	qword ptr gs:[SL_REPLY]

/* A trace's head is not the target: rcx = target - head, rax = -head. */
ipt_xl_stub_lookup:
	not	rax
	lea	rcx, [rcx + rax + 1]
/* rcx = target; rcx and rax of the program are in SL_RCX and SL_RAX. */
ipt_xl_stub_empty:
	mov	gs:[SL_TARGET], rcx
	mov	gs:[SL_RDX], rdx
	lahf
	seto	al
	mov	gs:[SL_FLAGS], rax
ipt_xl_stub_probe:
	mov	rax, rcx		/* hash_of() */
	shr	rax, LOW_HASH_FOLD
	add	rax, rcx
	shr	rax, LOW_HASH_SHIFT
	and	eax, (1 << LOW_HASH_BITS) - 1
8:	mov	rdx, rax
	shl	rdx, 4
	add	rdx, gs:[SL_LOW]
	cmp	qword ptr [rdx + LOW_HASH], 0
	je	10f			/* first: 0 is a target too */
	cmp	[rdx + LOW_HASH], rcx
	je	9f
	inc	eax
	and	eax, (1 << LOW_HASH_BITS) - 1
	jmp	8b
9:	mov	rdx, [rdx + LOW_HASH + 8]
	test	rdx, rdx		/* its translation is no more */
	jz	10f
	mov	gs:[SL_REPLY], rdx
	movzx	eax, cx
	shl	eax, 3
	add	rax, gs:[SL_LOW]
	mov	[rax + LOW_CODE], rdx
	mov	rax, gs:[SL_FLAGS]
	add	al, 0x7f
	sahf
	mov	rdx, gs:[SL_RDX]
	jmp	qword ptr gs:[SL_REPLY]
10:	mov	rax, gs:[SL_FLAGS]
	add	al, 0x7f
	sahf
	mov	rdx, gs:[SL_RDX]
/* No translation of rcx. */
ipt_xl_stub_none:
	mov	gs:[SL_TARGET], rcx
	mov	dword ptr gs:[SL_KIND], SL_REQ_INDIRECT
	mov	rax, gs:[SL_RCX]
	mov	gs:[SL_SAVE_RCX], rax
	mov	rax, gs:[SL_RAX]
	mov	gs:[SL_SAVE_RAX], rax
	jmp	ipt_xl_stub_wait
ipt_xl_stubs_end:
	.section .note.GNU-stack, "", @progbits
