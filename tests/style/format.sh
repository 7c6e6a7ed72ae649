#!/bin/sh
# SPDX-License-Identifier: MIT
# usage: format.sh TOP: clang-format would change nothing.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
cd "$1"
. "$here/files.sh"
command -v clang-format >/dev/null 2>&1 || { echo "skipped: no clang-format"; exit 77; }
# Target programs are often written for what the compiler makes of them: they are free.
files '*.c' '*.h' | grep -v '^./tests/prog/' | xargs clang-format --dry-run -Werror
