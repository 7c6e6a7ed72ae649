#!/bin/sh
# SPDX-License-Identifier: MIT
# usage: selftest.sh TOP: the other scripts must report a breach planted in a copy of the tree, and none without.
set -eu
top=$1
here=$(cd "$(dirname "$0")" && pwd)
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
bad=0

fresh() {
	rm -rf "$tmp/t"
	mkdir "$tmp/t"
	(cd "$top" && tar cf - include symbolizer tracer tests/style) | (cd "$tmp/t" && tar xf -)
}

# plant SCRIPT FILE LINE WORDS: append LINE to FILE of a fresh copy; SCRIPT must fail and say WORDS.
plant() {
	fresh
	mkdir -p "$(dirname "$tmp/t/$2")"
	printf '%s\n' "$3" >>"$tmp/t/$2"
	if sh "$here/$1" "$tmp/t" >"$tmp/out" 2>&1; then
		echo "$1 did not report '$3' in $2"
		bad=1
	elif ! grep -qF "$4" "$tmp/out"; then
		echo "$1 reported '$3' in $2 without saying '$4':"
		cat "$tmp/out"
		bad=1
	fi
}

fresh
sh "$here/layers.sh" "$tmp/t" || { echo "layers.sh fails on the tree as it is"; bad=1; }
plant layers.sh symbolizer/base/buf.c '#include "pt/pt.h"' 'base may not include pt'
plant layers.sh symbolizer/sym/sym.c '#include "flow/flow.h"' 'sym may not include flow'
plant layers.sh tracer/engine/ptgen.c '#include "store/store.h"' 'engine may not include store'
plant layers.sh symbolizer/view/walk.c '#include "cmd/cmd.h"' 'view may not include cmd'
plant layers.sh tracer/cmd/main.c '#include "sym/sym_priv.h"' 'not the front header'
plant layers.sh symbolizer/view/walk.c '#include <Zydis/Zydis.h>' 'outside its fence'
plant layers.sh tracer/cmd/caps.c '#include <jansson.h>' 'outside its fence'
plant layers.sh symbolizer/flow/run.c '#  include <intel-pt.h>' 'outside its fence'
plant layers.sh symbolizer/pt/dec.c '#include <libunwind-ptrace.h>' 'outside its fence'
plant layers.sh symbolizer/newfolder/a.c 'int x;' 'folder without a row'
plant text.sh symbolizer/base/new.c 'int x;' 'no SPDX line'
plant text.sh symbolizer/base/buf.c "/* TO""DO */" 'unfinished mark'
plant text.sh include/iptrace/error.def 'IPT_E(AGAIN, 1000, "again")' 'number twice'
plant text.sh include/iptrace/error.def 'IPT_E(EOS, 1999, "again")' 'name twice'
plant text.sh symbolizer/base/buf.c "$(yes '' | head -n 800; echo ';')" 'at most 800'
exit $bad
