/* SPDX-License-Identifier: MIT */
/*
 * What this CPU, kernel and user can record with; which engine is chosen and why not the others.
 * Looks only: opens no device, changes nothing.
 */
#include "cmd.h"

#include <cpuid.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

#define CAP_BIT_SYS_PTRACE 19
#define CAP_BIT_SYS_ADMIN  21
#define CAP_BIT_PERFMON    38

void ipt_cmd_caps_tables(struct ipt_opt_table t[IPT_MAX_TABLES])
{
	t[0].rows = ipt_opts_json;
}

static int read_int(const char *path, int missing)
{
	FILE *f = fopen(path, "re");
	int v;

	if (!f)
		return missing;
	if (fscanf(f, "%d", &v) != 1)
		v = missing;
	fclose(f);
	return v;
}

static void probe_cpu(struct ipt_caps *c)
{
	unsigned a, b, cx, d;

	if (__get_cpuid(0, &a, &b, &cx, &d)) {
		memcpy(c->vendor, &b, 4);
		memcpy(c->vendor + 4, &d, 4);
		memcpy(c->vendor + 8, &cx, 4);
	}
	/* SDM vol. 3C, "Detection of Intel Processor Trace": CPUID.(EAX=07H,ECX=0H):EBX[25]. */
	c->pt_cpu = __get_cpuid_count(7, 0, &a, &b, &cx, &d) && (b >> 25 & 1);
}

static uint64_t effective_caps(void)
{
	FILE *f = fopen("/proc/self/status", "re");
	unsigned long long caps = 0;
	char line[256];

	while (f && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "CapEff: %llx", &caps) == 1)
			break;
	}
	if (f)
		fclose(f);
	return caps;
}

static bool has(const struct ipt_caps *c, unsigned bit)
{
	return c->caps >> bit & 1;
}

static void judge_helper(struct ipt_caps *c, struct ipt_engine_cap *e)
{
	if (!c->pt_cpu)
		snprintf(e->why, sizeof(e->why), "the CPU (%s) shows no Intel PT", c->vendor);
	else if (!c->helper)
		snprintf(e->why, sizeof(e->why),
			 "no /dev/iptrace: the kernel module is not loaded");
	else
		snprintf(e->why, sizeof(e->why), "/dev/iptrace is there; not built yet");
}

static void judge_perf(struct ipt_caps *c, struct ipt_engine_cap *e)
{
	if (c->pt_pmu < 0)
		snprintf(e->why, sizeof(e->why),
			 "no PMU intel_pt (%s): another CPU, or a virtual machine without PT",
			 c->vendor);
	else if (c->paranoid > 2 && !has(c, CAP_BIT_PERFMON) && !has(c, CAP_BIT_SYS_ADMIN))
		snprintf(e->why, sizeof(e->why),
			 "perf_event_paranoid is %d: set kernel.perf_event_paranoid to 2 or less, "
			 "or give CAP_PERFMON; not built yet",
			 c->paranoid);
	else
		snprintf(e->why, sizeof(e->why), "the PMU intel_pt is there; not built yet");
}

/* Engines that need nothing but ptrace. */
static void judge_ptrace(struct ipt_caps *c, struct ipt_engine_cap *e, const char *about)
{
	e->usable = true;
	if (c->ptrace_scope == 3) {
		e->usable = false;
		snprintf(e->why, sizeof(e->why),
			 "kernel.yama.ptrace_scope is 3: no process may be traced until a reboot "
			 "with a lower value");
	} else if (c->ptrace_scope > 0 && !has(c, CAP_BIT_SYS_PTRACE)) {
		snprintf(e->why, sizeof(e->why),
			 "works for programs that iptrace starts; attaching needs CAP_SYS_PTRACE "
			 "or kernel.yama.ptrace_scope 0 (now %d)",
			 c->ptrace_scope);
	} else {
		snprintf(e->why, sizeof(e->why), "%s", about);
	}
}

void ipt_caps_probe(struct ipt_caps *c)
{
	static const char *const names[] = {"helper", "perf", "translate", "step"};

	*c = (struct ipt_caps){0};
	probe_cpu(c);
	c->pt_pmu = read_int("/sys/bus/event_source/devices/intel_pt/type", -1);
	c->helper = access("/dev/iptrace", F_OK) == 0;
	c->ptrace_scope = read_int("/proc/sys/kernel/yama/ptrace_scope", -1);
	c->paranoid = read_int("/proc/sys/kernel/perf_event_paranoid", INT_MIN);
	c->caps = effective_caps();
	for (size_t i = 0; i < IPT_ARRAY_SIZE(names); i++)
		c->engines[i].name = names[i];
	judge_helper(c, &c->engines[0]);
	judge_perf(c, &c->engines[1]);
	judge_ptrace(c, &c->engines[2],
		     "code is translated as it runs, on every x86-64 machine; a few times slower");
	judge_ptrace(c, &c->engines[3], "single-stepping works on every x86-64 machine; slow");
	for (size_t i = 0; i < IPT_ARRAY_SIZE(names) && !c->chosen; i++) {
		if (c->engines[i].usable)
			c->chosen = c->engines[i].name;
	}
}

