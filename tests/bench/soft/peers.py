# SPDX-License-Identifier: MIT
"""The ways to run a workload: natively, under each peer that is there, under iptrace. A way is found by trying it."""
import json
import os
import shutil
import subprocess
from dataclasses import dataclass

from workloads import compile_c

ENGINE = os.environ.get("IPT_BENCH_ENGINE", "translate")
LIMIT_S = int(os.environ.get("IPT_BENCH_LIMIT", "120"))
# What a program sees must not depend on who measures.
ENV = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LC_ALL": "C", "HOME": "/nonexistent", "PYTHONHASHSEED": "0"}
API_VERSIONS = range(1, 8)


@dataclass
class Run:
    status: int
    wall_s: float
    cpu_s: float
    all_s: float
    said: str  # the first line on stderr

    def why(self):
        if self.status == 124:
            return f"not done in {LIMIT_S} s"
        return f"status {self.status}: {self.said or 'it said nothing'}"


class Way:
    """A prefix of the command line."""

    def __init__(self, name, prefix):
        self.name = name
        self.prefix = prefix

    def command(self, argv):
        return self.prefix + argv

    def clear(self):
        """What a run leaves behind goes before the next one."""


class Iptrace(Way):
    """Records into a directory on tmpfs."""

    def __init__(self, program, top):
        self.program = program
        self.directory = os.path.join(top, "trace")
        super().__init__("iptrace", [program, "-q", f"--engine={ENGINE}", "-o", self.directory])

    def clear(self):
        shutil.rmtree(self.directory, ignore_errors=True)

    def info(self):
        """Counts by decoding everything, which takes longer than the run; None and why when it fails."""
        try:
            p = subprocess.run([self.program, "info", "--json", self.directory], capture_output=True, text=True,
                               timeout=5 * LIMIT_S, check=False)
            return json.loads(p.stdout), ""
        except (subprocess.TimeoutExpired, json.JSONDecodeError) as e:
            return None, f"info: {type(e).__name__}"


def first_line(path):
    with open(path, errors="replace") as f:
        return f.readline().strip()


def run(top, way, workload, stdout="/dev/null"):
    result, said = os.path.join(top, "result"), os.path.join(top, "said")
    command = [os.path.join(top, "timed"), str(LIMIT_S), result] + way.command(workload.argv)
    with open(workload.stdin or "/dev/null", "rb") as stdin, open(stdout, "wb") as out, open(said, "wb") as err:
        subprocess.run(command, stdin=stdin, stdout=out, stderr=err, env=ENV, check=False)
    with open(result) as f:
        fields = f.read().split()
    if len(fields) != 4:
        return Run(127, 0, 0, 0, first_line(said))
    status, wall_ns, cpu_ns, all_ns = map(int, fields)
    return Run(status, wall_ns / 1e9, cpu_ns / 1e9, all_ns / 1e9, first_line(said))


def find_valgrind(top, probe):
    program = shutil.which("valgrind", path=ENV["PATH"])
    if not program:
        return None, "not installed (package valgrind)"
    way = Way("valgrind", [program, "-q", "--tool=none"])
    r = run(top, way, probe)
    return (way, "") if r.status == 0 else (None, r.why())


def find_qemu(top, probe):
    """A plugin names one version of qemu's interface; the functions used here are the same in all of them."""
    program = shutil.which("qemu-x86_64", path=ENV["PATH"])
    if not program:
        return None, "not installed (package qemu-user)"
    plugin = os.path.join(top, "libblocks.so")
    said = ""
    for version in API_VERSIONS:
        compile_c("blocks.c", plugin, "-shared", "-fPIC", "-fvisibility=hidden", f"-DAPI_VERSION={version}")
        r = run(top, Way("qemu", [program, "-plugin", plugin + ",stat=on"]), probe)
        if r.status == 0 and r.said.startswith("blocks ") and int(r.said.split()[1]) > 1000:
            return Way("qemu-plugin", [program, "-plugin", plugin]), ""
        said = said or r.why()
    return None, "takes no plugin: " + said


def find_iptrace(top, probe, program):
    path = shutil.which(program)
    if not path:
        return None, f"{program}: not there; build it, or name another"
    way = Iptrace(os.path.abspath(path), top)
    r = run(top, way, probe)
    way.clear()
    return (way, "") if r.status == 0 else (None, f"engine {ENGINE}: {r.why()}")
