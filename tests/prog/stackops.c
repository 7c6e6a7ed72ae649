/* SPDX-License-Identifier: MIT */
/* stackops [KIND]: the stack pointer used in odd ways, memory below it, and a stack that ends
 * there. */
#include "kinds.h"

#define OUT(x) "mov " x ", (%%rdi); add $8, %%rdi\n"
static unsigned long r[32];

/* The red zone keeps its 128 bytes over branches that push nothing. */
unsigned long red_zone(void) __asm__("red_zone");
__asm__(".text\n"
	"red_zone: xor %eax, %eax; mov $16, %ecx\n"
	"1: lea (%rcx,%rcx,4), %rdx; neg %rcx; mov %rdx, (%rsp,%rcx,8); neg %rcx; loop 1b\n"
	"mov $0x55aa, %edx; mov %rdx, -4096(%rsp); mov %rdx, -65536(%rsp)\n"
	"mov $25, %esi\n"
	"2: test $1, %esi; jz 3f; jmp 4f\n3: lea 5f(%rip), %r8; jmp *%r8\n4: jmp *6f(%rip)\n"
	".balign 8\n6: .quad 5f\n"
	"5: mov $3, %ecx\n7: loop 7b\n jrcxz 8f; ud2\n8: dec %esi; jnz 2b\n"
	"mov $39, %eax; syscall; xor %eax, %eax\n"
	"mov $16, %ecx\n"
	"9: neg %rcx; add (%rsp,%rcx,8), %rax; neg %rcx; loop 9b\n"
	"add -4096(%rsp), %rax; add -65536(%rsp), %rax; ret\n");

static void redzone(void)
{
	for (int i = 0; i < 3; i++)
		CHECK(red_zone() == 5 * 136 + 2 * 0x55aa);
}

/* RSP holds a number, not an address, over branches of all kinds. */
static void number(void)
{
	unsigned long n, old;

	__asm__ volatile("mov %%rsp, %1; mov $0x1234, %%rsp; mov $5, %%ecx\n"
			 "1: add $3, %%rsp; shl $1, %%rsp; jmp 2f\n"
			 "2: lea 3f(%%rip), %%rax; jmp *%%rax\n"
			 "3: test $2, %%esp; jz 4f; inc %%rsp\n4: loop 1b\n"
			 "cmp $0, %%rsp; jl 5f; je 5f; neg %%rsp; not %%rsp\n"
			 "5: xchg %%rsp, %0; mov %1, %%rsp"
			 : "=&r"(n), "=&r"(old)
			 :
			 : "rax", "rcx", "cc", "memory");
	unsigned long m = 0x1234;
	for (int i = 0; i < 5; i++) {
		m = (m + 3) * 2;
		m += (m & 2) != 0;
	}
	CHECK(n == m - 1);
}

static void pushes(void)
{
	unsigned long *p = r, sp, before;

	memset(r, 0, sizeof(r));
	__asm__ volatile("mov %%rsp, %1\n"
			 "push %%rsp; pop %%rax\n" OUT("%%rax") /* 0: as before the push */
			 "push $7; push $8; pop %%rsp; mov %%rsp, %%rax; mov %1, %%rsp\n" OUT("%%"
											      "rax") "push $9; push (%%rsp); pop %%rax; pop %%rcx\n" OUT("%%rax") "push $1; push $2; push 8(%%rsp); pop %%rax; pop %%rcx; pop %%rcx\n" OUT("%%rax") "push $1; push $2; push $3; pop 8(%%rsp); pop %%rcx; pop %%rax\n" OUT(
				 "%%rax") "push $5; push $6; pop (%%rsp); pop %%rax\n" OUT("%%rax") "pushw $0x77; pushw $0x66; pushw $0; pushw $0x44; pop %%rax\n" OUT("%%rax") "push $-3; pop %%rax\n" OUT("%%rax") "push $0x12345678; popw %%ax; popw %%cx; add $4, %%rsp; movzwl %%cx, %%eax\n" OUT("%%rax") "push $4; call 1f; 1: pop %%rax; pop %%rcx; lea 1b(%%rip), %%rdx; sub %%rdx, %%rax\n" OUT("%%rax") "mov %%rbp, %%r8; enter $32, $0; mov %%rbp, %%rax; sub %%rsp, %%rax; leave; mov %%r8, %%rbp\n" OUT("%%rax") "mov %%rsp, %2"
			 : "+D"(p), "=&r"(before), "=&r"(sp)
			 :
			 : "rax", "rcx", "rdx", "r8", "cc", "memory");
	CHECK(sp == before);
	CHECK(r[0] == before && r[1] == 8 && r[2] == 9 && r[3] == 1 && r[4] == 3 && r[5] == 6);
	CHECK(r[6] == 0x0077006600000044ul);
	CHECK(r[7] == -3ul && r[8] == 0x1234 && r[9] == 0 && r[10] == 32);
}

