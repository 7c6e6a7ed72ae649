#!/bin/sh
# SPDX-License-Identifier: MIT
# usage: man_examples.sh TOP, with the program in $IPTRACE: every line ".Dl $ iptrace ..." of the man pages runs
# and succeeds; the lines of one page share a folder.
set -eu
top=$1
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
mkdir "$tmp/bin"
ln -s "$IPTRACE" "$tmp/bin/iptrace"
PATH=$tmp/bin:$PATH
bad=0
ran=0
for page in "$top"/man/*.[1-9]; do
	dir=$tmp/$(basename "$page")
	mkdir "$dir"
	sed -n 's/^\.Dl \$ \(iptrace .*\)/\1/p' "$page" >"$tmp/lines"
	while IFS= read -r line; do
		ran=$((ran + 1))
		if ! (cd "$dir" && sh -c "$line") </dev/null >"$tmp/out" 2>"$tmp/err"; then
			echo "$(basename "$page"): fails: $line"
			head -n 5 "$tmp/err"
			bad=1
		fi
	done <"$tmp/lines"
done
echo "$ran examples"
[ "$ran" -gt 10 ] || bad=1
exit $bad
