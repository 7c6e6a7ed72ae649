#!/bin/sh
# SPDX-License-Identifier: MIT
# usage: headers.sh TOP CC: every header compiles alone.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
cd "$1"
cc=$2
. "$here/files.sh"
bad=0
for h in $(files '*.h'); do
	case $h in ./include/* | ./symbolizer/* | ./tracer/* | ./tests/lib/*) ;; *) continue ;; esac
	"$cc" -std=gnu11 -D_GNU_SOURCE -fsyntax-only -Wall -Wextra -Werror -Wno-unused-function -Iinclude -Isymbolizer \
		-Itracer -Itests/lib -I"$(dirname "$h")" -x c -include "$h" /dev/null || {
		echo "$h does not compile alone"
		bad=1
	}
done
exit $bad
