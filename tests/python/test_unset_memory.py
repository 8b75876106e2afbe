# SPDX-License-Identifier: Apache-2.0
"""Compilation does not depend on uninitialised memory. Every model of the identity set compiles to the same bytes in
processes with different memory contents (glibc's MALLOC_PERTURB_ fills allocated and freed memory)."""

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import product

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import identity  # noqa: E402

TENON = product.required("TENON_CLI")
COMPILED = ["--no-cache", "--no-measure", "--threads", "2", "--target", "x86-64-v3"]
CONTENTS = (0x55, 0xF0)


def compiled(model, to, contents):
    environment = {**os.environ, "MALLOC_PERTURB_": str(contents), "MALLOC_ARENA_MAX": "2"}
    done = subprocess.run([TENON, "compile", model, *COMPILED, "-o", to], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, f"{model}: {done.stderr}"
    return Path(to).read_bytes()


def stretched(folder):
    """Broadcasts a row and a run-time scalar, because a rule once read an unset element here."""
    import numpy as np
    import onnx
    from onnx import helper, numpy_helper

    nodes = [helper.make_node("Expand", ["x", "shape"], ["a"]), helper.make_node("Expand", ["s", "shape"], ["b"]),
             helper.make_node("Mul", ["a", "b"], ["y"])]
    inputs = [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [3, 1]),
              helper.make_tensor_value_info("s", onnx.TensorProto.FLOAT, [])]
    outputs = [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [3, 4])]
    shape = numpy_helper.from_array(np.array([3, 4]), "shape")
    model = helper.make_model(helper.make_graph(nodes, "stretched", inputs, outputs, [shape]),
                              opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, folder / "stretched.onnx")
    return folder / "stretched.onnx"


class UnsetMemoryTest(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = Path(scratch.name)

    def test_old_contents_of_memory_do_not_count(self):
        different = []
        models = identity.models(self.folder) | {"stretched": stretched(self.folder)}
        self.assertGreater(len(models), 5)
        for name, model in models.items():
            first, second = (compiled(model, self.folder / "model.tnx", contents) for contents in CONTENTS)
            if first != second:
                different.append(name)
        self.assertEqual(different, [])


if __name__ == "__main__":
    unittest.main()
