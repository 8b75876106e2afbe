# SPDX-License-Identifier: Apache-2.0
"""Measures Tenon and ONNX Runtime side by side: latency, time from .onnx to the first output, and peak memory.

Latencies: each runtime has a process of its own, and the two take turns of a few runs, so that whatever else the
machine does meets both. Only one of them runs at a time. The first run of each turn, on cold caches, is not counted;
the median is taken of at least 30. Answers are compared before anything is timed.

Start: `tenon run model.onnx` as a whole process, with an empty and with a filled compile cache; for ONNX Runtime the
time inside of its process from creating the session to the first output, without the start of Python.
"""

import argparse
import json
import math
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ENGINES = ("tenon", "onnxruntime")
RUNS_PER_TURN = 5
# Between turns: thread pools that spin after a run must have gone to sleep when the other side begins.
PAUSE_SECONDS = 0.02
# Of the largest magnitude in the output: two float32 evaluations of some 50 layers, in different orders.
TOLERANCE = 1e-4


class BenchError(Exception):
    """Something that was to be measured did not work; the message says what and why."""


# ---- inside of the measured processes --------------------------------------------------------------------------------


def load_engine(engine, model, threads):
    """Returns (run, output names) for a model in one of the runtimes."""
    if engine == "tenon":
        import tenon

        compiled = tenon.compile(model, threads=threads)
        return compiled.run, [value.name for value in compiled.outputs]
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    names = [value.name for value in session.get_outputs()]
    return lambda feeds: dict(zip(names, session.run(names, feeds))), names


def peak_mb():
    """The process's peak resident size. Not ru_maxrss of oneself, which begins at the parent's size at the fork."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    raise BenchError("/proc/self/status has no VmHWM")


def serve(engine, model, threads, inputs, outputs):
    """Loads a model, writes its outputs, then times as many runs as each line of stdin says."""
    protocol = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def answer(value):
        print(json.dumps(value), file=protocol, flush=True)

    try:
        import numpy as np

        with np.load(inputs) as file:
            feeds = dict(file)
        # The import of the runtime is not a part of loading a model.
        __import__(engine)
        start = time.perf_counter()
        run, names = load_engine(engine, model, threads)
        loaded = time.perf_counter()
        results = run(feeds)
        first = time.perf_counter()
        np.savez(outputs, **{str(i): results[name] for i, name in enumerate(names)})
        answer({"load_s": loaded - start, "first_output_s": first - start})
        for line in sys.stdin:
            times = []
            for _ in range(int(line)):
                start = time.perf_counter()
                run(feeds)
                times.append((time.perf_counter() - start) * 1e3)
            answer({"ms": times, "peak_mb": peak_mb()})
    except Exception as error:
        answer({"error": f"{type(error).__name__}: {error}"})
        return 1
    return 0


LAUNCHER = """
import json, os, sys, time
null = os.open(os.devnull, os.O_RDWR)
start = time.perf_counter()
pid = os.posix_spawnp(sys.argv[1], sys.argv[1:], os.environ,
                      file_actions=[(os.POSIX_SPAWN_DUP2, null, 0), (os.POSIX_SPAWN_DUP2, null, 1)])
