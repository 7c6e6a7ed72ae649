/* SPDX-License-Identifier: MIT */
/* change [KIND]: code that changes in ways other than those of jit.c: by itself, by the kernel, by
 * another thread or process, by mappings that come and go. */
#include "kinds.h"
#include <fcntl.h>
#include <sys/uio.h>

typedef long (*fn)(long);
#define RWX (PROT_READ | PROT_WRITE | PROT_EXEC)
#define RX  (PROT_READ | PROT_EXEC)
#define RW  (PROT_READ | PROT_WRITE)

static unsigned char *pages(int n, int prot)
{
	return mmap(NULL, (size_t)n * 4096, prot, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

/* lea v(%rdi), %eax; ret */
static void put(unsigned char *p, int v)
{
	p[0] = 0x8d;
	p[1] = 0x87;
	memcpy(p + 2, &v, 4);
	p[6] = 0xc3;
}

static long call(const void *p, long v)
{
	return ((fn)p)(v);
}

/* A loop that changes its own immediate operand in each round. */
static void own_loop(void)
{
	static const unsigned char src[] = {
		0x31, 0xc0, 0xb9, 0x14, 0,    0,    0, /* xor %eax, %eax; mov $20, %ecx */
		0x83, 0xc0, 0x01,                      /* 1: add $1, %eax */
		0xfe, 0x05, 0xf9, 0xff, 0xff, 0xff,    /* incb the 1 */
		0xff, 0xc9, 0x75, 0xf3, 0xc3,          /* dec %ecx; jnz 1b; ret */
	};
	unsigned char *p = pages(1, RWX);

	memcpy(p, src, sizeof(src));
	CHECK(call(p, 0) == 210);
	CHECK(call(p, 0) == 20 * 21 + 190);
}

/* A store to the instruction that comes next, in the same straight piece, of several widths. */
static void next(void)
{
	static const unsigned char
		src[] =
			{
				0x31, 0xc0, 0xc7, 0x05, 0,    0,    0,    0,
				0xff, 0xc0, 0xff, 0xc0, /* movl $2 x inc %eax, 0(%rip) */
				0x90, 0x90, 0x90, 0x90, 0x66, 0xc7, 0x05, 0,
				0,    0,    0,    0xff, 0xc0, 0x90, 0x90, 0xc3,
			};
	unsigned char *p = pages(1, RWX);

	for (int i = 0; i < 4; i++) {
		memcpy(p, src, sizeof(src));
		CHECK(call(p, 0) == 3);
		CHECK(call(p, 0) == 3);
	}
}

/* The target of a direct jump or call that was run, and so was linked, changes; so does the jump.
 */
static void links(void)
{
	unsigned char *p = pages(3, RWX);

	p[0] = 0xe8; /* call page 1; inc %eax; ret */
	*(int *)(p + 1) = 4096 - 5;
	memcpy(p + 5, "\xff\xc0\xc3", 3);
	for (int i = 0; i < 5; i++) {
		put(p + 4096, i * 10);
		CHECK(call(p, 1) == i * 10 + 2);
		CHECK(call(p, 1) == i * 10 + 2);
	}
	put(p + 8192, 1000);
	*(int *)(p + 1) = 8192 - 5; /* the call itself */
	CHECK(call(p, 1) == 1002);
	p[0] = 0xb8; /* is no call any more */
	CHECK(call(p, 1) == 8192 - 5 + 1);
	p[0] = 0xe9; /* a tail jump */
	CHECK(call(p, 1) == 1001);
	/* A conditional branch turned around. */
	memcpy(p, "\x85\xff\x74\x06\xb8\x01\0\0\0\xc3\xb8\x02\0\0\0\xc3", 16);
	for (int i = 0; i < 6; i++) {
		p[2] = i & 1 ? 0x75 : 0x74;
		CHECK(call(p, 0) == (i & 1 ? 1 : 2) && call(p, 1) == (i & 1 ? 2 : 1));
	}
}

/* The program's own text, made writable for a while, as patching of calls does. */
__attribute__((noinline, aligned(64))) static long patched(long v)
{
	__asm__ volatile("" : "+r"(v));
	return v + 1;
}

static void own_text(void)
{
	unsigned char old[7], *p = (unsigned char *)patched;
	void *pg = (void *)((unsigned long)p & -4096ul);

	CHECK(patched(1) == 2);
	memcpy(old, p, 7);
	CHECK(!mprotect(pg, 8192, RWX));
	put(p, 50);
	CHECK(patched(1) == 51);
	CHECK(!mprotect(pg, 8192, RX));
	CHECK(patched(2) == 52);
	mprotect(pg, 8192, RWX);
	memcpy(p, old, 7);
	mprotect(pg, 8192, RX);
	CHECK(patched(3) == 4);
}

/* Data beside code in one page: the writes change no code, but a read back must see them. */
static void beside(void)
{
	unsigned char *p = pages(1, RWX);
	volatile long *data = (long *)(p + 2048);
	long sum = 0;

	put(p, 3);
	for (long i = 0; i < 200; i++) {
		data[i % 8] = i;
		sum += call(p, data[i % 8]);
		__asm__ volatile("lock incq %0" : "+m"(data[9]));
	}
	CHECK(sum == 199 * 100 + 600 && data[9] == 200);
}

/* The kernel writes: read, readv by another process's help, getrandom has no use of a fixed value.
 */
static void kernel(void)
{
	unsigned char *p = pages(2, RWX), code[7];
	struct iovec to = {p, 7}, from = {code, 7};
	int fd[2], mem;

	CHECK(!pipe(fd));
	put(p, 1);
	CHECK(call(p, 1) == 2);
	put(code, 2);
	CHECK(write(fd[1], code, 7) == 7 && read(fd[0], p, 7) == 7);
	CHECK(call(p, 1) == 3);
	put(code, 3);
	CHECK(process_vm_writev(getpid(), &from, 1, &to, 1, 0) == 7);
	CHECK(call(p, 1) == 4);
	mem = open("/proc/self/mem", O_RDWR);
	put(code, 4);
	if (mem >= 0) {
		CHECK(pwrite(mem, code, 7, (long)p) == 7);
		CHECK(call(p, 1) == 5);
		close(mem);
	}
	close(fd[0]);
	close(fd[1]);
}

/* Through /proc, where the program itself may not write: nothing tells a translator of it. Only
 * when asked for. */
static void unseen(void)
{
	int mem = open("/proc/self/mem", O_RDWR);
	unsigned char *p = pages(1, RWX), code[7];

	put(p, 4);
	mprotect(p, 4096, RX);
	CHECK(call(p, 1) == 5);
	put(code, 5);
	CHECK(pwrite(mem, code, 7, (long)p) == 7);
	CHECK(call(p, 1) == 6);
	close(mem);
}

/* String instructions and vector stores write code. */
static void wide(void)
{
	unsigned char *p = pages(2, RWX) + 4090, src[64], *d, *s;
	long n;

	for (int i = 0; i < 5; i++) {
		memset(src, 0x90, sizeof(src));
		put(src + 50, i * 7);
		d = p - 50 + i;
		s = src;
		n = 57;
		__asm__ volatile("rep movsb" : "+D"(d), "+S"(s), "+c"(n) : : "memory");
		CHECK(call(p - 50 + i, 1) == i * 7 + 1);
		put(src + 8, i * 9);
		__asm__ volatile("movdqu %1, %%xmm0; movdqu %%xmm0, %0"
				 : "=m"(*(char(*)[16])p)
				 : "m"(*(char(*)[16])src)
				 : "xmm0", "memory");
		CHECK(call(p, 1) == i * 9 + 1);
	}
}

/* Mappings: over, gone and back, moved, emptied, from a file at another place of it. */
static void mappings(void)
{
	unsigned char *p = pages(1, RWX), *q;
	int fd = memfd_create("code", 0);

	CHECK(!ftruncate(fd, 3 * 4096));
	q = mmap(NULL, 3 * 4096, RW, MAP_SHARED, fd, 0);
	for (int i = 0; i < 3; i++)
		put(q + 4096 * i, 100 * (i + 1));
	put(p, 1);
	CHECK(call(p, 1) == 2);
	for (int i = 0; i < 6; i++) {
		CHECK(mmap(p, 4096, RX, MAP_PRIVATE | MAP_FIXED, fd, 4096 * (i % 3)) == p);
		CHECK(call(p, 1) == 100 * (i % 3 + 1) + 1);
	}
	for (int i = 0; i < 4; i++) {
		munmap(p, 4096);
		p = mmap(p, 4096, RWX, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
		put(p, i);
		CHECK(call(p, 1) == i + 1);
	}
	for (int i = 0; i < 4; i++) {
		unsigned char *to = pages(1, PROT_NONE);

		put(p, i * 5);
		CHECK(call(p, 1) == i * 5 + 1);
		CHECK(mremap(p, 4096, 4096, MREMAP_MAYMOVE | MREMAP_FIXED, to) == to);
		CHECK(call(to, 1) == i * 5 + 1);
		/* Something else where it was. */
		p = mmap(p, 4096, RWX, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
		put(p, i * 5 + 1);
		CHECK(call(p, 1) == i * 5 + 2 && call(to, 1) == i * 5 + 1);
	}
	/* A private file mapping changed, and dropped: what the file has is back. */
	q = mmap(NULL, 4096, RWX, MAP_PRIVATE, fd, 0);
	CHECK(call(q, 1) == 101);
	put(q, 9);
	CHECK(call(q, 1) == 10);
	madvise(q, 4096, MADV_DONTNEED);
	CHECK(call(q, 1) == 101);
	/* The file is written to. */
	put(q + 64, 1);
	madvise(q, 4096, MADV_DONTNEED);
	unsigned char code[7];
	put(code, 77);
	CHECK(pwrite(fd, code, 7, 0) == 7);
	CHECK(call(q, 1) == 78);
	close(fd);
}

static volatile int faults;

static void denied(int s, siginfo_t *si, void *uc)
{
	faults++;
	mprotect((void *)((unsigned long)si->si_addr & -4096ul), 4096, faults % 2 ? RW : RX);
}

/* Protection changes by a handler of faults, as collectors and lazy linkers do: write and run in
 * turn. */
static void lazily(void)
{
	unsigned char *p = pages(1, PROT_NONE);

	on(SIGSEGV, denied, 0);
	for (int i = 0; i < 5; i++) {
		put(p, i);
		CHECK(call(p, 1) == i + 1);
		CHECK(faults == 2 * i + 2);
	}
	signal(SIGSEGV, SIG_DFL);
}

/* A child and its parent change code that they share. */
static void shared(void)
{
	unsigned char *p = mmap(NULL, 4096, RWX, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int fd[2], st;
	char c;
	pid_t pid;

	CHECK(!pipe(fd));
	put(p, 1);
	CHECK(call(p, 1) == 2);
	pid = fork();
	if (!pid) {
		int bad = call(p, 1) != 2;

		put(p, 2);
		bad |= call(p, 1) != 3;
		_exit(bad);
	}
	waitpid(pid, &st, 0);
	CHECK(st == 0);
	CHECK(call(p, 1) == 3);
	/* A fork that shares nothing: the parent's copy stays. */
	p = pages(1, RWX);
	put(p, 5);
	CHECK(call(p, 1) == 6);
	pid = fork();
	if (!pid) {
		put(p, 6);
		_exit(call(p, 1) != 7);
	}
	waitpid(pid, &st, 0);
	CHECK(st == 0 && call(p, 1) == 6);
	close(fd[0]);
	close(fd[1]);
}

int main(int argc, char **argv)
{
	static const struct kind kinds[] = {
		{"loop", own_loop}, {"next", next},     {"links", links}, {"text", own_text},
		{"beside", beside}, {"kernel", kernel}, {"wide", wide},   {"mappings", mappings},
		{"lazily", lazily}, {"shared", shared},
	};

	static const struct kind asked[] = {{"unseen", unseen}};

	if (argc > 1 && !strcmp(argv[1], "unseen"))
		return run_kinds(asked, 1, argc, argv);
	return run_kinds(kinds, LENGTH(kinds), argc, argv);
}
