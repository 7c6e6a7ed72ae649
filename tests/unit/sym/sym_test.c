/* SPDX-License-Identifier: MIT */
/* sym_test: helpers of the tests of sym. */
#include <fcntl.h>
#include <gelf.h>
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

#include "sym_test.h"

static char tmp_dir[64];

void tmp_enter(void)
{
	strcpy(tmp_dir, "/tmp/ipt-sym-XXXXXX");
	if (!mkdtemp(tmp_dir) || chdir(tmp_dir) != 0)
		abort();
}

void tmp_leave(void)
{
	if (chdir("/") != 0)
		abort();
	run("rm -rf %s", tmp_dir);
}

static char *command(const char *fmt, va_list ap)
{
	char *cmd;

	if (vasprintf(&cmd, fmt, ap) < 0)
		abort();
	return cmd;
}

bool run(const char *fmt, ...)
{
	va_list ap;
	char *cmd;
	int rc;

	va_start(ap, fmt);
	cmd = command(fmt, ap);
	va_end(ap);
	rc = system(cmd);
	free(cmd);
	return rc == 0;
}

FILE *output_of(const char *fmt, ...)
{
	va_list ap;
	char *cmd;
	FILE *f;

	va_start(ap, fmt);
	cmd = command(fmt, ap);
	va_end(ap);
	f = popen(cmd, "r");
	free(cmd);
	if (!f)
		abort();
	return f;
}

bool have_tool(const char *name)
{
	return run("command -v %s >/dev/null 2>&1", name);
}

static size_t read_id(Elf *e, uint8_t id[64])
{
	Elf_Scn *scn = NULL;
	GElf_Shdr sh;

	while ((scn = elf_nextscn(e, scn))) {
		Elf_Data *d = gelf_getshdr(scn, &sh) && sh.sh_type == SHT_NOTE
				      ? elf_getdata(scn, NULL)
				      : NULL;
		GElf_Nhdr nh;
		size_t name, desc;

		if (d && gelf_getnote(d, 0, &nh, &name, &desc) && nh.n_type == NT_GNU_BUILD_ID &&
		    nh.n_descsz <= 64) {
			memcpy(id, (char *)d->d_buf + desc, nh.n_descsz);
			return nh.n_descsz;
		}
	}
	return 0;
}

bool maps_of(struct maps *m, const char *path, bool with_id)
{
	int fd = open(path, O_RDONLY);
	size_t n = 0, n_id;
	Elf *e;

	memset(m, 0, sizeof(*m));
	elf_version(EV_CURRENT);
	e = fd >= 0 ? elf_begin(fd, ELF_C_READ, NULL) : NULL;
	if (!e || !realpath(path, m->path) || elf_getphdrnum(e, &n) != 0)
		return false;
	n_id = with_id ? read_id(e, m->build_id) : 0;
	for (size_t i = 0; i < n && m->n < 8; i++) {
		struct ipt_map *p = &m->v[m->n];
		GElf_Phdr ph;

		if (!gelf_getphdr(e, (int)i, &ph) || ph.p_type != PT_LOAD || !(ph.p_flags & PF_X))
			continue;
		p->start = (ph.p_vaddr & ~4095ULL) + BIAS;
		p->end = ((ph.p_vaddr + ph.p_memsz + 4095) & ~4095ULL) + BIAS;
		p->pgoff = ph.p_offset & ~4095ULL;
		p->path = m->path;
		p->kind = IPT_SB_MAP_FILE;
		p->build_id = m->build_id;
		p->n_build_id = n_id;
		p->id = (uint32_t)++m->n;
	}
	elf_end(e);
	close(fd);
	return m->n > 0;
}

const struct ipt_map *map_at(const struct maps *m, uint64_t link_va)
{
	for (size_t i = 0; i < m->n; i++)
		if (link_va + BIAS >= m->v[i].start && link_va + BIAS < m->v[i].end)
			return &m->v[i];
	return NULL;
}

static void count_warning(void *arg, const char *text)
{
	(void)text;
	if (arg)
		++*(unsigned *)arg;
}

struct ipt_sym *sym_with(const char *const *search, bool no_demangle, unsigned *warnings)
{
	struct ipt_sym_cfg cfg = {.search = search, .no_demangle = no_demangle};
	struct ipt_diag diag = {.warn = count_warning, .warn_arg = warnings};
	struct ipt_sym *s;

	if (ipt_sym_new(&s, NULL, &cfg, &diag) != 0)
		abort();
	return s;
}

const struct ipt_func *func_at(struct ipt_sym *s, const struct maps *m, uint64_t link_va)
{
	return ipt_sym_func(s, map_at(m, link_va), link_va + BIAS);
}

uint64_t nm_addr(const char *path, const char *name)
{
	FILE *f = output_of("nm '%s' 2>/dev/null", path);
	unsigned long long va, found = 0;
	char line[1024], sym[512], type;

	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "%llx %c %511s", &va, &type, sym) == 3 && strcmp(sym, name) == 0)
			found = va;
	pclose(f);
	return found;
}
