# SPDX-License-Identifier: Apache-2.0
"""The attack on ONNX's suite must itself notice what it is there to notice."""

import os
import sys
import tempfile
import unittest
from collections import Counter
from pathlib import Path

import numpy as np
from onnx import TensorProto, helper

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "onnx"))

import attack_suite  # noqa: E402

PROGRAM = os.environ["TENON_GUARDED_RUN"]


def add_model():
    names = ("x", "y")
    graph = helper.make_graph([helper.make_node("Add", names, ["z"])], "g",
                              [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 3]) for name in names],
                              [helper.make_tensor_value_info("z", TensorProto.FLOAT, [2, 3])])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


class Attacks(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        attack_suite.Attacker.folder, attack_suite.Attacker.program = folder.name, PROGRAM
        attack_suite.Attacker.runner = None
        self.addCleanup(lambda: attack_suite.Attacker.runner and attack_suite.Attacker.runner.stop())
        self.inputs = [np.arange(6, dtype=np.float32).reshape(2, 3), np.ones((2, 3), np.float32)]

    def attacker(self, expected):
        def same(expected, results, overflows):
            np.testing.assert_equal(results, attack_suite.arrays_of(expected))

        return attack_suite.Attacker(add_model(), self.inputs, [expected], same)

    def test_a_sum_withstands(self):
        attacker = self.attacker(self.inputs[0] + 1)
        attacker.attack()
        self.assertEqual(attacker.failures, {})
        self.assertEqual(attacker.counts["dimensions: attacked"], 4)
        self.assertIn("x[1]=9", attacker.ran)
        self.assertIn("all 3=0", attacker.ran)
        self.assertIn("y~nan", attacker.ran)
        self.assertGreater(attacker.counts["run: invalid argument"], 8)
        self.assertGreater(attacker.counts["run: right"], 20)

    def test_a_wrong_answer_is_told(self):
        attacker = self.attacker(self.inputs[0])
        attacker.attack()
        self.assertRegex(attacker.failures.pop("open"), "^wrong answer: .*Mismatched elements: 6 / 6")
        self.assertEqual(attacker.failures, {})

    def test_the_reference_may_change_its_lists(self):
        class Reference:
            def run(self, outputs, inputs):
                inputs["s"].append(None)

        attacker = self.attacker(None)
        attacker.names, attacker.reference = ["s"], Reference()
        given = [[np.zeros(2)]]
        attacker.refer(given)
        self.assertEqual(len(given[0]), 1)


class ProgramTest(unittest.TestCase):
    def runner(self, program=PROGRAM, timeout=1800.0):  # clock: kills a hung process
        runner = attack_suite.Runner(program, timeout)
        runner.start()
        self.addCleanup(runner.stop)
        return runner

    def test_a_fault_tells_its_place(self):
        with self.assertRaisesRegex(attack_suite.Fault, "fault 11 after the start: byte 24 of a block of 24"):
            self.runner().ask(b"F")

    def test_a_program_that_says_nothing_is_ended(self):
        with self.assertRaisesRegex(attack_suite.Fault, "no answer within 0.2 s"):
            self.runner(timeout=0.2).ask(b"L")  # clock: kills a hung process

    def test_what_cannot_be_loaded_is_told(self):
        with self.assertRaisesRegex(attack_suite.Fault, "does not load: .*nonexistent"):
            self.runner().load("/nonexistent.tnx")


class CasesTest(unittest.TestCase):
    def test_sizes(self):
        self.assertEqual(attack_suite.sizes_beside(4), [0, 1, 3, 5, 12])
        self.assertEqual(attack_suite.sizes_beside(1), [0, 2, 3])
        self.assertEqual(attack_suite.sizes_beside(0), [1])
        array = np.array([[1, 2], [3, 4], [5, 6]])
        self.assertEqual(attack_suite.resized(array, 0, 5).tolist(), [[1, 2], [3, 4], [5, 6], [1, 2], [3, 4]])
        self.assertEqual(attack_suite.resized(array, 1, 0).shape, (3, 0))
        self.assertEqual(attack_suite.resized(np.zeros((0, 2)), 0, 3).shape, (3, 2))

    def test_values(self):
        cases = dict(attack_suite.value_cases("x", np.array([1, 2, 3], np.int8)))
        self.assertEqual(cases["x=least"].tolist(), [-128] * 3)
        self.assertEqual(cases["x~greatest"].tolist(), [1, 127, 3])
        self.assertNotIn("x=-1", dict(attack_suite.value_cases("x", np.array([1], np.uint8))))
        self.assertIn("b=bytes 255", dict(attack_suite.value_cases("b", np.array([True]))))

    def test_sums_of_the_largest_may_overflow(self):
        most = np.finfo(np.float32).max
        expected, result = np.array([most, 1], np.float32), np.array([np.inf, 2], np.float32)
        self.assertEqual([array.tolist() for array in attack_suite.comparable(expected, result, True)],
                         [[0, 1], [0, 2]])
        self.assertIs(attack_suite.comparable(expected, result, False)[0], expected)

    def test_the_list_is_held_to_the_cases(self):
        failures = {"test_a:x=nan": "wrong", "test_b:x[0]=1": "fault 11"}
        ran = [*failures, "test_a:open", "test_c:x=nan"]
        listed = {"test_a:*[=~]nan": "why", "test_c:*": "old", "test_d:*": "gone"}
        counts = Counter(dict.fromkeys(attack_suite.FLOORS, 10**6))
        self.assertEqual(attack_suite.judge(failures, ran, listed, counts, 1), [
            "FAILED  test_b:x[0]=1: fault 11",
            "PASSES BUT LISTED  test_c:*: take its line out of attack_known.txt",
            "UNKNOWN  test_d:*: listed, but there is no such case"])
        counts["run: right"] = 0
        self.assertRegex(attack_suite.judge({}, [], {}, counts, 1)[0], "^TOO FEW  run: right: 0, at least")
        self.assertEqual(attack_suite.judge({}, [], listed, counts, 0), [])

    def test_a_sample_is_held_to_its_share(self):
        counts = Counter({what: floor // 20 for what, floor in attack_suite.FLOORS.items()})
        self.assertEqual(attack_suite.judge({}, [], {"test_c:*": "old"}, counts, 10), [])
        self.assertEqual(len(attack_suite.judge({}, [], {}, counts, 5)), len(attack_suite.FLOORS))
        names = [f"test_{i}" for i in range(6000)]
        sample = [name for name in names if attack_suite.in_sample(name, 6)]
        self.assertTrue(900 < len(sample) < 1100, len(sample))
        self.assertEqual([name for name in names if attack_suite.in_sample(name, 1)], names)


if __name__ == "__main__":
    unittest.main()
