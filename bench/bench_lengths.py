# SPDX-License-Identifier: Apache-2.0
"""Measures one sentence encoder of open length, compiled once, at many lengths.

Beside it run, for each length, the same model compiled for that length alone, and ONNX Runtime with the open model. All
have processes of their own that take turns. A ratio is the time of the open executable divided by the other's.
"""

import argparse
import math
import statistics
import sys
import tempfile
from pathlib import Path

import bench_models
import measure
from measure import BenchError

# By the number of tokens that it has places for: the model, and what to call it.
MODELS = {512: ("minilm-open", "MiniLM-L6"), 2048: ("minilm-open-2048", "two layers of MiniLM-L6 with 2048 places")}
RUNS_PER_TURN = bench_models.RUNS_PER_TURN


def spread(count, longest):
    """`count` lengths from 1 to the longest, as evenly spaced by their logarithms as different whole numbers can be."""
    steps, lengths = max(count - 1, 1), []
    while len(lengths) < min(count, longest):
        lengths = sorted({round(longest ** (step / steps)) for step in range(steps + 1)})
        steps += 1
    return lengths


def write_sentence(path, length):
    import numpy as np

    rng = np.random.default_rng(length)
    np.savez(path, input_ids=rng.integers(0, 30522, (1, length)), attention_mask=np.ones((1, length), np.int64),
             token_type_ids=np.zeros((1, length), np.int64))


def executable(model, folder, threads, options, length=None):
    path = f"{folder}/{'open' if length is None else length}.tnx"
    fixed = [] if length is None else ["--dim", f"sequence={length}"]
    bench_models.run_process([options.cli, "compile", str(model), "--threads", str(threads), "-o", path, "--no-cache", *fixed], {})
    return path


def measure_length(length, threads, servers, scratch, model, options):
    """Returns the row of a length; `servers` are those of the open model, the exact one is made here."""
    sentence = f"{scratch}/sentence.npz"
    write_sentence(sentence, length)
    exact = bench_models.start_server("tenon", executable(model, scratch, threads, options, length), threads, sentence,
                                      f"{scratch}/exact.npz")
    try:
        outputs = {"exact": bench_models.read_outputs(f"{scratch}/exact.npz")}
        for name, server in servers.items():
            server.ask(f"1 {sentence} {scratch}/{name}.npz")
            outputs[name] = bench_models.read_outputs(f"{scratch}/{name}.npz")
        turns = {name: lambda server=server: server.ask(f"{RUNS_PER_TURN + 1}")
                 for name, server in {**servers, "exact": exact}.items()}
        answers = measure.take_turns(turns, math.ceil(options.runs / RUNS_PER_TURN))
    finally:
        exact.close()
    medians = {name: statistics.median(ms for answer in rows for ms in answer[options.clock][1:])
               for name, rows in answers.items()}
    difference = max(measure.largest_difference(outputs["open"], outputs[name]) for name in outputs if name != "open")
    return {"length": length, "threads": threads, "median_ms": medians, "difference": difference,
            "ratios": {name: medians["open"] / ms for name, ms in medians.items() if name != "open"}}


def print_row(row):
    medians, ratios = row["median_ms"], row["ratios"]
    print(f"{row['length']:>6} {row['threads']:>3} {medians['open']:>9.3f} {medians['exact']:>9.3f} "
          f"{medians['onnxruntime']:>9.3f} {ratios['exact']:>9.2f} {ratios['onnxruntime']:>9.2f} {row['difference']:>8.1e}",
          flush=True)


def parse_arguments(arguments):
    parser = argparse.ArgumentParser(prog="bench lengths", description=__doc__.split("\n\n")[0])
    parser.add_argument("lengths", nargs="*", type=int, metavar="LENGTH",
                        help="numbers of tokens; default: 32, evenly spaced by their logarithms")
    parser.add_argument("--places", type=int, choices=sorted(MODELS), default=min(MODELS),
                        help="the most tokens that the model takes: MiniLM-L6, or two of its layers with 2048 places (%(default)s)")
    parser.add_argument("--threads", type=int, nargs="+", default=[1], metavar="N", help="(default: 1)")
    parser.add_argument("--runs", type=int, default=30, help="counted runs of each, at least 30 (%(default)s)")
    parser.add_argument("--clock", choices=("wall", "cpu"), default="wall",
                        help="cpu: the time that the process used, for one thread on a busy machine (%(default)s)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write everything measured to a file")
    parser.add_argument("--cli", help="the tenon command (default: of build/release, then on the PATH)")
    parser.add_argument("--folder", type=Path, default=bench_models.HERE.parent / "build" / "bench",
                        help="where models are made")
    options = parser.parse_args(arguments)
    options.lengths = options.lengths or spread(32, options.places)
    if options.runs < 30 or min(options.threads) < 1 or not all(1 <= length <= options.places for length in options.lengths):
        parser.error(f"--runs must be at least 30, --threads at least 1, lengths from 1 to {options.places}")
    options.model, options.title = MODELS[options.places]
    return options


def run_lengths(threads, options):
    rows, model = [], options.folder / f"{options.model}.onnx"
    with tempfile.TemporaryDirectory() as scratch:
        servers = {}
        try:
            start = (options.folder / f"{options.model}.npz", f"{scratch}/start.npz")
            servers["open"] = bench_models.start_server("tenon", executable(model, scratch, threads, options), threads, *start)
            servers["onnxruntime"] = bench_models.start_server("onnxruntime", model, threads, *start)
            for length in options.lengths:
                rows.append(measure_length(length, threads, servers, scratch, model, options))
                print_row(rows[-1])
        finally:
            for server in servers.values():
                server.close()
    return rows


def main(arguments):
    options = parse_arguments(arguments)
    rows = []
    try:
        versions = bench_models.check_engines(["onnxruntime"])
        options.cli = bench_models.find_cli(options.cli)
        bench_models.make_models(options.folder, [options.model])
        print(f"{', '.join(f'{name} {version}' for name, version in versions.items())}\n"
              f"{measure.describe_machine(measure.machine())}\n\n{options.title}, ms, medians of "
              f"{math.ceil(options.runs / RUNS_PER_TURN) * RUNS_PER_TURN}, interleaved; ratios of the open executable\n"
              f"{'tokens':>6} {'thr':>3} {'open':>9} {'exact':>9} {'ORT':>9} {'/ exact':>9} {'/ ORT':>9} {'diff.':>8}")
        for threads in options.threads:
            rows += run_lengths(threads, options)
    except BenchError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    for name, other in (("exact", "executables of one length"), ("onnxruntime", "ONNX Runtime")):
        ratios = [row["ratios"][name] for row in rows]
        print(f"beside {other}: {measure.geometric_mean(ratios):.2f} (geometric mean of {len(ratios)}; worst {max(ratios):.2f})")
    if options.json:
        measure.write_report(options.json, {"machine": measure.machine(), "versions": versions, "rows": rows}, options)
    wrong = [row for row in rows if not row["difference"] <= bench_models.TOLERANCE]
    for row in wrong:
        print(f"bench: {row['length']} tokens: answers differ by {row['difference']:.1e} of the largest output", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
