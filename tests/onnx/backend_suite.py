# SPDX-License-Identifier: Apache-2.0
"""Runs the ONNX project's own backend suite over the Python binding, through the runner in onnx.backend.test.

Every test of the package either passes or stands in unsupported.txt with the reason why it does not. The run fails
when an unlisted test fails, and also when a listed test passes, until its line goes. An exception out of the backend is
a failure whatever its type is, and so is a test that the runner would skip.

Where nodes are placed on devices, a node that its device cannot run goes to another. That is by design of what the host
alone does (lists and strings); tests with other such nodes stand in a list with the reason (--refused), and are few.

Tests run in forked worker processes. A worker that dies or hangs costs the test that it was running, and no other.
"""

import argparse
import contextlib
import hashlib
import importlib.util
import io
import json
import multiprocessing
import multiprocessing.connection
import os
import random
import re
import signal
import sys
import tempfile
import time
import traceback
import unittest
import warnings
import zlib
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

# Set before NumPy comes in: its BLAS would start threads, which a fork does not carry over.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np  # noqa: E402
import onnx  # noqa: E402
import onnx.backend.base  # noqa: E402
import onnx.backend.test  # noqa: E402

LIST = Path(__file__).resolve().with_name("unsupported.txt")

# What the runner calls its categories, what the package calls the kinds, and how many tests of the kind must pass.
KINDS = {
    "RealModel": ("real", 9),
    "PyTorchConvertedModel": ("pytorch-converted", 82),
    "PyTorchOperatorModel": ("pytorch-operator", 35),
    "SimpleModel": ("simple", 0),
    "NodeModel": ("node", 1100),
}
MAX_REASON = 200
MOST_REFUSED = 5  # percent of the tests that pass
OF_HOST = "no lists and strings, which only the host has"
SKIPPED = 77  # exit status where a device is missing, which need not be there
NEEDED_DEVICES = os.environ.get("TENON_TEST_DEVICES")


def tensors_of(result):
    return [] if result is None else result if isinstance(result, list) else [result]


def bytes_of(result):
    return result is None, [(array.shape, array.tolist() if array.dtype == object else array.tobytes())
                            for array in tensors_of(result)]


