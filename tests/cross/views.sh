#!/bin/sh
# SPDX-License-Identifier: MIT
# views.sh record|ip|packets|names|insn|tree|report|info|lines|long DIR: hold what the views say of a
# recording of true(1), a program that is not ours, against tools that are not ours. `record` makes the
# recording in DIR once for all others; perf reads the same PT from a perf.data file (perfdata.c).
set -u
LC_ALL=C
export LC_ALL
case=$1
dir=$2
trace=$dir/true.trace
data=$dir/true.data
PATH=$PATH:/usr/sbin

skip()
{
	echo "$*"
	exit 77
}

need()
{
	for tool; do
		command -v "$tool" >/dev/null 2>&1 || skip "$tool is not installed"
	done
	[ -f "$trace/manifest.json" ] || skip "nothing was recorded"
}

# same WHAT OURS THEIRS MINIMUM: equal files of at least MINIMUM lines.
same()
{
	n=$(wc -l <"$3")
	if [ "$n" -lt "$4" ]; then
		echo "$1: only $n lines to compare"
		exit 1
	fi
	if ! diff "$2" "$3" >"$tmp/diff"; then
		echo "$1: ours (<) and theirs (>) differ:"
		head -n 20 "$tmp/diff"
		exit 1
	fi
	echo "$1: $n lines are equal"
}

perf_script()
{
	perf script -i "$data" "$@" 2>"$tmp/perf.err" || {
		cat "$tmp/perf.err"
		skip "perf cannot read the file"
	}
}

record()
{
	rm -rf "$dir"
	mkdir -p "$dir" || exit 99
	"$IPTRACE" -q --engine=step -o "$trace" "$(command -v true)" || exit 1
	"$PERFDATA" "$trace" "$data" || exit 1
}

ip()
{
	need perf
	perf_script --itrace=i0ns -F ip | awk '{ print $1 }' >"$tmp/theirs"
	"$IPTRACE" insn --format=ip "$trace" >"$tmp/ours" || exit 1
	same "addresses executed" "$tmp/ours" "$tmp/theirs" 50000
}

# Of a compressed address perf tells the bytes of the packet, ours the address: compare those bytes.
# perf counts padding that follows as part of the last packet.
plain_packets()
{
	awk '$4 == "no" { $2 = substr($2, 1, 2) }
	$3 ~ /^(TIP|FUP)/ && $4 != "no" {
		n = length($2) - 2
		sub(/^0x/, "", $4)
		$4 = substr($4, length($4) > n ? length($4) - n + 1 : 1)
		sub(/^0+/, "", $4)
	} { print }' "$1" | sed -e 's/ IF:[01]\( [0-9]*\)/\1/' -e 's/ intx / /' -e 's/ abrt / /' -e 's/TXAbort://' -e 's/InTX://'
}

# Offset, bytes, name and payload of each packet.
packets()
{
	need perf
	perf_script -D | sed -n 's/^\.  \(0000[0-9a-f]*\):  \(.*\)/\1 \2/p' | awk '{
		at = $1
		sub(/^0+/, "", at)
		hex = ""
		for (i = 2; i <= NF && $i ~ /^[0-9a-f][0-9a-f]$/; i++)
			hex = hex $i
		rest = ""
		for (; i <= NF; i++)
			rest = rest " " $i
		if (length($1) == 8 && rest != " PAD")
			print at == "" ? "0" : at, hex rest
	}' >"$tmp/packets"
	plain_packets "$tmp/packets" >"$tmp/theirs"
	"$IPTRACE" packets "$trace" | sed '/^#/d' | awk '{ $1 = $1; print }' >"$tmp/packets"
	plain_packets "$tmp/packets" >"$tmp/ours"
	same "packets" "$tmp/ours" "$tmp/theirs" 3000
}

# Function entry of every distinct address; and each of our names is a name of that entry.
names()
{
	need perf
	perf_script --itrace=i0ns -F ip,sym,symoff | awk '!seen[$1]++' >"$tmp/perf"
	"$IPTRACE" insn --no-source --no-demangle "$trace" |
		sed -n 's/^ *\([0-9a-f]*\) <\([^ ]*\)+0x\([0-9a-f]*\)> .*/\1 \2+0x\3/p' |
		awk '!seen[$1]++' >"$tmp/insn"
	# Without symbols perf has no name and we have the place in the file.
	awk 'NR == FNR { if ($2 ~ /\+0x/ && $2 !~ /@plt/) { o = $2; sub(/.*\+/, "", o); off[$1] = o } next }
		$1 in off { o = $2; sub(/.*\+/, "", o); print $1, off[$1] > "'"$tmp/theirs"'"; print $1, o }' \
		"$tmp/perf" "$tmp/insn" >"$tmp/ours"
	same "offsets in functions" "$tmp/ours" "$tmp/theirs" 5000
}

