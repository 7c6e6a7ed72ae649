/* SPDX-License-Identifier: MIT */
/* Registers and memory of a stopped thread, for the engine and for ourselves. */
#include <errno.h>
#include <fcntl.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <unistd.h>

#include "session/priv.h"

size_t ipt_mem_read_some(pid_t tid, uint64_t va, void *out, size_t n)
{
	size_t got = 0;

	while (got < n) {
		/* Page by page at the end: the call gives nothing of a range that crosses into a
		 * hole. */
		size_t k = ipt_min_u64(n - got, got ? 4096 - (va + got) % 4096 : n - got);
		struct iovec local = {(uint8_t *)out + got, k};
		struct iovec remote = {(void *)(uintptr_t)(va + got), k};
		ssize_t r = process_vm_readv(tid, &local, 1, &remote, 1, 0);

		if (r <= 0) {
			uint64_t to_page = 4096 - va % 4096;

			if (got || n <= to_page)
				break;
			n = to_page; /* the first page at least */
			continue;
		}
		got += (size_t)r;
	}
	return got;
}

/* Execute-only and other odd mappings: through /proc/TID/mem, which ptrace access lets through. */
static int mem_file(pid_t tid, uint64_t va, void *out, const void *in, size_t n)
{
	char name[64];
	ssize_t r;
	int fd;

	snprintf(name, sizeof(name), "/proc/%d/mem", tid);
	fd = open(name, (in ? O_WRONLY : O_RDONLY) | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	r = in ? pwrite(fd, in, n, (off_t)va) : pread(fd, out, n, (off_t)va);
	if (r < 0)
		r = -errno;
	close(fd);
	return r < 0 ? (int)r : (size_t)r == n ? 0 : -EFAULT;
}

int ipt_mem_read(pid_t tid, uint64_t va, void *out, size_t n)
{
	if (ipt_mem_read_some(tid, va, out, n) == n)
		return 0;
	return mem_file(tid, va, out, NULL, n);
}

int ipt_mem_write(pid_t tid, uint64_t va, const void *p, size_t n)
{
	return mem_file(tid, va, NULL, p, n);
}

static size_t read_code(void *host, uint64_t va, uint8_t *out, size_t n)
{
	const struct thr *t = host;

	return ipt_aspace_read(t->proc->as, va, out, n);
}

static int read_mem(void *host, uint64_t va, void *out, size_t n)
{
	return ipt_mem_read(((const struct thr *)host)->tid, va, out, n);
}

static int write_mem(void *host, uint64_t va, const void *p, size_t n)
{
	return ipt_mem_write(((const struct thr *)host)->tid, va, p, n);
}

static int set_regs(void *host, const struct user_regs_struct *regs)
{
	struct thr *t = host;

	if (ptrace(PTRACE_SETREGS, t->tid, NULL, regs) < 0)
		return -errno;
	t->regs = *regs;
	return 0;
}

static void log_ip(void *host, uint64_t ip)
{
	struct thr *t = host;

	if (t->step_log)
		fprintf(t->step_log, "%llx\n", (unsigned long long)ip);
}

/* The thread's registered struct rseq; asked of the kernel again while there is none. */
static uint64_t rseq_area(struct thr *t)
{
	struct __ptrace_rseq_configuration c = {0};

	if (t->rseq_asked)
		return t->rseq;
	t->rseq_asked = true;
	t->rseq = 0;
	if (ptrace(PTRACE_GET_RSEQ_CONFIGURATION, t->tid, (void *)sizeof(c), &c) > 0)
		t->rseq = c.rseq_abi_pointer;
	return t->rseq;
}

static uint64_t rseq_abort(void *host, uint64_t ip)
{
	struct thr *t = host;
	uint64_t area = rseq_area(t), ptr = 0;
	struct { /* struct rseq_cs */
		uint32_t version, flags;
		uint64_t start, len, abort;
	} cs;

	if (!area || ipt_mem_read(t->tid, area + 8, &ptr, sizeof(ptr)) || !ptr ||
	    ipt_mem_read(t->tid, ptr, &cs, sizeof(cs)) || ip - cs.start >= cs.len)
		return 0;
	return cs.abort;
}

static void lost(void *host, uint64_t from, uint64_t to)
{
	struct thr *t = host;
	struct ipt_sb_head h = ipt_thr_head(t);
	struct ipt_sb_gap gap = {.cause = IPT_GAP_REFUSED};
	char text[120];

	snprintf(text, sizeof(text), "control went from 0x%llx to 0x%llx by no known instruction",
		 (unsigned long long)from, (unsigned long long)to);
	ipt_writer_gap(t->sess->w, &h, &gap, text);
}

static bool outside(void *host, uint64_t ip)
{
	const struct thr *t = host;

	return ipt_filter_outside(t->proc->as, ip);
}

const struct ipt_remote_ops ipt_remote = {
	.read_code = read_code,
	.read = read_mem,
	.write = write_mem,
	.set_regs = set_regs,
	.log_ip = log_ip,
	.rseq_abort = rseq_abort,
	.outside = outside,
	.lost = lost,
};
