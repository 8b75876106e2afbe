# SPDX-License-Identifier: Apache-2.0
"""Measures whole models in Tenon, ONNX Runtime and OpenVINO: latency, compile and start times, and peak memory.

Latencies: each runtime has a process of its own, and they take turns of a few runs, so that whatever else the machine
does meets all of them. Only one of them runs at a time. The first run of each turn, on cold caches, is not counted; the
median is taken of at least 30. Answers are compared before anything is timed.

Start: `tenon run model.onnx` as a whole process, with an empty and with a filled compile cache; for the peers the time
inside of their process from reading the model to the first output, without the start of Python. The start of an
executable is `tenon run model.tnx` as a whole process, and the peers' load and first run, each less the median of later
runs.
"""

import argparse
import hashlib
import json
import math
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import measure
from measure import BenchError

HERE = Path(__file__).resolve().parent
PEERS = {"onnxruntime": "ORT", "openvino": "OpenVINO", "torch": "inductor"}
# torch drags in 5 GB: it is measured only when asked for, where it is installed.
DEFAULT_PEERS = ["onnxruntime", "openvino"]
RUNS_PER_TURN = 5
# Of the largest magnitude in the output: two float32 evaluations of some 50 layers, in different orders.
TOLERANCE = 1e-4

# How models that keep state are compiled for it to be updated in place; serve.py binds it so in every runtime that can.
STATE = {"gpt2-decode": ["--alias", "present.*=past.*"],
         "gpt2-grow": ["--alias", "present.*=past.*", "--capacity", "past=1024"]}


LAUNCHER = """
import json, os, sys, time
null = os.open(os.devnull, os.O_RDWR)
start = time.perf_counter()
pid = os.posix_spawnp(sys.argv[1], sys.argv[1:], os.environ,
                      file_actions=[(os.POSIX_SPAWN_DUP2, null, 0), (os.POSIX_SPAWN_DUP2, null, 1)])
_, status, usage = os.wait4(pid, 0)
print(json.dumps([time.perf_counter() - start, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024,
                  os.waitstatus_to_exitcode(status)]))
"""


def run_process(command, environment):
    """Runs a command from a small launcher. Returns seconds, seconds of CPU time and peak MB of the command alone."""
    launch = subprocess.run([sys.executable, "-I", "-S", "-c", LAUNCHER, *command], env=os.environ | environment,
                            text=True, capture_output=True)
    if launch.returncode:
        raise BenchError(f"{command[0]}: {launch.stderr.strip().splitlines()[-1]}")
    *figures, code = json.loads(launch.stdout)
    if code:
        raise BenchError(f"`{' '.join(command)}` ended with status {code}: {launch.stderr.strip()[-500:]}")
    return figures


def start_server(engine, model, threads, inputs, outputs):
    """`model` is an executable for Tenon and an .onnx file for the others."""
    return measure.Server(engine, [sys.executable, str(HERE / "serve.py"), engine, str(model), str(threads), str(inputs),
                                   outputs])


def read_outputs(path):
    import numpy as np

    with np.load(path) as file:
        return [file[key] for key in file]


def least_of(explained):
    """The least time in ms that the kernels of a model need by what `tenon explain` says of it: the roofline of each,
    as often as it runs. None when sizes are open, so that nobody knows."""
    kernels = [kernel for kernel in explained["kernels"] if kernel["calls"]]
    if not kernels or any(kernel["roofline_share"] is None for kernel in kernels):
        return None
    return 1e3 * sum(kernel["calls"] * kernel["roofline_share"] * kernel["measured_seconds"] for kernel in kernels)


