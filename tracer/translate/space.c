/* SPDX-License-Identifier: MIT */
/* The memory that tracer and program share: its file, its pieces, the tables' first contents, the
 * mutex that tells the program of the tracer's death. */
#include "priv.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define OFF_CLUSTERS (4ull << 20)
#define OFF_SLOTS    (OFF_CLUSTERS + IPT_XL_CLUSTERS * IPT_XL_CLUSTER_BYTES)
#define SLOTS_BYTES  (IPT_XL_SLOTS * IPT_XL_SLOT_BYTES)
#define CODE_BYTES   (IPT_XL_CLUSTERS * IPT_XL_CLUSTER_BYTES)
#define LOW_LIMIT    0x7fff0000ull
#define KEEP_BLOCK   (256u << 10)
#define REACH        0x60000000ull

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

void ipt_xl_touch(void *p, uint64_t size)
{
	madvise(p, size, MADV_POPULATE_WRITE);
}

/* Zeroed, and aligned as exits are. */
struct xexit *ipt_xl_exit_chunk(void)
{
	void *p = mmap(NULL, EXIT_CHUNK * sizeof(struct xexit), PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	ipt_assert(p != MAP_FAILED, "out of memory");
	return p;
}

struct ipt_xl *ipt_xl_new(const struct ipt_xl_cfg *cfg, const struct ipt_xl_ops *ops, void *host)
{
	struct ipt_xl *x = ipt_xcalloc(1, sizeof(*x));

	x->refs = x->sharers = 1;
	x->cfg = *cfg;
	x->ops = ops;
	x->host = host;
	x->fd = -1;
	x->epoch = 1;
	x->n_exits = 1; /* no exit and no trace has the number 0 */
	x->exit_chunks[0] = ipt_xl_exit_chunk();
	x->exit_chunks[0][0].w.special = true;
	x->cache = ipt_xcalloc(DECODE_SLOTS, sizeof(*x->cache));
	return x;
}

struct ipt_xl *ipt_xl_get(struct ipt_xl *x)
{
	x->refs++;
	return x;
}

struct ipt_xl *ipt_xl_share(struct ipt_xl *x)
{
	x->sharers++;
	return ipt_xl_get(x);
}

void ipt_xl_unshare(struct ipt_xl *x)
{
	if (!x)
		return;
	x->sharers--;
	ipt_xl_put(x);
}

unsigned int ipt_xl_sharers(const struct ipt_xl *x)
{
	return x->sharers;
}

void ipt_xl_host(struct ipt_xl *x, void *host)
{
	x->host = host;
}

static void free_pages(struct ipt_xl *x)
{
	size_t it = 0;
	uint64_t key;
	void *v;

	while (ipt_u64map_next(&x->pages, &it, &key, &v)) {
		free(*(void **)v); /* its vector */
		free(v);
	}
	ipt_u64map_fini(&x->pages);
}

/*
 * The kernel sets a bit in a futex word when the thread that holds it dies, however it dies, for
 * each word that the thread's robust list names (get_robust_list(2)). The list itself lies in
 * memory that the program does not see: a page of ours before each mapping of the tables.
 */
struct robust {
	struct robust_list link; /* first: the kernel's */
	struct robust *prev;
};

#define ROBUST_PAGE 4096

static __thread struct robust_list_head robust_head;

static void hold_alive(struct ipt_xl *x)
{
	struct robust_list_head *head = &robust_head;
	struct robust *r = x->robust;

	if (!head->list.next) {
		head->list.next = &head->list;
		head->futex_offset = ROBUST_PAGE + LOW_ALIVE;
		syscall(SYS_set_robust_list, head, sizeof(*head));
	}
	__atomic_store_n((uint32_t *)(void *)(x->low + LOW_ALIVE), (uint32_t)syscall(SYS_gettid),
			 __ATOMIC_RELEASE);
	r->link.next = head->list.next;
	if (r->link.next != &head->list)
		((struct robust *)(void *)r->link.next)->prev = r;
	r->prev = NULL;
	__atomic_store_n(&head->list.next, &r->link, __ATOMIC_RELEASE);
}

static void let_alive_go(struct ipt_xl *x)
{
	struct robust_list_head *head = &robust_head;
	struct robust *r = x->robust;

	if (!r->link.next)
		return;
	__atomic_store_n(r->prev ? &r->prev->link.next : &head->list.next, r->link.next,
			 __ATOMIC_RELEASE);
	if (r->link.next != &head->list)
		((struct robust *)(void *)r->link.next)->prev = r->prev;
}

void ipt_xl_put(struct ipt_xl *x)
{
	if (!x || --x->refs)
		return;
	for (size_t i = 0; i < x->blocks.n; i++)
		free(x->blocks.v[i]);
	ipt_vec_fini(&x->blocks);
	for (unsigned int i = 0; i < MAX_CHUNKS; i++) {
		free(x->trace_chunks[i]);
		free(x->head_chunks[i]);
		if (x->exit_chunks[i])
			munmap(x->exit_chunks[i], EXIT_CHUNK * sizeof(*x->exit_chunks[i]));
		free(x->push_chunks[i]);
	}
	free_pages(x);
	ipt_u64map_fini(&x->heads);
	ipt_u64map_fini(&x->wanted);
	for (unsigned int i = 0; i < x->n_clusters; i++) {
		ipt_vec_fini(&x->clusters[i].traces);
		munmap(x->clusters[i].mem, IPT_XL_CLUSTER_BYTES);
	}
	if (x->low) {
		let_alive_go(x);
		munmap(x->robust, ROBUST_PAGE + LOW_SIZE);
	}
	if (x->slots)
		munmap(x->slots, SLOTS_BYTES);
	if (x->fd >= 0)
		close(x->fd);
	free(x->cache);
	free(x->build);
	free(x);
}

void *ipt_xl_keep(struct ipt_xl *x, size_t n)
{
	void *p;

	n = (n + 7) & ~(size_t)7;
	if (n > x->room_left) {
		x->room_left = n > KEEP_BLOCK ? n : KEEP_BLOCK;
		x->room = ipt_xcalloc(1, x->room_left);
		*(void **)ipt_vec_push(&x->blocks) = x->room;
	}
	p = x->room;
	x->room += n;
	x->room_left -= n;
	return p;
}

static void *map_file(const struct ipt_xl *x, uint64_t off, uint64_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, x->fd,
		       (off_t)off);

