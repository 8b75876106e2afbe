# SPDX-License-Identifier: Apache-2.0
"""The harness of the ONNX backend suite must itself notice what it is there to notice."""

import os
import signal
import sys
import tempfile
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "onnx"))

import backend_suite  # noqa: E402


class Cases(unittest.TestCase):
    """Stands in for the runner's tests; unittest must not collect these."""

    def runTest(self):
        pass

    def passes(self):
        pass

    def is_wrong(self):
        import numpy as np

        np.testing.assert_allclose([1.0, 2.0], [1.0, 2.5], rtol=1e-3)

    def raises(self):
        raise ValueError("no\n such operator")

    def skips(self):
        self.skipTest("not mine")

    def crashes(self):
        print("about to fall", file=sys.stderr, flush=True)
        os.kill(os.getpid(), signal.SIGSEGV)

    def exits(self):
        os._exit(3)

    def hangs(self):
        time.sleep(3600)


def run(names, jobs=2, timeout=1800.0):  # clock: kills a hung process
    tests = {name: backend_suite.Test(name, "node", Cases, name) for name in set(names)}
    results = {}
    backend_suite.run_all(tests, names, jobs, timeout, results.__setitem__)
    return results


class HarnessTest(unittest.TestCase):
    def test_every_outcome_is_told(self):
        results = run(["passes", "is_wrong", "raises", "skips", "crashes", "exits"]) | run(["hangs"], timeout=1.0)  # clock: kills hung ones
        self.assertEqual({name for name, result in results.items() if result.passed}, {"passes"})
        self.assertRegex(results["is_wrong"].reason, "^wrong answer: .*Max absolute difference.*0.5")
        self.assertEqual(results["raises"].reason, "ValueError: no such operator")
        self.assertIn("skipped by the runner: not mine", results["skips"].reason)
        self.assertEqual(results["crashes"].reason, "the process died: SIGSEGV")
        self.assertIn("about to fall", results["crashes"].details)
        self.assertEqual(results["exits"].reason, "the process died: exit status 3")
        self.assertEqual(results["hangs"].reason, "no answer within 1 s")

    def test_the_run_goes_on_after_crashes(self):
        for jobs in (1, 3):
            results = run(["crashes", "passes", "exits", "is_wrong"], jobs)
            self.assertEqual(len(results), 4)
            self.assertTrue(results["passes"].passed)

    def test_the_list_is_held_to_the_results(self):
        tests = {name: backend_suite.Test(name, "node", Cases, name) for name in ("a", "b", "c", "d")}
        results = {"a": backend_suite.Result(True, 0), "b": backend_suite.Result(False, 0, "why"),
                   "c": backend_suite.Result(True, 0), "d": backend_suite.Result(False, 0, "known")}
        self.assertEqual(
            backend_suite.judge(results, {"c": "old", "d": "known", "gone": "?"}, tests, ["node"]),
            ["FAILED  b: why",
             "PASSES BUT LISTED  c: take its line out of unsupported.txt",
             "UNKNOWN  gone: listed, but the package has no such test",
             "TOO FEW  node: 2 passed, at least 1100 must"])
        self.assertEqual(backend_suite.judge({"a": results["a"], "d": results["d"]}, {"d": "known"}, tests, []), [])

    def test_what_devices_refuse_is_held_to_its_list(self):
        tests = {name: backend_suite.Test(name, "node", Cases, name) for name in ("a", "b", "c", "d")}
        results = {"a": backend_suite.Result(True, 0, refused="no f64"),
                   "b": backend_suite.Result(True, 0, refused="no f64"),
                   "c": backend_suite.Result(True, 0, of_host=True), "d": backend_suite.Result(True, 0)}
        listed = {"a": "no f64", "d": "no f64", "gone": "?"}
        missing = "REFUSED  b: the device has no f64"
        runs = "RUNS BUT LISTED  d: take its line out of the list of what devices refuse"
        unknown = "UNKNOWN  gone: listed, but the package has no such test"
        many = "TOO MANY  4 tests have nodes that a device refuses, at most 3 may"
        self.assertEqual(backend_suite.judge_refused(results, listed, tests, True, 3.0), [missing, runs, unknown, many])
        self.assertEqual(backend_suite.judge_refused(results, listed, tests, False, 4.0), [missing, unknown])
        self.assertEqual(backend_suite.judge_refused(results, {"a": "no f64", "b": "no f64"}, tests, True, 2.0), [])

    def test_seeds_are_shared_out(self):
        backend = backend_suite.TenonBackend
        before = backend.seeds, backend.one_seed_of
        backend.seeds, backend.one_seed_of = range(1, 21), 5
        try:
            shares = [tuple(backend_suite.seeds_of_test(f"test_{i}")) for i in range(100)]
            self.assertEqual({len(share) for share in shares}, {4})
            self.assertEqual({seed for share in shares for seed in share}, set(backend.seeds))
            backend.seeds = range(1, 2)
            self.assertEqual({tuple(backend_suite.seeds_of_test(f"test_{i}")) for i in range(100)}, {(1,)})
        finally:
            backend.seeds, backend.one_seed_of = before

    def test_the_list_survives_writing(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "unsupported.txt"
            listed = {"test_b": "reason of two", "test_a": "reason of two", "test_c": "another"}
            backend_suite.write_list(path, listed)
            self.assertEqual(backend_suite.read_list(path), listed)
            self.assertIn("test_a  reason of two\ntest_b  reason of two\n\ntest_c  another\n", path.read_text())
            path.write_text("test_a\n")
            with self.assertRaisesRegex(SystemExit, "unsupported.txt:1: test_a has no reason"):
                backend_suite.read_list(path)


if __name__ == "__main__":
    unittest.main()
