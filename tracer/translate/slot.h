/* SPDX-License-Identifier: MIT */
/*
 * The control block of one thread in the memory it shares with the tracer, which its gs base points
 * to; and the map of that memory. Read by C and by the assembler.
 */
#ifndef IPT_XLATE_SLOT_H
#define IPT_XLATE_SLOT_H

/* Offsets into struct ipt_xl_slot. */
#define SL_PTR      0x00 /* where the next record goes */
#define SL_LIM      0x08 /* the segment is full from here on */
#define SL_RCX      0x10 /* registers put aside by inserted code */
#define SL_RAX      0x18
#define SL_RDX      0x20
#define SL_TMP      0x28
#define SL_FLAGS    0x30 /* as LAHF and SETO AL leave them in AX */
#define SL_NOTIFY   0x38 /* the syscall being made changes mappings */
#define SL_STATE    0x40 /* of the request: enum below */
#define SL_KIND     0x44
#define SL_ID       0x48
#define SL_SPIN     0x4c /* rounds to spin before sleeping; at least 1 */
#define SL_TARGET   0x50 /* original address at which the thread stands */
#define SL_REPLY    0x58 /* where it goes on */
#define SL_SAVE_RAX 0x60
#define SL_SAVE_RCX 0x68
#define SL_SAVE_RDX 0x70
#define SL_SAVE_RSI 0x78
#define SL_SAVE_RDI 0x80
#define SL_SAVE_R10 0x88
#define SL_SAVE_R11 0x90
#define SL_SAVE_FL  0x98
#define SL_SELF     0xa0 /* address of this block in the thread */
#define SL_BELL     0xa8 /* address of the bell */
#define SL_LOW      0xb0 /* address of the shared tables */
#define SL_TIMEOUT  0xb8 /* struct timespec */
#define SL_NOSYS    0xd0 /* wait without syscalls: the program filters them */

#define SL_STATE_NONE   0
#define SL_STATE_POSTED 1
#define SL_STATE_DONE   2
#define SL_STATE_ASLEEP 3 /* posted, and to be woken */

#define SL_REQ_MISS 1 /* no translation of SL_TARGET, wanted by exit SL_ID */
#define SL_REQ_FULL                                                                                \
	2 /* the record segment is full; SL_ID is the exit, or the trace + SL_ID_TRACE */
#define SL_REQ_INDIRECT 3 /* no translation of SL_TARGET; the exit's id stands at SL_PTR */
#define SL_REQ_STEP     4 /* the instruction at SL_TARGET is to be stepped */
#define SL_REQ_MAPS     5 /* mappings may have changed */
#define SL_REQ_STALE    6 /* the code of trace SL_ID is not what was translated */

/* The shared tables ("low": their addresses fit in a signed 32-bit displacement). */
#define LOW_CODE      0x000000 /* 2^16 addresses by the low 16 bits of the target */
#define LOW_HASH      0x080000 /* 2^LOW_HASH_BITS pairs {target, address}, open addressing */
#define LOW_HASH_BITS 17
/* Targets that lie near each other share pages of the table: (va + (va >> FOLD)) >> SHIFT. */
#define LOW_HASH_FOLD  19
#define LOW_HASH_SHIFT 2
#define LOW_BELL       0x280000 /* u32 counter, u32 tracer sleeps */
#define LOW_ALIVE      0x280040 /* robust mutex of the tracer; its first word */
#define LOW_SYSTAB     0x280200 /* one byte a syscall number: enum of translate.h */
#define LOW_ENTRY      0x280400 /* addresses of the stubs, by IPT_XL_STUB_* */
#define LOW_RW_SIZE    0x281000
#define LOW_STUBS      0x281000 /* mapped read and execute */
#define LOW_SIZE       0x283000

#define SYSTAB_MAX 0x200

#define FUTEX_OWNER_DIED_BIT 0x40000000

#endif
