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
		head -n ${SHOW:-20} "$tmp/diff"
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
# perf counts padding that follows as part of the last packet: bytes of zero at
# the end are left out.
plain_packets()
{
	awk '$3 == "PAD" { next }
	$3 ~ /^(TIP|FUP)/ && $4 != "no" {
		n = length($2) - 2
		sub(/^0x/, "", $4)
		$4 = substr($4, length($4) > n ? length($4) - n + 1 : 1)
		sub(/^0+/, "", $4)
	} { sub(/(00)+$/, "", $2); print }' "$1" | sed -e 's/ IF:[01]\( [0-9]*\)/\1/' -e 's/ CBR 0x.*/ CBR/' -e 's/ CBR [0-9]*$/ CBR/' -e 's/ intx / /' -e 's/ abrt / /' -e 's/TXAbort://' -e 's/InTX://'
}

# Offset, bytes, name and payload of each packet.
packets()
{
	need perf
	perf_script -D | sed -n 's/^\.  \([0-9a-f]\{8\}\):  \(.*\)/\1 \2/p' | awk '{
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

# modules: path and load bias, as a hexadecimal number, of each file that was run.
modules()
{
	"$IPTRACE" info --json "$trace" | sed -n 's/^ *"\(path\|start\)": "\(.*\)",*$/\1 \2/p' | awk '
		$1 == "path" { path = $2 }
		$1 == "start" && path ~ /^\// { print path, $2; path = "" }' |
		while read -r path start; do
			va=$(readelf -lW "$path" | awk '$1 == "LOAD" && / R E / { print $3; exit }')
			printf '%s 0x%x\n' "$path" $((start - (va & ~4095)))
		done
}

# Text without names; prefixes of padding, shifts by one, repeated string instructions and vector compares have two ways of
# writing.
plain_text()
{
	sed -e '/ vp*cmp/d' -e 's/ *<[^>]*>//g' -e 's/ *#.*//' -e 's/[ \t][ \t]*/ /g' -e 's/ $//' \
		-e 's/ \(sh[lr]\|sa[lr]\|ro[lr]\)\([bwlq]*\) $0x1,/ \1\2 /' \
		-e 's/ \(data16 \|cs \)*nopw/ nopw/' \
		-e 's/ \(rep[nz]* [a-z]*s\)[bwlq]*\( .*\)*$/ \1/' "$1" | sort -u
}

# Address and text of every distinct instruction.
insn()
{
	need objdump readelf
	modules >"$tmp/modules"
	while read -r path bias; do
		objdump -d --no-show-raw-insn -w --adjust-vma="$bias" "$path"
	done <"$tmp/modules" | sed -n 's/^ *\([0-9a-f]*\):[ \t]*\(.*\)/\1 \2/p' |
		sed -e 's/\([ ,*]\)\([0-9a-f]\{6,\}\)\( <\|$\)/\10x\2\3/' >"$tmp/objdump"
	"$IPTRACE" insn --no-source "$trace" | sed -n 's/^ *\([0-9a-f]\{6,\}\) <[^>]*> \(.*\)/\1 \2/p' |
		awk '!seen[$1]++' >"$tmp/insn"
	awk 'NR == FNR { seen[$1]; next } $1 in seen' "$tmp/insn" "$tmp/objdump" >"$tmp/executed"
	plain_text "$tmp/insn" >"$tmp/ours"
	plain_text "$tmp/executed" >"$tmp/theirs"
	same "instructions" "$tmp/ours" "$tmp/theirs" 5000
}

# Source lines of every distinct address against addr2line, on the C library's debug data.
lines()
{
	need addr2line readelf
	modules >"$tmp/modules"
	found=
	while read -r path bias; do
		id=$(readelf -nW "$path" | sed -n 's/.*Build ID: \(..\)\(.*\)/\1\/\2/p' | head -n 1)
		debug=/usr/lib/debug/.build-id/$id.debug
		[ -f "$debug" ] || continue
		found=1
		"$IPTRACE" insn --json "$trace" | awk -v m="\"module\": \"${path##*/}\"" 'index($0, m)' |
			sed -n 's/.*"ip": "0x\([0-9a-f]*\)".*"line": \([0-9]*\).*/\1 \2/p' |
			awk '!seen[$1]++' >"$tmp/insn"
		while read -r at line; do
			printf '0x%x\n' $((0x$at - bias)) >&3
			echo "$line"
		done <"$tmp/insn" 3>"$tmp/at" >>"$tmp/ours"
		addr2line -e "$debug" <"$tmp/at" | sed -e 's/ (disc.*//' -e 's/.*://' >>"$tmp/theirs"
	done <"$tmp/modules"
	[ "$found" ] || skip "no debug data of the C library is installed (libc6-dbg)"
	same "source lines" "$tmp/ours" "$tmp/theirs" 3000
}

# What info counts, counted otherwise.
info()
{
	need strace
	"$IPTRACE" info --json "$trace" >"$tmp/info" || exit 1
	number()
	{
		sed -n "s/^ *\"$1\": \([0-9]*\),*\$/\1/p" "$tmp/info" | head -n 1
	}
	{
		echo "instructions $(number instructions)"
		echo "pt_bytes $(number pt_bytes)"
		echo "threads $(grep -c '"file":' "$tmp/info")"
		echo "exit_status $(number exit_status)"
	} >"$tmp/ours"
	strace -f -o "$tmp/strace" "$(command -v true)"
	{
		echo "instructions $("$IPTRACE" insn --format=ip "$trace" | wc -l)"
		echo "pt_bytes $(cat "$trace"/threads/*.pt | wc -c)"
		echo "threads $(awk '!seen[$1]++' "$tmp/strace" | wc -l)"
		echo "exit_status $(sed -n 's/.*exited with \([0-9]*\).*/\1/p' "$tmp/strace")"
	} >"$tmp/theirs"
	same "numbers" "$tmp/ours" "$tmp/theirs" 4
}

# More than 100 million instructions: the recording's PT, which begins and ends outside the program,
# as often one after the other as is needed. perf and we must list the same addresses.
long()
{
	[ -n "${IPT_LONG:-}" ] || skip "takes minutes; set IPT_LONG=1 to run it"
	need perf sha256sum
	cp -r "$trace" "$tmp/long.trace"
	pt=$(echo "$trace"/threads/*.pt)
	n=$("$IPTRACE" insn --format=ip "$trace" | wc -l)
	times=$((100000000 / n + 1))
	for _ in $(seq $times); do
		cat "$pt"
	done >"$tmp/long.trace/threads/${pt##*/}"
	data=$tmp/long.data
	"$PERFDATA" "$tmp/long.trace" "$data" || exit 1
	perf_script --itrace=i0ns -F ip | awk '{ print $1 }' | sha256sum >"$tmp/theirs"
	"$IPTRACE" insn --format=ip "$tmp/long.trace" | sha256sum >"$tmp/ours"
	same "$((times * n)) instructions" "$tmp/ours" "$tmp/theirs" 1
}

tmp=$(mktemp -d "${TMPDIR:-/tmp}/iptviews.XXXXXX") || exit 99
trap 'rm -rf "$tmp"' EXIT
case $case in
record | ip | packets | names | insn | tree | report | info | lines | long) $case ;;
*) exit 99 ;;
esac
