# SPDX-License-Identifier: Apache-2.0
"""GDB knows kernels by name: a breakpoint in one stops there, and the backtrace shows it below the machine.

ctest sets TENON_CLI and TENON_GDB."""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from product import required, tenon, write_mlp


class DebuggerTest(unittest.TestCase):
    def gdb(self, *commands, program):
        words = [required("TENON_GDB"), "-q", "-nx", "-batch", "-ex", "set confirm off", "-ex", "set debuginfod enabled off",
                 "-ex", "set breakpoint pending on"]
        for command in commands:
            words += ["-ex", command]
        done = subprocess.run([*words, "--args", *map(str, program)], text=True, capture_output=True)
        output = done.stdout + done.stderr
        if "ptrace: Operation not permitted" in output:
            self.skipTest("GDB IS NOT ALLOWED TO TRACE HERE (ptrace): nothing was tested")
        return output

    def test_a_kernel_stops_by_its_name(self):
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch)
            model, data, _ = write_mlp(folder)
            executable = folder / "m.tnx"
            tenon("compile", model, "-o", executable, "--no-cache")
            lines = tenon("inspect", executable).stdout.split("kernels:")[1].split("name ")
            names = [line.split()[0] for line in lines[1:]]
            self.assertGreaterEqual(len(names), 2)
            for name in (names[0], names[-1]):
                output = self.gdb(f"break {name}", "run", "backtrace",
                                  program=[required("TENON_CLI"), "run", executable, "--input", f"x={data}"])
                frames = [line for line in output.splitlines() if line.startswith("#")]
                self.assertTrue(frames and f" in {name} ()" in frames[0], output)
                self.assertTrue(any(" in _start " in frame for frame in frames), output)


if __name__ == "__main__":
    program = unittest.main(exit=False)
    if program.result.skipped and program.result.wasSuccessful():
        print(*(reason for _, reason in program.result.skipped), sep="\n")
        sys.exit(77)  # not run, which ctest tells from passed
    sys.exit(not program.result.wasSuccessful())