_, status, usage = os.wait4(pid, 0)
print(json.dumps([time.perf_counter() - start, usage.ru_maxrss / 1024, os.waitstatus_to_exitcode(status)]))
"""


# ---- the measuring process -------------------------------------------------------------------------------------------


class Server:
    """A process that serves one model in one runtime."""

    def __init__(self, engine, model, threads, inputs, outputs):
        self.engine = engine
        command = [sys.executable, __file__, "--serve", engine, model, str(threads), inputs, outputs]
        self.errors = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors,
                                        text=True)
        try:
            self.start = self.read()
        except BaseException:
            self.close()
            raise

    def read(self):
        line = self.process.stdout.readline()
        if not line:
            code = self.process.wait()
            self.errors.seek(0)
            tail = self.errors.read().strip().splitlines()[-1:]
            raise BenchError(f"{self.engine}: the process ended with status {code}" + "".join(f": {x}" for x in tail))
        answer = json.loads(line)
        if "error" in answer:
            raise BenchError(f"{self.engine}: {answer['error']}")
        return answer

    def turn(self, runs):
        print(runs, file=self.process.stdin, flush=True)
        return self.read()

    def close(self):
        self.process.kill()
        self.process.communicate()
        self.errors.close()


def largest_difference(ours, theirs):
    """The largest difference of two files of outputs, relative to the largest magnitude of each output."""
    import numpy as np

    with np.load(ours) as a, np.load(theirs) as b:
        if set(a) != set(b):
            raise BenchError(f"the runtimes have {len(set(a))} and {len(set(b))} outputs")
        worst = 0.0
        for name in b:
            if a[name].shape != b[name].shape or a[name].dtype != b[name].dtype:
                raise BenchError(f"output {name} is {a[name].dtype} {a[name].shape} in one runtime and "
                                 f"{b[name].dtype} {b[name].shape} in the other")
            difference = np.abs(a[name].astype(np.float64) - b[name]).max() / np.abs(b[name]).max()
            # Not max(): it would drop a NaN.
            worst = difference if not difference <= worst else worst
        return float(worst)


def measure_latency(name, threads, folder, runs):
    """Returns the row of the latency table for a model at a number of threads."""
    model, inputs = str(folder / f"{name}.onnx"), str(folder / f"{name}.npz")
    servers = []
    try:
        with tempfile.TemporaryDirectory() as scratch:
            for engine in ENGINES:
                servers.append(Server(engine, model, threads, inputs, f"{scratch}/{engine}.npz"))
            difference = largest_difference(*(f"{scratch}/{engine}.npz" for engine in ENGINES))
        times = {engine: [] for engine in ENGINES}
        peaks = {}
        for _ in range(math.ceil(runs / RUNS_PER_TURN)):
            for server in servers:
                time.sleep(PAUSE_SECONDS)
                answer = server.turn(RUNS_PER_TURN + 1)
                times[server.engine] += answer["ms"][1:]
                peaks[server.engine] = answer["peak_mb"]
    finally:
        for server in servers:
            server.close()
    row = {"model": name, "threads": threads, "runs": len(times[ENGINES[0]]), "difference": difference}
    for server in servers:
        ms = times[server.engine]
        row[server.engine] = {"median_ms": statistics.median(ms), "min_ms": min(ms), "max_ms": max(ms),
                              "peak_mb": peaks[server.engine], **server.start}
    row["ratio"] = row["tenon"]["median_ms"] / row["onnxruntime"]["median_ms"]
    return row


def run_process(command, environment):
    """Runs a command from a small launcher. Returns seconds and peak MB of the command alone."""
    launch = subprocess.run([sys.executable, "-I", "-S", "-c", LAUNCHER, *command], env=environment, text=True,
                            capture_output=True)
    if launch.returncode:
        raise BenchError(f"{command[0]}: {launch.stderr.strip().splitlines()[-1]}")
    seconds, peak, code = json.loads(launch.stdout)
    if code:
        raise BenchError(f"`{' '.join(command)}` ended with status {code}: {launch.stderr.strip()[-500:]}")
    return seconds, peak


def measure_start(name, threads, folder, cli, repeats):
    """Returns the row of the start table: `.onnx` to first output, cold and warm, and what compiling takes."""
    model = str(folder / f"{name}.onnx")
    cold, warm, cold_peaks, warm_peaks = [], [], [], []
    run = [cli, "run", model, "--threads", str(threads)]
    for _ in range(repeats):
        with tempfile.TemporaryDirectory() as cache:
            environment = os.environ | {"TENON_CACHE_DIR": cache}
            for seconds, peaks in ((cold, cold_peaks), (warm, warm_peaks)):
                took, peak = run_process(run, environment)
                seconds.append(took)
                peaks.append(peak)
    theirs = []
    with tempfile.TemporaryDirectory() as scratch:
        executable = f"{scratch}/{name}.tnx"
        with tempfile.TemporaryDirectory() as cache:
            run_process([cli, "compile", model, "-o", executable, "--threads", str(threads)],
                        os.environ | {"TENON_CACHE_DIR": cache})
        size = os.path.getsize(executable) / 1e6
        for _ in range(repeats):
            server = Server("onnxruntime", model, threads, str(folder / f"{name}.npz"), f"{scratch}/out.npz")
            theirs.append(server.start["first_output_s"])
            server.close()
    return {"model": name, "threads": threads, "cold_s": statistics.median(cold), "warm_s": statistics.median(warm),
            "onnxruntime_s": statistics.median(theirs), "cold_peak_mb": max(cold_peaks),
            "warm_peak_mb": max(warm_peaks), "executable_mb": size}


def find_cli(path):
    """The tenon command: as named, in the build folders of this checkout, or on the PATH."""
    root = HERE.parent
    candidates = [path] if path else [*sorted(root.glob("build/release/**/tenon")), shutil.which("tenon")]
    for candidate in candidates:
        if candidate and os.access(candidate, os.X_OK) and os.path.isfile(candidate):
            return str(candidate)
    raise BenchError(f"{path or 'tenon'}: no such command; `./dev build` makes it, --cli names it")


def check_engines():
    """The runtimes' versions, found out in a process of its own so that this one stays small."""
    code = ("import importlib\nfor name in ('tenon', 'onnxruntime'):\n"
            "  print(getattr(importlib.import_module(name), '__version__', '?'))")
    result = subprocess.run([sys.executable, "-c", code], text=True, capture_output=True)
    if result.returncode:
        raise BenchError(f"both runtimes are needed: {result.stderr.strip().splitlines()[-1]}; `./dev bench` sets them "
                         "up")
    return dict(zip(ENGINES, result.stdout.split()))


