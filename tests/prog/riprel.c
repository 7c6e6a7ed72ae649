/* SPDX-License-Identifier: MIT */
/* riprel [gpr|x87|sse|avx|avx512]: memory operands relative to RIP, of every width and with
 * immediates of every size. Each sequence runs with such operands and with absolute ones; the
 * results must be the same. */
#include "kinds.h"

#define SIZE 1024
unsigned char rd[SIZE] __attribute__((aligned(64)));
unsigned long results[128], *out;
static unsigned char start[SIZE];

/* \m is "(%rip)" or nothing. RDI points to the results. */
__asm__(".text\n"
	".macro OUT r\n mov \\r, (%rdi); lea 8(%rdi), %rdi\n .endm\n"
	".macro FLAGSOUT\n pushfq; andq $0x8d5, (%rsp); pop (%rdi); lea 8(%rdi), %rdi\n .endm\n"
	".macro ENTER\n push %rbx; push %rbp; push %r12; push %r13; push %r14; push %r15; mov out, "
	"%rdi\n .endm\n"
	".macro LEAVE\n pop %r15; pop %r14; pop %r13; pop %r12; pop %rbp; pop %rbx; ret\n .endm\n"
	".macro LOADALL m\n"
	"mov rd+0\\m, %rax\n OUT %rax\n mov rd+8\\m, %rcx\n OUT %rcx\n mov rd+16\\m, %rdx\n OUT "
	"%rdx\n"
	"mov rd+24\\m, %rbx\n OUT %rbx\n mov rd+32\\m, %rbp\n OUT %rbp\n mov rd+40\\m, %rsi\n OUT "
	"%rsi\n"
	"mov rd+1\\m, %r8\n OUT %r8\n mov rd+2\\m, %r9\n OUT %r9\n mov rd+3\\m, %r10\n OUT %r10\n"
	"mov rd+4\\m, %r11\n OUT %r11\n mov rd+5\\m, %r12\n OUT %r12\n mov rd+6\\m, %r13\n OUT "
	"%r13\n"
	"mov rd+7\\m, %r14\n OUT %r14\n mov rd+9\\m, %r15\n OUT %r15\n"
	"mov %rsp, %rax; mov rd+10\\m, %rsp; xchg %rax, %rsp\n OUT %rax\n"
	"xor %eax, %eax; mov rd+11\\m, %al; mov rd+12\\m, %ah\n OUT %rax\n"
	"xor %ebx, %ebx; mov rd+13\\m, %bh; mov rd+14\\m, %bx\n OUT %rbx\n"
	"xor %ecx, %ecx; mov rd+15\\m, %sil; mov rd+16\\m, %r8b; mov rd+17\\m, %r9w\n"
	"OUT %rsi\n OUT %r8\n OUT %r9\n"
	"mov rd+18\\m, %r10d\n OUT %r10\n"
	"movzbl rd+20\\m, %eax\n OUT %rax\n movzwl rd+21\\m, %eax\n OUT %rax\n movsbq rd+22\\m, "
	"%rax\n OUT %rax\n"
	"movswl rd+23\\m, %eax\n OUT %rax\n movslq rd+24\\m, %rax\n OUT %rax\n"
	".endm\n"
	".macro IMMEDIATES m\n"
	"movb $0x12, rd+64\\m; movw $0x1234, rd+66\\m; movl $0x12345678, rd+68\\m; movq $-5, "
	"rd+72\\m\n"
	"addb $0x7f, rd+80\\m; addw $0x1234, rd+82\\m; addl $0x12345678, rd+84\\m; addq $-300, "
	"rd+88\\m\n"
	"addw $3, rd+96\\m; addl $-3, rd+100\\m; addq $5, rd+104\\m\n"
	"stc; adcl $1, rd+112\\m; sbbq $1, rd+116\\m; orl $0x80, rd+124\\m; andw $0xf0f, "
	"rd+128\\m\n"
	"xorq $0x55, rd+132\\m; subl $1000, rd+140\\m\n"
	"cmpb $0x40, rd+144\\m\n FLAGSOUT\n cmpw $0x4040, rd+144\\m\n FLAGSOUT\n"
	"cmpl $0x40404040, rd+144\\m\n FLAGSOUT\n cmpq $1, rd+144\\m\n FLAGSOUT\n"
	"testb $1, rd+145\\m\n FLAGSOUT\n testw $0x101, rd+145\\m\n FLAGSOUT\n testl $0x1010101, "
	"rd+145\\m\n FLAGSOUT\n"
	"btl $5, rd+148\\m\n FLAGSOUT\n btsq $33, rd+152\\m; btrw $3, rd+160\\m; btcl $9, "
	"rd+162\\m\n"
	"shlb $3, rd+166\\m; sarl $5, rd+168\\m; rolq $9, rd+172\\m; shrw $1, rd+180\\m; mov $3, "
	"%cl; shll %cl, rd+184\\m\n"
	"imul $1000, rd+188\\m, %eax\n OUT %rax\n imul $7, rd+188\\m, %r9\n OUT %r9\n"
	"mov $0x1122334455667788, %rdx; shld $5, %rdx, rd+196\\m; mov $7, %cl; shrd %cl, %edx, "
	"rd+204\\m\n"
	".endm\n"
	".macro OTHERS m\n"
	"mov $0x1122334455667788, %rax; mov %al, rd+256\\m; mov %ah, rd+257\\m; mov %ax, "
	"rd+258\\m\n"
	"mov %eax, rd+260\\m; mov %rax, rd+264\\m; mov %rax, %r15; mov %r15w, rd+272\\m; mov %bh, "
	"rd+274\\m\n"
	"mov %sil, rd+275\\m; mov %rsp, %rbp; mov $77, %rsp; mov %rsp, rd+280\\m; mov %rbp, %rsp\n"
	"cmp %ah, rd+288\\m\n FLAGSOUT\n cmp rd+289\\m, %ah\n FLAGSOUT\n test %r15, rd+290\\m\n "
	"FLAGSOUT\n"
	"xchg %rax, rd+296\\m\n OUT %rax\n xchg %cl, rd+304\\m\n OUT %rcx\n lock xadd %eax, "
	"rd+308\\m\n OUT %rax\n"
	"mov rd+312\\m, %eax; mov $9, %ebx; lock cmpxchg %ebx, rd+312\\m\n FLAGSOUT\n"
	"mov $1, %eax; cmpxchg %bl, rd+316\\m\n FLAGSOUT\n OUT %rax\n"
	"mov rd+320\\m, %eax; mov rd+324\\m, %edx; mov $3, %ebx; mov $4, %ecx; lock cmpxchg8b "
	"rd+320\\m\n FLAGSOUT\n"
	"mov rd+336\\m, %rax; mov rd+344\\m, %rdx; lock cmpxchg16b rd+336\\m\n FLAGSOUT\n"
	"lock incl rd+352\\m; decw rd+356\\m; notq rd+360\\m; negb rd+368\\m; setc rd+369\\m\n"
	"mov $100, %eax; mulb rd+370\\m\n OUT %rax\n mov $7, %eax; mull rd+372\\m\n OUT %rax\n OUT "
	"%rdx\n"
	"mov $7, %eax; imulq rd+376\\m\n OUT %rax\n OUT %rdx\n"
	"xor %edx, %edx; mov $12345, %eax; divl rd+384\\m\n OUT %rax\n OUT %rdx\n"
	"imul rd+388\\m, %rcx\n OUT %rcx\n stc; cmovc rd+396\\m, %rsi\n OUT %rsi\n cmovnc "
	"rd+404\\m, %esi\n OUT %rsi\n"
	"push rd+412\\m; pop rd+420\\m; pushw rd+428\\m; popw rd+430\\m\n"
	"bsf rd+432\\m, %rax\n OUT %rax\n bsr rd+440\\m, %eax\n OUT %rax\n"
	"mov $70, %eax; bt %rax, rd+448\\m\n FLAGSOUT\n mov $200, %rax; bts %rax, rd+448\\m\n"
	"prefetcht0 rd\\m; prefetchw rd\\m; nopl rd\\m; clflush rd\\m; lfence\n"
	"lea 1f\\m, %rax; mov %rax, rd+480\\m; jmp *rd+480\\m; ud2\n"
	"1: lea 2f\\m, %rax; mov %rax, rd+480\\m; call *rd+480\\m; jmp 3f\n 2: mov $5, %ecx; ret\n"
	"3: OUT %rcx\n lea 4f\\m, %rax; mov %rax, rd+480\\m; mov rd+480\\m, %rax; notrack jmp "
	"*rd+480\\m; ud2\n"
	"4: movq $0, rd+480\\m\n"
	"lea rd+3\\m, %rax\n OUT %rax\n lea rd+5\\m, %eax\n OUT %rax\n lea rd+7\\m, %r13w; movzwl "
	"%r13w, %r13d\n OUT %r13\n"
	".endm\n"
	".macro GPR name m\n \\name: ENTER\n LOADALL \\m\n IMMEDIATES \\m\n OTHERS \\m\n LEAVE\n "
	".endm\n"
	"GPR gpr_rip (%rip)\n GPR gpr_abs\n"
	/* With an address size of 32 bits. */
	".globl gpr_eip\ngpr_eip: ENTER\n LOADALL (%eip)\n IMMEDIATES (%eip)\n OTHERS (%eip)\n "
	"LEAVE\n"
	".macro X87 name m\n \\name: fnstcw rd+512\\m; fldl rd+520\\m; fadds rd+528\\m; fildl "
	"rd+532\\m; fmulp; fstpt rd+536\\m\n"
	"fildll rd+552\\m; fistpl rd+560\\m; fldt rd+568\\m; fcomps rd+580\\m; fnstsw rd+584\\m; "
	"fldcw rd+512\\m\n"
	"stmxcsr rd+588\\m; ldmxcsr rd+588\\m; ret\n .endm\n"
	"X87 x87_rip (%rip)\n X87 x87_abs\n"
	".macro SSE name m\n \\name: mov out, %rdi; movaps rd\\m, %xmm1; movdqu rd+17\\m, %xmm9; "
	"paddd rd+32\\m, %xmm1; pxor rd+48\\m, %xmm9\n"
	"pinsrw $3, rd+5\\m, %xmm1; pshufd $0x1b, rd+64\\m, %xmm2; shufps $0x4e, rd+80\\m, %xmm9\n"
	"movss rd+3\\m, %xmm3; addsd rd+520\\m, %xmm3; cvtsi2sdl rd+8\\m, %xmm4; cvttss2si "
	"rd+528\\m, %eax\n OUT %rax\n"
	"cmpps $1, rd+96\\m, %xmm2; movhps rd+7\\m, %xmm4; movq rd+9\\m, %mm3; paddb rd+16\\m, "
	"%mm3; movq %mm3, rd+600\\m; emms\n"
	"movdqa %xmm1, rd+608\\m; movups %xmm9, rd+625\\m; movlps %xmm2, rd+648\\m; movd %xmm3, "
	"rd+656\\m; movntdq %xmm4, rd+672\\m\n"
	"comisd rd+520\\m, %xmm3\n FLAGSOUT\n ret\n .endm\n"
	"SSE sse_rip (%rip)\n SSE sse_abs\n"
	".macro AVX name m\n \\name: mov out, %rdi; vmovdqu rd+1\\m, %ymm1; vpaddd rd+32\\m, "
	"%ymm1, %ymm12; vpermq $0x1b, rd+64\\m, %ymm3\n"
	"vpinsrd $2, rd+3\\m, %xmm1, %xmm4; vpbroadcastb rd+9\\m, %ymm5; vblendvps %ymm1, "
	"rd+96\\m, %ymm5, %ymm6; vinserti128 $1, rd+5\\m, %ymm4, %ymm7\n"
	"vpcmpeqb rd+7\\m, %ymm1, %ymm8; vptest rd+32\\m, %ymm1\n FLAGSOUT\n"
	"mov $0x7fff, %edx; mulx rd+40\\m, %rax, %rcx\n OUT %rax\n OUT %rcx\n andn rd+48\\m, %rax, "
	"%rax\n OUT %rax\n"
	"mov $0x0804, %ecx; bextr %rcx, rd+56\\m, %rax\n OUT %rax\n rorx $7, rd+64\\m, %rax\n OUT "
	"%rax\n sarx %rcx, rd+72\\m, %rax\n OUT %rax\n"
	"pdep rd+80\\m, %rcx, %rax\n OUT %rax\n blsr rd+88\\m, %r11\n OUT %r11\n movbe rd+90\\m, "
	"%rax\n OUT %rax\n movbe %eax, rd+700\\m\n"
	"crc32b rd+3\\m, %eax\n OUT %rax\n popcnt rd+4\\m, %r12d; mov %r12, %rax\n OUT %rax\n "
	"tzcnt rd+5\\m, %rax\n OUT %rax\n lzcnt rd+6\\m, %ax\n OUT %rax\n"
	"vmovdqa %ymm12, rd+704\\m; vmovdqu %ymm3, rd+737\\m; vextracti128 $1, %ymm7, rd+770\\m; "
	"vpmaskmovd %ymm8, %ymm6, rd+800\\m; vpextrw $5, %xmm4, rd+840\\m\n"
	"vzeroupper; ret\n .endm\n"
	"AVX avx_rip_ (%rip)\n AVX avx_abs_\n"
	"avx_rip: push %r12; call avx_rip_; pop %r12; ret\n avx_abs: push %r12; call avx_abs_; pop "
	"%r12; ret\n"
	/* Displacements are multiplied by the operand's size in EVEX code, but not relative to RIP.
	 */
	".macro EVEX name m\n \\name: mov out, %rdi; mov $0xa5a5, %eax; kmovw %eax, %k1; vmovdqu32 "
	"rd+1\\m, %zmm1; vmovdqu32 rd+64\\m, %zmm17{%k1}{z}\n"
	"vpaddd rd+128\\m{1to16}, %zmm1, %zmm18; vpternlogd $0x96, rd+192\\m, %zmm1, %zmm18; "
	"vpermq $0x4e, rd+256\\m, %zmm19\n"
	"vpcmpud $1, rd+320\\m, %zmm1, %k2; kmovw %k2, %eax\n OUT %rax\n kmovw rd+3\\m, %k3; kmovw "
	"%k3, rd+5\\m\n"
	"vmovdqu32 %zmm17, rd+384\\m; vmovdqu32 %zmm18, rd+449\\m; vmovdqu32 %zmm19, "
	"rd+516\\m{%k1}; vpcompressd %zmm1, rd+640\\m{%k1}; vextracti32x4 $2, %zmm1, rd+720\\m\n"
	"vzeroupper; ret\n .endm\n"
	"EVEX evex_rip (%rip)\n EVEX evex_abs\n");

