/* SPDX-License-Identifier: MIT */
/* Makes a trace directory of an LLDB intel-pt bundle. All is checked before anything is written. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <gelf.h>

#include "lldb_in.h"

#define PAGE           4096ull
#define MAX_JSON       (64u << 20)
#define MAX_SEGMENT    (1ull << 30)
#define MAX_BUILD_ID   64
#define MAX_SEGMENTS   64
#define PROT_READ_EXEC (PROT_READ | PROT_EXEC)

struct import {
	struct ipt_writer *w;
	struct ipt_diag *diag;
	int dirfd; /* of the json */
	struct ipt_sb_head head;
};

static int open_bundle(int *dirfd, char **json, const char *path, struct ipt_diag *diag)
{
	struct stat st;
	char *folder, *slash;

	if (stat(path, &st) < 0)
		return ipt_diag_err(diag, errno, 0, "%s: %s", path, strerror(errno));
	folder = ipt_xstrdup(path);
	if (S_ISDIR(st.st_mode)) {
		*json = ipt_xstrdup("trace.json");
	} else {
		slash = strrchr(folder, '/');
		*json = ipt_xstrdup(slash ? slash + 1 : folder);
		if (slash)
			slash[slash == folder] = 0;
		else
			strcpy(folder, ".");
	}
	*dirfd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	free(folder);
	if (*dirfd < 0) {
		free(*json);
		*json = NULL;
		return ipt_diag_err(diag, errno, 0, "%s: %s", path, strerror(errno));
	}
	return 0;
}

/* --- modules --- */

struct segment {
	uint64_t va, off, n; /* of whole pages; off in the file */
};

struct module {
	struct segment seg[MAX_SEGMENTS];
	size_t n_seg;
	uint8_t build_id[MAX_BUILD_ID];
	size_t n_build_id;
};

static void read_build_id(struct module *m, Elf *elf, const GElf_Phdr *ph)
{
	Elf_Data *d = elf_getdata_rawchunk(elf, (int64_t)ph->p_offset, ph->p_filesz, ELF_T_NHDR);
	size_t off = 0, name, desc;
	GElf_Nhdr nh;

	while (d && !m->n_build_id && (off = gelf_getnote(d, off, &nh, &name, &desc)) > 0) {
		if (nh.n_type != NT_GNU_BUILD_ID || nh.n_namesz != 4 ||
		    memcmp((char *)d->d_buf + name, "GNU", 4) || nh.n_descsz > MAX_BUILD_ID)
			continue;
		memcpy(m->build_id, (char *)d->d_buf + desc, nh.n_descsz);
		m->n_build_id = nh.n_descsz;
	}
}

/* Executable segments in whole pages, at their run-time addresses. */
static const char *read_elf(struct module *m, Elf *elf, uint64_t load)
{
	uint64_t lowest = UINT64_MAX;
	GElf_Phdr ph;
	size_t n;

	if (elf_getphdrnum(elf, &n))
		return "no program headers";
	for (size_t i = 0; i < n && i < UINT16_MAX; i++) {
		if (gelf_getphdr(elf, (int)i, &ph) && ph.p_type == PT_LOAD)
			lowest = ipt_min_u64(lowest, ph.p_vaddr & ~(PAGE - 1));
	}
	for (size_t i = 0; i < n && i < UINT16_MAX; i++) {
		struct segment *s = &m->seg[m->n_seg];
		uint64_t lead;

		if (!gelf_getphdr(elf, (int)i, &ph))
			continue;
		if (ph.p_type == PT_NOTE && !m->n_build_id)
			read_build_id(m, elf, &ph);
		if (ph.p_type != PT_LOAD || !(ph.p_flags & PF_X) || !ph.p_filesz)
			continue;
		if (ph.p_filesz > MAX_SEGMENT || (ph.p_offset ^ ph.p_vaddr) & (PAGE - 1) ||
		    m->n_seg >= MAX_SEGMENTS)
			return "segments beyond all sense";
		lead = ph.p_vaddr & (PAGE - 1);
		s->va = load + (ph.p_vaddr - lead - lowest);
		s->off = ph.p_offset - lead;
		s->n = (lead + ph.p_filesz + PAGE - 1) & ~(PAGE - 1);
		if (s->va + s->n < s->va)
			return "a segment beyond the address space";
		m->n_seg++;
	}
	return NULL;
}

