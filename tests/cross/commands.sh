#!/bin/sh
# SPDX-License-Identifier: MIT
# commands.sh CASE PROGRAMS: command lines that need more than one program, through compare.sh.
set -u
here=$(dirname "$0")
progs=$2
tmp=$(mktemp -d "${TMPDIR:-/tmp}/iptcmd.XXXXXX") || exit 99
trap 'rm -rf "$tmp"' EXIT
compare() { sh "$here/compare.sh" "$@"; }

case $1 in
recurse) # endless recursion to the end of a small stack
	ulimit -s 64
	compare recurse "$progs/ends" recurse
	;;
loader) # through the dynamic loader
	for ld in /lib64/ld-linux-x86-64.so.2; do
		[ -x "$ld" ] || exit 77
		compare loader "$ld" "$progs/hello_nopie" z
	done
	;;
script)
	printf '#!%s a\n' "$progs/hello_static" >"$tmp/script"
	chmod +x "$tmp/script"
	compare script "$tmp/script" b
	;;
noscript) # a script without #!: run by the shell, as execvp does
	printf 'exit 5\n' >"$tmp/script"
	chmod +x "$tmp/script"
	IPT_THREADS=1 compare noscript env "$tmp/script"
	;;
pipeline)
	IPT_THREADS=3 compare pipeline sh -c "$progs/hello_static a | $progs/hello_static; exit 7"
	;;
ls)
	mkdir "$tmp/d"
	touch "$tmp/d/b" "$tmp/d/a"
	compare ls ls "$tmp/d"
	;;
moved) # the trace needs neither its place nor the program
	cp "$progs/jumps" "$tmp/gone"
	IPT_MOVE=1 IPT_DELETE=$tmp/gone compare moved "$tmp/gone"
	;;
landing) # each cleanup of an exception runs in its own frame, also of a recursive function
	"$IPTRACE" -q -o "$tmp/dir" "$progs/landing"
	[ $? -eq 3 ] || exit 1
	"$IPTRACE" tree -F main "$tmp/dir" >"$tmp/tree" || exit 1
	[ "$(grep -c '^ *} deep(int) .*unwound' "$tmp/tree")" -eq 3 ] || exit 1
	# Handed on to the unwinder from three depths.
	[ "$(grep '^ *_Unwind_Resume() {' "$tmp/tree" | sed 's/[^ ].*//' | sort -u | wc -l)" -eq 3 ] || exit 1
	"$IPTRACE" check "$tmp/dir" >&2 || exit 1
	;;
closed) # the caller has closed its standard descriptors
	"$IPTRACE" -q -o "$tmp/dir" "$progs/ends" 7 <&- >&- 2>&-
	[ $? -eq 7 ] || exit 1
	"$IPTRACE" check "$tmp/dir" >&2 || exit 1
	;;
killed_forks) # children whose parent was killed before it told of them
	timeout 60 "$IPTRACE" -q -f -o "$tmp/dir" "$progs/cutdown" forks 40 >"$tmp/out"
	[ $? -eq 0 ] || exit 1
	[ "$(cat "$tmp/out")" = done ] || exit 1
	! ps -eo ppid,stat,comm | grep ' t .*cutdown' || exit 1
	"$IPTRACE" info --json "$tmp/dir" | grep -q '"complete": *true' || exit 1
	;;
file_limit) # a limit of file sizes is like a full disk: the program goes on, the loss is told
	(
		ulimit -S -f 16
		ulimit -H -f 16
		"$IPTRACE" -q --noretcomp --psb=128 --step-log=/dev/null -m 4K -o "$tmp/dir" \
			"$progs/jumps" >"$tmp/out" 2>"$tmp/err"
		echo $? >"$tmp/status"
	)
	"$progs/jumps" >"$tmp/plain"
	plain=$?
	cmp "$tmp/plain" "$tmp/out" || exit 1
	[ $plain -ne 0 ] || [ "$(cat "$tmp/status")" -eq 124 ] || exit 1
	grep -q 'File too large' "$tmp/err" || exit 1
	"$IPTRACE" info --json "$tmp/dir" | grep -q '"complete": *false' || exit 1
	;;
daemon) # closes all descriptors and forks twice
	"$IPTRACE" --engine=step --step-log="$tmp/log" -f -o "$tmp/dir" "$progs/daemonize" "$tmp/told"
	[ $? -eq 4 ] || exit 1
	[ "$(cat "$tmp/told")" = daemon ] || exit 1
	[ "$(ls "$tmp"/log.* | wc -l)" -eq 3 ] || exit 1
	for log in "$tmp"/log.*; do
		tid=${log%.*}
		"$IPTRACE" insn --format=ip --tid "${tid##*.}" "$tmp/dir" | cmp - "$log" || exit 1
	done
	"$IPTRACE" info --json "$tmp/dir" | grep -q '"complete": *true'
	;;
inherit) # an unusual state comes through: umask, limits, ignored signals, nice, descriptors
	umask 026
	ulimit -n 61
	ulimit -c 0
	trap '' HUP USR1 TERM
	exec 7<"$0" 9>"$tmp/nine"
	env -i PATH="$PATH" IPTRACE="$IPTRACE" A=b "EMPTY=" nice -n 3 sh "$here/compare.sh" inherit \
		"$progs/state" one "two words"
	;;
sigtrap_mask) # ignored from the start
	trap '' TRAP
	compare sigtrap_mask "$progs/traps" raise-dfl
	;;
*)
	exit 99
	;;
esac
