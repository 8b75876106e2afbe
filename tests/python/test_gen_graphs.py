# SPDX-License-Identifier: Apache-2.0
"""The generator of random graphs: the same seed gives the same graph, and the checks on answers can fail."""

import sys
import unittest
from pathlib import Path

import numpy as np
import onnx

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "onnx"))

import gen_graphs  # noqa: E402


class GeneratorTest(unittest.TestCase):
    def test_a_seed_is_a_graph(self):
        for seed in range(5):
            first, second = gen_graphs.random_graph(seed), gen_graphs.random_graph(seed)
            self.assertEqual(first.model.SerializeToString(), second.model.SerializeToString())
            for name, array in first.inputs.items():
                np.testing.assert_array_equal(array, second.inputs[name])

    def test_fewer_nodes_are_a_prefix(self):
        whole = gen_graphs.random_graph(7).model.graph
        self.assertGreater(len(whole.node), 2)
        for count in (1, 2):
            part = gen_graphs.random_graph(7, count).model.graph
            self.assertEqual(list(part.node), list(whole.node)[:count])

    def test_the_operators_are_many(self):
        used = set()
        for seed in range(60):
            graph = gen_graphs.random_graph(seed)
            onnx.checker.check_model(graph.model, full_check=True)
            used |= {node.op_type for node in graph.model.graph.node}
        self.assertGreater(len(used), 50)

    def test_wrong_answers_are_noticed(self):
        for seed in range(20):
            graph = gen_graphs.random_graph(seed)
            right = {name: want.astype(gen_graphs.onnx_dtype(graph.model, name))
                     for name, want in graph.expected.items()}
            self.assertEqual(graph.complaints(right), [])
            for name, array in right.items():
                if array.size:
                    wrong = array.copy()
                    wrong.flat[-1] = ~wrong.flat[-1] if array.dtype.kind in "iub" else wrong.flat[-1] * 1.5 + 100
                    self.assertRegex(graph.complaints(right | {name: wrong})[0], f"{name}: 1 of {array.size} elements")
                    if array.dtype.kind == "f":
                        wrong.flat[-1] = np.nan
                        self.assertEqual(len(graph.complaints(right | {name: wrong})), 1)
                self.assertIn("instead of", graph.complaints(right | {name: array[None]})[0])


if __name__ == "__main__":
    unittest.main()
