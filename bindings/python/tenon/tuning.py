# SPDX-License-Identifier: Apache-2.0
"""Tuning: measuring schedules for the kernels of models and declarations. tenon.tune() is what `tenon tune` does
(docs/tuning.md), and builders and runners may be written in Python (docs/howto-runner.md)."""

from __future__ import annotations

import math
import os
import time
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Union

from . import _tenon

_PHASES = ("not begun", "measuring", "comparing", "done")  # in the order of tn_tuner_phase
_ENDS = (None, "budget", "trials", "speedup", "nothing left", "stopped", "stopped at once", "failed")
_SEARCHES = ("evolution", "random", "exhaustive")
_MODES = ("async", "batched", "blocking")
_UNITS = {"s": 1, "m": 60, "h": 3600}


# ---- builders and runners -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class BuildInput:
    """A candidate: `schedule` is the trace of the schedule for the one kernel of the text `declaration`, which
    build_te(declaration, trace=schedule, target=target, threads=threads) builds; with a `rule` it is decisions of that."""

    id: int
    name: str  # for people
    declaration: str
    machine: str | None  # the text of the machine file that schedules are chosen for
    target: str
    threads: int
    results_read: bool
    rule: str | None
    schedule: str
    slow_seconds: float  # a kernel that takes longer is of no interest; 0: none is


@dataclass
class Build:
    """What a builder made: bytes for the runner, or an error by its name, "host compile" say, and its text."""

    code: bytes = b""
    error: str = "ok"
    message: str = ""
    seconds: float | None = None  # that it took; None: what build() took
    workspace_bytes: int = 0
    trace: str = ""
    buffer_count: int = 0
    input: BuildInput | None = None  # set for the runner


@dataclass
class Run:
    """What a runner found: the median of the seconds of one call, the distance of the quartiles over it, how many calls
    were timed, and whether the results were compared with the declaration's: only such candidates can become the best of
    a database. Or an error, "run time" or "wrong answer" say, and its text."""

    median: float = 0.0
    spread: float = 0.0
    calls: int = 1
    verified: bool = False
    error: str = "ok"
    message: str = ""
    seconds: float | None = None  # that it took in all; None: what run() took


class Builder:
    """A builder of one's own: a class with this method, and with state of its own. `slots` calls are made at once, each
    in a thread of the library's, with Python's lock; who has long work in Python itself gives it to processes. What it
    raises ends that candidate alone, as "host compile" with the traceback as its text."""

    slots: int = 1

    def build(self, input: BuildInput) -> Build:
        raise NotImplementedError


class Runner:
    """The same for runners: what run() raises ends the candidate as "run time"."""

    slots: int = 1

    def run(self, build: Build) -> Run:
        raise NotImplementedError


def _error_number(names: Sequence[str], name: str) -> int:
    if name not in names:
        raise ValueError(f"there is no error {name!r} of trials: {', '.join(names)}")
    return names.index(name)


def _building(builder: Builder, names: Sequence[str]) -> Callable[[Any], Any]:
    def build(words: Any) -> Any:
        begun = time.monotonic()
        try:
            made = builder.build(BuildInput(*words))
            taken = time.monotonic() - begun if made.seconds is None else float(made.seconds)
            return (_error_number(names, made.error), made.message, taken, bytes(made.code), int(made.workspace_bytes),
                    made.trace or "", int(made.buffer_count))
        except BaseException:  # whatever it is, it is this candidate's
            return names.index("host compile"), traceback.format_exc(), time.monotonic() - begun, b"", 0, "", 0

    return build


def _running(runner: Runner, names: Sequence[str]) -> Callable[[Any, Any], Any]:
    def run(words: Any, built: Any) -> Any:
        begun = time.monotonic()
        try:
            seconds, code, workspace, trace, buffers = built
            build = Build(code, seconds=seconds, workspace_bytes=workspace, trace=trace, buffer_count=buffers,
                          input=BuildInput(*words))
            found = runner.run(build)
            taken = time.monotonic() - begun if found.seconds is None else float(found.seconds)
            return (_error_number(names, found.error), found.message, taken, float(found.median), float(found.spread),
                    int(found.calls), bool(found.verified))
        except BaseException:
            return names.index("run time"), traceback.format_exc(), time.monotonic() - begun, 0.0, 0.0, 0, False

    return run


