/* SPDX-License-Identifier: MIT */
/* A library that is loaded, called and unloaded; built twice with another value of PLUG. */
int plug(int n);

int plug(int n)
{
	int s = 0;

	for (int i = 0; i < n; i++)
		s += PLUG;
#if PLUG > 1
	s ^= n;
#endif
	return s;
}
