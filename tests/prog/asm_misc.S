/* SPDX-License-Identifier: MIT */
/* Branches that are rarely seen: loops, JRCXZ, long conditional jumps, RET imm16, calls through
 * memory, empty calls and jumps to the next instruction. */
	.section .note.GNU-stack, "", @progbits
	.data
fp:	.quad f
gp:	.quad g
	.text
	.globl _start
_start:
	/* As calls of __tls_get_addr() are, long enough to be made something else by a linker. */
	.byte 0x66, 0x66, 0x48
	call 9f
	jmp 10f
9:	ret
10:
	mov $5, %ecx
1:	loop 1b
	mov $5, %ecx
2:	cmp $3, %ecx
	loopne 2b
	mov $4, %ecx
	xor %eax, %eax
3:	test %eax, %eax
	loope 3b
	jrcxz 4f
	jecxz 4f
4:	xor %ecx, %ecx
	jrcxz 5f
	ud2
5:	jecxz 6f
	ud2
6:	addr32 loop 7f
7:	cmp %ecx, %ecx
	.byte 0x0f, 0x84
	.long 8f - . - 4
	ud2
8:	.byte 0x0f, 0x85
	.long 8b - . - 4
	.byte 0xe9
	.long 9f - . - 4
	ud2
9:	push $1
	push $2
	call h
	call *fp(%rip)
	lea gp(%rip), %rbx
	mov $0, %ecx
	call *(%rbx,%rcx,8)
	lea f(%rip), %rax
	call *%rax
	notrack call *%rax
	lea 10f(%rip), %rax
	jmp *%rax
10:	call 11f
11:	pop %rax
	jmp 12f
12:	jz 13f
13:	jnz 14f
	call 14f
14:	lea 15f(%rip), %rax
	push %rax
	ret
15:	/* a return to elsewhere than its call */
	call mangled
	ud2
16:	call 17f
	mov $7, %edi
	mov $231, %eax
	syscall
17:	lea 18f(%rip), %rax
	xchg %rax, (%rsp)
	push %rax
	ret
	ud2
18:	mov $7, %edi
	mov $231, %eax
	syscall
mangled:
	lea 16b(%rip), %rax
	mov %rax, (%rsp)
	ret
f:	ret
g:	endbr64
	ret $0
h:	ret $16
