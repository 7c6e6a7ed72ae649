/* SPDX-License-Identifier: MIT */
/* The executable mappings of a process from /proc/TID/maps, with the build-ids of their files. */
#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "session/priv.h"

struct line { /* one line of /proc/TID/maps */
	struct amap m;
	bool exec;
};

static uint32_t kind_of(const char *path)
{
	if (path[0] == '/')
		return IPT_SB_MAP_FILE;
	if (!strcmp(path, "[vdso]"))
		return IPT_SB_MAP_VDSO;
	if (!strcmp(path, "[vsyscall]"))
		return IPT_SB_MAP_VSYSCALL;
	return IPT_SB_MAP_ANON;
}

/* The kernel writes a newline in a path as \012; nothing else is escaped. */
static void unescape(char *s)
{
	char *d = s;

	for (; *s; s++) {
		if (!strncmp(s, "\\012", 4)) {
			*d++ = '\n';
			s += 3;
		} else {
			*d++ = *s;
		}
	}
	*d = 0;
}

static bool parse_line(struct line *l, char *text)
{
	unsigned long long start, end, pgoff, inode;
	unsigned int major, minor;
	char prot[5];
	int path = 0;

	if (sscanf(text, "%llx-%llx %4s %llx %x:%x %llu %n", &start, &end, prot, &pgoff, &major,
		   &minor, &inode, &path) < 7 ||
	    end <= start)
		return false;
	unescape(text + path);
	*l = (struct line){
		.m = {.start = start,
		      .end = end,
		      .pgoff = pgoff,
		      .inode = inode,
		      .dev_major = major,
		      .dev_minor = minor,
		      .prot = (prot[0] == 'r' ? PROT_READ : 0u) |
			      (prot[1] == 'w' ? PROT_WRITE : 0u) |
			      (prot[2] == 'x' ? PROT_EXEC : 0u),
		      .kind = kind_of(text + path),
		      .shared = prot[3] == 's',
		      .path = text + path},
		.exec = prot[2] == 'x',
	};
	return true;
}

/* NT_GNU_BUILD_ID in @p of @n bytes of notes. */
static size_t note_build_id(const uint8_t *p, size_t n, uint8_t out[32])
{
	struct ipt_cur c = ipt_cur_make(p, n);

	while (ipt_cur_left(&c) >= 12) {
		uint32_t namesz = ipt_cur_u32(&c), descsz = ipt_cur_u32(&c);
		uint32_t type = ipt_cur_u32(&c);
		const uint8_t *name, *desc;

		if (namesz > n || descsz > n)
			return 0;
		name = ipt_cur_bytes(&c, (namesz + 3u) & ~3u);
		desc = ipt_cur_bytes(&c, (descsz + 3u) & ~3u);
		if (!name || !desc)
			return 0;
		if (type == NT_GNU_BUILD_ID && namesz == 4 && !memcmp(name, "GNU", 4) && descsz &&
		    descsz <= 32) {
			memcpy(out, desc, descsz);
			return descsz;
		}
	}
	return 0;
}

struct note_range {
	uint64_t off, size;
};

/* The k-th program header, when it is a note. */
static bool note_header(const uint8_t *head, size_t n, bool is64, unsigned int k,
			struct note_range *r)
{
	uint64_t phoff = is64 ? ((const Elf64_Ehdr *)(const void *)head)->e_phoff
			      : ((const Elf32_Ehdr *)(const void *)head)->e_phoff;
	size_t size = is64 ? sizeof(Elf64_Phdr) : sizeof(Elf32_Phdr);

	if (phoff > n || (k + 1) * size > n - phoff)
		return false;
	if (is64) {
		Elf64_Phdr ph;

		memcpy(&ph, head + phoff + k * size, size);
		*r = (struct note_range){ph.p_offset, ph.p_filesz};
		return ph.p_type == PT_NOTE;
	} else {
		Elf32_Phdr ph;

		memcpy(&ph, head + phoff + k * size, size);
		*r = (struct note_range){ph.p_offset, ph.p_filesz};
		return ph.p_type == PT_NOTE;
	}
}

/* Build-id of the ELF file whose first page is mapped at @base, read from the process's own memory.
 */
static size_t build_id_at(pid_t tid, uint64_t base, uint8_t out[32])
{
	uint8_t head[4096] __attribute__((aligned(8)));
	size_t n = ipt_mem_read_some(tid, base, head, sizeof(head));
	bool is64;

	if (n < sizeof(Elf64_Ehdr) || memcmp(head, ELFMAG, SELFMAG))
		return 0;
	is64 = head[EI_CLASS] == ELFCLASS64;
	for (unsigned int k = 0; k < 64; k++) {
		struct note_range r;
		size_t got;

		if (!note_header(head, n, is64, k, &r) || r.off > n || r.size > n - r.off)
			continue;
		got = note_build_id(head + r.off, r.size, out);
		if (got)
			return got;
	}
	return 0;
}

static bool same_file(const struct amap *a, const struct amap *b)
{
	return a->inode == b->inode && a->dev_major == b->dev_major && a->dev_minor == b->dev_minor;
}

static void keep(struct amap_list *out, const struct amap *m, const struct amap *first)
{
	struct amap *k = ipt_vec_push(out);

	*k = *m;
	k->path = ipt_xstrdup(m->path);
	if (m->kind == IPT_SB_MAP_FILE && first->path && same_file(first, m) &&
	    first->start <= m->start)
		k->file_start = first->start;
	else if (m->kind == IPT_SB_MAP_VDSO || (m->kind == IPT_SB_MAP_FILE && m->pgoff == 0))
		k->file_start = m->start;
}

void ipt_maps_build_id(struct amap *m, pid_t tid)
{
	if (m->file_start)
		m->n_build_id = build_id_at(tid, m->file_start, m->build_id);
}

int ipt_maps_read(struct amap_list *out, pid_t tid)
{
	char name[64], *text = NULL;
	struct amap first = {0}; /* the last mapping seen that begins a file */
	char *first_path = NULL;
	size_t cap = 0;
	ssize_t n;
	FILE *f;

	*out = (struct amap_list){0};
	snprintf(name, sizeof(name), "/proc/%d/maps", tid);
	f = fopen(name, "re");
	if (!f)
		return -errno;
	while ((n = getline(&text, &cap, f)) > 0) {
		struct line l;

		if (text[n - 1] == '\n')
			text[n - 1] = 0;
		if (!parse_line(&l, text))
			continue;
		if (l.m.kind == IPT_SB_MAP_FILE && l.m.pgoff == 0) {
			free(first_path);
			first = l.m;
			first.path = first_path = ipt_xstrdup(l.m.path);
		}
		if (l.exec && l.m.kind != IPT_SB_MAP_VSYSCALL)
			keep(out, &l.m, &first);
	}
	free(first_path);
	free(text);
	fclose(f);
	return 0;
}

void ipt_maps_fini(struct amap_list *l)
{
	for (size_t i = 0; i < l->n; i++)
		free(l->v[i].path);
	free(l->v);
	*l = (struct amap_list){0};
}
