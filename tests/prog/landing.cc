/* SPDX-License-Identifier: MIT */
/* An exception through three frames of one recursive function, each with something to destroy. */
#include <stdexcept>

static volatile int destroyed;

struct thing {
	int n;
	~thing()
	{
		destroyed = n;
	}
};

__attribute__((noinline)) static int deep(int n)
{
	thing t{n};

	if (!n)
		throw std::runtime_error("deep");
	return deep(n - 1) + destroyed;
}

int main()
{
	try {
		deep(2);
	} catch (const std::exception &) {
		return 3;
	}
	return 0;
}
