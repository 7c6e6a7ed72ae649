/* SPDX-License-Identifier: MIT */
/* The program to be traced: found like a shell finds it, started as it would be without us, held at
 * a gate. */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "session/launch.h"

/* 0, or why @path cannot be run. */
static int runnable(const char *path)
{
	struct stat st;

	if (stat(path, &st) < 0)
		return -errno;
	if (S_ISDIR(st.st_mode))
		return -EISDIR;
	if (!S_ISREG(st.st_mode))
		return -EACCES;
	return access(path, X_OK) < 0 ? -errno : 0;
}

int ipt_launch_find(char *out, size_t n, const char *name)
{
	const char *path = getenv("PATH");
	int err = -ENOENT;

	if (!*name)
		return -ENOENT;
	if (strchr(name, '/')) {
		if ((size_t)snprintf(out, n, "%s", name) >= n)
			return -ENAMETOOLONG;
		return runnable(name);
	}
	for (const char *p = path ? path : "/bin:/usr/bin"; p;
	     p = strchr(p, ':') ? strchr(p, ':') + 1 : NULL) {
		int len = (int)strcspn(p, ":"), e;

		if ((size_t)snprintf(out, n, "%.*s%s%s", len, p, len ? "/" : "", name) >= n)
			continue;
		e = runnable(out);
		if (!e)
			return 0;
		if (e == -EACCES && err == -ENOENT)
			err = e; /* found one that may not be run: say that if nothing better comes
				  */
	}
	return err;
}

static int become_user(const char *user)
{
	struct passwd *pw = getpwnam(user);

	if (!pw)
		return -EINVAL;
	if (initgroups(user, pw->pw_gid) < 0 || setgid(pw->pw_gid) < 0 || setuid(pw->pw_uid) < 0)
		return -errno;
	setenv("HOME", pw->pw_dir, 1);
	setenv("USER", user, 1);
	setenv("LOGNAME", user, 1);
	return 0;
}

static void apply_env(const char *const *env)
{
	for (; env && *env; env++) {
		char *copy = ipt_xstrdup(*env);
		char *eq = strchr(copy, '=');

		if (eq) {
			*eq = 0;
			setenv(copy, eq + 1, 1);
		} else {
			unsetenv(copy);
		}
		free(copy);
	}
}

/* As execvp does: a file without a known format is a shell script. */
static void exec_program(const char *path, const char *const *argv)
{
	size_t n = 0;
	const char **sh;

	execv(path, (char *const *)(uintptr_t)argv);
	if (errno != ENOEXEC)
		return;
	while (argv[n])
		n++;
	sh = ipt_xcalloc(n + 2, sizeof(*sh));
	sh[0] = "/bin/sh";
	sh[1] = path;
	for (size_t i = 1; i < n; i++)
		sh[i + 1] = argv[i];
	execv("/bin/sh", (char *const *)(uintptr_t)sh);
	errno = ENOEXEC;
}

void ipt_launch_child(const struct ipt_record_opts *opts, const char *path, pid_t keeper, int gate,
		      int errfd)
{
	char go;
	int err;

	prctl(PR_SET_PTRACER, (unsigned long)keeper, 0, 0, 0);
	apply_env(opts->env);
	err = opts->user ? become_user(opts->user) : 0;
	if (!err && opts->user)
		prctl(PR_SET_PTRACER, (unsigned long)keeper, 0, 0, 0);
	if (!err && read(gate, &go, 1) != 1)
		_exit(125); /* the keeper said why */
	if (!err) {
		exec_program(path, opts->argv);
		err = -errno;
	}
	if (write(errfd, &err, sizeof(err)) != sizeof(err))
		_exit(126);
	_exit(127);
}
