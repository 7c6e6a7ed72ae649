/* SPDX-License-Identifier: MIT */
/* jit rwx|flip|double|smc|remap|stack|reuse|threads|cross|align: code made at run time. */
#include "prog.h"

typedef int (*fn)(void);
static uint8_t *code;
static pthread_barrier_t bar;
static volatile int results[3];

/* mov $v, %eax; (nops;) ret */
static void put(uint8_t *p, int v, int nops)
{
	*p++ = 0xb8;
	memcpy(p, &v, 4);
	p += 4;
	for (int i = 0; i < nops; i++)
		*p++ = 0x90;
	*p = 0xc3;
}

static uint8_t *page(int prot)
{
	return mmap(NULL, 8192, prot, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static int run(const uint8_t *p)
{
	return ((fn)(uintptr_t)p)();
}

static int rwx(void)
{
	uint8_t *p = page(7);
	int sum = 0;

	for (int i = 0; i < 6; i++) {
		put(p + 4090, i, i); /* over the border of pages */
		sum += run(p + 4090);
		put(p + 16 * i, i, i % 3);
		sum += run(p + 16 * i);
	}
	return sum;
}

static int flip(void)
{
	uint8_t *p = page(3);
	int sum = 0;

	for (int i = 0; i < 6; i++) {
		mprotect(p, 4096, 3);
		put(p, i * 2, i);
		mprotect(p, 4096, 5);
		sum += run(p);
	}
	return sum;
}

static int twice(void)
{
	int fd = memfd_create("code", 0), sum = 0;
	uint8_t *w, *x;

	if (ftruncate(fd, 4096))
		return -1;
	w = mmap(NULL, 4096, 3, MAP_SHARED, fd, 0);
	x = mmap(NULL, 4096, 5, MAP_SHARED, fd, 0);
	for (int i = 0; i < 6; i++) {
		put(w, i * 3, i);
		sum += run(x);
	}
	return sum;
}

/* Code that changes the instruction that comes next in its own page. */
static int smc(void)
{
	static const uint8_t src[] = {
		0x31, 0xc0,                               /* xor %eax, %eax */
		0xc6, 0x05, 0x02, 0x00, 0x00, 0x00, 0x05, /* movb $5, 2(%rip): the next insn */
		0x83, 0xc0, 0x01,                         /* add $1, %eax; runs as add $5 */
		0xfe, 0x05, 0xf9, 0xff, 0xff, 0xff,       /* incb -7(%rip): the add behind */
		0x83, 0xc0, 0x02, 0xc3,                   /* add $2, %eax; ret */
	};
	uint8_t *p = page(7);
	int sum = 0;

	memcpy(p, src, sizeof(src));
	for (int i = 0; i < 4; i++)
		sum += run(p);
	return sum;
}

static int remap(void)
{
	uint8_t *p = page(7), *q = page(0), *r;
	int sum;

	put(p, 4, 1);
	put(p + 4096, 5, 0);
	sum = run(p) + run(p + 4096);
	r = mremap(p, 8192, 8192, MREMAP_MAYMOVE | MREMAP_FIXED, q);
	sum += run(r) + run(r + 4096);
	munmap(r, 4096);
	sum += run(r + 4096);
	mmap(p, 4096, 7, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	put(p, 6, 3);
	return sum + run(p);
}

static int on_stack(void)
{
	uint8_t buf[64];
	uintptr_t pg = (uintptr_t)buf & ~4095ul;
	int sum = 0;

	if (mprotect((void *)pg, 8192, 7) && mprotect((void *)pg, 4096, 7))
		return -1;
	for (int i = 0; i < 3; i++) {
		put(buf, i, 2 - i);
		sum += run(buf);
	}
	return sum;
}

static int reuse(void)
{
	int sum = 0;

	for (int i = 0; i < 5; i++) {
		uint8_t *p = mmap((void *)0x10000000, 4096, 7,
				  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);

		put(p, i, i);
		sum += run(p);
		if (i % 2)
			munmap(p, 4096);
	}
	return sum;
}

static void *runner(void *arg)
{
	for (int i = 0; i < 5; i++) {
		pthread_barrier_wait(&bar);
		for (int k = 0; k < 5; k++)
			results[(long)arg] += run(code);
		pthread_barrier_wait(&bar);
	}
	return NULL;
}

static int threads(void)
{
	pthread_t t[2];

	code = page(7);
	pthread_barrier_init(&bar, NULL, 3);
	for (long i = 0; i < 2; i++)
		pthread_create(&t[i], NULL, runner, (void *)i);
	for (int i = 0; i < 5; i++) {
		put(code, i, i * 2);
		pthread_barrier_wait(&bar);
		pthread_barrier_wait(&bar);
	}
	for (int i = 0; i < 2; i++)
		pthread_join(t[i], NULL);
	return results[0] + results[1];
}

/* A child with its own copy of the code, both change it. */
static int cross(void)
{
	uint8_t *p = page(7);
	int sum, st = 0;

	put(p, 1, 0);
	sum = run(p);
	if (!fork()) {
		sum = run(p);
		put(p, 2, 1);
		_exit(sum + run(p));
	}
	put(p, 3, 2);
	sum += run(p);
	wait(&st);
	return sum * 10 + WEXITSTATUS(st);
}

#ifdef __x86_64__
/* Blocks at odd addresses while RFLAGS.AC wants aligned data. */
static int align(void)
{
	static const uint8_t src[] = {
		0x9c, 0x81, 0x0c, 0x24, 0,    0,    4,    0,    0x9d, /* set it: pushf; orl; popf */
		0x31, 0xc0, 0x74, 0x00,                               /* xor %eax, %eax; jz .+0 */
		0x83, 0xc0, 0x05, 0xeb, 0x00,                         /* add $5, %eax; jmp .+0 */
		0x83, 0xc0, 0x07, 0x75, 0x00,                         /* add $7, %eax; jnz .+0 */
		0x9c, 0x81, 0x24, 0x24, 0xff, 0xff, 0xfb, 0xff, 0x9d, /* clear it */
		0xc3,
	};
	uint8_t *p = page(7);
	int sum = 0;

	for (int i = 0; i < 9; i++) {
		memcpy(p + 64 * i + i, src, sizeof(src));
		sum += run(p + 64 * i + i);
	}
	return sum;
}
#else
static int align(void)
{
	return 0;
}
#endif

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		int (*fn)(void);
	} kinds[] = {{"rwx", rwx},     {"flip", flip},      {"double", twice}, {"smc", smc},
		     {"remap", remap}, {"stack", on_stack}, {"reuse", reuse},  {"threads", threads},
		     {"cross", cross}, {"align", align}};

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		if (argc > 1 && !strcmp(argv[1], kinds[i].name)) {
			say_n("sum ", kinds[i].fn());
			return 0;
		}
	}
	return 99;
}
