# SPDX-License-Identifier: Apache-2.0
"""Measures networks on a device, as PoCL's, beside the same ones in Tenon's own code on this machine's CPU.

Both have processes of their own, which take turns of a few runs, on as many CPUs as they have threads. Callers' tensors
are the host's: copies to and from the device are in its times. A ratio is the device's median by the CPU's.
"""

import argparse
import math
import os
import statistics
import sys
import tempfile
from pathlib import Path

import bench_models
import measure
from measure import BenchError

RUNS_PER_TURN = bench_models.RUNS_PER_TURN
DEFAULT = ["light-resnet50-random", "minilm-trained"]


def start(where, targets, name, threads, options, scratch):
    executable, outputs = f"{scratch}/{where}.tnx", f"{scratch}/{where}.npz"
    bench_models.run_process([options.cli, "compile", str(options.folder / f"{name}.onnx"), "--threads", str(threads),
                              "-o", executable, "--no-cache", *targets], {})
    server = bench_models.start_server("tenon", executable, threads, options.folder / f"{name}.npz", outputs)
    return server, bench_models.read_outputs(outputs)


def measure_network(name, threads, options):
    """Returns the row of a network at a number of threads."""
    wheres = {"cpu": ["--target", "native"], "device": ["--target", options.device, "--host", "native"]}
    servers, outputs, everywhere = {}, {}, os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(everywhere)[:threads])  # for the processes that start
    try:
        with tempfile.TemporaryDirectory() as scratch:
            for where, targets in wheres.items():
                servers[where], outputs[where] = start(where, targets, name, threads, options, scratch)
            turns = {where: lambda server=server: server.ask(RUNS_PER_TURN + 1) for where, server in servers.items()}
            answers = measure.take_turns(turns, math.ceil(options.runs / RUNS_PER_TURN))
    finally:
        os.sched_setaffinity(0, everywhere)
        for server in servers.values():
            server.close()
    runs = {where: [ms for answer in rows for ms in answer[options.clock][1:]] for where, rows in answers.items()}
    medians = {where: statistics.median(ms) for where, ms in runs.items()}
    return {"model": name, "threads": threads, "median_ms": medians, "ratio": medians["device"] / medians["cpu"],
            "min_ratio": min(runs["device"]) / min(runs["cpu"]),
            "difference": measure.largest_difference(outputs["device"], outputs["cpu"])}


def print_row(row):
    medians = row["median_ms"]
    print(f"{row['model']:<22} {row['threads']:>3} {medians['cpu']:>9.3f} {medians['device']:>9.3f} "
          f"{row['ratio']:>9.2f} ({row['min_ratio']:.2f}) {row['difference']:>8.1e}", flush=True)


def complaints_of(row, options):
    place = f"{row['model']}, {row['threads']} threads"
    if not row["difference"] <= bench_models.TOLERANCE:
        yield f"{place}: the answers differ by {row['difference']:.1e} of the largest output"
    if options.limit and row["ratio"] > options.limit:
        yield f"{place}: {row['ratio']:.2f} times the CPU's time, the limit is {options.limit:g}"


def parse_arguments(arguments):
    import models

    parser = argparse.ArgumentParser(prog="bench devices", description=__doc__.split("\n\n")[0])
    parser.add_argument("models", nargs="*", metavar="MODEL",
                        help=f"{', '.join(models.BUILDERS)}; default: {', '.join(DEFAULT)}")
    parser.add_argument("--device", default="opencl -type=cpu", metavar="TARGET", help="(%(default)s)")
    parser.add_argument("--threads", type=int, nargs="+", default=[len(os.sched_getaffinity(0))], metavar="N",
                        help="of both (default: one for each CPU; devices may have more threads than CPUs)")
    parser.add_argument("--runs", type=int, default=40, help="counted runs of each, at least 30 (%(default)s)")
    parser.add_argument("--clock", choices=("wall", "cpu"), default="wall",
                        help="cpu: the time that the process used, all threads together (%(default)s)")
    parser.add_argument("--limit", type=float, help="fail if the device takes longer than this many times the CPU")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write everything measured to a file")
    parser.add_argument("--cli", help="the tenon command (default: of build/release, then on the PATH)")
    parser.add_argument("--folder", type=Path, default=bench_models.HERE.parent / "build" / "bench",
                        help="where models are made")
    options = parser.parse_args(arguments)
    unknown = set(options.models) - set(models.BUILDERS)
    if unknown:
        parser.error(f"unknown model {', '.join(sorted(unknown))}; there are {', '.join(models.BUILDERS)}")
    if options.runs < 30 or not all(1 <= threads <= len(os.sched_getaffinity(0)) for threads in options.threads):
        parser.error("--runs must be at least 30, --threads from 1 to the number of CPUs")
    options.models = options.models or DEFAULT
    return options


def main(arguments):
    options = parse_arguments(arguments)
    rows, complaints = [], []
    try:
        options.cli = bench_models.find_cli(options.cli)
        bench_models.make_models(options.folder, options.models)
        print(f"{measure.describe_machine(measure.machine())}\n\nms, medians of "
              f"{math.ceil(options.runs / RUNS_PER_TURN) * RUNS_PER_TURN}, interleaved, "
              f"{'wall time' if options.clock == 'wall' else 'CPU time of the process'}; the ratio of the fastest runs "
              f"in parentheses; device: {options.device}\n"
              f"{'model':<22} {'thr':>3} {'CPU':>9} {'device':>9} {'device / CPU':>16} {'diff.':>8}")
        for name in options.models:
            for threads in options.threads:
                rows.append(measure_network(name, threads, options))
                print_row(rows[-1])
                complaints += complaints_of(rows[-1], options)
    except BenchError as error:
        complaints.append(str(error))
    if options.json:
        report = {"machine": measure.machine(), "device": options.device, "rows": rows, "complaints": complaints}
        measure.write_report(options.json, report, options)
    for complaint in complaints:
        print(f"bench: {complaint}", file=sys.stderr)
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
