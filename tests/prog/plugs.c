/* SPDX-License-Identifier: MIT */
/* plugs A B: dlopen A, call, dlclose, then B, which comes to the same address. */
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char **argv)
{
	int sum = 0;

	for (int i = 0; i < 2; i++) {
		for (int k = 1; k < argc; k++) {
			void *h = dlopen(argv[k], RTLD_NOW);
			int (*f)(int) = h ? (int (*)(int))dlsym(h, "plug") : 0;

			if (!f)
				return 1;
			sum += f(3);
			dlclose(h);
		}
	}
	printf("%d\n", sum);
	return 0;
}
