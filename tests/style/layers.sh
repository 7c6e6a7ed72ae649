#!/bin/sh
# SPDX-License-Identifier: MIT
# usage: layers.sh TOP: who may include whom, and which file may include which foreign library.
# Outside a folder only its front header, FOLDER/FOLDER.h, may be included.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
cd "$1"
. "$here/files.sh"
files '*.c' '*.h' '*.cc' | awk '
BEGIN {
	# folder: front headers it may include beside its own
	may["base"] = ""
	may["pt"] = "base"
	may["x86"] = "base"
	may["store"] = "base pt"
	may["image"] = "base store"
	may["flow"] = "base pt x86 store image"
	may["sym"] = "base store image"
	may["stack"] = "base flow sym image store"
	may["view"] = "base pt x86 store image flow sym stack"
	may["engine"] = "base pt x86"
	may["translate"] = "base pt x86 engine"
	may["backend"] = "base pt x86 store engine translate"
	may["session"] = "base x86 store image sym backend engine translate"
	may["cmd"] = "base pt x86 store image flow sym stack view engine backend session"
	# foreign header: files that may include it (tests may include any)
	fence["intel-pt.h"] = "^symbolizer/flow/ref[^/]*$"
	fence["libdwarf"] = "^symbolizer/sym/dwarf[^/]*$"
	fence["dwarf.h"] = "^symbolizer/sym/dwarf[^/]*$"
	fence["Zydis"] = "^symbolizer/x86/[^/]*$"
	fence["Zycore"] = "^symbolizer/x86/[^/]*$"
	fence["libunwind"] = "^tracer/session/initstack[.]c$"
	fence["jansson.h"] = "^symbolizer/store/[^/]*$"
	fence["zstd.h"] = "^symbolizer/store/[^/]*$"
	fence["xxhash.h"] = "^symbolizer/store/[^/]*$"
	fence["libelf.h"] = "^symbolizer/(sym|store)/[^/]*$"
	fence["gelf.h"] = "^symbolizer/(sym|store)/[^/]*$"
	fence["libiberty"] = "^symbolizer/sym/[^/]*$"
	fence["demangle.h"] = "^symbolizer/sym/[^/]*$"
}
function breach(text) {
	print file ":" n ": " text
	bad++
}
function check_own(inc,   p, f, h) {
	p = index(inc, "/")
	if (!p)
		return
	f = substr(inc, 1, p - 1)
	h = substr(inc, p + 1)
	if (f == folder || f == "iptrace")
		return
	if (!(f in may))
		breach("unknown folder: " inc)
	else if (index(" " may[folder] " ", " " f " ") == 0)
		breach(folder " may not include " f ": " inc)
	else if (h != f ".h")
		breach("not the front header of " f ": " inc)
}
function check_foreign(inc,   k) {
	for (k in fence) {
		if (inc == k || index(inc, k "/") == 1 || index(inc, k ".") == 1 || index(inc, k "-") == 1) {
			if (file !~ fence[k])
				breach("outside its fence: <" inc ">")
		}
	}
}
{
	file = $0
	sub(/^[.]\//, "", file)
	if (file !~ /^(symbolizer|tracer)\//)
		next
	split(file, part, "/")
	folder = part[2]
	if (!(folder in may)) {
		n = 0
		breach("folder without a row in tests/style/layers.sh")
		next
	}
	n = 0
	seen++
	while ((getline line < $0) > 0) {
		n++
		if (line ~ /^[ \t]*#[ \t]*include[ \t]*"/) {
			split(line, q, "\"")
			check_own(q[2])
			check_foreign(q[2])
		} else if (line ~ /^[ \t]*#[ \t]*include[ \t]*</) {
			split(line, q, /[<>]/)
			check_foreign(q[2])
		}
	}
	close($0)
}
END {
	if (!seen) {
		print "no files seen"
		exit 1
	}
	exit bad > 0
}'
