# SPDX-License-Identifier: Apache-2.0
"""Measures declarations that no schedule was written for, on one thread: Tenon, gcc's code for the plain loops, and NumPy.

The declarations are the kernels of bench/declarations/*.te, all sizes odd on purpose. The C file of the same name says
the same in loops (gcc -O3 -march=native -ffast-math), declaration_cases.py in NumPy. Every engine has a process of its
own, which take turns; the median is taken of at least 30, and answers are compared before anything is timed. A ratio is
Tenon's time divided by the other's: below 1, Tenon is faster.
"""

import argparse
import json
import math
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import measure
from measure import BenchError

HERE = Path(__file__).resolve().parent
FOLDER = HERE / "declarations"
ENGINES = {"tenon": "Tenon", "plain": "gcc", "numpy": "NumPy"}
PLAIN_FLAGS = ["-O3", "-march=native", "-ffast-math", "-fno-math-errno"]
TURN_SECONDS = 0.004
BUILD_SECONDS = 120
# Of the largest magnitude in an output: float32 sums of some thousand terms in different orders. Running sums of a
# million add up more of it.
TOLERANCE = 1e-4
DTYPES = {"bool": ("bool", "bool"), "f16": ("float16", "uint16_t"), "f32": ("float32", "float"), "f64": ("float64", "double")}
DTYPES |= {f"{sign}{bits}": (f"{'u' * (sign == 'u')}int{bits}", f"{'u' * (sign == 'u')}int{bits}_t")
           for sign in "iu" for bits in (8, 16, 32, 64)}
KERNEL = re.compile(r"^kernel (\w+)\((.*?)\) -> (.*?) \{", re.MULTILINE | re.DOTALL)
PARAMETER = re.compile(r"(\w+): (\w+)(?:\[([^\]]*)\])?")


def parameters(text):
    """(name, shape, type) of each; a scalar has the shape None."""
    def size(dimension):
        return math.prod(int(factor) for factor in dimension.split("*"))

    return [(name, [size(dimension) for dimension in shape.split(",")] if shape else None, kind)
            for name, kind, shape in PARAMETER.findall(text)]


def read_cases():
    """The kernels of the folder in its order: dictionaries of class, kernel, inputs, outputs."""
    return [{"class": path.stem, "kernel": name, "inputs": parameters(inputs), "outputs": parameters(outputs)}
            for path in sorted(FOLDER.glob("*.te"))
            for name, inputs, outputs in KERNEL.findall(path.read_text(encoding="utf-8"))]


def glue(case, returns):
    """C: a function bench_KERNEL that takes an array of the arguments' addresses."""
    def kind(parameter):
        return DTYPES[parameter[2]][1]

    inputs = [f"const {kind(p)} *" if p[1] else kind(p) for p in case["inputs"]]
    arguments = [f"a[{i}]" if p[1] else f"*(const {kind(p)} *)a[{i}]" for i, p in enumerate(case["inputs"])]
    arguments += [f"a[{len(inputs) + i}]" for i in range(len(case["outputs"]))]
    types = ", ".join(inputs + [f"{kind(p)} *" for p in case["outputs"]])
    call = f"{case['kernel']}({', '.join(arguments)})"
    body = f"return {call};" if returns else f"{call};\n  return 0;"
    return (f"{'int32_t' if returns else 'void'} {case['kernel']}({types});\n"
            f"int32_t bench_{case['kernel']}(void *const *a) {{\n  {body}\n}}\n")


def compile_c(output, *arguments):
    result = subprocess.run(["gcc", "-shared", "-fPIC", "-o", str(output), *map(str, arguments), "-lm"], capture_output=True,
                            text=True)
    if result.returncode:
        raise BenchError(f"gcc: {result.stderr.strip().splitlines()[0]}")
    return str(output)


def build(case, engine, options, scratch):
    """The shared library of an engine, and the seconds that the engine's compiler took for it."""
    source = scratch / f"{engine}.glue.c"
    source.write_text(f"#include <stdbool.h>\n#include <stdint.h>\n{glue(case, engine == 'tenon')}")
    start = time.perf_counter()
    if engine == "plain":
        # A file of its own for the object: gcc cannot look into it from the glue.
        library = compile_c(scratch / "plain.so", *PLAIN_FLAGS, "-fno-lto", FOLDER / f"{case['class']}.c", source)
        return library, time.perf_counter() - start
    try:
        result = subprocess.run([options.cli, "build", FOLDER / f"{case['class']}.te", "--kernel", case["kernel"], "-o",
                                 scratch / "kernel"], capture_output=True, text=True, timeout=BUILD_SECONDS)
    except subprocess.TimeoutExpired:
        raise BenchError(f"{case['kernel']}: tenon build did not end in {BUILD_SECONDS} s") from None
    seconds = time.perf_counter() - start
    if result.returncode:
        raise BenchError(f"{case['kernel']}: {result.stderr.strip()}")
    return compile_c(scratch / "tenon.so", "-O1", source, scratch / "kernel.o"), seconds


