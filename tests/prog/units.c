/* SPDX-License-Identifier: MIT */
/* units [KIND]: the state of x87, SSE, AVX and AVX-512: instruction pointers that the unit saves,
 * rounding and exception masks, and every register kept over branches, calls and syscalls. */
#include "kinds.h"

/* FNSTENV, FNSAVE, FXSAVE and XSAVE tell where the last x87 instruction was: in the program's text.
 */
extern char fip1[] __asm__("fip1"), fip2[] __asm__("fip2"), fip3[] __asm__("fip3"),
	fip4[] __asm__("fip4");

static void fip(void)
{
	static unsigned int env[27];
	static unsigned char area[4096] __attribute__((aligned(64)));
	unsigned long at, pc;

	__asm__ volatile(
		"fninit; fldz\nfip3: fldpi; call 1f; jmp 2f\n1: ret\n2: fxsave64 %0; fninit"
		: "=m"(area)
		:
		: "memory");
	CHECK(*(unsigned long *)(area + 8) == (unsigned long)fip3 || !*(unsigned long *)(area + 8));
	if (__builtin_cpu_supports("avx")) {
		__asm__ volatile("fninit; fldz\nfip4: fldpi; jmp 1f\n1: mov $7, %%eax; xor %%edx, "
				 "%%edx; xsave64 %0; fninit"
				 : "+m"(area)
				 :
				 : "rax", "rdx", "memory");
		CHECK(*(unsigned long *)(area + 8) == (unsigned long)fip4 ||
		      !*(unsigned long *)(area + 8));
	}
	/* Some CPUs save the pointer only while an exception is pending: there it does not outlive
	 * a switch to another process, traced or not. */
	if (!*(unsigned long *)(area + 8))
		return;
	__asm__ volatile("fninit\nfip1: fld1; jmp 1f\n1: fnstenv %0; fninit" : "=m"(env));
	CHECK(env[3] == (unsigned int)(long)fip1);
	__asm__ volatile("fninit; fldz\nfip2: fld1; lea 1f(%%rip), %%rax; jmp *%%rax\n1: fnsave %0"
			 : "=m"(env)
			 :
			 : "rax");
	CHECK(env[3] == (unsigned int)(long)fip2);
	/* As position-independent shellcode finds itself. */
	__asm__ volatile("fninit\n1: fldz; lea 1b(%%rip), %1; fnstenv %2; mov 12+%2, %k0"
			 : "=r"(at), "=&r"(pc), "=m"(env));
	__asm__ volatile("fninit");
	CHECK(at == (unsigned int)pc);
}

static void rounding(void)
{
	static const unsigned int modes[] = {0x1f80, 0x3f80, 0x5f80, 0x7f80};
	static const int want[] = {2, 2, 3, 2}, negative[] = {-2, -3, -2, -2};
	unsigned int csr, old = 0x1f80;
	unsigned short cw, def = 0x37f;
	int v, w, x;

	for (int i = 0; i < 4; i++) {
		unsigned short mode = (unsigned short)(0x37f | i << 10);
		double d = 2.5, e = -2.5;

		__asm__ volatile("ldmxcsr %5; fldcw %6; jmp 1f\n"
				 "1: mov $39, %%eax; syscall; lea 2f(%%rip), %%rax; jmp *%%rax\n"
				 "2: mov $24, %%eax; syscall; call 3f; jmp 4f\n3: ret\n"
				 "4: cvtsd2si %7, %0; cvtsd2si %8, %1; fldl %7; fistpl %2; stmxcsr "
				 "%3; fnstcw %4"
				 : "=&r"(v), "=&r"(w), "=m"(x), "=m"(csr), "=m"(cw)
				 : "m"(modes[i]), "m"(mode), "m"(d), "m"(e)
				 : "rax", "rcx", "r11", "memory", "cc");
		__asm__ volatile("ldmxcsr %0; fldcw %1" : : "m"(old), "m"(def));
		CHECK(v == want[i] && w == negative[i] && x == want[i]);
		CHECK((csr & 0x6000) == (modes[i] & 0x6000) && cw == mode);
	}
	/* Status flags that stick. */
	__asm__ volatile("ldmxcsr %1; mov $3, %%eax; cvtsi2sd %%eax, %%xmm0; mov $1, %%eax; "
			 "cvtsi2sd %%eax, %%xmm1\n"
			 "divsd %%xmm0, %%xmm1; jmp 1f\n1: mov $39, %%eax; syscall; stmxcsr %0"
			 : "=m"(csr)
			 : "m"(old)
			 : "rax", "rcx", "r11", "xmm0", "xmm1", "memory");
	CHECK(csr == 0x1fa0);
}

