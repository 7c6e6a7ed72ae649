#!/bin/sh
# SPDX-License-Identifier: MIT
# usage: text.sh TOP: licence line, length of files, words that must not stay, unique error codes, all rows
# of the commands.
set -eu
top=$1
here=$(cd "$(dirname "$0")" && pwd)
cd "$top"
. "$here/files.sh"
bad=0
breach() {
	echo "$*"
	bad=1
}

for f in $(files '*.c' '*.h' '*.cc' '*.S' '*.def' '*.sh' CMakeLists.txt bootstrap run '*.t'); do
	head -n 2 "$f" | grep -q 'SPDX-License-Identifier: MIT' || breach "$f: no SPDX line"
done
for f in $(files '*.c' '*.h' '*.cc' '*.S'); do
	n=$(wc -l <"$f")
	[ "$n" -le 800 ] || breach "$f: $n lines, at most 800"
done
# Spelled in pieces so that this file does not match itself.
for f in $(files '*.c' '*.h' '*.cc' '*.S' '*.def' '*.sh' '*.md' '*.[1-9]' '*.txt' '*.json' bootstrap run '*.py'); do
	if grep -nE '(^|[^a-z])/(wo''rk|fa''rm)/|TO''DO|FIX''ME|(^|[^X])XX''X($|[^X])' "$f"; then
		breach "$f: unfinished mark or path of a machine"
	fi
done
dup=$(sed -n 's/^IPT_E([A-Z0-9]*, \([0-9]*\),.*/\1/p' include/iptrace/error.def | sort | uniq -d)
[ -z "$dup" ] || breach "error.def: number twice: $dup"
dup=$(sed -n 's/^IPT_E(\([A-Z0-9]*\),.*/\1/p' include/iptrace/error.def | sort | uniq -d)
[ -z "$dup" ] || breach "error.def: name twice: $dup"
exit $bad
