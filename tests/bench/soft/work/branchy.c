/* SPDX-License-Identifier: MIT */
/* Workload: integer code that branches all the time, in many shapes. Prints one number. usage:
 * branchy ROUNDS */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_SORT = 12000, N_SIEVE = 120000, N_TEXT = 50000, N_CODE = 300 };

static uint64_t seed = 0x243f6a8885a308d3u;

static unsigned draw(unsigned below)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (unsigned)(seed >> 33) % below;
}

/* Data-dependent loop: the branch is as good as random. */
__attribute__((noinline)) static unsigned collatz_steps(uint64_t n)
{
	unsigned steps;

	for (steps = 0; n > 1; steps++)
		n = n & 1 ? 3 * n + 1 : n / 2;
	return steps;
}

static uint64_t run_collatz(unsigned round)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < 6000; i++)
		sum += collatz_steps(round * 5000 + i);
	return sum;
}

/* Calls and returns, deeply. */
__attribute__((noinline)) static unsigned fib(unsigned n)
{
	if (n < 2)
		return n;
	return fib(n - 1) + fib(n - 2);
}

static uint64_t run_fib(unsigned round)
{
	return fib(21 + round % 2);
}

/* Indirect calls from a library that knows nothing of what it calls. */
static int by_value(const void *a, const void *b)
{
	unsigned x = *(const unsigned *)a, y = *(const unsigned *)b;

	return (x > y) - (x < y);
}

static int by_low_digits(const void *a, const void *b)
{
	unsigned x = *(const unsigned *)a % 1000, y = *(const unsigned *)b % 1000;

	if (x != y)
		return x < y ? -1 : 1;
	return by_value(a, b);
}

static uint64_t run_sort(unsigned round)
{
	static unsigned v[N_SORT];

	for (unsigned i = 0; i < N_SORT; i++)
		v[i] = draw(1000000);
	qsort(v, N_SORT, sizeof(v[0]), round % 2 ? by_value : by_low_digits);
	return v[N_SORT / 3] + v[N_SORT / 2];
}

/* One indirect jump for each operation. */
enum op { OP_ADD, OP_XOR, OP_ROT, OP_MUL, OP_SWAP, OP_SKIP, OP_PUSH, OP_POP, OP_ODD, OP_N };

__attribute__((noinline)) static uint64_t interpret(const uint8_t *code, size_t n)
{
	uint64_t a = 1, b = 2, t, stack[16] = {0};
	unsigned sp = 0;

	for (size_t i = 0; i < n; i++) {
		switch ((enum op)code[i]) {
		case OP_ADD: a += b; break;
		case OP_XOR: b ^= a; break;
		case OP_ROT: a = a << 11 | a >> 53; break;
		case OP_MUL: b *= 0x2545f4914f6cdd1du; break;
		case OP_SWAP:
			t = a;
			a = b;
			b = t;
			break;
		case OP_SKIP: i += a % 3 == 0; break;
		case OP_PUSH: stack[sp++ % 16] = a; break;
		case OP_POP: a ^= stack[--sp % 16]; break;
		case OP_ODD:
			if (b & 1)
				a++;
			else
				b--;
			break;
		case OP_N: break;
		}
	}
	return a ^ b;
}

static uint64_t run_interpreter(unsigned round)
{
	uint8_t code[N_CODE];
	uint64_t sum = round;

	for (size_t i = 0; i < N_CODE; i++)
		code[i] = (uint8_t)draw(OP_N);
	for (unsigned i = 0; i < 1500; i++)
		sum += interpret(code, N_CODE);
	return sum;
}

/* Long runs of the same branch. */
static uint64_t run_sieve(unsigned round)
{
	static char crossed[N_SIEVE];
	uint64_t primes = round;

	memset(crossed, 0, sizeof(crossed));
	for (size_t i = 2; i < N_SIEVE; i++) {
		if (crossed[i])
			continue;
		primes++;
		for (size_t j = i * i; j < N_SIEVE; j += i)
			crossed[j] = 1;
	}
	return primes;
}

/* A chain of comparisons for each character, and a state. */
static uint64_t run_tokens(unsigned round)
{
	static const char letters[] = "etaoin shrdlu 0123456789+-*/(){};\n\t";
	static char text[N_TEXT];
	uint64_t words = 0, numbers = 0, marks = round;
	enum { GAP, WORD, NUMBER } state = GAP;

	for (size_t i = 0; i < N_TEXT; i++)
		text[i] = letters[draw(sizeof(letters) - 1)];
	for (size_t i = 0; i < N_TEXT; i++) {
		char c = text[i];

		if (c >= 'a' && c <= 'z') {
			words += state != WORD;
			state = WORD;
		} else if (c >= '0' && c <= '9') {
			numbers += state == GAP;
			state = state == WORD ? WORD : NUMBER;
		} else {
			marks += c > ' ';
			state = GAP;
		}
	}
	return words * 3 + numbers * 5 + marks;
}

int main(int argc, char **argv)
{
	static uint64_t (*const jobs[])(unsigned) = {run_collatz,     run_fib,   run_sort,
						     run_interpreter, run_sieve, run_tokens};
	unsigned rounds = argc > 1 ? (unsigned)atoi(argv[1]) : 1;
	uint64_t sum = 0;

	for (unsigned r = 0; r < rounds; r++) {
		for (size_t i = 0; i < sizeof(jobs) / sizeof(jobs[0]); i++)
			sum = sum * 31 + jobs[i](r);
	}
	printf("%llu\n", (unsigned long long)sum);
	return 0;
}
