/* SPDX-License-Identifier: MIT */
/* Remarks of a recorder on processes: few, short, each kept once. */
#include <stdlib.h>

#include "internal.h"

/* At most the limit, and not inside a character of UTF-8. */
static size_t cut(const char *text)
{
	size_t n = strnlen(text, IPT_STORE_MAX_NOTE + 1);

	if (n <= IPT_STORE_MAX_NOTE)
		return n;
	n = IPT_STORE_MAX_NOTE;
	for (size_t k = 0; k < 3 && ((uint8_t)text[n] & 0xc0) == 0x80; k++)
		n--;
	return n;
}

void ipt_model_note(struct ipt_model *m, uint32_t pid, const char *text)
{
	struct ipt_proc_info *p = ipt_u64map_get(&m->by_pid, pid);
	size_t n = cut(text);

	if (!p || !n || p->n_notes >= IPT_STORE_MAX_NOTES || m->n_notes >= IPT_STORE_MAX_ALL_NOTES)
		return;
	text = ipt_intern_strn(m->strs, text, n);
	for (size_t i = 0; i < p->n_notes; i++) {
		if (!strcmp(p->notes[i], text))
			return;
	}
	if (!p->notes)
		p->notes = ipt_xcalloc(IPT_STORE_MAX_NOTES, sizeof(*p->notes));
	p->notes[p->n_notes++] = text;
	m->n_notes++;
}

static uint64_t key_of(const struct ipt_proc_info *p)
{
	return (uint64_t)p->gen << 32 | p->pid;
}

void ipt_model_move_notes(struct ipt_model *m, struct ipt_model *from)
{
	struct ipt_u64map by_gen = {0};

	if (!from->n_notes)
		return;
	for (size_t i = 0; i < m->procs.n; i++)
		ipt_u64map_put(&by_gen, key_of(m->procs.v[i]), m->procs.v[i]);
	for (size_t i = 0; i < from->procs.n; i++) {
		struct ipt_proc_info *f = from->procs.v[i];
		struct ipt_proc_info *p = ipt_u64map_get(&by_gen, key_of(f));

		if (!p || p->notes)
			continue;
		p->notes = f->notes;
		p->n_notes = f->n_notes;
		f->notes = NULL;
		f->n_notes = 0;
	}
	ipt_u64map_fini(&by_gen);
}