# ---- what is told -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TunedKernel:
    """A kernel and how far it is. Times are seconds of one call; None: not known, or it failed."""

    name: str
    declaration: str = field(repr=False)
    target: str
    threads: int
    weight: float  # calls in a run of each model and declaration
    static_seconds: float | None
    best_seconds: float | None
    trials: int
    errors: dict[str, int]  # how many of this tuning's trials ended so
    first_error: str | None
    stopped: bool  # it gets no more trials
    compared: bool  # the best was timed in turns with the static choice
    better: bool  # and is faster, or is so by its time where nothing was compared
    ratio: float  # of the best to the static choice there
    rule: str | None = field(repr=False)
    decisions: str | None
    trace: str | None = field(repr=False)  # of the best


@dataclass(frozen=True)
class Progress:
    """How far a tuning is. Times are seconds; None: not known."""

    phase: str  # "measuring", "comparing", "done"
    end: str | None  # why it ended: "budget", "trials", "speedup", "nothing left", "stopped", "stopped at once"
    trials: int  # of this tuning
    known: int  # before
    seconds: float  # of trials, in this tuning
    spent: float  # of the budget
    left: float | None  # until the end
    builder_share: float  # of the time in which it was busy
    runner_share: float
    static_seconds: float | None  # of all kernels
    best_seconds: float | None
    kernels: tuple[TunedKernel, ...]


