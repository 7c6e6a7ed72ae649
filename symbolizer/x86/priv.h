/* SPDX-License-Identifier: MIT */
/* What the files over Zydis share. Only the files of this folder include Zydis' headers. */
#ifndef IPT_X86_PRIV_H
#define IPT_X86_PRIV_H

#include <Zydis/Zydis.h>

#include "x86/x86.h"

/* A thread's own decoder for @mode. */
const ZydisDecoder *ipt_x86_decoder(enum ipt_xmode mode);
/* Error code of a decode of @n bytes; 0 when it went well. */
int ipt_x86_status(ZyanStatus st, size_t n);
void ipt_x86_classify(struct ipt_insn *insn, const ZydisDecodedInstruction *z, uint64_t ip,
		      enum ipt_xmode mode);
bool ipt_x86_is_string_op(const ZydisDecodedInstruction *z);

#endif
