#!/bin/sh
# SPDX-License-Identifier: MIT
# agree.sh NAME PROGRAM ARG...: the program recorded single-stepped and by the engine $IPT_ENGINE
# (translate), at the same addresses and with the same environment: each thread, in the order in which
# they were made, must have executed the same instructions; output and exit status are the same.
# $IPT_KEEP: a folder that the listings are copied to when they differ.
set -u
name=$1
shift
engine=${IPT_ENGINE:-translate}
top=$(mktemp -d "${TMPDIR:-/tmp}/iptagree.XXXXXX") || exit 99
trap 'rm -rf "$top"' EXIT
mkdir "$top/work" && cd "$top/work" || exit 99
bad=0

fail()
{
	echo "FAIL $name: $*"
	bad=1
}

setarch -R true 2>/dev/null || {
	echo "addresses cannot be fixed here"
	exit 77
}

# record ENGINE PROGRAM ARG...: the trace, and what the program wrote.
record()
{
	e=$1
	shift
	rm -rf ./*
	env -i PATH="$PATH" HOME=/ IPTRACE="$IPTRACE" setarch -R \
		"$IPTRACE" -q --engine="$e" -f -o "$top/$e" -- "$@" >"$top/out.$e" 2>"$top/err.$e" </dev/null
	echo "status $?" >>"$top/out.$e"
	[ -d "$top/$e" ] || {
		cat "$top/err.$e"
		exit 1
	}
	"$IPTRACE" info --json "$top/$e" >"$top/info.$e" || fail "info $e"
	grep -q '"complete": *true' "$top/info.$e" || fail "$e: not complete"
	grep -q '"gaps": *[1-9]' "$top/info.$e" && fail "$e: gaps"
}

# threads ENGINE: PID.TID.GEN in the order of their making, from the names of the PT files.
threads()
{
	for f in "$top/$1"/threads/*.pt; do
		f=${f##*/}
		echo "${f%.pt}"
	done | sort -t. -k2,2n -k3,3n
}

# once_each TID ENGINE: without the repetitions of a syscall that is restarted, whose number is a matter
# of time.
once_each()
{
	"$IPTRACE" insn --no-source --tid "$1" "$top/$2" 2>/dev/null |
		awk '$3 == "syscall" || $3 == "sysenter" || ($3 == "int" && $4 == "$0x80") { print $1 }' |
		sort -u >"$top/syscalls"
	awk 'NR == FNR { is[$1] = 1; next } $1 != last || !($1 in is) { print } { last = $1 }' \
		"$top/syscalls" "$top/all.ips"
}

# first_difference A B: of two lists of addresses.
first_difference()
{
	n=$(cmp "$1" "$2" 2>&1 | sed -n 's/.*line \([0-9]*\).*/\1/p')
	[ -n "$n" ] || n=$(($(wc -l <"$1") < $(wc -l <"$2") ? $(wc -l <"$1") + 1 : $(wc -l <"$2") + 1))
	echo "  first difference at instruction $n of $(wc -l <"$1") (step) and $(wc -l <"$2") ($engine)"
	diff "$1" "$2" | head -6
	for e in step "$engine"; do
		echo "  $e:"
		"$IPTRACE" insn --no-source --tid "$(cat "$top/tid.$e")" "$top/$e" 2>/dev/null |
			grep '^ *[0-9a-f]\{5,\} ' | sed -n "$((n > 4 ? n - 4 : 1)),$((n + 2))p"
	done
}

record step "$@"
record "$engine" "$@"
cmp -s "$top/out.step" "$top/out.$engine" || {
	fail "other output"
	diff "$top/out.step" "$top/out.$engine" | head -10
}
threads step >"$top/list.step"
threads "$engine" >"$top/list.other"
[ "$(wc -l <"$top/list.step")" -eq "$(wc -l <"$top/list.other")" ] ||
	fail "$(wc -l <"$top/list.step") threads with step, $(wc -l <"$top/list.other") with $engine"
count=0
insns=0
paste -d' ' "$top/list.step" "$top/list.other" >"$top/pairs"
while read -r a b; do
	[ -n "${b:-}" ] || break
	i=0
	for id in $a $b; do
		tid=${id#*.}
		[ "${tid#*.}" = 0 ] && tid=${tid%.*}
		e=$([ $i = 0 ] && echo step || echo "$engine")
		echo "$tid" >"$top/tid.$e"
		"$IPTRACE" insn --format=ip --tid "$tid" "$top/$e" >"$top/all.ips" 2>"$top/dec.err" ||
			fail "insn $e: $(head -2 "$top/dec.err")"
		once_each "$tid" "$e" >"$top/ips.$i"
		i=$((i + 1))
	done
	if ! cmp -s "$top/ips.0" "$top/ips.1"; then
		fail "thread $a is not as with step"
		first_difference "$top/ips.0" "$top/ips.1"
		[ -n "${IPT_KEEP:-}" ] && cp -r "$top" "$IPT_KEEP"
	fi
	count=$((count + 1))
	insns=$((insns + $(wc -l <"$top/ips.0")))
done <"$top/pairs"
[ $insns -gt 0 ] || fail "nothing was executed"
[ $bad = 0 ] && echo "$name: $count threads, $insns instructions are the same"
exit $bad
