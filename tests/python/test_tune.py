# SPDX-License-Identifier: Apache-2.0
"""`tenon tune`: what it finds, keeps and writes, how it goes on after an interruption or a kill, and what it refuses."""

import contextlib
import fcntl
import hashlib
import json
import os
import platform
import pty
import random
import re
import resource
import signal
import sqlite3
import struct
import subprocess
import tempfile
import termios
import time
import unittest
from pathlib import Path

import numpy as np
import onnx
import tenon as tn

from product import graph, info, node, required, tenon

KERNELS = """kernel product(A: f32[61, 70], B: f32[70, 53]) -> C: f32[61, 53] { C[i, j] = sum(k: 70) A[i, k] * B[k, j] }
kernel rows(X: f32[90, 300]) -> S: f32[90] { S[i] = sum(k: 300) X[i, k] }
"""
KILLS = 12


class TuneTest(unittest.TestCase):
    def setUp(self):
        # Whoever runs this may ignore them, as nohup and a shell's background do, and programs would go on with that.
        for number, handler in (signal.SIGINT, signal.default_int_handler), (signal.SIGTERM, signal.SIG_DFL), (signal.SIGHUP, signal.SIG_DFL):
            signal.signal(number, handler)
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = Path(scratch.name)
        self.database = self.folder / "tuning.db"
        self.file = self.folder / "kernels.te"
        self.file.write_text(KERNELS)
        self.schedules = self.folder / "kernels.schedules"

    def tune(self, *arguments, file=None, status=0, environment=None):
        return tenon("tune", file or self.file, "--database", self.database, "--threads", 1, "-o", self.schedules,
                     *arguments, status=status, environment=environment)

    def start(self, *arguments):
        command = [required("TENON_CLI"), "tune", self.file, "--database", self.database, "--threads", 1, "-o",
                   self.schedules, *arguments]
        return subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def records(self):
        out = tenon("db", "query", "--database", self.database, "--json").stdout
        return json.loads(out)["records"] if self.database.exists() else []

    def wait_for_records(self, count, process):
        while True:
            if process.poll() is not None:
                self.fail(process.communicate()[1])
            if self.database.exists():
                try:
                    connection = sqlite3.connect(f"file:{self.database}?mode=ro", uri=True)
                    found = connection.execute("SELECT count(*) FROM record").fetchone()[0]
                    connection.close()
                    if found >= count:
                        return
                except sqlite3.OperationalError:
                    pass  # it is being made
            time.sleep(0.01)

    def wait_for_words(self, words, process):
        """Returns all output of the process until then."""
        said = ""
        while words not in said:
            line = process.stderr.readline()
            self.assertTrue(line, f"it ended, and did not say {words!r}: {said}")
            said += line
        return said

    def distinct(self):
        records = self.records()
        candidates = [(r["task"], r["rule"], r["decisions"], r["trace"]) for r in records]
        self.assertEqual(len(candidates), len(set(candidates)))
        return records

    def test_similar_kernels_give_candidates_to_begin_with(self):
        self.tune("--trials", 20)
        other = self.folder / "other.te"
        other.write_text("kernel larger(X: f32[90, 140], W: f32[140, 75]) -> Y: f32[90, 75] "
                         "{ Y[i, j] = sum(k: 140) X[i, k] * W[k, j] }\n")
        words = r"1 kernel begins with [1-4] candidates? that (was|were) fast for similar ones or elsewhere"
        self.assertNotRegex(self.tune("--trials", 1, "--no-seeds", file=other).stderr, words)
        self.assertRegex(self.tune("--trials", 6, file=other).stderr, words)
        self.distinct()

    def test_what_was_learned_is_kept_beside_the_database(self):
        self.tune("--trials", 40, "--no-comparison")
        samples = list(self.folder.glob("tuning.db.model-*"))
        self.assertEqual(len(samples), 1)
        whole = samples[0].read_bytes()
        self.assertTrue(whole.startswith(b"tenon model 1\nof "))
        other = self.folder / "other.te"
        other.write_text(KERNELS.replace("61", "47").replace("90", "80"))
        samples[0].write_bytes(whole[:-100] + b"x" + whole[-99:])
        again = self.tune("--trials", 20, "--no-comparison", file=other)
        self.assertIn(f"{samples[0]}: the file of samples is damaged, and is made anew from the records", again.stderr)
        self.assertRegex(again.stdout, r"predictions: rank correlation -?[0-9.]+ within kernels; \d+ % of each one's fastest tenth")
        self.assertRegex(again.stdout, r"overhead [0-9.]+ % and \d+ % beside; \d+ trials")
        self.assertGreater(len(samples[0].read_bytes()), len(whole))  # samples of both, made anew
        quiet = self.tune("--trials", 24, "--no-comparison", file=other)
        self.assertNotIn("made anew", quiet.stderr)

    def test_a_machine_is_fitted_to_records(self):
        def machine(*arguments, status=0):
            return tenon("machine", "--from-records", self.database, *arguments, status=status)
        self.assertIn("there is no such database of tuning records", machine(status=1).stderr)
        self.database.write_text("this is no database")
        self.assertIn("is no database of tuning records", machine(status=1).stderr)
        self.assertEqual(self.database.read_text(), "this is no database")
        self.database.unlink()
        self.tune("--trials", 20, "--seed", 1, "--no-comparison")
        few = machine(status=1).stderr
        self.assertRegex(few, r"tuning.db: \d+ records of this machine and target are too few to fit numbers to: `tenon tune` "
                              r"measures more, and 40 are wanted at least")
        self.tune("--trials", 90, "--seed", 1, "--no-comparison")
        file = self.folder / "fitted.txt"
        self.assertEqual(machine("-o", file).stdout, "")
        text = file.read_text()
        self.assertRegex(text, r"# fitted to \d+ records of 2 kernels, and judged by \d+ others:\n# rank correlation of predicted "
                               r"and measured times -?[0-9.]+ before, -?[0-9.]+ after; median error [0-9.]+ times before, "
                               r"[0-9.]+ after\n")
        self.assertEqual(machine().stdout, text)  # the same records, the same numbers
        tenon("build", self.file, "--kernel", "rows", "--machine", file, "-o", self.folder / "rows")
        own = text.split()[1]
        other = "x86-64-v3" if own != "x86-64-v3" else "x86-64-v2"
        usual = tenon("machine", "--target", other).stdout
        numbers = lambda lines: {line.split()[0]: line.split()[1] for line in lines.splitlines() if line[0] != "#"}
        self.assertEqual(numbers(text).keys(), numbers(usual).keys())
        wrong = machine("--target", other, status=1).stderr
        self.assertRegex(wrong, rf"none of this machine's records is for {other}, and \d+ are for other targets, as .*: --target names one")
        lines = self.folder / "records.jsonl"
        tenon("db", "export", "-o", lines, "--database", self.database)
        own = next(line.split()[1] for line in text.splitlines())
        lines.write_text(re.sub(r'"machine": "[^"]*"', '"machine": "Abacus 1.2.3"', lines.read_text()))
        self.database.unlink()
        tenon("db", "import", lines, "--database", self.database)
        elsewhere = machine(status=1).stderr
        self.assertRegex(elsewhere, rf"none of its \d+ times was measured on this machine, {own}.*, but on others, as Abacus 1.2.3: "
                                    "`tenon tune` measures here")

    def small_network(self):
        draw, F = np.random.default_rng(3), onnx.TensorProto.FLOAT

        def weights(name, *shape):
            return onnx.numpy_helper.from_array((0.1 * draw.standard_normal(shape)).astype(np.float32), name)

        nodes = [node("Conv", ["x", "w", "b"], ["c"], pads=[1, 1, 1, 1]), node("Add", ["c", "x"], ["a"]),
                 node("Relu", ["a"], ["r"]), node("Sigmoid", ["r"], ["e"]), node("Softmax", ["e"], ["y"], axis=3)]
        net = graph(nodes, [info("x", F, [1, 32, 12, 12])], [info("y", F, [1, 32, 12, 12])],
                    [weights("w", 32, 32, 3, 3), weights("b", 32)])
        path = self.folder / "small.onnx"
        onnx.save(onnx.helper.make_model(net, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=9), path)
        return path

    def test_variants_of_the_graph_are_measured_and_replayed(self):
        model = self.small_network()
        out = self.tune("--variants", "--trials", 1, file=model)
        self.assertRegex(out.stdout, r"small\.onnx: \d of [2-9] decisions of the graph are other ones by what was measured")
        self.assertRegex(out.stderr, r"winograd \d instead of \d for 1 images of 12 x 12 pixels, 32 channels to 32, padding "
                                     r"1 1 1 1: \d+\.\d\d of the time")
        self.assertNotIn("of the time", self.tune("--variants", "--trials", 1, file=model).stderr)  # all is known
        sites = {r["task"]: r for r in self.records() if r["rule"] == "variant"}
        self.assertTrue(sites)
        lines = tenon("db", "export", "--database", self.database).stdout.splitlines()
        tasks = [json.loads(line) for line in lines if '"kind": "task"' in line]
        texts = [t["declaration"].split(" ", 2)[1:] for t in tasks if t["declaration"].startswith("site ")]
        self.assertEqual({kind for kind, _ in texts}, {"winograd", "fusion"})
        x = np.random.default_rng(4).standard_normal((1, 32, 12, 12)).astype(np.float32)
        static = tn.compile(model, threads=1)
        wanted, kernels = static(x), set()

        def line(kind, text, choice):
            digest = hashlib.sha256(b"".join(struct.pack("<Q", len(t.encode())) + t.encode() for t in (kind, text)))
            return f"variant {kind} {digest.hexdigest()[:16]} {choice}\n"

        tiles = [line(kind, text, choice) for kind, text in texts if kind == "winograd" for choice in [0, 2, 4]]
        splits = [line(kind, text, 0) for kind, text in texts if kind == "fusion"]
        tuned = self.folder / "variant.schedules"
        for lines in tiles + [tile + split for tile in tiles for split in splits]:
            tuned.write_text(f"tenon schedules 1\n\n# sites\ntarget {tasks[0]['target']} threads 1 tenon 0.2.0\n{lines}"
                             f"variant colour {'0' * 16} 7\n")
            declared = tenon("compile", model, "--threads", 1, "--tuned", tuned, "--emit", "te").stdout
            if declared not in kernels:
                np.testing.assert_allclose(tn.compile(model, threads=1, tuned=tuned)(x), wanted, rtol=1e-4, atol=1e-6)
            kernels.add(declared)
        self.assertGreaterEqual(len(kernels), 4)  # three ways to compute a convolution, and a split kernel

    def test_variants_that_cannot_be_read(self):
        for line in ["variant winograd 0123 4", "variant winograd 0123456789abcdef", "variant winograd 0123456789abcdef x"]:
            self.schedules.write_text(f"tenon schedules 1\ntarget native threads 1 tenon 0.2.0\n{line}\n")
            error = tenon("compile", self.small_network(), "--tuned", self.schedules, "--emit", "te", status=1).stderr
            self.assertIn('kernels.schedules:3: a line "variant KIND DIGEST CHOICE" is meant, with 16 digits and a number', error)

    def test_trials_are_kept_and_counted_on(self):
        out = self.tune("--trials", 24).stdout
        self.assertRegex(out, r"kernels\.schedules: \d schedules? faster than the static choice")
        first = self.distinct()
        self.assertEqual(len(first), 24)
        self.assertEqual(sum(r["origin"] == "static" for r in first), 2)
        self.assertTrue(all(r["error"] == "ok" and r["verified"] and r["median"] > 0 for r in first))
        self.assertIn("0 trials", self.tune("--trials", 24).stdout)
        self.assertEqual(len(self.distinct()), 24)
        self.tune("--trials", 30)
        self.assertEqual(len(self.distinct()), 30)

    def test_schedules_that_were_found_are_taken(self):
        """All that is fastest, compared or not, so that there is something to take."""
        self.tune("--trials", 40, "--no-comparison")
        text = self.schedules.read_text()
        self.assertEqual(text.splitlines()[0], "tenon schedules 1")
        traces = re.findall(r"^trace .*?^end$", text, re.M | re.S)
        tuned = tenon("build", self.file, "--emit", "trace", "--tuned", self.schedules, "--threads", 1).stdout
        static = tenon("build", self.file, "--emit", "trace", "--threads", 1).stdout
        for trace in traces:
            self.assertIn(trace, tuned)
            self.assertNotIn(trace, static)
        rng = np.random.default_rng(1)
        a, b = rng.normal(size=(61, 70)).astype("f"), rng.normal(size=(70, 53)).astype("f")
        self.assertEqual(self.warnings_of_build("--threads", 1), "")
        self.schedules.write_text(re.sub(r" machine .*", " machine Somebody 1.2.3, 64 threads", text))
        self.assertRegex(self.warnings_of_build("--threads", 1),
                         r"kernels\.schedules: \d schedules? (was|were) measured on another machine, Somebody 1\.2\.3, 64 "
                         r"threads, and may be slower than the static choice on this one, ")
        self.assertIn(traces[0], tenon("build", self.file, "--emit", "trace", "--tuned", self.schedules, "--threads", 1).stdout)
        self.schedules.write_text(text)
        self.assertRegex(self.warnings_of_build("--threads", 2), r"has no schedule for \S+ on 2 threads, and all are chosen without it")
        self.file.write_text(KERNELS.replace("61", "47").replace("90", "80"))
        self.assertIn("has no schedule that fits these declarations, target and number of threads",
                      self.warnings_of_build("--threads", 1))
        self.file.write_text(KERNELS)
        kernel = tn.build_te(self.file, "product", tuned=self.schedules, threads=1)
        self.assertIn(kernel.trace, tuned)
        np.testing.assert_allclose(kernel(a, b), a.astype("d") @ b, rtol=1e-4, atol=1e-4)

    def test_a_refused_schedule_is_told(self):
        """A file whose steps do not fit any more, as one of another version may be: once a kernel, with the reason."""
        self.tune("--deterministic", "--trials", 20, "--quiet")
        native = re.search(r"^target (\S+) ", self.schedules.read_text(), re.M)[1]
        static = tenon("build", self.file, "--emit", "trace", "--threads", 1).stdout
        traces = re.findall(r"^trace .*?^end$", static, re.M | re.S)
        self.schedules.write_text("tenon schedules 1\n" + "".join(
            f"target {native} threads 1\n" + trace.splitlines()[0] + '\nsplit "C.none" 0 4\nend\n' for trace in traces))
        words = (r"kernels\.schedules: the schedule of kernel {} is refused, and another one is chosen: .*C\.none")
        said = self.warnings_of_build("--threads", 1)
        self.assertEqual(said.count("is refused"), 2)
        for name in ("product", "rows"):
            self.assertRegex(said, words.format(name))
        self.assertNotIn("has no schedule that fits", said)
        with self.assertWarnsRegex(RuntimeWarning, words.format("product")):
            tn.build_te(self.file, "product", tuned=self.schedules, threads=1)
        explained = tenon("explain", self.file, "--tuned", self.schedules, "--threads", 1, "--no-run").stderr
        self.assertEqual(explained.count("is refused"), 2)

    def warnings_of_build(self, *options):
        return tenon("build", self.file, "--emit", "trace", "--tuned", self.schedules, *options).stderr

    def test_the_command_that_is_told_takes_what_was_found(self):
        out = tenon("tune", self.file, "--database", self.database, "--threads", 2, "-o", self.schedules, "--trials", 30,
                    "--no-comparison").stdout
        told = re.search(r"^  tenon (build .*) -o kernels$", out, re.M)[1]
        self.assertRegex(told, r" --threads 2$")
        self.assertEqual(tenon(*told.split(), "-o", self.folder / "kernels").stderr, "")

    def test_each_file_has_its_command(self):
        other = self.folder / "others.te"
        other.write_text(KERNELS.replace("61", "47").replace("90", "80"))
        out = self.tune(other, "--trials", 40, "--no-comparison").stdout
        self.assertRegex(out, r"(?m)^  tenon build \S+/kernels\.te .* -o kernels$\n  tenon build \S+/others\.te .* -o others$")

    def test_the_table_fits_a_terminal(self):
        terminal, end = pty.openpty()
        fcntl.ioctl(end, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        command = [required("TENON_CLI"), "tune", self.file, "--database", self.database, "--trials", "30", "--threads",
                   "1", "--no-comparison", "-o", self.schedules]
        with subprocess.Popen([str(word) for word in command], stdout=subprocess.DEVNULL, stderr=end) as process:
            os.close(end)
            shown = b""
            with contextlib.suppress(OSError):  # that is how its end is told
                while block := os.read(terminal, 65536):
                    shown += block
            os.close(terminal)
        self.assertEqual(process.returncode, 0)
        lines = re.sub(r"\x1b\[[?0-9]*[a-zA-Z]|\r", "", shown.decode()).split("\n")
        self.assertTrue(any("product" in line for line in lines))
        self.assertLessEqual(max(map(len, lines)), 80)

    def test_what_is_deterministic_is_the_same_twice(self):
        texts, lines = [], []
        for name in "ab":
            self.database = self.folder / f"{name}.db"
            self.tune("--deterministic", "--seed", 4, "--budget", "10s", "--quiet")
            texts.append(self.schedules.read_bytes())
            tenon("db", "export", "--database", self.database, "-o", self.folder / "lines")
            lines.append((self.folder / "lines").read_text())
        self.assertEqual(texts[0], texts[1])
        self.assertEqual(lines[0], lines[1])
        self.assertIn(b"# simulated: nothing was timed", texts[0])
        self.assertGreater(len(lines[0].splitlines()), 60)
        self.assertTrue(all(r["machine"] == "simulated" and not r["verified"] for r in self.records()))

    def test_a_budget_goes_on(self):
        """On the simulated clock: seconds are counted for these kernels in this database, and for no others."""
        ask = lambda what: sqlite3.connect(self.database).execute(f"SELECT {what} FROM spent").fetchone()[0]
        spent = lambda: ask("sum(seconds)")
        first = self.tune("--deterministic", "--budget", "6s", "--quiet", "--no-comparison").stdout
        self.assertNotIn(" 0 trials", first)
        self.assertAlmostEqual(spent(), 6, delta=2)
        self.assertIn("; 0 trials", self.tune("--deterministic", "--budget", "6s", "--quiet", "--no-comparison").stdout)
        again = self.tune("--deterministic", "--budget", "6s", "--quiet").stdout  # what is known is compared all the same
        self.assertIn("; 0 trials", again)
        self.assertRegex(again, r"[1-9] schedules? faster")
        self.assertNotIn("; 0 trials", self.tune("--deterministic", "--budget", "20s", "--quiet").stdout)
        self.assertEqual(ask("count(*)"), 1)
        before = spent()
        # Not `rows`: where the machine's measures leave few schedules, all are measured and compared by now.
        self.tune("--deterministic", "--budget", "6s", "--quiet", "--kernel", "product")
        self.assertEqual(ask("count(*)"), 2)
        self.assertGreater(spent(), before)

    def test_models(self):
        weights = onnx.numpy_helper.from_array(np.ones((40, 30), "f"), "w")
        model = onnx.helper.make_model(graph([node("MatMul", ["x", "w"], ["h"]), node("Relu", ["h"], ["y"])],
                                             [info("x", 1, ["n", 40])], [info("y", 1, ["n", 30])], [weights]),
                                       opset_imports=[onnx.helper.make_opsetid("", 20)], ir_version=9)
        path = self.folder / "model.onnx"
        onnx.save(model, path)
        refused = self.tune("--trials", 5, file=path, status=1).stderr
        self.assertIn("1 kernel of open sizes is not tuned; --dim NAME=N fixes a size", refused)
        self.assertIn("there is nothing to tune: no kernel of known sizes", refused)
        placed = ("--dim", "n=37", "--target", "x86-64; opencl", "--place", "*=opencl")
        refused = self.tune("--trials", 5, *placed, file=path, status=1).stderr  # and times nothing on the host instead
        self.assertRegex(refused, "tenon: 1 kernel for other devices than the host is not tuned\n")
        self.assertIn("there is nothing to tune: no kernel of known sizes", refused)
        placed = ("--dim", "n=37", "--target", "x86-64; opencl", "--place", "*=cpu:0")
        out = self.tune("--deterministic", "--budget", "20s", "--quiet", *placed, file=path).stdout
        self.assertIn("--target 'x86-64; opencl' --place '*=cpu:0' --threads 1 --dim n=37 -o model.tnx\n", out)
        self.tune("--trials", 20, "--no-comparison", "--dim", "n=37", file=path)
        options = ("--dim", "n=37", "--threads", 1, "--tuned", self.schedules)
        tenon("compile", path, "-o", self.folder / "m.tnx", *options)
        x = np.random.default_rng(2).normal(size=(37, 40)).astype("f")
        np.save(self.folder / "x.npy", x)
        tenon("run", self.folder / "m.tnx", "--input", f"x={self.folder}/x.npy", "--output", self.folder / "out")
        np.testing.assert_allclose(np.load(self.folder / "out/y.npy"), np.maximum(x @ np.ones((40, 30)), 0), rtol=1e-4,
                                   atol=1e-4)

    def test_an_interruption_finishes_what_is_in_flight(self):
        with self.start("--trials", 4000) as process:
            self.wait_for_records(6, process)
            process.send_signal(signal.SIGINT)
            out, errors = process.communicate()
        self.assertEqual(process.returncode, 0, errors)
        self.assertIn("finishing what is in flight; once more, and it stops at once", errors)
        self.assertIn("kernels.schedules: ", out)
        self.assertGreaterEqual(len(self.distinct()), 6)

    def test_a_signal_to_end_finishes_what_is_in_flight_too(self):
        for number in signal.SIGTERM, signal.SIGHUP:
            with self.subTest(signal=number):
                before = len(self.records()) if self.database.exists() else 0
                with self.start("--trials", 4000) as process:
                    self.wait_for_records(before + 6, process)
                    process.send_signal(number)
                    out, errors = process.communicate()
                self.assertEqual(process.returncode, 0, errors)
                self.assertIn("kernels.schedules: ", out)

    def test_records_of_others_are_measured_again(self):
        """Records of this machine, faster than anything possible: the search starts with them and does not trust
        them."""
        self.tune("--trials", 16, "--no-comparison")
        lines = tenon("db", "export", "--database", self.database).stdout.splitlines()
        told = []
        for line in map(json.loads, lines):
            for measurement in line.get("measurements", []):
                measurement["median"] = 1e-9
            told.append(json.dumps(line))
        lies = self.folder / "lies.jsonl"
        lies.write_text("\n".join(told) + "\n")
        self.database.unlink()
        tenon("db", "import", lies, "--database", self.database)
        self.assertEqual({r["proven"] for r in self.records()}, {False})
        best = self.folder / "best.schedules"
        said = tenon("db", "export", "--best", "-o", best, "--database", self.database).stderr
        self.assertIn("2 tasks left out: no schedule was shown to be faster than the static choice here", said)
        self.assertEqual(best.read_text(), "tenon schedules 1\n")
        self.tune("--trials", 16)
        proven = [r for r in self.records() if r["proven"]]
        self.assertGreaterEqual(len(proven), 15)
        self.assertTrue(all(r["median"] > 1e-8 for r in proven))
        lies.write_text(lies.read_text().replace("1e-09", "1e-300"))
        self.assertIn('field "median": 1e-300 s is less than any machine takes for a call',
                      tenon("db", "import", lies, "--database", self.database, status=1).stderr)

    def test_a_locked_database_holds_nothing_up(self):
        with self.start("--trials", 40, "--no-comparison") as process:
            self.wait_for_records(2, process)
            connection = sqlite3.connect(self.database, isolation_level=None)
            connection.execute("BEGIN IMMEDIATE")
            self.wait_for_words("trials wait until it is free", process)
            connection.execute("ROLLBACK")
            connection.close()
            _, errors = process.communicate()
        self.assertEqual(process.returncode, 0, errors)
        self.assertGreaterEqual(len(self.distinct()), 38)  # `rows` may have no more candidates

    def test_two_interruptions_stop_at_once(self):
        self.schedules.write_text("of before")
        with self.start("--trials", 4000) as process:
            self.wait_for_records(6, process)
            process.send_signal(signal.SIGINT)
            self.wait_for_words("once more, and it stops at once", process)
            process.send_signal(signal.SIGINT)
            out, errors = process.communicate()
        self.assertEqual(process.returncode, 0, errors)
        self.assertIn("kernels.schedules is left as it is: not all that is known was compared", out)
        self.assertEqual(self.schedules.read_text(), "of before")
        self.assertGreaterEqual(len(self.distinct()), 6)

    def test_workers_that_end_are_no_results(self):
        self.schedules.write_text("of before")
        errors = self.tune("--quiet", status=1, environment={"TENON_WORKER": "/bin/false"}).stderr
        self.assertIn("/bin/false ended 3 times in a row before it did anything", errors)
        self.assertEqual(self.schedules.read_text(), "of before")
        self.assertEqual(self.records(), [])

    def test_what_does_not_run_here_is_refused(self):
        other = "x86-64" if platform.machine() == "aarch64" else "aarch64"
        self.assertIn(f"this machine does not run code for {other}, and candidates are timed on the machine that tunes",
                      self.tune("--target", other, status=1).stderr)

    def test_tables_of_one_name_are_two_files(self):
        other = self.folder / "others.te"
        self.file.write_text("kernel k(A: f32[9]) -> C: f32[9] { C[i] = A[i] + 1 }")
        other.write_text("kernel k(A: f32[9]) -> C: f32[9] { C[i] = A[i] + 2 }")
        command = [required("TENON_CLI"), "tune", self.file, other, "--database", self.database, "--exhaustive", "10",
                   "--threads", "1", "--quiet"]
        done = subprocess.run([str(word) for word in command], cwd=self.folder, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(sorted(path.name for path in self.folder.glob("*.gz")), ["k-2.table.gz", "k.table.gz"])

    def test_a_divisor_that_is_computed(self):
        """No made-up input shows by itself that it makes the divisor 0."""
        self.file.write_text("kernel by(A: i32[999], B: i32[999]) -> C: i32[999] { C[i] = A[i] / (B[i] - 3) + A[i] % (B[i] * 2 - 4) }")
        self.tune("--trials", 3)
        self.assertTrue(all(r["error"] == "ok" and r["verified"] for r in self.records()))

    def test_what_never_works_has_no_table(self):
        self.file.write_text("kernel by(A: i32[999], B: i32[999]) -> C: i32[999] { C[i] = A[i] / (B[i] / 1000) }")
        self.assertIn("by: no candidate of it works, and there is no table", self.tune("--exhaustive", 20, status=1).stdout)

    def test_a_file_that_may_not_grow(self):
        limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (40960, 40960))
        command = [required("TENON_CLI"), "tune", self.file, "--database", self.database, "--trials", "400", "--threads",
                   "1", "-o", self.schedules, "--quiet"]
        done = subprocess.run([str(word) for word in command], preexec_fn=limit, capture_output=True, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn("there is no room on the disk", done.stderr)
        self.assertFalse(self.schedules.exists())

    def test_kills_lose_and_double_nothing(self):
        rng, before = random.Random(3), 0
        for _ in range(KILLS):
            with self.start("--trials", 4000) as process:
                self.wait_for_records(before + 1, process)
                time.sleep(rng.uniform(0, 0.3))
                process.kill()
                process.communicate()
            found = len(self.distinct())
            self.assertGreater(found, before)
            before = found
        self.tune("--trials", before + 4)
        self.assertGreaterEqual(len(self.distinct()), before + 4)

    def test_words(self):
        for arguments, words in (
                (("--budget", "0"), '--budget takes a time above 0 like 90s, 10m or 2h, not "0"'),
                (("--budget", "-5s"), '--budget takes a time above 0 like 90s, 10m or 2h, not "-5s"'),
                (("--budget", "5 weeks"), '--budget takes a time above 0 like 90s, 10m or 2h, not "5 weeks"'),
                (("--target-speedup", "1"), '--target-speedup takes a number above 1, not "1"'),
                (("--mode", "fast"), "--mode"),
                (("--trials", "0"), "--trials")):
            with self.subTest(arguments=arguments):
                self.assertIn(words, self.tune(*arguments, status=2).stderr)
        self.assertIn("there is no kernel called sums", self.tune("--kernel", "sums", "--trials", 3, status=1).stderr)
        open_file = self.folder / "open.te"
        open_file.write_text("kernel add[N](A: f32[N]) -> B: f32[N] { B[i] = A[i] + 1 }\n")
        said = "kernel add: cannot tune it: the dimension N is open, and only kernels of known sizes are timed; fix it with --dim N=N"
        self.assertIn(said, self.tune("--trials", 3, file=open_file, status=1).stderr)
        open_file.write_text(open_file.read_text() + "kernel twice(A: f32[64]) -> B: f32[64] { B[i] = A[i] * 2 }\n")
        done = self.tune("--trials", 3, "--deterministic", file=open_file)
        self.assertIn(said + "; it is left out", done.stderr)
        self.assertIn("twice", done.stdout)
        self.assertRegex(self.tune("--trials", 50, "--deterministic", file=open_file).stdout,
                         r"twice: nothing (more )?to search: (all \d+ candidates that its rules have are measured|no rule has)")
        self.assertIn("--tuned is for compiling: what was measured before is in the database",
                      self.tune("--tuned", self.file, status=2).stderr)
        self.assertIn("would take the place of", tenon("tune", self.file, "-o", self.file, "--trials", 1, status=2).stderr)
        foreign = self.folder / "foreign.db"
        foreign.write_text("not a database, but somebody's text of some length" * 100)
        said = tenon("tune", self.file, "--database", foreign, "--trials", 1, "-o", self.schedules, status=1).stderr
        self.assertIn("foreign.db", said)
        self.assertTrue(foreign.read_text().startswith("not a database"))

    def test_files_of_schedules_that_cannot_be(self):
        for text, words in (("", ":1: this is no file of tuned schedules"),
                            ("tenon schedules 1\n# a\0b\n", ":2: there is a byte 0 behind this line, and the file is text"),
                            ("tenon schedules 9\n", "a newer Tenon wrote this file of tuned schedules (version 9"),
                            ("tenon schedules 1\nsomething\n", ":2: target, task, size,"),
                            ("tenon schedules 1\ntarget x\n", ":2: a line \"target NAME threads N\" is meant"),
                            ("tenon schedules 1\ntarget x threads 1\ntrace 1 0123456789abcdef\n",
                             ":3: the trace that begins here has no \"end\"")):
            with self.subTest(text=text):
                self.schedules.write_text(text)
                said = tenon("build", self.file, "--emit", "trace", "--tuned", self.schedules, status=1).stderr
                self.assertIn(words, said)
        self.schedules.write_text("tenon schedules 1\n")
        done = tenon("build", self.file, "--emit", "trace", "--tuned", self.schedules)
        self.assertEqual(done.stdout, tenon("build", self.file, "--emit", "trace").stdout)
        self.assertRegex(done.stderr, r"kernels\.schedules has no schedule for \S+ on 1 thread, and all are chosen without it")


if __name__ == "__main__":
    unittest.main()
