#!/bin/sh
# SPDX-License-Identifier: MIT
# Wrong command lines: status 2, one line that says why, nothing on standard output, nothing done.
set -eu
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp"
bad=0

# refuse STATUS WORDS ARGS...
refuse() {
	want=$1
	words=$2
	shift 2
	status=0
	"$IPTRACE" "$@" >out 2>err </dev/null || status=$?
	if [ "$status" -ne "$want" ] || ! grep -qF -e "$words" err || [ "$(wc -l <err)" -ne 1 ] || [ -s out ]; then
		echo "iptrace $*: status $status (want $want), says:"
		cat err
		bad=1
	fi
	rm -f out err
	[ -z "$(ls -A)" ] || { echo "iptrace $*: left $(ls -A)"; bad=1; rm -rf ./*; }
}

refuse 2 "iptrace: record: unknown option '--bogus'" --bogus true
refuse 2 "iptrace: record: unknown option '--bogus'" record --bogus true
refuse 2 "iptrace: attach: unknown option '-u'" attach -u root -p 1
refuse 2 "-o needs an argument" record -o
refuse 2 "no program given" record
refuse 2 "no program given" -q
refuse 2 "no program given" --
refuse 2 "no process given" attach
refuse 2 "a program and -p together" -p 1 true
refuse 2 "-u and -E are for a program" -p 1 -E A=1
refuse 2 "a variable without a name" -E =x true
refuse 2 "the program's name is empty" ""
refuse 2 "'fast' is not one of auto|helper|perf|translate|step" --engine=fast true
refuse 2 "is not a size" -m 1 true
refuse 2 "is not a size" --psb=127 true
refuse 2 "is not a list of process ids" -p x
refuse 2 "not supported yet" -S true
refuse 2 "not supported yet" -a true
refuse 2 "is not a value" --only= true
refuse 2 "is not a value" --exclude= true
refuse 2 "not supported yet" --config=cyc true
refuse 125 "engine perf" --engine=perf true
refuse 125 "engine helper" --engine=helper true
refuse 125 "no trace in the current folder" info
refuse 2 "no such command 'nonsense'" help nonsense
refuse 2 "is not one of ref|insn" insn --decoder=x
refuse 2 "is not a range" tree --range=5
refuse 2 "--intel and --att together" insn --intel --att .
refuse 2 "one trace directory at a time" report a b
refuse 2 "unknown option '-D'" report -D 3
refuse 2 "give -o DIR and one PATH" import x
refuse 2 "takes no argument" caps x
refuse 125 "no manifest.json; name a directory that iptrace made" info .
refuse 125 "No such file or directory" insn missing

# Help and version succeed, on standard output, and end at a full disk with an error.
for args in --help --version help "help record" "record --help" "insn -h" "caps --help"; do
	# shellcheck disable=SC2086
	"$IPTRACE" $args >out 2>err || { echo "iptrace $args fails"; bad=1; }
	[ -s out ] && [ ! -s err ] || { echo "iptrace $args: wrong stream"; bad=1; }
	rm -f out err
done
if [ -c /dev/full ] && "$IPTRACE" --help >/dev/full 2>/dev/null; then
	echo "iptrace --help >/dev/full succeeds"
	bad=1
fi
status=0
"$IPTRACE" 2>/dev/null || status=$?
[ "$status" -eq 2 ] || { echo "iptrace without arguments: $status"; bad=1; }
exit $bad
