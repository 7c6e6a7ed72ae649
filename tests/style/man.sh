#!/bin/sh
# SPDX-License-Identifier: MIT
# usage: man.sh TOP, with the program in $IPTRACE: every command has a page, every option of its table is in
# the page and the reverse, and the pages are clean mdoc.
set -eu
cd "$1"
bad=0
breach() {
	echo "$*"
	bad=1
}

commands=$("$IPTRACE" --help | awk '/^commands:/ {on = 1; next} /^$/ {on = 0} on {print $1}')
[ -n "$commands" ] || breach "no commands in --help"
for c in $commands; do
	page=man/iptrace-$c.1
	[ -f "$page" ] || { breach "$c: no page $page"; continue; }
	grep -q "iptrace-$c 1" man/iptrace.1 || breach "man/iptrace.1 does not name iptrace-$c(1)"
	# "-o --output" a row: letter (or nothing) and name.
	"$IPTRACE" help "$c" | sed -n 's/^  \( \{4\}\|-[A-Za-z], \)--\([a-z0-9-]*\).*/\2/p' | sort >/tmp/ipt-man-$$.help
	sed -n 's/^\.It .*Fl Fl \([a-z0-9-]*\).*/\1/p' "$page" | sort >/tmp/ipt-man-$$.page
	diff /tmp/ipt-man-$$.help /tmp/ipt-man-$$.page >/tmp/ipt-man-$$.diff ||
		breach "$c: options of --help (<) and of $page (>): $(grep '^[<>]' /tmp/ipt-man-$$.diff | tr '\n' ' ')"
	# Letters must agree, too.
	for l in $("$IPTRACE" help "$c" | sed -n 's/^  -\([A-Za-z]\), --\([a-z0-9-]*\).*/\1=\2/p'); do
		grep -q "^\.It Fl ${l%%=*} .*Fl Fl ${l#*=}" "$page" || breach "$page: -${l%%=*} beside --${l#*=}"
	done
done
for page in man/iptrace-*.1; do
	c=$(basename "$page" .1)
	c=${c#iptrace-}
	echo "$commands" | grep -qx "$c" || breach "$page: no such command"
done
rm -f /tmp/ipt-man-$$.*
if command -v mandoc >/dev/null 2>&1; then
	mandoc -T lint -W warning man/*.[1-9] || breach "mandoc finds fault"
else
	echo "no mandoc: pages not linted"
fi
exit $bad
