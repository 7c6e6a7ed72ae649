/* SPDX-License-Identifier: MIT */
/* Starting the traced program (front end's side). */
#ifndef IPT_SESSION_LAUNCH_H
#define IPT_SESSION_LAUNCH_H

#include "session/session.h"

/* Find @name as a shell does. 0, -ENOENT, -EACCES (there, but not to be run), -ENAMETOOLONG. */
int ipt_launch_find(char *out, size_t n, const char *name);
/* In the forked child: wait at the gate, become the program. Never returns; a failure's negative
 * errno goes to @errfd. */
void ipt_launch_child(const struct ipt_record_opts *opts, const char *path, pid_t keeper, int gate,
		      int errfd) __attribute__((noreturn));

#endif
