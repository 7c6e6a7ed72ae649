/* SPDX-License-Identifier: MIT */
/* Whole reads and writes, atomic replacement, mapping, and names that stay inside a folder. */
#include "base/base.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

int ipt_file_open(int *out, uint64_t *size, int dirfd, const char *name, unsigned int flags,
		  struct ipt_diag *diag)
{
	int no_file = flags & IPT_FILE_PLAIN ? IPT_E_UNSAFE : EINVAL;
	int fd, follow = flags & IPT_FILE_PLAIN ? O_NOFOLLOW : 0;
	struct stat st;

	/* O_NONBLOCK: a fifo in place of a file must not hang us. */
	fd = openat(dirfd, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | follow);
	if (fd < 0 && errno == ELOOP && follow)
		return ipt_diag_err(diag, no_file, 0, "%s: a link", name);
	if (fd < 0)
		return ipt_diag_err(diag, errno, 0, "%s: %s", name, strerror(errno));
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size < 0) {
		close(fd);
		return ipt_diag_err(diag, no_file, 0, "%s: not a regular file", name);
	}
	*out = fd;
	*size = (uint64_t)st.st_size;
	return 0;
}

static int read_all(int fd, uint8_t *p, size_t n, size_t *got)
{
	*got = 0;
	while (*got < n) {
		ssize_t r = read(fd, p + *got, n - *got);

		if (r < 0 && errno == EINTR)
			continue;
		if (r < 0)
			return -errno;
		if (r == 0)
			break;
		*got += (size_t)r;
	}
	return 0;
}

int ipt_file_read(uint8_t **data, size_t *len, int dirfd, const char *name, size_t max,
		  unsigned int flags, struct ipt_diag *diag)
{
	uint64_t size = 0;
	uint8_t *p;
	size_t got;
	int fd = -1, err;

	err = ipt_file_open(&fd, &size, dirfd, name, flags, diag);
	if (err)
		return err;
	if (size > max) {
		close(fd);
		return ipt_diag_err(diag, IPT_E_LIMIT, 0, "%s: %llu bytes, at most %zu are read",
				    name, (unsigned long long)size, max);
	}
	p = ipt_xcalloc((size_t)size + 1, 1);
	err = read_all(fd, p, (size_t)size, &got);
	close(fd);
	if (err) {
		free(p);
		return ipt_diag_err(diag, -err, 0, "%s: %s", name, strerror(-err));
	}
	p[got] = 0;
	*data = p;
	*len = got;
	return 0;
}

int ipt_fd_write(int fd, const void *p, size_t n)
{
	const uint8_t *b = p;

	while (n) {
		ssize_t w = write(fd, b, n);

		if (w < 0 && errno == EINTR)
			continue;
		if (w < 0)
			return -errno;
		b += w;
		n -= (size_t)w;
	}
	return 0;
}

int ipt_file_replace(int dirfd, const char *name, const void *p, size_t n, struct ipt_diag *diag)
{
	char *tmp = ipt_xasprintf("%s.tmp", name);
	int fd = -1, err;

	fd = openat(dirfd, tmp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666);
	if (fd < 0) {
		err = -errno;
		goto out;
	}
	err = ipt_fd_write(fd, p, n);
	if (!err && fsync(fd) < 0)
		err = -errno;
	if (close(fd) < 0 && !err)
		err = -errno;
	if (!err && renameat(dirfd, tmp, dirfd, name) < 0)
		err = -errno;
	if (err)
		unlinkat(dirfd, tmp, 0);
out:
	free(tmp);
	return err ? ipt_diag_err(diag, -err, 0, "%s: %s", name, strerror(-err)) : 0;
}

int ipt_file_map(const uint8_t **p, size_t *len, int dirfd, const char *name, unsigned int flags,
		 struct ipt_diag *diag)
{
	bool cow = flags & IPT_FILE_COW;
	uint64_t size = 0;
	void *m = NULL;
	int fd = -1, err;

	err = ipt_file_open(&fd, &size, dirfd, name, flags, diag);
	if (err)
		return err;
	if (size) {
		m = mmap(NULL, (size_t)size, PROT_READ | (cow ? PROT_WRITE : 0),
			 MAP_PRIVATE | (cow ? MAP_NORESERVE : 0), fd, 0);
		if (m == MAP_FAILED)
			err = -errno;
	}
	close(fd);
	if (err)
		return ipt_diag_err(diag, -err, 0, "%s: %s", name, strerror(-err));
	*p = m;
	*len = (size_t)size;
	return 0;
}

void ipt_file_unmap(const uint8_t *p, size_t len)
{
	if (p)
		munmap((void *)(uintptr_t)p, len);
}

bool ipt_name_is_safe(const char *name)
{
	const char *part = name;

	if (!*name || strlen(name) > 255)
		return false;
	for (const char *s = name;; s++) {
		if (*s == '/' || !*s) {
			size_t n = (size_t)(s - part);

			if (n == 0 || (n <= 2 && !memcmp(part, "..", n)))
				return false;
			part = s + 1;
		}
		if (!*s)
			return true;
		if ((uint8_t)*s < 0x20 || *s == 0x7f)
			return false;
	}
}
