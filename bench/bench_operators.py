# SPDX-License-Identifier: Apache-2.0
"""Measures single ONNX operators, each alone in a model, beside ONNX Runtime.

Both have a process of their own for each operator, which take turns. Times are those of a run from Python: inputs and
outputs are NumPy arrays on both sides.
"""

import argparse
import math
import re
import statistics
import sys
import tempfile
from pathlib import Path

import bench_models
import measure
import operator_cases
from measure import BenchError

RUNS_PER_TURN = bench_models.RUNS_PER_TURN
ENGINES = ("tenon", "onnxruntime")


def agreement(case, ours, theirs):
    """The difference of the answers, relative to the largest of each output, and whether it is a fault."""
    import numpy as np

    def is_close(a, b):
        steps = np.abs(a.astype(np.float64) - b).max() if np.issubdtype(a.dtype, np.integer) else math.inf
        tolerance = 2**-10 if a.dtype == np.float16 else bench_models.TOLERANCE  # one step of the largest
        return steps <= case.steps or measure.largest_difference([a], [b]) <= tolerance

    difference = measure.largest_difference(ours, theirs)
    return difference, not all(is_close(a, b) for a, b in zip(ours, theirs))


def measure_case(case, threads, options, scratch):
    """Returns the row of an operator; without times when only answers are compared."""
    import numpy as np
    import onnx

    model, inputs, executable = f"{scratch}/model.onnx", f"{scratch}/inputs.npz", f"{scratch}/model.tnx"
    proto, feeds = case.build()
    onnx.save(proto, model)
    np.savez(inputs, **feeds)
    bench_models.run_process([options.cli, "compile", model, "--threads", str(threads), "-o", executable, "--no-cache"],
                             {})
    servers, outputs, row = {}, {}, {"operator": case.name, "threads": threads}
    try:
        for engine in ENGINES:
            servers[engine] = bench_models.start_server(engine, executable if engine == "tenon" else model, threads, inputs,
                                                        f"{scratch}/outputs.npz")
            outputs[engine] = bench_models.read_outputs(f"{scratch}/outputs.npz")
        row["difference"], row["wrong"] = agreement(case, outputs["tenon"], outputs["onnxruntime"])
        if not options.check:
            turns = {engine: lambda server=server: server.ask(RUNS_PER_TURN + 1) for engine, server in servers.items()}
            row |= summarize_turns(measure.take_turns(turns, math.ceil(options.runs / RUNS_PER_TURN)), options.clock)
    finally:
        for server in servers.values():
            server.close()
    return row


def summarize_turns(answers, clock):
    """The first run of each turn is on cold caches and not counted."""
    medians = {engine: statistics.median(ms for answer in rows for ms in answer[clock][1:])
               for engine, rows in answers.items()}
    return {"median_ms": medians, "ratio": medians["tenon"] / medians["onnxruntime"]}


def print_row(row):
    times = ""
    if "ratio" in row:
        times = f"{row['median_ms']['tenon']:>9.3f} {row['median_ms']['onnxruntime']:>9.3f} {row['ratio']:>6.2f} "
    print(f"{row['operator']:<28} {row['threads']:>3} {times}{row['difference']:>8.1e}", flush=True)


def summarize(rows, complaints):
    """Prints the geometric mean and the slowest operators beside the peer."""
    for threads in sorted({row["threads"] for row in rows}):
        timed = sorted((row for row in rows if row["threads"] == threads and "ratio" in row),
                       key=lambda row: -row["ratio"])
        if timed:
            worst = ", ".join(f"{row['operator']} {row['ratio']:.2f}" for row in timed[:5])
            print(f"beside ONNX Runtime, threads {threads}: {measure.geometric_mean(row['ratio'] for row in timed):.2f} "
                  f"(geometric mean of {len(timed)}; {sum(row['ratio'] > 1 for row in timed)} above 1; worst: {worst})")
    for row in rows:
        if row["wrong"]:
            complaints.append(f"{row['operator']}, {row['threads']} threads: answers differ by {row['difference']:.1e} "
                              "of the largest output")


def parse_arguments(arguments):
    parser = argparse.ArgumentParser(prog="bench operators", description=__doc__.split("\n\n")[0])
    parser.add_argument("--only", metavar="PATTERN", help="only rows whose name matches a regular expression")
    parser.add_argument("--threads", type=int, nargs="+", default=[1], metavar="N", help="(default: 1)")
    parser.add_argument("--runs", type=int, default=30, help="counted runs of each, at least 30 (%(default)s)")
    parser.add_argument("--clock", choices=("wall", "cpu"), default="wall",
                        help="cpu: the time that the process used, for one thread on a busy machine (%(default)s)")
    parser.add_argument("--check", action="store_true", help="compare the answers, time nothing")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write everything measured to a file")
    parser.add_argument("--cli", help="the tenon command (default: of build/release, then on the PATH)")
    options = parser.parse_args(arguments)
    options.cases = [case for case in operator_cases.all_cases() if re.search(options.only or "", case.name)]
    if options.runs < 30 or min(options.threads) < 1:
        parser.error("--runs must be at least 30, --threads at least 1")
    if not options.cases:
        parser.error(f"no row matches {options.only}")
    return options


def run_cases(options, rows, complaints):
    for threads in options.threads:
        for case in options.cases:
            try:
                with tempfile.TemporaryDirectory() as scratch:
                    rows.append(measure_case(case, threads, options, scratch))
                print_row(rows[-1])
            except BenchError as error:
                complaints.append(f"{case.name}, {threads} threads: {error}")
                print(f"{case.name:<28} {threads:>3} failed: {error}", flush=True)


def main(arguments):
    options = parse_arguments(arguments)
    try:
        versions = bench_models.check_engines(["onnxruntime"])
        options.cli = bench_models.find_cli(options.cli)
    except BenchError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    facts, rows, complaints = measure.machine(), [], []
    print(f"{', '.join(f'{name} {version}' for name, version in versions.items())}\n{measure.describe_machine(facts)}\n")
    if options.check:
        print(f"{'operator':<28} {'thr':>3} {'diff.':>8}")
    else:
        print(f"ms, medians of {math.ceil(options.runs / RUNS_PER_TURN) * RUNS_PER_TURN}, "
              f"{'wall time' if options.clock == 'wall' else 'CPU time of the process'}, interleaved\n"
              f"{'operator':<28} {'thr':>3} {'Tenon':>9} {'ORT':>9} {'ratio':>6} {'diff.':>8}")
    run_cases(options, rows, complaints)
    print()
    summarize(rows, complaints)
    if options.json:
        measure.write_report(options.json, {"machine": facts, "versions": versions, "rows": rows, "complaints": complaints},
                             options)
    for complaint in complaints:
        print(f"bench: {complaint}", file=sys.stderr)
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
