# SPDX-License-Identifier: MIT
"""Rounds of native, peers and iptrace over the workloads, and the table of ratios."""
import argparse
import hashlib
import os
import shutil
import signal
import statistics
import sys
import tempfile

import peers
import workloads

SKIPPED = 77
FREE_BYTES = 3 << 30
ROW = "{:8} {:>8} {:>20} {:>19} {:>19} {:>6} {:>7} {:>18}  {:27}  {}"


def say(*words):
    print(*words, flush=True)


def tmpfs_folder():
    """Where traces go: a disk would be measured instead of the tracer."""
    with open("/proc/mounts") as f:
        tmpfs = {line.split()[1] for line in f if line.split()[2] == "tmpfs"}
    for folder in ("/dev/shm", "/tmp"):
        if folder in tmpfs and os.access(folder, os.W_OK) and shutil.disk_usage(folder).free >= FREE_BYTES:
            return folder
    say("no tmpfs with 3 GiB free at /dev/shm or /tmp: traces go to a disk, iptrace looks slower than it is")
    return tempfile.gettempdir()


def median(values):
    return statistics.median(values) if values else None


class Measured:
    """One workload: the runs of each way, by round, and what iptrace's last trace holds."""

    def __init__(self, workload):
        self.workload = workload
        self.runs = {}
        self.left_out = {}
        self.info = None

    def wall(self, name):
        return median([r.wall_s for r in self.runs.get(name, [])])

    def ratio(self, name, other="native"):
        mine, others = self.wall(name), self.wall(other)
        return mine / others if mine and others else None

    def ratio_cpu(self, name):
        runs = self.runs.get(name)
        if not runs:
            return None
        return median([r.cpu_s for r in runs]) / max(median([r.cpu_s for r in self.runs["native"]]), 1e-9)

    def spread(self, name):
        pairs = zip(self.runs[name], self.runs["native"])
        ratios = [mine.wall_s / native.wall_s for mine, native in pairs]
        return min(ratios), max(ratios)

    def lag(self):
        """How much longer iptrace's last process stayed than the first, as a share."""
        return max([r.all_s / r.wall_s - 1 for r in self.runs.get("iptrace", [])], default=0)

    def whole(self):
        """Only complete traces count."""
        return bool(self.info) and self.info.get("complete") is True and self.info.get("gaps") == 0

    def reached(self, limit):
        """Whether iptrace keeps the limit, and the words for it. None when it cannot be told."""
        w = self.workload
        if w.qemu_ms:
            value, bound = self.ratio("iptrace", "qemu-plugin"), limit / w.qemu_ms
            words = f"{limit:g}ms, {bound:.2f}q"
        else:
            value, bound = self.ratio("iptrace"), limit
            words = f"{bound:g}x"
        if value is None:
            return None, words + ": -"
        got = f"{self.wall('iptrace') * 1e3:.0f}ms {value:.2f}q " if w.qemu_ms else ""
        kept = value <= bound and self.whole()
        return kept, f"{words}: {got}{'yes' if kept else 'NO'}"


def measure(top, workload, ways, rounds):
    m = Measured(workload)
    peers.run(top, ways[0], workload)  # warms the files' pages; not counted
    for i in range(rounds):
        for way in ways:
            if way.name in m.left_out:
                continue
            r = peers.run(top, way, workload)
            if r.status != 0:
                m.left_out[way.name] = r.why()
                m.runs.pop(way.name, None)
            else:
                m.runs.setdefault(way.name, []).append(r)
            if isinstance(way, peers.Iptrace):
                if r.status == 0 and i == rounds - 1:
                    m.info, why = way.info()
                    if not m.whole():
                        m.left_out["iptrace's trace"] = why or "gaps, or not complete: no limit counts as kept"
                way.clear()
            if way.name == "native" and r.status != 0:
                return m
    return m


def cell(m, name):
    if m.ratio(name) is None:
        return "-"
    low, high = m.spread(name)
    return f"{m.ratio(name):.3g} ({low:.3g}..{high:.3g})"


def pt_cells(m):
    if not m.info or not m.info.get("instructions"):
        return "-", "-"
    insns = m.info["instructions"]
    per_million = m.info["pt_bytes"] * 1e6 / insns
    limit = m.workload.pt_limit
    mark = "" if limit is None else f" ({'ok' if per_million <= limit else 'over'} {limit / 1e3:.0f}k)"
    return f"{insns / 1e6:.1f}", f"{per_million:.0f}{mark}"


