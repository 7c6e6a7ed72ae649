/* SPDX-License-Identifier: MIT */
/* Lengths, classes and targets against objdump over whole programs, 64 and 32 bit. */
#include "x86/x86.h"

#include <ctype.h>
#include <stdlib.h>
#include <unistd.h>

#include "check_main.h"

#define MAX_INSNS 400000

struct line {
	uint64_t ip;
	uint8_t bytes[32];
	size_t n;
	char text[128]; /* mnemonic with prefixes and operands */
};

/* "  401000:\tf3 0f 1e fa          \tendbr64" */
static bool parse(struct line *l, const char *s)
{
	char *e;

	memset(l, 0, sizeof(*l));
	while (*s == ' ')
		s++;
	l->ip = strtoull(s, &e, 16);
	if (e == s || *e != ':' || e[1] != '\t')
		return false;
	for (s = e + 2; isxdigit((unsigned char)s[0]) && isxdigit((unsigned char)s[1]);) {
		if (l->n == sizeof(l->bytes))
			return false;
		l->bytes[l->n++] = (uint8_t)strtoul(s, &e, 16);
		s = e;
		while (*s == ' ')
			s++;
	}
	if (*s != '\t')
		return false;
	snprintf(l->text, sizeof(l->text), "%s", s + 1);
	l->text[strcspn(l->text, "\n")] = 0;
	return l->n > 0;
}

/* The mnemonic without prefixes. */
static const char *mnemonic(const char *t)
{
	static const char *const prefixes[] = {"bnd ",    "notrack ", "repz ", "repnz ",
					       "rep ",    "data16 ",  "cs ",   "ds ",
					       "addr32 ", "lock ",    "rex.W "};

	for (size_t i = 0; i < IPT_ARRAY_SIZE(prefixes); i++) {
		size_t n = strlen(prefixes[i]);

		if (!strncmp(t, prefixes[i], n))
			return mnemonic(t + n);
	}
	return t;
}

static bool starts(const char *s, const char *with)
{
	size_t n = strlen(with);

	return !strncmp(s, with, n) && !isalnum((unsigned char)s[n]);
}

/* "call   *%rax", but not "call   26110 <*ABS*+0x9f1c0@plt>". */
static bool indirect(const char *m)
{
	m += strcspn(m, " ");
	return m[strspn(m, " ")] == '*';
}

static enum ipt_iclass class_of(const char *t)
{
	const char *m = mnemonic(t);

	if (starts(m, "ret"))
		return IPT_IC_RET;
	if (starts(m, "call"))
		return indirect(m) ? IPT_IC_CALL_IND : IPT_IC_CALL;
	if (starts(m, "jmp"))
		return indirect(m) ? IPT_IC_JMP_IND : IPT_IC_JMP;
	if (m[0] == 'j' || !strncmp(m, "loop", 4))
		return IPT_IC_COND;
	if (starts(m, "syscall") || starts(m, "int3") || starts(m, "int") || starts(m, "sysenter"))
		return IPT_IC_FAR_CALL;
	return IPT_IC_OTHER;
}

/* The address in "call 401000 <f>"; 0: none. */
static uint64_t target_of(const char *t)
{
	const char *m = mnemonic(t), *s = strpbrk(m, " ");

	while (s && *s == ' ')
		s++;
	return s && isxdigit((unsigned char)*s) ? strtoull(s, NULL, 16) : 0;
}

static void check_line(const struct line *l, enum ipt_xmode mode)
{
	struct ipt_insn insn;
	int err = ipt_x86_decode(&insn, l->bytes, l->n, l->ip, mode);

	ck_assert_msg(!err, "%llx %s: refused", (unsigned long long)l->ip, l->text);
	ck_assert_msg(insn.len == l->n, "%llx %s: length %u", (unsigned long long)l->ip, l->text,
		      insn.len);
	ck_assert_msg(insn.iclass == class_of(l->text), "%llx %s: class %u",
		      (unsigned long long)l->ip, l->text, insn.iclass);
	if (insn.iclass == IPT_IC_COND || insn.iclass == IPT_IC_JMP || insn.iclass == IPT_IC_CALL)
		ck_assert_msg(insn.target == target_of(l->text), "%llx %s: target %llx",
			      (unsigned long long)l->ip, l->text, (unsigned long long)insn.target);
}

static long compare(const char *command, enum ipt_xmode mode)
{
	char text[4096];
	struct line l;
	long n = 0;
	FILE *f = popen(command, "r");

	ck_assert_ptr_nonnull(f);
	while (n < MAX_INSNS && fgets(text, sizeof(text), f)) {
		if (!parse(&l, text) || strstr(l.text, "(bad)"))
			continue;
		/* objdump splits off a prefix that it thinks superfluous, and lone fwait. */
		if (l.n == 1 &&
		    (strstr(l.text, "fwait") || !*mnemonic(l.text) || starts(l.text, "rex") ||
		     starts(l.text, "data16") || starts(l.text, "repz") || starts(l.text, "cs") ||
		     starts(l.text, "lock")))
			continue;
		check_line(&l, mode);
		n++;
	}
	pclose(f);
	return n;
}

START_TEST(every_instruction_of_ls_agrees_with_objdump)
{
	ck_assert_int_gt(
		compare("objdump -d -w -z --insn-width=16 -j .text -j .plt /bin/ls", IPT_X64),
		1000);
}
END_TEST

START_TEST(instructions_of_libc_agree_with_objdump)
{
	ck_assert_int_gt(compare("objdump -d -w --insn-width=16 -j .text "
				 "$(ldd /bin/ls | awk '/libc.so/ {print $3}')",
				 IPT_X64),
			 100000);
}
END_TEST

START_TEST(instructions_of_a_32_bit_object_agree_with_objdump)
{
	ck_assert_int_gt(
		compare("t=$(mktemp -d) && printf '%s\\n' "
			"'int g(int); int (*fp)(int); double d;' "
			"'int f(int n){int s=0;for(int i=0;i<n;i++){switch(i%7){case 0:s+=g(i);"
			"break;case 1:s^=fp(i);break;case 2:d*=s;break;case 3:s<<=3;break;"
			"case 5:s/=i;break;default:s-=i;}}__builtin_ia32_pause();return s;}' "
			">$t/a.c && gcc -m32 -ffreestanding -fno-pic -O2 -c -o $t/a.o $t/a.c && "
			"objdump -d -w --insn-width=16 $t/a.o; rm -rf $t",
			IPT_X32),
		30);
}
END_TEST

static bool have_objdump(void)
{
	return system("command -v objdump >/dev/null 2>&1") == 0;
}

int main(void)
{
	TCase *tc = tcase_create("objdump");
	Suite *s = suite_create("objdump");
	SRunner *sr;
	int failed;

	if (!have_objdump()) {
		puts("skipped: no objdump (install binutils)");
		return 77;
	}
	tcase_set_timeout(tc, 110);
	tcase_add_test(tc, every_instruction_of_ls_agrees_with_objdump);
	tcase_add_test(tc, instructions_of_libc_agree_with_objdump);
	tcase_add_test(tc, instructions_of_a_32_bit_object_agree_with_objdump);
	suite_add_tcase(s, tc);
	sr = srunner_create(s);
	srunner_run_all(sr, CK_NORMAL);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed != 0;
}
