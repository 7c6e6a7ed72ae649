/* SPDX-License-Identifier: MIT */
/* Any bytes as manifest.json: an error or a manifest, and what is written of that reads back as the
 * same text. */
#include <stdlib.h>

#include "store/internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

static void write_again(const struct ipt_manifest *m, struct ipt_buf *text)
{
	struct ipt_manifest again;
	struct ipt_buf second = {0};
	struct ipt_diag diag = {0};

	ipt_manifest_write(text, m, &m->sum);
	ipt_manifest_init(&again);
	if (ipt_manifest_parse(&again, text->data, text->len, &diag))
		abort();
	ipt_manifest_write(&second, &again, &again.sum);
	if (second.len != text->len || memcmp(second.data, text->data, text->len))
		abort();
	ipt_manifest_fini(&again);
	ipt_buf_fini(&second);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	struct ipt_diag diag = {0};
	struct ipt_buf text = {0};
	struct ipt_manifest m;
	int err;

	ipt_manifest_init(&m);
	err = ipt_manifest_parse(&m, p, n, &diag);
	if (err > 0 || (err && !*diag.text))
		abort();
	if (!err)
		write_again(&m, &text);
	ipt_manifest_fini(&m);
	ipt_buf_fini(&text);
	return 0;
}
