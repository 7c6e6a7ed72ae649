/* SPDX-License-Identifier: MIT */
/*
 * pt: Intel PT packets, both ways. Pure: no files, no allocation but where said.
 * Names and encodings: SDM vol. 3C, "Intel Processor Trace", "Packet Definitions".
 */
#ifndef IPT_PT_H
#define IPT_PT_H

#include "base/base.h"

enum ipt_pkt_kind {
#define IPT_PKT(kind, name) IPT_PKT_##kind,
#include "pt/packets.def"
#undef IPT_PKT
	IPT_PKT_N_KINDS
};

#define IPT_PKT_MAX 17 /* bytes of the longest packet */

/* Field IPBytes of TIP, TIP.PGE, TIP.PGD and FUP. SDM "IP Compression". */
enum ipt_ipc {
	IPT_IPC_SUPPRESSED = 0,
	IPT_IPC_UPDATE16 = 1,
	IPT_IPC_UPDATE32 = 2,
	IPT_IPC_SEXT48 = 3,
	IPT_IPC_UPDATE48 = 4,
	IPT_IPC_FULL = 6,
};

struct ipt_pkt {
	enum ipt_pkt_kind kind;
	uint8_t len; /* bytes of the packet in the stream */
	union {
		struct {
			uint64_t bits;  /* oldest branch in the highest of n_bits; 1: taken */
			uint8_t n_bits; /* 1..6 short, 1..47 long; 0 only in a malformed-but-legal
					   empty long TNT */
		} tnt;
		struct {
			uint64_t ip; /* payload as in the packet, not yet expanded (see
					ipt_lastip_update) */
			enum ipt_ipc ipc;
		} ip;
		struct {
			uint64_t cr3; /* CR3 bits 5..51 in their place */
			bool nr;      /* non-root operation */
		} pip;
		struct {
			bool cs_l, cs_d, iflag; /* iflag: bit 2, newer CPUs with event trace */
		} mode_exec;
		struct {
			bool intx, abrt;
		} mode_tsx;
		uint64_t tsc; /* 56 bits */
		uint8_t mtc;
		struct {
			uint16_t ctc, fc; /* fc: 9 bits */
		} tma;
		uint64_t cyc;  /* cycles */
		uint8_t cbr;   /* core:bus ratio */
		uint64_t vmcs; /* base address, bits 12..51 in their place */
		uint64_t mnt;
		struct {
			uint64_t payload;
			uint8_t size; /* 4 or 8 bytes */
			bool ip;      /* a FUP follows */
		} ptw;
		struct {
			bool ip;
		} exstop;
		struct {
			uint32_t hints, ext;
		} mwait;
		struct {
			bool hw;
			uint8_t state, sub_state;
		} pwre;
		struct {
			uint8_t last, deepest, wake;
		} pwrx;
		struct {
			bool ip;
			uint8_t type, vector;
		} cfe;
		struct {
			bool ip;
			uint8_t type;
			uint64_t payload;
		} evd;
		struct {
			bool sz; /* 0: 8-byte block items, 1: 4-byte */
			uint8_t type;
		} bbp;
		struct {
			uint8_t id;
			uint64_t payload;
			uint8_t size; /* 4 or 8 bytes */
		} bip;
		struct {
			bool ip;
		} bep;
	};
};

/* What the bytes mean depends on a Block Begin packet seen earlier (BIP shares its bytes with TNT).
 * Zero to start. */
struct ipt_pkt_ctx {
	bool in_block;
	uint8_t block_item_size; /* 4 or 8 */
};

/*
 * One packet at @p of @n bytes. @ctx (not NULL) is updated by BBP, BEP and PSB.
 * 0; -IPT_E_EOS when @n is 0; -IPT_E_TRUNC when the packet goes beyond @n; -IPT_E_BADPKT for bytes
 * that are none.
 */
int ipt_pkt_decode(struct ipt_pkt *pkt, const uint8_t *p, size_t n, struct ipt_pkt_ctx *ctx);

/*
 * Write one packet; *len gets its size. 0; -IPT_E_LIMIT when @cap is too small; -EINVAL for a field
 * out of range. decode(encode(x)) equals x; encode(decode(bytes)) equals the bytes where reserved
 * bits are zero.
 */
int ipt_pkt_encode(uint8_t *out, size_t cap, size_t *len, const struct ipt_pkt *pkt);

/* "TIP.PGE": the SDM's name. */
const char *ipt_pkt_name(enum ipt_pkt_kind kind);
/* One line without newline: name and payload; @ip is the expanded IP for packets that have one. */
void ipt_pkt_text(struct ipt_buf *out, const struct ipt_pkt *pkt, uint64_t ip);

/* --- PSB search (psb.c) --- */

/* Move *pos (bytes in @p) to the first PSB at or after it. 0, or -IPT_E_EOS with *pos untouched. */
int ipt_psb_next(const uint8_t *p, size_t n, size_t *pos);
/* Move *pos to the last PSB that begins before it. 0, or -IPT_E_EOS with *pos untouched. */
int ipt_psb_prev(const uint8_t *p, size_t n, size_t *pos);

/* --- IP compression (lastip.c) --- */

struct ipt_lastip {
	uint64_t ip;
	bool valid; /* false after OVF or a start without PSB */
};

/* SDM: last IP is zero after PSB. */
void ipt_lastip_reset(struct ipt_lastip *l);
/* Expand the payload of @pkt (TIP*, FUP). false when it is suppressed (*ip untouched). */
bool ipt_lastip_update(struct ipt_lastip *l, const struct ipt_pkt *pkt, uint64_t *ip);
/* Choose the shortest legal form for @ip and update @l. */
enum ipt_ipc ipt_lastip_compress(struct ipt_lastip *l, uint64_t ip, uint64_t *payload);

#endif