	return p == MAP_FAILED ? NULL : p;
}

uint64_t ipt_xl_stub_va(const struct ipt_xl *x, const uint8_t *stub)
{
	return x->low_va + LOW_STUBS + (uint64_t)(stub - ipt_xl_stubs);
}

static void class_of(struct ipt_xl *x, unsigned int nr, enum syscall_class class)
{
	x->low[LOW_SYSTAB + nr] = (uint8_t) class;
}

static void fill_syscalls(struct ipt_xl *x)
{
	static const uint16_t stepped[] = {
		SYS_clone,
		SYS_fork,
		SYS_vfork,
		SYS_execve,
		SYS_execveat,
		SYS_clone3,
		SYS_rt_sigreturn,
		SYS_arch_prctl,
		SYS_rseq,
		SYS_ptrace,
		SYS_rt_sigaction,
		SYS_exit,
		SYS_exit_group,
		SYS_prctl,
		SYS_seccomp,
		SYS_modify_ldt,
		SYS_restart_syscall,
	};
	static const uint16_t maps[] = {
		SYS_munmap, SYS_mprotect, SYS_pkey_mprotect,    SYS_mremap,
		SYS_shmat,  SYS_shmdt,    SYS_remap_file_pages, SYS_personality,
	};

	if (x->cfg.all_syscalls) {
		ipt_xl_step_syscalls(x);
		return;
	}
	for (size_t i = 0; i < IPT_ARRAY_SIZE(stepped); i++)
		class_of(x, stepped[i], SYSC_STEP);
	for (size_t i = 0; i < IPT_ARRAY_SIZE(maps); i++)
		class_of(x, maps[i], SYSC_MAPS);
	class_of(x, SYS_mmap, SYSC_MMAP);
}

