# SPDX-License-Identifier: Apache-2.0
"""Chosen schedules are printed in the form that people write, which reads back to the same steps: for every declaration
of the bench, of open and of fixed sizes, for several targets and threads."""

import re
import subprocess
import tempfile
import unittest
from pathlib import Path

from product import required, tenon

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted((ROOT / "bench/declarations").glob("*.te")) + [ROOT / "tests/schedules/kernels.te"]


class ReadBackTest(unittest.TestCase):
    def check(self, path, *options):
        with tempfile.TemporaryDirectory() as folder:
            text, trace = Path(folder) / "s", Path(folder) / "t"
            tenon("build", path, "--emit", "schedule", "-o", text, *options)
            tenon("build", path, "--emit", "trace", "-o", trace, *options)
            again = tenon("build", path, "--emit", "trace", "--schedule", text, *options).stdout
            self.assertEqual(again, trace.read_text(), f"{path} {options}")
            return text.read_text().count("schedule for")

    def test_open_sizes(self):
        kernels = 0
        for path in FILES:
            for options in (("--target", "x86-64-v3"), ("--target", "x86-64-v4", "--threads", "4"), ("--target", "aarch64")):
                with self.subTest(path.name, options=options):
                    kernels += self.check(path, "--no-measure", *options)
        self.assertGreater(kernels, 300)

    def test_fixed_sizes(self):
        """All dimensions 96, where the kernel takes that."""
        kernels = 0
        for path in FILES:
            for name, dims in re.findall(r"^(?:unchecked )?kernel (\w+)\[([^\]]*)\]", tenon("build", path, "--emit", "te").stdout, re.M):
                fixed = [word for dim in dims.split(",") for word in ("--dim", f"{dim.split('>=')[0].strip()}=96")]
                options = ("--kernel", name, "--target", "x86-64-v4", "--no-measure", *fixed)
                taken = subprocess.run([required("TENON_CLI"), "build", str(path), "--emit", "te", *options], capture_output=True)
                if taken.returncode == 0:
                    with self.subTest(name, dims=dims):
                        kernels += self.check(path, *options)
        self.assertGreater(kernels, 10)


if __name__ == "__main__":
    unittest.main()
