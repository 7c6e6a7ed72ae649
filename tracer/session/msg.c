/* SPDX-License-Identifier: MIT */
/* Messages between the front end and the keeper: one packet each over a local socket. */
#include <errno.h>
#include <stddef.h>
#include <sys/socket.h>

#include "session/priv.h"

int ipt_msg_send(int fd, enum msg_type type, int code, uint32_t flags, const char *text)
{
	struct msg m = {.type = type, .code = code, .flags = flags};
	size_t n;

	snprintf(m.text, sizeof(m.text), "%s", text ? text : "");
	n = offsetof(struct msg, text) + strlen(m.text) + 1;
	while (send(fd, &m, n, MSG_NOSIGNAL) < 0) {
		if (errno != EINTR)
			return -errno;
	}
	return 0;
}

int ipt_msg_recv(int fd, struct msg *m, bool block)
{
	ssize_t n;

	do {
		n = recv(fd, m, sizeof(*m), block ? 0 : MSG_DONTWAIT);
	} while (n < 0 && errno == EINTR && block);
	if (n < 0)
		return errno == ECONNRESET ? 0 : -errno;
	if ((size_t)n < offsetof(struct msg, text) + 1)
		return n == 0 ? 0 : -EPROTO;
	((char *)m)[n - 1] = 0;
	return 1;
}