static void fill_tables(struct ipt_xl *x)
{
	const uint8_t *const stubs[N_STUBS] = {
		[STUB_MISS] = ipt_xl_stub_miss,   [STUB_FULL] = ipt_xl_stub_full,
		[STUB_STEP] = ipt_xl_stub_step,   [STUB_MAPS] = ipt_xl_stub_maps,
		[STUB_STALE] = ipt_xl_stub_stale, [STUB_LOOKUP] = ipt_xl_stub_lookup,
	};
	uint64_t *code = (uint64_t *)(void *)(x->low + LOW_CODE);
	uint64_t *entry = (uint64_t *)(void *)(x->low + LOW_ENTRY);
	uint64_t empty = ipt_xl_stub_va(x, ipt_xl_stub_empty);

	memcpy(x->low + LOW_STUBS, ipt_xl_stubs, (size_t)(ipt_xl_stubs_end - ipt_xl_stubs));
	for (unsigned int i = 0; i < 65536; i++)
		code[i] = empty;
	for (unsigned int i = 0; i < N_STUBS; i++)
		entry[i] = ipt_xl_stub_va(x, stubs[i]);
	fill_syscalls(x);
}

/* The tables, behind a page of our own. */
static bool map_low(struct ipt_xl *x)
{
	uint8_t *p = mmap(NULL, ROBUST_PAGE + LOW_SIZE, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return false;
	x->robust = (struct robust *)(void *)p;
	if (mmap(p + ROBUST_PAGE, LOW_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, x->fd,
		 0) == MAP_FAILED) {
		munmap(p, ROBUST_PAGE + LOW_SIZE);
		x->robust = NULL;
		return false;
	}
	x->low = p + ROBUST_PAGE;
	return true;
}

int ipt_xl_open(struct ipt_xl *x, int fd, struct ipt_xl_piece first[IPT_XL_FIRST_PIECES])
{
	x->fd = fd;
	if (ftruncate(fd, OFF_SLOTS) < 0)
		return -errno;
	x->slots = map_file(x, OFF_SLOTS, SLOTS_BYTES);
	x->low_va = x->ops->hole(x->host, 0x10000, LOW_LIMIT, LOW_SIZE);
	x->slots_va = x->ops->hole(x->host, LOW_LIMIT, 1ull << 46, SLOTS_BYTES + CODE_BYTES);
	if (!map_low(x) || !x->slots || !x->low_va || !x->slots_va)
		return -ENOMEM;
	x->store_va = x->slots_va + SLOTS_BYTES;
	ipt_xl_touch(x->low + LOW_CODE, LOW_HASH - LOW_CODE);
	fill_tables(x);
	hold_alive(x);
	first[0] = (struct ipt_xl_piece){x->low_va, 0, LOW_RW_SIZE, 0, IPT_XL_RW};
	first[1] = (struct ipt_xl_piece){x->low_va + LOW_STUBS, LOW_STUBS, LOW_SIZE - LOW_STUBS, 0,
					 IPT_XL_RX};
	first[2] = (struct ipt_xl_piece){x->slots_va, OFF_SLOTS, SLOTS_BYTES, 0, IPT_XL_RW};
	first[3] = (struct ipt_xl_piece){x->store_va, OFF_CLUSTERS, CODE_BYTES, 0, IPT_XL_RX};
	return 0;
}

int ipt_xl_next_cluster(struct ipt_xl *x, uint64_t va, struct ipt_xl_piece *piece)
{
	uint64_t lo = va > REACH + 0x10000 ? va - REACH : 0x10000;
	uint64_t at;

	if (x->n_clusters == IPT_XL_CLUSTERS) {
		x->full = true;
		return -ENOSPC;
	}
	at = x->ops->hole(x->host, lo, ipt_min_u64(va + REACH, 1ull << 47), IPT_XL_CLUSTER_BYTES);
	if (!at)
		return -ENOMEM;
	*piece = (struct ipt_xl_piece){
		at, OFF_CLUSTERS + x->n_clusters * IPT_XL_CLUSTER_BYTES, IPT_XL_CLUSTER_BYTES,
		x->store_va + x->n_clusters * IPT_XL_CLUSTER_BYTES, IPT_XL_RX};
	return 0;
}

void ipt_xl_add_cluster(struct ipt_xl *x, const struct ipt_xl_piece *piece)
{
	struct cluster *cl = &x->clusters[x->n_clusters];

	*cl = (struct cluster){.va = piece->va};
	cl->mem = map_file(x, piece->off, piece->size);
	if (cl->mem)
		x->n_clusters++;
}

size_t ipt_xl_pieces(const struct ipt_xl *x, struct ipt_xl_piece out[IPT_XL_MAX_PIECES])
{
	uint64_t used = x->n_clusters * IPT_XL_CLUSTER_BYTES;
	size_t n = 0;

	if (!x->low_va)
		return 0;
	out[n++] = (struct ipt_xl_piece){.va = x->low_va, .size = LOW_SIZE};
	out[n++] = (struct ipt_xl_piece){.va = x->slots_va, .size = SLOTS_BYTES};
	if (used < CODE_BYTES)
		out[n++] =
			(struct ipt_xl_piece){.va = x->store_va + used, .size = CODE_BYTES - used};
	for (unsigned int i = 0; i < x->n_clusters; i++)
		out[n++] = (struct ipt_xl_piece){.va = x->clusters[i].va,
						 .size = IPT_XL_CLUSTER_BYTES};
	return n;
}

bool ipt_xl_inside(const struct ipt_xl *x, uint64_t va)
{
	return va - (x->low_va + LOW_STUBS) < LOW_SIZE - LOW_STUBS || ipt_xl_cluster_of(x, va) >= 0;
}

uint32_t *ipt_xl_bell(const struct ipt_xl *x)
{
	return (uint32_t *)(void *)(x->low + LOW_BELL);
}

int ipt_xl_slot_take(struct ipt_xl *x)
{
	for (unsigned int i = 0; i < IPT_XL_SLOTS; i++) {
		if (x->slot_map[i / 64] >> (i % 64) & 1)
			continue;
		/* The file grows with the slots in use: a program that locks all its memory does
		 * not get all of it. */
		if (i >= x->n_slots) {
			if (ftruncate(x->fd, (off_t)(OFF_SLOTS + (i + 1) * IPT_XL_SLOT_BYTES)) < 0)
				return -1;
			x->n_slots = i + 1;
		}
		x->slot_map[i / 64] |= 1ull << (i % 64);
		memset(x->slots + i * IPT_XL_SLOT_BYTES, 0, 4096);
		return (int)i;
	}
	return -1;
}

void ipt_xl_slot_release(struct ipt_xl *x, int slot)
{
	x->slot_map[slot / 64] &= ~(1ull << (slot % 64));
	fallocate(x->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
		  (off_t)(OFF_SLOTS + (uint64_t)slot * IPT_XL_SLOT_BYTES), IPT_XL_SLOT_BYTES);
}

void ipt_xl_no_syscalls(struct ipt_xl *x, bool none)
{
	x->nosys = none;
	for (unsigned int i = 0; i < x->n_slots; i++) {
		if (x->slot_map[i / 64] >> (i % 64) & 1)
			__atomic_store_n(
				(uint32_t *)(void *)(x->slots + i * IPT_XL_SLOT_BYTES + SL_NOSYS),
				none, __ATOMIC_SEQ_CST);
	}
}

void ipt_xl_step_syscalls(struct ipt_xl *x)
{
	memset(x->low + LOW_SYSTAB, SYSC_STEP, SYSTAB_MAX);
}
