#!/bin/sh
# SPDX-License-Identifier: MIT
# usage: tests/bench/soft/run.sh [--one NAME] [--check] [IPTRACE] [ROUNDS]
# Ten programs natively, under valgrind, under qemu with a block log, and under iptrace, in turns.
# IPTRACE is build/release/iptrace by default, ROUNDS 5. --one NAME runs one workload; --check compares output and exit
# status under iptrace with native ones instead of timing. Peers and programs that are not installed are left out.
# Environment: IPT_BENCH_ENGINE (translate), IPT_BENCH_LIMIT seconds for one run (120), CC (cc).
set -eu
here=$(cd "$(dirname "$0")" && pwd)
command -v python3 >/dev/null 2>&1 || { echo "run.sh: needs python3 (package python3)" >&2; exit 77; }
PYTHONDONTWRITEBYTECODE=1 exec python3 "$here/measure.py" "$@"
