#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that tests do not depend on a wall clock, by reading one or by a limit on a wait.

usage: check_clocks.py [ROOT]

Durations depend on the machine and its load. A test waits for an event, counts steps, or bounds CPU time; ctest kills
hung tests (TENON_HANG_LIMIT in tests/runs.cmake). A line that needs a clock for another purpose, such as printing a
duration, states it in a comment with "clock:".
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
