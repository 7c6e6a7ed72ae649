/* SPDX-License-Identifier: MIT */
/* precise [KIND]: faults in the middle of long straight code. The handler's frame must hold the
 * exact RIP, all sixteen registers and the arithmetic flags, for each kind of instruction. */
#include "kinds.h"

#define FLAGS 0x8d5l
#define PAGE  4096

/* In the order of the frame's registers: r8-r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp. */
long want[16], got[18], start_flags;
static long fault_addr;
static int fault_sig;
static char alt[32768];
char guard[PAGE] __attribute__((aligned(PAGE)));
long stk[64] __attribute__((aligned(64)));
void *target;
void probe(void) __asm__("probe");
extern char leave_probe[] __asm__("leave_probe");

__asm__(".text\n"
	"probe: push %rbx; push %rbp; push %r12; push %r13; push %r14; push %r15\n"
	"mov %rsp, home\n"
	"mov want+0, %r8; mov want+8, %r9; mov want+16, %r10; mov want+24, %r11\n"
	"mov want+32, %r12; mov want+40, %r13; mov want+48, %r14; mov want+56, %r15\n"
	"mov want+64, %rdi; mov want+72, %rsi; mov want+80, %rbp; mov want+88, %rbx\n"
	"mov want+96, %rdx; mov want+104, %rax; mov want+112, %rcx\n"
	"push start_flags; popfq\n"
	"mov want+120, %rsp\n"
	"jmp *target\n"
	"leave_probe: cld; mov home, %rsp\n"
	"pop %r15; pop %r14; pop %r13; pop %r12; pop %rbp; pop %rbx; ret\n"
	".data\nhome: .quad 0\nspill: .fill 16, 8, 0\n"
	".text\n"
	/* Changes and restores registers and no flag. */
	".macro STRAIGHT\n"
	"not %rax; not %rax; bswap %rbx; bswap %rbx; lea 5(%rcx), %rcx; lea -5(%rcx), %rcx\n"
	"xchg %rdx, %rsi; xchg %rsi, %rdx; mov %rdi, spill; mov $1, %edi; mov spill, %rdi\n"
	"mov %r8, spill+8; lea spill+8, %r8; mov (%r8), %r8; not %r9; not %r9\n"
	"mov %rbp, spill+16(%rip); lea 7(%rbp,%rbp,2), %rbp; mov spill+16(%rip), %rbp\n"
	"xchg %r10, %r11; xchg %r10, %r11; bswap %r12; bswap %r12; lea 1(%r13), %r13\n"
	"lea -1(%r13), %r13; not %r14; not %r14; lea 64(%rsp), %rsp; lea -64(%rsp), %rsp\n"
	"xchg %rax, spill+24(%rip); xchg %rax, spill+24(%rip)\n"
	".endm\n"
	/* What comes after must not have happened. */
	".macro AFTER\n"
	"mov $-1, %eax; mov $-1, %ebx; mov $-1, %ecx; mov $-1, %edx; xor %esi, %esi; mov $3, %r8d\n"
	"add $5, %r9; lea 8(%rsp), %rsp; jmp leave_probe\n"
	".endm\n"
	".macro PROBE name insn:vararg\n"
	".globl p_\\name, at_\\name, next_\\name\n"
	"p_\\name: STRAIGHT\nSTRAIGHT\n"
	"at_\\name: \\insn\nnext_\\name: AFTER\n"
	".endm\n"
	"PROBE load mov (%r15), %rax\n"
	"PROBE store mov %rax, (%r15)\n"
	"PROBE rmw addl $7, (%r15)\n"
	"PROBE locked lock cmpxchg %rbx, (%r15)\n"
	"PROBE imm movl $0x12345678, (%r15)\n"
	"PROBE push push %rax\n"
	"PROBE pushmem push (%r15)\n"
	"PROBE popmem pop (%r15)\n"
	"PROBE pop pop %rax\n"
	"PROBE leave leave\n"
	"PROBE callpush call leave_probe\n"
	"PROBE callbad call *%r15\n"
	"PROBE callmem call *(%r15)\n"
	"PROBE jmpbad jmp *%r15\n"
	"PROBE jmpmem jmp *(%r15)\n"
	"PROBE retbad ret\n"
	"PROBE retstack ret\n"
	"PROBE retimm ret $24\n"
	"PROBE div div %rcx\n"
	"PROBE idiv idivl (%r14)\n"
	"PROBE ud2 ud2\n"
	"PROBE hlt hlt\n"
	"PROBE int3 int3\n"
	"PROBE sse movaps 1(%r14), %xmm0\n"
	"PROBE fpu fldl (%r15)\n"
	"PROBE ripload mov guard(%rip), %rax\n"
	"PROBE riphigh mov guard+1(%rip), %ah\n"
	"PROBE ripimm movl $0x12345678, guard+8(%rip)\n"
	"PROBE ripcmp cmpb $1, guard+9(%rip)\n"
	"PROBE ripcall call *guard+16(%rip)\n"
	"PROBE ripjmp jmp *guard+24(%rip)\n"
	"PROBE rippush push guard+32(%rip)\n"
	"PROBE rippop pop guard+40(%rip)\n"
	"PROBE ripsse movdqu %xmm0, guard+48(%rip)\n"
	"PROBE abs mov guard+56, %eax\n"
	"PROBE movabs movabs %al, guard+57\n"
	"PROBE xlat xlatb\n"
	"PROBE movs movsq\n"
	"PROBE cond cmpq $0, (%r15); jne leave_probe; nop\n"
	"PROBE fs mov %fs:(%r15), %al\n"
	/* Faults behind branches, and in between of flags that are overwritten at once. */
	".globl p_taken, at_taken\n"
	"p_taken: STRAIGHT\n jrcxz 1f; jmp 2f\n1: jmp leave_probe\n2: STRAIGHT\n"
	"at_taken: mov (%r15), %edx\n AFTER\n"
	".globl p_called, at_called\n"
	"p_called: STRAIGHT\n call 1f\n1: STRAIGHT\n lea 8(%rsp), %rsp\n"
	"at_called: mov %edx, (%r15)\n AFTER\n"
	".globl p_arith, at_arith\n"
	"p_arith: STRAIGHT\n mov %rax, spill; mov $0x7fffffff, %eax; add $1, %eax; mov spill, "
	"%rax\n"
	"at_arith: mov (%r15), %edx\n cmp %eax, %eax; stc\n AFTER\n"
	".globl p_carry, at_carry\n"
	"p_carry: cmp %rax, %rax; mov %rax, spill; mov $1, %eax; sub $2, %eax; mov spill, %rax\n "
	"STRAIGHT\n"
	"at_carry: movb $1, guard+3(%rip)\n add $1, %eax; cmc\n AFTER\n"
	".globl p_reps, at_reps\n"
	"p_reps: STRAIGHT\nat_reps: rep movsb\n AFTER\n"
	".globl p_repz, at_repz\n"
	"p_repz: STRAIGHT\nat_repz: repe scasb\n AFTER\n");

