/* SPDX-License-Identifier: MIT */
/* x86: instructions over Zydis: length and what matters for control flow; text for listings. */
#ifndef IPT_X86_H
#define IPT_X86_H

#include "base/base.h"

#define IPT_INSN_MAX 15

enum ipt_xmode { /* SDM "MODE.Exec" */
		 IPT_X16,
		 IPT_X32,
		 IPT_X64,
};

enum ipt_iclass {
	IPT_IC_OTHER,
	IPT_IC_COND,     /* jcc, loop*, jrcxz: one TNT bit */
	IPT_IC_JMP,      /* direct: no packet */
	IPT_IC_CALL,     /* direct */
	IPT_IC_JMP_IND,  /* TIP */
	IPT_IC_CALL_IND, /* TIP */
	IPT_IC_RET,      /* near return: TIP or a compressed TNT bit */
	IPT_IC_FAR_CALL, /* SYSCALL, SYSENTER, INT n, INT3, INTO, INT1, far call, UIRET's like: far
			    transfer */
	IPT_IC_FAR_RET,  /* IRET, SYSRET, SYSEXIT, RETF */
	IPT_IC_FAR_JMP,
	IPT_IC_PTWRITE,
};

enum ipt_isub { /* which instruction, where the tracer or a view must know */
		IPT_IS_NONE,
		IPT_IS_SYSCALL,
		IPT_IS_SYSENTER,
		IPT_IS_INT,  /* INT n; imm holds n */
		IPT_IS_INT3, /* CC */
		IPT_IS_INT1,
		IPT_IS_INTO,
		IPT_IS_PUSHF,
		IPT_IS_POPF,
		IPT_IS_IRET,
		IPT_IS_MOV_SS, /* MOV SS or POP SS: the next instruction is not interruptible */
		IPT_IS_XBEGIN, /* class OTHER; target is the abort handler */
		IPT_IS_XABORT,
		IPT_IS_XEND,
		IPT_IS_REP_STRING, /* REP/REPE/REPNE with a string instruction: RIP stays until it
				      is done */
		IPT_IS_RDFSGS_SEG, /* writes fs or gs (mov seg, wrgsbase, ...) */
};

struct ipt_insn {
	uint8_t len;
	uint8_t iclass; /* enum ipt_iclass */
	uint8_t sub;    /* enum ipt_isub */
	uint8_t opsize; /* operand size in bytes for PUSHF, POPF, CALL, RET */
	uint16_t imm;
	uint64_t target; /* of direct branches, truncated to the mode; else 0 */
};

/*
 * Decode the instruction at @ip from @p of @n bytes. 0; -IPT_E_TRUNC when more bytes are needed;
 * -IPT_E_BADINSN for bytes that are none (#UD included: UD0/UD1/UD2 decode as OTHER).
 */
int ipt_x86_decode(struct ipt_insn *insn, const uint8_t *p, size_t n, uint64_t ip,
		   enum ipt_xmode mode);

#define IPT_FLAGS_ARITH 0x3f /* CF PF AF ZF SF OF, bits 0 to 5 of the masks below */

/* How an instruction of 64-bit code is encoded and what it touches: for who moves it elsewhere. */
struct ipt_insn_full {
	struct ipt_insn i;
	uint8_t modrm_off; /* of the ModRM byte; 0: none */
	uint8_t rip_off;   /* of a RIP-relative displacement (4 bytes); 0: none */
	uint8_t op_off;    /* of the opcode byte, after prefixes and REX */
	uint8_t rex;       /* 0: none */
	uint8_t seg;       /* segment override that counts: 0x64 (fs), 0x65 (gs), else 0 */
	bool opsize16;     /* 66 prefix */
	bool addr32;       /* 67 prefix */
	bool vector;       /* VEX, EVEX, XOP, MVEX: no legacy opcode */
	uint8_t flags_read, flags_killed; /* arithmetic flags read; surely overwritten */
};

/* As ipt_x86_decode() of 64-bit code, with more. */
int ipt_x86_decode_full(struct ipt_insn_full *f, const uint8_t *p, size_t n, uint64_t ip);

struct ipt_insn_use {        /* what its operands are */
	uint16_t gpr_read;   /* bit n: the register of number n is read, in part or whole */
	uint16_t gpr_killed; /* wholly overwritten whatever happens */
	bool writes_mem;     /* other than by a push or call */
};

int ipt_x86_decode_use(struct ipt_insn_use *u, const uint8_t *p, size_t n);

enum ipt_syntax {
	IPT_SYNTAX_ATT,
	IPT_SYNTAX_INTEL,
};

/* Append the text of one instruction; @target_name (may be NULL) is put for a direct branch's
 * target. */
int ipt_x86_print(struct ipt_buf *out, const uint8_t *p, size_t n, uint64_t ip, enum ipt_xmode mode,
		  enum ipt_syntax syntax, const char *target_name);
/* The same; *data is the address of a RIP-relative operand, 0 where there is none. */
int ipt_x86_print_data(struct ipt_buf *out, const uint8_t *p, size_t n, uint64_t ip,
		       enum ipt_xmode mode, enum ipt_syntax syntax, const char *target_name,
		       uint64_t *data);

#endif
