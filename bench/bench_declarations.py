# SPDX-License-Identifier: Apache-2.0
"""Measures declarations that no schedule was written for: Tenon, gcc's code for the plain loops, NumPy, PyTorch, and Halide
with the schedules that its auto-schedulers find.

The declarations are the kernels of bench/declarations/*.te, all sizes odd on purpose. The C file of the same name says
the same in loops (gcc -O3 -march=native -ffast-math, with as many threads as its own parallelization finds work for),
declaration_cases.py in NumPy, declaration_torch.py in PyTorch, and halide_applications.py has the applications, where
Halide is the reference for what has no loops. Every engine has a process of its own, which take turns; the median is
taken of at least 30, of 10 where a turn of all takes over a second, and answers are compared before anything is timed. A
ratio is Tenon's time divided by the other's: below 1, Tenon is faster. What is not compiled in time is a row that says so.
"""

import argparse
import math
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import declaration_engines
import measure
from declaration_engines import ENGINES
from measure import BenchError

# Of the largest magnitude in an output: float32 sums of some thousand terms in different orders. Running sums of a
# million add up more of it.
TOLERANCE = 1e-4
# Below, a call costs as much as what it does.
SHORT_SECONDS = 5e-6
# Where rounding decides on a step, of bytes or of a table of 1,792 entries; and positions of up to 1,000 with their parts.
TOLERANCES = {"equalise": 5e-3, "equalise_sum": 5e-3, "local_laplacian": 1e-3, "resize": 3e-4}
KERNEL = re.compile(r"^kernel (\w+)\((.*?)\) -> (.*?) \{", re.MULTILINE | re.DOTALL)
CONSTANT = re.compile(r"^const (\w+) = (.*)$", re.MULTILINE)
PARAMETER = re.compile(r"(\w+): (\w+)(?:\[([^\]]*)\])?")


def number(text, constants):
    """The value of an expression over numbers and constants."""
    return eval(text.replace("/", "//"), {}, constants)  # the folder's own files


def parameters(text, constants):
    """(name, shape, type) of each; a scalar has the shape None."""
    return [(name, [number(dimension, constants) for dimension in shape.split(",")] if shape else None, kind)
            for name, kind, shape in PARAMETER.findall(text)]


def read_cases():
    """The kernels of the folder in its order: dictionaries of class, kernel, inputs, outputs. Kernels with a list of
    dimensions are parts of others."""
    cases = []
    for path in sorted(declaration_engines.FOLDER.glob("*.te")):
        text, constants = path.read_text(encoding="utf-8"), {}
        for name, value in CONSTANT.findall(text):
            constants[name] = number(value, constants)
        cases += [{"class": path.stem, "kernel": name, "inputs": parameters(inputs, constants),
                   "outputs": parameters(outputs, constants)} for name, inputs, outputs in KERNEL.findall(text)]
    return cases


def difference_of(scratch, ours, theirs):
    import numpy as np

    with np.load(scratch / f"{ours}.npz") as a, np.load(scratch / f"{theirs}.npz") as b:
        return measure.largest_difference([a[name] for name in a.files], [b[name] for name in b.files])


def start_engines(case, threads, options, scratch, row):
    """The processes of those engines that have the declaration, name -> Server; the row learns of the others' failures."""
    servers = {}
    for engine in declaration_engines.engines_of(case, options.packages):
        if engine != "tenon" and engine not in options.peers:
            continue
        try:
            library = None
            if engine in declaration_engines.COMPILED:
                library, row[f"{engine}_build_s"] = declaration_engines.build(case, engine, threads, options, scratch)
            servers[engine] = declaration_engines.start(case, engine, threads, library, options, scratch)
        except BenchError as error:
            if engine in ("tenon", "plain") and not isinstance(error, declaration_engines.TookTooLong):
                for server in servers.values():
                    server.close()
                raise BenchError(f"{case['kernel']}: {error}") from None
            row["failed"][engine] = str(error)
    return servers


