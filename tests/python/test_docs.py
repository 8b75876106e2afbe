# SPDX-License-Identifier: Apache-2.0
"""What the documentation shows is what happens: its commands and programs are run, in the order in which they stand.

Of a page's blocks, `console` holds commands after "$ " and what they print, `python` and `c` hold whole programs, and a
block without a language what the Python program above it prints. Numbers with a point or of three digits and more
may differ, as sizes and times do; so may hashes and spaces. ctest sets TENON_CLI, TENON_LIBRARIES (a folder) and PYTHONPATH.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from product import required

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blurred(text):
    text = re.sub(r"_[0-9a-f]{8}\b", "_HASH", text)
    text = re.sub(r"\d+\.\d+|\d{3,}", "N", text)
    return [line.split() for line in text.strip().splitlines()]


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
                                stderr=subprocess.STDOUT, timeout=120, **options)
        self.assertEqual(result.returncode, 0, f"{command}:\n{result.stdout}")
        return result.stdout

    def expect(self, command, printed, shown):
        self.assertEqual(blurred(printed), blurred(shown), f"{command} printed:\n{printed}")

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
        self.assertEqual(self.check_page("docs/cli.md"), 7)


if __name__ == "__main__":
    unittest.main()
