#!/bin/sh
# SPDX-License-Identifier: MIT
# compare.sh NAME PROGRAM ARG...: record the program, and hold against it: each thread's decode is the
# list of instructions that the engine says were executed; output and exit status are those of the
# untraced program; the trace is complete. IPT_ENGINE: the engine, step when not set.
set -u
engine=${IPT_ENGINE:-step}
name=$1
shift
top=$(mktemp -d "${TMPDIR:-/tmp}/iptcross.XXXXXX") || exit 99
trap 'rm -rf "$top"' EXIT
work=$top/work
mkdir "$work" && cd "$work" || exit 99
bad=0

fail()
{
	echo "FAIL $name: $*"
	bad=1
}

exec 3>&- 4>&-
"$@" >"$top/out.plain" 2>"$top/err.plain" </dev/null
plain=$?
[ $plain -eq 77 ] && echo "the program cannot run here" && exit 77
rm -rf ./*
"$IPTRACE" --engine=$engine --step-log="$top/log" -f -o "$top/dir" -- "$@" \
	>"$top/out.traced" 2>"$top/err.traced" </dev/null
traced=$?
grep -v '^iptrace: ' "$top/err.traced" >"$top/err.program"
grep '^iptrace: .*warning' "$top/err.traced"
[ $plain -eq $traced ] || fail "exit status $plain untraced, $traced traced"
cmp -s "$top/out.plain" "$top/out.traced" || {
	fail "other output"
	diff "$top/out.plain" "$top/out.traced" | head -20
}
# A shell tells of a program that crashed; the text is the shell's.
if [ $plain -lt 128 ] && ! cmp -s "$top/err.plain" "$top/err.program"; then
	fail "other error output"
	diff "$top/err.plain" "$top/err.program" | head -20
fi
"$IPTRACE" info --json "$top/dir" >"$top/info" || fail "info"
grep -q '"complete": *true' "$top/info" || fail "not complete"
if grep -q '"gaps": *[1-9]' "$top/info"; then
	fail "gaps"
	"$IPTRACE" info "$top/dir" | tail -20
fi
[ -n "${IPT_MOVE:-}" ] && mv "$top/dir" "$top/moved dir" && ln -s "moved dir" "$top/dir"
[ -n "${IPT_DELETE:-}" ] && rm -f "$IPT_DELETE"
threads=0
insns=0
for log in "$top"/log.*; do
	id=${log#"$top"/log.}
	tid=${id#*.}
	# A tid comes again with another generation: those are told apart by TID.GEN.
	gen=${tid#*.}
	tid=${tid%.*}
	sel=$tid
	[ "$gen" = 0 ] || sel=$tid.$gen
	"$IPTRACE" insn --format=ip --tid "$sel" "$top/dir" >"$top/dec" 2>"$top/dec.err" ||
		fail "insn: $(head -3 "$top/dec.err")"
	if ! cmp -s "$log" "$top/dec"; then
		fail "thread $id: decode differs from the engine's log: $(cmp "$log" "$top/dec" 2>&1)" \
			"($(wc -l <"$log") executed, $(wc -l <"$top/dec") decoded)"
		diff "$log" "$top/dec" | head -8
		[ -n "${IPT_KEEP:-}" ] && cp -r "$top" "$IPT_KEEP"
	fi
	threads=$((threads + 1))
	insns=$((insns + $(wc -l <"$log")))
done
[ $insns -gt 0 ] || fail "nothing was executed"
[ $threads -ge "${IPT_THREADS:-1}" ] || fail "$threads threads, not ${IPT_THREADS:-1}"
[ $bad = 0 ] && echo "$name: $threads threads, $insns instructions, status $traced"
exit $bad
