# SPDX-License-Identifier: MIT
"""The ten workloads, their inputs, and the limits that tracing them by software has to keep."""
import os
import subprocess
from dataclasses import dataclass
from typing import Optional

HERE = os.path.dirname(os.path.abspath(__file__))
TEXT_BYTES = 3_000_000


@dataclass
class Workload:
    """Limits are multiples of the native time. A start-up workload (qemu_ms) is judged beside the block log of qemu
    instead: its limits are milliseconds on the machine on which that took qemu_ms."""
    name: str
    argv: list
    must: float
    goal: float
    stdin: Optional[str] = None
    qemu_ms: Optional[float] = None
    pt_limit: Optional[float] = None  # bytes of PT per million instructions


def all_workloads(top):
    """top: where build_inputs() put what the workloads need."""
    text = os.path.join(top, "text")
    script = os.path.join(HERE, "work", "script.sql")
    xz = ["/usr/bin/xz", "-T2", "-1", "--block-size=750KiB", "-c", text]
    return [
        Workload("true", ["/bin/true"], 30, 20, qemu_ms=36),
        Workload("python0", ["/usr/bin/python3", "-c", "0"], 350, 250, qemu_ms=400),
        Workload("select1", ["/usr/bin/sqlite3", ":memory:", "select 1"], 70, 55, qemu_ms=77),
        Workload("ls", ["/bin/ls", "-lR", "/usr/include"], 4.0, 2.5),
        Workload("gzip", ["/bin/gzip", "-9c", text], 2.5, 1.8, pt_limit=70_000),
        Workload("python", ["/usr/bin/python3", os.path.join(HERE, "work", "loop.py")], 10, 5),
        Workload("sqlite", ["/usr/bin/sqlite3", ":memory:"], 8, 4, stdin=script, pt_limit=200_000),
        Workload("branchy", [os.path.join(top, "branchy"), "72"], 4.0, 2.5, pt_limit=300_000),
        Workload("threads", [os.path.join(top, "threads"), "1900"], 1.5, 1.5),
        Workload("xz", xz, 3.0, 2.0),
    ]


def headers():
    for folder, subfolders, names in os.walk("/usr/include"):
        subfolders.sort()
        for name in sorted(names):
            path = os.path.join(folder, name)
            if name.endswith(".h") and os.path.isfile(path):
                yield path


def write_text(path):
    """C headers of this machine, one after the other, up to TEXT_BYTES; fewer make it shorter."""
    left = TEXT_BYTES
    with open(path, "wb") as out:
        for header in headers():
            with open(header, "rb") as f:
                left -= out.write(f.read(left))
            if left <= 0:
                break


def compile_c(source, output, *flags):
    cc = os.environ.get("CC", "cc")
    subprocess.run([cc, "-O2", "-Wall", "-Wextra", *flags, "-o", output, os.path.join(HERE, source)], check=True)


def build_inputs(top):
    compile_c("timed.c", os.path.join(top, "timed"))
    compile_c("work/branchy.c", os.path.join(top, "branchy"))
    compile_c("work/threads.c", os.path.join(top, "threads"), "-pthread")
    write_text(os.path.join(top, "text"))
