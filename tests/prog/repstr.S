/* SPDX-License-Identifier: MIT */
/* Every kind of string instruction with a REP prefix, also with a count of nothing. */
	.section .note.GNU-stack, "", @progbits
	.bss
a:	.skip 8192
b:	.skip 8192
	.text
	.macro setup n
	lea a(%rip), %rsi
	lea b(%rip), %rdi
	mov $\n, %ecx
	.endm
	.globl _start
_start:
	cld
	.irp n, 0, 1, 2, 77
	setup \n
	rep movsb
	setup \n
	rep movsw
	setup \n
	rep movsl
	setup \n
	rep movsq
	setup \n
	mov $5, %eax
	rep stosb
	setup \n
	rep stosw
	setup \n
	rep stosl
	setup \n
	rep stosq
	setup \n
	rep lodsb
	setup \n
	rep lodsw
	setup \n
	rep lodsl
	setup \n
	rep lodsq
	setup \n
	repe cmpsb
	setup \n
	repne cmpsb
	setup \n
	repe cmpsw
	setup \n
	repe cmpsl
	setup \n
	repne cmpsq
	setup \n
	repne scasb
	setup \n
	repe scasw
	setup \n
	repne scasl
	setup \n
	repe scasq
	setup \n
	addr32 rep movsb
	.endr
	std
	setup 4
	add $64, %rsi
	add $64, %rdi
	rep movsq
	cld
	/* a prefix that means nothing there */
	.byte 0xf3, 0x90
	/* repz ret, and bnd-prefixed forms */
	call 1f
	call 2f
	setup 300
	/* ends in the middle */
	movb $9, b+100(%rip)
	mov $9, %al
	repne scasb
	sub $199, %ecx
	mov %ecx, %edi
	and $0, %edi
	mov $231, %eax
	syscall
1:	repz ret
2:	.byte 0xf2
	ret
