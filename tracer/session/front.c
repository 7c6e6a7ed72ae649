/* SPDX-License-Identifier: MIT */
/*
 * The front end: the caller's own process. It forks the keeper and the program, which stays its
 * child and in its process group, hands signals on, and waits for what the keeper says.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "session/launch.h"
#include "session/priv.h"

struct saved_signals {
	struct sigaction old[5];
};

struct front {
	const struct ipt_record_opts *opts;
	struct ipt_record_result *res;
	struct ipt_diag *diag;
	int ctl;
	pid_t keeper, child;
	int errfd; /* read end: why exec failed */
	int err;
	bool done;
	struct saved_signals saved; /* dispositions of the caller, which the program gets */
};

static volatile sig_atomic_t got_signal;

static void on_signal(int sig)
{
	got_signal = sig;
}

static const int handled[5] = {SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGCHLD};

static void take_signals(struct saved_signals *sv, bool launch)
{
	got_signal = 0;
	for (int i = 0; i < 5; i++) {
		struct sigaction sa = {.sa_handler = on_signal};

		/* The terminal sends these to the program too, which decides. */
		if (launch && (handled[i] == SIGINT || handled[i] == SIGQUIT))
			sa.sa_handler = SIG_IGN;
		if (handled[i] == SIGCHLD)
			sa.sa_handler = SIG_DFL;
		sigaction(handled[i], &sa, &sv->old[i]);
	}
}

static void give_signals_back(const struct saved_signals *sv)
{
	for (int i = 0; i < 5; i++)
		sigaction(handled[i], &sv->old[i], NULL);
}

static int check_dir(const struct ipt_record_opts *opts, struct ipt_diag *diag)
{
	struct stat st;

	if (!opts->dir || opts->force || stat(opts->dir, &st) < 0)
		return 0;
	return ipt_diag_err(diag, EEXIST, 0,
			    "%s: exists already; choose another with -o, or add --force",
			    opts->dir);
}

/* Whatever is read of a process by its number must be of this very process. */
static int check_proc(struct ipt_diag *diag)
{
	char self[32] = "";
	ssize_t n = readlink("/proc/self", self, sizeof(self) - 1);

	if (n > 0 && atoi(self) == getpid())
		return 0;
	return ipt_diag_err(diag, ENOSYS, 0,
			    "/proc: does not show the processes of this namespace; mount one "
			    "(unshare --mount-proc, mount -t proc proc /proc)");
}

static int find_program(char *path, size_t n, struct front *f)
{
	const char *name = f->opts->argv[0];
	int err = ipt_launch_find(path, n, name);

	if (!err)
		return 0;
	f->res->exec_failed = true;
	return ipt_diag_err(f->diag, -err, 0, "%s: %s", name,
			    err == -EISDIR ? "is a directory"
			    : err == -ENOENT
				    ? "program not found; 'iptrace help' lists the commands"
			    : err == -EACCES ? "not executable; give it the x permission, or name "
					       "the program that runs it"
					     : strerror(-err));
}

static void on_message(struct front *f, const struct msg *m)
{
	switch ((enum msg_type)m->type) {
	case MSG_STARTED:
	case MSG_DONE:
		if (m->type == MSG_STARTED)
			snprintf(f->res->dir, sizeof(f->res->dir), "%s", m->text);
		else
			f->done = true;
		f->res->lost |= (m->flags & MSG_F_LOST) != 0;
		f->res->detached |= (m->flags & MSG_F_DETACHED) != 0;
		break;
	case MSG_WARN: ipt_diag_warn(f->diag, "%s", m->text); break;
	case MSG_ERROR: f->err = ipt_diag_err(f->diag, m->code, m->pos, "%s", m->text); break;
	case MSG_SEIZED:
	case MSG_STOP:
	case MSG_PID: break;
	}
}

static void pass_signal(struct front *f)
{
	int sig = got_signal;

	got_signal = 0;
	if (!sig)
		return;
	if (f->child)
		kill(f->child, sig);
	else
		ipt_msg_send(f->ctl, MSG_STOP, 0, 0, NULL);
}

static void wait_keeper(struct front *f)
{
	struct msg m;

	for (;;) {
		/* The timeout closes the gap between looking at the flag and sleeping. */
		struct pollfd p = {.fd = f->ctl, .events = POLLIN};
		int r = poll(&p, 1, 200);

		pass_signal(f);
		if (r <= 0)
			continue;
		r = ipt_msg_recv(f->ctl, &m, false);
		if (r == -EAGAIN || r == -EINTR)
			continue;
		if (r != 1)
			break;
		on_message(f, &m);
	}
	if (!f->done && !f->err)
		f->err = ipt_diag_err(f->diag, EIO, 0,
				      "the keeper process %d ended unexpectedly; what was recorded "
				      "is kept",
				      f->keeper);
	while (waitpid(f->keeper, NULL, 0) < 0 && errno == EINTR)
		;
}

