/* SPDX-License-Identifier: MIT */
/* The tables of iptrace-trace(5) against the structs of format.h: every field, both ways. */
#include "store_lib.h"

struct field {
	const char *in, *name;
	size_t off, size, total;
};

#define F(s, f)                                                                                    \
	{                                                                                          \
#s, #f, offsetof(struct ipt_sb_##s, f), sizeof(((struct ipt_sb_##s *)0)->f),       \
			sizeof(struct ipt_sb_##s)                                                  \
	}

static const struct field fields[] = {
	F(file_hdr, magic),
	F(file_hdr, version),
	F(file_hdr, hdr_size),
	F(file_hdr, flags),
	F(hdr, type),
	F(hdr, flags),
	F(hdr, size),
	F(hdr, check),
	F(hdr, pid),
	F(hdr, tid),
	F(hdr, gen),
	F(hdr, seq),
	F(hdr, tsc),
	F(hdr, pt_off),
	F(hdr, bound),
	F(thread_start, ppid),
	F(thread_start, creator),
	F(thread_start, flags),
	F(thread_start, pad),
	F(thread_exit, status),
	F(thread_exit, flags),
	F(exec, old_tid),
	F(exec, n_path),
	F(exec, n_argv),
	F(exec, bits),
	F(pos, tid),
	F(pos, gen),
	F(pos, pt_off),
	F(pos, bound),
	F(pos, flags),
	F(pos, pad),
	F(at, seq),
	F(map, start),
	F(map, end),
	F(map, pgoff),
	F(map, image),
	F(map, image_off),
	F(map, inode),
	F(map, dev_major),
	F(map, dev_minor),
	F(map, prot),
	F(map, kind),
	F(map, n_pos),
	F(map, n_build_id),
	F(map, n_path),
	F(map, pad),
	F(range, start),
	F(range, end),
	F(range, prot),
	F(range, n_pos),
	F(fork, child_pid),
	F(fork, child_tid),
	F(fork, child_gen),
	F(fork, kind),
	F(signal, signo),
	F(signal, code),
	F(signal, addr),
	F(signal, ip),
	F(signal, handler),
	F(signal, sender_pid),
	F(signal, flags),
	F(syscall, nr),
	F(syscall, args),
	F(syscall, ret),
	F(syscall, flags),
	F(syscall, arch),
	F(gap, cause),
	F(gap, flags),
	F(gap, lost_bytes),
	F(gap, tsc_from),
	F(gap, tsc_to),
	F(stack, ip),
	F(stack, sp),
	F(stack, n),
	F(stack, flags),
};

START_TEST(every_field_is_at_the_offset_that_the_manual_says)
{
	char path[4096], line[512], in[64] = "", name[64];
	const char *src = getenv("IPT_SOURCE_DIR");
	size_t at = 0, off, size, total;
	FILE *f;

	snprintf(path, sizeof(path), "%s/man/iptrace-trace.5", src ? src : ".");
	f = fopen(path, "r");
	ck_assert_msg(f != NULL, "%s", path);
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, ".Ss struct ipt_sb_%63s", in) == 1) {
			ck_assert_ptr_nonnull(fgets(line, sizeof(line), f));
			ck_assert_int_eq(sscanf(line, "%zu bytes.", &total), 1);
			continue;
		}
		if (!*in || sscanf(line, ".It %zu Ta %zu Ta %63s", &off, &size, name) != 3)
			continue;
		ck_assert_uint_lt(at, IPT_ARRAY_SIZE(fields));
		ck_assert_str_eq(in, fields[at].in);
		ck_assert_str_eq(name, fields[at].name);
		ck_assert_msg(off == fields[at].off && size == fields[at].size &&
				      total == fields[at].total,
			      "%s.%s", in, name);
		at++;
	}
	fclose(f);
	ck_assert_uint_eq(at, IPT_ARRAY_SIZE(fields));
}
END_TEST

STORE_MAIN("store manual", every_field_is_at_the_offset_that_the_manual_says)
