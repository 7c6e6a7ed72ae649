/* SPDX-License-Identifier: MIT */
/* Says hello: built as each kind of executable. */
#include <stdio.h>

int main(int argc, char **argv)
{
	printf("hello %d %s\n", argc, argc > 1 ? argv[1] : "");
	return 3;
}
