/* SPDX-License-Identifier: MIT */
/*
 * debugfile: where the ELF file of a map and its debug data are. Paths come from a trace and from
 * files, so what they name may be anything: only regular files are opened, without waiting, and
 * only one that proves to be the file of the trace is used.
 */
#include <fcntl.h>
#include <libgen.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sym/sym_priv.h"

#define MAX_FILE_SIZE (16ULL << 30)
#define DEBUG_ROOT    "/usr/lib/debug"

int ipt_sym_open_file(const char *path)
{
	int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
	struct stat sb;

	if (fd < 0)
		return -1;
	if (fstat(fd, &sb) != 0 || !S_ISREG(sb.st_mode) || (uint64_t)sb.st_size > MAX_FILE_SIZE) {
		close(fd);
		return -1;
	}
	return fd;
}

static struct ipt_elf *open_elf(const char *path)
{
	struct ipt_elf *e;
	int fd = ipt_sym_open_file(path);

	if (fd < 0 || ipt_elf_open(&e, fd, path, NULL) != 0)
		return NULL;
	return e;
}

static bool same_id(const struct ipt_elf *e, const uint8_t *id, size_t n)
{
	return n && e->n_build_id == n && memcmp(e->build_id, id, n) == 0;
}

/* Without a build-id the code bytes must agree; without those too, the inode. */
static bool is_file_of(const struct ipt_elf *e, const struct ipt_map *map)
{
	struct stat sb;

	if (map->n_build_id)
		return same_id(e, map->build_id, map->n_build_id);
	if (map->bytes)
		return ipt_elf_holds(e, map->pgoff, map->bytes, map->end - map->start);
	return !map->inode || (fstat(e->fd, &sb) == 0 && sb.st_ino == map->inode);
}

static struct ipt_elf *try_map_file(const char *path, const struct ipt_map *map, bool *other)
{
	struct ipt_elf *e = open_elf(path);

	if (!e || is_file_of(e, map))
		return e;
	*other = true;
	ipt_elf_close(e);
	return NULL;
}

/* "ROOT/.build-id/xx/yyyySUFFIX"; NULL when the id is too short. */
static char *id_path(const char *root, const uint8_t *id, size_t n, const char *suffix)
{
	struct ipt_buf b = {0};

	if (n < 2)
		return NULL;
	ipt_buf_printf(&b, "%s/.build-id/%02x/", root, id[0]);
	for (size_t i = 1; i < n; i++)
		ipt_buf_printf(&b, "%02x", id[i]);
	ipt_buf_append(&b, suffix, strlen(suffix) + 1);
	return (char *)b.data;
}

static struct ipt_elf *try_id_path(const char *root, const uint8_t *id, size_t n,
				   const char *suffix)
{
	char *path = id_path(root, id, n, suffix);
	struct ipt_elf *e = path ? open_elf(path) : NULL;

	free(path);
	if (e && !same_id(e, id, n)) {
		ipt_elf_close(e);
		e = NULL;
	}
	return e;
}

static struct ipt_elf *try_folder(const char *root, const struct ipt_map *map)
{
	const char *base = strrchr(map->path, '/');
	struct ipt_elf *e;
	bool other;
	char *path;

	path = ipt_xasprintf("%s/%s", root, base ? base + 1 : map->path);
	e = try_map_file(path, map, &other);
	free(path);
	if (!e) {
		path = ipt_xasprintf("%s/%s", root, map->path);
		e = try_map_file(path, map, &other);
		free(path);
	}
	if (!e)
		e = try_id_path(root, map->build_id, map->n_build_id, "");
	if (!e)
		e = try_id_path(root, map->build_id, map->n_build_id, ".debug");
	return e;
}

struct ipt_elf *ipt_sym_find_elf(const struct ipt_sym_cfg *cfg, const struct ipt_map *map,
				 bool *replaced)
{
	struct ipt_elf *e = NULL;

	*replaced = false;
	if (!cfg->no_local && map->path[0] == '/')
		e = try_map_file(map->path, map, replaced);
	for (size_t i = 0; !e && cfg->search && cfg->search[i]; i++)
		e = try_folder(cfg->search[i], map);
	if (!e)
		e = try_id_path(DEBUG_ROOT, map->build_id, map->n_build_id, "");
	if (!e)
		e = try_id_path(DEBUG_ROOT, map->build_id, map->n_build_id, ".debug");
	return e;
}

