/* SPDX-License-Identifier: MIT */
/* Feeds every file of the folders named on the command line to a fuzz target, once, and the empty
 * input. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

static int feed(const char *path)
{
	uint8_t *p = NULL;
	struct stat st;
	size_t n = 0;
	FILE *f;

	if (stat(path, &st) || !S_ISREG(st.st_mode))
		return 0;
	f = fopen(path, "rbe");
	/* Exactly the file's size, so that the sanitizer sees a read beyond it. */
	p = f ? malloc((size_t)st.st_size + !st.st_size) : NULL;
	if (!p) {
		perror(path);
		exit(1);
	}
	n = fread(p, 1, (size_t)st.st_size, f);
	fclose(f);
	LLVMFuzzerTestOneInput(p, n);
	free(p);
	return 1;
}

static int feed_folder(const char *dir)
{
	struct dirent *e;
	char path[4096];
	int n = 0;
	DIR *d = opendir(dir);

	if (!d) {
		perror(dir);
		exit(1);
	}
	while ((e = readdir(d))) {
		snprintf(path, sizeof(path), "%s/%s", dir, e->d_name);
		n += feed(path);
	}
	closedir(d);
	return n;
}

int main(int argc, char **argv)
{
	int n = 0;

	LLVMFuzzerTestOneInput((const uint8_t *)"", 0);
	for (int i = 1; i < argc; i++)
		n += feed_folder(argv[i]);
	printf("%d inputs\n", n);
	/* An empty corpus tests nothing and must not pass. */
	return n ? 0 : 1;
}