def show(m):
    """One row; returns whether must and goal are reached."""
    if not m.wall("native"):
        say(f"{m.workload.name}: left out: {m.left_out.get('native', 'nothing measured')}")
        return False, False
    must, must_words = m.reached(m.workload.must)
    goal, goal_words = m.reached(m.workload.goal)
    cpu = m.ratio_cpu("iptrace")
    say(ROW.format(m.workload.name, f"{m.wall('native'):.4f}", cell(m, "valgrind"), cell(m, "qemu-plugin"),
                   cell(m, "iptrace"), f"{cpu:.3g}" if cpu else "-", *pt_cells(m), must_words, goal_words))
    for name, why in m.left_out.items():
        say(f"         {name}: {why}")
    lag = m.lag()
    if lag > 0.05:
        say(f"         iptrace: its last process stayed on for {lag:.2f} of the time measured")
    return bool(must), bool(goal)


def digest(top, way, workload):
    out = os.path.join(top, "output")
    r = peers.run(top, way, workload, stdout=out)
    with open(out, "rb") as f:
        return r.status, hashlib.sha256(f.read()).hexdigest()


def check(top, native, iptrace, chosen):
    """Each workload's output and exit status under iptrace are the native ones."""
    bad = 0
    for w in chosen:
        want, got = digest(top, native, w), digest(top, iptrace, w)
        iptrace.clear()
        if got == want:
            say(f"{w.name}: same")
        elif digest(top, native, w) != want:
            say(f"{w.name}: differs from run to run natively, not compared")
        else:
            say(f"{w.name}: DIFFERS: status {got[0]}, natively {want[0]}; "
                f"output {'same' if got[1] == want[1] else 'another'}")
            bad += 1
    return 1 if bad else 0


def present(all_of_them):
    for w in all_of_them:
        if os.access(w.argv[0], os.X_OK):
            yield w
        else:
            say(f"{w.name}: left out: no {w.argv[0]} (packages sqlite3, xz-utils, gzip, python3)")


def find_ways(top, probe, args):
    ways = [peers.Way("native", [])]
    finders = [("iptrace", lambda: peers.find_iptrace(top, probe, args.iptrace))]
    if not args.check:
        finders = [("valgrind", lambda: peers.find_valgrind(top, probe)),
                   ("qemu-plugin", lambda: peers.find_qemu(top, probe))] + finders
    for name, find in finders:
        way, why = find()
        if way:
            ways.append(way)
        else:
            say(f"{name}: left out: {why}")
    return ways


def table(top, chosen, ways, rounds):
    busy = os.getloadavg()[0]
    say(f"{rounds} rounds, engine {peers.ENGINE}, {os.cpu_count()} processors, load {busy:.1f}"
        f"{' (busy: other programs share the processors)' if busy > 0.7 else ''}")
    say("wall ratios to native: of the medians (min..max of the rounds); cpu: whole tree, iptrace to native")
    say("q: ratio to qemu-plugin, which decides for start-up; PT and gaps: iptrace info of the last round")
    say(ROW.format("", "native s", "valgrind none", "qemu-plugin", "iptrace", "cpu", "Minsn", "PT B/Minsn", "must",
                   "goal"))
    kept = [show(measure(top, w, ways, rounds)) for w in chosen]
    say(f"must {sum(m for m, _ in kept)}/{len(kept)}, goal {sum(g for _, g in kept)}/{len(kept)}")
    return 0


def work(top, args):
    workloads.build_inputs(top)
    every = workloads.all_workloads(top)
    names = [w.name for w in every]
    if args.one and args.one not in names:
        say(f"--one {args.one}: none of {', '.join(names)}")
        return 2
    chosen = list(present([w for w in every if args.one in (None, w.name)]))
    ways = find_ways(top, every[0], args)
    if not args.check:
        return table(top, chosen, ways, args.rounds)
    if len(ways) < 2:
        return SKIPPED
    return check(top, *ways, chosen)


def main():
    p = argparse.ArgumentParser(prog="run.sh", description=__doc__)
    p.add_argument("--one", metavar="NAME", help="only this workload")
    p.add_argument("--check", action="store_true", help="compare outputs instead of timing")
    p.add_argument("iptrace", nargs="?", default="build/release/iptrace")
    p.add_argument("rounds", nargs="?", type=int, default=5)
    args = p.parse_args()
    if args.rounds < 1:
        p.error("ROUNDS must be at least 1")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        with tempfile.TemporaryDirectory(prefix="iptrace-bench-", dir=tmpfs_folder()) as top:
            return work(top, args)
    except KeyboardInterrupt:
        return 130


sys.exit(main())
