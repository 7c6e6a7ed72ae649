/* SPDX-License-Identifier: MIT */
/* Buffered writer of a view's data. After the first failed write nothing more is written. */
#include "view/view.h"

#include <errno.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#define OUT_FLUSH (256u << 10) /* bytes kept before they are written */

void ipt_out_init(struct ipt_out *o, int fd)
{
	*o = (struct ipt_out){.fd = fd};
}

/* Write with SIGPIPE held back: a reader that went away is an error code, not the end of us. A
 * SIGPIPE that was pending before stays so. */
static int write_quietly(int fd, const void *p, size_t n)
{
	const struct timespec now = {0};
	sigset_t pipe_set, old, pending;
	int err;

	sigemptyset(&pipe_set);
	sigaddset(&pipe_set, SIGPIPE);
	sigpending(&pending);
	pthread_sigmask(SIG_BLOCK, &pipe_set, &old);
	err = ipt_fd_write(fd, p, n);
	if (err == -EPIPE && !sigismember(&pending, SIGPIPE))
		while (sigtimedwait(&pipe_set, NULL, &now) == -1 && errno == EINTR)
			;
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return err;
}

static void flush(struct ipt_out *o)
{
	if (!o->err && o->buf.len) {
		int err = write_quietly(o->fd, o->buf.data, o->buf.len);

		if (err < 0)
			o->err = err;
	}
	o->buf.len = 0;
}

int ipt_out_fini(struct ipt_out *o)
{
	flush(o);
	ipt_buf_fini(&o->buf);
	return o->err;
}

void ipt_out_printf(struct ipt_out *o, const char *fmt, ...)
{
	va_list ap;
	char text[512];
	int n;

	va_start(ap, fmt);
	n = vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	ipt_assert(n >= 0, "bad format");
	if ((size_t)n < sizeof(text)) {
		ipt_buf_append(&o->buf, text, (size_t)n);
	} else {
		va_start(ap, fmt);
		vsnprintf((char *)ipt_buf_reserve(&o->buf, (size_t)n + 1), (size_t)n + 1, fmt, ap);
		va_end(ap);
		o->buf.len += (size_t)n;
	}
	ipt_out_check(o);
}

void ipt_out_str(struct ipt_out *o, const char *s)
{
	ipt_buf_str(&o->buf, s);
	ipt_out_check(o);
}

void ipt_out_escaped(struct ipt_out *o, const char *s)
{
	ipt_escape_term(&o->buf, s);
	ipt_out_check(o);
}

void ipt_out_check(struct ipt_out *o)
{
	if (o->buf.len >= OUT_FLUSH)
		flush(o);
}
