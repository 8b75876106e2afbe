# SPDX-License-Identifier: Apache-2.0
"""What the tests of `tenon tune report` share: databases to tell of, well-behaved and hostile, and what is in a page."""

import hashlib
import json
import math
import re
import sqlite3
import struct
import tempfile
import unittest
from html.parser import HTMLParser
from pathlib import Path

import numpy as np

from product import tenon

MACHINE = "GenuineIntel 6.143.8"
START = 1795661340.0
TRACE = 'trace 1 522a81a02a72310c\nsplit "C.j" 0 {}\nvectorize "C.j.1"\nend\n'
HOSTILE = [
    "</script><script>document.title = 'taken'; window.taken = 1</script>",
    "<!--<script>",
    "<img src=x onerror=\"document.title = 'taken'\">",
    "\"'><svg onload=document.title='taken'>",
    "\\u003c/script\\u003e \\\" \\ ' ` ${document.title = 'taken'} @DATA@ &lt;b&gt; &quot;",
    "a\x01\x1b[31mred\x7f\x85\u2028\u2029\u202egnisrever\u2066\ufeff \U0001f600 é",
    "]]></data>" + "very long, " * 40000 + "\U0001f600" * 3000,
]


def task_line(name, declaration, target="x86-64-v3", threads=1, dims=None):
    def text(value):
        return struct.pack("<q", len(value.encode())) + value.encode()

    dims = dims or {}
    parts = [text("tenon task 1"), text(declaration), text(target), struct.pack("<qqq", threads, 0, len(dims))]
    parts += [text(key) + struct.pack("<q", dims[key]) for key in sorted(dims)]
    return {"format": 1, "kind": "task", "task": hashlib.sha256(b"".join(parts)).hexdigest(), "name": name,
            "declaration": declaration, "target": target, "threads": threads, "results_read": False, "dims": dims}


def record_line(task, decisions, when, median=0.0, error="ok", message="", predicted=0.0, machine=MACHINE, verified=True,
                trace=TRACE.format(8), rule="contraction", build=0.02, run=0.1):
    ok = error == "ok"
    measurement = {"when": when, "error": error, "message": message, "median": median, "spread": 0.02 * ok, "calls": 9 * ok,
                   "verified": ok and verified, "build_seconds": build, "run_seconds": run, "predicted": predicted,
                   "tenon": "0.2.0"}
    return {"format": 1, "kind": "record", "task": task["task"], "machine": machine, "schedule_version": 1, "rule": rule,
            "decisions": decisions, "trace": trace, "origin": "search", "measurements": [measurement]}


def course(task, static, trials, start, floor):
    """A static choice and trials that come closer to `floor` times its time, every seventh of which fails."""
    lines = [record_line(task, "point 0", start, static, predicted=static * 0.9)]
    rng = np.random.default_rng(len(task["name"]) + trials)
    for i in range(1, trials):
        when = start + 0.13 * i
        if i % 7 == 3:
            kind, message = [("wrong answer", f"C[{i}, 5] is {i}.5, and -2.5 by the declaration"),
                             ("run timeout", "the candidate took more than 10 s"),
                             ("host compile", f"worker {4000 + i} was ended by signal 6 (Aborted)\nLLVM ERROR: at 0x{i:x}")][i % 3]
            lines.append(record_line(task, f"point {i}", when, error=kind, message=message, predicted=static))
            continue
        median = static * (floor + (1.6 - floor) * math.exp(-i / 40)) * float(rng.lognormal(0, 0.12))
        lines.append(record_line(task, f"point {i}", when, median, trace=TRACE.format(16 if i % 2 else 4),
                                 predicted=median * float(rng.lognormal(0, 0.2))))
    return lines