@dataclass(frozen=True)
class Tuning(Progress):
    """What a tuning found. `schedules` is the text for compile(tuned=FILE) and build_te(tuned=FILE): of `count` kernels."""

    schedules: str = field(repr=False)
    count: int

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the schedules to a file, whole or not at all."""
        part = f"{os.fspath(path)}.part"
        with open(part, "w", encoding="utf-8") as file:
            file.write(self.schedules)
        os.replace(part, path)


def _known(seconds: float) -> float | None:
    return seconds if math.isfinite(seconds) else None


def _kernel(words: Any) -> TunedKernel:
    name, declaration, target, threads, weight, static, best, *rest = words
    return TunedKernel(name, declaration, target, threads, weight, _known(static), _known(best), *rest)


def _progress(core: Any) -> dict[str, Any]:
    phase, end, tasks, trials, known, seconds, spent, left, builders, runners, static, best = core.look()
    return {"phase": _PHASES[phase], "end": _ENDS[end], "trials": trials, "known": known, "seconds": seconds, "spent": spent,
            "left": _known(left), "builder_share": builders, "runner_share": runners, "static_seconds": _known(static),
            "best_seconds": _known(best), "kernels": tuple(_kernel(core.look_at(task)) for task in range(tasks))}


# ---- tuning -------------------------------------------------------------------------------------------------------------


def _seconds(budget: float | str | None) -> float:
    if budget is None:
        return 0.0
    number: float | str = budget
    scale = 1
    if isinstance(budget, str) and budget[-1:] in _UNITS:
        number, scale = budget[:-1], _UNITS[budget[-1]]
    try:
        seconds = float(number) * scale
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise ValueError(f"a budget is seconds above 0, or a time like 90s, 10m or 2h, not {budget!r}")
    return seconds


def _above(what: str, number: int | None) -> int:
    if number is not None and number < 1:
        raise ValueError(f"{what} is a number above 0, not {number!r}")
    return number or 0


def _word(what: str, words: Sequence[str], word: str) -> int:
    if word not in words:
        raise ValueError(f"{what} is one of {', '.join(words)}, not {word!r}")
    return words.index(word)


def _worker_program(program: str | os.PathLike[str] | None) -> str | None:
    if program is not None:
        return os.fspath(program)
    beside = os.path.join(os.path.dirname(__file__), "tenon-tune")
    return beside if os.access(beside, os.X_OK) and "TENON_WORKER" not in os.environ else None


def _add(core: Any, model: Any, kernel: str | None, fields: dict[str, Any]) -> None:
    if isinstance(model, (str, os.PathLike)):
        path = os.fspath(model)
        if path.endswith(".te"):
            core.add_declarations(path, None, kernel, fields)
            return
        core.add_model(path, None, kernel, fields)
    elif isinstance(model, (bytes, bytearray, memoryview)):
        core.add_model("model", bytes(model), kernel, fields)
    elif hasattr(model, "SerializeToString"):
        core.add_model("model", model.SerializeToString(), kernel, fields)
    else:
        raise TypeError(f"a model is a path, bytes or an onnx.ModelProto, not {type(model).__name__}")


def tune(
    model: Any = None,
    *,
    declarations: str | None = None,
    kernel: str | None = None,
    budget: float | str | None = None,
    trials: int | None = None,
    target_speedup: float | None = None,
    patience: int | None = None,
    database: str | os.PathLike[str] | bool | None = None,
    output: str | os.PathLike[str] | None = None,
    builder: Builder | None = None,
    runner: Union[Runner, Iterable[Runner], None] = None,
    progress: Callable[[Progress], Any] | None = None,
    progress_seconds: float = 0.25,
    search: str = "evolution",
    seed: int | None = None,
    comparison: bool = True,
    deterministic: bool = False,
    mode: str = "async",
    window: int | None = None,
    builders: int | None = None,
    cold: bool = False,
    program: str | os.PathLike[str] | None = None,
    fingerprint: str | None = None,
    target: str | None = None,
    threads: int | None = None,
    dims: Mapping[str, int] | None = None,
    machine: str | os.PathLike[str] | None = None,
    measure: bool = True,
) -> Tuning:
    """Measures schedules for the kernels of a model (a path, bytes or an onnx.ModelProto), of a file of declarations
    (FILE.te), of several of them in a list, or of the text `declarations`, as `tenon tune` does.

    It ends when the `budget` is spent (seconds, "10m"), after so many `trials`, when all kernels together are
    `target_speedup` times as fast, or when none has gained in `patience` trials. Records go to `database` (None: the
    usual file; False: nowhere), and starting again goes on from there. `output` is a file for the schedules that are
    faster, for compile(tuned=FILE).

    `builder` and `runner` (or several runners) take the places of worker processes, which are the program `program`
    (None: $TENON_WORKER, or tenon-tune in $PATH); `fingerprint` names the machine that own runners time on.
    `progress` is called every `progress_seconds` with a Progress; when it returns False, what is in flight is finished,
    and the best are compared. What it raises, and what a handler of a signal raises, as Ctrl-C does, ends the tuning at
    once and is raised here; every trial that has ended is in the database.
    `deterministic` measures nothing, and does the same each time (docs/tuning.md). `target`, `threads`, `dims`, `machine`
    and `measure` are as for compile().
    """
    from . import _fields

    try:
        from . import _tune
    except ImportError as error:
        raise _tenon.Error(f"this build of the package has no tuner: {error}") from error
    fields = _fields({"target": target, "threads": threads, "dims": dims, "machine": machine, "measure": measure})
    if model is None and declarations is None:
        raise TypeError("there is nothing to tune: give a model, or declarations")
    models = [] if model is None else list(model) if isinstance(model, (list, tuple)) else [model]
    runners = [] if runner is None else [runner] if not isinstance(runner, Iterable) else list(runner)
    core = _tune.tuner(
        _seconds(budget), _above("trials", trials), target_speedup or 0.0, _above("patience", patience),
        _word("search", _SEARCHES, search), 0, seed or 0, seed is None and not deterministic, not comparison, deterministic,
        cold, _word("mode", _MODES, mode), _above("window", window), 0, _above("builders", builders), database is False,
        None if database is None or isinstance(database, bool) else os.fspath(database), _worker_program(program), fingerprint)
    for item in models:
        _add(core, item, kernel, fields)
    if declarations is not None:
        core.add_declarations("declarations", declarations.encode(), kernel, fields)
    names = _tune.error_names()
    if builder is not None:
        core.use_builder(_building(builder, names), builder.slots)
    for item in runners:
        core.use_runner(_running(item, names), item.slots)
    core.run(None if progress is None else _every(progress_seconds, progress, core))
    schedules, count = core.schedules()
    found = Tuning(**_progress(core), schedules=schedules, count=count)
    if output is not None:
        core.save(os.fspath(output))
    return found


def _every(seconds: float, progress: Callable[[Progress], Any], core: Any) -> Callable[[], Any]:
    """Calls the person's function so often, and at the end."""
    last = -math.inf

    def call() -> Any:
        nonlocal last
        now = time.monotonic()
        if now - last < seconds and core.look()[0] != _PHASES.index("done"):
            return None
        last = now
        return progress(Progress(**_progress(core)))

    return call