/* --- separate debug data --- */

static uint32_t crc_step(uint32_t crc, const uint8_t *p, size_t n)
{
	static __thread uint32_t table[256];

	if (!table[1])
		for (uint32_t i = 0; i < 256; i++) {
			uint32_t c = i;

			for (int k = 0; k < 8; k++)
				c = c & 1 ? 0xedb88320u ^ (c >> 1) : c >> 1;
			table[i] = c;
		}
	for (size_t i = 0; i < n; i++)
		crc = table[(crc ^ p[i]) & 0xff] ^ (crc >> 8);
	return crc;
}

static bool crc_is(int fd, uint32_t want)
{
	uint8_t *buf = ipt_xcalloc(1, 1 << 16);
	uint32_t crc = ~0u;
	off_t off = 0;
	ssize_t n;

	while ((n = pread(fd, buf, 1 << 16, off)) > 0) {
		crc = crc_step(crc, buf, (size_t)n);
		off += n;
	}
	free(buf);
	return n == 0 && ~crc == want;
}

/* Takes @path. A debuglink is proven by its CRC. */
static struct ipt_elf *try_link(char *path, const struct ipt_elf *e, uint32_t crc)
{
	struct ipt_elf *d = NULL;
	int fd = strcmp(path, e->path) == 0 ? -1 : ipt_sym_open_file(path);

	if (fd >= 0 && !crc_is(fd, crc))
		close(fd);
	else if (fd >= 0 && ipt_elf_open(&d, fd, path, NULL) != 0)
		d = NULL;
	free(path);
	return d;
}

static struct ipt_elf *find_link(const struct ipt_sym_cfg *cfg, const struct ipt_elf *e)
{
	uint32_t crc;
	const char *name = ipt_elf_debuglink(e, &crc);
	char *copy, *dir;
	struct ipt_elf *d;

	if (!name || strchr(name, '/') || !name[0])
		return NULL;
	copy = ipt_xstrdup(e->path);
	dir = dirname(copy);
	d = try_link(ipt_xasprintf("%s/%s", dir, name), e, crc);
	if (!d)
		d = try_link(ipt_xasprintf("%s/.debug/%s", dir, name), e, crc);
	if (!d)
		d = try_link(ipt_xasprintf(DEBUG_ROOT "%s/%s", dir, name), e, crc);
	for (size_t i = 0; !d && cfg->search && cfg->search[i]; i++)
		d = try_link(ipt_xasprintf("%s/%s", cfg->search[i], name), e, crc);
	free(copy);
	return d;
}

struct ipt_elf *ipt_sym_find_debug(const struct ipt_sym_cfg *cfg, const struct ipt_elf *e)
{
	struct ipt_elf *d = try_id_path(DEBUG_ROOT, e->build_id, e->n_build_id, ".debug");

	for (size_t i = 0; !d && cfg->search && cfg->search[i]; i++)
		d = try_id_path(cfg->search[i], e->build_id, e->n_build_id, ".debug");
	return d ? d : find_link(cfg, e);
}

struct ipt_elf *ipt_sym_find_alt(const struct ipt_elf *debug)
{
	const uint8_t *id;
	size_t n;
	const char *name = ipt_elf_altlink(debug, &id, &n);
	char *copy, *path;
	struct ipt_elf *alt;

	if (!name || !name[0])
		return NULL;
	copy = ipt_xstrdup(debug->path);
	path = name[0] == '/' ? ipt_xstrdup(name) : ipt_xasprintf("%s/%s", dirname(copy), name);
	alt = open_elf(path);
	free(copy);
	free(path);
	if (alt && !same_id(alt, id, n)) {
		ipt_elf_close(alt);
		alt = NULL;
	}
	return alt ? alt : try_id_path(DEBUG_ROOT, id, n, ".debug");
}
