# SPDX-License-Identifier: Apache-2.0
"""What the documentation shows is what happens: its commands and programs are run, in the order in which they stand.

Of a page's blocks, `console` holds commands after "$ " and what they print, `python` and `c` hold whole programs, and a
block without a language what the Python program above it prints. Times may differ (what stands below a heading with
"ms", or in front of a unit of time), sizes in bytes by what wider vectors and more registers make of them (a half and a
bit), other numbers with a point in their last digits, and the hashes in kernels' names and spaces altogether;
everything else is as shown. ctest sets TENON_CLI, TENON_LIBRARIES (a folder) and PYTHONPATH.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from collections import Counter
from pathlib import Path

import onnx.defs
from product import required

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


NUMBER = re.compile(r"-?\d+(\.\d+)?(e[-+]?\d+)?")
SIZE_MAY_DIFFER, VALUE_MAY_DIFFER = 0.55, 1e-4


def words_of(text):
    """The words of each line, and for each what it may differ by, relative to the greater: None for a time."""
    lines, times = [], False
    for line in text.strip().splitlines():
        words = re.sub(r"_[0-9a-f]{8}\b", "_HASH", line).split()
        times = (times or "ms" in words) and bool(words)
        row = []
        for i, word in enumerate(words):
            follows, before = words[i + 1] if i + 1 < len(words) else "", words[i - 1] if i else ""
            timed = times or follows.rstrip(",;)") in ("ms", "us", "ns", "s")
            sized = follows.rstrip(",;)") in ("KB", "MB", "GB", "bytes") or before.rstrip(":").endswith("bytes")
            row.append((word, None if timed else SIZE_MAY_DIFFER if sized else VALUE_MAY_DIFFER if "." in word else 0))
        lines.append(row)
    return lines


def agree(printed, shown):
    """Does a command print what a page shows?"""
    ours, theirs = words_of(printed), words_of(shown)
    if [len(line) for line in ours] != [len(line) for line in theirs]:
        return False
    for (a, _), (b, tolerance) in (pair for lines in zip(ours, theirs) for pair in zip(*lines)):
        numbers = NUMBER.fullmatch(a) and NUMBER.fullmatch(b)
        if a == b or (numbers and tolerance is None):
            continue
        if not numbers or abs(float(a) - float(b)) > tolerance * max(abs(float(a)), abs(float(b))):
            return False
    return True


class AgreeTest(unittest.TestCase):
    """What counts as the same output."""

    def test_what_may_differ(self):
        self.assertTrue(agree("took 3.1 ms", "took 14.9 ms"))
        self.assertTrue(agree("runs  min ms\n10  0.5", "runs min ms\n10 0.9"))
        self.assertTrue(agree("model.tnx: 8.2 KB", "model.tnx: 16.4 KB"))
        self.assertTrue(agree("dot_12345678 x", "dot_9abcdef0  x"))
        self.assertTrue(agree("mean 1.527780", "mean 1.527781"))

    def test_what_may_not(self):
        self.assertFalse(agree("model.tnx: 8.2 KB", "model.tnx: 3.6 KB"))
        self.assertFalse(agree("parameters: 24", "parameters: 25"))
        self.assertFalse(agree("mean 1.5278", "mean 1.5378"))
        self.assertFalse(agree("Relu 14", "Relu 13"))
        self.assertFalse(agree("opset: 200", "opset: 201"))
        self.assertFalse(agree("one", "one two"))
        self.assertFalse(agree("a ms\n1\n\n2.5", "a ms\n1\n\n3.5"))


class OperatorsTest(unittest.TestCase):
    def test_the_page_counts_what_onnx_has(self):
        """The page is written from Tenon's table; ONNX tells what there is."""
        page = (ROOT / "docs" / "onnx-operators.md").read_text()
        rows = [(domain.rstrip(":"), name, state) for domain, name, state in
                re.findall(r"^\| `([\w.]+:)?(\w+)` \| \d+ \| ([^|]+) \|", page, re.MULTILINE)]
        schemas = onnx.defs.get_all_schemas()
        there = Counter(schema.domain for schema in schemas)
        imported = Counter(domain for domain, _, state in rows if state == "imported")
        said = re.search(r"(\d+) of the (\d+) operators in ONNX's .* of the (\d+) operators of `ai.onnx.ml` (\d+) are, and "
                         r"of `ai.onnx.preview` and `ai.onnx.preview.training`, which have (\d+), none", page)
        self.assertEqual([int(number) for number in said.groups()],
                         [imported[""], there[""], there["ai.onnx.ml"], imported["ai.onnx.ml"],
                          there["ai.onnx.preview"] + there["ai.onnx.preview.training"]])
        self.assertEqual({name for domain, name, _ in rows if domain == ""},
                         {schema.name for schema in schemas if schema.domain == ""})
        self.assertLessEqual({domain for domain, _, _ in rows}, {"", "ai.onnx.ml"})


class DocsTest(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = Path(scratch.name)
        shutil.copytree(ROOT / "examples", self.folder / "examples")
        (self.folder / "bin").mkdir()
        (self.folder / "bin" / "tenon").symlink_to(required("TENON_CLI"))
        python = self.folder / "bin" / "python3"  # no link: a virtual environment is found by the path of its interpreter
        python.write_text(f"#!/bin/sh\nexec {sys.executable} \"$@\"\n")
        python.chmod(0o755)
        self.libraries = required("TENON_LIBRARIES")
        self.environment = os.environ | {"PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}",
                                         "TENON_CACHE_DIR": str(self.folder / "cache"),
                                         "LD_LIBRARY_PATH": self.libraries}

    def run_in_scratch(self, *command, **options):
        result = subprocess.run(command, cwd=self.folder, env=self.environment, text=True, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, **options)
        self.assertEqual(result.returncode, 0, f"{command}:\n{result.stdout}")
        return result.stdout

    def expect(self, command, printed, shown):
        if not agree(printed, shown):
            self.assertEqual(printed, shown, f"{command} prints something else")

    def console(self, block):
        for piece in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, shown = piece.partition("\n")
            self.expect(command, self.run_in_scratch("sh", "-c", command), shown)

    def python(self, block):
        return self.run_in_scratch(sys.executable, "-", input=block)

    def c(self, block):
        (self.folder / "program.c").write_text(block)
        self.run_in_scratch("cc", "-Wall", "-Wextra", "-Werror", "program.c", f"-I{ROOT}/include", f"-L{self.libraries}",
                            "-ltenon_runtime", "-o", "program")
        self.expect("the C program", self.run_in_scratch("./program"), "6")

    def check_page(self, page):
        text, printed, ran = (ROOT / page).read_text(encoding="utf-8"), None, 0
        for match in BLOCK.finditer(text):
            language, block = match.groups()
            with self.subTest(page=page, line=text.count("\n", 0, match.start()) + 1):
                if language == "console":
                    self.console(block)
                elif language == "python":
                    printed = self.python(block)
                elif language == "c":
                    self.c(block)
                elif language == "" and printed is not None:
                    self.expect("the Python program", printed, block)
                    printed = None
                else:
                    continue
                ran += 1
        return ran

    def test_readme(self):
        self.assertEqual(self.check_page("README.md"), 6)

    def test_the_command_line(self):
        self.assertEqual(self.check_page("docs/cli.md"), 12)


if __name__ == "__main__":
    unittest.main()