enum { R8, R9, R10, R11, R12, R13, R14, R15, RDI, RSI, RBP, RBX, RDX, RAX, RCX, RSP };
#define HOLE ((long)guard)
#define BAD  0x7000000000l

struct probe {
	const char *name;
	char *entry, *at;
	long rip;  /* where it is not `at` */
	long addr; /* 0: not checked */
	int sig, reg;
	long value; /* what register `reg` starts with; -1: none */
	long rsp;   /* what the fault leaves, less what it started with */
};

#define P(n, ...) extern char p_##n[], at_##n[], next_##n[];
#define KINDS                                                                                      \
	P(load, 0, HOLE, SIGSEGV, R15, HOLE, 0)                                                    \
	P(store, 0, HOLE, SIGSEGV, R15, HOLE, 0)                                                   \
	P(rmw, 0, HOLE, SIGSEGV, R15, HOLE, 0)                                                     \
	P(locked, 0, HOLE, SIGSEGV, R15, HOLE, 0)                                                  \
	P(imm, 0, HOLE, SIGSEGV, R15, HOLE, 0)                                                     \
	P(push, 0, HOLE + 64 - 8, SIGSEGV, RSP, HOLE + 64, 0)                                      \
	P(pushmem, 0, HOLE, SIGSEGV, R15, HOLE, 0)                                                 \
	P(popmem, 0, HOLE, SIGSEGV, R15, HOLE, 0)                                                  \
	P(pop, 0, HOLE + 64, SIGSEGV, RSP, HOLE + 64, 0)                                           \
	P(leave, 0, HOLE + 8, SIGSEGV, RBP, HOLE + 8, 0)                                           \
	P(callpush, 0, HOLE + 64 - 8, SIGSEGV, RSP, HOLE + 64, 0)                                  \
	P(callbad, BAD, BAD, SIGSEGV, R15, BAD, -8)                                                \
	P(callmem, 0, HOLE, SIGSEGV, R15, HOLE, 0)                                                 \
	P(jmpbad, BAD, BAD, SIGSEGV, R15, BAD, 0)                                                  \
	P(jmpmem, 0, HOLE, SIGSEGV, R15, HOLE, 0)                                                  \
	P(retbad, BAD, BAD, SIGSEGV, -1, 0, 8)                                                     \
	P(retstack, 0, HOLE + 64, SIGSEGV, RSP, HOLE + 64, 0)                                      \
	P(retimm, BAD, BAD, SIGSEGV, -1, 0, 32)                                                    \
	P(div, 0, (long)at_div, SIGFPE, RCX, 0, 0)                                                 \
	P(idiv, 0, (long)at_idiv, SIGFPE, R14, (long)(stk + 8), 0)                                 \
	P(ud2, 0, (long)at_ud2, SIGILL, -1, 0, 0)                                                  \
	P(hlt, 0, 0, SIGSEGV, -1, 0, 0)                                                            \
	P(int3, (long)next_int3, 0, SIGTRAP, -1, 0, 0)                                             \
	P(sse, 0, 0, SIGSEGV, R14, (long)stk, 0)                                                   \
	P(fpu, 0, HOLE, SIGSEGV, R15, HOLE, 0)                                                     \
	P(ripload, 0, HOLE, SIGSEGV, -1, 0, 0)                                                     \
	P(riphigh, 0, HOLE + 1, SIGSEGV, -1, 0, 0)                                                 \
	P(ripimm, 0, HOLE + 8, SIGSEGV, -1, 0, 0)                                                  \
	P(ripcmp, 0, HOLE + 9, SIGSEGV, -1, 0, 0)                                                  \
	P(ripcall, 0, HOLE + 16, SIGSEGV, -1, 0, 0)                                                \
	P(ripjmp, 0, HOLE + 24, SIGSEGV, -1, 0, 0)                                                 \
	P(rippush, 0, HOLE + 32, SIGSEGV, -1, 0, 0)                                                \
	P(rippop, 0, HOLE + 40, SIGSEGV, -1, 0, 0)                                                 \
	P(ripsse, 0, HOLE + 48, SIGSEGV, -1, 0, 0)                                                 \
	P(abs, 0, HOLE + 56, SIGSEGV, -1, 0, 0)                                                    \
	P(movabs, 0, HOLE + 57, SIGSEGV, -1, 0, 0)                                                 \
	P(xlat, 0, 0, SIGSEGV, RBX, HOLE + 256, 0)                                                 \
	P(movs, 0, HOLE, SIGSEGV, RSI, HOLE, 0)                                                    \
	P(cond, 0, HOLE, SIGSEGV, R15, HOLE, 0)                                                    \
	P(fs, 0, 0, SIGSEGV, R15, -0x123456789000l, 0)                                             \
	P(taken, 0, HOLE, SIGSEGV, R15, HOLE, 0)                                                   \
	P(called, 0, HOLE, SIGSEGV, R15, HOLE, 0)
