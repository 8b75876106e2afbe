#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The wheel: built from the checkout around the extension of this build ($TENON_EXTENSION), installed into an empty
folder, imported from there, and used."""

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

USE = """
import sys
import numpy as np
from onnx import TensorProto, helper
import tenon

assert tenon.__file__.startswith(sys.argv[1]), tenon.__file__
value = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in "xy"]
graph = helper.make_graph([helper.make_node("Neg", ["x"], ["y"])], "g", value[:1], value[1:])
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
print(tenon.__version__, *tenon.compile(model, threads=1, cache=False)([1.0, -2.0]))
"""


class Wheel(unittest.TestCase):
    def test_it_is_built_installed_and_used(self):
        with tempfile.TemporaryDirectory() as folder:
            pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
            subprocess.run([*pip, "wheel", "--no-deps", "--no-build-isolation", "-w", folder, ROOT], check=True)
            wheel, = Path(folder).glob("*.whl")
            self.assertRegex(wheel.name, r"^tenon_compiler-[\d.]+-cp311-abi3-linux_\w+\.whl$")
            site = os.path.join(folder, "site")
            subprocess.run([*pip, "install", "--no-deps", "--no-index", "--target", site, wheel], check=True)
            printed = subprocess.run([sys.executable, "-c", USE, site], check=True, text=True, capture_output=True,
                                     cwd=folder, env={**os.environ, "PYTHONPATH": site}).stdout.split()
            self.assertEqual([float(number) for number in printed[1:]], [-1.0, 2.0])
            self.assertIn(f"-{printed[0]}-", wheel.name)
            self.assertTrue(os.path.exists(os.path.join(site, "tenon", "py.typed")))


if __name__ == "__main__":
    sys.exit(unittest.main())
