/* SPDX-License-Identifier: MIT */
/* Plugin for qemu-user: stores the address of each executed block in a ring of its virtual
 * processor, the least that a recorder can do. With "stat=on" it says at the end how many there
 * were. Debian has no package with qemu's header, so the few functions are declared here by their
 * documentation ("QEMU TCG Plugins"); API_VERSION comes from the builder, which tries which one the
 * installed qemu takes. */
#include <inttypes.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#ifndef API_VERSION
#define API_VERSION 1
#endif
#define SHOWN __attribute__((visibility("default")))

enum { CB_NO_REGS = 0, VCPUS = 64, RING_BLOCKS = 1 << 17 };

struct qemu_plugin_tb;
typedef uint64_t qemu_plugin_id_t;

void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id,
					   void (*cb)(qemu_plugin_id_t, struct qemu_plugin_tb *));
void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *tb,
					  void (*cb)(unsigned int, void *), int flags, void *data);
void qemu_plugin_register_atexit_cb(qemu_plugin_id_t id, void (*cb)(qemu_plugin_id_t, void *),
				    void *data);
uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *tb);

extern int qemu_plugin_version;
int qemu_plugin_install(qemu_plugin_id_t id, const void *info, int argc, char **argv);

SHOWN int qemu_plugin_version = API_VERSION;

static struct ring {
	_Alignas(64) uint64_t n;
	_Alignas(64) uint64_t pc[RING_BLOCKS];
} rings[VCPUS];

static void on_exec(unsigned int vcpu, void *data)
{
	struct ring *r = &rings[vcpu % VCPUS];

	r->pc[r->n++ % RING_BLOCKS] = (uintptr_t)data;
}

static void on_translate(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	(void)id;
	qemu_plugin_register_vcpu_tb_exec_cb(tb, on_exec, CB_NO_REGS,
					     (void *)(uintptr_t)qemu_plugin_tb_vaddr(tb));
}

static void on_exit_say(qemu_plugin_id_t id, void *data)
{
	uint64_t n = 0;

	(void)id;
	(void)data;
	for (size_t i = 0; i < VCPUS; i++)
		n += rings[i].n;
	fprintf(stderr, "blocks %" PRIu64 "\n", n);
}

SHOWN int qemu_plugin_install(qemu_plugin_id_t id, const void *info, int argc, char **argv)
{
	(void)info;
	for (int i = 0; i < argc; i++) {
		if (!strcmp(argv[i], "stat=on"))
			qemu_plugin_register_atexit_cb(id, on_exit_say, NULL);
	}
	qemu_plugin_register_vcpu_tb_trans_cb(id, on_translate);
	return 0;
}
