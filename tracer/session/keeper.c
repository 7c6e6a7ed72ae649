/* SPDX-License-Identifier: MIT */
/*
 * The keeper: a process of its own session that does all ptrace and writes the trace. When the
 * front end goes away, by whatever signal, it restores and detaches every thread and completes the
 * trace.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "session/priv.h"

void ipt_sess_warn(struct sess *s, const char *fmt, ...)
{
	char text[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	ipt_msg_send(s->ctl, MSG_WARN, 0, 0, text);
}

void ipt_sess_fail(struct sess *s, int code, const char *fmt, ...)
{
	char text[512];
	va_list ap;

	if (s->fatal)
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	s->fatal = true;
	ipt_msg_send(s->ctl, MSG_ERROR, code, 0, text);
}

static void warn_front(void *arg, const char *text)
{
	ipt_msg_send(((struct sess *)arg)->ctl, MSG_WARN, 0, 0, text);
}

static const char *base_name(const char *path)
{
	const char *s = strrchr(path, '/');

	return s && s[1] ? s + 1 : path;
}

static void default_dir(struct sess *s)
{
	char comm[64];
	pid_t pid = s->main_pid ? s->main_pid : s->opts->pids[0];

	if (s->opts->dir) {
		snprintf(s->dir, sizeof(s->dir), "%s", s->opts->dir);
		return;
	}
	ipt_proc_comm(comm, sizeof(comm), pid);
	snprintf(s->dir, sizeof(s->dir), "iptrace.%.200s.%d",
		 s->opts->argv ? base_name(s->opts->argv[0]) : comm, pid);
	for (char *p = s->dir; *p; p++) {
		if (*p == '/')
			*p = '_';
	}
}

int ipt_sess_open_writer(struct sess *s)
{
	struct ipt_writer_cfg cfg = {
		.dir = s->dir,
		.force = s->opts->force,
		.zstd = s->opts->zstd,
		.buffer_bytes = s->opts->buffer_bytes,
	};
	struct ipt_session_info info = {
		.tool = "iptrace " IPT_VERSION,
		.command = s->main_pid ? "run" : "attach",
		.argv = s->main_pid ? s->opts->argv : NULL,
		.options = s->opts->options,
	};
	char cwd[PATH_MAX];
	struct utsname u;
	int err;

	default_dir(s);
	uname(&u);
	info.host = u.nodename;
	info.kernel = u.release;
	info.cwd = getcwd(cwd, sizeof(cwd)) ? cwd : "";
	ipt_sess_host_info(s, &info);
	err = ipt_writer_new(&s->w, &cfg, &info, &s->diag);
	if (err) {
		ipt_sess_fail(s, -err, "%s", s->diag.text[0] ? s->diag.text : s->dir);
		return err;
	}
	ipt_msg_send(s->ctl, MSG_STARTED, 0, 0, s->dir);
	return 0;
}

static void become_keeper(void)
{
	static const int ignored[] = {SIGINT,  SIGQUIT, SIGHUP,  SIGTERM, SIGTSTP, SIGTTIN,
				      SIGTTOU, SIGPIPE, SIGUSR1, SIGUSR2, SIGXFSZ, SIGXCPU};
	static const int limits[] = {RLIMIT_NOFILE, RLIMIT_FSIZE, RLIMIT_CPU};
	struct rlimit rl;
	sigset_t none;
	int null;

	setsid();
	for (size_t i = 0; i < IPT_ARRAY_SIZE(ignored); i++)
		signal(ignored[i], SIG_IGN);
	null = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (null >= 0) {
		/* A reader of the program's output must not wait for us. */
		dup2(null, 0);
		dup2(null, 1);
		if (fcntl(2, F_GETFD) < 0)
			dup2(null, 2);
		if (null > 2)
			close(null);
	}
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	for (size_t i = 0; i < IPT_ARRAY_SIZE(limits); i++) {
		if (getrlimit(limits[i], &rl) == 0) {
			rl.rlim_cur = rl.rlim_max;
			setrlimit(limits[i], &rl);
		}
	}
}

/* A message from the front end shall end a wait. */
static void signal_on_input(int fd)
{
	fcntl(fd, F_SETOWN, getpid());
	fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_ASYNC);
}

static void ring(void *arg)
{
	struct sess *s = arg;

	__atomic_add_fetch(&s->bell, 1, __ATOMIC_RELEASE);
	syscall(SYS_futex, &s->bell, FUTEX_WAKE, 1, NULL, NULL, 0);
}

static void make_pool(struct sess *s)
{
	cpu_set_t cpus;

	s->n_cpus =
		sched_getaffinity(0, sizeof(cpus), &cpus) == 0 ? (unsigned int)CPU_COUNT(&cpus) : 1;
	s->pool = ipt_xl_pool_new(s->n_cpus, &s->bcfg.pt, ring, s);
}

static int start_launch(struct sess *s, int gate)
{
	struct msg m;
	int err;

	if (ipt_msg_recv(s->ctl, &m, true) != 1 || m.type != MSG_PID)
		return -EPIPE;
	s->main_pid = m.code;
	err = ipt_seize_child(s, s->main_pid);
	if (err) {
		ipt_sess_fail(s, -err, "process %d: %s; ptrace of a new child is not allowed here",
			      s->main_pid, strerror(-err));
		return err;
	}
	if (write(gate, "g", 1) != 1)
		return -errno;
	return 0;
}

static int start_attach(struct sess *s)
{
	int err = 0;

	for (size_t i = 0; !err && i < s->opts->n_pids; i++)
		err = ipt_seize_process(s, s->opts->pids[i]);
	return err ? err : ipt_sess_open_writer(s);
}

static void finish(struct sess *s)
{
	uint32_t flags = s->detached ? MSG_F_DETACHED : 0;
	struct ipt_diag diag = {0};

	ipt_sess_end_clock(s);
	if (s->w && !s->fatal)
		ipt_filter_end(s);
	if (s->w && ipt_writer_finish(s->w, s->main_pid ? s->main_status : -1, &diag)) {
		flags |= MSG_F_LOST;
		ipt_sess_warn(s, "%s", diag.text);
	}
	if (s->disk_full)
		flags |= MSG_F_LOST;
	ipt_msg_send(s->ctl, MSG_DONE, 0, flags, s->dir);
}

int ipt_keeper_main(const struct ipt_record_opts *opts, const struct ipt_backend_ops *backend,
		    int ctl, int gate, bool launch)
{
	struct sess s = {
		.opts = opts,
		.backend = backend,
		.bcfg.pt = {.noretcomp = opts->noretcomp,
			    .long_tnt = opts->long_tnt,
			    .psb_bytes = opts->psb_bytes},
		.ctl = ctl,
		.front = getppid(),
		.main_status = -1,
		.cpu = -1,
		.filter = ipt_filter_new(opts),
	};
	int err;

	s.diag.warn = warn_front;
	s.diag.warn_arg = &s;
	ipt_sess_begin_clock(&s);
	become_keeper();
	if (backend->translates)
		make_pool(&s);
	err = launch ? start_launch(&s, gate) : start_attach(&s);
	if (gate >= 0)
		close(gate);
	signal_on_input(ctl);
	if (err) {
		s.fatal = true;
		ipt_sess_detach_all(&s);
	}
	ipt_sess_loop(&s);
	ipt_place_free(&s);
	finish(&s);
	ipt_xl_pool_free(s.pool);
	free(s.bells);
	ipt_filter_free(s.filter);
	ipt_u64map_fini(&s.threads);
	ipt_u64map_fini(&s.procs);
	ipt_u64map_fini(&s.early);
	return s.fatal;
}
