#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds the schedules that are chosen for the kernels of tests/schedules to the recorded ones.

usage: schedules.py PROGRAM [--accept]

PROGRAM is chosen_schedules of the build's tests. --accept records what is chosen now. Do that when the choice was meant
to change, and after a bench: `./dev bench kernels` and `ninja bench_schedules` tell whether it is the better one.
"""

import difflib
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[1] / "tests" / "schedules"
RECORDED = FOLDER / "chosen.txt"
HEAD = "# What is chosen for each kernel of kernels.te. ./dev schedules compares; after a bench, --accept records anew.\n"


def chosen(program):
    """The text that the program prints for all kernels."""
    files = [path.name for path in sorted(FOLDER.glob("*.te"))]
    run = subprocess.run([Path(program).resolve(), *files], cwd=FOLDER, capture_output=True, text=True, check=False)
    if run.returncode != 0:
        raise SystemExit(f"schedules: {program} failed:\n{run.stderr}")
    return HEAD + run.stdout


def differences(before, after):
    """Lines for people: what differs, below the kernel's name; and how many choices do."""
    lines, count = [], 0
    for line in difflib.unified_diff(before.splitlines(), after.splitlines(), "recorded", "chosen", "", "", 4, ""):
        lines.append(line)
        count += line.startswith("+ ")
    return lines, count


def main(arguments):
    accept = "--accept" in arguments
    rest = [a for a in arguments if a != "--accept"]
    if len(rest) != 1 or rest[0].startswith("-"):
        print(__doc__.strip())
        return 0 if rest == ["--help"] else 2
    after = chosen(rest[0])
    kernels = sum(not line.startswith((" ", "#")) for line in after.splitlines())
    choices = sum(line.startswith(" ") for line in after.splitlines())
    before = RECORDED.read_text() if RECORDED.exists() else ""
    lines, changed = differences(before, after)
    if accept:
        RECORDED.write_text(after)
        print(f"{RECORDED.name}: {choices} choices for {kernels} kernels, {changed} of them new")
        return 0
    if not lines:
        print(f"{choices} choices for {kernels} kernels are the recorded ones")
        return 0
    print("\n".join(lines))
    print(f"{changed} of {choices} choices are not the recorded ones. If that was meant, measure whether they are better "
          "(./dev bench kernels),\nand record them: ./dev schedules --accept")
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
