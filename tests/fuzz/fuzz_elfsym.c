/* SPDX-License-Identifier: MIT */
/* Any bytes as the file of a map, or as a vDSO: functions, frames and lines never crash, and a
 * function holds the address it was asked for. */
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "sym/sym.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

static void ask(struct ipt_sym *s, const struct ipt_map *m, uint64_t va)
{
	const struct ipt_func *f = ipt_sym_func(s, m, va);
	struct ipt_frame frames[8];
	uint64_t lo, hi;
	const char *file;
	uint32_t line;
	size_t k = ipt_sym_frames(s, m, va, frames, 8);

	if (!f || !f->name || !f->linkage || !f->module || va < f->lo || va >= f->hi)
		abort();
	if (k < 1 || k > 8 || !frames[k - 1].func)
		abort();
	if (ipt_sym_line(s, m, va, &file, &line, &lo, &hi) && (va < lo || va >= hi || !line))
		abort();
}

static void ask_all(const struct ipt_map *m)
{
	struct ipt_sym *s;

	if (ipt_sym_new(&s, NULL, NULL, NULL))
		abort();
	for (uint64_t va = m->start; va < m->end; va += 61)
		ask(s, m, va);
	ipt_sym_free(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	struct ipt_map m = {.start = 0x1000, .end = 0x2000, .pgoff = 0x1000, .id = 1};
	int fd = memfd_create("elf", MFD_CLOEXEC);
	char path[64];

	if (fd < 0 || write(fd, p, n) != (ssize_t)n)
		abort();
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	m.path = path;
	m.kind = IPT_SB_MAP_FILE;
	ask_all(&m);
	m.pgoff = 0;
	ask_all(&m);
	close(fd);
	if (!n)
		return 0;
	m.kind = IPT_SB_MAP_VDSO;
	m.path = "[vdso]";
	m.bytes = p;
	m.end = m.start + n;
	ask_all(&m);
	return 0;
}
