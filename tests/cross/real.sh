#!/bin/sh
# SPDX-License-Identifier: MIT
# real.sh CASE: a whole program as people use it, untraced and recorded by $IPT_ENGINE (translate) with
# its children: output and exit status are the same, nothing is missing of the trace, it can be decoded,
# and hardly an instruction was single-stepped. Cases:
#   gzip xz sqlite perl bash gcc node java git nginx ls
#   py_json py_threading py_signal py_subprocess   of Python's own tests
# IPT_KEEP: a folder that all is copied to when it fails. IPT_DECODE: up to how many million instructions
# are decoded too (200).
set -u
LC_ALL=C
TZ=UTC
export LC_ALL TZ
case=$1
engine=${IPT_ENGINE:-translate}
top=$(mktemp -d "${TMPDIR:-/tmp}/iptreal.XXXXXX") || exit 99
trap 'rm -rf "$top"' EXIT
bad=0

fail()
{
	echo "FAIL $case: $*"
	bad=1
}

need()
{
	for tool; do
		command -v "$tool" >/dev/null 2>&1 || {
			echo "$tool is not installed"
			exit 77
		}
	done
}

# A few megabytes of text that is the same in both runs.
text()
{
	find /usr/include -name '*.h' -type f | sort | head -n 400 | xargs cat 2>/dev/null | head -c "$1" >"$2"
}

# make_CASE: in an empty folder, before each run. It writes run.sh, which is what is run.
make_gzip()
{
	need gzip
	text 300000 in
	cat >run.sh <<-'RUN'
	gzip -9nc in >in.gz && cksum <in.gz && gzip -dc in.gz | cksum && gzip -tv in.gz
	gzip -d <in; echo "status $?"
	RUN
}

make_xz()
{
	need xz
	text 300000 in
	cat >run.sh <<-'RUN'
	xz -T2 -1 --block-size=75KiB -c in >in.xz && cksum <in.xz && xz -T2 -dc in.xz | cksum
	xz -t in; echo "status $?"
	RUN
}

make_sqlite()
{
	need sqlite3
	cat >in.sql <<-'RUN'
	create table t(a integer primary key, b text, c real);
	with recursive n(i) as (select 1 union all select i + 1 from n where i < 4000)
		insert into t select i, 'row ' || (i * 7919 % 10007), i / 3.0 from n;
	create index x on t(b);
	select count(*), sum(a), round(avg(c), 3), max(b) from t;
	select b, count(*) k from t where b like '%77%' group by b order by k desc, b limit 20;
	select s.a, u.b from t s join t u on s.b = u.b and s.a < u.a order by 1, 2 limit 10;
	begin; delete from t where a % 3 = 0; update t set c = c * 2 where a % 5 = 0; commit;
	select sum(c) from t; pragma integrity_check; select no_such from t;
	RUN
	echo 'sqlite3 db <in.sql; echo "status $?"; sqlite3 db "select count(*) from t"' >run.sh
}

make_perl()
{
	need perl
	text 60000 in
	cat >in.pl <<-'RUN'
	use strict; use Time::HiRes 'ualarm'; my (%n, $v);
	while (<>) { $n{lc $1}++ while /(\w+)/g; s/(\d+)/$1 * 2/ge; $v += length }
	printf "%s %d\n", $_, $n{$_} for (sort { $n{$b} <=> $n{$a} || $a cmp $b } keys %n)[0 .. 19];
	local $SIG{ALRM} = sub { die "alarm\n" };
	eval { ualarm 20000; 1 while 1 }; print "$v $@";
	my $k = fork; exit 3 unless $k; waitpid $k, 0; print $? >> 8, "\n";
	print sprintf("%.6f", eval { my $x = 0; $x += sin($_) for 1 .. 20000; $x }), "\n";
	exit 5;
	RUN
	echo 'PERL_HASH_SEED=0 exec perl in.pl in' >run.sh
}