void gpr_rip(void), gpr_eip(void), gpr_abs(void), x87_rip(void), x87_abs(void), sse_rip(void),
	sse_abs(void);
void avx_rip(void), avx_abs(void), evex_rip(void), evex_abs(void);

static void run(void (*f)(void), unsigned char *mem, unsigned long *res)
{
	memcpy(rd, start, SIZE);
	memset(results, 0, sizeof(results));
	out = results;
	f();
	memcpy(mem, rd, SIZE);
	memcpy(res, results, sizeof(results));
}

static void same(void (*a)(void), void (*b)(void))
{
	static unsigned char mem[2][SIZE];
	static unsigned long res[2][LENGTH(results)];

	run(a, mem[0], res[0]);
	run(b, mem[1], res[1]);
	for (int i = 0; i < SIZE; i++) {
		if (mem[0][i] != mem[1][i])
			say_n("memory at ", i);
		CHECK(mem[0][i] == mem[1][i]);
	}
	for (size_t i = 0; i < LENGTH(results); i++) {
		if (res[0][i] != res[1][i])
			say_n("result ", (long)i);
		CHECK(res[0][i] == res[1][i]);
	}
	CHECK(memcmp(mem[0], start, SIZE));
}

static void gpr(void)
{
	same(gpr_abs, gpr_rip);
}
static void eip(void)
{
	same(gpr_abs, gpr_eip);
}
static void x87(void)
{
	same(x87_abs, x87_rip);
}
static void sse(void)
{
	same(sse_abs, sse_rip);
}

static void avx(void)
{
	if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2"))
		same(avx_abs, avx_rip);
}

static void avx512(void)
{
	if (__builtin_cpu_supports("avx512f"))
		same(evex_abs, evex_rip);
}

int main(int argc, char **argv)
{
	static const struct kind kinds[] = {
		{"gpr", gpr}, {"eip", eip}, {"x87", x87},
		{"sse", sse}, {"avx", avx}, {"avx512", avx512},
	};

	for (int i = 0; i < SIZE; i++)
		start[i] = (unsigned char)(i * 89 + 17);
	*(unsigned short *)(start + 512) = 0x37f;
	*(double *)(start + 520) = 2.5;
	*(float *)(start + 528) = 1.25f;
	*(int *)(start + 588) = 0x1f80;
	return run_kinds(kinds, LENGTH(kinds), argc, argv);
}
