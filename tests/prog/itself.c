/* SPDX-License-Identifier: MIT */
/* itself [KIND]: a program that looks at itself: its text, its mappings, its descriptors, where its
 * calls return to. */
#include "kinds.h"
#include <execinfo.h>
#include <fcntl.h>
#include <sys/uio.h>

extern char __executable_start[], etext[];

static unsigned long sum_of(const unsigned char *p, size_t n)
{
	unsigned long h = 5381;

	/* Few instructions per byte: words. */
	for (; n >= 8; p += 8, n -= 8)
		h = h * 33 + *(const unsigned long *)p;
	return h;
}

/* Text read by loads is what the file has. */
static void text(void)
{
	int fd = open("/proc/self/exe", O_RDONLY);
	const unsigned char *f;
	size_t at = (size_t)((char *)text - __executable_start) & -4096ul, n = 16384;

	f = mmap(NULL, at + n, PROT_READ, MAP_PRIVATE, fd, 0);
	CHECK(f != MAP_FAILED);
	CHECK(!memcmp(f + at, __executable_start + at, n));
	CHECK(sum_of(f + at, n) == sum_of((unsigned char *)__executable_start + at, n));
	munmap((void *)f, at + n);
	close(fd);
}

/* As others see it. */
static void remote(void)
{
	static unsigned char copy[4096];
	void *pg = (void *)((unsigned long)remote & -4096ul);
	struct iovec to = {copy, 4096}, from = {pg, 4096};
	int fd = open("/proc/self/mem", O_RDONLY);

	CHECK(process_vm_readv(getpid(), &to, 1, &from, 1, 0) == 4096 && !memcmp(copy, pg, 4096));
	memset(copy, 0, 4096);
	CHECK(pread(fd, copy, 4096, (off_t)pg) == 4096 && !memcmp(copy, pg, 4096));
	close(fd);
}

static char maps[65536];

static size_t read_maps(void)
{
	int fd = open("/proc/self/maps", O_RDONLY);
	size_t n = 0;
	ssize_t got;

	while ((got = read(fd, maps + n, sizeof(maps) - 1 - n)) > 0)
		n += (size_t)got;
	close(fd);
	maps[n] = 0;
	return n;
}

/* What a program mapped is there, as it was mapped, and gone after munmap. */
static void mappings(void)
{
	char want[64], *p = mmap(NULL, 8192, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), *t;

	mprotect(p, 4096, PROT_READ | PROT_EXEC);
	read_maps();
	snprintf(want, sizeof(want), "%lx-%lx r-xp 00000000", (long)p, (long)p + 4096);
	CHECK(strstr(maps, want));
	munmap(p, 8192);
	read_maps();
	CHECK(!strstr(maps, want));
	/* The text is mapped from the program's file, not writable. */
	snprintf(want, sizeof(want), "%lx-", (long)__executable_start);
	t = strstr(maps, want);
	CHECK(t && strstr(t, " r--p 00000000"));
	CHECK(strstr(maps, "[stack]") && strstr(maps, "[vdso]") && strstr(maps, "[heap]"));
	/* Addresses that a program asks for are free. */
	CHECK(mmap((void *)0x10000000, 1 << 20, PROT_NONE,
		   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) == (void *)0x10000000);
	CHECK(mmap((void *)0x600000000000, 1 << 20, PROT_NONE,
		   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1,
		   0) == (void *)0x600000000000);
}

/* No descriptor is there that the program did not open, and none is taken. */
static void descriptors(void)
{
	int a = open("/dev/null", O_RDONLY), b = dup(a), n = 0;

	CHECK(b == a + 1);
	for (int i = 3; i < 100; i++)
		n += fcntl(i, F_GETFD) >= 0;
	say_n("open ", n);
	close(a);
	close(b);
}

__attribute__((noinline)) static void *caller(void)
{
	return __builtin_return_address(0);
}

/* Return addresses are those of the text. */
static void returns(void)
{
	char *a, *b, *c;

	__asm__ volatile("call 1f; 1: pop %0; lea 1b(%%rip), %1" : "=r"(a), "=r"(b));
	CHECK(a == b);
	c = caller();
	CHECK(c > (char *)returns && c < (char *)returns + 4096);
	/* The byte before it ends a call of five bytes. */
	CHECK((unsigned char)c[-5] == 0xe8);
}

int main(int argc, char **argv)
{
	static const struct kind kinds[] = {
		{"text", text},         {"remote", remote},
		{"mappings", mappings}, {"descriptors", descriptors},
		{"returns", returns},
	};

	return run_kinds(kinds, LENGTH(kinds), argc, argv);
}
