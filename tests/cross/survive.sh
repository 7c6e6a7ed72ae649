#!/bin/sh
# SPDX-License-Identifier: MIT
# survive.sh front|keeper|both launched|attached KIND...: the front end, the keeper or both are killed
# with SIGKILL at some moment while a program runs translated. The program goes on to its right end,
# and what had been written of it decodes. IPT_ROUNDS: how often, each time at another moment (2).
# IPT_DEATHS: how many of the programs may die with the keeper (a thread that was being stepped).
set -u
who=$1
how=$2
shift 2
progs=$IPT_BUILD_DIR/tests/prog
top=$(mktemp -d "${TMPDIR:-/tmp}/iptsurvive.XXXXXX") || exit 99
target=
cleanup()
{
	[ -n "$target" ] && kill -9 $target 2>/dev/null
	rm -rf "$top"
}
trap cleanup EXIT
cd "$top" || exit 99
bad=0
deaths=0
runs=0

fail()
{
	echo "FAIL $who $how $kind, round $round: $*"
	bad=1
}

until_ok()
{
	n=$(($1 * 50))
	shift
	while ! "$@" 2>/dev/null; do
		n=$((n - 1))
		[ $n -gt 0 ] || return 1
		sleep 0.02
	done
}

ended()
{
	! grep -q '^State:[[:space:]]*[^ZX]' "/proc/$1/status"
}

# The keeper is the child of the front end that leads a session of its own.
child_of()
{
	for c in $(cat "/proc/$1/task/$1/children"); do
		[ "$(awk '{ sub(/.*\) /, ""); print $4 }' "/proc/$c/stat")" = "$c" ] && is=keeper || is=program
		[ $is = "$2" ] && echo "$c" >"$2" && return 0
	done
	return 1
}

written()
{
	[ "$(cat dir/threads/*.pt | wc -c)" -gt 0 ]
}

strike()
{
	case $who in
	front) kill -9 $front ;;
	keeper) kill -9 "$(cat keeper)" ;;
	both) kill -9 $front "$(cat keeper)" ;;
	esac
}

round()
{
	rm -rf dir out keeper program
	if [ "$how" = launched ]; then
		"$IPTRACE" -q -f --engine=translate -o dir "$progs/steady" "$kind" 1500 >out 2>err &
		front=$!
		until_ok 10 child_of $front program || fail "no program"
		target=$(cat program)
	else
		"$progs/steady" "$kind" 1500 >out 2>err.target &
		target=$!
		"$IPTRACE" -q -f --engine=translate -o dir -p $target 2>err &
		front=$!
	fi
	until_ok 10 child_of $front keeper || fail "no keeper"
	until_ok 10 written || fail "nothing is written: $(cat err)"
	sleep "0.$((round * 37 % 60 + 100))"
	struck=0
	strike 2>/dev/null && struck=1
	until_ok 20 ended $target || fail "the program does not end"
	kill -9 $target 2>/dev/null
	wait $front 2>/dev/null
	wait $target 2>/dev/null
	target=
	[ $struck = 1 ] && runs=$((runs + 1))
	if ! grep -q '^right$' out; then
		deaths=$((deaths + 1))
		dead="$dead $kind"
		grep . out && fail "wrong results"
	fi
	until_ok 10 ended "$(cat keeper)" || fail "the keeper stays"
	"$IPTRACE" insn --format=ip dir >ips 2>err || fail "insn: $(head -3 err)"
	[ "$(wc -l <ips)" -gt 1000 ] || fail "only $(wc -l <ips) instructions"
	grep '\[gap' ips && fail "gaps"
}

dead=
for kind; do
	for round in $(seq 1 "${IPT_ROUNDS:-2}"); do
		round
	done
done
[ $deaths -le "${IPT_DEATHS:-0}" ] || bad=1
echo "$who killed, $how: $deaths of $runs programs died with it:$dead"
exit $bad
