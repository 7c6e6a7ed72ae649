/* SPDX-License-Identifier: MIT */
/* Finds the newest trace directory of a folder. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "internal.h"

/* A manifest.json alone is common elsewhere; with a sideband beside it, it is ours. */
static bool looks_like_trace(struct timespec *when, int folder_fd, const char *name)
{
	struct stat man, sb;
	bool yes;
	int fd;

	if (ipt_store_open_dir(&fd, folder_fd, name))
		return false;
	yes = !fstatat(fd, IPT_NAME_MANIFEST, &man, AT_SYMLINK_NOFOLLOW) && S_ISREG(man.st_mode) &&
	      !fstatat(fd, IPT_NAME_SIDEBAND, &sb, AT_SYMLINK_NOFOLLOW) && S_ISREG(sb.st_mode);
	close(fd);
	if (yes)
		*when = man.st_mtim;
	return yes;
}

int ipt_store_newest(char **name, const char *folder)
{
	struct timespec best = {0}, when;
	struct dirent *e;
	char *found = NULL;
	DIR *d = opendir(folder);

	if (!d)
		return -errno;
	while ((e = readdir(d))) {
		if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..") ||
		    !looks_like_trace(&when, dirfd(d), e->d_name))
			continue;
		if (found && (when.tv_sec < best.tv_sec ||
			      (when.tv_sec == best.tv_sec && when.tv_nsec <= best.tv_nsec)))
			continue;
		free(found);
		found = strcmp(folder, ".") ? ipt_xasprintf("%s/%s", folder, e->d_name)
					    : ipt_xstrdup(e->d_name);
		best = when;
	}
	closedir(d);
	if (!found)
		return -ENOENT;
	*name = found;
	return 0;
}
