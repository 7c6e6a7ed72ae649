#!/bin/sh
# SPDX-License-Identifier: MIT
# relocated.sh: a trace tells the same after its folder was moved and the programs and libraries it
# recorded are gone, or are others.
set -u
top=$(mktemp -d "${TMPDIR:-/tmp}/iptmoved.XXXXXX") || exit 99
trap 'rm -rf "$top"' EXIT
cd "$top" || exit 99
bad=0

fail()
{
	echo "FAIL $*"
	bad=1
}

cat >lib.c <<'END'
int twice(int x) { return x > 2 ? 2 * x : x; }
END
cat >prog.c <<'END'
#include <stdio.h>
int twice(int x);
int main(void) { int n = 0; for (int i = 0; i < 9; i++) n += twice(i); return printf("%d\n", n) < 0; }
END
cc -g -O1 -shared -fPIC -o libtwice.so lib.c 2>err &&
	cc -g -O1 -o prog prog.c ./libtwice.so 2>>err || {
	cat err
	echo "no C compiler"
	exit 77
}
if ! "$IPTRACE" -q -f -o trace sh -c './prog; :' >out 2>err; then
	cat err
	echo "nothing can be recorded here"
	exit 77
fi

# tell DIR FILE: what must not change.
tell()
{
	"$IPTRACE" insn --format=ip "$1" >"$2.ip" 2>"$2.err" || fail "insn $1: $(head -2 "$2.err")"
	"$IPTRACE" insn --decoder=insn --format=ip "$1" >"$2.ip2" 2>>"$2.err" || fail "insn $1"
	"$IPTRACE" packets "$1" >"$2.packets" 2>>"$2.err" || fail "packets $1"
	"$IPTRACE" info --json "$1" 2>>"$2.err" | sed 's/"trace": *"[^"]*"//' >"$2.info"
}

tell trace before
[ "$(wc -l <before.ip)" -gt 50000 ] || fail "only $(wc -l <before.ip) instructions"
mkdir -p "away/a b" && mv trace "away/a b/moved trace" && rm -f prog libtwice.so
tell "away/a b/moved trace" after
for f in ip ip2 packets info err; do
	cmp before.$f after.$f || fail "other $f after the programs are gone"
done
# Others in their place must not be taken for them.
cc -O2 -DOTHER -shared -fPIC -o libtwice.so prog.c -Wl,--allow-shlib-undefined 2>/dev/null
cp /bin/true prog
tell "away/a b/moved trace" other
for f in ip ip2 packets info; do
	cmp before.$f other.$f || fail "other $f with other programs in their place"
done
"$IPTRACE" report "away/a b/moved trace" >report 2>err || fail "report: $(head -2 err)"
grep -qw 'twice\|main' report && fail "names of a program that is gone: $(grep -w 'twice\|main' report)"
cat err
[ $bad = 0 ] && echo "$(wc -l <before.ip) instructions, as before"
exit $bad
