# SPDX-License-Identifier: Apache-2.0
"""SIGINT at any moment: the program ends by the signal, and files are whole or not there.

When the signal arrives is up to the machine; what is checked holds for every moment. ctest sets TENON_CLI."""

import signal
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

from product import required, tenon, write_mlp

DELAYS = (0.0, 0.005, 0.01, 0.02, 0.03, 0.05, 0.08, 0.12)


class SignalsTest(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = Path(scratch.name)
        self.model, self.input, _ = write_mlp(self.folder)
        self.cache = self.folder / "cache"

    def interrupted(self, delay, *arguments):
        """Starts the program, interrupts it, and returns whether it was done before."""
        program = subprocess.Popen([required("TENON_CLI"), *map(str, arguments)], stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL, env={"TENON_CACHE_DIR": str(self.cache)})
        time.sleep(delay)
        program.send_signal(signal.SIGINT)
        self.assertIn(program.wait(), (0, -signal.SIGINT))
        for entry in self.cache.iterdir() if self.cache.exists() else ():
            self.assertNotIn(".tmp-", entry.name)
        return program.returncode == 0

    def test_a_compilation_leaves_all_or_nothing(self):
        for number, delay in enumerate(DELAYS):
            folder = self.folder / f"out{number}"
            folder.mkdir()
            done = self.interrupted(delay, "compile", self.model, "-o", folder / "m.tnx")
            names = [path.name for path in folder.iterdir()]
            self.assertIn(names, [["m.tnx"]] if done else [[], ["m.tnx"]])
            if names:
                tenon("run", folder / "m.tnx", "--input", f"x={self.input}")

    def test_a_run_leaves_whole_outputs(self):
        executable = self.folder / "m.tnx"
        tenon("compile", self.model, "-o", executable, "--no-cache")
        for number, delay in enumerate(DELAYS):
            folder = self.folder / f"outputs{number}"
            done = self.interrupted(delay / 4, "run", executable, "--input", f"x={self.input}", "-o", folder)
            names = [path.name for path in folder.iterdir()] if folder.exists() else []
            self.assertIn(names, [["y.npy"]] if done else [[], ["y.npy"]])


if __name__ == "__main__":
    unittest.main()
