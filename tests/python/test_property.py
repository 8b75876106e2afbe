# SPDX-License-Identifier: Apache-2.0
"""Property test: random small graphs, compiled by Tenon, against onnx's reference evaluator in float64.

With --cli (or TENON_CLI) each graph is also given to `tenon run --check`, which holds the compiled kernels against
Tenon's own interpreter, node by node. A graph that fails is shrunk to the fewest nodes that still fail, and written to
a folder, from where `tenon run FOLDER/model.onnx --compare FOLDER/test_data_set_0` repeats the failure.
"""

import argparse
import importlib.util
import os
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "onnx"))

import backend_suite  # noqa: E402
import gen_graphs  # noqa: E402


class Settings:
    """What the worker processes inherit by being forked."""

    target = None
    cli = None
    folder = None


def check_graph(graph, folder):
    """Raises AssertionError if a graph's compiled answers are wrong; other exceptions pass through."""
    import tenon

    gen_graphs.write(graph, folder)
    path = str(folder / "model.onnx")
    compiled = tenon.compile(path, target=Settings.target, threads=1, cache=False)
    complaints = graph.complaints(compiled.run(graph.inputs))
    if complaints:
        raise AssertionError("; ".join(complaints))
    if Settings.cli:
        command = [Settings.cli, "run", "--check", "--no-cache", path]
        for i, value in enumerate(graph.model.graph.input):
            command += ["--input", f"{value.name}={folder / 'test_data_set_0' / f'input_{i}.pb'}"]
        result = subprocess.run(command, text=True, capture_output=True)
        if result.returncode:
            raise AssertionError(f"`tenon run --check` ended with {result.returncode}: {result.stderr.strip()}")


class RandomGraph(unittest.TestCase):
    """One random graph per method "test_SEED" or, of at most so many nodes, "test_SEED_NODES"."""

    def __getattr__(self, name):
        if not name.startswith("test_"):
            raise AttributeError(name)
        return lambda: self.check(*map(int, name.split("_")[1:]))

    def check(self, seed, nodes=None):
        check_graph(gen_graphs.random_graph(seed, nodes), Settings.folder / f"{seed}_{nodes or 'all'}")


def case(name):
    return backend_suite.Test(name, "random", RandomGraph, name)


def run(names, arguments, report):
    tests = {name: case(name) for name in names}
    backend_suite.run_all(tests, names, arguments.jobs, arguments.timeout, report)


def shrink(seed, arguments):
    """Returns (nodes, result) for the shortest prefix of the graph that fails, or None if none does any more."""
    nodes = len(gen_graphs.random_graph(seed).model.graph.node)
    results = {}
    names = [f"test_{seed}_{n}" for n in range(1, nodes + 1)]
    run(names, arguments, results.__setitem__)
    for n, name in enumerate(names, 1):
        if not results[name].passed:
            return n, results[name]
    return None


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--seed", type=int, default=0, help="the first seed (%(default)s)")
    parser.add_argument("--count", type=int, default=300, help="how many graphs (%(default)s)")
    parser.add_argument("--target", help="compile for this target instead of this machine")
    parser.add_argument("--cli", default=os.environ.get("TENON_CLI"), help="the tenon command, for its --check")
    parser.add_argument("-j", "--jobs", type=int, default=len(os.sched_getaffinity(0)),
                        help="worker processes (%(default)s)")
    parser.add_argument("--timeout", type=float, default=1800, help="seconds after which a graph hangs (%(default)s)")
    parser.add_argument("--keep", type=Path, default=Path(tempfile.gettempdir()) / "tenon-property",
                        help="where failing graphs are written (%(default)s)")
    parser.add_argument("--shrink", type=int, default=10, help="shrink at most so many failures (%(default)s)")
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    if importlib.util.find_spec("tenon") is None:
        print("test_property.py: the Python module tenon is missing; `./dev test` builds it, and `pip install .` "
              "installs it", file=sys.stderr)
        return 2
    Settings.target = arguments.target
    Settings.cli = arguments.cli
    start = time.monotonic()  # clock: printed
    failed = {}
    with tempfile.TemporaryDirectory(prefix="tenon-property-") as folder:
        Settings.folder = Path(folder)
        names = [f"test_{seed}" for seed in range(arguments.seed, arguments.seed + arguments.count)]
        progress = backend_suite.Progress(len(names))

        def report(name, result):
            progress.step(name)
            if not result.passed:
                failed[int(name.removeprefix("test_"))] = result

        run(names, arguments, report)
        progress.clear()
        for i, (seed, result) in enumerate(sorted(failed.items())):
            print(f"FAILED  seed {seed}: {result.reason}")
            smaller = shrink(seed, arguments) if i < arguments.shrink else None
            nodes = smaller[0] if smaller else None
            graph = gen_graphs.random_graph(seed, nodes)
            gen_graphs.write(graph, arguments.keep / str(seed))
            operators = ", ".join(node.op_type for node in graph.model.graph.node)
            print(f"        {operators}: {(smaller[1] if smaller else result).reason}\n"
                  f"        kept in {arguments.keep / str(seed)}")
    how = "and against the interpreter " if arguments.cli else ""
    print(f"{arguments.count - len(failed)} passed, {len(failed)} failed of random graphs {arguments.seed} to "
          f"{arguments.seed + arguments.count - 1}, {how}in {time.monotonic() - start:.0f} s")  # clock: printed
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
