/* SPDX-License-Identifier: MIT */
/* Text of instructions, in both syntaxes. */
#include "x86/x86.h"

#include "check_main.h"

static void expect(const char *bytes, size_t n, enum ipt_syntax syntax, const char *name,
		   const char *want)
{
	struct ipt_buf b = {0};

	ck_assert_int_eq(
		ipt_x86_print(&b, (const uint8_t *)bytes, n, 0x401000, IPT_X64, syntax, name), 0);
	ipt_buf_u8(&b, 0);
	ck_assert_str_eq((char *)b.data, want);
	ipt_buf_fini(&b);
}

START_TEST(both_syntaxes_are_printed)
{
	expect("\x48\x89\xe5", 3, IPT_SYNTAX_ATT, NULL, "mov    %rsp,%rbp");
	expect("\x48\x89\xe5", 3, IPT_SYNTAX_INTEL, NULL, "mov    rbp,rsp");
}
END_TEST

START_TEST(a_direct_branch_names_its_target)
{
	expect("\xe8\x00\x00\x00\x00", 5, IPT_SYNTAX_INTEL, "f", "call   0x401005 <f>");
	expect("\xe8\x00\x00\x00\x00", 5, IPT_SYNTAX_ATT, "f", "call   0x401005 <f>");
	expect("\xe8\x00\x00\x00\x00", 5, IPT_SYNTAX_INTEL, NULL, "call   0x401005");
	/* An address that is no branch target gets no name. */
	expect("\x48\x8d\x05\x10\x00\x00\x00", 7, IPT_SYNTAX_INTEL, "f", "lea    rax,[rip+0x10]");
}
END_TEST

START_TEST(text_is_as_objdump_has_it)
{
	expect("\x74\x00", 2, IPT_SYNTAX_ATT, NULL, "je     0x401002");
	expect("\x0f\x9f\xc0", 3, IPT_SYNTAX_ATT, NULL, "setg   %al");
	expect("\x0f\xb6\xc0", 3, IPT_SYNTAX_ATT, NULL, "movzbl %al,%eax");
	expect("\x48\x63\xd0", 3, IPT_SYNTAX_ATT, NULL, "movslq %eax,%rdx");
	expect("\x48\x83\xe4\xf0", 4, IPT_SYNTAX_ATT, NULL, "and    $0xfffffffffffffff0,%rsp");
	expect("\x80\x25\x10\x00\x00\x00\xdf", 7, IPT_SYNTAX_ATT, NULL, "andb   $0xdf,0x10(%rip)");
	expect("\xc3", 1, IPT_SYNTAX_ATT, NULL, "ret");
}
END_TEST

START_TEST(the_address_of_a_relative_operand_is_told)
{
	struct ipt_buf b = {0};
	uint64_t data = 1;

	ck_assert_int_eq(ipt_x86_print_data(&b, (const uint8_t *)"\x48\x8d\x05\x10\0\0\0", 7,
					    0x401000, IPT_X64, IPT_SYNTAX_ATT, NULL, &data),
			 0);
	ck_assert_uint_eq(data, 0x401017);
	ck_assert_int_eq(ipt_x86_print_data(&b, (const uint8_t *)"\xc3", 1, 0x401000, IPT_X64,
					    IPT_SYNTAX_ATT, NULL, &data),
			 0);
	ck_assert_uint_eq(data, 0);
	ipt_buf_fini(&b);
}
END_TEST

START_TEST(a_name_with_formats_and_of_any_length_is_harmless)
{
	struct ipt_buf b = {0};
	char name[5000];

	memset(name, 'n', sizeof(name));
	name[sizeof(name) - 1] = 0;
	ck_assert_int_eq(ipt_x86_print(&b, (const uint8_t *)"\xe8\0\0\0\0", 5, 0x401000, IPT_X64,
				       IPT_SYNTAX_ATT, name),
			 0);
	ck_assert_uint_lt(b.len, 512);
	ipt_buf_fini(&b);
	expect("\xe8\x00\x00\x00\x00", 5, IPT_SYNTAX_INTEL, "%s%n", "call   0x401005 <%s%n>");
}
END_TEST

START_TEST(bad_bytes_say_so)
{
	struct ipt_buf b = {0};

	ck_assert_int_eq(
		ipt_x86_print(&b, (const uint8_t *)"\x06", 1, 0, IPT_X64, IPT_SYNTAX_ATT, NULL),
		-IPT_E_BADINSN);
	ck_assert_uint_eq(b.len, 5);
	ck_assert_mem_eq(b.data, "(bad)", 5);
	ipt_buf_fini(&b);
}
END_TEST

CHECK_MAIN("print", both_syntaxes_are_printed, a_direct_branch_names_its_target,
	   text_is_as_objdump_has_it, the_address_of_a_relative_operand_is_told,
	   a_name_with_formats_and_of_any_length_is_harmless, bad_bytes_say_so)
