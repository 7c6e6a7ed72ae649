/* SPDX-License-Identifier: MIT */
/* What the manifest tells of this machine: CPU and clocks. */
#include <cpuid.h>
#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "session/priv.h"

static void fill_cpu(struct ipt_cpu *c)
{
	unsigned int a, b, d, x, family;

	if (!__get_cpuid(0, &a, &b, &x, &d))
		return;
	memcpy(c->vendor, &b, 4);
	memcpy(c->vendor + 4, &d, 4);
	memcpy(c->vendor + 8, &x, 4);
	__get_cpuid(1, &a, &b, &x, &d);
	family = (a >> 8) & 15;
	c->family = family == 15 ? family + ((a >> 20) & 255) : family;
	c->model = ((a >> 4) & 15) | (family == 6 || family == 15 ? ((a >> 16) & 15) << 4 : 0);
	c->stepping = a & 15;
}

/* perf's own conversion of TSC to its clock, from the control page of an event that counts nothing.
 */
static bool perf_clock(struct ipt_clock *c)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_SW_DUMMY,
		.exclude_kernel = 1,
	};
	int fd = (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
	const volatile struct perf_event_mmap_page *p;
	bool ok = false;

	if (fd < 0)
		return false;
	p = mmap(NULL, (size_t)sysconf(_SC_PAGESIZE), PROT_READ, MAP_SHARED, fd, 0);
	if (p != MAP_FAILED) {
		if (p->cap_user_time && p->cap_user_time_zero && p->time_mult &&
		    p->time_shift < 64) {
			c->mult = p->time_mult;
			c->shift = p->time_shift;
			c->zero = p->time_zero;
			c->tsc_hz = (uint64_t)((__uint128_t)1000000000u << c->shift) / c->mult;
			ok = true;
		}
		munmap((void *)(uintptr_t)p, (size_t)sysconf(_SC_PAGESIZE));
	}
	close(fd);
	return ok;
}

static uint64_t clock_ns(clockid_t id)
{
	struct timespec ts;

	clock_gettime(id, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ull + (uint64_t)ts.tv_nsec;
}

/* Ticks of the monotonic clock since the keeper began, at least for a millisecond: good to about
 * 10^-3. The end of the recording measures again, over all of it. */
static uint64_t measure_hz(const struct sess *s)
{
	uint64_t ns;

	do {
		ns = clock_ns(CLOCK_MONOTONIC_RAW);
	} while (ns - s->begin_ns < 1000000);
	return (uint64_t)((double)(ipt_sess_tsc() - s->begin_tsc) * 1e9 /
			  (double)(ns - s->begin_ns));
}

void ipt_sess_begin_clock(struct sess *s)
{
	s->begin_ns = clock_ns(CLOCK_MONOTONIC_RAW);
	s->begin_tsc = ipt_sess_tsc();
}

void ipt_sess_end_clock(struct sess *s)
{
	if (s->w && s->clock_measured)
		ipt_writer_tsc_hz(s->w, measure_hz(s));
}

static void fill_clock(struct ipt_clock *c, struct sess *s)
{
	unsigned int a, b, x, d;

	if (__get_cpuid(0x15, &a, &b, &x, &d)) {
		c->cpuid_15h_eax = a;
		c->cpuid_15h_ebx = b;
		c->cpuid_15h_ecx = x;
	}
	s->clock_measured = !perf_clock(c);
	if (s->clock_measured)
		c->tsc_hz = measure_hz(s);
	c->start_tsc = ipt_sess_tsc();
	c->start_realtime_ns = clock_ns(CLOCK_REALTIME);
}

void ipt_sess_host_info(struct sess *s, struct ipt_session_info *info)
{
	info->engine = s->backend->name;
	info->slowed = s->backend->slowed;
	info->noretcomp = s->bcfg.pt.noretcomp;
	fill_cpu(&info->cpu);
	fill_clock(&info->clock, s);
}