def cpu_name():
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def make_models(folder, names):
    missing = [name for name in names if not ((folder / f"{name}.onnx").exists() and (folder / f"{name}.npz").exists())]
    if missing:
        result = subprocess.run([sys.executable, str(HERE / "models.py"), str(folder), *missing], text=True,
                                capture_output=True)
        if result.returncode:
            raise BenchError(f"models.py failed: {result.stderr.strip().splitlines()[-1]}")


def print_latency(row):
    ours, theirs = row["tenon"], row["onnxruntime"]
    print(f"{row['model']:<18} {row['threads']:>7}  {ours['median_ms']:>9.2f} {theirs['median_ms']:>9.2f} "
          f"{row['ratio']:>7.2f}x  {ours['min_ms']:>9.2f} {theirs['min_ms']:>9.2f}  {ours['peak_mb']:>8.0f} "
          f"{theirs['peak_mb']:>8.0f}  {row['difference']:>9.1e}", flush=True)


def print_start(row):
    print(f"{row['model']:<18} {row['threads']:>7}  {row['cold_s']:>9.2f} {row['warm_s']:>9.3f} "
          f"{row['onnxruntime_s']:>9.3f}  {row['cold_peak_mb']:>9.0f} {row['warm_peak_mb']:>9.0f}  "
          f"{row['executable_mb']:>8.1f}", flush=True)


def summarize(rows, limit):
    """Prints the ratios' geometric mean, per number of threads; returns the complaints."""
    complaints = []
    for threads in sorted({row["threads"] for row in rows}):
        ratios = [row["ratio"] for row in rows if row["threads"] == threads]
        mean = math.exp(statistics.fmean(map(math.log, ratios)))
        print(f"Tenon takes {mean:.2f} times as long as ONNX Runtime with {threads} "
              f"thread{'s' if threads > 1 else ''} (geometric mean of {len(ratios)}; worst {max(ratios):.2f})")
    for row in rows:
        if not row["difference"] <= TOLERANCE:
            complaints.append(f"{row['model']}, {row['threads']} threads: answers differ by {row['difference']:.1e} "
                              f"of the largest output, allowed are {TOLERANCE:.0e}")
        if limit and row["ratio"] > limit:
            complaints.append(f"{row['model']}, {row['threads']} threads: {row['ratio']:.2f} times ONNX Runtime's "
                              f"latency, the limit is {limit:g}")
    return complaints


