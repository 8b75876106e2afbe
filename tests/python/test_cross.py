# SPDX-License-Identifier: Apache-2.0
"""Models compiled for AArch64, run by the runtime built for AArch64 under an emulator, against native runs.

ctest sets TENON_CLI, TENON_EMULATOR (qemu-aarch64) and TENON_CROSS_WORK, a folder that the build of the runtime for
AArch64 is kept in between runs.
"""

import platform
import sys
import tempfile
import unittest
from pathlib import Path

import numpy as np
import onnx
from product import LIGHT, required, run, tenon, write_mlp

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))

from models import with_random_weights  # noqa: E402


class AArch64Test(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        build = Path(required("TENON_CROSS_WORK"))
        run("cmake", "-S", ROOT, "-B", build, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", "-DTENON_COMPILER=OFF",
            "-DTENON_TESTS=OFF", f"-DCMAKE_TOOLCHAIN_FILE={ROOT}/cmake/aarch64-linux-gnu.cmake")
        run("cmake", "--build", build)
        cls.program = build / "run_executable"
        run("aarch64-linux-gnu-gcc", "-std=c17", "-O2", "-static", f"-I{ROOT}/include", "-o", cls.program,
            ROOT / "tests" / "cross" / "run_executable.c", build / "src" / "libtenon_runtime.a", "-lm", "-lpthread")

    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = Path(scratch.name)

    def emulated(self, model, source):
        """Compiles for AArch64 and runs under the emulator. Returns the first output."""
        executable = self.folder / "model.tnx"
        tenon("compile", model, "--target", "aarch64", "-o", executable)
        run(required("TENON_EMULATOR"), self.program, executable, self.folder, source)
        return np.load(self.folder / "0.npy")

    def test_the_program_is_for_aarch64(self):
        machine = self.program.read_bytes()[18:20]
        self.assertEqual(machine, (183).to_bytes(2, "little"))  # EM_AARCH64

    def test_perceptron(self):
        model, source, expected = write_mlp(self.folder)
        np.testing.assert_allclose(self.emulated(model, source), expected, rtol=1e-3, atol=1e-6)

    def test_perceptron_with_a_symbolic_number_of_rows(self):
        model, source, expected = write_mlp(self.folder, rows="rows")
        np.testing.assert_allclose(self.emulated(model, source), expected, rtol=1e-3, atol=1e-6)

    def check_squeezenet(self, model):
        source = self.folder / "image.npy"
        np.save(source, np.random.default_rng(0).normal(size=(1, 3, 224, 224)).astype(np.float32))
        tenon("run", model, "--input", source, "--output", self.folder / "native")
        expected = np.load(self.folder / "native" / "softmaxout_1.npy")
        np.testing.assert_allclose(self.emulated(model, source), expected, rtol=1e-3, atol=1e-6)
        return expected

    def test_squeezenet(self):
        self.check_squeezenet(LIGHT / "light_squeezenet.onnx")

    def test_squeezenet_with_random_weights(self):
        model = self.folder / "random.onnx"
        onnx.save(with_random_weights(onnx.load(LIGHT / "light_squeezenet.onnx")), model)
        expected = self.check_squeezenet(model)
        self.assertGreater(expected.max(), 2 * expected.min())  # or nothing would have been compared

    def test_this_machine_refuses_the_executable(self):
        if platform.machine() == "aarch64":
            self.skipTest("this machine is an AArch64 itself")
        model, _, _ = write_mlp(self.folder)
        tenon("compile", model, "--target", "aarch64", "-o", self.folder / "model.tnx")
        self.assertIn("aarch64", tenon("run", self.folder / "model.tnx", status=1).stderr)


if __name__ == "__main__":
    unittest.main()