def measure_limits(name, threads, options):
    """What `tenon explain` measures: the machine's limits, and the least time in ms that the model needs by them."""
    model, state = str(options.folder / f"{name}.onnx"), STATE.get(name, [])
    if "--capacity" in state:  # its sizes are open
        return {"machine": None, "least_ms": None}
    result = subprocess.run([options.cli, "explain", model, "--threads", str(threads), "--repeat", "3", "--json",
                             "--no-cache", *state], text=True, capture_output=True)
    if result.returncode:
        raise BenchError(f"tenon explain: {result.stderr.strip()}")
    explained = json.loads(result.stdout)
    return {"machine": explained["machine"], "least_ms": least_of(explained)}


def measure_latency(name, threads, options):
    """Returns the row of the latency table for a model at a number of threads."""
    servers, outputs = {}, {}
    model, inputs = options.folder / f"{name}.onnx", options.folder / f"{name}.npz"
    limits = None if options.check else measure_limits(name, threads, options)
    try:
        with tempfile.TemporaryDirectory() as scratch:
            executable, file = f"{scratch}/{name}.tnx", f"{scratch}/outputs.npz"
            run_process([options.cli, "compile", str(model), "--threads", str(threads), "-o", executable, "--no-cache",
                         *STATE.get(name, [])], {})
            for engine in ("tenon", *options.peers):
                servers[engine] = start_server(engine, executable if engine == "tenon" else model, threads, inputs, file)
                outputs[engine] = read_outputs(file)
        differences = {peer: measure.largest_difference(outputs["tenon"], outputs[peer]) for peer in options.peers}
        if not options.check:
            turns = {engine: lambda server=server: server.ask(RUNS_PER_TURN + 1) for engine, server in servers.items()}
            answers = measure.take_turns(turns, math.ceil(options.runs / RUNS_PER_TURN))
    finally:
        for server in servers.values():
            server.close()
    row = {"model": name, "threads": threads, "differences": differences, "difference": max(differences.values())}
    if options.check:
        return row
    for engine, server in servers.items():
        ms = [ms for answer in answers[engine] for ms in answer[options.clock][1:]]
        row[engine] = {"median_ms": statistics.median(ms), "min_ms": min(ms), "max_ms": max(ms), "runs": len(ms),
                       "peak_mb": answers[engine][-1]["peak_mb"], **server.start}
    for ratios, figure in (("ratios", "median_ms"), ("min_ratios", "min_ms")):
        row[ratios] = {peer: row["tenon"][figure] / row[peer][figure] for peer in options.peers}
    row["ratio"] = max(row["ratios"].values())
    row["limits"] = limits["machine"]
    row["roofline"] = limits["least_ms"] and limits["least_ms"] / row["tenon"]["median_ms"]
    return row


def serve_first(engine, model, name, threads, options, scratch):
    """What a new process of a runtime says of its load and first run, and the median of its later runs, in seconds."""
    server = start_server(engine, model, threads, options.folder / f"{name}.npz", f"{scratch}/out.npz")
    try:
        steady = statistics.median(server.ask(2 * RUNS_PER_TURN + 1)[options.clock][1:]) / 1e3
        return server.start, steady
    finally:
        server.close()


