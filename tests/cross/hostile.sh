#!/bin/sh
# SPDX-License-Identifier: MIT
# hostile.sh: every reading command on damaged and malicious trace directories. It ends within 10
# seconds with status 0, 1 or 125, never by a signal or with a sanitizer's report; an error is told
# in one clear line; PT that is cut short is called salvaged or shows a gap.
set -u
top=$(mktemp -d "${TMPDIR:-/tmp}/ipthostile.XXXXXX") || exit 99
trap 'rm -rf "$top"' EXIT
cd "$top" || exit 99
export ASAN_OPTIONS="exitcode=99:${ASAN_OPTIONS:-}" LSAN_OPTIONS=exitcode=99 UBSAN_OPTIONS=exitcode=99
bad=0
cases=0
end=$(($(date +%s) + ${IPT_HOSTILE_SECONDS:-150}))

fail()
{
	echo "FAIL $*"
	bad=$((bad + 1))
}

# run NAME DIR COMMAND...: one command, held against the rules.
run()
{
	name=$1
	dir=$2
	shift 2
	timeout -k 1 10 "$IPTRACE" "$@" "$dir" >out 2>err
	status=$?
	case $status in
	0 | 1 | 125) ;;
	*) fail "$name: $*: status $status: $(head -c 300 err)" ;;
	esac
	grep -q 'Sanitizer\|runtime error' err && fail "$name: $*: $(grep -m3 'Sanitizer\|runtime error' err)"
	grep -qv '^iptrace: ' err && fail "$name: $*: odd line: $(grep -v '^iptrace: ' err | head -2)"
	LC_ALL=C grep -q "[$(printf '\001-\010\013-\037\177')]" err && fail "$name: $*: control bytes in the message"
	[ $status -eq 125 ] && [ "$(grep -cv ': salvaged: \|: warning: ' err)" != 1 ] &&
		fail "$name: $*: $(wc -l <err) lines for an error: $(head -3 err)"
	return 0
}

# all NAME DIR: every command; leaves what insn said in $top/said.
all()
{
	cases=$((cases + 1))
	run "$1" "$2" insn --format=ip
	{ cat err; grep '\[gap' out; } >said
	run "$1" "$2" info --json
	run "$1" "$2" info
	run "$1" "$2" tree
	run "$1" "$2" report
	run "$1" "$2" packets
	run "$1" "$2" check
	[ "$(date +%s)" -lt $end ] || {
		echo "out of time after $cases cases"
		[ $bad = 0 ] && exit 77
		exit 1
	}
}

fresh()
{
	rm -rf d
	cp -a good d
}

# flip FILE OFFSET MASK
flip()
{
	old=$(od -An -tu1 -j "$2" -N1 "$1")
	printf "\\$(printf %03o $((old ^ $3)))" | dd of="$1" bs=1 seek="$2" conv=notrunc status=none
}

if ! "$IPTRACE" -q -o good /bin/true >out 2>err; then
	cat err
	echo "nothing can be recorded here"
	exit 77
