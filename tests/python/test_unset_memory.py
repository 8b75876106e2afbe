# SPDX-License-Identifier: Apache-2.0
"""Compilation does not depend on uninitialised memory. Every model of the identity set compiles to the same bytes in
processes with different memory contents (glibc's MALLOC_PERTURB_ fills allocated and freed memory). Valgrind finds
no branch on an unset value when it compiles one node model of each operator."""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest
import warnings
from pathlib import Path

import product

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import identity  # noqa: E402

TENON = product.required("TENON_CLI")
COMPILED = ["--no-cache", "--no-measure", "--threads", "2", "--target", "x86-64-v3"]
CONTENTS = (0x55, 0xF0)
BATCH = 24  # models per process, because LLVM takes seconds to start under Valgrind


def compiled(model, to, contents):
    environment = {**os.environ, "MALLOC_PERTURB_": str(contents), "MALLOC_ARENA_MAX": "2"}
    done = subprocess.run([TENON, "compile", model, *COMPILED, "-o", to], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, f"{model}: {done.stderr}"
    return Path(to).read_bytes()


def node_models(folder):
    """The smallest supported model of each operator."""
    from onnx.backend.test.case.node import collect_testcases

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cases = collect_testcases(None)
    best = {}
    for case in cases:
        if case.model is None or len(case.model.graph.node) != 1:
            continue
        node = case.model.graph.node[0]
        key, size = (node.domain, node.op_type), case.model.ByteSize()
        if key not in best or size < best[key][0]:
            best[key] = size, case
    found = []
    for (domain, op), (_, case) in sorted(best.items()):
        path = folder / f"{domain.replace('.', '_')}{op}.onnx".lower()
        path.write_bytes(case.model.SerializeToString())
        if subprocess.run([TENON, "compile", path, *COMPILED, "-o", folder / "one.tnx"], capture_output=True).returncode == 0:
            found.append(path)
    return found


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

    @unittest.skipIf("TENON_VALGRIND" not in os.environ, "Valgrind is not installed")
    def test_nothing_unset_decides(self):
        models = node_models(self.folder)
        self.assertGreater(len(models), 100)
        valgrind = [os.environ["TENON_VALGRIND"], "-q", "--error-exitcode=99", "--track-origins=no"]
        found = []
        for at in range(0, len(models), BATCH):
            batch = models[at:at + BATCH]
            functions = [f"{path.stem}={path}" for path in batch]
            done = subprocess.run([*valgrind, TENON, "compile", *functions, *COMPILED, "-o", self.folder / "all.tnx"],
                                  capture_output=True, text=True)
            if done.returncode != 0:
                found.append((", ".join(path.stem for path in batch), done.stderr[-3000:]))
        self.assertEqual(found, [])


if __name__ == "__main__":
    unittest.main()
