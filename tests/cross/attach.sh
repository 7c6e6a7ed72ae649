#!/bin/sh
# SPDX-License-Identifier: MIT
# attach.sh CASE: iptrace -p on programs that run. Cases:
#   crowd   200 threads under a limit of 32 descriptors: all recorded, decode equals the step log
#   rounds  attach and detach again and again to a program that makes a thread each millisecond
#   stack   the stack at attach against gdb's backtrace
#   signals nothing is lost or added of signals that come while attaching
#   refuse  what cannot be attached to, and why
#   vfork   a parent that waits in vfork is let go at once
#   masked  the caller has blocked the signals that the recorder uses itself
#   stopped a stopped process stays stopped, and goes on when told
#   filter  the program filters its syscalls while it is traced: nothing is asked of it any more
#   waits   threads that wait in all ways, and compute, see nothing of it
# IPT_ENGINE: the engine, step when not set.
set -u
case=$1
engine=${IPT_ENGINE:-step}
progs=$IPT_BUILD_DIR/tests/prog
top=$(mktemp -d "${TMPDIR:-/tmp}/iptattach.XXXXXX") || exit 99
target=
cleanup()
{
	[ -n "$target" ] && kill -9 $target 2>/dev/null
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

# wait_for TRIES COMMAND...: until it succeeds, a 50th of a second each.
wait_for()
{
	n=$1
	shift
	while ! "$@" 2>/dev/null; do
		n=$((n - 1))
		[ "$n" -gt 0 ] || return 1
		sleep 0.02
	done
}

now_ms()
{
	echo $(($(date +%s%N) / 1000000))
}

all_traced()
{
	[ "$(cat /proc/"$1"/task/*/status | grep -c '^TracerPid:[[:space:]]*[1-9]')" -ge "$2" ]
}

untraced()
{
	! cat /proc/"$1"/task/*/status | grep -q '^TracerPid:[[:space:]]*[1-9]'
}

ended()
{
	! kill -0 "$1"
}

lines_of()
{
	wc -l <"$1"
}

# The target counts on, without a number missing.
undisturbed()
{
	before=$(lines_of "$1")
	wait_for 100 more_lines "$1" "$before" || fail "the target does not go on"
	awk '$1 != NR - 1 { print "line " NR " is " $1; exit 1 }' "$1" || fail "output disturbed"
}

more_lines()
{
	[ "$(lines_of "$1")" -gt "$2" ]
}

stop_recorder()
{
	t0=$(now_ms)
	kill -INT "$1"
	wait_for 500 untraced "$target" || fail "still traced"
	gone=$(($(now_ms) - t0))
	wait "$1"
	status=$?
	[ $status -eq 0 ] || fail "status $status"
	[ $gone -lt 1000 ] || fail "detached after $gone ms"
	grep memfd "/proc/$target/maps" && fail "memory of ours is left"
}

# Each thread's decode is what was stepped.
same_as_log()
{
	for log in "$1".log.*; do
		tid=${log#"$1".log.*.}
		tid=${tid%.*}
		gen=${log##*.}
		"$IPTRACE" insn --format=ip --tid "$tid" "$1" >ips 2>err || fail "insn: $(cat err)"
		[ "$gen" = 0 ] && ! cmp -s ips "$log" && fail "thread $tid differs from what was stepped"
	done
}

crowd()
{
	(ulimit -n 32 && exec "$progs/crowd" 200 >out) &
	target=$!
	wait_for 250 more_lines out 3
	t0=$(now_ms)
	"$IPTRACE" -q --engine=$engine -o dir --step-log=dir.log -p $target &
	recorder=$!
	wait_for 500 all_traced $target 200 || fail "not all threads under trace"
	echo "200 threads under trace in $(($(now_ms) - t0)) ms"
	sleep 2
	stop_recorder $recorder
	undisturbed out
	same_as_log dir
	"$IPTRACE" info --json dir >info || fail "info"
	[ "$(grep -c '"tid"' info)" -eq 200 ] || fail "not 200 threads in the trace"
	grep -q '"complete": *true' info || fail "not complete"
	# None may starve beside the others.
	idle=$(grep -A8 '"tid"' info | grep -c '"instructions": *0,')
	[ "$idle" -le 4 ] || fail "$idle threads never ran"
}

rounds()
{
	"$progs/spawner" >out &
	target=$!
	wait_for 250 more_lines out 3
	for i in $(seq 1 "${IPT_ROUNDS:-40}"); do
		"$IPTRACE" -q --engine=$engine -o dir --force -p $target &
		recorder=$!
		wait_for 500 all_traced $target 1 || fail "round $i: not attached"
		sleep "0.0$((i * 7 % 10))"
		stop_recorder $recorder
		kill -0 $target 2>/dev/null || {
			fail "round $i: the target is dead"
			break
		}
		[ $bad -eq 0 ] || break
	done
	undisturbed out
	"$IPTRACE" check dir >check 2>&1 || fail "check: $(cat check)"
}

stack()
{
	command -v gdb >/dev/null || {
		echo "no gdb here"
		exit 77
	}
	"$progs/crowd" 2 >out &
	target=$!
	wait_for 250 more_lines out 3
	"$IPTRACE" -q --engine=$engine -o dir -p $target &
	recorder=$!
	wait_for 500 all_traced $target 2
	stop_recorder $recorder
	gdb -batch -p $target -ex bt 2>/dev/null | sed -n 's/^#[0-9]* .*[ ]\([a-zA-Z_][a-zA-Z_0-9]*\) (.*/\1/p' |
		grep -c '^deep$' >gdb.deep
	"$IPTRACE" tree --tid $target dir >tree || fail "tree"
	grep -c 'deep() { \[on the stack' tree >our.deep
	cmp -s gdb.deep our.deep || fail "$(cat our.deep) frames of deep(), gdb has $(cat gdb.deep)"
	[ "$(cat our.deep)" -eq 21 ] || fail "not 21 frames of deep()"
	grep -q '^ *main() { \[on the stack' tree || fail "main is not on the stack"
}

signals()
{
	sh -c 'n=0; trap "n=\$((n + 1))" USR1; trap "echo \$n >count; exit 0" TERM
		echo ready >state; while :; do sleep 0.01; done' &
	target=$!
	wait_for 250 test -s state
	sent=0
	for i in $(seq 1 10); do
		"$IPTRACE" -q --engine=$engine -o dir --force -p $target &
		recorder=$!
		wait_for 500 all_traced $target 1
		kill -USR1 $target
		sent=$((sent + 1))
		# One at a time: an ordinary signal that is pending already would merge.
		wait_for 500 taken $target
		stop_recorder $recorder
	done
	kill -TERM $target
	wait_for 500 test -s count
	[ "$(cat count)" -eq $sent ] || fail "$sent signals sent, $(cat count) handled"
	target=
}

# SIGUSR1 (bit 9) is pending no more.
taken()
{
	! grep -E -q '^(SigPnd|ShdPnd):[[:space:]]*[0-9a-f]*[2367abef][0-9a-f]{2}$' "/proc/$1/status"
}

# refused STATUS TEXT COMMAND...
refused()
{
	want=$1
	text=$2
	shift 2
	timeout 20 "$@" >said 2>&1
	got=$?
	[ $got -eq "$want" ] || fail "$*: status $got, not $want"
	grep -q "$text" said || fail "$*: said '$(cat said)', not '$text'"
	[ "$(lines_of said)" -eq 1 ] || fail "$*: more than one line: $(cat said)"
	[ ! -e none ] || fail "$*: left a directory"
}

refuse()
{
	"$progs/crowd" 2 >out &
	target=$!
	wait_for 250 more_lines out 1
	refused 125 'no such process' "$IPTRACE" -o none -p 999999999
	refused 125 'no such process' "$IPTRACE" -o none -p "$target,999999999"
	untraced $target || fail "the other process is still traced"
	refused 2 'not a list' "$IPTRACE" -o none -p notanumber
	refused 125 'itself' sh -c 'exec "$IPTRACE" -o none -p $$'
	"$IPTRACE" -q --engine=$engine -o dir -p $target &
	recorder=$!
	wait_for 500 all_traced $target 2
	refused 125 "already traced by process" "$IPTRACE" -o none -p $target
	stop_recorder $recorder
	refused 125 'exists already' "$IPTRACE" -o dir -p $target
	untraced $target || fail "traced after a refusal"
	if [ "$(id -u)" -eq 0 ] && command -v setpriv >/dev/null; then
		chmod 755 .
		refused 125 'belongs to user' setpriv --reuid 65534 --clear-groups "$IPTRACE" -o none -p $target
	fi
}

state_is()
{
	grep -q "^State:[[:space:]]*$2" "/proc/$1/status"
}

stopped()
{
	"$progs/crowd" 3 >out &
	target=$!
	wait_for 250 more_lines out 1
	kill -STOP $target
	wait_for 250 state_is $target T || fail "not stopped"
	"$IPTRACE" -q --engine=$engine -o dir -p $target &
	recorder=$!
	wait_for 500 all_traced $target 3
	sleep 0.3
	before=$(lines_of out)
	sleep 0.3
	[ "$(lines_of out)" -eq "$before" ] || fail "attaching let a stopped process run"
	kill -CONT $target
	wait_for 500 more_lines out "$before" || fail "does not go on after SIGCONT"
	kill -STOP $target
	sleep 0.3
	stop_recorder $recorder
	wait_for 250 state_is $target T || fail "not stopped after the detach"
	kill -CONT $target
	undisturbed out
}

vfork()
{
	"$progs/vforker" >out &
	target=$!
	wait_for 250 test -s out
	"$IPTRACE" -q --engine=$engine -o dir -p $target &
	recorder=$!
	wait_for 500 all_traced $target 1
	sleep 0.2
	stop_recorder $recorder
	# The parent first, which would make another one.
	kill -9 $target $(pgrep -P $target)
	target=
}

masked()
{
	command -v python3 >/dev/null || exit 77
	"$progs/crowd" 2 >out &
	target=$!
	wait_for 250 more_lines out 3
	python3 -c 'import os, signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM, signal.SIGIO])
os.execv(sys.argv[1], sys.argv[1:])' "$IPTRACE" -q --engine=$engine -o dir -p $target &
	recorder=$!
	wait_for 500 all_traced $target 2
	stop_recorder $recorder
	undisturbed out
}

filter()
{
	mkfifo go
	# Attached to before it begins.
	sh -c 'read -r x <go; exec "$0" together 5000' "$progs/tight" >out &
	target=$!
	"$IPTRACE" -q --engine=$engine -o dir -p $target 2>said &
	recorder=$!
	wait_for 500 all_traced $target 1
	echo >go
	wait_for 500 grep -q filtered out || fail "no filter"
	kill -INT $recorder
	wait $recorder || fail "status $?: $(cat said)"
	grep -q TracerPid:.0 "/proc/$target/status" || fail "still traced"
	if [ $engine = translate ]; then
		[ "$(grep -c 'our memory stays' said)" -eq 1 ] || fail "said: $(cat said)"
	fi
	wait $target
	status=$?
	target=
	[ $status -eq 0 ] || fail "status $status"
	grep -q 'together good' out || fail "$(cat out)"
}

waits()
{
	"$progs/attached" 100 >out &
	target=$!
	wait_for 250 more_lines out 0
	for i in $(seq 1 "${IPT_ROUNDS:-5}"); do
		"$IPTRACE" -q --engine=$engine -o dir --force -p $target &
		recorder=$!
		wait_for 500 all_traced $target 11 || fail "round $i: not attached"
		kill -USR1 $target
		sleep "0.0$((i * 7 % 10))"
		stop_recorder $recorder
	done
	touch stop
	wait $target
	status=$?
	target=
	[ $status -eq 0 ] || fail "status $status: $(cat out)"
	grep -q "^${IPT_ROUNDS:-5} signals" out || fail "signals lost: $(cat out)"
	"$IPTRACE" check dir >check 2>&1 || fail "check: $(cat check)"
}

case $case in
waits | filter | crowd | rounds | stack | signals | refuse | stopped | vfork | masked) $case ;;
*) exit 99 ;;
esac
exit $bad
