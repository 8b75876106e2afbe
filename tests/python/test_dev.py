# SPDX-License-Identifier: Apache-2.0
"""./dev asks its builds for what they have, and installs what they need before."""

import os
import re
import shlex
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


class DevTest(unittest.TestCase):
    def test_a_release_without_tests_has_the_programs_of_bench(self):
        text = (ROOT / "dev").read_text()
        release = next(line for line in re.findall(r"configure release --preset release (.*)", text) if "TESTS=OFF" in line)
        wanted = sorted({word for line in re.findall(r"compile release (.*)", text) for word in re.findall(r"bench_\w+", line)})
        self.assertIn("bench_kernels", wanted)
        with tempfile.TemporaryDirectory() as build:
            subprocess.run(["cmake", "-S", ROOT, "-B", build, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release",
                            *shlex.split(release)], check=True, capture_output=True)
            done = subprocess.run(["ninja", "-C", build, "-t", "query", *wanted], capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_a_build_with_all_tests_has_the_modules_that_they_need(self):
        """In a checkout in which nothing is installed: programs that only say what they were asked stand for the real ones.
        Configuring with all tests ends the command when a list of Python modules is missing, as CMake would."""
        lists = sorted(re.findall(r"need_python (test .*)", (ROOT / "dev").read_text())[0].split())
        self.assertEqual(lists, ["test", "weights"])
        there = " && ".join(f"[ -e .deps/python/installed-{name} ]" for name in lists)
        programs = {
            "dpkg-query": "printf installed",
            "cmake": f'case "$*" in *TENON_ALL_TESTS=ON*) {there} || exit 1 ;; esac; mkdir -p "$4"; : > "$4/build.ninja"',
            "ninja": 'case "$*" in *-n*) echo "no work to do" ;; esac',
            "ctest": ":",
        }
        for command in (["test"], ["test", "--full"], ["test", "--soak"], ["lint"], ["schedules"]):
            with self.subTest(command), tempfile.TemporaryDirectory() as folder:
                checkout = Path(folder) / "checkout"
                (checkout / "tools").mkdir(parents=True)
                for file in (ROOT / "dev", *ROOT.glob("tools/packages-*.txt"), *ROOT.glob("tools/requirements-*.txt")):
                    shutil.copy(file, checkout / file.relative_to(ROOT))
                (checkout / ".deps/python/bin").mkdir(parents=True)
                programs_folder = Path(folder) / "bin"
                programs_folder.mkdir()
                for name, text in programs.items():
                    (programs_folder / name).write_text(f"#!/bin/sh\n{text}\n")
                    (programs_folder / name).chmod(0o755)
                (checkout / ".deps/python/bin/python").write_text("#!/bin/sh\n")
                (checkout / ".deps/python/bin/python").chmod(0o755)
                done = subprocess.run([checkout / "dev", *command], capture_output=True, text=True,
                                      env={**os.environ, "PATH": f"{programs_folder}:{os.environ['PATH']}",
                                           "TENON_NO_INSTALL": ""})
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()
