# SPDX-License-Identifier: Apache-2.0
"""Attacks every model of the ONNX backend suite: sizes that do not fit each other, and extreme values.

Each model is compiled twice: as it is, and with every dimension of every input open, a symbol of its own each; where
that is refused, with as many open as can be. Then it runs with one dimension after another at 0, 1, one less, one more
and three times as much, with all dimensions of one size changed together, and with one input after another full of
values at the ends of what its type holds. guarded_run (tests/tools) runs it, with every block of memory against a page
without access.

An outcome is right when it is a refusal with a text, or an answer that agrees with the one of onnx's reference
evaluator, if that has one. Everything else, a fault above all, must stand in attack_known.txt with the reason why it is
none of Tenon's. The run fails when a case fails that is not listed, and, of all models, when a listed one passes.

With --one-of N a sample of the models is attacked, always the same: those whose names' hashes N divides.
"""

import argparse
import contextlib
import fnmatch
import hashlib
import json
import os
import re
import resource
import select
import signal
import struct
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import backend_suite
import ml_dtypes
import numpy as np
import onnx
import onnx.backend.base
import onnx.reference

LIST = Path(__file__).resolve().with_name("attack_known.txt")
KINDS = ["node", "simple", "pytorch-converted", "pytorch-operator"]
# Where any answer is right that has the right distribution.
RANDOM = {"Bernoulli", "Dropout", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform",
          "RandomUniformLike"}
MANY = 8192  # elements of inputs on which the reference evaluator, which is written in Python, is slow
# What must be reached at the least: a run of the attack that attacks nothing shall fail.
FLOORS = {"models: opened": 1000, "dimensions: attacked": 7500, "run: right": 60000, "run: invalid argument": 15000}
MEMORY = 6 << 30  # that one worker may take: a reference evaluator asked for 2^62 elements shall fail
STATUS = ["ok", "invalid argument", "not found", "unsupported", "out of memory", "out of range", "failed precondition",
          "data loss", "io", "cancelled", "internal"]
# A run of a valid model on tensors that are bound as its signature says has no other reasons to fail.
REFUSALS = {"invalid argument", "unsupported", "out of range", "out of memory", "failed precondition"}
CODES = {"int8": 0x0008, "int16": 0x0010, "int32": 0x0020, "int64": 0x0040, "uint8": 0x0108, "uint16": 0x0110,
         "uint32": 0x0120, "uint64": 0x0140, "float16": 0x0210, "float32": 0x0220, "float64": 0x0240,
         "bfloat16": 0x0410, "bool": 0x0608, "object": 0x0380}
DTYPES = {code: name for name, code in CODES.items()}


# ---- the program that runs executables -------------------------------------------------------------------------------

class Fault(Exception):
    """The program that ran the case ended, or did not."""


@dataclass
class Outcome:
    status: str
    text: str = ""
    values: list = field(default_factory=list)


def pack_tensor(array):
    head = struct.pack(f"<II{array.ndim}q", CODES[array.dtype.name], array.ndim, *array.shape)
    if array.dtype != object:
        return head + struct.pack("<Q", array.nbytes) + np.ascontiguousarray(array).tobytes()
    texts = [text if isinstance(text, bytes) else str(text).encode(errors="surrogateescape") for text in array.flat]
    return head + struct.pack("<Q", len(texts)) + b"".join(struct.pack("<Q", len(text)) + text for text in texts)


def pack_value(value):
    if isinstance(value, np.ndarray):
        return struct.pack("<Bi", 0, 1) + pack_tensor(value)
    if value is None:
        return struct.pack("<Bi", 1, -1)
    return struct.pack("<Bi", 1, len(value)) + b"".join(map(pack_tensor, value))


def shaped(array, shape):
    """`array` in that shape. NumPy has no empty arrays whose other dimensions multiply to more than memory has: they stay
    flat, which is no answer that the reference could give."""
    try:
        return array.reshape(shape)
    except ValueError:
        if array.size > 0:
            raise
        return array