static const char *read_module(struct module *m, const uint8_t *p, size_t n, uint64_t load)
{
	const char *why;
	Elf *elf;

	*m = (struct module){0};
	if (n < 4 || memcmp(p, ELFMAG, 4)) {
		/* Raw code bytes. */
		if (!n || n > MAX_SEGMENT || load + n < load)
			return "no bytes, or too many";
		m->seg[m->n_seg++] = (struct segment){.va = load, .n = n};
		return NULL;
	}
	elf_version(EV_CURRENT);
	/* The map is private: should libelf write, the file stays. */
	elf = elf_memory((char *)(uintptr_t)p, n);
	if (!elf || elf_kind(elf) != ELF_K_ELF)
		why = "not an ELF file that can be read";
	else
		why = read_elf(m, elf, load);
	elf_end(elf);
	return why;
}

static void map_segment(struct import *im, const struct ipt_lldb_module *lm, const struct module *m,
			const struct segment *s, const uint8_t *p, size_t n)
{
	struct ipt_sb_map map = {.start = s->va,
				 .end = s->va + s->n,
				 .pgoff = s->off,
				 .prot = PROT_READ_EXEC,
				 .kind = strcmp(lm->path, "[vdso]") ? IPT_SB_MAP_FILE
								    : IPT_SB_MAP_VDSO};
	uint8_t *bytes;
	int err;

	if (s->off >= n) {
		ipt_diag_warn(im->diag, "%s: a segment beyond the file", lm->path);
		return;
	}
	/* The last page of a file is filled with zeroes, as the kernel maps it. */
	bytes = ipt_xcalloc(s->n, 1);
	memcpy(bytes, p + s->off, ipt_min_u64(s->n, n - s->off));
	err = ipt_writer_image(im->w, bytes, s->n, map.image);
	free(bytes);
	if (err)
		ipt_diag_warn(im->diag, "%s: %s", lm->path, ipt_strerror(err));
	ipt_writer_map(im->w, IPT_SB_MAP, &im->head, &map, NULL, 0, m->build_id, m->n_build_id,
		       lm->path);
}

static bool uuid_is(const char *uuid, const uint8_t *id, size_t n)
{
	size_t k = 0;

	for (; *uuid; uuid++) {
		char two[3] = {uuid[0], uuid[1], 0};

		if (*uuid == '-')
			continue;
		if (k >= n || strtoul(two, NULL, 16) != id[k++])
			return false;
		uuid++;
		if (!*uuid)
			return false;
	}
	return k == n;
}

static void add_module(struct import *im, const struct ipt_lldb_module *lm)
{
	const char *file = lm->file ? lm->file : lm->path;
	struct ipt_diag d = {0};
	struct module m;
	const uint8_t *p;
	const char *why;
	size_t n;

	if (ipt_file_map(&p, &n, im->dirfd, file, 0, &d)) {
		ipt_diag_warn(im->diag, "module %s; its code is not in the trace", d.text);
		return;
	}
	why = read_module(&m, p, n, lm->load);
	if (why)
		ipt_diag_warn(im->diag, "module %s: %s; its code is not in the trace", file, why);
	else if (lm->uuid && m.n_build_id && !uuid_is(lm->uuid, m.build_id, m.n_build_id))
		ipt_diag_warn(im->diag, "module %s: its build-id is not the bundle's uuid", file);
	for (size_t i = 0; !why && i < m.n_seg; i++)
		map_segment(im, lm, &m, &m.seg[i], p, n);
	ipt_file_unmap(p, n);
}

/* --- threads --- */

static int add_thread(struct import *im, const struct ipt_lldb_process *p, size_t i,
		      const char *comm)
{
	const struct ipt_lldb_thread *lt = &p->threads.v[i];
	struct ipt_sb_thread_start start = {.flags = i ? 0 : IPT_SB_TF_LEADER};
	struct ipt_sb_thread_exit exit = {.flags = 4};
	struct ipt_wthread *t;
	const uint8_t *pt;
	size_t n;
	int err;

	err = ipt_file_map(&pt, &n, im->dirfd, lt->trace, 0, im->diag);
	if (err)
		return err;
	t = ipt_writer_thread(im->w, (pid_t)p->pid, (pid_t)lt->tid, &start, comm, 0);
	im->head = (struct ipt_sb_head){
		.pid = p->pid, .tid = lt->tid, .gen = ipt_wthread_gen(t), .flags = IPT_SB_F_NO_TSC};
	for (size_t k = 0; !i && k < p->modules.n; k++)
		add_module(im, &p->modules.v[k]);
	ipt_wthread_pt(t, pt, n);
	ipt_wthread_exit(t, &exit, 0);
	ipt_file_unmap(pt, n);
	return 0;
}