def measure_start(name, threads, options):
    """Returns the row of the start table: `.onnx` to first output, cold and warm, what compiling takes, and what an
    executable's first output takes beyond a later one."""
    model = str(options.folder / f"{name}.onnx")
    compiling, cold, warm, loaded = [], [], [], []
    of_clock = 0 if options.clock == "wall" else 1
    for _ in range(options.repeats):
        with tempfile.TemporaryDirectory() as scratch:
            executable, both = f"{scratch}/{name}.tnx", ["--threads", str(threads)]
            for rows, command, cache in ((compiling, ["compile", model, "-o", executable, *STATE.get(name, [])], "compile"),
                                         (cold, ["run", model], "run"), (warm, ["run", model], "run")):
                rows.append(run_process([options.cli, *command, *both], {"TENON_CACHE_DIR": f"{scratch}/{cache}"}))
            size = os.path.getsize(executable) / 1e6
            _, steady = serve_first("tenon", executable, name, threads, options, scratch)
            loaded += [run_process([options.cli, "run", executable, *both], {})[of_clock] - steady for _ in range(3)]
    first, extra = ({peer: [] for peer in options.peers} for _ in range(2))
    field = "first_output_s" if options.clock == "wall" else "first_output_cpu_s"
    with tempfile.TemporaryDirectory() as scratch:
        for _ in range(options.repeats):
            for peer in options.peers:
                start, steady = serve_first(peer, model, name, threads, options, scratch)
                first[peer].append(start["first_output_s"])
                extra[peer].append(start[field] - steady)

    def median(rows, column):
        return statistics.median(row[column] for row in rows)

    return {"model": name, "threads": threads, "compile_s": median(compiling, 0), "compile_cpu_s": median(compiling, 1),
            "cold_s": median(cold, 0), "warm_s": median(warm, 0), "compile_peak_mb": max(row[2] for row in compiling),
            "warm_peak_mb": max(row[2] for row in warm), "executable_mb": size,
            "peers_s": {peer: statistics.median(seconds) for peer, seconds in first.items()},
            "executable_start_ms": statistics.median(loaded) * 1e3,
            "peers_start_ms": {peer: statistics.median(seconds) * 1e3 for peer, seconds in extra.items()}}


def find_cli(path):
    """The tenon command: as named, in the build folders of this checkout, or on the PATH."""
    root = HERE.parent
    candidates = [path] if path else [*sorted(root.glob("build/release/**/tenon")), shutil.which("tenon")]
    for candidate in candidates:
        if candidate and os.access(candidate, os.X_OK) and os.path.isfile(candidate):
            return str(candidate)
    raise BenchError(f"{path or 'tenon'}: no such command; `./dev build` makes it, --cli names it")


def check_engines(peers):
    """The versions of Tenon and those peers that can be imported, found out in processes that end again."""
    versions = {}
    for name in ("tenon", *peers):
        result = subprocess.run([sys.executable, "-c", f"import {name}\nprint(getattr({name}, '__version__', '?'))"],
                                text=True, capture_output=True)
        if result.returncode == 0:
            versions[name] = result.stdout.strip()
        elif name == "tenon":
            raise BenchError(f"no module tenon: {result.stderr.strip().splitlines()[-1]}; `./dev bench` sets it up")
        else:
            print(f"MISSING PEER: {PEERS[name]} is not measured: {result.stderr.strip().splitlines()[-1]}")
    if len(versions) < 2:
        raise BenchError("there is no peer to compare with; `./dev bench` installs them")
    return versions


def generators_digest():
    """Of the sources that models come from: what an older one wrote under the same name is another model."""
    digest = hashlib.sha256()
    for source in sorted(HERE.glob("*.py")):
        digest.update(source.read_bytes())
    return digest.hexdigest()


def make_models(folder, names):
    digest = generators_digest()

    def is_current(name):
        stamp = folder / f"{name}.made-by"
        return (stamp.exists() and stamp.read_text() == digest and (folder / f"{name}.onnx").exists()
                and (folder / f"{name}.npz").exists())

    missing = [name for name in names if not is_current(name)]
    if missing:
        result = subprocess.run([sys.executable, str(HERE / "models.py"), str(folder), *missing], text=True,
                                capture_output=True)
        if result.returncode:
            raise BenchError(f"models.py failed: {result.stderr.strip().splitlines()[-1]}")
        for name in missing:
            (folder / f"{name}.made-by").write_text(digest)


def columns(values, layout):
    return " ".join(format(value, layout) for value in values)


def latency_header(options):
    names = [PEERS[peer] for peer in options.peers]
    print(f"\nlatency in ms, medians of {math.ceil(options.runs / RUNS_PER_TURN) * RUNS_PER_TURN}, "
          f"{'wall time' if options.clock == 'wall' else 'CPU time of the process'}, interleaved; Tenon's time / the "
          "peer's, of medians and of the fastest runs; the share of the roofline, which is the least time that the "
          "kernels need by the limits of this machine as measured beside it; peak memory while running, less what the "
          "process had before it loaded the model; difference of the answers\n"
          f"{'model':<18} {'thr':>3} {'Tenon':>9} {columns(names, '>9')} {columns(names, '>16')} {'roofline':>8} "
          f"{'Tenon MB':>9} {columns(names, '>9')} {'diff.':>8}")