fi
"$IPTRACE" -q --zstd -o packed /bin/true || fail "recording with --zstd"
all good good
[ -s said ] && fail "the whole trace: $(head -2 said)"
pt=$(cd good && ls threads/* | head -1)
image=$(cd good && ls -S images/[0-9a-f]*[0-9a-f] | tail -1)
big=$(cd good && ls -S images/[0-9a-f]*[0-9a-f] | head -1)

# --- cut short ---
size=$(wc -c <"good/$pt")
for n in 0 1 15 16 17 $((size / 3)) $((size / 2)) $((size - 17)) $((size - 2)) $((size - 1)); do
	fresh
	truncate -s "$n" "d/$pt"
	all "PT of $n bytes" d
	grep -q 'salvaged\|gap' said || fail "PT of $n bytes: neither gap nor salvaged"
done
zpt=$(cd packed && ls threads/*)
size=$(wc -c <"packed/$zpt")
for n in 0 3 20 $((size / 2)) $((size - 1)); do
	rm -rf d
	cp -a packed d
	truncate -s "$n" "d/$zpt"
	all "packed PT of $n bytes" d
	grep -q 'salvaged\|gap' said || fail "packed PT of $n bytes: neither gap nor salvaged"
done
size=$(wc -c <good/sideband)
for n in 0 7 15 16 17 72 $((size / 2)) $((size - 8)) $((size - 1)); do
	fresh
	truncate -s "$n" d/sideband
	all "sideband of $n bytes" d
	[ "$n" -lt 16 ] || grep -q 'salvaged' said || fail "sideband of $n bytes: not salvaged"
done
size=$(wc -c <good/manifest.json)
for n in 0 1 $((size / 2)) $((size - 2)); do
	fresh
	truncate -s "$n" d/manifest.json
	all "manifest of $n bytes" d
done
for n in 0 1 4000; do
	fresh
	truncate -s "$n" "d/$image"
	truncate -s "$n" "d/$big"
	all "images of $n bytes" d
done
fresh
truncate -s 64G d/sideband
truncate -s 64G d/manifest.json
all "huge manifest" d
fresh
truncate -s 64G d/sideband
all "huge sideband" d

# --- flipped bits ---
for f in "$pt" sideband manifest.json "$big" "$image"; do
	size=$(wc -c <"good/$f")
	for i in 1 2 3 4 5 6; do
		fresh
		flip "d/$f" $((size * i * 37 / 259 % size)) $((1 << i))
		all "bit in $f $i" d
	done
done
size=$(wc -c <"good/$pt")
dd if=/dev/urandom of="$top/noise" bs=1 count="$size" status=none
fresh
cp "$top/noise" "d/$pt"
all "noise as PT" d
grep -q 'salvaged\|gap' said || fail "noise as PT: no gap"

# --- gone, or something else ---
for f in manifest.json sideband threads images "$pt" "$image" "$big" images/index.json; do
	fresh
	rm -rf "d/$f"
	all "no $f" d
	for kind in link loop fifo folder; do
		fresh
		mv "d/$f" moved
		case $kind in
		link) ln -s ../moved "d/$f" ;;
		loop) ln -s . "d/$f" ;;
		fifo) mkfifo "d/$f" ;;
		folder) mkdir "d/$f" ;;
		esac
		all "$f is a $kind" d
		rm -rf moved
	done
done
fresh
rm -rf "d/$pt" && ln -s /dev/zero "d/$pt"
all "PT is /dev/zero" d
mkfifo fifo
all "a fifo as trace" fifo
all "a file as trace" good/sideband
all "no trace" nowhere
all "odd name" "$(printf 'no\033[31m\nwhere')"

# --- parts of another trace ---
other=$(cd packed && ls threads/*)
for f in sideband manifest.json; do
	fresh
	cp packed/$f d/
	all "$f of another trace" d
done
fresh
cp "packed/$other" "d/$pt"
all "packed bytes as plain PT" d
fresh
cp d/sideband "d/$pt"
all "sideband as PT" d
fresh
cp "d/$pt" d/sideband
all "PT as sideband" d
fresh
mv "d/$image" d/x && mv "d/$big" "d/$image" && mv d/x "d/$big"
all "images swapped" d
"$IPTRACE" -q -f -o two sh -c '/bin/true; :' || fail "recording two processes"
set -- two/threads/*
rm -rf d
cp -a two d
mv "d/threads/${1##*/}" d/x && mv "d/threads/${2##*/}" "d/threads/${1##*/}" && mv d/x "d/threads/${2##*/}"
all "PT of two threads swapped" d
fresh
cp "$1" "d/$pt"
all "PT of another program" d

# --- evil manifests ---
head='{"format":"iptrace-trace","version":1,"status":"complete"'
evil()
{
	fresh
	cat >d/manifest.json
	all "manifest: $1" d
}
repeat()
{
	awk -v s="$1" -v n="$2" 'BEGIN { for (i = 0; i < n; i++) printf "%s", s }'
}
{ echo "$head,\"x\":" && repeat '[' 1000000; } | evil "deep lists"
{ echo "$head,\"x\":" && repeat '{"a":' 200000; } | evil "deep objects"
{ echo "$head,\"argv\":[" && repeat '1,' 3000000 && echo '1]}'; } | evil "three million numbers"
{ echo "$head,\"threads\":[" && repeat '{},' 300000 && echo '{}]}'; } | evil "many empty threads"
echo "$head,\"tool\":\"$(repeat A 3000000)\"}" | evil "long string"
echo "$head,\"exit_status\":99999999999999999999}" | evil "huge number"
echo "$head,\"exit_status\":1e999}" | evil "infinite number"
echo "$head,\"lost_records\":-1}" | evil "negative count"
echo "$head,\"clocks\":{\"shift\":64,\"mult\":4294967295,\"zero\":\"0xffffffffffffffff\"}}" | evil "shift of 64"
echo "$head,\"clocks\":{\"tsc_hz\":1,\"shift\":63,\"mult\":4294967295,\"zero\":\"0xffffffffffffffff\",\"mtc_freq\":255,\"nom_freq\":255,\"start_tsc\":\"0xffffffffffffffff\",\"cpuid_15h\":{\"eax\":4294967295,\"ebx\":0,\"ecx\":4294967295}}}" |
	evil "odd clocks"
echo "$head,\"cpu\":{\"vendor\":\"GenuineIntelGenuineIntel\"}}" | evil "long vendor"
echo "$head,\"cpu\":{\"vendor\":\"GenuineIntel\",\"family\":4294967295,\"model\":4294967295,\"stepping\":4294967295}}" | evil "odd cpu"
for v in 0 2 3 -1 '"1"' 1.0 null '[]' 18446744073709551617; do
	echo "{\"format\":\"iptrace-trace\",\"version\":$v,\"status\":\"complete\"}" | evil "version $v"
done
for k in tool argv cpu clocks threads processes exit_status noretcomp status cwd options; do
	for v in 7 true '"x"' '[[]]' '{"bytes":"0"}'; do
		[ "$k" = status ] && [ "$v" = 7 ] && continue
		printf '%s,"%s":%s}\n' "$(echo "$head" | sed "s/,\"$k\":\"complete\"//")" $k "$v"
	done
