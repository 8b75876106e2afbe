# SPDX-License-Identifier: Apache-2.0
"""The comparison of builds sees what it is there to see: other code and other constants."""

import contextlib
import io
import sys
import tempfile
import unittest
from pathlib import Path

import numpy as np
import onnx

import product

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import identity  # noqa: E402

TENON = product.required("TENON_CLI")
ODD = ROOT / "tests" / "identity" / "odd.te"


def model(folder, scale):
    path = folder / f"{scale}.onnx"
    onnx.save(product.mlp(seed=1)[0], path)
    loaded = onnx.load(path)
    weights = onnx.numpy_helper.to_array(loaded.graph.initializer[0]) * np.float32(scale)
    loaded.graph.initializer[0].CopyFrom(onnx.numpy_helper.from_array(weights, loaded.graph.initializer[0].name))
    onnx.save(loaded, path)
    return path


def compared(before, after):
    with contextlib.redirect_stdout(io.StringIO()) as out:
        status = identity.compare({"it": before}, {"it": after})
    return status, out.getvalue()


class IdentityTest(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = Path(scratch.name)

    def digest(self, scale, target="x86-64-v3"):
        return identity.digest_model(TENON, model(self.folder, scale), target, self.folder)

    def test_the_same_is_equal_and_names_do_not_count(self):
        first = self.digest(1)
        self.assertGreater(len(first["kernels"]), 1)
        self.assertGreater(len(first["constants"]), 1)
        status, text = compared(first, self.digest(1))
        self.assertEqual(status, 0)
        self.assertIn("0 differences are intended, 0 are not", text)

    def test_a_kernel_of_another_name_is_equal(self):
        before = {"kernels": [["reduce_exponential", "12ab", 64]], "constants": []}
        after = {"kernels": [["softmax", "12ab", 64]], "constants": []}
        status, text = compared(before, after)
        self.assertEqual(status, 0)
        self.assertIn("0 are not", text)

    def test_another_constant_differs_and_the_kernels_do_not(self):
        status, text = compared(self.digest(1), self.digest(2))
        self.assertEqual(status, 1)
        self.assertRegex(text, r"DIFFERS  it constant type \d+ \[[0-9, ]+\]: 1 before, 1 after, not equal")
        self.assertNotIn("it kernel", text)

    def test_other_code_differs(self):
        status, text = compared(self.digest(1), self.digest(1, "x86-64-v4"))
        self.assertEqual(status, 1)
        self.assertIn("DIFFERS  it kernel ", text)

    def test_another_declaration_differs(self):
        kernel = "transposed_product"
        chosen = identity.digest_declaration(TENON, ODD, kernel, "x86-64-v3", self.folder)
        text = ODD.read_text()
        other_file = self.folder / "other_file.te"
        other_file.write_text(text.replace("A[k, i] * B[j, k]", "A[k, i] + B[j, k]"))
        self.assertNotEqual(other_file.read_text(), text)
        other = identity.digest_declaration(TENON, other_file, kernel, "x86-64-v3", self.folder)
        self.assertEqual([entry[0] for entry in chosen["kernels"]], [kernel])
        self.assertEqual(compared(chosen, chosen)[0], 0)
        self.assertEqual(compared(chosen, other)[0], 1)

    def test_every_declaration_is_found(self):
        names = [name for path, name in identity.declarations() if path == ODD]
        self.assertEqual(len(names), 6)


if __name__ == "__main__":
    unittest.main()
