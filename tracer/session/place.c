/* SPDX-License-Identifier: MIT */
/*
 * Where the keeper runs. A stop costs several times more when tracer and tracee wake each other
 * across CPUs, so the keeper binds itself to the CPU of the thread it steps; the thread's own
 * affinity is never touched.
 */
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "session/priv.h"

#define SLOW_NS 35000u /* a step that woke another CPU takes longer than this */

/* Field "processor" of /proc/TID/stat; -1 unknown. */
static int cpu_of(pid_t tid)
{
	char name[64], buf[1024], *p;
	ssize_t n;
	int fd;

	snprintf(name, sizeof(name), "/proc/%d/task/%d/stat", tid, tid);
	fd = open(name, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	n = read(fd, buf, sizeof(buf) - 1);
	close(fd);
	if (n <= 0)
		return -1;
	buf[n] = 0;
	p = strrchr(buf, ')');
	/* ')' ends field 2; processor is field 39. */
	for (int field = 2; p && field < 39; field++)
		p = strchr(p + 1, ' ');
	return p ? atoi(p + 1) : -1;
}

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ull + (uint64_t)ts.tv_nsec;
}

void ipt_place_near(struct sess *s, pid_t tid)
{
	cpu_set_t set;
	int cpu;

	uint64_t now = now_ns();
	bool slow = now - s->last_step_ns > SLOW_NS;

	/* Looking costs about one step: do it seldom, sooner when steps take long. */
	s->last_step_ns = now;
	s->since_place += slow ? 32 : 1;
	if (s->since_place < 1024)
		return;
	s->since_place = 0;
	cpu = cpu_of(tid);
	if (cpu < 0 || cpu == s->cpu || cpu >= CPU_SETSIZE)
		return;
	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (s->cpu < 0)
		sched_getaffinity(0, sizeof(s->cpus), &s->cpus);
	if (sched_setaffinity(0, sizeof(set), &set) == 0)
		s->cpu = cpu;
}

void ipt_place_free(struct sess *s)
{
	if (s->cpu >= 0)
		sched_setaffinity(0, sizeof(s->cpus), &s->cpus);
	s->cpu = -1;
}
