/* SPDX-License-Identifier: MIT */
/* Error codes to text, and the diagnostics that travel with them. */
#include "base/base.h"

#include <stdlib.h>

const char *ipt_strerror(int code)
{
	if (code < 0)
		code = -code;
	switch (code) {
#define IPT_E(name, number, text)                                                                  \
	case number:                                                                               \
		return text;
#include "iptrace/error.def"
#undef IPT_E
	}
	return strerror(code);
}

int ipt_diag_err(struct ipt_diag *diag, int code, uint64_t pos, const char *fmt, ...)
{
	va_list ap;

	ipt_assert(code > 0, "diagnostic with a code that is not positive");
	if (!diag)
		return -code;
	diag->code = code;
	diag->pos = pos;
	va_start(ap, fmt);
	vsnprintf(diag->text, sizeof(diag->text), fmt, ap);
	va_end(ap);
	return -code;
}

void ipt_diag_warn(struct ipt_diag *diag, const char *fmt, ...)
{
	char text[512];
	va_list ap;

	if (!diag || !diag->warn)
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	diag->warn(diag->warn_arg, text);
}

void ipt_assert_failed(const char *file, int line, const char *text)
{
	fprintf(stderr, "iptrace: internal error at %s:%d: %s\n", file, line, text);
	abort();
}