done >lines
i=0
while IFS= read -r line; do
	i=$((i + 1))
	fresh
	printf '%s\n' "$line" >d/manifest.json
	run "manifest: $line" d info
done <lines
echo "$head,\"tool\":\"a\\u001b[2J\\u0007b\\u0000c\",\"host\":{\"bytes\":\"1b5b324a\"}}" | evil "control characters"
echo "$head,\"host\":{\"bytes\":\"1b5b324a9b07\"},\"argv\":[\"\\u001b]0;x\\u0007\",\"\\u202e\"],\"cwd\":\"\\r\\n../../etc\"}" |
	evil "terminal codes"
"$IPTRACE" info d >out 2>err
LC_ALL=C grep -q "$(printf '[\001-\010\013-\037\177]')" out && fail "terminal codes: passed on by info"
echo "$head,\"threads\":[{\"pid\":1,\"tid\":\"../../../etc/passwd\",\"gen\":0,\"file\":\"/etc/passwd\"}]}" | evil "paths"
echo "$head,\"processes\":[{\"exe\":\"/../../etc/shadow\"}],\"images\":\"../..\"}" | evil "paths of images"
printf '\377\376{\000}\000' | evil "UTF-16"
printf '%s,"a":"\300\200"}' "$head" | evil "bad UTF-8"
printf '%s,"status":"running"}' "$head" | evil "a key twice"

[ $bad = 0 ] && echo "$cases directories"
[ $bad = 0 ]
