/* SPDX-License-Identifier: MIT */
/*
 * engine: software PT. ptgen turns branches into packets; step makes branches by single-stepping.
 * Knows no ptrace and no files: it reaches its thread through struct ipt_remote_ops and hands bytes
 * to a sink.
 */
#ifndef IPT_ENGINE_H
#define IPT_ENGINE_H

#include "base/base.h"
#include "pt/pt.h"
#include "x86/x86.h"

/* --- ptgen: branches in, packet bytes out. User-mode tracing (CTL.User=1, OS=0). --- */

struct ipt_ptgen_cfg {
	bool noretcomp;     /* every RET is a TIP */
	bool long_tnt;      /* TNT up to 47 bits a packet instead of 6 */
	bool no_tsc;        /* no TSC packets at all */
	uint32_t psb_bytes; /* PSB+ at least every so many bytes; 0: 4096; least 128 */
	uint8_t cbr;        /* core:bus ratio told in PSB+; 0: no CBR packet */
};

/* Gets whole packets; @n is small (at most a few hundred bytes a call). */
typedef void (*ipt_ptgen_sink)(void *arg, const uint8_t *p, size_t n);

struct ipt_ptgen;
struct ipt_ptgen *ipt_ptgen_new(const struct ipt_ptgen_cfg *cfg, ipt_ptgen_sink sink, void *arg);
void ipt_ptgen_free(struct ipt_ptgen *g);

/* User code begins or goes on at @ip: PSB+ first when due (always before the first packet), TSC,
 * MODE.Exec when it changed since the last PSB or enable, TIP.PGE. Only while disabled. */
void ipt_ptgen_enable(struct ipt_ptgen *g, uint64_t ip, enum ipt_xmode mode, uint64_t tsc);
/* Synchronous end at a far transfer (SYSCALL, INT n, INT3 ...): TIP.PGD without IP. Only while
 * enabled. */
void ipt_ptgen_disable(struct ipt_ptgen *g, uint64_t tsc);
/* Asynchronous end before @ip (signal, fault): FUP(ip), TIP.PGD without IP. Only while enabled. */
void ipt_ptgen_async(struct ipt_ptgen *g, uint64_t ip, uint64_t tsc);

/* The instruction at @ip executed and went to @next. Looks at insn->iclass; far transfers to user
 * code of another mode (far jump, far return, iret) give TIP with MODE.Exec of @next_mode. SYSCALL
 * and other FAR_CALLs into the kernel give nothing here: the caller calls disable. PSB+ goes out
 * before the packet of a branch when due. */
void ipt_ptgen_insn(struct ipt_ptgen *g, const struct ipt_insn *insn, uint64_t ip, uint64_t next,
		    enum ipt_xmode next_mode, uint64_t tsc);
/* The instruction at @ip is not executed yet; an internal point where a PSB+ may be placed: called
 * by ptgen_insn. */
void ipt_ptgen_ptwrite(struct ipt_ptgen *g, uint64_t ip, uint64_t payload, uint8_t size);
/* Data was lost; execution goes on at @ip: OVF, FUP. */
void ipt_ptgen_overflow(struct ipt_ptgen *g, uint64_t ip, uint64_t tsc);
/* Write out pending TNT bits. Makes the stream decodable to the last branch; costs compression. */
void ipt_ptgen_flush(struct ipt_ptgen *g);
bool ipt_ptgen_enabled(const struct ipt_ptgen *g);
/* Bytes handed to the sink. */
uint64_t ipt_ptgen_pos(const struct ipt_ptgen *g);

#endif
