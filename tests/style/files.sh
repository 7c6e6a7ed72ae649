# SPDX-License-Identifier: MIT
# Sourced: files PATTERN... lists the project's own files of these names, without builds and binary fixtures.
files() {
	expr=
	for p in "$@"; do
		expr="$expr ${expr:+-o} -name $p"
	done
	# The names are patterns for find, not for this shell.
	set -f
	# shellcheck disable=SC2086
	find . \( -name .git -o -path ./build -o -path './iptrace.*' -o -path ./tests/data -o -path ./tests/fuzz/corpus \) -prune \
		-o -type f \( $expr \) -print | sort
	set +f
}