def measure_case(case, threads, options, scratch):
    """The row of a declaration: medians and minima in seconds, ratios of the turns, the largest difference of the answers."""
    row = {"class": case["class"], "kernel": case["kernel"], "threads": threads, "failed": {}, "ratios": {}, "least": {}}
    servers = start_engines(case, threads, options, scratch, row)
    try:
        peers = [engine for engine in servers if engine != "tenon"]
        if not servers or options.check and not peers:
            raise BenchError(f"{case['kernel']}: nothing to compare with: {'; '.join(row['failed'].values()) or 'no peer has it'}")
        if "tenon" in servers and peers:
            row["difference"] = max(difference_of(scratch, "tenon", engine) for engine in peers)
        if options.check:
            return row
        turn = sum(server.ask("")["turn_seconds"] for server in servers.values())
        turns = measure.take_turns({engine: lambda server=server: server.ask("") for engine, server in servers.items()},
                                   options.runs if turn < 1 else min(options.runs, 10))
    finally:
        for server in servers.values():
            server.close()
    times = {engine: [answer["seconds"] for answer in answers] for engine, answers in turns.items()}
    row |= {engine: statistics.median(values) for engine, values in times.items()}
    row["least"] = {engine: min(values) for engine, values in times.items()}
    if "tenon" in servers and peers:
        row["ratios"] = {engine: statistics.median(a / b for a, b in zip(times["tenon"], times[engine])) for engine in peers}
        row["ratio"] = max(row["ratios"].values())
    return row


# ---- what is printed -------------------------------------------------------------------------------------------------

def cell(row, engine):
    if engine in row["ratios"]:
        return f"{row['ratios'][engine]:.2f}"
    if engine in row["failed"]:
        return "failed"
    return f"{row[engine] * 1e6:.0f} us" if engine in row else ""


def print_row(row, engines):
    time = f"{row['tenon'] * 1e6:10.1f}" if "tenon" in row else f"{'failed' if 'tenon' in row['failed'] else '':>10s}"
    print(f"{row['class']:12s} {row['kernel']:24s} {row['threads']:1d} {time} "
          f"{' '.join(f'{cell(row, engine):>14s}' for engine in engines)}  {row.get('difference', math.nan):8.1e} "
          f"{row.get('tenon_build_s', math.nan):6.2f}", flush=True)
    for engine, text in row["failed"].items():
        print(f"  {ENGINES[engine]}: {text}")


def mean(values):
    return measure.geometric_mean(values) if values else None


def summary_of(rows):
    """What the project judges itself by: a dictionary for each number of threads."""
    result = []
    for threads in sorted({row["threads"] for row in rows}):
        chosen = [row for row in rows if row["threads"] == threads]
        gcc = [row for row in chosen if "plain" in row["ratios"]]
        slow = [row["kernel"] for row in gcc if row["ratios"]["plain"] > 1.1 and row["tenon"] > SHORT_SECONDS]
        adams = {row["kernel"]: 1 / row["ratios"]["adams2019"] for row in chosen if "adams2019" in row["ratios"]}
        best = [1 / row["ratio"] for row in chosen if "ratio" in row]
        result.append({
            "threads": threads, "rows": len(chosen), "beside_gcc": len(gcc), "slower_than_gcc": slow,
            "best_peer_over_tenon": mean(best), "beside_adams2019": len(adams), "adams2019_over_tenon": mean(list(adams.values())),
            "worst_adams2019_over_tenon": min(adams.values(), default=None),
            "worst_beside_adams2019": min(adams, key=adams.get, default=None),
            "not_built": [row["kernel"] for row in chosen if "tenon" in row["failed"]]})
    return result


def summary_lines(entry):
    """An entry of the summary in words."""
    lines = [f"slower than gcc by more than 10 % in {len(entry['slower_than_gcc'])} of {entry['beside_gcc']} (those above "
             f"{SHORT_SECONDS * 1e6:.0f} us)"]
    if entry["best_peer_over_tenon"]:
        lines.append(f"the best peer's time over Tenon's {entry['best_peer_over_tenon']:.2f} (geometric mean)")
    if entry["beside_adams2019"]:
        lines.append(f"Adams2019's time over Tenon's {entry['adams2019_over_tenon']:.2f} (geometric mean of "
                     f"{entry['beside_adams2019']}; worst {entry['worst_adams2019_over_tenon']:.2f}, {entry['worst_beside_adams2019']})")
    if entry["not_built"]:
        lines.append(f"not compiled in time: {', '.join(entry['not_built'])}")
    return f"{entry['threads']} thread{'s' if entry['threads'] > 1 else ''}: {'; '.join(lines)}"


def summarize(rows):
    for name in sorted({row["class"] for row in rows}):
        gcc = [row["ratios"]["plain"] for row in rows if row["class"] == name and "plain" in row["ratios"]]
        best = [row["ratio"] for row in rows if row["class"] == name and "ratio" in row]
        beside_gcc = f"{mean(gcc):.2f} times gcc's time (worst {max(gcc):.2f}), " if gcc else ""
        print(f"{name}: {beside_gcc}{mean(best) or math.nan:.2f} times the best of all")
    for entry in summary_of(rows):
        print(summary_lines(entry))


