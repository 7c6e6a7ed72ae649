#!/bin/sh
# SPDX-License-Identifier: MIT
# kill9.sh: the front end or the keeper is killed, or the disk fills, in the middle of a recording.
# The program lives on, the trace opens, says what it is, and decodes as far as it was written.
# IPT_ENGINE: the engine, step when not set. A program that is single-stepped ends with the keeper.
set -u
engine=${IPT_ENGINE:-step}
top=$(mktemp -d "${TMPDIR:-/tmp}/iptkill.XXXXXX") || exit 99
target=
mounted=
cleanup()
{
	[ -n "$target" ] && kill -9 $target 2>/dev/null
	[ -n "$mounted" ] && umount "$top/small"
	rm -rf "$top"
}
trap cleanup EXIT
cd "$top" || exit 99
bad=0

fail()
{
	echo "FAIL $case: $*"
	bad=1
}

# until SECONDS COMMAND...: wait for it to succeed.
until_ok()
{
	n=$(($1 * 20))
	shift
	while ! "$@" 2>/dev/null; do
		n=$((n - 1))
		[ $n -gt 0 ] || return 1
		sleep 0.05
	done
}

# pt_beyond DIR BYTES: so much PT is in the files.
pt_beyond()
{
	[ "$(cat "$1"/threads/*.pt | wc -c)" -gt "$2" ]
}

gone()
{
	! kill -0 "$1"
}

# Gone, or a zombie that nobody has waited for.
ended()
{
	! grep -q '^State:[[:space:]]*[^ZX]' "/proc/$1/status"
}

untraced()
{
	grep -q '^TracerPid:[[:space:]]*0$' "/proc/$1/status"
}

field()
{
	awk -v f="$2:" '$1 == f { print $2 }' "/proc/$1/status"
}

# The keeper is the child of the front end that leads a session of its own.
keeper_of()
{
	for c in $(cat "/proc/$1/task/$1/children"); do
		[ "$(awk '{ sub(/.*\) /, ""); print $4 }' "/proc/$c/stat")" = "$c" ] && echo "$c"
	done
}

target_of()
{
	for c in $(cat "/proc/$1/task/$1/children"); do
		[ "$(awk '{ sub(/.*\) /, ""); print $4 }' "/proc/$c/stat")" = "$c" ] || echo "$c"
	done
}

complete()
{
	grep -q '"status": *"complete"' "$1/manifest.json"
}

# runs PID: it uses processor time.
runs()
{
	before=$(awk '{ sub(/.*\) /, ""); print $12 + $13 }' "/proc/$1/stat") || return 1
	until_ok 10 used_more "$1" "$before"
}

used_more()
{
	[ "$(awk '{ sub(/.*\) /, ""); print $12 + $13 }' "/proc/$1/stat")" -gt "$2" ]
}

decodes()
{
	"$IPTRACE" insn --format=ip "$1" >insns 2>err || fail "insn: $(head -3 err)"
	[ "$(wc -l <insns)" -gt 10000 ] || fail "only $(wc -l <insns) instructions: $(head -3 err)"
	grep -q '\[gap' insns && fail "$(grep -c '\[gap' insns) gaps: $(grep -m2 '\[gap' insns)"
	# A salvaged trace is a fault to check; the decoders must agree all the same.
	"$IPTRACE" check "$1" >out 2>err || grep -q 'salvaged' err || fail "check: $(tail -2 out) $(head -3 err)"
	grep -q ' 0 threads decoded differently' out || fail "check: $(tail -2 out) $(head -3 err)"
}