static void wait_child(struct front *f)
{
	int status = 0, why = 0;

	while (waitpid(f->child, &status, 0) < 0 && errno == EINTR)
		pass_signal(f);
	f->res->status = status;
	if (read(f->errfd, &why, sizeof(why)) == sizeof(why) && why) {
		f->res->exec_failed = true;
		f->err = ipt_diag_err(f->diag, -why, 0, "%s: %s", f->opts->argv[0], strerror(-why));
	}
}

struct gates {
	int ctl[2], gate[2], err[2];
};

static void close_gates(struct gates *g)
{
	int *fd = (int *)g;

	for (size_t i = 0; i < sizeof(*g) / sizeof(int); i++) {
		if (fd[i] >= 0)
			close(fd[i]);
		fd[i] = -1;
	}
}

/* Away from 0 to 2, which the caller may have closed and the program shall find closed. */
static int lift(int *fd, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		int high = fd[i] > 2 ? fd[i] : fcntl(fd[i], F_DUPFD_CLOEXEC, 3);

		if (high < 0)
			return -1;
		if (high != fd[i])
			close(fd[i]);
		fd[i] = high;
	}
	return 0;
}

static int open_gates(struct gates *g)
{
	*g = (struct gates){{-1, -1}, {-1, -1}, {-1, -1}};
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, g->ctl) < 0 ||
	    pipe2(g->gate, O_CLOEXEC) < 0 || pipe2(g->err, O_CLOEXEC) < 0 ||
	    lift((int *)g, sizeof(*g) / sizeof(int)) < 0) {
		int err = -errno;

		close_gates(g);
		return err;
	}
	return 0;
}

static void drop(int *fd)
{
	close(*fd);
	*fd = -1;
}

static int start(struct front *f, const struct ipt_backend_ops *backend, const char *path,
		 struct gates *g)
{
	bool launch = f->opts->argv != NULL;

	f->keeper = fork();
	if (f->keeper < 0)
		return -errno;
	if (f->keeper == 0) {
		drop(&g->ctl[0]);
		drop(&g->gate[0]);
		drop(&g->err[0]);
		drop(&g->err[1]);
		_exit(ipt_keeper_main(f->opts, backend, g->ctl[1], g->gate[1], launch));
	}
	drop(&g->ctl[1]);
	drop(&g->gate[1]);
	f->ctl = g->ctl[0];
	if (!launch)
		return 0;
	f->child = fork();
	if (f->child < 0)
		return -errno;
	if (f->child == 0) {
		give_signals_back(&f->saved);
		ipt_launch_child(f->opts, path, f->keeper, g->gate[0], g->err[1]);
	}
	drop(&g->gate[0]);
	drop(&g->err[1]);
	f->errfd = g->err[0];
	ipt_msg_send(f->ctl, MSG_PID, f->child, 0, NULL);
	return 0;
}

int ipt_session_run(struct ipt_record_result *res, const struct ipt_record_opts *opts,
		    struct ipt_diag *diag)
{
	struct front f = {.opts = opts, .res = res, .diag = diag, .errfd = -1};
	const struct ipt_backend_ops *backend;
	char path[PATH_MAX];
	struct gates g;
	int err;

	*res = (struct ipt_record_result){0};
	err = check_proc(diag);
	if (err)
		return err;
	backend = ipt_backend_choose(opts->engine, res->why, sizeof(res->why));
	if (!backend)
		return ipt_diag_err(diag, IPT_E_UNSUPPORTED, 0, "engine %s: %s",
				    opts->engine ? opts->engine : "auto", res->why);
	snprintf(res->engine, sizeof(res->engine), "%s", backend->name);
	err = opts->argv ? find_program(path, sizeof(path), &f) : 0;
	if (!err && opts->user && !getpwnam(opts->user))
		err = ipt_diag_err(diag, EINVAL, 0, "user %s: no such user", opts->user);
	if (!err)
		err = check_dir(opts, diag);
	if (err)
		return err;
	take_signals(&f.saved, opts->argv != NULL);
	err = open_gates(&g);
	if (!err)
		err = start(&f, backend, path, &g);
	if (err) {
		give_signals_back(&f.saved);
		close_gates(&g);
		return ipt_diag_err(diag, -err, 0, "cannot start the keeper: %s", strerror(-err));
	}
	wait_keeper(&f);
	if (f.child)
		wait_child(&f);
	give_signals_back(&f.saved);
	close_gates(&g);
	return f.err;
}
