/* SPDX-License-Identifier: MIT */
/* source: the text of source lines, each file read once and split in place. */
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sym/sym_priv.h"

#define MAX_SOURCE (64u << 20)

struct source {
	char *text; /* owned; NULL: no such file */
	uint32_t *line;
	size_t n;
};

struct ipt_sources {
	struct ipt_u64map files;
};

struct ipt_sources *ipt_sources_new(void)
{
	return ipt_xcalloc(1, sizeof(struct ipt_sources));
}

void ipt_sources_free(struct ipt_sources *s)
{
	size_t it = 0;
	uint64_t key;
	void *v;

	if (!s)
		return;
	while (ipt_u64map_next(&s->files, &it, &key, &v)) {
		struct source *f = v;

		free(f->text);
		free(f->line);
		free(f);
	}
	ipt_u64map_fini(&s->files);
	free(s);
}

static void split_lines(struct source *f, size_t len)
{
	struct {
		uint32_t *v;
		size_t n, cap;
	} at = {0};
	size_t begin = 0;

	for (size_t i = 0; i <= len; i++) {
		if (i < len && f->text[i] != '\n')
			continue;
		if (i > begin || i < len)
			*ipt_vec_push(&at) = (uint32_t)begin;
		f->text[i] = '\0';
		if (i > begin && f->text[i - 1] == '\r')
			f->text[i - 1] = '\0';
		begin = i + 1;
	}
	f->line = at.v;
	f->n = at.n;
}

static void load(struct source *f, const char *path)
{
	int fd = ipt_sym_open_file(path);
	struct stat sb;
	size_t len = 0;
	ssize_t n;

	if (fd < 0)
		return;
	if (fstat(fd, &sb) == 0 && (uint64_t)sb.st_size <= MAX_SOURCE) {
		f->text = ipt_xcalloc(1, (size_t)sb.st_size + 1);
		while (len < (size_t)sb.st_size &&
		       (n = read(fd, f->text + len, (size_t)sb.st_size - len)) > 0)
			len += (size_t)n;
		split_lines(f, len);
	}
	close(fd);
}

const char *ipt_sources_line(struct ipt_sources *s, const char *file, uint32_t line)
{
	struct source *f = ipt_u64map_get(&s->files, (uintptr_t)file);

	if (!f) {
		f = ipt_xcalloc(1, sizeof(*f));
		load(f, file);
		ipt_u64map_put(&s->files, (uintptr_t)file, f);
	}
	return line && line <= f->n ? f->text + f->line[line - 1] : NULL;
}
