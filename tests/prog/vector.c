/* SPDX-License-Identifier: MIT */
/* AVX2 and AVX-512 code. Exit status 77 without AVX2. */
#include "prog.h"
#include <immintrin.h>

__attribute__((target("avx2"))) static int with_avx2(void)
{
	__m256i v = _mm256_set1_epi32(3), s = _mm256_setzero_si256();

	for (int i = 0; i < 10; i++)
		s = _mm256_add_epi32(s, v);
	return _mm256_extract_epi32(s, 5);
}

__attribute__((target("avx512f"))) static int with_avx512(void)
{
	__m512i v = _mm512_set1_epi32(3), s = _mm512_setzero_si512();

	for (int i = 0; i < 10; i++)
		s = _mm512_mask_add_epi32(s, 0xaaaa, s, v);
	return _mm512_reduce_add_epi32(s);
}

int main(void)
{
	if (!__builtin_cpu_supports("avx2"))
		return 77;
	say_n("avx2 ", with_avx2());
	if (__builtin_cpu_supports("avx512f"))
		say_n("avx512 ", with_avx512());
	return 0;
}