def parse_arguments(arguments):
    parser = argparse.ArgumentParser(prog="bench declarations", description=__doc__.split("\n\n")[0])
    parser.add_argument("--only", metavar="PATTERN", default="", help="only those whose class/name matches a regular expression")
    parser.add_argument("--runs", type=int, default=30, help="turns, at least 30 (%(default)s)")
    parser.add_argument("--peers", nargs="+", choices=list(ENGINES)[1:], default=list(ENGINES)[1:], metavar="NAME",
                        help=f"whom to compare with, of {', '.join(list(ENGINES)[1:])} (default: all)")
    parser.add_argument("--threads", type=int, action="append", metavar="N",
                        help="how many threads everybody may use; may be given several times (default: 1)")
    parser.add_argument("--build-limit", type=float, default=60, metavar="SECONDS",
                        help="how long Tenon may compile a declaration, and Halide five times as long (%(default)s)")
    parser.add_argument("--keep", type=Path, metavar="FOLDER",
                        help="keep what the peers' compilers made there, and take what is there already")
    parser.add_argument("--clock", choices=("wall", "cpu"), default="wall",
                        help="cpu: the time that the process used, for a busy machine (%(default)s)")
    parser.add_argument("--check", action="store_true", help="compare the answers, time nothing")
    parser.add_argument("--limit", type=float, help="fail if Tenon takes longer than this many times gcc's time anywhere")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write everything measured to a file")
    parser.add_argument("--cli", help="the tenon command (default: of build/release, then on the PATH)")
    options = parser.parse_args(arguments)
    if options.runs < 30:
        parser.error("--runs must be at least 30")
    options.threads = options.threads or [1]
    return options


def measure_all(options, scratch):
    """All rows, and what is wrong with them."""
    rows, complaints = [], []
    declaration_engines.compile_c(scratch / "repeat.so", "-O2", declaration_engines.FOLDER / "repeat.c")
    for case in read_cases():
        if not re.search(options.only, f"{case['class']}/{case['kernel']}"):
            continue
        for threads in options.threads:
            try:
                row = measure_case(case, threads, options, scratch)
            except BenchError as error:
                complaints.append(str(error))
                continue
            print_row(row, options.peers)
            rows.append(row)
            if "difference" in row and not row["difference"] <= TOLERANCES.get(row["kernel"], TOLERANCE):
                complaints.append(f"{row['kernel']}: the answers differ by {row['difference']:.1e}")
            if options.limit and row["ratios"].get("plain", 0) > options.limit:
                complaints.append(f"{row['kernel']}: {row['ratios']['plain']:.2f} times gcc's time")
    return rows, complaints


def main(arguments):
    import bench_models

    options = parse_arguments(arguments)
    try:
        options.cli = bench_models.find_cli(options.cli)
    except BenchError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    options.packages = declaration_engines.installed()
    report = {"machine": measure.machine(), "versions": versions(options)}
    print(f"{', '.join(f'{name} {version}' for name, version in report['versions'].items() if version)}\n"
          f"{measure.describe_machine(report['machine'])}\n")
    for package, version in options.packages.items():
        if version is None:
            print(f"MISSING PEER: {package} is not measured: it is not installed")
    print(f"us, medians of {options.runs}; threads; Tenon's time / the other's; difference of the answers; seconds of tenon build\n"
          f"{'class':12s} {'kernel':24s} {'t':1s} {'Tenon':>10s} {' '.join(f'{ENGINES[engine]:>14s}' for engine in options.peers)}"
          f"  {'diff.':>8s} {'build':>6s}")
    with tempfile.TemporaryDirectory() as scratch:
        rows, complaints = measure_all(options, Path(scratch))
    print()
    if rows and not options.check:
        summarize(rows)
    if options.json:
        measure.write_report(options.json, report | {"rows": rows, "summary": summary_of(rows), "complaints": complaints}, options)
    for complaint in complaints:
        print(f"bench: {complaint}", file=sys.stderr)
    return 1 if complaints or not rows else 0


def versions(options):
    gcc = subprocess.run(["gcc", "-dumpfullversion"], capture_output=True, text=True).stdout.strip()
    tenon = subprocess.run([options.cli, "--version"], capture_output=True, text=True).stdout.split()[1]
    return {"tenon": tenon, "gcc": gcc} | options.packages


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
