#!/bin/sh
# SPDX-License-Identifier: MIT
# filter.sh CASE: what --only and --exclude leave of a recording is the whole one's instructions in the
# same ranges, with both software engines. The ranges are those of nm and of the dynamic linker.
set -u
case=$1
progs=${IPT_PROGS:?}
top=$(mktemp -d "${TMPDIR:-/tmp}/iptfilter.XXXXXX") || exit 99
trap 'rm -rf "$top"' EXIT
cd "$top" || exit 99
bad=0

fail()
{
	echo "FAIL $case: $*"
	bad=1
}

setarch -R true 2>/dev/null || {
	echo "addresses cannot be fixed here"
	exit 77
}

# record NAME ENGINE OPTION... -- PROGRAM...: all its instructions, thread after thread, to NAME.
record()
{
	out=$1
	e=$2
	shift 2
	rm -rf trace
	env -i PATH="$PATH" HOME=/ PYTHONHASHSEED=0 setarch -R \
		"$IPTRACE" -q --engine="$e" -o trace "$@" >"$out.said" 2>"$out.err" </dev/null
	echo "status $?" >>"$out.said"
	"$IPTRACE" info --json trace >info.json || fail "info"
	grep -q '"complete": *true' info.json || fail "$e $*: not complete"
	"$IPTRACE" insn --format=ip trace >"$out" 2>"$out.dec" || fail "insn: $(head -1 "$out.dec")"
	"$IPTRACE" check trace >/dev/null 2>"$out.dec" || fail "check: $(head -1 "$out.dec")"
}

# within LO HI...: the addresses in [LO, HI) of standard input; with $rest the others.
within()
{
	awk -v r="$*" -v rest="${rest:-}" 'BEGIN {
		n = split(r, w, " ")
		for (i = 1; i <= n; i++)
			w[i] = substr("0000000000000000" w[i], length(w[i]) + 1)
	}
	{
		a = substr("0000000000000000" $1, length($1) + 1)
		is = 0
		for (i = 1; i < n; i += 2)
			is = is || (a >= w[i] && a < w[i + 1])
		if (is != (rest != ""))
			print
	}'
}

# range FILE PATTERN: where nm says that functions are, of a program that is not moved or by $base.
range()
{
	nm -S "$1" | awk -v s="$2" '$3 ~ /^[tTwWi]$/ && $4 ~ s { print $1, $2 }' | while read -r at size; do
		printf '%x %x ' $((0x$at + ${base:-0})) $((0x$at + 0x$size + ${base:-0}))
	done
}

# module BASE FILE: where the dynamic linker puts it.
module()
{
	end=$(readelf -lW "$2" | awk '$1 == "LOAD" { print $3, $6 }' | tail -1)
	printf '%x %x ' "$1" $(($1 + ${end% *} + ${end#* }))
}

# same WHAT WANT GOT
same()
{
	[ -s "$2" ] || fail "$1: nothing is left"
	cmp -s "$2" "$3" || {
		fail "$1: other instructions: $(wc -l <"$2") wanted, $(wc -l <"$3") there"
		diff "$2" "$3" | head -5
	}
}

# check_range "OPTIONS" "RANGES" PROGRAM...
check_range()
{
	opts=$1
	ranges=$2
	shift 2
	for e in ${engines:-step translate}; do
		record whole "$e" -- "$@"
		# shellcheck disable=SC2086
		record part "$e" $opts -- "$@"
		cmp -s whole.said part.said || fail "$e: other output"
		# shellcheck disable=SC2086
		within $ranges <whole >want
		same "$e $opts" want part
		echo "$e $opts: $(wc -l <part) of $(wc -l <whole) instructions"
	done
}

case $case in
function)
	p=$progs/hello_static
	check_range "--only main --only write@hello_static" "$(range "$p" '^(main|write)$')" "$p"
	rest=1 check_range "--exclude _IO_* --exclude *printf*" "$(range "$p" '^_IO_|printf')" "$p"
	;;
exceptions)
	p=$progs/throw
	record whole step -- "$p"
	base=$((0x$(head -1 whole) - $(readelf -hW "$p" | awk '/Entry point/ { print $NF }')))
	check_range "--only _Unwind_*" "$(range "$p" '^_Unwind_')" "$p"
	rest=1 check_range "--exclude __cxa_*" "$(range "$p" '^__cxa_')" "$p"
	;;
module)
	for p in "$progs/hello_nopie" "$(command -v ls)"; do
		# shellcheck disable=SC2016
		libc=$(setarch -R sh -c 'LD_TRACE_LOADED_OBJECTS=1 exec "$1"' sh "$p" |
			sed -n 's/.*=> \(.*libc\.so[^ ]*\) (\(0x[0-9a-f]*\))/\2 \1/p')
		# shellcheck disable=SC2086
		check_range "--only libc.so*" "$(module $libc)" "$p" /
		# shellcheck disable=SC2086
		rest=1 check_range "--exclude libc.so*" "$(module $libc)" "$p" /
		engines=translate
	done
	;;
signals)
	# Handlers that are recorded, of code that is not, and the other way round.
	p=$progs/handlers
	check_range "--only inner --only outer --only on_cont" "$(range "$p" '^(inner|outer|on_cont)$')" "$p"
	rest=1 check_range "--exclude inner --exclude outer" "$(range "$p" '^(inner|outer)$')" "$p"
	;;
loops)
	# Borders in the midst of hot code, and functions that fall into the next one.
	p=$progs/flow
	check_range "--only main" "$(range "$p" '^main$')" "$p"
	p=$progs/frames
	check_range "--only main" "$(range "$p" '^main$')" "$p"
	;;
threads)
	# Their order is not fixed: each thread's own log must be what is decoded, all within the range.
	p=$progs/threads
	for e in step translate; do
		rm -rf trace log.*
		"$IPTRACE" -q --engine=$e --step-log=log --only work -o trace -- "$p" >/dev/null ||
			fail "$e: status $?"
		n=0
		for l in log.*; do
			id=${l#log.}
			tid=${id#*.}
			"$IPTRACE" insn --format=ip --tid "${tid%.*}" trace >got 2>/dev/null
			cmp -s "$l" got || fail "$e: thread $id: not as logged"
			n=$((n + $(wc -l <"$l")))
		done
		[ $n -gt 0 ] || fail "$e: nothing recorded"
		"$IPTRACE" report trace 2>/dev/null | awk 'NR > 1 && $2 + 0 > 0 { print $5 }' | grep -v '^work$\|^all$' &&
			fail "$e: other functions"
	done
	;;
children)
	p=$progs/births
	for e in step translate; do
		rm -rf trace
		"$IPTRACE" -q --engine=$e -f --exclude 'libc.so*' --exclude births -o trace -- "$p" fork >/dev/null ||
			fail "$e: status $?"
		"$IPTRACE" info --json trace | grep -q '"complete": *true' || fail "$e: not complete"
		"$IPTRACE" check trace >/dev/null || fail "$e: check"
	done
	;;
names)
	# What nothing is called by is said, once, and is no failure.
	"$IPTRACE" -q --engine=translate --only nosuchname --exclude nor_this@libc.so.6 -o trace -- true 2>said ||
		fail "status $?"
	[ "$(grep -c 'nothing of this name' said)" = 2 ] || fail "said: $(cat said)"
	"$IPTRACE" info --json trace | grep -q '"complete": *true' || fail "not complete"
	"$IPTRACE" info --json trace | grep -q '"instructions": *0\b' || fail "instructions that were not asked for"
	;;
*)
	echo "no such case: $case"
	exit 99
	;;
esac
exit $bad
