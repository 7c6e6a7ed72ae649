#!/bin/sh
# SPDX-License-Identifier: MIT
# usage: tests/fuzz/run.sh SECONDS [BUILD]: run every fuzzer of a build with the preset "fuzz" for SECONDS each.
# New inputs stay in BUILD/fuzz/corpus; a crash leaves its input there and fails.
set -eu
[ $# -ge 1 ] || { echo "usage: $0 SECONDS [BUILD]" >&2; exit 2; }
top=$(cd "$(dirname "$0")/../.." && pwd)
seconds=$1
build=${2:-$top/build/fuzz}
failed=0
ran=0
for f in "$build"/fuzz/fuzz_*; do
	[ -x "$f" ] && [ ! -d "$f" ] || continue
	name=$(basename "$f")
	name=${name#fuzz_}
	new=$build/fuzz/corpus/$name
	mkdir -p "$new"
	echo "== $name"
	if ! "$f" -max_total_time="$seconds" -timeout=20 -rss_limit_mb=2048 -print_final_stats=0 \
		-verbosity=0 -artifact_prefix="$new/" "$new" "$top/tests/fuzz/corpus/$name"; then
		echo "$name: FAILED, input in $new" >&2
		failed=1
	fi
	ran=$((ran + 1))
done
[ "$ran" -gt 0 ] || { echo "$0: no fuzzers in $build/fuzz: build the preset fuzz" >&2; exit 1; }
exit $failed
