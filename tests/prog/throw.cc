/* SPDX-License-Identifier: MIT */
/* Exceptions thrown, caught and thrown again through frames with destructors. */
#include <stdexcept>
#include <unistd.h>

static int gone;

struct guard {
	~guard() { gone++; }
};

__attribute__((noinline)) static int deep(int n)
{
	guard g;

	if (!n)
		throw std::runtime_error("deep");
	return deep(n - 1) + 1;
}

__attribute__((noinline)) static int middle(int n)
{
	guard g;

	try {
		return deep(n);
	} catch (const std::exception &) {
		gone += 100;
		throw;
	}
}

int main()
{
	int caught = 0;

	for (int i = 1; i < 3; i++) {
		try {
			middle(i);
		} catch (const std::runtime_error &e) {
			caught++;
			if (write(1, e.what(), 4) != 4)
				return 1;
		}
	}
	try {
		throw 7;
	} catch (int v) {
		caught += v;
	}
	return caught + gone % 50;
}
