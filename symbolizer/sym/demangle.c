/* SPDX-License-Identifier: MIT */
/* demangle: C++ (Itanium) and Rust names through libiberty; the only file that includes its header.
 */
#include <libiberty/demangle.h>

#include "sym/sym_priv.h"

/* Demangling a hostile name costs far more than reading it; real ones are shorter. */
#define NAME_MAX_DEMANGLE 8192

static char *demangle(const char *name, int options)
{
	if (name[0] != '_' || strnlen(name, NAME_MAX_DEMANGLE) == NAME_MAX_DEMANGLE)
		return NULL;
	if (name[1] != 'Z' && name[1] != 'R' && name[1] != '_')
		return NULL;
	return cplus_demangle(name, options | DMGL_ANSI | DMGL_AUTO);
}

char *ipt_sym_demangle(const char *name)
{
	return demangle(name, DMGL_PARAMS);
}

char *ipt_sym_demangle_name(const char *name)
{
	return demangle(name, DMGL_NO_OPTS);
}