def memory_for(value, result):
    """An array to bind for an output of that result, filled with what the result is not; None: it cannot be bound."""
    if value.dtype == "string" and value.kind == "tensor":
        return np.full(result.shape, "unwritten", object)
    if value.dtype == "string":  # arrays of a pointer and a length, and all bytes
        items = tensors_of(result)
        return np.full(64 + sum(-(-array.size * 16 // 64) * 64 + sum(len(text.encode()) for text in array.flat)
                                for array in items), 0x5a, np.uint8)
    if value.kind == "tensor":
        return np.full(result.nbytes, 0x5a, np.uint8).view(result.dtype).reshape(result.shape)
    return np.full(64 + sum(-(-array.nbytes // 64) * 64 for array in tensors_of(result)), 0x5a, np.uint8)


class TenonRep(onnx.backend.base.BackendRep):
    """A compiled model with the names by which the runner's positional inputs are meant."""

    def __init__(self, compiled, graph):
        self.compiled = compiled
        initialized = {tensor.name for tensor in graph.initializer}
        self.all_inputs = [value.name for value in graph.input]
        self.free_inputs = [name for name in self.all_inputs if name not in initialized]
        self.outputs = [value.name for value in graph.output]

    def run(self, inputs, **kwargs):
        names = self.free_inputs if len(inputs) == len(self.free_inputs) else self.all_inputs
        if len(inputs) != len(names):
            raise ValueError(f"the test gives {len(inputs)} inputs, the model takes {len(self.free_inputs)}")
        # Some of the package's tests give a NumPy scalar where they mean an array without dimensions.
        arrays = [np.asarray(value) if isinstance(value, np.generic) else value for value in inputs]
        results = self.compiled.run(dict(zip(names, arrays)))
        if TenonBackend.seed == TenonBackend.first_seed:
            self.compare_ways(dict(zip(names, arrays)), results)
        return [results[name] for name in self.outputs]

    def compare_ways(self, inputs, results):
        """What the session allocates and what it writes into bound memory is the same, byte for byte."""
        self.compiled.set_inputs(inputs)
        self.compiled.invoke()
        bound = {value.name: memory_for(value, results[value.name]) for value in self.compiled.outputs}
        ways = [{name: self.compiled.output(name) for name in results}]
        self.compiled.set_outputs({name: memory for name, memory in bound.items()
                                  if memory is not None and memory.size > 0})
        self.compiled.invoke()
        ways.append({name: self.compiled.output(name) for name in results})
        ways.append({name: memory if memory is not None and memory.dtype == object else results[name]
                     for name, memory in bound.items()})
        for name, result in results.items():
            for way in ways:
                if bytes_of(way[name]) != bytes_of(result):
                    raise AssertionError(f"{name} differs between a call that allocates and one with bound outputs")


def nodes_of(graph):
    """The nodes of a graph and of its bodies."""
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            for body in [attribute.g, *attribute.graphs]:
                yield from nodes_of(body)


# Nodes of other numbers all of which computes in f64.
WIDE_INSIDE = {"Pow", "MelWeightMatrix"}


def mentions_f64(model):
    """Whether a device without f64 may refuse a node of the model: others are to run there, whatever is inside."""
    def types(graph):
        yield from (value.type.tensor_type.elem_type for value in [*graph.input, *graph.output, *graph.value_info])
        yield from (tensor.data_type for tensor in graph.initializer)
        for node in nodes_of(graph):
            for attribute in node.attribute:
                yield attribute.i if attribute.name in ("to", "dtype") else attribute.t.data_type
    return onnx.TensorProto.DOUBLE in types(model.graph) or \
        any(node.op_type in WIDE_INSIDE for node in nodes_of(model.graph))


def place_at_random(model, devices, seed):
    """Names the nodes of the model and returns a placement of each, which the seed and the model decide."""
    draw = random.Random(hashlib.sha256(model.SerializeToString() + str(seed).encode()).digest())
    places = []
    for number, node in enumerate(nodes_of(model.graph)):
        node.name = f"node{number}"
        places.append(f"{node.name}={draw.choice(devices)}")
    return places


class TenonBackend(onnx.backend.base.Backend):
    target = None
    threads = 1
    folder = None
    devices = None
    seeds = (0,)  # of the placements that each test runs with
    one_seed_of = 1  # of them, others for each test
    first_seed = seed = 0
    refused = set()  # what devices lack for nodes of the test that runs

    @classmethod
    def prepare(cls, model, device="CPU", **kwargs):
        import tenon  # Here, in the worker: the parent stays free of threads, and of what may crash.

        path = os.path.join(cls.folder, f"{os.getpid()}.onnx")
        place = place_at_random(model, cls.devices, cls.seed) if cls.devices else []
        with open(path, "wb") as file:
            file.write(model.SerializeToString())
        while True:
            try:
                compiled = tenon.compile(path, target=cls.target, threads=cls.threads, cache=bool(place), place=place)
                return TenonRep(compiled, model.graph)
            except tenon.Error as error:  # what a device cannot run is refused by name: not there, then
                refused = re.search(r'\(placed by "([^"]*)"\), which cannot run \S+: it has ([^;]*);', str(error))
                if refused is None or refused.group(1) not in place:
                    raise
                if "numbers of type f64" in str(error) and not mentions_f64(model):
                    raise
                place.remove(refused.group(1))
                cls.refused.add(refused.group(2))

    @classmethod
    def supports_device(cls, device):
        return device == "CPU"


class Runner(onnx.backend.test.BackendTest):
    @classmethod
    def assert_similar_outputs(cls, ref_outputs, outputs, rtol, atol, model_dir=None):
        """The package's own compares the rows of a tensor in a sequence as if they were the tensors, and fails at one
        without dimensions."""
        compare = super().assert_similar_outputs
        np.testing.assert_equal(len(outputs), len(ref_outputs))
        for expected, result in zip(ref_outputs, outputs):
            sequences = isinstance(expected, (list, tuple)), isinstance(result, (list, tuple))
            np.testing.assert_equal(sequences[1], sequences[0])
            if sequences[0]:
                np.testing.assert_equal(len(result), len(expected))
            pairs = list(zip(expected, result)) if sequences[0] else [(expected, result)]
            compare([np.asarray(pair[0]) for pair in pairs], [pair[1] for pair in pairs], rtol, atol, model_dir)

    @classmethod
    def download_model(cls, model_test, models_dir):
        raise RuntimeError(f"{model_test.model_name} is not in the onnx package, and tests download nothing")


@dataclass(frozen=True)
class Test:
    name: str
    kind: str
    case: type
    method: str


@dataclass
class Result:
    passed: bool
    seconds: float
    reason: str = ""
    details: str = ""
    refused: str = ""  # what devices lack that nodes were placed on, the host's own affairs left out
    of_host: bool = False  # some nodes are such


def load_tests(runner=Runner, backend=TenonBackend):
    """Returns {name: Test}; the names go without the runner's suffix for the device."""
    with warnings.catch_warnings():
        # The package computes its expected results as it is imported, some of them on purpose from infinities.
        warnings.simplefilter("ignore")
        cases = runner(backend, __name__).test_cases
    tests = {}
    for class_name, case in cases.items():
        category = class_name.removeprefix("OnnxBackend").removesuffix("Test")
        kind = KINDS[category][0]
        for method in dir(case):
            if method.startswith("test_") and method.endswith("_cpu"):
                name = method.removesuffix("_cpu")
                if name in tests:
                    raise RuntimeError(f"two tests are called {name}")
                tests[name] = Test(name, kind, case, method)
    return tests


def reason_of(error):
    """One line that says why a test failed, the same for tests that fail for the same reason."""
    text = str(error).strip()
    if isinstance(error, AssertionError):
        facts = [line.strip() for line in text.splitlines() if "difference" in line or "Mismatch" in line]
        facts = [line for line in facts if not line.startswith("First ")]
        text = "wrong answer: " + ("; ".join(facts) or " ".join(text.split()))
    else:
        text = " ".join(text.split())
        # The place comes first in Tenon's errors; what it is about follows.
        text = re.sub(r"^\S*\.onnx: ", "", text)
        text = re.sub(r"\S*/\d+\.onnx\b", "model.onnx", text)
        if not text or not type(error).__module__.startswith("tenon"):
            text = f"{type(error).__name__}: {text}"
    return text[:MAX_REASON]


def seeds_of_test(name):
    first = zlib.crc32(name.encode()) % min(TenonBackend.one_seed_of, len(TenonBackend.seeds))
    return TenonBackend.seeds[first::TenonBackend.one_seed_of]


def run_test(test):
    """Runs one test in this process, as unittest would."""
    failure = []

    class Recorder(unittest.TestResult):
        def addError(self, case, info):
            failure.append(info)

        addFailure = addError

        def addSkip(self, case, why):
            failure.append((None, RuntimeError(f"skipped by the runner: {why}"), None))

    start = time.monotonic()
    output = io.StringIO()
    TenonBackend.refused = set()
    with warnings.catch_warnings(), contextlib.redirect_stdout(output):
        warnings.simplefilter("ignore")
        seeds = seeds_of_test(test.name)
        TenonBackend.first_seed = seeds[0]
        for TenonBackend.seed in seeds:
            test.case(test.method).run(Recorder())
            if failure:
                break
    seconds = time.monotonic() - start
    refusals = {"refused": "; ".join(sorted(TenonBackend.refused - {OF_HOST})),
                "of_host": OF_HOST in TenonBackend.refused}
    if not failure:
        return Result(True, seconds, **refusals)
    details = "".join(traceback.format_exception(*failure[0]))
    if TenonBackend.devices:
        details += f"placed with --seeds {TenonBackend.seed}\n"
    return Result(False, seconds, reason_of(failure[0][1]), details, **refusals)


def work(tests, run, connection, inherited, log):
    """The life of a worker: a name comes in, a result goes out."""
    for other in inherited:
        other.close()
    os.dup2(log, 1)
    os.dup2(log, 2)
    while True:
        try:
            name = connection.recv()
        except EOFError:
            return
        os.ftruncate(log, 0)
        connection.send(run(tests[name]))


class Worker:
    """One forked process, what it is doing, and since when."""

    context = multiprocessing.get_context("fork")

    def __init__(self, tests, run, others):
        self.log = tempfile.TemporaryFile()
        self.connection, theirs = self.context.Pipe()
        inherited = [self.connection, *(other.connection for other in others)]
        self.process = self.context.Process(target=work, daemon=True,
                                            args=(tests, run, theirs, inherited, self.log.fileno()))
        self.process.start()
        theirs.close()
        self.test = None

    def start(self, name):
        self.test = name
        self.started = time.monotonic()
        self.connection.send(name)

    def died(self):
        """The result of the test during which the process ended."""
        self.process.join()
        code = self.process.exitcode
        how = f"exit status {code}" if code >= 0 else signal.Signals(-code).name
        self.log.seek(0)
        return Result(False, time.monotonic() - self.started, f"the process died: {how}",
                      self.log.read()[-20000:].decode(errors="replace"))

    def stop(self):
        self.connection.close()
        self.process.kill()
        self.process.join()
        self.log.close()


def run_all(tests, names, jobs, timeout, report, run=run_test):
    """Runs the named tests in `jobs` processes and calls report(name, result) for each as it ends."""
    pending = list(reversed(names))
    workers = []
    try:
        while pending or any(worker.test for worker in workers):
            while len(workers) < jobs and pending:
                workers.append(Worker(tests, run, workers))
            for worker in workers:
                if worker.test is None and pending:
                    worker.start(pending.pop())
            busy = [worker for worker in workers if worker.test]
            wait = max(0.0, min(worker.started + timeout for worker in busy) - time.monotonic())
            ready = multiprocessing.connection.wait([worker.connection for worker in busy], wait)
            for worker in busy:
                result = None
                if worker.connection in ready:
                    try:
                        result, alive = worker.connection.recv(), True
                    except (EOFError, ConnectionError):
                        result, alive = worker.died(), False
                elif time.monotonic() - worker.started >= timeout:
                    result, alive = Result(False, timeout, f"no answer within {timeout:g} s"), False
                if result is None:
                    continue
                report(worker.test, result)
                worker.test = None
                if not alive:
                    worker.stop()
                    workers.remove(worker)
    finally:
        for worker in workers:
            worker.stop()


def read_list(path):
    """Returns {test name: reason} of the list of tests that do not pass."""
    listed = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        name, _, reason = line.partition(" ")
        if not reason.strip():
            raise SystemExit(f"{path}:{number}: {name} has no reason")
        if name in listed:
            raise SystemExit(f"{path}:{number}: {name} is listed twice")
        listed[name] = reason.strip()
    return listed


LIST_WORDS = """\
# Tests of the ONNX backend suite that do not pass yet, each with its reason. backend_suite.py fails
# when a test on this list passes: take its line out then. `backend_suite.py --update` rewrites it."""
REFUSED_WORDS = """\
# Node tests of the ONNX backend suite some nodes of which a device does not run, each with what it lacks.
# `backend_suite.py --devices opencl:0 --refused FILE` fails when one is missing here, and when one runs there whole."""


def write_list(path, listed, words=LIST_WORDS):
    """Writes the list: the tests of one reason together, the commonest reasons first."""
    groups = {}
    for name, reason in listed.items():
        groups.setdefault(reason, []).append(name)
    lines = [words]
    for reason, names in sorted(groups.items(), key=lambda group: (-len(group[1]), group[0])):
        lines += ["", *(f"{name}  {reason}" for name in sorted(names))]
    partial = path.with_name(path.name + ".partial")
    partial.write_text("\n".join(lines) + "\n", encoding="utf-8")
    partial.replace(path)


def missing_device(target, devices):
    """Says why a program for the devices does not run here; None: it does."""
    import tenon

    x, y = (onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [2]) for name in "xy")
    node = onnx.helper.make_node("Neg", ["x"], ["y"], "probe")
    model = onnx.helper.make_model(onnx.helper.make_graph([node], "probe", [x], [y]),
                                   opset_imports=[onnx.helper.make_opsetid("", 17)]).SerializeToString()
    for device in devices:
        try:
            probe = tenon.compile(model, target=target, place=[f"probe={device}"], cache=False)
            probe.run({"x": np.ones(2, np.float32)})
        except tenon.Error as error:
            return str(error)
    return None


class Progress:
    """A line on a terminal that says how far the run is; nothing in a pipe."""

    def __init__(self, total):
        self.total = total
        self.done = 0
        self.shown = sys.stderr.isatty()

    def step(self, name):
        self.done += 1
        if self.shown:
            print(f"\r\033[K{self.done}/{self.total} {name}", end="", file=sys.stderr, flush=True)

    def clear(self):
        if self.shown:
            print("\r\033[K", end="", file=sys.stderr, flush=True)


def judge(results, listed, tests, whole_kinds):
    """Returns the complaints that make the run fail, as lines."""
    complaints = []
    for name, result in sorted(results.items()):
        if result.passed and name in listed:
            complaints.append(f"PASSES BUT LISTED  {name}: take its line out of {LIST.name}")
        elif not result.passed and name not in listed:
            complaints.append(f"FAILED  {name}: {result.reason}")
    complaints += [f"UNKNOWN  {name}: listed, but the package has no such test"
                   for name in sorted(listed) if name not in tests]
    passed = Counter(tests[name].kind for name, result in results.items() if result.passed)
    for kind, floor in KINDS.values():
        if kind in whole_kinds and passed[kind] < floor:
            complaints.append(f"TOO FEW  {kind}: {passed[kind]} passed, at least {floor} must")
    return complaints


def judge_refused(results, listed, tests, one_device, most):
    """The same about nodes that devices do not run, which so many tests may have. Of several devices a test may have
    got others than those."""
    complaints = []
    for name, result in sorted(results.items()):
        if result.passed and result.refused and name not in listed:
            complaints.append(f"REFUSED  {name}: the device has {result.refused}")
        elif not result.refused and result.passed and name in listed and one_device:
            complaints.append(f"RUNS BUT LISTED  {name}: take its line out of the list of what devices refuse")
    complaints += [f"UNKNOWN  {name}: listed, but the package has no such test"
                   for name in sorted(listed) if name not in tests]
    refused = len(set(listed) | {name for name, result in results.items() if result.passed and result.refused})
    if refused > most:
        complaints.append(f"TOO MANY  {refused} tests have nodes that a device refuses, at most {most:.0f} may")
    return complaints


def summarize_refused(results):
    passed = [result for result in results.values() if result.passed]
    of_host = sum(result.of_host for result in passed)
    print(f"  {of_host} that pass have nodes of lists and strings, which are the host's")
    counts = Counter(result.refused for result in passed if result.refused)
    for reason, count in counts.most_common():
        print(f"  {count} ({100 * count / len(passed):.1f} %) have nodes for which the device has {reason}")


def summarize(results, tests, listed, seconds):
    for kind, _ in KINDS.values():
        of_kind = [result.passed for name, result in results.items() if tests[name].kind == kind]
        if of_kind:
            print(f"  {kind:<18} {sum(of_kind):>5} of {len(of_kind)} pass")
    passed = sum(result.passed for result in results.values())
    known = sum(not result.passed and name in listed for name, result in results.items())
    print(f"{passed} passed, {len(results) - passed - known} failed, {known} listed as unsupported, "
          f"in {seconds:.0f} s")


def seeds_of(text):
    first, _, last = text.partition("-")
    seeds = range(int(first), int(last or first) + 1)
    if not seeds:
        raise argparse.ArgumentTypeError(f"there are no seeds from {first} to {last}")
    return seeds


def part_of(text):
    """Parses K/N into a pair of numbers."""
    match = re.fullmatch(r"([0-9]+)/([0-9]+)", text)
    if match is None or not 1 <= int(match[1]) <= int(match[2]):
        raise argparse.ArgumentTypeError(f"{text} is no part: K/N with K from 1 to N is")
    return int(match[1]), int(match[2])


def in_part(name, part):
    """Whether a test belongs to this part. Suites that run different parts split the tests identically."""
    return zlib.crc32(name.encode()) % part[1] == part[0] - 1


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--filter", metavar="REGEX", help="run only the tests whose name matches")
    parser.add_argument("--kind", action="append", choices=[kind for kind, _ in KINDS.values()],
                        help="run only this kind (may be repeated)")
    parser.add_argument("--target", action="append",
                        help="compile for this target instead of this machine (may be repeated: several devices)")
    parser.add_argument("--devices", metavar="DEVICE,...", type=lambda text: text.split(","),
                        help="place each node on one of these devices of --target, at random")
    parser.add_argument("--seeds", metavar="N[-M]", type=seeds_of, default=seeds_of("0"),
                        help="of those placements; each test runs with each (0)")
    parser.add_argument("--one-seed-of", type=int, default=1, metavar="N",
                        help="each test runs with one seed of N, others than its neighbours (%(default)s)")
    parser.add_argument("--refused", type=Path, help="the list of tests with nodes that these devices do not run")
    parser.add_argument("--listed", type=Path, metavar="FILE", help="run only the tests that a list has")
    parser.add_argument("--one-of", type=int, default=1, metavar="N", help="run one test of N (%(default)s)")
    parser.add_argument("--part", metavar="K/N", type=part_of, default=(1, 1),
                        help="run the tests of the K-th of N parts, which their names decide")
    parser.add_argument("--threads", type=int, default=1, help="threads of each compiled model (%(default)s)")
    parser.add_argument("-j", "--jobs", type=int, default=len(os.sched_getaffinity(0)),
                        help="worker processes (%(default)s)")
    parser.add_argument("--timeout", type=float, default=1800, help="seconds after which a test hangs (%(default)s)")
    parser.add_argument("--update", action="store_true",
                        help=f"rewrite {LIST.name} for the tests that were run; the floors of the kinds still hold")
    parser.add_argument("--list", type=Path, default=LIST, help="the list of tests that do not pass")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every test's result to a file")
    parser.add_argument("--reasons", action="store_true", help="count the reasons of all failures, listed or not")
    parser.add_argument("--slowest", type=int, default=0, metavar="N", help="print the N tests that took longest")
    parser.add_argument("-v", "--verbose", action="store_true", help="print the traceback of each failure")
    arguments = parser.parse_args()
    arguments.target = arguments.target and ";".join(arguments.target)
    if arguments.jobs < 1 or arguments.timeout <= 0:
        parser.error("--jobs and --timeout must be positive")
    return arguments


def check_refused(arguments, results, tests, failing):
    path = arguments.refused
    listed = read_list(path) if path is not None and path.exists() else {}
    if path is not None and arguments.update:
        kept = {name: reason for name, reason in listed.items() if name in tests and name not in results}
        listed = kept | {name: result.refused for name, result in results.items()
                         if result.passed and result.refused}
        write_list(path, listed, REFUSED_WORDS)
    summarize_refused(results)
    kinds = {tests[name].kind for name in results}
    passing = sum(test.kind in kinds and name not in failing for name, test in tests.items())
    return judge_refused(results, listed, tests, len(arguments.devices) == 1, MOST_REFUSED * passing / 100)


def print_extras(arguments, results):
    if arguments.slowest:
        for name, result in sorted(results.items(), key=lambda item: -item[1].seconds)[: arguments.slowest]:
            print(f"  {result.seconds:7.2f} s  {name}")
    if arguments.reasons:
        counts = Counter(result.reason for result in results.values() if not result.passed)
        for reason, count in counts.most_common():
            print(f"  {count:>5}  {reason}")
    if arguments.json:
        rows = {name: {"passed": result.passed, "seconds": round(result.seconds, 4), "reason": result.reason}
                for name, result in sorted(results.items())}
        arguments.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


def main():
    arguments = parse_arguments()
    if importlib.util.find_spec("tenon") is None:
        print("backend_suite.py: the Python module tenon is missing; `./dev test` builds it, and `pip install .` "
              "installs it", file=sys.stderr)
        return 2
    listed = read_list(arguments.list) if arguments.list.exists() else {}
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="tenon-suite-") as folder:
        # The runner keeps the light models' data under this folder; by default it would be the home folder.
        os.environ["ONNX_HOME"] = folder
        if arguments.devices:  # most kernels of one seed are those of the next
            os.environ["TENON_CACHE_DIR"] = os.path.join(folder, "cache")
        os.environ.pop("ONNX_MODELS", None)
        TenonBackend.folder = folder
        TenonBackend.target = arguments.target
        TenonBackend.threads = arguments.threads
        TenonBackend.devices, TenonBackend.seeds = arguments.devices, arguments.seeds
        TenonBackend.one_seed_of = arguments.one_seed_of
        missing = None
        if arguments.devices:  # in a process of its own: drivers start threads
            with Worker.context.Pool(1) as pool:
                missing = pool.apply(missing_device, (arguments.target, arguments.devices))
        if missing is not None:
            print(f"backend_suite.py: {'missing' if NEEDED_DEVICES else 'SKIPPED'}: {missing}", file=sys.stderr)
            return 1 if NEEDED_DEVICES else SKIPPED
        tests = load_tests()
        kinds = [kind for kind, _ in KINDS.values() if not arguments.kind or kind in arguments.kind]
        names = [test.name for kind in kinds for test in tests.values()
                 if test.kind == kind and (not arguments.filter or re.search(arguments.filter, test.name))]
        if arguments.listed:
            names = [name for name in names if name in read_list(arguments.listed)]
        names = [name for name in names if in_part(name, arguments.part)][::arguments.one_of]
        if not names:
            print("backend_suite.py: no test matches", file=sys.stderr)
            return 2

        results = {}
        progress = Progress(len(names))

        def report(name, result):
            results[name] = result
            progress.step(name)
            if not result.passed and name not in listed and not arguments.update:
                progress.clear()
                print(f"FAILED  {name}: {result.reason}", flush=True)
            if not result.passed and arguments.verbose:
                progress.clear()
                print(result.details, flush=True)

        run_all(tests, names, arguments.jobs, arguments.timeout, report)
        progress.clear()

    if arguments.update:
        kept = {name: reason for name, reason in listed.items() if name in tests and name not in results}
        listed = kept | {name: result.reason for name, result in results.items() if not result.passed}
        write_list(arguments.list, listed)
    some = arguments.filter or arguments.listed or arguments.one_of > 1 or arguments.part[1] > 1
    complaints = judge(results, listed, tests, [] if some else kinds)
    if arguments.devices:
        complaints += check_refused(arguments, results, tests, listed)
    print_extras(arguments, results)
    if complaints:
        print(f"\nwhat makes this run fail ({len(complaints)}):")
        print("\n".join(complaints))
    summarize(results, tests, listed, time.monotonic() - start)
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