def print_latency(row, options):
    if options.check:
        print(f"{row['model']:<18} {row['threads']:>3}  answers differ by {row['difference']:.1e}", flush=True)
        return
    ratios = " ".join(f"{row['ratios'][peer]:>9.2f} ({row['min_ratios'][peer]:.2f})" for peer in options.peers)
    peers = [row[peer] for peer in options.peers]
    roofline = "-" if row["roofline"] is None else f"{row['roofline']:.0%}"
    print(f"{row['model']:<18} {row['threads']:>3} {row['tenon']['median_ms']:>9.3f} "
          f"{columns((peer['median_ms'] for peer in peers), '>9.3f')} {ratios} {roofline:>8} {row['tenon']['peak_mb']:>9.0f} "
          f"{columns((peer['peak_mb'] for peer in peers), '>9.0f')} {row['difference']:>8.1e}", flush=True)


def start_header(options):
    print("\nseconds: `tenon compile` on a cold cache (and its CPU time), `tenon run` from .onnx to the first output on "
          "a cold and a warm cache, and the peers' from .onnx to the first output; peak memory; in ms, "
          f"{'wall' if options.clock == 'wall' else 'CPU'} time: `tenon run` of the executable, as a whole process, and the "
          "peers' load and first run, each less the median of later runs\n"
          f"{'model':<18} {'thr':>3} {'compile':>8} {'(CPU)':>8} {'cold':>8} {'warm':>8} "
          f"{columns((PEERS[peer] for peer in options.peers), '>8')} {'compile MB':>10} {'warm MB':>8} {'.tnx MB':>8} "
          f"{'.tnx ms':>8} {columns((PEERS[peer] + ' ms' for peer in options.peers), '>11')}")


def print_start(row, options):
    print(f"{row['model']:<18} {row['threads']:>3} {row['compile_s']:>8.2f} {row['compile_cpu_s']:>8.2f} "
          f"{row['cold_s']:>8.2f} {row['warm_s']:>8.3f} "
          f"{columns(row['peers_s'].values(), '>8.3f')} {row['compile_peak_mb']:>10.0f} "
          f"{row['warm_peak_mb']:>8.0f} {row['executable_mb']:>8.1f} {row['executable_start_ms']:>8.1f} "
          f"{columns(row['peers_start_ms'].values(), '>11.1f')}", flush=True)


def print_limits(rows):
    """What the machine's limits were, row by row: they move with what else it does."""
    for row in rows:
        machine = row.get("limits")
        if machine:
            bandwidths = ", ".join(f"{level} {machine[f'{level.lower()}_bytes_per_second'] / 1e9:.0f}"
                                   for level in ("L2", "L3", "memory"))
            print(f"limits beside {row['model']}, {row['threads']} threads: one core {machine['flops_per_second'] / 1e9:.0f} "
                  f"GFLOP/s, reads GB/s: {bandwidths}")


def summarize(rows, options):
    """Prints the ratios' geometric means, per number of threads; returns the complaints."""
    complaints = []
    for threads in sorted({row["threads"] for row in rows if "ratio" in row}):
        ratios = [row["ratio"] for row in rows if row["threads"] == threads]
        print(f"Tenon takes {measure.geometric_mean(ratios):.2f} times as long as the best peer with {threads} "
              f"thread{'s' if threads > 1 else ''} (geometric mean of {len(ratios)}; worst {max(ratios):.2f})")
    for row in rows:
        place = f"{row['model']}, {row['threads']} threads"
        for peer, difference in row["differences"].items():
            if not difference <= TOLERANCE:
                complaints.append(f"{place}: the answer differs from {PEERS[peer]}'s by {difference:.1e} of the largest "
                                  f"output, allowed are {TOLERANCE:.0e}")
        if options.limit and row.get("ratio", 0) > options.limit:
            complaints.append(f"{place}: {row['ratio']:.2f} times the best peer's latency, the limit is "
                              f"{options.limit:g}")
    return complaints