class Runner:
    """guarded_run, started anew whenever a case has ended it."""

    def __init__(self, program, timeout):
        self.program, self.timeout, self.process = program, timeout, None

    def start(self):
        self.log = tempfile.TemporaryFile()
        self.process = subprocess.Popen([self.program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log,
                                        bufsize=0)

    def stop(self):
        """Ends the program, if it runs; returns its status, and what it said."""
        if not self.process:
            return 0, []
        self.process.kill()
        code = self.process.wait()
        self.log.seek(0)
        lines = self.log.read().decode(errors="replace").strip().splitlines()
        for file in (self.process.stdin, self.process.stdout, self.log):
            file.close()
        self.process = None
        return code, lines

    def read(self, size):
        data = bytearray()
        while len(data) < size:
            left = self.deadline - time.monotonic()
            if not select.select([self.process.stdout], [], [], max(0.0, left))[0]:
                self.stop()
                raise Fault(f"no answer within {self.timeout:g} s")
            piece = os.read(self.process.stdout.fileno(), min(1 << 20, size - len(data)))
            if not piece:
                self.died()
            data += piece
        return bytes(data)

    def died(self):
        self.process.wait()
        code, lines = self.stop()
        how = f"exit status {code}" if code >= 0 else signal.Signals(-code).name
        raise Fault(re.sub(r"0x[0-9a-f]+", "an address", lines[-1]) if lines else how)

    def numbers(self, format):
        return struct.unpack("<" + format, self.read(struct.calcsize("<" + format)))

    def ask(self, request):
        self.deadline = time.monotonic() + self.timeout
        view = memoryview(request)
        try:
            while view:
                view = view[self.process.stdin.write(view):]
        except BrokenPipeError:
            self.died()
        status, length = self.numbers("II")
        return Outcome(STATUS[status], self.read(length).decode(errors="replace"))

    def load(self, path):
        if self.process is None:
            self.start()
        self.path = path
        outcome = self.ask(b"L" + struct.pack("<I", len(path)) + path.encode())
        if outcome.status != "ok":
            raise Fault(f"does not load: {outcome.text}")

    def run(self, inputs):
        if self.process is None:
            self.load(self.path)
        outcome = self.ask(b"R" + struct.pack("<I", len(inputs)) + b"".join(map(pack_value, inputs)))
        if outcome.status == "ok":
            outcome.values = [self.read_value() for _ in range(*self.numbers("I"))]
        return outcome

    def read_value(self):
        is_list, count = self.numbers("Bi")
        items = [self.read_tensor() for _ in range(max(count, 0))]
        return items[0] if not is_list else None if count < 0 else items

    def read_tensor(self):
        code, rank = self.numbers("II")
        shape = self.numbers(f"{rank}q")
        size, = self.numbers("Q")
        if DTYPES[code] == "object":
            texts = [self.read(*self.numbers("Q")).decode(errors="surrogateescape") for _ in range(size)]
            array = np.empty(len(texts), object)
            array[:] = texts
            return shaped(array, shape)
        kind = ml_dtypes.bfloat16 if DTYPES[code] == "bfloat16" else DTYPES[code]
        return shaped(np.frombuffer(self.read(size), kind), shape)


# ---- cases -----------------------------------------------------------------------------------------------------------

def resized(array, axis, size):
    """The array with another size along an axis: its own elements, again and again."""
    if array.shape[axis] == 0:
        shape = [*array.shape]
        shape[axis] = size
        return np.zeros(shape, array.dtype)
    return np.take(array, np.arange(size) % array.shape[axis], axis)


def sizes_beside(size):
    return sorted({0, 1, size - 1, size + 1, 3 * size} - {size, -1})


def float_limits(dtype):
    return ml_dtypes.finfo(dtype) if dtype.name == "bfloat16" else np.finfo(dtype)


def extremes(array):
    """(name, value) of what a type holds at its ends, for whole tensors and for one element in the middle."""
    if array.dtype == object:
        return [("empty", ""), ("long", "ab\u00e9 " * 2000), ("bytes", b"\xff\xfe\xc3")]
    if array.dtype == bool:
        return [("true", True), ("false", False)]
    if array.dtype.kind in "iu":
        limits = np.iinfo(array.dtype)
        found = [("least", limits.min), ("greatest", limits.max), ("-1", -1), ("0", 0), ("1", 1)]
        return [(name, value) for name, value in found if limits.min <= value and (name == "0" or value != 0)]
    limits = float_limits(array.dtype)
    return [("nan", np.nan), ("inf", np.inf), ("-inf", -np.inf), ("largest", limits.max), ("-largest", -limits.max),
            ("denormal", limits.smallest_subnormal), ("-0", -0.0)]


def filled(array, value):
    result = np.empty(array.shape, array.dtype)
    result[...] = value
    return result


def spotted(array, value):
    """One element, in the middle, is the value."""
    result = array.copy()
    result.reshape(-1)[array.size // 2] = value
    return result


def value_cases(name, array):
    if isinstance(array, np.ndarray) and array.size > 0:
        for label, value in extremes(array):
            yield f"{name}={label}", filled(array, value)
            if array.size > 1:
                yield f"{name}~{label}", spotted(array, value)
        if array.dtype == bool:
            yield f"{name}=bytes 255", filled(array.view(np.uint8), 255).view(bool)
    elif isinstance(array, list):
        yield f"{name}=[]", []
        for label, change in (("[0]", array[:1]), ("twice", array + array)):
            yield f"{name}={label}", change
        for axis in range(array[0].ndim if array else 0):
            for size in sizes_beside(array[0].shape[axis]):
                yield f"{name}[0][{axis}]={size}", [resized(array[0], axis, size), *array[1:]]


def size_cases(names, arrays, opened):
    """(name, inputs) with one open dimension changed, and with all of one size."""
    groups = {}
    for index, axis in sorted(opened):
        groups.setdefault(arrays[index].shape[axis], []).append((index, axis))
        for size in sizes_beside(arrays[index].shape[axis]):
            changed = list(arrays)
            changed[index] = resized(arrays[index], axis, size)
            yield f"{names[index]}[{axis}]={size}", changed
    for old, places in sorted(groups.items()):
        for size in sizes_beside(old) if len(places) > 1 else ():
            changed = list(arrays)
            for index, axis in places:
                changed[index] = resized(changed[index], axis, size)
            yield f"all {old}={size}", changed


def elements_of(inputs):
    return sum(array.size for value in inputs if value is not None
               for array in (value if isinstance(value, list) else [value]))


# ---- models ----------------------------------------------------------------------------------------------------------

def opened_model(model, inputs, opened):
    """A copy whose inputs have symbols for the opened dimensions, and whose other values say nothing of theirs."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    del copy.graph.value_info[:]
    for value in copy.graph.output:
        if value.type.HasField("tensor_type"):
            value.type.tensor_type.ClearField("shape")
    by_name = {value.name: value for value in copy.graph.input}
    for index, axis in opened:
        by_name[inputs[index]].type.tensor_type.shape.dim[axis].dim_param = f"{inputs[index]}.{axis}"
    return copy


def dimensions(model, names):
    """(input, axis) of every dimension of the inputs that are tensors."""
    by_name = {value.name: value.type for value in model.graph.input}
    return [(index, axis) for index, name in enumerate(names) if by_name[name].HasField("tensor_type")
            for axis in range(len(by_name[name].tensor_type.shape.dim))]


class AttackRep(onnx.backend.base.BackendRep):
    """Hands the model and its inputs on, to where the tolerances are known."""

    def __init__(self, model):
        self.model = model

    def run(self, inputs, **kwargs):
        return self.model, inputs


class AttackBackend(backend_suite.TenonBackend):
    @classmethod
    def prepare(cls, model, device="CPU", **kwargs):
        return AttackRep(model)


class TooLong(Exception):
    pass


@contextlib.contextmanager
def time_limit(seconds):
    def ring(number, frame):
        raise TooLong

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


class Attacker:
    """Attacks one model."""

    runner = None  # of this process
    program = None
    folder = None
    timeout = 1800
    only = None
    thorough = False

    def __init__(self, model, inputs, expected, compare):
        self.model, self.expected, self.compare = model, expected, compare
        self.random = any(node.op_type in RANDOM for node in model.graph.node)
        initialized = {tensor.name for tensor in model.graph.initializer}
        free = [value.name for value in model.graph.input if value.name not in initialized]
        self.names = free if len(inputs) == len(free) else [value.name for value in model.graph.input]
        self.inputs = [np.asarray(value) if isinstance(value, np.generic) else value for value in inputs]
        self.inputs = [value.astype(object) if isinstance(value, np.ndarray) and value.dtype.kind in "US" else value
                       for value in self.inputs]
        self.failures, self.counts, self.ran = {}, Counter(), []
        self.reference = None

    def compiled(self, opened, label):
        """The executable in the runner; False when the compiler refuses the model."""
        import tenon

        path = os.path.join(self.folder, f"{os.getpid()}.onnx")
        with open(path, "wb") as file:
            file.write(opened_model(self.model, self.names, opened).SerializeToString())
        try:
            compiled = tenon.compile(path, threads=1, cache=False)
        except tenon.Error as error:
            self.counts[f"compile: {error.code}"] += 1
            if error.code not in REFUSALS or not str(error).strip():
                self.failures[f"{label} compile"] = f"{error.code}: {error}"
            return False
        compiled.save(path + ".tnx")
        self.order = [(self.names.index(value.name), value.kind) for value in compiled.inputs]
        if type(self).runner is None:
            type(self).runner = Runner(self.program, self.timeout)
        try:
            self.runner.load(path + ".tnx")
        except Fault as fault:
            self.failures[f"{label} load"] = str(fault)
            return False
        return True

    def refer(self, inputs):
        """The reference's answer, or None when it has none."""
        try:
            if self.reference is None:
                self.reference = onnx.reference.ReferenceEvaluator(opened_model(self.model, self.names, ()))
            with time_limit(self.timeout):
                given = [list(value) if isinstance(value, list) else value for value in inputs]  # it changes lists
                return self.reference.run(None, dict(zip(self.names, given)))
        except Exception:  # Whatever it raises: it says that it has no answer.
            return None

    def judge(self, name, inputs, expected=None, comparable=True, required=True):
        if self.only and not fnmatch.fnmatchcase(name, self.only) and name != "open":
            return None
        self.ran.append(name)
        try:
            outcome = self.runner.run([[inputs[index]] if kind == "optional" and isinstance(inputs[index], np.ndarray)
                                       else inputs[index] for index, kind in self.order])
        except Fault as fault:
            self.failures[name] = str(fault)
            return None
        if outcome.status != "ok":
            self.counts[f"run: {outcome.status}"] += 1
            if outcome.status not in REFUSALS or not outcome.text.strip():
                self.failures[name] = f"{outcome.status}: {outcome.text}"
            elif expected is not None and required:
                self.failures[name] = f"refused: {outcome.text}"
            return outcome
        comparable = comparable and not self.random
        if comparable and not self.thorough and elements_of(inputs) > MANY:
            self.counts["run: too large to compare"] += 1
            return outcome
        if expected is None and comparable:
            expected = self.refer(inputs)
        if expected is None or not comparable:
            self.counts["run: the reference has no answer" if comparable else "run: not compared"] += 1
            return outcome
        try:
            self.compare(expected, outcome.values, "largest" in name)
            self.counts["run: right"] += 1
        except AssertionError as error:
            self.failures[name] = wrongness(error)
        return outcome

    def attack(self):
        everything = dimensions(self.model, self.names)
        opened = self.open(everything)
        self.counts["dimensions"] += len(everything)
        if opened:
            self.attack_sizes(opened)
            for name, inputs in self.value_cases():
                self.judge(name, inputs, comparable=not name.endswith("bytes 255"))
        for place in everything:
            if place not in opened and self.compiled([place], "open"):
                self.attack_sizes([place])
        if self.thorough or not everything or len(opened) < len(everything):
            self.attack_static()

    def attack_sizes(self, opened):
        self.counts["dimensions: attacked"] += len(opened)
        for name, inputs in size_cases(self.names, self.inputs, opened):
            self.judge(name, inputs)

    def attack_static(self):
        if not self.compiled([], "static"):
            self.counts["models: refused"] += 1
            return
        self.judge("static", self.inputs, self.expected)
        for name, inputs in self.value_cases():
            self.judge("static " + name, inputs, comparable=not name.endswith("bytes 255"))

    def open(self, everything):
        """As many dimensions as can be open at once, so that the model still takes its own inputs; it is compiled with
        these. A dimension of size 1 that is stretched must be 1 in the model, say."""
        if not everything:
            self.counts["models: without dimensions"] += 1
            return []
        if self.compiled(everything, "open") and self.takes_its_own():
            self.counts["models: opened"] += 1
            return everything
        opened = last = []
        for index in range(len(self.names)):
            more = [(i, axis) for i, axis in everything if i == index and self.inputs[i].shape[axis] != 1]
            last = opened + more
            if more and self.compiled(last, "open") and self.takes_its_own():
                opened = last
        if opened and last != opened:
            self.compiled(opened, "open")
        self.counts["models: opened partly" if opened else "models: not opened"] += 1
        return opened

    def takes_its_own(self):
        outcome = self.judge("open", self.inputs, self.expected, required=False)
        return outcome is not None and outcome.status == "ok"

    def value_cases(self):
        for index, name in enumerate(self.names):
            for label, value in value_cases(name, self.inputs[index]):
                yield label, [*self.inputs[:index], value, *self.inputs[index + 1:]]


class AttackRunner(backend_suite.Runner):
    """The suite's runner, whose comparison of a model's results is the attack."""

    attackers = []  # of the test that this process is running

    @classmethod
    def assert_similar_outputs(cls, ref_outputs, outputs, rtol, atol, model_dir=None):
        def similar(expected, results, overflows):
            outputs = [comparable(*pair, overflows) for pair in zip(arrays_of(expected), results, strict=True)
                       if pair[0] is not None or pair[1] is not None]
            half = any(isinstance(array, np.ndarray) and array.dtype == np.float16 for _, array in outputs)
            backend_suite.Runner.assert_similar_outputs(
                [pair[0] for pair in outputs], [pair[1] for pair in outputs], max(rtol, 2**-9 if half else 0),
                max(atol, absolute_error(pair[0] for pair in outputs)))

        if not cls.attackers:  # the first set of inputs of a model will do
            cls.attackers.append(Attacker(*outputs, ref_outputs, similar))
            cls.attackers[0].attack()


def comparable(expected, result, overflows):
    """Both without what the specification leaves open: whether a sum of the largest numbers overflows depends on its
    order."""
    if not isinstance(expected, np.ndarray) or not isinstance(result, np.ndarray):
        return expected, result
    if expected.dtype.kind in "US":
        expected = expected.astype(object)
    if overflows and expected.shape == result.shape and expected.dtype == result.dtype and \
            expected.dtype.name in ("float16", "bfloat16", "float32", "float64"):
        large = float(float_limits(expected.dtype).max) / 2**20
        with np.errstate(invalid="ignore"):
            same = (np.abs(expected) < large) & (np.abs(result) < large)
        zero = np.zeros((), expected.dtype)
        return np.where(same, expected, zero), np.where(same, result, zero)
    return expected, result


def absolute_error(arrays):
    """What a sum whose terms cancel may miss, for the largest number in the arrays."""
    finite = [np.abs(array[np.isfinite(array)]).max(initial=0) for array in arrays
              if isinstance(array, np.ndarray) and array.dtype.kind == "f"]
    return 1e-6 * float(max(finite, default=0))


def arrays_of(values):
    """The reference's results as the runner's comparison takes them. It puts an optional into a list."""
    values = [value[0] if isinstance(value, list) and len(value) == 1 and isinstance(value[0], (list, type(None)))
              else value for value in values]
    return [value if value is None or isinstance(value, (list, np.ndarray)) else np.asarray(value) for value in values]


def wrongness(error):
    """One line of a failed comparison, without the arrays."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    lines = lines[:next((i for i, line in enumerate(lines) if line.startswith(("ACTUAL", "First"))), len(lines))]
    return "wrong answer: " + "; ".join(line for line in lines if not line.startswith("Not equal to tol"))[:200]


@dataclass
class Attacked(backend_suite.Result):
    failures: dict = field(default_factory=dict)
    counts: Counter = field(default_factory=Counter)
    ran: list = field(default_factory=list)


def attack_test(test):
    """Attacks one model, in the process of a worker."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    AttackRunner.attackers.clear()
    result = backend_suite.run_test(test)
    attacked = Attacked(result.passed, result.seconds, result.reason, result.details)
    for attacker in AttackRunner.attackers:
        attacked.failures, attacked.counts, attacked.ran = attacker.failures, attacker.counts, attacker.ran
    return attacked


# ---- the command -----------------------------------------------------------------------------------------------------

def in_sample(name, one_of):
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big") % one_of == 0


def judge(failures, ran, listed, counts, one_of):
    """Returns the complaints that make the run fail, as lines. Listed are patterns of MODEL:CASE. `one_of`: 1: all models
    were attacked; more: a sample of them, of which at least half of its share is expected; 0: what somebody asked for."""
    known = {name for name in failures for pattern in listed if fnmatch.fnmatchcase(name, pattern)}
    complaints = [f"FAILED  {name}: {reason}" for name, reason in sorted(failures.items()) if name not in known]
    for pattern in listed if one_of == 1 else ():
        matched = fnmatch.filter(ran, pattern)
        if matched and not any(name in known for name in matched):
            complaints.append(f"PASSES BUT LISTED  {pattern}: take its line out of {LIST.name}")
        elif not matched and not fnmatch.filter(known, pattern):
            complaints.append(f"UNKNOWN  {pattern}: listed, but there is no such case")
    floors = {what: floor if one_of == 1 else floor // (2 * one_of) for what, floor in FLOORS.items() if one_of > 0}
    complaints += [f"TOO FEW  {what}: {counts[what]}, at least {floor} must be" for what, floor in floors.items()
                   if counts[what] < floor]
    return complaints


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--program", required=True, help="the program guarded_run")
    parser.add_argument("--all", action="store_true",
                        help="attack models that open as they are, too, and compare large tensors")
    parser.add_argument("--one-of", type=int, default=1, metavar="N",
                        help="attack a sample, one model of N, which is always the same")
    parser.add_argument("--filter", metavar="REGEX", help="attack only the models whose name matches")
    parser.add_argument("--only", metavar="GLOB", help="run only the cases whose name matches")
    parser.add_argument("-j", "--jobs", type=int, default=len(os.sched_getaffinity(0)),
                        help="worker processes (%(default)s)")
    parser.add_argument("--timeout", type=float, default=1800, help="seconds after which a case hangs (%(default)s)")
    parser.add_argument("--slowest", type=int, default=0, metavar="N", help="print the N models that took longest")
    parser.add_argument("--log", type=Path, metavar="FILE", help="write what each model took and failed as it ends")
    arguments = parser.parse_args()
    if arguments.one_of < 1:
        parser.error("--one-of must be positive")
    return arguments


def attack_all(arguments):
    """Returns {model: Attacked}."""
    results = {}
    with tempfile.TemporaryDirectory(prefix="tenon-attack-") as folder, \
            open(arguments.log or os.devnull, "w", encoding="utf-8") as log:
        os.environ["ONNX_HOME"] = folder
        os.environ.pop("ONNX_MODELS", None)
        Attacker.folder, Attacker.program, Attacker.timeout = folder, arguments.program, arguments.timeout
        Attacker.only, Attacker.thorough = arguments.only, arguments.all
        tests = backend_suite.load_tests(AttackRunner, AttackBackend)
        names = [test.name for test in tests.values() if test.kind in KINDS
                 and (not arguments.filter or re.search(arguments.filter, test.name))
                 and in_sample(test.name, arguments.one_of)]
        progress = backend_suite.Progress(len(names))

        def report(name, result):
            results[name] = result
            progress.step(name)
            print(f"{name} {result.seconds:.2f} s {result.reason}", *result.details.splitlines(), sep="\n  ", file=log)
            for case, reason in getattr(result, "failures", {}).items():
                print(f"FAILED  {name}:{case}: {reason}", file=log, flush=True)

        backend_suite.run_all(tests, names, arguments.jobs, 600, report, attack_test)
        progress.clear()
    return results


def main():
    arguments = parse_arguments()
    listed = backend_suite.read_list(LIST)
    start = time.monotonic()
    results = attack_all(arguments)
    failures = {f"{name}:model": result.reason for name, result in results.items() if not result.passed}
    counts, ran = Counter(), []
    for name, result in sorted(results.items()):
        if isinstance(result, Attacked):
            failures.update({f"{name}:{case}": reason for case, reason in result.failures.items()})
            counts.update(result.counts)
            ran += [f"{name}:{case}" for case in result.ran]
    partial = arguments.filter or arguments.only
    complaints = judge(failures, ran, listed, counts, 0 if partial else arguments.one_of)
    print("\n".join(complaints))
    for name, count in sorted(counts.items()):
        print(f"{count:8} {name}")
    for name, result in sorted(results.items(), key=lambda item: -item[1].seconds)[: arguments.slowest]:
        print(f"  {result.seconds:7.2f} s  {name}")
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"{used.ru_utime + used.ru_stime:.0f} s of processors' time")
    print(f"{len(ran)} cases of {len(results)} models{f', one of {arguments.one_of}' if arguments.one_of > 1 else ''}, {len(failures)} failed, {len(complaints)} complaints, "
          f"in {time.monotonic() - start:.0f} s")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
