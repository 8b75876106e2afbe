# SPDX-License-Identifier: Apache-2.0
"""The example that compiles and runs a model in one process, built against this build's shared library.

ctest sets TENON_EXAMPLE. examples/embed is built and run by tests/install, examples/minilm by `./dev demo`."""

import tempfile
import unittest
from pathlib import Path

import numpy as np
from product import required, run, write_mlp


class CompileAndRunTest(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = Path(scratch.name)

    def test_gives_the_models_answer(self):
        model, source, expected = write_mlp(self.folder)
        for attempt in ("compiled", "from the cache"):
            with self.subTest(attempt):
                result = run(required("TENON_EXAMPLE"), model, source, self.folder / "y.npy")
                self.assertEqual(result.stdout, f"y: {self.folder / 'y.npy'}\n")
                np.testing.assert_allclose(np.load(self.folder / "y.npy"), expected, rtol=1e-4, atol=1e-6)

    def test_says_what_is_wrong(self):
        model, source, _ = write_mlp(self.folder)
        program, result = required("TENON_EXAMPLE"), self.folder / "y.npy"
        self.assertIn("usage: ", run(program, status=2).stderr)
        missing = run(program, self.folder / "none.onnx", source, result, status=1).stderr
        self.assertEqual(missing, f"compile_and_run: {self.folder}/none.onnx: cannot open: No such file or directory\n")
        np.save(source, np.zeros((3, 7), np.float32))
        self.assertIn('compile_and_run: input "x"', run(program, model, source, result, status=1).stderr)


if __name__ == "__main__":
    unittest.main()
