/* SPDX-License-Identifier: MIT */
/* The shadow of MOV SS and POP SS: what follows runs within the same step. */
	.section .note.GNU-stack, "", @progbits
	.bss
buf:	.skip 64
	.text
	.globl _start
	.macro shadow
	mov %ss, %ax
	mov %ax, %ss
	.endm
_start:
	shadow
	nop
	shadow
	inc %r12d
	/* a jump, taken and not taken */
	xor %ecx, %ecx
	shadow
	jmp 1f
	ud2
1:	test %ecx, %ecx
	shadow
	jz 2f
	ud2
2:	test %ecx, %ecx
	shadow
	jnz 1b
	/* a call and a return */
	shadow
	call 3f
	lea 4f(%rip), %rax
	mov %rax, %r13
	mov %ss, %bx
	mov %bx, %ss
	jmp *%r13
	ud2
4:	/* a syscall */
	mov %ss, %bx
	mov $39, %eax
	mov %bx, %ss
	syscall
	/* and one that restarts nothing */
	mov %ss, %bx
	mov $24, %eax
	mov %bx, %ss
	syscall
	/* two shadows in a row */
	mov %ss, %bx
	mov %bx, %ss
	mov %bx, %ss
	nop
	/* a REP string */
	lea buf(%rip), %rdi
	mov $7, %ecx
	mov %ss, %bx
	mov %bx, %ss
	rep stosb
	/* pushed flags */
	mov %ss, %bx
	mov %bx, %ss
	pushfq
	pop %rax
	shr $8, %eax
	and $1, %eax
	mov %eax, %edi
	mov $231, %eax
	mov %bx, %ss
	syscall
3:	shadow
	ret
