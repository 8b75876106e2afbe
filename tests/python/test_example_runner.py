# SPDX-License-Identifier: Apache-2.0
"""The example of a runner of one's own, built against this build's shared library: a device at the end of a pipe.

ctest sets TENON_EXAMPLE."""

import json
import re
import unittest
from pathlib import Path

from product import required, run, tenon

KERNEL = Path(__file__).resolve().parents[2] / "examples/runner/gemm.te"


class RunnerTest(unittest.TestCase):
    def test_candidates_are_built_here_and_timed_there(self):
        """The first is what is chosen here, of which one decision changes."""
        plan = tenon("explain", KERNEL, "--target", "x86-64-v3", "--threads", 1, "--no-measure", "--no-run", "--json").stdout
        kernel = json.loads(plan)["kernels"][0]
        rule, first = kernel["template"], kernel["decisions"]
        second = re.sub(r"unroll (\d+)", lambda m: f"unroll {2 if m[1] == '1' else 1}", first)
        self.assertNotEqual(first, second)
        text = run(required("TENON_EXAMPLE"), KERNEL, rule, first, second, "rows 77777").stdout
        self.assertEqual(text.count("\n"), 3)  # as they come: what fails comes early
        self.assertRegex(text, re.compile(f"^{re.escape(first)}: \\d+ ns$", re.M))
        self.assertRegex(text, re.compile(f"^{re.escape(second)}: \\d+ ns$", re.M))
        self.assertRegex(text, re.compile(r"^rows 77777: instantiation: ", re.M))

    def test_says_what_is_wrong(self):
        self.assertIn("usage: ", run(required("TENON_EXAMPLE"), status=2).stderr)
        self.assertIn("cannot read /nowhere", run(required("TENON_EXAMPLE"), "/nowhere", "rule", "x", status=1).stderr)


if __name__ == "__main__":
    unittest.main()