/* Calls and jumps whose memory operand is on the stack: the address is taken before the push. */
static void through(void)
{
	unsigned long *p = r, sp, before;

	memset(r, 0, sizeof(r));
	__asm__ volatile(
		"mov %%rsp, %1; jmp 5f\n"
		"1: mov $11, %%eax; ret\n2: mov $22, %%eax; ret\n3: mov $33, %%eax; ret $16\n"
		"5: push $1b; push $2b; call *8(%%rsp)\n" OUT("%%rax") "call *(%%rsp)\n" OUT("%%"
											     "rax") "mov $1, %%ecx; call *(%%rsp,%%rcx,8)\n" OUT(
			"%%rax") "push $3b; call *(%%rsp); push $6f; jmp *(%%rsp); ud2\n"
				 "6: pop %%rcx\n" OUT("%%rax") "mov %%rsp, %%rcx; sub %1, "
							       "%%rcx\n" OUT(
								       "%%rcx") "mov %1, %%rsp; "
										"push $7f; xchg "
										"%%rax, (%%rsp); "
										"xchg %%rax, "
										"(%%rsp); ret; "
										"ud2\n"
										"7: call 8f; 9: "
										"pause; lfence; "
										"jmp 9b\n" /* retpoline
											    */
										"8: lea "
										"10f(%%rip), "
										"%%rax; mov %%rax, "
										"(%%rsp); ret\n"
										"10: push $11f; "
										"push $12f; push "
										"$13f; ret\n13: "
										"inc %%ebx; "
										"ret\n12: inc "
										"%%ebx; ret\n"
										"11: lea "
										"14f(%%rip), "
										"%%rax; push "
										"%%rax; addq $1, "
										"(%%rsp); ret; "
										"ud2\n14: .byte "
										"0x0f\n nop\n"
										"call 15f; ud2; "
										"16: jmp 17f\n15: "
										"addq $2, (%%rsp); "
										"ret\n17:\n"
										"mov %%rsp, %2"
		: "+D"(p), "=&r"(before), "=&r"(sp)
		:
		: "rax", "rbx", "rcx", "cc", "memory");
	CHECK(sp == before);
	CHECK(r[0] == 11 && r[1] == 22 && r[2] == 11 && r[3] == 33 && r[4] == -8ul);
}

/* Far returns and IRET to the same segments. */
static void far_returns(void)
{
	unsigned long n = 0, sp, before;

	__asm__ volatile(
		"mov %%rsp, %1; mov %%cs, %%eax; push %%rax; push $1f; lretq; ud2\n"
		"1: inc %0; mov %%ss, %%ecx; mov %%rsp, %%rdx; push %%rcx; push %%rdx; pushfq\n"
		"push %%rax; push $2f; iretq; ud2\n2: inc %0; mov %%rsp, %2"
		: "+r"(n), "=&r"(before), "=&r"(sp)
		:
		: "rax", "rcx", "rdx", "cc", "memory");
	CHECK(n == 2 && sp == before);
}

/* A stack with nothing below it: who needs room for himself there faults. */
static void tight(void)
{
	char *p = mmap(NULL, 3 * 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	unsigned long n = 0, old;

	mprotect(p + 4096, 4096, PROT_READ | PROT_WRITE);
	__asm__ volatile(
		"mov %%rsp, %1; mov %2, %%rsp; mov $9, %%ecx\n"
		"1: test $1, %%ecx; jz 2f; add $5, %0\n2: lea 3f(%%rip), %%rax; jmp *%%rax\n"
		"3: mov $39, %%eax; mov %%rcx, %%rdx; syscall; mov %%rdx, %%rcx\n"
		"add $8, %%rsp; call 4f; sub $8, %%rsp; loop 1b; jmp 5f\n4: inc %0; ret\n"
		"5: mov %1, %%rsp"
		: "+r"(n), "=&r"(old)
		: "r"(p + 4096)
		: "rax", "rcx", "rdx", "r11", "cc", "memory");
	CHECK(n == 5 * 5 + 9);
	/* The same with RSP outside of all memory. */
	__asm__ volatile(
		"mov %%rsp, %1; mov %2, %%rsp; mov $9, %%ecx\n"
		"1: test $1, %%ecx; jz 2f; add $5, %0\n2: lea 3f(%%rip), %%rax; jmp *%%rax\n"
		"3: mov $39, %%eax; mov %%rcx, %%rdx; syscall; mov %%rdx, %%rcx; loop 1b\n"
		"mov %1, %%rsp"
		: "+r"(n), "=&r"(old)
		: "r"(p + 100)
		: "rax", "rcx", "rdx", "r11", "cc", "memory");
	CHECK(n == 5 * 10 + 9);
}

int main(int argc, char **argv)
{
	static const struct kind kinds[] = {
		{"redzone", redzone}, {"number", number},   {"pushes", pushes},
		{"through", through}, {"far", far_returns}, {"tight", tight},
	};

	return run_kinds(kinds, LENGTH(kinds), argc, argv);
}