def start_engine(case, engine, library, options, scratch):
    task = {"engine": engine, "kernel": case["kernel"], "library": library, "repeat": str(scratch / "repeat.so"),
            "clock": options.clock, "turn_seconds": TURN_SECONDS, "answers": str(scratch / f"{engine}.npz")}
    task |= {which: [(name, shape or [1], DTYPES[kind][0]) for name, shape, kind in case[which]]
             for which in ("inputs", "outputs")}
    environment = {name: "1" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")}
    return measure.Server(ENGINES[engine], [sys.executable, str(HERE / "declaration_server.py"), json.dumps(task)], environment)


def difference_of(scratch, ours, theirs):
    import numpy as np

    with np.load(scratch / f"{ours}.npz") as a, np.load(scratch / f"{theirs}.npz") as b:
        return measure.largest_difference([a[name] for name in a.files], [b[name] for name in b.files])


def measure_case(case, options, scratch):
    """The row of a declaration: medians in seconds, ratios of the turns, the largest difference of the answers."""
    import declaration_cases

    row = {"class": case["class"], "kernel": case["kernel"], "threads": 1}
    libraries = {}
    for engine in ("tenon", "plain"):
        libraries[engine], row[f"{engine}_build_s"] = build(case, engine, options, scratch)
    engines = [*libraries, *(["numpy"] if case["kernel"] in declaration_cases.NUMPY else [])]
    servers = {}
    try:
        for engine in engines:
            servers[engine] = start_engine(case, engine, libraries.get(engine), options, scratch)
        row["difference"] = max(difference_of(scratch, "tenon", engine) for engine in engines[1:])
        if options.check:
            return row
        turns = measure.take_turns({engine: lambda server=server: server.ask("") for engine, server in servers.items()},
                                   options.runs)
    finally:
        for server in servers.values():
            server.close()
    times = {engine: [answer["seconds"] for answer in answers] for engine, answers in turns.items()}
    row |= {engine: statistics.median(values) for engine, values in times.items()}
    row["ratios"] = {engine: statistics.median(a / b for a, b in zip(times["tenon"], times[engine])) for engine in engines[1:]}
    row["ratio"] = row["tenon"] / min(row[engine] for engine in engines[1:])
    return row


def print_row(row):
    cells = [f"{row.get(engine, math.nan) * 1e6:10.1f}" for engine in ENGINES]
    ratios = [f"{row.get('ratios', {}).get(engine, math.nan):7.2f}" for engine in list(ENGINES)[1:]]
    print(f"{row['class']:12s} {row['kernel']:24s} {' '.join(cells)} {' '.join(ratios)}  {row['difference']:8.1e} "
          f"{row['tenon_build_s']:6.2f}", flush=True)


def summarize(rows):
    for name in sorted({row["class"] for row in rows}) + ["all"]:
        chosen = [row for row in rows if name in ("all", row["class"])]
        gcc = [row["ratios"]["plain"] for row in chosen]
        print(f"{name}: {measure.geometric_mean(gcc):.2f} times gcc's time (worst {max(gcc):.2f}), "
              f"{measure.geometric_mean([row['ratio'] for row in chosen]):.2f} times the best of all; slower than gcc by more than "
              f"10 % in {sum(ratio > 1.1 for ratio in gcc)} of {len(chosen)}")


def parse_arguments(arguments):
    parser = argparse.ArgumentParser(prog="bench declarations", description=__doc__.split("\n\n")[0])
    parser.add_argument("--only", metavar="PATTERN", default="", help="only those whose class/name matches a regular expression")
    parser.add_argument("--runs", type=int, default=30, help="turns, at least 30 (%(default)s)")
    parser.add_argument("--clock", choices=("wall", "cpu"), default="wall",
                        help="cpu: the time that the process used, for a busy machine (%(default)s)")
    parser.add_argument("--check", action="store_true", help="compare the answers, time nothing")
    parser.add_argument("--limit", type=float, help="fail if Tenon takes longer than this many times gcc's time anywhere")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write everything measured to a file")
    parser.add_argument("--cli", help="the tenon command (default: of build/release, then on the PATH)")
    options = parser.parse_args(arguments)
    if options.runs < 30:
        parser.error("--runs must be at least 30")
    return options


def main(arguments):
    import bench_models

    options = parse_arguments(arguments)
    rows, complaints = [], []
    try:
        options.cli = bench_models.find_cli(options.cli)
    except BenchError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    report = {"machine": measure.machine(), "versions": versions(options.cli)}
    print(f"{', '.join(f'{name} {version}' for name, version in report['versions'].items())}\n"
          f"{measure.describe_machine(report['machine'])}\n\nus, medians of {options.runs}, one thread; Tenon's time / the "
          "other's; difference of the answers; seconds of tenon build\n"
          f"{'class':12s} {'kernel':24s} {'Tenon':>10s} {'gcc':>10s} {'NumPy':>10s} {'/gcc':>7s} {'/NumPy':>7s}  {'diff.':>8s} "
          f"{'build':>6s}")
    with tempfile.TemporaryDirectory() as scratch:
        compile_c(Path(scratch) / "repeat.so", "-O2", FOLDER / "repeat.c")
        for case in read_cases():
            if not re.search(options.only, f"{case['class']}/{case['kernel']}"):
                continue
            try:
                row = measure_case(case, options, Path(scratch))
            except BenchError as error:
                complaints.append(str(error))
                continue
            print_row(row)
            rows.append(row)
            if not row["difference"] <= TOLERANCE:
                complaints.append(f"{case['kernel']}: the answers differ by {row['difference']:.1e}")
            if options.limit and row.get("ratios", {}).get("plain", 0) > options.limit:
                complaints.append(f"{case['kernel']}: {row['ratios']['plain']:.2f} times gcc's time")
    print()
    if rows and not options.check:
        summarize(rows)
    if options.json:
        measure.write_report(options.json, report | {"rows": rows, "complaints": complaints}, options)
    for complaint in complaints:
        print(f"bench: {complaint}", file=sys.stderr)
    return 1 if complaints or not rows else 0


def versions(cli):
    import numpy

    gcc = subprocess.run(["gcc", "-dumpfullversion"], capture_output=True, text=True).stdout.strip()
    tenon = subprocess.run([cli, "--version"], capture_output=True, text=True).stdout.split()[1]
    return {"tenon": tenon, "gcc": gcc, "numpy": numpy.__version__}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
