#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds tests to depend on no wall clock: neither by reading one nor by a limit on a wait.

usage: check_clocks.py [ROOT]

How long something takes depends on the machine and on its other work. A test waits for an event, counts steps, or bounds
CPU time; what hangs is ended by ctest (TENON_HANG_LIMIT in tests/runs.cmake). A line that needs a clock for something else,
as to print a duration, gives its reason in a comment with "clock:".
"""

import re
import sys

from check_common import check_tree

FOLDERS = ("tests/python", "tests/unit", "tests/golden", "tests/fuzz", "tests/tools", "tests/install")
CLOCKS = {
    ".py": re.compile(r"\btimeout ?= ?[0-9.]+|\btime\.(monotonic|perf_counter|time)(_ns)?\(|\.(wait|join)\([0-9.]"),
    ".c": re.compile(r"\bCLOCK_(MONOTONIC|REALTIME|BOOTTIME)\w*|\btime\(NULL\)|"
                     r"\b(gettimeofday|pthread_cond_timedwait|sem_timedwait|alarm|setitimer)\("),
    ".sh": re.compile(r"^\s*timeout\s"),
}
CLOCKS[".h"] = CLOCKS[".c"]


def check(root):
    problems = []
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            pattern = CLOCKS.get(path.suffix)
            if pattern is None or not path.is_file():
                continue
            for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
                found = pattern.search(line)
                if found and "clock:" not in line:
                    problems.append(f"{path.relative_to(root)}:{number}: a test depends on a clock: {found[0].strip()}; wait "
                                    "for an event, count, or bound CPU time")
    return problems


if __name__ == "__main__":
    sys.exit(check_tree(check))