class Elements(HTMLParser):
    """What is in a page: how often each element, which attributes and values of them, and the texts of some."""

    def __init__(self, page):
        super().__init__(convert_charrefs=True)
        self.counts, self.attributes, self.values, self.texts, self.open, self.classes = {}, set(), set(), {}, [], {}
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.counts[tag] = self.counts.get(tag, 0) + 1
        attributes = dict(attributes)
        self.attributes |= set(attributes)
        self.values |= {value or "" for value in attributes.values()}
        for name in (attributes.get("class") or "").split():
            self.classes[tag, name] = self.classes.get((tag, name), 0) + 1
        if tag not in ("meta", "br", "img", "link", "input"):
            self.open.append((tag, attributes.get("id")))

    def handle_endtag(self, tag):
        while self.open and self.open.pop()[0] != tag:
            pass

    def handle_data(self, data):
        within = {tag for tag, _ in self.open}
        for tag, name in self.open:
            if tag == "title" and "svg" in within:  # what is shown of a point that is pointed at
                continue
            self.texts[tag] = self.texts.get(tag, "") + data
            if name:
                self.texts["#" + name] = self.texts.get("#" + name, "") + data


class ReportTest(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)  # a browser may still be tidying up
        self.addCleanup(scratch.cleanup)
        self.folder = Path(scratch.name)
        self.database = self.folder / "tuning.db"
        self.page = self.folder / "report.html"

    def fill(self, *lines):
        """Takes over lines of JSON; candidates called "point 0" are static choices."""
        file = self.folder / "records.jsonl"
        file.write_text("".join(json.dumps(line) + "\n" for line in lines))
        tenon("db", "import", file, "--database", self.database)
        connection = sqlite3.connect(self.database)  # as if measured here
        connection.execute("UPDATE measurement SET proven = 1")
        connection.execute("UPDATE record SET proven = 1")
        connection.commit()
        connection.close()
        connection = sqlite3.connect(self.database)
        connection.execute("UPDATE record SET origin = iif(decisions = 'point 0', 0, 1)")
        connection.commit()
        connection.close()

    def report(self, *arguments, status=0):
        return tenon("tune", "report", "--database", self.database, "-o", self.page, *arguments, status=status)

    def data(self, *arguments):
        """What the page's script reads."""
        self.report(*arguments)
        page = self.page.read_text()
        return json.loads(re.search(r'<script id="data" type="application/json">(.*?)</script>', page, re.DOTALL)[1])

    def refused(self, words, *arguments, status=1):
        result = self.report(*arguments, status=status)
        self.assertEqual(result.stderr, words + "\n")
        self.assertEqual(result.stdout, "")
        self.assertFalse(self.page.exists())

    def fill_richly(self):
        """Four kernels in two sessions a day apart, with failures, another machine's record and one of a newer format."""
        tasks = [task_line("product", "kernel a"), task_line("softmax of the attention", "kernel b"),
                 task_line("rows", "kernel c", dims={"N": 64, "M": 128}), task_line("blend", "kernel d")]
        lines = list(tasks)
        for i, (task, static, trials, floor) in enumerate(zip(tasks, (4e-3, 1.1e-3, 3e-4, 9e-6), (150, 90, 60, 12), (0.55, 0.7, 0.9, 0.8))):
            lines += course(task, static, trials, START + 86400 * (i == 1) + 0.03 * i, floor)
        lines.append(record_line(tasks[0], "point 0", START, 1e-9, machine="zen 4"))
        self.fill(*lines)
        connection = sqlite3.connect(self.database)
        connection.execute("UPDATE record SET format = 2 WHERE decisions = 'point 149'")
        connection.commit()
        connection.close()
        return tasks

    def fill_hostile(self):
        for i, text in enumerate(HOSTILE):
            task = task_line(text, f"kernel {text}")
            wicked = TRACE.format(8).replace('"C.j.1"', json.dumps(text)) if "\u2028" not in text else TRACE.format(8)
            self.fill(task, record_line(task, "point 0", START + i, 1e-3 * (i + 1), machine=HOSTILE[0], rule=text, trace=wicked),
                      record_line(task, text, START + i + 0.3, 1e-3, machine=HOSTILE[0], rule=text, trace=wicked),
                      record_line(task, "failed " + text, START + i + 0.5, error="run time", message=text, machine=HOSTILE[0]))