static int add_process(struct import *im, const struct ipt_lldb_process *p)
{
	const char *comm = p->modules.n ? p->modules.v[0].path : "";
	const char *slash = strrchr(comm, '/');
	int err = 0;

	if (!p->threads.n)
		ipt_diag_warn(im->diag, "process %u has no threads", p->pid);
	for (size_t i = 0; !err && i < p->threads.n; i++)
		err = add_thread(im, p, i, slash ? slash + 1 : comm);
	return err;
}

/* What would fail half way is tried before the first byte is written. */
static int check_files(const struct ipt_lldb *b, int dirfd, struct ipt_diag *diag)
{
	for (size_t i = 0; i < b->procs.n; i++) {
		const struct ipt_lldb_process *p = &b->procs.v[i];

		for (size_t k = 0; k < p->threads.n; k++) {
			struct ipt_diag d = {0};
			const uint8_t *pt;
			size_t n;
			int err = ipt_file_map(&pt, &n, dirfd, p->threads.v[k].trace, 0, &d);

			if (err)
				return ipt_diag_err(diag, -err, 0,
						    "processes[%zu].threads[%zu]: %s", i, k,
						    d.text);
			ipt_file_unmap(pt, n);
		}
		for (size_t k = 0; k < p->modules.n; k++) {
			const struct ipt_lldb_module *m = &p->modules.v[k];

			if (m->load & (PAGE - 1))
				return ipt_diag_err(diag, IPT_E_BADJSON, m->load,
						    "processes[%zu].modules[%zu].loadAddress: "
						    "0x%llx is not the start of a page",
						    i, k, (unsigned long long)m->load);
		}
	}
	return 0;
}

static int write_all(struct ipt_lldb *b, int dirfd, const struct ipt_writer_cfg *cfg,
		     struct ipt_diag *diag)
{
	static const char *const no_options[] = {NULL};
	struct ipt_session_info info = {.engine = "import",
					.tool = "iptrace " IPT_VERSION,
					.command = "import",
					.options = no_options,
					.cpu = b->cpu,
					.clock = b->clock};
	struct import im = {.diag = diag, .dirfd = dirfd};
	int fd, err;

	err = ipt_writer_new(&im.w, cfg, &info, diag);
	if (err)
		return err;
	for (size_t i = 0; !err && i < b->procs.n; i++)
		err = add_process(&im, &b->procs.v[i]);
	if (!err)
		return ipt_writer_finish(im.w, -1, diag);
	ipt_writer_abandon(im.w);
	if (!ipt_store_open_dir(&fd, AT_FDCWD, cfg->dir)) {
		ipt_store_clear_dir(fd, NULL, cfg->dir);
		close(fd);
		rmdir(cfg->dir);
	}
	return err;
}

int ipt_import_lldb(const char *path, const struct ipt_writer_cfg *cfg, struct ipt_diag *diag)
{
	struct ipt_lldb b = {0};
	struct ipt_diag d = {0};
	uint8_t *p = NULL;
	char *json;
	size_t n;
	int dirfd = -1, err;

	err = open_bundle(&dirfd, &json, path, diag);
	if (err)
		return err;
	err = ipt_file_read(&p, &n, dirfd, json, MAX_JSON, 0, diag);
	if (!err) {
		err = ipt_lldb_parse(&b, p, n, &d);
		if (!err)
			err = check_files(&b, dirfd, &d);
		if (err)
			ipt_diag_err(diag, -err, d.pos, "%s: %s", json, d.text);
	}
	if (!err)
		err = write_all(&b, dirfd, cfg, diag);
	ipt_lldb_fini(&b);
	free(p);
	free(json);
	close(dirfd);
	return err;
}