/* Branches of all kinds, and syscalls. RAX, RCX, RDX, RSI and R11 change. */
#define BRANCHES                                                                                   \
	"mov $3, %%ecx\n1: lea 2f(%%rip), %%rax; jmp *%%rax\n2: call 3f; jmp 4f\n3: ret\n"         \
	"4: test $1, %%ecx; jz 5f; mov %%rcx, %%rdx; mov $39, %%eax; syscall; mov %%rdx, %%rcx\n"  \
	"5: loop 1b\n push $6f; ret\n6: mov $24, %%eax; syscall\n"
#define CLOBBER "rax", "rcx", "rdx", "rsi", "r11", "memory", "cc"

#define EACH16(X)                                                                                  \
	X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15)
#define EACH32(X)                                                                                  \
	EACH16(X)                                                                                  \
	X(16)                                                                                      \
	X(17) X(18) X(19) X(20) X(21) X(22) X(23) X(24) X(25) X(26) X(27) X(28) X(29) X(30) X(31)
static unsigned char in[32][64], back[32][64];

static void xmm(void)
{
#define LOAD(n)  "movups " #n "*64(%0), %%xmm" #n "\n"
#define STORE(n) "movups %%xmm" #n ", " #n "*64(%1)\n"
	__asm__ volatile(EACH16(LOAD) BRANCHES EACH16(STORE) : : "r"(in), "r"(back) : CLOBBER);
	for (int i = 0; i < 16; i++)
		CHECK(!memcmp(in[i], back[i], 16));
#undef LOAD
#undef STORE
}

static void ymm(void)
{
	if (!__builtin_cpu_supports("avx"))
		return;
#define LOAD(n)  "vmovups " #n "*64(%0), %%ymm" #n "\n"
#define STORE(n) "vmovups %%ymm" #n ", " #n "*64(%1)\n"
	__asm__ volatile(EACH16(LOAD) BRANCHES EACH16(STORE) "vzeroupper"
			 :
			 : "r"(in), "r"(back)
			 : CLOBBER);
	for (int i = 0; i < 16; i++)
		CHECK(!memcmp(in[i], back[i], 32));
#undef LOAD
#undef STORE
}

static void zmm(void)
{
	unsigned int k[8] = {0};

	if (!__builtin_cpu_supports("avx512f"))
		return;
#define LOAD(n)   "vmovups " #n "*64(%0), %%zmm" #n "\n"
#define STORE(n)  "vmovups %%zmm" #n ", " #n "*64(%1)\n"
#define LOADK(n)  "mov $0x12" #n "4, %%eax; kmovw %%eax, %%k" #n "\n"
#define STOREK(n) "kmovw %%k" #n ", %%eax; mov %%eax, 4*" #n "(%2)\n"
	__asm__ volatile(LOADK(1) LOADK(2) LOADK(3) LOADK(4) LOADK(5) LOADK(6) LOADK(7) EACH32(LOAD)
				 BRANCHES EACH32(STORE) STOREK(1) STOREK(2) STOREK(3) STOREK(4)
					 STOREK(5) STOREK(6) STOREK(7) "vzeroupper"
			 :
			 : "r"(in), "r"(back), "r"(k)
			 : CLOBBER);
	for (int i = 0; i < 32; i++)
		CHECK(!memcmp(in[i], back[i], 64));
	for (unsigned int i = 1; i < 8; i++)
		CHECK(k[i] == 0x1204 + 16 * i);
}

