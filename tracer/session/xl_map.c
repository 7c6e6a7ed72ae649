/* SPDX-License-Identifier: MIT */
/* The memory that translated threads run in: made in the program, and taken out again. */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "session/priv.h"

#define STACK_ROOM (1ull << 30) /* kept free below a stack */

/* --- holes --- */

struct gap {
	uint64_t lo, hi;
};

struct search {
	uint64_t lo, hi, size, best;
	bool highest;
};

static uint64_t away(uint64_t a, uint64_t b)
{
	return a > b ? a - b : b - a;
}

static void consider(struct search *s, struct gap g)
{
	uint64_t mid = s->lo / 2 + s->hi / 2, at;

	g.lo = ipt_max_u64(g.lo, s->lo);
	g.hi = ipt_min_u64(g.hi, s->hi);
	if (g.hi <= g.lo || g.hi - g.lo < s->size)
		return;
	at = s->highest || g.hi - s->size < mid ? g.hi - s->size : ipt_max_u64(g.lo, mid);
	at &= ~0xffffull;
	if (at < g.lo)
		return;
	if (!s->best || (s->highest ? at > s->best : away(at, mid) < away(s->best, mid)))
		s->best = at;
}

/* Gaps between the mappings of a process, from /proc. */
static uint64_t hole(void *host, uint64_t lo, uint64_t hi, uint64_t size)
{
	struct thr *t = host;
	struct search s = {.lo = lo, .hi = hi, .size = size, .highest = lo == 0x10000};
	uint64_t last = 0x10000;
	char name[64], line[512];
	FILE *f;

	snprintf(name, sizeof(name), "/proc/%d/maps", t->tid);
	f = fopen(name, "re");
	if (!f)
		return 0;
	while (fgets(line, sizeof(line), f)) {
		unsigned long long start, end;
		uint64_t room;

		if (sscanf(line, "%llx-%llx", &start, &end) != 2)
			continue;
		if (start > 1ull << 47)
			break;
		room = strstr(line, "[stack]") ? STACK_ROOM : 0;
		if (start > last + room)
			consider(&s, (struct gap){last, start - room});
		last = end;
	}
	fclose(f);
	consider(&s, (struct gap){last, (1ull << 47) - 0x10000});
	return s.best;
}

static const uint8_t *page(void *host, uint64_t va, unsigned int *flags)
{
	struct thr *t = host;
	bool changeable, peek = *flags & IPT_XL_PAGE_PEEK;
	const uint8_t *p =
		peek ? ipt_sess_known_page(t, va) : ipt_sess_code_page(t, va, &changeable);

	*flags = p && !peek && changeable ? IPT_XL_PAGE_CHECK : 0;
	/* Nothing more is made in translations that are being given up. */
	return t->proc->as->xl_retire ? NULL : p;
}

static bool outside(void *host, uint64_t va)
{
	return ipt_remote.outside(host, va);
}

const struct ipt_xl_ops ipt_xl_host_ops = {.page = page, .outside = outside, .hole = hole};

/* --- why not --- */

bool ipt_sess_own_filter(const struct thr *t)
{
	long theirs = ipt_proc_status(t->tid, "Seccomp_filters");
	long ours = ipt_proc_status(getpid(), "Seccomp_filters");

	if (ipt_proc_status(t->tid, "Seccomp") == 1)
		return true;
	return theirs > (ours < 0 ? 0 : ours);
}

static const char *refusal(const struct thr *t)
{
	struct rlimit rl;

	if (ipt_sess_own_filter(t))
		return "it has a seccomp filter, under which no memory is added to it";
	if (prlimit(t->proc->pid, RLIMIT_AS, NULL, &rl) == 0 && rl.rlim_cur != RLIM_INFINITY)
		return "its address space is limited (RLIMIT_AS)";
	return NULL;
}

/* --- pieces --- */

static int map_piece(struct inject *in, const struct ipt_xl_piece *p, int fd, bool follow)
{
	uint64_t prot = PROT_READ | (p->prot == IPT_XL_RW ? PROT_WRITE : PROT_EXEC);
	uint64_t flags = MAP_SHARED | MAP_FIXED_NOREPLACE | MAP_NORESERVE;
	int64_t r;

	if (p->from) {
		/* Hold the place first: other threads map memory too. */
		r = ipt_inject(in, SYS_mmap,
			       (uint64_t[6]){p->va, p->size, PROT_NONE,
					     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE |
						     MAP_NORESERVE,
					     (uint64_t)-1});
		if (r != (int64_t)p->va)
			return r < 0 ? (int)r : -EEXIST;
		r = ipt_inject(in, SYS_mremap,
			       (uint64_t[6]){p->from, p->size, p->size,
					     MREMAP_MAYMOVE | MREMAP_FIXED, p->va});
		return r < 0 ? (int)r : 0;
	}
	r = ipt_inject(in, SYS_mmap,
		       (uint64_t[6]){p->va, p->size, prot, flags, (uint64_t)fd, p->off});
	if (r != (int64_t)p->va)
		return r < 0 ? (int)r : -EEXIST;
	ipt_inject(in, SYS_madvise, (uint64_t[6]){p->va, p->size, MADV_DONTDUMP});
	if (!follow)
		ipt_inject(in, SYS_madvise, (uint64_t[6]){p->va, p->size, MADV_DONTFORK});
	return 0;
}

