/* SPDX-License-Identifier: MIT */
/* Files and folders of a trace directory: opened without trusting what lies there. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "internal.h"

int ipt_store_open_dir(int *fd, int dirfd, const char *name)
{
	int f = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);

	if (f < 0)
		return errno == ELOOP ? -IPT_E_UNSAFE : -errno;
	*fd = f;
	return 0;
}

/* Walk one folder; with @del delete, else only look. -ENOTEMPTY names the first foreign entry. */
static int sweep(int dirfd, const char *sub, bool del, char *foreign, size_t n_foreign)
{
	struct dirent *e;
	int fd = openat(dirfd, *sub ? sub : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	int err = 0;
	DIR *d;

	if (fd < 0)
		return errno == ENOENT && *sub ? 0 : -errno;
	d = fdopendir(fd);
	if (!d) {
		close(fd);
		return -ENOMEM;
	}
	while (!err && (e = readdir(d))) {
		struct stat st;
		bool is_sub = !*sub && (!strcmp(e->d_name, IPT_NAME_THREADS) ||
					!strcmp(e->d_name, IPT_NAME_IMAGES));

		if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
			continue;
		if (!ipt_name_is_ours(sub, e->d_name) ||
		    fstatat(fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
		    (is_sub ? !S_ISDIR(st.st_mode) : !S_ISREG(st.st_mode))) {
			snprintf(foreign, n_foreign, "%.40s%s%.80s", sub, *sub ? "/" : "",
				 e->d_name);
			err = -ENOTEMPTY;
		} else if (del && unlinkat(fd, e->d_name, is_sub ? AT_REMOVEDIR : 0) < 0) {
			err = -errno;
		}
	}
	closedir(d);
	return err;
}

static bool is_empty(int dirfd)
{
	int fd = openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;
	bool empty = d != NULL;

	while (d && (e = readdir(d)))
		empty = empty && (!strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."));
	if (d)
		closedir(d);
	return empty;
}

/* Our manifest, or a sideband from a recorder that died before it wrote one. */
static bool is_trace(int dirfd)
{
	struct ipt_manifest man;
	const uint8_t *sb;
	uint8_t *p;
	size_t n;
	int err;

	if (!ipt_file_read(&p, &n, dirfd, IPT_NAME_MANIFEST, IPT_STORE_MAX_MANIFEST, IPT_FILE_PLAIN,
			   NULL)) {
		ipt_manifest_init(&man);
		err = ipt_manifest_parse(&man, p, n, NULL);
		ipt_manifest_fini(&man);
		free(p);
		return !err || err == -IPT_E_VERSION;
	}
	err = ipt_file_map(&sb, &n, dirfd, IPT_NAME_SIDEBAND, IPT_FILE_PLAIN, NULL);
	if (!err) {
		struct ipt_cur c = ipt_cur_make(sb, n);

		err = n ? ipt_sb_file_head(&c, NULL) : -EINVAL;
		ipt_file_unmap(sb, n);
	}
	return !err;
}

int ipt_store_clear_dir(int dirfd, struct ipt_diag *diag, const char *dir)
{
	static const char *const order[] = {IPT_NAME_THREADS, IPT_NAME_IMAGES, ""};
	char foreign[160] = "";
	int err = 0;

	for (int del = 0; del < 2; del++) {
		for (size_t i = 0; !err && i < IPT_ARRAY_SIZE(order); i++)
			err = sweep(dirfd, order[i], del, foreign, sizeof(foreign));
	}
	if (err == -ENOTEMPTY)
		return ipt_diag_err(diag, ENOTEMPTY, 0,
				    "%s: holds '%s', which is no file of a trace", dir, foreign);
	return err ? ipt_diag_err(diag, -err, 0, "%s: %s", dir, strerror(-err)) : 0;
}

static int reuse_dir(int *out, const char *dir, struct ipt_diag *diag)
{
	int fd = -1, err;

	err = ipt_store_open_dir(&fd, AT_FDCWD, dir);
	if (err)
		return ipt_diag_err(diag, EEXIST, 0,
				    "%s: exists and is no directory; choose another with -o", dir);
	if (!is_empty(fd)) {
		if (!is_trace(fd))
			err = ipt_diag_err(diag, EEXIST, 0,
					   "%s: exists and holds no trace; not replaced", dir);
		else
			err = ipt_store_clear_dir(fd, diag, dir);
	}
	if (err)
		close(fd);
	else
		*out = fd;
	return err;
}

int ipt_store_make_dir(int *fd, bool *made, const char *dir, bool force, struct ipt_diag *diag)
{
	int err;

	*made = mkdir(dir, 0777) == 0;
	if (*made) {
		err = ipt_store_open_dir(fd, AT_FDCWD, dir);
		if (err)
			rmdir(dir);
		return err ? ipt_diag_err(diag, -err, 0, "%s: %s", dir, ipt_strerror(err)) : 0;
	}
	if (errno == EEXIST && force)
		return reuse_dir(fd, dir, diag);
	if (errno == EEXIST)
		return ipt_diag_err(diag, EEXIST, 0, "%s: exists already", dir);
	if (errno == ENOENT)
		return ipt_diag_err(diag, ENOENT, 0, "%s: the folder it should be in is not there",
				    dir);
	return ipt_diag_err(diag, errno, 0, "%s: %s", dir, strerror(errno));
}
