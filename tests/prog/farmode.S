/* SPDX-License-Identifier: MIT */
/* From 64-bit to 32-bit code and back by far return, far jump, far call and IRET. */
	.section .note.GNU-stack, "", @progbits
	.bss
	.align 16
	.skip 4096
stack:
	.data
there:	.long in32_b
	.word 0x23
call32:	.long in32_c
	.word 0x23
	.text
	.globl _start
_start:
	mov $stack, %esp
	mov $3, %ebp
again:
	/* far return to 32-bit code */
	push $0x23
	push $in32_a
	lretq
back_a:
	add $1, %ebx
	ljmp *there
back_b:
	add $1, %ebx
	/* a far call there, and its far return to here */
	lcall *call32
	add $1, %ebx
	/* IRET to 32-bit code with a stack */
	mov %rsp, %rax
	push $0x2b
	push %rax
	pushfq
	push $0x23
	push $in32_d
	iretq
back_d:
	add $1, %ebx
	/* IRET within 64-bit code */
	mov %rsp, %rax
	push $0x2b
	push %rax
	pushfq
	push $0x33
	push $same
	iretq
same:
	dec %ebp
	jnz again
	xor $42, %edi
	mov %ebx, %edi
	mov $231, %eax
	syscall

	.code32
in32_a:
	inc %eax
	dec %eax
	call near32
	ljmp $0x33, $back_a
near32:
	ret
in32_b:
	mov $3, %ecx
1:	loop 1b
	/* getpid */
	mov $20, %eax
	int $0x80
	push $0x33
	push $back_b
	lret
in32_c:
	xor %eax, %eax
	jz 2f
	nop
2:	lret
in32_d:
	lcall $0x33, $in64_e
	ljmp $0x33, $back_d
	.code64
in64_e:
	nop
	lret
