#!/bin/sh
# SPDX-License-Identifier: MIT
# usage: spelling.sh TOP: codespell finds nothing in sources and documents.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
cd "$1"
. "$here/files.sh"
command -v codespell >/dev/null 2>&1 || { echo "skipped: no codespell"; exit 77; }
files '*.c' '*.h' '*.md' '*.[1-9]' '*.sh' '*.def' CMakeLists.txt |
	xargs codespell --ignore-words-list=iclass,crate,fo,ba,te,nd,hsi,ser,inout,creat,clos,upto