KINDS
extern char p_arith[], at_arith[], p_carry[], at_carry[], p_reps[], at_reps[], p_repz[], at_repz[];
#undef P

static void look(int sig, siginfo_t *si, void *uc)
{
	greg_t *r = ((ucontext_t *)uc)->uc_mcontext.gregs;

	memcpy(got, r, sizeof(got));
	fault_addr = (long)si->si_addr;
	fault_sig = sig;
	r[REG_RIP] = (long)leave_probe;
}

static void fill(long flags)
{
	for (int i = 0; i < 16; i++)
		want[i] = 0x1111111111111111l * (i + 1) ^ 0x0123456789abcdefl;
	want[RSP] = (long)(stk + 32);
	for (size_t i = 0; i < LENGTH(stk); i++)
		stk[i] = BAD;
	memset(stk + 8, 0, 8);
	start_flags = flags | 2;
}

static void same_registers(long flags)
{
	for (int i = 0; i < 16; i++) {
		if (got[i] != want[i])
			say_n("register ", i);
		CHECK(got[i] == want[i]);
	}
	CHECK((got[REG_EFL] & FLAGS) == flags);
	CHECK((got[REG_EFL] & 0x700) == 0x200);
}

static void once(const struct probe *p, long flags)
{
	int before = failures;

	fill(flags);
	if (p->reg >= 0)
		want[p->reg] = p->value;
	target = p->entry;
	probe();
	want[RSP] += p->rsp;
	same_registers(flags);
	CHECK(got[REG_RIP] == (p->rip ? p->rip : (long)p->at));
	CHECK(fault_sig == p->sig);
	CHECK(!p->addr || fault_addr == p->addr);
	if (p->at == at_callbad)
		CHECK(stk[31] == (long)next_callbad);
	if (failures != before) {
		say(p->name);
		say(" bad\n");
	}
}

