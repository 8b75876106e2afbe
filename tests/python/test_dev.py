# SPDX-License-Identifier: Apache-2.0
"""./dev asks its builds for what they have."""

import re
import shlex
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


class DevTest(unittest.TestCase):
    def test_a_release_without_tests_has_the_programs_of_bench(self):
        text = (ROOT / "dev").read_text()
        release = next(line for line in re.findall(r"configure release --preset release (.*)", text) if "TESTS=OFF" in line)
        wanted = sorted({word for line in re.findall(r"compile release (.*)", text) for word in re.findall(r"bench_\w+", line)})
        self.assertIn("bench_kernels", wanted)
        with tempfile.TemporaryDirectory() as build:
            subprocess.run(["cmake", "-S", ROOT, "-B", build, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release",
                            *shlex.split(release)], check=True, capture_output=True)
            done = subprocess.run(["ninja", "-C", build, "-t", "query", *wanted], capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()
