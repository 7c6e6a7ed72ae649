/* SPDX-License-Identifier: MIT */
/* Closes every descriptor, forks twice, and the grandchild tells through a file (argument). */
#include "prog.h"
#include <fcntl.h>

int main(int argc, char **argv)
{
	int fd;

	(void)argc;
	close_range(0, ~0u, 0);
	if (fork())
		_exit(4);
	setsid();
	if (fork())
		_exit(0);
	fd = open(argv[1], O_WRONLY | O_CREAT | O_TRUNC, 0600);
	if (fd != 0 || write(fd, "daemon\n", 7) != 7)
		_exit(1);
	close(fd);
	_exit(0);
}