def table(show_header, take, show, options):
    """Measures and prints one row per model and number of threads. Returns the rows, and complaints for the failed."""
    rows, complaints = [], []
    show_header(options)
    for name in options.models:
        for threads in options.threads:
            try:
                rows.append(take(name, threads, options))
                show(rows[-1], options)
            except BenchError as error:
                complaints.append(f"{name}, {threads} threads: {error}")
                print(f"{name:<18} {threads:>3} failed: {error}", flush=True)
    return rows, complaints


def parse_arguments(arguments):
    import models

    parser = argparse.ArgumentParser(prog="bench models", description=__doc__.split("\n\n")[0])
    parser.add_argument("models", nargs="*", metavar="MODEL",
                        help=f"{', '.join(models.BUILDERS)}; default: {', '.join(models.DEFAULT)}")
    parser.add_argument("--only", metavar="PATTERN", help="only models whose name matches a regular expression")
    parser.add_argument("--peers", nargs="+", choices=list(PEERS), default=DEFAULT_PEERS,
                        help="torch: PyTorch's inductor, where torch is installed (default: onnxruntime openvino)")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2], metavar="N", help="(default: 1 2)")
    parser.add_argument("--runs", type=int, default=40, help="counted runs of each, at least 30 (%(default)s)")
    parser.add_argument("--clock", choices=("wall", "cpu"), default="wall",
                        help="cpu: the time that the process used, for one thread on a busy machine (%(default)s)")
    parser.add_argument("--repeats", type=int, default=3, help="repetitions of each start (%(default)s)")
    parser.add_argument("--no-start", action="store_true", help="leave the table of start times out")
    parser.add_argument("--check", action="store_true", help="compare the answers, time nothing")
    parser.add_argument("--limit", type=float, help="fail if Tenon takes longer than this many times the best peer")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write everything measured to a file")
    parser.add_argument("--cli", help="the tenon command (default: of build/release, then on the PATH)")
    parser.add_argument("--folder", type=Path, default=HERE.parent / "build" / "bench", help="where models are made")
    options = parser.parse_args(arguments)
    unknown = set(options.models) - set(models.BUILDERS)
    if unknown:
        parser.error(f"unknown model {', '.join(sorted(unknown))}; there are {', '.join(models.BUILDERS)}")
    options.models = [name for name in options.models or models.DEFAULT if re.search(options.only or "", name)]
    if options.runs < 30 or options.repeats < 1 or min(options.threads) < 1:
        parser.error("--runs must be at least 30, --repeats and --threads at least 1")
    return options


def main(arguments):
    options = parse_arguments(arguments)
    try:
        versions = check_engines(options.peers)
        options.peers = [peer for peer in options.peers if peer in versions]
        options.cli = find_cli(options.cli)
        make_models(options.folder, options.models)
    except BenchError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    report = {"machine": measure.machine(), "versions": versions, "start": []}
    print(f"{', '.join(f'{name} {version}' for name, version in versions.items())}\n"
          f"{measure.describe_machine(report['machine'])}")
    report["latency"], complaints = table(latency_header, measure_latency, print_latency, options)
    print_limits(report["latency"])
    if not (options.no_start or options.check):
        report["start"], failed = table(start_header, measure_start, print_start, options)
        complaints += failed
    print()
    complaints += summarize(report["latency"], options)
    report["complaints"] = complaints
    if options.json:
        measure.write_report(options.json, report, options)
    for complaint in complaints:
        print(f"bench: {complaint}", file=sys.stderr)
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
