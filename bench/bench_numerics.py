# SPDX-License-Identifier: Apache-2.0
"""Tests the elementary functions with every f32 there is, beside libm in f64, and holds them to the bounds that
docs/numerics.md states.

`pow` and `atan2` take every first argument with each of a few second ones. On x86-64, `--baseline` tests the code for
processors without fused multiply-add.
"""

import argparse
import os
import re
import subprocess
import sys
import time
from pathlib import Path

from measure import BenchError

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "numerics.md"


def read_bounds(text):
    """Function -> its bound in f32, from the page's table; the operation `sqrt` is in it, too."""
    return {name: float(bound) for name, bound in re.findall(r"^\| `(\w+)` \| ([\d.]+) \| [\d.]+ \|", text, re.MULTILINE)}


def parse_arguments(arguments, bounds):
    parser = argparse.ArgumentParser(prog="bench numerics", description=__doc__.split("\n\n")[0])
    parser.add_argument("functions", nargs="*", metavar="NAME", help=f"of {', '.join(bounds)}; default: all")
    parser.add_argument("--step", type=int, default=1, metavar="N", help="one of each N numbers only (%(default)s)")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), metavar="N",
                        help="(default: %(default)s, as many as there are CPUs)")
    parser.add_argument("--baseline", action="store_true", help="code for x86-64 without fused multiply-add")
    parser.add_argument("--programs", type=Path, default=ROOT / "build" / "release" / "bench",
                        help="where the program bench_numerics is (%(default)s)")
    options = parser.parse_args(arguments)
    for name in options.functions:
        if name not in bounds:
            parser.error(f"docs/numerics.md states no bound for {name}; it does for {', '.join(bounds)}")
    if not 1 <= options.step < 2**32 or not 1 <= options.threads <= 256:
        parser.error("--step must be from 1 to 2^32 - 1, --threads from 1 to 256")
    options.functions = options.functions or list(bounds)
    return options


def measure_function(name, options):
    """What the program found: numbers tested, largest error, its argument, what came of it, and its second argument."""
    program = options.programs / ("bench_numerics_baseline" if options.baseline else "bench_numerics")
    if not os.access(program, os.X_OK):
        raise BenchError(f"{program}: no such program; `ninja -C build/release {program.name}` makes it")
    result = subprocess.run([program, name, str(options.step), str(options.threads)], capture_output=True, text=True)
    if result.returncode != 0:
        raise BenchError(f"{name}: {result.stderr.strip() or f'the program ended with {result.returncode}'}")
    tested, error, *rest = result.stdout.split()
    return int(tested), float(error), *rest


def main(arguments):
    bounds = read_bounds(PAGE.read_text(encoding="utf-8"))
    options = parse_arguments(arguments, bounds)
    passed = []
    print(f"{'function':<10}{'numbers':>13}{'largest, ulp':>14}{'bound':>7}  {'at':<34}{'gave':<18}{'s':>6}")
    for name in options.functions:
        started = time.monotonic()
        try:
            tested, error, x, gave, second = measure_function(name, options)
        except BenchError as problem:
            print(f"bench: {problem}", file=sys.stderr)
            return 1
        place = f"{x}, {second}" if name in ("pow", "atan2") else x
        if not error <= bounds[name]:
            passed.append(name)
        print(f"{name:<10}{tested:>13}{error:>14.4f}{bounds[name]:>7}  {place:<34}{gave:<18}"
              f"{time.monotonic() - started:>6.1f}{'' if error <= bounds[name] else '  BEYOND THE BOUND'}", flush=True)
    if passed:
        print(f"bench: beyond the bounds of docs/numerics.md: {', '.join(passed)}", file=sys.stderr)
    return 1 if passed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
