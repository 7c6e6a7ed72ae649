#!/bin/sh
# SPDX-License-Identifier: MIT
# usage: tests/bench/step.sh [IPTRACE] [ROUNDS]: the step engine beside gdb's stepi on the same program, in turns.
# Prints instructions a second of each and their ratio. Machines are noisy: read the ratio.
set -eu
iptrace=${1:-build/release/iptrace}
rounds=${2:-3}
steps=5000
top=$(mktemp -d)
trap 'rm -rf "$top"' EXIT

now_us()
{
	echo $(($(date +%s%N) / 1000))
}

for round in $(seq 1 "$rounds"); do
	t0=$(now_us)
	"$iptrace" -q --engine=step --force -o "$top/dir" true
	t1=$(now_us)
	gdb -nx -batch -ex starti -ex quit true >/dev/null 2>&1
	t2=$(now_us)
	gdb -nx -batch -ex starti -ex "stepi $steps" -ex quit true >/dev/null 2>&1
	t3=$(now_us)
	n=$("$iptrace" info --json "$top/dir" | sed -n 's/^ *"instructions": *\([0-9]*\),*$/\1/p' | head -1)
	awk -v n="$n" -v us=$((t1 - t0)) -v s=$steps -v g=$(((t3 - t2) - (t2 - t1))) -v r="$round" 'BEGIN {
		printf "round %d: iptrace %.0f/s (%d instructions), gdb stepi %.0f/s, ratio %.1f\n",
			r, n * 1e6 / us, n, s * 1e6 / g, (n / us) / (s / g) }'
done
