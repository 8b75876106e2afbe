# SPDX-License-Identifier: Apache-2.0
"""What every benchmark shares: processes that take turns, the figures made of their times, and the comparison of answers.

Each runtime or library has a process of its own. The processes take turns of a few runs, so that whatever else the
machine does meets all of them, and only one of them runs at a time.
"""

import datetime
import json
import math
import os
import platform
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

# Between turns: thread pools that spin after a run must have gone to sleep when the other side begins.
PAUSE_SECONDS = 0.02


class BenchError(Exception):
    """Something that was to be measured did not work; the message says what and why."""


class Server:
    """A process that answers each line of its input with a line of JSON. It greets with one, kept as `start`."""

    def __init__(self, engine, command, environment=None):
        self.engine = engine
        self.errors = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors,
                                        text=True, env=os.environ | (environment or {}))
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
        try:
            answer = json.loads(line)
        except json.JSONDecodeError:
            raise BenchError(f"{self.engine}: the process said {line.strip()!r}") from None
        if "error" in answer:
            raise BenchError(f"{self.engine}: {answer['error']}")
        return answer

    def ask(self, line):
        try:
            print(line, file=self.process.stdin, flush=True)
        except BrokenPipeError:
            pass  # read() says how it ended
        return self.read()

    def close(self):
        self.process.kill()
        self.process.communicate()
        self.errors.close()


def take_turns(turns, count):
    """Calls each of `turns` (name -> function) `count` times, in turns, with pauses. Returns name -> list of answers."""
    answers = {name: [] for name in turns}
    for _ in range(count):
        for name, turn in turns.items():
            time.sleep(PAUSE_SECONDS)
            answers[name].append(turn())
    return answers


def geometric_mean(values):
    return math.exp(statistics.fmean(map(math.log, values)))


def largest_difference(ours, theirs):
    """The largest difference of two lists of arrays, relative to the largest magnitude of each array of `theirs`."""
    import numpy as np

    if len(ours) != len(theirs):
        raise BenchError(f"the runtimes have {len(ours)} and {len(theirs)} outputs")
    worst = 0.0
    for index, (a, b) in enumerate(zip(ours, theirs)):
        if a.shape != b.shape or a.dtype != b.dtype:
            raise BenchError(f"output {index} is {a.dtype} {a.shape} in one runtime and {b.dtype} {b.shape} in the "
                             "other")
        difference = np.abs(a.astype(np.float64) - b).max()
        difference = difference / np.abs(b).max() if difference else 0.0  # zeros everywhere are equal
        # Not max(): it would drop a NaN.
        worst = difference if not difference <= worst else worst
    return float(worst)


def cpu_name():
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def machine():
    """The CPU's name, how many the process may use, and how busy they are: a load above 0.5 spoils every time."""
    return {"cpu": cpu_name(), "cpus": len(os.sched_getaffinity(0)), "load": round(os.getloadavg()[0], 2)}


def write_report(path, report, options):
    """Writes what was measured, with the day, the clock and the number of runs, for --publish and for whoever asks later."""
    facts = {"date": datetime.date.today().isoformat(), "clock": getattr(options, "clock", "wall"), "runs": options.runs}
    path.write_text(json.dumps(facts | report, indent=1) + "\n", encoding="utf-8")


def describe_machine(facts):
    text = f"{facts['cpu']}, {facts['cpus']} CPUs"
    if facts["load"] > 0.5:
        text += f"; other work runs here (load {facts['load']}): trust ratios only"
    return text
