#!/bin/sh
# SPDX-License-Identifier: MIT
# caps agrees with what the system itself says.
set -eu
bad=0
"$IPTRACE" caps >"${TMPDIR:-/tmp}/ipt-caps-$$" || bad=1
text=$(cat "${TMPDIR:-/tmp}/ipt-caps-$$")
rm -f "${TMPDIR:-/tmp}/ipt-caps-$$"
says() {
	echo "$text" | grep -q "$1" || { echo "caps does not say: $1"; bad=1; }
}
says "cpu vendor *$(sed -n 's/^vendor_id.*: //p' /proc/cpuinfo | head -n 1)\$"
if [ -e /sys/bus/event_source/devices/intel_pt/type ]; then
	says "intel_pt PMU *type $(cat /sys/bus/event_source/devices/intel_pt/type)\$"
else
	says 'intel_pt PMU *none'
fi
if [ -e /proc/sys/kernel/perf_event_paranoid ]; then
	says "perf_event_paranoid *$(cat /proc/sys/kernel/perf_event_paranoid)\$"
fi
for e in helper perf translate step; do
	says "^engine $e"
done
says '^chosen by auto'
if command -v python3 >/dev/null 2>&1; then
	"$IPTRACE" caps --json | python3 -c '
import json, sys
c = json.load(sys.stdin)
assert [e["name"] for e in c["engines"]] == ["helper", "perf", "translate", "step"], c
assert c["chosen"] in [e["name"] for e in c["engines"] if e["usable"]] or c["chosen"] is None, c
' || bad=1
fi
exit $bad