/* Eight zero bytes that every process has: the padding of the vDSO's ELF header. */
static uint64_t empty_name(const struct aspace *as)
{
	for (size_t i = 0; i < as->maps.n; i++) {
		const struct amap *m = &as->maps.v[i];

		if (m->kind == IPT_SB_MAP_VDSO && ipt_u64map_get(&as->pages, m->start >> 12))
			return m->start + EI_PAD;
	}
	return 0;
}

static int fetch_fd(pid_t pid, int theirs)
{
	int pidfd = (int)syscall(SYS_pidfd_open, pid, 0), fd;

	if (pidfd < 0)
		return -errno;
	fd = (int)syscall(SYS_pidfd_getfd, pidfd, theirs, 0);
	if (fd < 0)
		fd = -errno;
	close(pidfd);
	return fd;
}

static int make_pieces(struct inject *in, struct ipt_xl *x)
{
	const struct thr *t = in->t;
	struct ipt_xl_piece first[IPT_XL_FIRST_PIECES];
	int64_t theirs =
		ipt_inject(in, SYS_memfd_create,
			   (uint64_t[6]){empty_name(t->proc->as), MFD_CLOEXEC | MFD_ALLOW_SEALING});
	struct stat st;
	int fd, err;

	if (theirs < 0)
		return (int)theirs;
	fd = fetch_fd(t->proc->pid, (int)theirs);
	if (fd < 0)
		return fd;
	/* A thread of the program could cut it under us. */
	fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK);
	if (fstat(fd, &st) == 0)
		t->proc->as->xl_inode = st.st_ino;
	err = ipt_xl_open(x, fd, first);
	for (unsigned int i = 0; !err && i < IPT_XL_FIRST_PIECES; i++)
		err = map_piece(in, &first[i], (int)theirs, t->sess->opts->follow);
	ipt_inject(in, SYS_close, (uint64_t[6]){(uint64_t)theirs});
	return err;
}

static void unmap_pieces(struct inject *in, const struct ipt_xl *x)
{
	struct ipt_xl_piece p[IPT_XL_MAX_PIECES];
	size_t n = ipt_xl_pieces(x, p);

	for (size_t i = 0; i < n; i++)
		ipt_inject(in, SYS_munmap, (uint64_t[6]){p[i].va, p[i].size});
}

const char *ipt_xl_setup(struct thr *t)
{
	struct ipt_xl_cfg cfg = {
		.noretcomp = t->sess->opts->noretcomp,
		.all_syscalls = t->sess->opts->syscalls || t->proc->no_tsc,
		.filtered = t->sess->filter,
	};
	const char *why = refusal(t);
	struct aspace *as = t->proc->as;
	struct ipt_xl *x;
	struct inject in;
	int err;

	if (why)
		return why;
	if (!empty_name(as) || !ipt_inject_begin(&in, t))
		return "it has no vDSO, where syscalls could be made for it";
	x = ipt_xl_new(&cfg, &ipt_xl_host_ops, t);
	err = make_pieces(&in, x);
	if (err && err != -ESRCH)
		unmap_pieces(&in, x);
	ipt_inject_end(&in);
	if (err) {
		ipt_xl_unshare(x);
		return err == -EMFILE || err == -ENFILE ? "it has no free file descriptor"
		       : err == -ENOSYS || err == -EPERM
			       ? "the kernel does not let us share memory with it"
			       : "there is no room in its address space";
	}
	as->xl = x;
	return NULL;
}

bool ipt_xl_map_cluster(struct thr *t, uint64_t va)
{
	struct ipt_xl_piece p;
	struct inject in;
	int err = -EEXIST;

	ipt_xl_host(t->proc->as->xl, t);
	if (t->proc->as->filtered || !ipt_inject_begin(&in, t))
		return false;
	for (int tries = 0; tries < 4 && err == -EEXIST; tries++) {
		if (ipt_xl_next_cluster(t->proc->as->xl, va, &p))
			break;
		err = map_piece(&in, &p, -1, t->sess->opts->follow);
	}
	ipt_inject_end(&in);
	if (!err)
		ipt_xl_add_cluster(t->proc->as->xl, &p);
	return !err;
}

void ipt_xl_unmap(struct thr *t)
{
	struct inject in;

	if (t->proc->as->filtered) {
		ipt_sess_warn(t->sess,
			      "process %d: it filters its syscalls; our memory stays in it",
			      t->proc->pid);
		return;
	}
	if (!ipt_inject_begin(&in, t))
		return;
	unmap_pieces(&in, t->proc->as->xl);
	ipt_inject_end(&in);
}