# Indirect calls make much PT. With an argument the program ends after so many thousand of them. No
# library: its code would need more of the small disk than its packets.
cat >loop.c <<'END'
static long call(long n, long a, long b, long c)
{
	long r;

	__asm__ volatile("syscall" : "=a"(r) : "a"(n), "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
	return r;
}
static volatile unsigned long n;
static void step(void) { n++; }
static void (*volatile to)(void) = step;
__attribute__((used)) static void go(long *sp)
{
	unsigned long max = 0;

	if (sp[0] > 1) {
		for (const char *p = (const char *)sp[2]; *p; p++)
			max = max * 10 + (unsigned long)(*p - '0');
	}
	while (!max || n < max * 1000)
		to();
	call(1, 1, (long)"counted\n", 8);
	call(231, 0, 0, 0);
}
__asm__(".globl _start\n_start: mov %rsp, %rdi\n and $-16, %rsp\n call go\n hlt\n");
END
cc -O1 -static -nostdlib -fno-stack-protector -fcf-protection=none -o loop loop.c 2>err || {
	cat err
	echo "no C compiler"
	exit 77
}
if ! "$IPTRACE" -q --engine=$engine -o try /bin/true 2>err; then
	cat err
	echo "nothing can be recorded here"
	exit 77
fi

case="front end killed, launched"
"$IPTRACE" -q --engine=$engine -m 4K -o a ./loop >out.a 2>err.a &
front=$!
until_ok 30 pt_beyond a 9000 || fail "no PT is written"
keeper=$(keeper_of $front)
target=$(target_of $front)
kill -9 $front
until_ok 10 complete a || fail "the trace is not finished"
until_ok 10 gone "$keeper" || fail "the keeper stays"
untraced "$target" || fail "the program is still traced"
runs "$target" || fail "the program does not run on: $(field "$target" State)"
kill -9 "$target"
wait $front 2>/dev/null
target=
"$IPTRACE" info --json a | grep -q '"salvaged": *null' || fail "$("$IPTRACE" info a | head -3)"
"$IPTRACE" info --json a | grep -q '"complete": *true' || fail "not complete"
decodes a

case="front end killed, attached"
./loop &
target=$!
"$IPTRACE" -q --engine=$engine -m 4K -o b -p $target >out.b 2>err.b &
front=$!
until_ok 30 pt_beyond b 9000 || fail "no PT is written: $(cat err.b)"
kill -9 $front
wait $front 2>/dev/null
until_ok 10 complete b || fail "the trace is not finished"
untraced $target || fail "the program is still traced"
runs $target || fail "the program does not run on: $(field $target State)"
kill -9 $target
wait $target 2>/dev/null
target=
"$IPTRACE" info --json b | grep -q '"complete": *true' || fail "not complete"
decodes b

case="keeper killed, launched"
"$IPTRACE" -q --engine=$engine -m 4K -o c ./loop >out.c 2>err.c &
front=$!
until_ok 30 pt_beyond c 9000 || fail "no PT is written"
keeper=$(keeper_of $front)
target=$(target_of $front)
kill -9 "$keeper"
if [ $engine = translate ]; then
	until_ok 10 untraced "$target" || fail "still traced"
	runs "$target" || fail "the program does not run on: $(field "$target" State)"
	kill -9 "$target" 2>/dev/null
fi
until_ok 10 ended $front || fail "the front end does not end"
kill -9 "$target" 2>/dev/null
wait $front
status=$?
target=
[ $status -eq 125 ] || fail "status $status, not 125"
[ "$(grep -c . err.c)" -eq 1 ] && grep -q '^iptrace: .*keeper' err.c || fail "message: $(cat err.c)"
complete c && fail "says it is complete"
"$IPTRACE" info c 2>&1 | grep -q salvaged || fail "not called salvaged"
decodes c

case="keeper killed, attached"
./loop &
target=$!
"$IPTRACE" -q --engine=$engine -m 4K -o d -p $target >out.d 2>err.d &
front=$!
until_ok 30 pt_beyond d 9000 || fail "no PT is written"
kill -9 "$(keeper_of $front)"
until_ok 10 ended $front || fail "the front end does not end"
wait $front
status=$?
[ $status -eq 125 ] || fail "status $status, not 125"
[ "$(grep -c . err.d)" -eq 1 ] && grep -q '^iptrace: .*keeper' err.d || fail "message: $(cat err.d)"
if [ $engine = translate ]; then
	runs $target || fail "the program does not run on: $(field $target State)"
fi
kill -9 $target 2>/dev/null
wait $target 2>/dev/null
target=
"$IPTRACE" info d 2>&1 | grep -q salvaged || fail "not called salvaged"
decodes d

case="disk full"
mkdir small
if [ "$(id -u)" -eq 0 ] && mount -t tmpfs -o size=2m none small 2>/dev/null; then
	mounted=1
	dd if=/dev/zero of=small/filler bs=1K count=700 status=none
	timeout 100 "$IPTRACE" -q --engine=$engine --noretcomp --psb=128 -m 16K -o small/t ./loop 100 >out 2>err
	status=$?
	[ "$(cat out)" = counted ] || fail "the program did not end as it should: $(cat out)"
	[ $status -eq 124 ] || fail "status $status, not 124"
	grep -q '^iptrace: .*space' err || fail "message: $(cat err)"
	"$IPTRACE" info --json small/t >info 2>err || fail "info: $(cat err)"
	grep -q '"complete": *false' info || fail "said to be complete"
	grep -q '"status": *"complete"' info || fail "not finished"
	grep -q '"gaps": *[1-9]' info || fail "no gap is counted"
	"$IPTRACE" insn small/t 2>err | grep -a '\[gap' >gaps
	grep -q 'disk-full' gaps || fail "no gap with cause disk-full: $(head -2 gaps)"
	"$IPTRACE" insn --format=ip small/t >insns 2>err || fail "insn: $(cat err)"
	[ "$(wc -l <insns)" -gt 10000 ] || fail "only $(wc -l <insns) instructions"
	"$IPTRACE" check small/t >out 2>err || fail "check: $(tail -2 out) $(head -3 err)"
else
	echo "disk full: not tested, since no small file system can be mounted here"
	skip=77
fi
[ $bad = 0 ] || exit 1
echo "killed and filled: all as told"
exit ${skip:-0}
