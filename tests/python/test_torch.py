#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""PyTorch's tensors go in, are bound, and come out through DLPack, in a process of its own: PyTorch brings a runtime of
its own. Runs with Debian's Python and its packages python3-torch and python3-numpy, so the onnx package is not at hand."""

import os
import subprocess
import tempfile
import unittest
from pathlib import Path

import numpy as np
import torch

import tenon

MAKE_MODEL = """
import sys
import onnx
from onnx import TensorProto, helper
values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 4]) for name in ("a", "b", "sum")]
graph = helper.make_graph([helper.make_node("Add", ["a", "b"], ["sum"])], "g", values[:2], values[2:])
onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9), sys.argv[1])
"""


def compiled():
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "sum.onnx"
        clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        subprocess.run([os.environ["TENON_ONNX_PYTHON"], "-c", MAKE_MODEL, str(path)], check=True, env=clean)
        return tenon.compile(str(path), cache=False, threads=1)


class Torch(unittest.TestCase):
    def setUp(self):
        self.model = compiled()
        self.a = torch.arange(12, dtype=torch.float32).reshape(3, 4)
        self.b = 100 * self.a

    def test_in_and_out(self):
        result = torch.from_dlpack(self.model(self.a, self.b))
        self.assertTrue(torch.equal(result, self.a + self.b))

    def test_strided(self):
        result = torch.from_dlpack(self.model(self.a.t().contiguous().t(), self.b.flip(0)))
        self.assertTrue(torch.equal(result, self.a + self.b.flip(0)))

    def test_bound(self):
        total = torch.zeros(3, 4)
        self.model.set_inputs(a=self.a, b=self.b)
        self.model.set_outputs(sum=total)
        for step in range(3):
            self.a[1, 2] = step
            self.model.invoke()
            self.assertTrue(torch.equal(total, self.a + self.b))

    def test_a_bound_view_is_written_in_place(self):
        whole = torch.zeros(5, 8)
        self.model.set_outputs(sum=whole[1:4, 2:6])
        self.model.set_inputs(a=self.a, b=self.b)
        self.model.invoke()
        self.assertTrue(torch.equal(whole[1:4, 2:6], self.a + self.b))
        self.assertEqual(float(whole.sum()), float((self.a + self.b).sum()))

    def test_a_dtype_that_does_not_fit(self):
        with self.assertRaisesRegex(tenon.Error, 'input "a": the tensor is f64 and the executable wants f32'):
            self.model(self.a.double(), self.b)

    def test_gradients_are_refused(self):
        with self.assertRaises((RuntimeError, BufferError)):
            self.model(self.a.requires_grad_(), self.b)

    def test_numpy_agrees(self):
        np.testing.assert_array_equal(self.model(self.a, self.b), (self.a + self.b).numpy())


if __name__ == "__main__":
    unittest.main()
