/* SPDX-License-Identifier: MIT */
/* live [KIND]: one thread changes the code that another runs at that time. What the other does in
 * between differs from run to run. */
#include "kinds.h"

typedef long (*fn)(long);
static unsigned char *code;
static volatile int stop, rounds;
static volatile long odd_values;

static void *spinner(void *arg)
{
	long last = 0;

	while (!stop) {
		long v = ((fn)code)(0);

		rounds++;
		if (v < last || v > 1000)
			odd_values++;
		last = v;
	}
	return arg;
}

/* No call leaves the loop: it ends because its own jump is changed from outside. */
static void *endless(void *arg)
{
	return (void *)((fn)code)(0);
}

static void *make(int prot)
{
	return mmap(NULL, 4096, prot, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static void counted(void)
{
	pthread_t t;

	code = make(7);
	memcpy(code, "\xb8\0\0\0\0\xc3", 6); /* mov $v, %eax; ret */
	stop = rounds = 0;
	pthread_create(&t, NULL, spinner, NULL);
	for (int i = 1; i <= 20; i++) {
		int seen = rounds;

		__atomic_store_n(code + 1, (unsigned char)i, __ATOMIC_SEQ_CST);
		while (rounds < seen + 3)
			sched_yield();
	}
	stop = 1;
	pthread_join(t, NULL);
	CHECK(!odd_values);
	CHECK(((fn)code)(0) == 20);
}

static void released(void)
{
	pthread_t t;
	void *got = NULL;

	code = make(7);
	memcpy(code, "\x31\xc0\xff\xc0\xeb\xfc\xb8\x07\0\0\0\xc3",
	       12); /* 1: inc %eax; jmp 1b; mov $7, %eax; ret */
	pthread_create(&t, NULL, endless, NULL);
	usleep(2000);
	/* An aligned pair of bytes: jmp 1b becomes jmp to what follows. */
	__atomic_store_n((unsigned short *)(code + 4), 0x00eb, __ATOMIC_SEQ_CST);
	pthread_join(t, &got);
	CHECK((long)got == 7);
}

/* The same, written through another mapping of the page. */
static void through(void)
{
	int fd = memfd_create("code", 0);
	unsigned char *w;
	pthread_t t;
	void *got = NULL;

	CHECK(!ftruncate(fd, 4096));
	w = mmap(NULL, 4096, 3, MAP_SHARED, fd, 0);
	code = mmap(NULL, 4096, 5, MAP_SHARED, fd, 0);
	memcpy(w, "\x31\xc0\xff\xc0\xeb\xfc\xb8\x07\0\0\0\xc3", 12);
	pthread_create(&t, NULL, endless, NULL);
	usleep(2000);
	__atomic_store_n((unsigned short *)(w + 4), 0x00eb, __ATOMIC_SEQ_CST);
	pthread_join(t, &got);
	CHECK((long)got == 7);
	close(fd);
}

static volatile long where;

static void unmapped(int s, siginfo_t *si, void *uc)
{
	where = (long)si->si_addr;
	stop = 1;
	((ucontext_t *)uc)->uc_mcontext.gregs[REG_RIP] =
		*(long *)((ucontext_t *)uc)->uc_mcontext.gregs[REG_RSP];
	((ucontext_t *)uc)->uc_mcontext.gregs[REG_RSP] += 8;
}

/* The code goes away under the thread that runs it: a fault at its address. */
static void gone(void)
{
	pthread_t t;

	on(SIGSEGV, unmapped, 0);
	for (int i = 0; i < 2; i++) {
		code = make(7);
		memcpy(code, "\x31\xc0\xff\xc0\xeb\xfc", 6);
		where = 0;
		pthread_create(&t, NULL, endless, NULL);
		usleep(2000);
		i ? munmap(code, 4096) : mprotect(code, 4096, PROT_READ);
		pthread_join(t, NULL);
		CHECK(where >= (long)code && where < (long)code + 6);
	}
}

int main(int argc, char **argv)
{
	static const struct kind kinds[] = {
		{"counted", counted}, {"released", released}, {"through", through}, {"gone", gone}};

	return run_kinds(kinds, LENGTH(kinds), argc, argv);
}
