/* SPDX-License-Identifier: MIT */
/* The table of backends in order of trust, and the choice among them. */
#include "backend/backend.h"

static const struct ipt_backend_ops *const backends[] = {
	&ipt_backend_translate,
	&ipt_backend_step,
};

/* Engines of the design that this version does not have. */
static const char *const not_yet[] = {"helper", "perf"};

static const struct ipt_backend_ops *choose_auto(char *why, size_t n)
{
	for (size_t i = 0; i < IPT_ARRAY_SIZE(backends); i++) {
		char reason[120];

		if (backends[i]->probe(reason, sizeof(reason)) == 0) {
			snprintf(why, n, "%s", reason);
			return backends[i];
		}
	}
	snprintf(why, n, "no engine can be used here");
	return NULL;
}

const struct ipt_backend_ops *ipt_backend_choose(const char *name, char *why, size_t n)
{
	if (!name || !strcmp(name, "auto"))
		return choose_auto(why, n);
	for (size_t i = 0; i < IPT_ARRAY_SIZE(backends); i++) {
		if (!strcmp(backends[i]->name, name)) {
			if (backends[i]->probe(why, n))
				return NULL;
			snprintf(why, n, "as asked for");
			return backends[i];
		}
	}
	for (size_t i = 0; i < IPT_ARRAY_SIZE(not_yet); i++) {
		if (!strcmp(not_yet[i], name)) {
			snprintf(why, n, "this version of iptrace does not have it");
			return NULL;
		}
	}
	snprintf(why, n, "no such engine");
	return NULL;
}