int ipt_caps_engine(const char *cmd, const char *want, bool verbose, const char **name)
{
	struct ipt_diag diag = {0};
	struct ipt_caps c;

	ipt_caps_probe(&c);
	for (size_t i = 0; i < IPT_ARRAY_SIZE(c.engines); i++) {
		const struct ipt_engine_cap *e = &c.engines[i];

		if (strcmp(want, e->name) &&
		    (strcmp(want, "auto") || i + 1 < IPT_ARRAY_SIZE(c.engines)))
			continue;
		if (!e->usable) {
			ipt_diag_err(&diag, IPT_E_UNSUPPORTED, 0, "engine %s: %s", e->name, e->why);
			return ipt_report_err(cmd, -IPT_E_UNSUPPORTED, &diag, NULL);
		}
	}
	if (strcmp(want, "auto")) {
		*name = want;
		return 0;
	}
	*name = "auto"; /* the session asks the same way and says why */
	if (verbose)
		ipt_report_note(cmd, "engine %s: perf: %s; translate: %s", c.chosen,
				c.engines[1].why, c.engines[2].why);
	return 0;
}

static void tell_text(const struct ipt_caps *c)
{
	printf("cpu vendor          %s\n", c->vendor);
	printf("cpu has Intel PT    %s\n", c->pt_cpu ? "yes" : "no");
	if (c->pt_pmu >= 0)
		printf("intel_pt PMU        type %d\n", c->pt_pmu);
	else
		printf("intel_pt PMU        none\n");
	printf("/dev/iptrace        %s\n", c->helper ? "yes" : "none");
	if (c->ptrace_scope >= 0)
		printf("ptrace_scope        %d\n", c->ptrace_scope);
	else
		printf("ptrace_scope        none (no Yama)\n");
	if (c->paranoid != INT_MIN)
		printf("perf_event_paranoid %d\n", c->paranoid);
	printf("CAP_SYS_PTRACE      %s\n", has(c, CAP_BIT_SYS_PTRACE) ? "yes" : "no");
	printf("CAP_PERFMON         %s\n", has(c, CAP_BIT_PERFMON) ? "yes" : "no");
	printf("CAP_SYS_ADMIN       %s\n\n", has(c, CAP_BIT_SYS_ADMIN) ? "yes" : "no");
	for (size_t i = 0; i < IPT_ARRAY_SIZE(c->engines); i++)
		printf("engine %-10s   %s: %s\n", c->engines[i].name,
		       c->engines[i].usable ? "usable" : "no", c->engines[i].why);
	printf("chosen by auto      %s\n", c->chosen ? c->chosen : "none");
}

static void tell_json(const struct ipt_caps *c)
{
	struct ipt_buf b = {0};
	struct ipt_json j;

	ipt_json_begin(&j, &b);
	ipt_json_open(&j, NULL, '{');
	ipt_json_str(&j, "cpu_vendor", c->vendor);
	ipt_json_bool(&j, "cpu_has_pt", c->pt_cpu);
	if (c->pt_pmu >= 0)
		ipt_json_i64(&j, "intel_pt_type", c->pt_pmu);
	else
		ipt_json_null(&j, "intel_pt_type");
	ipt_json_bool(&j, "dev_iptrace", c->helper);
	if (c->ptrace_scope >= 0)
		ipt_json_i64(&j, "ptrace_scope", c->ptrace_scope);
	else
		ipt_json_null(&j, "ptrace_scope");
	if (c->paranoid != INT_MIN)
		ipt_json_i64(&j, "perf_event_paranoid", c->paranoid);
	else
		ipt_json_null(&j, "perf_event_paranoid");
	ipt_json_bool(&j, "cap_sys_ptrace", has(c, CAP_BIT_SYS_PTRACE));
	ipt_json_bool(&j, "cap_perfmon", has(c, CAP_BIT_PERFMON));
	ipt_json_bool(&j, "cap_sys_admin", has(c, CAP_BIT_SYS_ADMIN));
	ipt_json_open(&j, "engines", '[');
	for (size_t i = 0; i < IPT_ARRAY_SIZE(c->engines); i++) {
		ipt_json_open(&j, NULL, '{');
		ipt_json_str(&j, "name", c->engines[i].name);
		ipt_json_bool(&j, "usable", c->engines[i].usable);
		ipt_json_str(&j, "why", c->engines[i].why);
		ipt_json_close(&j, '}');
	}
	ipt_json_close(&j, ']');
	ipt_json_str(&j, "chosen", c->chosen);
	ipt_json_close(&j, '}');
	fwrite(b.data, 1, b.len, stdout);
	ipt_buf_fini(&b);
}

int ipt_cmd_caps(int argc, char **argv)
{
	struct ipt_diag diag = {0};
	struct ipt_read_opts o;
	struct ipt_caps c;
	int first, status = 0;

	first = ipt_read_parse("caps", argc, argv, &o, &status);
	if (first < 0)
		return status;
	if (first < argc) {
		ipt_diag_err(&diag, IPT_E_USAGE, 0, "takes no argument: '%.100s'", argv[first]);
		return ipt_report_err("caps", -IPT_E_USAGE, &diag, NULL);
	}
	ipt_caps_probe(&c);
	if (o.view.json)
		tell_json(&c);
	else
		tell_text(&c);
	return IPT_EXIT_OK;
}
