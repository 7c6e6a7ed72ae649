/* SPDX-License-Identifier: MIT */
/* IP compression against the last IP, both ways. SDM "IP Compression". */
#include "pt/pt.h"

#define LOW(bits) ((1ull << (bits)) - 1)

static uint64_t sext48(uint64_t v)
{
	return (uint64_t)((int64_t)(v << 16) >> 16);
}

void ipt_lastip_reset(struct ipt_lastip *l)
{
	l->ip = 0;
	l->valid = true;
}

/* Where the last IP is not known the hardware starts from zero, as after PSB. */
bool ipt_lastip_update(struct ipt_lastip *l, const struct ipt_pkt *pkt, uint64_t *ip)
{
	uint64_t base = l->valid ? l->ip : 0, v = pkt->ip.ip;

	switch (pkt->ip.ipc) {
	case IPT_IPC_SUPPRESSED: return false;
	case IPT_IPC_UPDATE16: v = (base & ~LOW(16)) | (v & LOW(16)); break;
	case IPT_IPC_UPDATE32: v = (base & ~LOW(32)) | (v & LOW(32)); break;
	case IPT_IPC_SEXT48: v = sext48(v); break;
	case IPT_IPC_UPDATE48: v = (base & ~LOW(48)) | (v & LOW(48)); break;
	case IPT_IPC_FULL: break;
	}
	l->ip = v;
	l->valid = true;
	*ip = v;
	return true;
}

/* Without a known last IP only the forms that need none are safe with every decoder. */
enum ipt_ipc ipt_lastip_compress(struct ipt_lastip *l, uint64_t ip, uint64_t *payload)
{
	uint64_t diff = l->valid ? ip ^ l->ip : ~0ull;
	enum ipt_ipc ipc;

	if (!(diff & ~LOW(16)))
		ipc = IPT_IPC_UPDATE16, *payload = ip & LOW(16);
	else if (!(diff & ~LOW(32)))
		ipc = IPT_IPC_UPDATE32, *payload = ip & LOW(32);
	else if (sext48(ip) == ip)
		ipc = IPT_IPC_SEXT48, *payload = ip & LOW(48);
	else if (!(diff & ~LOW(48)))
		ipc = IPT_IPC_UPDATE48, *payload = ip & LOW(48);
	else
		ipc = IPT_IPC_FULL, *payload = ip;
	l->ip = ip;
	l->valid = true;
	return ipc;
}