static void stack87(void)
{
	double v[8];
	unsigned long mm[8];

	__asm__ volatile(
		"fninit; fld1; fldpi; fldl2e; fldln2; fldz; fldlg2; fldl2t; fld1\n" BRANCHES
		"fstpl (%0); fstpl 8(%0); fstpl 16(%0); fstpl 24(%0); fstpl 32(%0); fstpl 40(%0)\n"
		"fstpl 48(%0); fstpl 56(%0)"
		:
		: "r"(v)
		: CLOBBER);
	CHECK(v[0] == 1 && v[3] == 0 && v[6] > 3.1415 && v[6] < 3.1416 && v[7] == 1);
	__asm__ volatile("movq (%0), %%mm0; movq 8(%0), %%mm1; movq 64(%0), %%mm7\n" BRANCHES
			 "movq %%mm0, (%1); movq %%mm1, 8(%1); movq %%mm7, 16(%1); emms"
			 :
			 : "r"(in), "r"(mm)
			 : CLOBBER);
	CHECK(!memcmp(mm, in, 16) && !memcmp(mm + 2, in[1], 8));
}

static volatile int fpe;

static void handled(int s, siginfo_t *si, void *uc)
{
	ucontext_t *u = uc;

	fpe = si->si_code;
	u->uc_mcontext.fpregs->mxcsr |= 0x1f80;
	u->uc_mcontext.fpregs->cwd |= 0x3f;
	u->uc_mcontext.fpregs->swd &= 0x7f00;
}

/* Unmasked exceptions: SSE faults at the instruction, x87 at the next one. */
static void unmasked(void)
{
	unsigned int csr = 0x1f80 & ~0x200, old = 0x1f80;
	unsigned short cw = 0x37f & ~4;
	unsigned int zero = 0;

	on(SIGFPE, handled, 0);
	__asm__ volatile(
		"ldmxcsr %0; mov $1, %%eax; cvtsi2sd %%eax, %%xmm1; xorpd %%xmm0, %%xmm0; jmp 1f\n"
		"1: divsd %%xmm0, %%xmm1; jmp 2f\n2: ldmxcsr %1"
		:
		: "m"(csr), "m"(old)
		: "rax", "xmm0", "xmm1");
	CHECK(fpe == FPE_FLTDIV);
	fpe = 0;
	__asm__ volatile("fninit; fldcw %0; fld1; fidivl %1; jmp 1f\n1: jmp 2f\n2: fwait; fninit"
			 :
			 : "m"(cw), "m"(zero));
	CHECK(fpe == FPE_FLTDIV);
}

static void clobber(int s, siginfo_t *si, void *uc)
{
	__asm__ volatile("pxor %%xmm3, %%xmm3; pxor %%xmm15, %%xmm15; fninit; fldz"
			 :
			 :
			 : "xmm3", "xmm15");
	if (__builtin_cpu_supports("avx"))
		__asm__ volatile("vpxor %%xmm4, %%xmm4, %%xmm4; vzeroall" : : : "xmm4");
}

/* A handler that uses all units takes nothing from what it interrupts. */
static void signals(void)
{
	double v = 0;
	int wide = __builtin_cpu_supports("avx");
	long pid = getpid();

	on(SIGUSR1, clobber, 0);
	__asm__ volatile("fninit; fldpi; movups 64*3(%1), %%xmm3; movups 64*15(%1), %%xmm15; test "
			 "%3, %3; jz 1f\n"
			 "vmovups 64*4(%1), %%ymm4\n"
			 "1: mov $62, %%eax; mov %4, %%rdi; mov $10, %%esi; syscall\n"
			 "movups %%xmm3, 64*3(%2); movups %%xmm15, 64*15(%2); test %3, %3; jz 2f; "
			 "vmovups %%ymm4, 64*4(%2); vzeroupper\n"
			 "2: fstpl %0"
			 : "=m"(v)
			 : "r"(in), "r"(back), "r"(wide), "r"(pid)
			 : "rax", "rcx", "rdi", "rsi", "r11", "memory", "cc", "xmm3", "xmm4",
			   "xmm15");
	CHECK(v > 3.1415 && !memcmp(in[3], back[3], 16) && !memcmp(in[15], back[15], 16));
	CHECK(!wide || !memcmp(in[4], back[4], 32));
}

int main(int argc, char **argv)
{
	static const struct kind kinds[] = {
		{"fip", fip}, {"rounding", rounding}, {"xmm", xmm},           {"ymm", ymm},
		{"zmm", zmm}, {"x87", stack87},       {"unmasked", unmasked}, {"signals", signals},
	};

	for (int i = 0; i < 32; i++) {
		for (int k = 0; k < 64; k++)
			in[i][k] = (unsigned char)(i * 67 + k * 31 + 5);
	}
	return run_kinds(kinds, LENGTH(kinds), argc, argv);
}
