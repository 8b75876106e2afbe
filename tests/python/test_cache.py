# SPDX-License-Identifier: Apache-2.0
"""The compile cache, as a user meets it: what a second run saves, what damages and crowds do to it, what turns it off.

ctest sets TENON_CLI."""

import ctypes
import json
import os
import platform
import pty
import re
import subprocess
import tempfile
import unittest
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from product import required, run, tenon, write_mlp


class CacheTest(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = Path(scratch.name)
        self.cache = self.folder / "cache"
        self.model, self.input, self.expected = write_mlp(self.folder)

    def tenon(self, *arguments, status=0, **environment):
        return tenon(*arguments, status=status, environment={"TENON_CACHE_DIR": str(self.cache)} | environment)

    def compile(self, model=None, *options, output="out.tnx", **environment):
        """Compiles, and returns what `--json` says and stderr."""
        result = self.tenon("compile", "--no-measure", model or self.model, "-o", self.folder / output, "--json", *options, **environment)
        return json.loads(result.stdout), result.stderr

    def entries(self, kind=""):
        return sorted(path for path in self.cache.iterdir() if path.name.startswith(kind)) if self.cache.exists() else []

    def bytes_of(self, output="out.tnx"):
        return (self.folder / output).read_bytes()

    def test_a_second_compilation_imports_and_compiles_nothing(self):
        first, _ = self.compile()
        self.assertFalse(first["from_cache"])
        self.assertIn("import", first["seconds"])
        self.assertIn("kernel.codegen", first["seconds"])
        second, _ = self.compile(output="again.tnx")
        self.assertTrue(second["from_cache"])
        self.assertEqual(set(second["seconds"]), {"open", "cache"})
        self.assertEqual(self.bytes_of(), self.bytes_of("again.tnx"))

    def test_progress_moves_on_a_terminal_only(self):
        model = write_mlp(self.folder, sizes=range(10, 40))[0]  # a kernel for each layer
        command = [required("TENON_CLI"), "compile", "--no-measure", model, "-o", self.folder / "out.tnx"]
        terminal, end = pty.openpty()
        with subprocess.Popen([*map(str, command), "--no-cache"], stderr=end, stdout=subprocess.PIPE) as process:
            os.close(end)
            told = b""
            try:
                while piece := os.read(terminal, 4096):
                    told += piece
            except OSError:  # what reading gives once the other end is closed
                pass
            printed = process.stdout.read().decode()
        os.close(terminal)
        shares = [int(share) for share in re.findall(rb"compile (\d+) %", told)]
        self.assertEqual(shares, sorted(shares))
        self.assertTrue(any(0 < share < 100 for share in shares), told)
        self.assertEqual((shares[0], shares[-1]), (0, 100))
        self.assertRegex(printed, r"out\.tnx: \d+\.\d KB\n$")
        self.assertEqual(run(*command, "--no-cache").stderr, "")

    def test_a_run_fills_the_cache_for_the_next(self):
        run_it = "run", self.model, "--input", self.input, "--output", self.folder / "y", "--time-passes"
        self.assertIn("kernel.codegen", self.tenon(*run_it).stderr)
        second = self.tenon(*run_it).stderr
        self.assertIn("cache", second)
        self.assertNotIn("import", second)
        self.assertNotIn("kernel", second.replace("(kernels' phases", ""))
        np.testing.assert_allclose(np.load(self.folder / "y" / "y.npy"), self.expected, rtol=1e-4, atol=1e-6)

    def test_models_share_kernels(self):
        """Two models that differ in their last operator only: the other kernels come from the cache."""
        self.compile()
        before = self.entries("obj-")
        other, _, _ = write_mlp(self.folder, "other", last="Tanh")
        self.assertFalse(self.compile(other)[0]["from_cache"])
        shared_new = len(set(self.entries("obj-")) - set(before))
        alone = self.folder / "alone"
        tenon("compile", "--no-measure", other, "-o", self.folder / "alone.tnx", environment={"TENON_CACHE_DIR": str(alone)})
        needed = sum(path.name.startswith("obj-") for path in alone.iterdir())
        self.assertGreater(shared_new, 0)
        self.assertLess(shared_new, needed)
        self.assertEqual(self.bytes_of("out.tnx"), self.bytes_of("alone.tnx"))

    def test_what_the_result_depends_on_is_part_of_the_key(self):
        self.compile()
        for options in (("--threads", "3"), ("--target", "x86-64-v3"), ("--target", "aarch64")):
            with self.subTest(options):
                self.assertFalse(self.compile(self.model, *options)[0]["from_cache"])
                self.assertTrue(self.compile(self.model, *options)[0]["from_cache"])
        symbolic, _, _ = write_mlp(self.folder, "symbolic", rows="rows")
        self.compile(symbolic, "--dim", "rows=2")
        self.assertFalse(self.compile(symbolic, "--dim", "rows=4")[0]["from_cache"])

    def test_constants_are_computed_for_the_target(self):
        # Sums of two products, whose order is no matter: only whether they are contracted is.
        random = np.random.default_rng(5)
        a, b = random.standard_normal((300, 2)).astype(np.float32), random.standard_normal((2, 300)).astype(np.float32)
        graph = helper.make_graph([helper.make_node("MatMul", ["a", "b"], ["c"]), helper.make_node("Add", ["x", "c"], ["y"])], "g",
                                  [helper.make_tensor_value_info("x", TensorProto.FLOAT, [300, 300])],
                                  [helper.make_tensor_value_info("y", TensorProto.FLOAT, [300, 300])],
                                  [numpy_helper.from_array(a, "a"), numpy_helper.from_array(b, "b")])
        model = self.folder / "constants.onnx"
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9), model)
        rounded = a[:, :1] * b[:1] + a[:, 1:] * b[1:]
        contracted = (a[:, 1:].astype(np.float64) * b[1:].astype(np.float64) + a[:, :1] * b[:1]).astype(np.float32)
        self.assertFalse((rounded == contracted).all())
        # Code for another architecture cannot be run here: constants are then computed for this one's baseline.
        stored = rounded if platform.machine() == "x86_64" else contracted
        for target in ("x86-64", "aarch64"):
            with self.subTest(target):
                self.compile(model, "--target", target)
                self.assertTrue(stored.tobytes() in self.bytes_of())  # assertIn would print both

    def test_damaged_entries_are_ignored_and_replaced(self):
        self.compile()
        sound = self.bytes_of()
        for damage in ("flip", "cut", "empty"):
            with self.subTest(damage):
                for path in self.entries():
                    content = bytearray(path.read_bytes())
                    content[len(content) // 2] ^= 1
                    path.write_bytes({"flip": bytes(content), "cut": content[:-7], "empty": b""}[damage])
                result, errors = self.compile(output="new.tnx")
                self.assertFalse(result["from_cache"])
                self.assertIn("is damaged and was ignored", errors)
                self.assertEqual(self.bytes_of("new.tnx"), sound)
                self.assertTrue(self.compile(output="new.tnx")[0]["from_cache"])
                self.assertEqual(self.bytes_of("new.tnx"), sound)

    def test_an_entry_under_another_entrys_name_is_not_taken_for_it(self):
        self.compile()
        (mine,) = self.entries("exe-")
        other, _, _ = write_mlp(self.folder, "other", seed=2)
        self.compile(other, output="other.tnx")
        (others,) = set(self.entries("exe-")) - {mine}
        mine.write_bytes(others.read_bytes())
        sound = self.bytes_of()
        result, errors = self.compile()
        self.assertFalse(result["from_cache"])
        self.assertIn("is damaged and was ignored", errors)
        self.assertEqual(self.bytes_of(), sound)

    def test_eight_processes_at_once(self):
        environment = os.environ | {"TENON_CACHE_DIR": str(self.cache)}
        processes = [subprocess.Popen([required("TENON_CLI"), "compile", "--no-measure", self.model, "-o", self.folder / f"{i}.tnx"],
                                      env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for i in range(8)]
        for process in processes:
            _, errors = process.communicate()
            self.assertEqual((process.returncode, errors), (0, b""))
        self.assertEqual(len({self.bytes_of(f"{i}.tnx") for i in range(8)}), 1)
        self.assertEqual([path for path in self.entries() if not path.name.startswith(("exe-", "obj-"))], [])
        self.assertTrue(self.compile()[0]["from_cache"])

    def test_no_cache_neither_reads_nor_writes(self):
        self.compile(self.model, "--no-cache")
        self.assertEqual(self.entries(), [])
        self.compile()
        result, _ = self.compile(self.model, "--no-cache")
        self.assertFalse(result["from_cache"])

    def test_a_folder_that_cannot_be_had_is_a_warning(self):
        result, errors = self.compile(TENON_CACHE_DIR="/proc/nowhere/cache")
        self.assertFalse(result["from_cache"])
        self.assertIn("no compile cache: ", errors)
        self.assertIn("/proc/nowhere", errors)
        self.assertEqual(len(errors.splitlines()), 1)
        run(required("TENON_CLI"), "run", self.folder / "out.tnx", "--input", self.input)

    def test_a_folder_that_is_read_only_is_read(self):
        self.compile()
        before = {path: path.read_bytes() for path in self.entries()}
        other = write_mlp(self.folder, name="other", sizes=(3, 5))[0]

        def obey():  # root, too
            self.assertEqual(ctypes.CDLL(None).prctl(24, 1, 0, 0, 0), 0)  # PR_CAPBSET_DROP, CAP_DAC_OVERRIDE

        def compile_unprivileged(model, output):
            command = [required("TENON_CLI"), "compile", "--no-measure", model, "-o", self.folder / output, "--json"]
            done = subprocess.run(command, preexec_fn=obey if os.geteuid() == 0 else None, capture_output=True, text=True, check=True,
                                  env=os.environ | {"TENON_CACHE_DIR": str(self.cache)})
            return json.loads(done.stdout)["from_cache"], done.stderr

        self.cache.chmod(0o555)
        self.addCleanup(self.cache.chmod, 0o755)
        self.assertEqual(compile_unprivileged(self.model, "again.tnx"), (True, ""))
        self.assertEqual(self.bytes_of(), self.bytes_of("again.tnx"))
        from_cache, errors = compile_unprivileged(other, "other.tnx")
        self.assertFalse(from_cache)
        self.assertRegex(errors, r"^tenon: compile cache: .*: cannot write: Permission denied\n$")
        self.assertEqual({path: path.read_bytes() for path in self.entries()}, before)

    def test_a_folder_that_others_may_write_to_is_not_used(self):
        """The folder is neither read nor written, and a note says so. Also with another owner, if the test may
        change it."""
        self.compile()
        entries = self.entries()
        others = [lambda: self.cache.chmod(0o777), lambda: self.cache.chmod(0o1777)]
        if os.geteuid() == 0:
            others += [lambda: (self.cache.chmod(0o755), os.chown(self.cache, 12345, -1))]
        before = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in entries}
        for distrust in others:
            distrust()
            result, errors = self.compile()
            self.assertFalse(result["from_cache"])
            self.assertRegex(errors, r"^tenon: no compile cache: \S+: cannot use the folder: (others may write to it \(mode 777\)|"
                                     r"user 12345 owns it); make it yours alone \(chown, chmod go-w\), or name another one in "
                                     r"TENON_CACHE_DIR\n$")
            self.assertEqual({path: (path.read_bytes(), path.stat().st_mtime_ns) for path in self.entries()}, before)
        os.chown(self.cache, os.geteuid(), -1)
        self.cache.chmod(0o755)
        self.assertTrue(self.compile()[0]["from_cache"])

    def test_an_entry_that_others_may_write_to_is_not_used(self):
        self.compile()
        for path in self.entries():
            path.chmod(0o666)
        result, errors = self.compile()
        self.assertFalse(result["from_cache"])
        self.assertIn("cannot trust the file: others may write to it (mode 666); it counts for nothing", errors)
        self.assertTrue(self.compile()[0]["from_cache"])  # the replacement entry is used

    def test_places(self):
        """$TENON_CACHE_DIR, else $XDG_CACHE_HOME/tenon, else ~/.cache/tenon."""
        home, xdg = self.folder / "home", self.folder / "xdg"
        self.compile(TENON_CACHE_DIR="", XDG_CACHE_HOME=str(xdg), HOME=str(home))
        self.assertTrue(any((xdg / "tenon").iterdir()))
        self.compile(TENON_CACHE_DIR="", XDG_CACHE_HOME="", HOME=str(home))
        self.assertTrue(any((home / ".cache" / "tenon").iterdir()))
        self.assertEqual(self.entries(), [])

    def test_the_text_of_the_model_is_the_key_and_not_its_path(self):
        self.compile()
        copy = self.folder / "copy.onnx"
        copy.write_bytes(self.model.read_bytes())
        self.assertTrue(self.compile(copy)[0]["from_cache"])


if __name__ == "__main__":
    unittest.main()
