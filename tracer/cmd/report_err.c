/* SPDX-License-Identifier: MIT */
/* The only place that turns codes into text and exit status. */
#include "cmd.h"

#include <errno.h>
#include <stdlib.h>

/* What to do about it; NULL where the fact says enough. */
static const char *next_step(int code)
{
	switch (code) {
	case IPT_E_NOTTRACE: return "name a directory that iptrace made";
	case IPT_E_BADMAN:
	case IPT_E_BADREC:
	case IPT_E_CHECKSUM: return "try 'iptrace check'";
	case IPT_E_VERSION: return "read it with the iptrace that made it, or record again";
	case IPT_E_TRACED:
		return "end the debugger or tracer that holds it (TracerPid in /proc/PID/status)";
	case IPT_E_UNSUPPORTED: return "see 'iptrace caps'";
	case EEXIST: return "choose another with -o, or add --force";
	case EPERM:
	case EACCES: return "see 'iptrace caps' for what this user may do";
	case ENOSPC: return "free space";
	case EMFILE: return "raise the limit of open files (ulimit -n)";
	default: return NULL;
	}
}

static int exit_status(int code)
{
	return code == IPT_E_USAGE ? IPT_EXIT_USAGE : IPT_EXIT_FAILED;
}

static void line(const char *cmd, const char *object, const char *fact, const char *next)
{
	struct ipt_buf b = {0};

	ipt_buf_printf(&b, "iptrace: %s: ", cmd);
	if (object) {
		ipt_escape_term(&b, object);
		ipt_buf_str(&b, ": ");
	}
	ipt_escape_term(&b, fact);
	if (next)
		ipt_buf_printf(&b, "; %s", next);
	ipt_buf_u8(&b, '\n');
	fflush(stdout);
	fwrite(b.data, 1, b.len, stderr);
	ipt_buf_fini(&b);
}

int ipt_report_err(const char *cmd, int err, const struct ipt_diag *diag, const char *object)
{
	int code = err < 0 ? -err : err;
	bool told = diag && diag->text[0];
	/* So it does with a remedy, after a semicolon. */
	bool remedied = told && strstr(diag->text, "; ");
	const char *next = next_step(code);
	char help[80];

	if (code == IPT_E_USAGE) {
		snprintf(help, sizeof(help), "see 'iptrace help %s'", cmd);
		next = help;
	}

	/* A diagnostic names its object itself where it knows it better than the caller. */
	line(cmd, told && object && strstr(diag->text, object) ? NULL : object,
	     told ? diag->text : ipt_strerror(code), remedied ? NULL : next);
	return exit_status(code);
}

static void warn(void *arg, const char *text)
{
	struct ipt_buf b = {0};

	ipt_buf_printf(&b, "warning: %s", text);
	ipt_buf_u8(&b, 0);
	line(arg, NULL, (const char *)b.data, NULL);
	ipt_buf_fini(&b);
}

void ipt_report_diag(struct ipt_diag *diag, const char *cmd)
{
	*diag = (struct ipt_diag){.warn = warn, .warn_arg = (void *)(uintptr_t)cmd};
}

void ipt_report_note(const char *cmd, const char *fmt, ...)
{
	char text[1024];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	line(cmd, NULL, text, NULL);
}