static void arith(void)
{
	fill(0);
	want[R15] = HOLE;
	target = p_arith;
	probe();
	same_registers(0x894); /* OF SF AF PF */
	CHECK(got[REG_RIP] == (long)at_arith);
	fill(0x840);
	target = p_carry;
	probe();
	same_registers(0x95 & ~0x40); /* CF PF AF SF */
	CHECK(got[REG_RIP] == (long)at_carry);
}

/* String instructions stop between two of their elements. */
static void strings(void)
{
	fill(FLAGS);
	want[RDI] = HOLE - 5;
	want[RSI] = (long)stk;
	want[RCX] = 20;
	target = p_reps;
	probe();
	want[RDI] += 5;
	want[RSI] += 5;
	want[RCX] -= 5;
	same_registers(FLAGS);
	CHECK(got[REG_RIP] == (long)at_reps && fault_addr == HOLE);
	fill(0x40);
	memset((char *)HOLE - 5, 0x33, 5);
	want[RAX] = 0x33;
	want[RDI] = HOLE - 5;
	want[RCX] = 20;
	target = p_repz;
	probe();
	CHECK(got[REG_RIP] == (long)at_repz && fault_addr == HOLE);
	CHECK(got[RDI] == HOLE && got[RCX] == 15);
}

int main(int argc, char **argv)
{
#define P(n, ...) {#n, p_##n, at_##n, __VA_ARGS__},
	const struct probe probes[] = {KINDS};
	static const int signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP};
	stack_t ss = {.ss_sp = alt, .ss_size = sizeof(alt)};

	sigaltstack(&ss, NULL);
	for (size_t i = 0; i < LENGTH(signals); i++)
		on(signals[i], look, SA_ONSTACK);
	mprotect(guard, PAGE, PROT_NONE);
	for (size_t i = 0; i < LENGTH(probes); i++) {
		if (argc > 1 && strcmp(argv[1], probes[i].name))
			continue;
		once(&probes[i], 0);
		once(&probes[i], FLAGS);
		say(probes[i].name);
		say("\n");
	}
	if (argc < 2 || !strcmp(argv[1], "arith"))
		arith();
	if (argc < 2 || !strcmp(argv[1], "strings"))
		strings();
	say_n("failures ", failures);
	return failures != 0;
}