# Calls in order: depth below the first, call instruction, entry of what was called. A call of a PLT
# stub counts as one of the function that the stub jumps to.
tree()
{
	need perf
	perf_script --itrace=b -F ip,sym,addr,flags | awk '
	function out() { print from, to; waiting = 0 }
	{
		for (i = 1; i <= NF && $i != "=>"; i++)
			;
		target = $(i + 1)
		name = $(i + 2)
	}
	$1 == "call" {
		if (waiting) out()
		for (i = 2; $i !~ /^[0-9a-f][0-9a-f]+$/; i++)
			;
		from = $i
		to = target
		stub = name ~ /@plt/
		waiting = 1
		if (!stub && name != "[unknown]") out()
		next
	}
	# Out of a stub by way of others and of the first entry, which has no name.
	waiting && $1 == "jmp" && name !~ /@plt/ && (name != "[unknown]" || !stub) {
		if (name != "[unknown]") to = target
		out()
		next
	}
	waiting && $1 != "jmp" { out() }
	END { if (waiting) out() }' >"$tmp/theirs"
	"$IPTRACE" tree --json "$trace" | sed -n \
		's/^{"id": *\([0-9]*\),.*"address": *"0x\([0-9a-f]*\)", *"called_from": *"0x\([0-9a-f]*\)".*/\1 \3 \2/p' |
		sort -n | cut -d' ' -f2- >"$tmp/ours"
	same "calls" "$tmp/ours" "$tmp/theirs" 500
}

# Instructions of each function: what perf counts at an address belongs to the function there. The
# instructions of a PLT stub belong to the function it jumps to, as the call does; perf has no name for
# some stubs, so functions reached from code without name are left out.
report()
{
	need perf
	perf_script --itrace=i0ns -F ip,sym,symoff | awk '
	function hex(s, v, i) {
		v = 0
		for (i = 1; i <= length(s); i++)
			v = v * 16 + index("0123456789abcdef", substr(s, i, 1)) - 1
		return v
	}
	/@plt/ || (held && /\[unknown\]/) { held++; next }
	/\[unknown\]/ { nameless = 1; next }
	{
		if (!($1 in entry)) {
			o = $2
			sub(/.*\+0x/, "", o)
			entry[$1] = sprintf("%.0f", hex($1) - hex(o))
		}
		n[entry[$1]] += 1 + held
		if (nameless && $2 ~ /\+0x0$/) skip[entry[$1]]
		held = nameless = 0
	}
	END { for (f in n) print f, f in skip ? "-" : n[f] }' | sort >"$tmp/theirs.all"
	"$IPTRACE" report --json "$trace" | awk '
	function hex(s, v, i) {
		v = 0
		for (i = 1; i <= length(s); i++)
			v = v * 16 + index("0123456789abcdef", substr(s, i, 1)) - 1
		return v
	}
	/"address":/ { gsub(/[",]/, ""); at = hex(substr($2, 3)) }
	/"self":/ && at { gsub(/,/, ""); printf "%.0f %d\n", at, $2; at = 0 }' | sort >"$tmp/ours.all"
	awk '$2 == "-" { print $1 }' "$tmp/theirs.all" >"$tmp/left_out"
	for f in ours theirs; do
		awk 'FILENAME == ARGV[1] { out[$1]; next } !($1 in out)' "$tmp/left_out" \
			"$tmp/$f.all" >"$tmp/$f"
	done
	same "instructions of functions" "$tmp/ours" "$tmp/theirs" 100
}

tmp=$(mktemp -d "${TMPDIR:-/tmp}/iptviews.XXXXXX") || exit 99
trap 'rm -rf "$tmp"' EXIT
case $case in
record | ip | packets | names | insn | tree | report | info | lines | long) $case ;;
*) exit 99 ;;
esac
