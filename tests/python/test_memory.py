# SPDX-License-Identifier: Apache-2.0
"""A process that runs an executable needs no more memory than `tenon inspect` promised before.

Each network runs in a process of its own, whose peak is read from Linux after it was set back to what is resident. ctest sets
TENON_CLI and PYTHONPATH."""

import json
import sys
import tempfile
import unittest
from pathlib import Path

import onnx

from product import run, tenon

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))
import networks

# Loads and runs argv[1] three times with outputs bound, and prints by how many bytes the process grew at the most.
RUN = """
import sys
from pathlib import Path
import numpy as np
import tenon

def resident(field):
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024

warm = np.ones(1)
Path("/proc/self/clear_refs").write_text("5")  # the peak becomes what is resident now
before = resident("VmRSS")
model = tenon.load(sys.argv[1], threads=int(sys.argv[2]))
model.set_inputs(**{value.name: np.ones(value.shape, value.dtype) for value in model.inputs})
model.set_outputs(**{value.name: np.zeros(value.shape, value.dtype) for value in model.outputs})
for _ in range(3):
    model.invoke()
print(resident("VmHWM") - before)
"""


class MemoryTest(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = Path(scratch.name)

    def check(self, name, model, threads):
        onnx.save(model, self.folder / "m.onnx")
        executable = self.folder / "m.tnx"
        tenon("compile", self.folder / "m.onnx", "-o", executable, "--threads", threads, "--no-cache")
        promised = json.loads(tenon("inspect", executable, "--json").stdout)
        grown = int(run(sys.executable, "-c", RUN, executable, threads).stdout)
        self.assertLessEqual(grown, promised["peak_bytes"], name)
        # Or nothing was measured. Of an embedding's table few rows are read: two thirds of the encoder's constants.
        self.assertGreater(grown, 0.3 * promised["constant_bytes"], name)

    def test_networks(self):
        encoder = networks.Encoder("encoder", hidden=384, layers=3, heads=12, inner=1536)
        for name, build in (("lenet5", networks.lenet5), ("mobilenet_v2", networks.mobilenet_v2), ("encoder", encoder.build)):
            with self.subTest(name):
                model, _ = build()
                for threads in (1, 2):
                    self.check(name, model, threads)


if __name__ == "__main__":
    unittest.main()