def table(title, header, measure, show, jobs):
    """Measures and prints one row per job. Returns the rows, and complaints for the jobs that failed."""
    rows, complaints = [], []
    print(f"\n{title}\n{header}", flush=True)
    for job in jobs:
        try:
            rows.append(measure(*job))
            show(rows[-1])
        except BenchError as error:
            complaints.append(f"{job[0]}, {job[1]} threads: {error}")
            print(f"{job[0]:<18} {job[1]:>7}  failed", flush=True)
    return rows, complaints


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("models", nargs="*", metavar="MODEL",
                        help="resnet50, squeezenet (either with -random for random weights), minilm; default: all")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2], metavar="N", help="(default: 1 2)")
    parser.add_argument("--runs", type=int, default=40, help="counted runs of each, at least 30 (%(default)s)")
    parser.add_argument("--repeats", type=int, default=3, help="repetitions of each start (%(default)s)")
    parser.add_argument("--no-start", action="store_true", help="leave the table of start times out")
    parser.add_argument("--limit", type=float, help="fail if Tenon takes longer than this many times ONNX Runtime")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write everything measured to a file")
    parser.add_argument("--cli", help="the tenon command (default: of build/release, then on the PATH)")
    parser.add_argument("--folder", type=Path, default=HERE.parent / "build" / "bench", help="where models are made")
    arguments = parser.parse_args()
    arguments.models = arguments.models or ["resnet50", "resnet50-random", "squeezenet", "squeezenet-random", "minilm"]
    if arguments.runs < 30 or arguments.repeats < 1 or min(arguments.threads) < 1:
        parser.error("--runs must be at least 30, --repeats and --threads at least 1")
    return arguments


def main():
    if sys.argv[1:2] == ["--serve"]:
        engine, model, threads, inputs, outputs = sys.argv[2:]
        return serve(engine, model, int(threads), inputs, outputs)
    arguments = parse_arguments()
    try:
        versions = check_engines()
        cli = None if arguments.no_start else find_cli(arguments.cli)
        make_models(arguments.folder, arguments.models)
    except BenchError as error:
        print(f"bench.py: {error}", file=sys.stderr)
        return 1
    machine = {"cpu": cpu_name(), "cpus": len(os.sched_getaffinity(0)), **versions}
    print(f"Tenon {versions['tenon']} and ONNX Runtime {versions['onnxruntime']} on {machine['cpu']}, "
          f"{machine['cpus']} CPUs")
    jobs = [(name, threads) for name in arguments.models for threads in arguments.threads]
    rows, complaints = table(
        f"latency in ms, medians of {math.ceil(arguments.runs / RUNS_PER_TURN) * RUNS_PER_TURN}, interleaved; peak "
        "memory of the process; difference of the answers",
        f"{'model':<18} {'threads':>7}  {'Tenon':>9} {'ORT':>9} {'ratio':>8}  {'Tenon min':>9} {'ORT min':>9}  "
        f"{'Tenon MB':>8} {'ORT MB':>8}  {'diff.':>9}",
        lambda name, threads: measure_latency(name, threads, arguments.folder, arguments.runs), print_latency, jobs)
    starts = []
    if cli:
        starts, failed = table(
            "seconds from .onnx to the first output; peak memory of `tenon run`; size of the executable",
            f"{'model':<18} {'threads':>7}  {'cold':>9} {'warm':>9} {'ORT':>9}  {'cold MB':>9} {'warm MB':>9}  "
            f"{'.tnx MB':>8}",
            lambda name, threads: measure_start(name, threads, arguments.folder, cli, arguments.repeats), print_start,
            jobs)
        complaints += failed
    print()
    complaints += summarize(rows, arguments.limit)
    if arguments.json:
        report = {"machine": machine, "latency": rows, "start": starts, "complaints": complaints}
        arguments.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    for complaint in complaints:
        print(f"bench.py: {complaint}", file=sys.stderr)
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