make_bash()
{
	need bash
	cat >in.bash <<-'RUN'
	set -e
	fib() { (($1 < 2)) && echo "$1" || echo $(($(fib $(($1 - 1))) + $(fib $(($1 - 2))))); }
	fib 8
	trap 'echo usr1' USR1; kill -USR1 $$
	declare -A m; for i in {1..500}; do m[k$((i * 37 % 101))]+=x; done; echo ${#m[@]} ${m[k5]}
	seq 1 300 | while read -r n; do [[ $n =~ 7$ ]] && echo -n "$n "; done | tr ' ' ,; echo
	(sleep 0.05; exit 4) & wait $! || echo "child $?"
	coproc cat; echo through >&${COPROC[1]}; read -r line <&${COPROC[0]}; echo "$line"
	exec {COPROC[1]}>&-
	cat <<<here | sort; diff <(echo a) <(echo b) || :
	exit 6
	RUN
	echo 'exec bash in.bash' >run.sh
}

make_ls()
{
	mkdir d
	(cd d && for i in $(seq 1 300); do echo "$i" >"file $i"; done; touch -d 2020-01-01 ./*)
	echo 'ls -l d | cut -c1-10,40- ; ls -R /usr/include | cksum; ls none; echo "status $?"' >run.sh
}

make_gcc()
{
	need gcc
	cat >in.c <<-'RUN'
	#include <stdio.h>
	#include <stdlib.h>
	#include <string.h>
	static int less(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }
	int main(void)
	{
		int v[500], s = 0;
		for (int i = 0; i < 500; i++) v[i] = i * 7919 % 503;
		qsort(v, 500, sizeof(*v), less);
		for (int i = 0; i < 500; i++) s = s * 31 + v[i];
		return printf("%d %zu\n", s, strlen("four")) < 0;
	}
	RUN
	cat >run.sh <<-'RUN'
	gcc -O2 -g -Wall -c in.c && cksum <in.o && gcc -o in in.o && ./in
	echo 'int f( {' | gcc -x c - -o none; echo "status $?"
	RUN
}

make_node()
{
	need node
	cat >in.js <<-'RUN'
	const { Worker, isMainThread, parentPort } = require('worker_threads');
	function hot(n) { let h = 7; for (let i = 0; i < n; i++) h = (Math.imul(h, 31) + (i ^ (h >>> 3))) | 0; return h; }
	if (!isMainThread) { parentPort.postMessage(hot(300000)); return; }
	console.log(hot(3000000));
	const o = {}; for (let i = 0; i < 20000; i++) o['k' + i * 7919 % 10007] = { i, s: 'x'.repeat(i % 9) };
	console.log(JSON.stringify(o).length, Object.keys(JSON.parse(JSON.stringify(o))).length);
	console.log('a1b22c333'.replace(/\d+/g, m => m.length), [3, 1, 2].sort().join());
	try { null.x } catch (e) { console.log(e.constructor.name) }
	(async () => { await new Promise(r => setTimeout(r, 5)); console.log('later');
		new Worker(__filename).on('message', m => console.log('worker', m)).on('exit', c => process.exit(c + 3)); })();
	RUN
	echo 'exec node in.js' >run.sh
}

make_java()
{
	need java javac
	cat >Main.java <<-'RUN'
	import java.util.*; import java.util.stream.*;
	public class Main {
		static int hot(int n) { int h = 7; for (int i = 0; i < n; i++) h = h * 31 + (i ^ h >>> 3); return h; }
		static int depth(int n) { return depth(n + 1) + 1; }
		public static void main(String[] a) throws Exception {
			int s = 0; for (int i = 0; i < 200; i++) s += hot(10000); System.out.println(s);
			Map<String, Integer> m = new TreeMap<>(); for (int i = 0; i < 20000; i++) m.merge("k" + i % 977, i, Integer::sum);
			System.out.println(m.values().stream().mapToLong(x -> x).sum() + " " + m.size());
			try { Object o = null; o.hashCode(); } catch (NullPointerException e) { System.out.println("null"); }
			try { depth(0); } catch (StackOverflowError e) { System.out.println("deep"); }
			int[] r = new int[3]; Thread[] t = new Thread[3];
			for (int i = 0; i < 3; i++) { int k = i; t[k] = new Thread(() -> r[k] = hot(100000 + k)); t[k].start(); }
			for (Thread x : t) x.join(); System.gc();
			System.out.println(Arrays.toString(r) + IntStream.range(0, 1000).boxed().map(String::valueOf).collect(Collectors.joining()).hashCode());
			System.exit(4);
		}
	}
	RUN
	javac Main.java || exit 77
	echo 'exec java -Xmx200m -cp . Main' >run.sh
}

make_git()
{
	need git
	cat >run.sh <<-'RUN'
	export GIT_AUTHOR_DATE=2020-01-01T00:00:00Z GIT_COMMITTER_DATE=2020-01-01T00:00:00Z HOME=$PWD GIT_CONFIG_NOSYSTEM=1
	export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b GIT_PAGER=cat
	git init -q -b main r && cd r || exit 9
	for i in 1 2 3; do
		seq $i 300 >f$i; git add . && git commit -q -m "commit $i"
	done
	echo change >>f2; rm f1; touch new
	git status --porcelain; git status; git log --stat; git diff | cksum; git checkout -q -b other HEAD~1
	git merge main 2>&1; git gc -q; git fsck; git log --oneline --graph --all; git show none; echo "status $?"
	RUN
}

# python_test NAME ARG...: Debian's interpreter and its package of tests.
python_test()
{
	[ -x /usr/bin/python3 ] && /usr/bin/python3 -c 'import test.test_json' 2>/dev/null || {
		echo "Python's own tests are not installed (libpython3-testsuite)"
		exit 77
	}
	echo "exec /usr/bin/python3 -m test $* 2>&1" >run.sh
}
make_py_json() { python_test test_json; }
make_py_threading() { python_test test_threading -m ThreadTests -m LockTests -m ConditionTests -m EventTests \
	-m SemaphoreTests -m BarrierTests -m ThreadJoinOnShutdown; }
make_py_signal() { python_test test_signal -m PosixTests -m WakeupSignalTests -m test_siginterrupt_on \
	-m ItimerTest -m PendingSignalsTests -m RaiseSignalTest -m WakeupFDTests; }
make_py_subprocess() { python_test test_subprocess -m 'test_communicate*' -m 'test_preexec*' -m 'test_*exception*' \
	-m 'test_restore*' -m 'test_send_signal*' -m 'test_close_fd*' -m 'test_vfork*' -m 'test_pipesize*' -m 'test_wait*'; }

# nginx with two workers in a folder of its own, 100 requests by curl.
make_nginx()
{
	PATH=$PATH:/usr/sbin
	need nginx curl
	port=$((20000 + $$ % 20000))
	mkdir html logs
	text 40000 html/a.txt
	echo hello >html/index.html
	chmod -R a+rX "$top"
	cat >nginx.conf <<-RUN
	worker_processes 2; daemon off; pid logs/pid; error_log logs/error.log;
	events { worker_connections 64; }
	http {
		access_log logs/access.log;
		client_body_temp_path logs/t1; proxy_temp_path logs/t2; fastcgi_temp_path logs/t3;
		uwsgi_temp_path logs/t4; scgi_temp_path logs/t5;
		gzip on; gzip_types text/plain;
		server { listen 127.0.0.1:$port; root html; location /moved { return 302 /; }
			location /again { proxy_pass http://127.0.0.1:$port/; } }
	}
	RUN
	echo "exec nginx -p '$PWD/' -c nginx.conf" >run.sh
	cat >beside.sh <<-RUN
	n=0
	until curl -s -o /dev/null http://127.0.0.1:$port/; do
		n=\$((n + 1)); [ \$n -lt 600 ] || exit 1; sleep 0.1
	done
	for c in 1 2 3 4 5; do
		curl -s --compressed "http://127.0.0.1:$port/a.txt?[1-20]" | cksum
	done
	curl -s "http://127.0.0.1:$port/{,moved,none,again}" | cksum
	kill -HUP "\$(cat logs/pid)"; sleep 0.5
	curl -s http://127.0.0.1:$port/; kill -QUIT "\$(cat logs/pid)"
	RUN
}

# What differs from run to run in any case.
normal()
{
	sed -e 's/[0-9.]* sec$/N sec/' -e 's/^[0-9:]* load avg: [0-9.]* //' -e 's/ in [0-9.]*s$//' \
		-e '/passed in\|^Total duration/d' -e 's/pid [0-9]*/pid N/' -e "s,$top,TOP,g" "$1"
}

# run WHICH COMMAND...: in a new folder of the same name.
run()
{
	which=$1
	shift
	rm -rf "$top/work"
	mkdir "$top/work" && cd "$top/work" || exit 99
	make_"$case"
	begun=$(date +%s%N)
	if [ -f beside.sh ]; then
		sh beside.sh >"$top/beside.$which" 2>&1 &
		"$@" sh run.sh >"$top/$which.out" 2>"$top/$which.err" </dev/null
		echo "status $?" >>"$top/$which.out"
		wait
		cat "$top/beside.$which" >>"$top/$which.out"
		sort logs/access.log | sed 's/\[.*\] //' | cksum >>"$top/$which.out"
	else
		"$@" sh run.sh >"$top/$which.out" 2>"$top/$which.err" </dev/null
		echo "status $?" >>"$top/$which.out"
	fi
	echo "$which: $((($(date +%s%N) - begun) / 1000000)) ms"
	normal "$top/$which.out" >"$top/$which.same"
	grep -v '^iptrace: ' "$top/$which.err" >"$top/$which.stderr"
	normal "$top/$which.stderr" >>"$top/$which.same"
}

number()
{
	sed -n "s/^ *\"$1\": \([0-9]*\),*\$/\1/p" "$top/info" | head -n 1
}

type "make_$case" >/dev/null 2>&1 || exit 99
run plain
run traced "$IPTRACE" -q --engine="$engine" -f -o "$top/dir" --
cd "$top" || exit 99
cmp -s plain.same traced.same || {
	fail "other output"
	diff plain.same traced.same | head -30
}
grep '^iptrace: ' traced.err | head -5
if "$IPTRACE" info --json dir >info; then
	grep -q '"complete": *true' info || fail "not complete"
	[ "$(number gaps)" = 0 ] || fail "$(number gaps) gaps"
	all=$(number instructions)
	steps=$(number step_instructions)
	echo "$all instructions, ${steps:-unknown} single-stepped, $(number stops) stops, $(number pt_bytes) bytes of PT"
	if [ "$engine" != step ] && [ -n "$steps" ] && [ $((steps * 10000)) -ge "$all" ]; then
		fail "$steps of $all instructions single-stepped"
	fi
else
	fail "info"
fi
if [ "$((${all:-0} / 1000000))" -lt "${IPT_DECODE:-200}" ]; then
	begun=$(date +%s%N)
	"$IPTRACE" check dir >check 2>&1 || fail "check: $(tail -n 3 check)"
	echo "decoded: $((($(date +%s%N) - begun) / 1000000)) ms"
else
	echo "not decoded: that would take minutes"
fi
[ $bad -ne 0 ] && [ -n "${IPT_KEEP:-}" ] && cp -r "$top" "$IPT_KEEP"
exit $bad
