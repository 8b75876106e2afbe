# SPDX-License-Identifier: Apache-2.0
"""tenon.tune(): what it finds and tells, builders and runners written in Python, how it ends, and what it refuses."""

import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path

import numpy as np
import onnx
import tenon as tn

from product import graph, info, node, required

ROOT = Path(__file__).resolve().parents[2]
KERNELS = """kernel product(A: f32[61, 70], B: f32[70, 53]) -> C: f32[61, 53] { C[i, j] = sum(k: 70) A[i, k] * B[k, j] }
kernel rows(X: f32[90, 300]) -> S: f32[90] { S[i] = sum(k: 300) X[i, k] }
"""
OPEN = "kernel add[N](A: f32[N]) -> B: f32[N] { B[i] = A[i] + 1 }"


class Named(tn.Builder):
    """Code is the schedule's text."""

    slots = 2

    def __init__(self):
        self.inputs = []

    def build(self, input):
        self.inputs.append(input)
        return tn.Build(code=input.schedule.encode(), trace=input.schedule, buffer_count=3)


class Reader(tn.Runner):
    def __init__(self, seconds=0.0, fails=None):
        self.seconds, self.fails, self.threads, self.count = seconds, fails, set(), 0

    def run(self, build):
        self.count += 1
        self.threads.add(threading.get_ident())
        assert build.code.decode() == build.input.schedule and build.buffer_count == 3
        time.sleep(self.seconds)
        if self.fails is not None and self.count % 3 == 0:
            raise self.fails("the board is ill")
        return tn.Run(median=1e-4 * (1 + len(build.code) % 97 / 97), verified=True)


class TuneTest(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = Path(scratch.name)

    def tune(self, model=None, **options):
        if model is None:
            options.setdefault("declarations", KERNELS)
        return tn.tune(model, **{"threads": 1, "database": self.folder / "tuning.db", **options})

    def own(self, **options):
        return self.tune(**{"builder": Named(), "runner": Reader(), "trials": 40, "comparison": False, **options})

    def test_workers(self):
        """As the command does it, and the file is taken."""
        told = []
        found = self.tune(trials=16, comparison=False, output=self.folder / "k.schedules", progress=told.append,
                          program=required("TENON_WORKER"))
        self.assertEqual((found.phase, found.end, found.trials, found.known), ("done", "trials", 16, 0))
        self.assertEqual([kernel.name for kernel in found.kernels], ["product", "rows"])
        self.assertTrue(all(k.best_seconds <= k.static_seconds and k.trials > 2 and not k.errors for k in found.kernels))
        self.assertEqual((self.folder / "k.schedules").read_text(), found.schedules)
        self.assertEqual(found.schedules.count("\ntrace "), found.count)
        self.assertEqual(told[-1].phase, "done")
        self.assertEqual(told[-1].trials, 16)
        tn.build_te(KERNELS, "rows", threads=1, tuned=self.folder / "k.schedules")
        again = self.tune(trials=16, comparison=False, program=required("TENON_WORKER"))
        self.assertEqual((again.trials, again.known), (0, 16))

    def test_own_builder_and_runner(self):
        builder, runner = Named(), Reader()
        found = self.own(builder=builder, runner=runner)
        self.assertEqual((found.end, found.trials), ("trials", 40))
        self.assertEqual(len(builder.inputs), 40)
        self.assertEqual({i.name for i in builder.inputs}, {"product", "rows"})
        self.assertTrue(all(i.threads == 1 and i.declaration.startswith("kernel kernel(") for i in builder.inputs))
        self.assertNotIn(threading.get_ident(), runner.threads)

    def test_several_runners(self):
        runners = [Reader(0.002), Reader(0.002)]
        self.own(runner=runners)
        self.assertTrue(all(runner.count > 0 for runner in runners))

    def test_what_a_runner_raises_is_a_record(self):
        for raised in (RuntimeError, SystemExit, KeyboardInterrupt):
            with self.subTest(raised=raised):
                found = self.own(runner=Reader(fails=raised), database=False)
                self.assertEqual(found.trials, 40)
                # Which of the kernels the trials go to is the scheduler's, and depends on which is ready.
                self.assertGreater(sum(k.errors.get("run time", 0) for k in found.kernels), 10)
                text, = {k.first_error for k in found.kernels if k.errors}
                self.assertIn("Traceback", text)
                self.assertIn(f'raise self.fails("the board is ill")\n{raised.__name__}: the board is ill', text)

    def test_what_a_builder_raises_is_a_record(self):
        class Broken(Named):
            def build(self, input):
                return 1 / 0

        found = self.own(builder=Broken(), patience=5)
        self.assertEqual(found.best_seconds, None)
        for kernel in found.kernels:
            self.assertEqual(list(kernel.errors), ["host compile"])
            self.assertIn("ZeroDivisionError: division by zero", kernel.first_error)

    def test_answers_that_are_none(self):
        class Wrong(Reader):
            def run(self, build):
                return {"none": None, "name": tn.Run(median=1, error="bad luck")}.get(self.fails)

        for fails, words in (("none", "AttributeError"), ("name", "there is no error 'bad luck' of trials: ok, instantiation")):
            with self.subTest(fails=fails):
                found = self.own(runner=Wrong(fails=fails), database=False, trials=6)
                self.assertIn(words, next(k.first_error for k in found.kernels if k.errors))

    def test_a_wrong_answer_by_name(self):
        class Wrong(Reader):
            def run(self, build):
                return tn.Run(error="wrong answer", message="it is red")

        found = self.own(runner=Wrong(), trials=6)
        failed = [k for k in found.kernels if k.errors]
        self.assertEqual(sum(k.errors["wrong answer"] for k in failed), 6)  # of both kernels, as they are ready
        self.assertEqual({(*k.errors,) for k in failed}, {("wrong answer",)})
        self.assertEqual({k.first_error for k in failed}, {"it is red"})

    def test_progress_stops(self):
        found = self.own(runner=Reader(0.005), trials=None, patience=10**6, progress=lambda p: p.trials < 10,
                         progress_seconds=0.01, comparison=True)
        self.assertEqual(found.end, "stopped")
        self.assertGreaterEqual(found.trials, 10)

    def test_progress_raises(self):
        def progress(p):
            if p.trials > 5:
                raise LookupError("enough")

        with self.assertRaisesRegex(LookupError, "enough"):
            self.own(runner=Reader(0.005), trials=None, patience=10**6, progress=progress)

    def test_interruption(self):
        """Ctrl-C ends it at once, and loses nothing that has ended."""
        class Interrupting(Reader):
            def run(self, build):
                if self.count == 10:
                    os.kill(os.getpid(), signal.SIGINT)
                return super().run(build)

        runner = Interrupting(0.01)
        with self.assertRaises(KeyboardInterrupt):
            self.own(runner=runner, trials=None, patience=10**6)
        self.assertLess(runner.count, 1000)
        self.assertGreater(self.own(trials=1).known, 3)

    def test_other_threads_run_meanwhile(self):
        count, ended = 0, threading.Event()

        def work():
            nonlocal count
            while not ended.is_set():
                count += 1
                time.sleep(0.001)

        thread = threading.Thread(target=work)
        thread.start()
        self.own(deterministic=False, runner=Reader(0.01))
        ended.set()
        thread.join()
        self.assertGreater(count, 5)

    def test_two_at_once(self):
        found = []
        threads = [threading.Thread(target=lambda: found.append(self.own(database=False))) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual([f.trials for f in found], [40, 40])

    def test_deterministic(self):
        a, b = (self.tune(deterministic=True, seed=3, budget="4s", database=None) for _ in range(2))
        self.assertEqual(a.schedules, b.schedules)
        self.assertEqual([k.trace for k in a.kernels], [k.trace for k in b.kernels])
        self.assertIn("# simulated: nothing was timed", a.schedules)
        self.assertGreater(a.trials, 20)

    def test_models(self):
        weights = onnx.numpy_helper.from_array(np.ones((40, 30), "f"), "w")
        model = onnx.helper.make_model(graph([node("MatMul", ["x", "w"], ["y"])], [info("x", 1, ["n", 40])],
                                             [info("y", 1, ["n", 30])], [weights]),
                                       opset_imports=[onnx.helper.make_opsetid("", 20)], ir_version=9)
        path = self.folder / "model.onnx"
        onnx.save(model, path)
        for given in (path, str(path), model, model.SerializeToString(), [path, model]):
            found = self.tune(given, deterministic=True, trials=5, dims={"n": 7}, database=False)
            self.assertEqual((len(found.kernels), found.kernels[0].weight), (1, 2 if isinstance(given, list) else 1))

    def test_words(self):
        (self.folder / "foreign.db").write_text("not a database, but somebody's text of some length" * 100)
        for error, words, options in (
                (ValueError, "a budget is seconds above 0, or a time like 90s, 10m or 2h, not 0", {"budget": 0}),
                (ValueError, "a budget is seconds above 0, or a time like 90s, 10m or 2h, not '5 weeks'", {"budget": "5 weeks"}),
                (ValueError, "trials is a number above 0, not 0", {"trials": 0}),
                (ValueError, "search is one of evolution, random, exhaustive, not 'best'", {"search": "best"}),
                (ValueError, "mode is one of async, batched, blocking, not 'fast'", {"mode": "fast"}),
                (TypeError, "there is nothing to tune: give a model, or declarations", {"declarations": None}),
                (TypeError, "a model is a path, bytes or an onnx.ModelProto, not int", {"model": 5}),
                (tn.Error, "declarations: there is no kernel called none", {"kernel": "none"}),
                (tn.Error, "the dimension N is open", {"declarations": OPEN}),
                (tn.Error, "a speedup to reach is above 1, not 0.5", {"target_speedup": 0.5}),
                (tn.Error, "foreign.db", {"database": self.folder / "foreign.db"}),
                (tn.Error, "the worker program /nowhere/tenon-tune cannot be run", {"program": "/nowhere/tenon-tune", "builder": None}),
                (tn.Error, "a deterministic tuner builds and runs nothing", {"deterministic": True})):
            with self.subTest(options=options), self.assertRaisesRegex(error, re.escape(words)):
                self.own(**options)

    def test_the_example(self):
        done = subprocess.run([sys.executable, ROOT / "examples/tune/own_runner.py", "20"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"(?m)^product: 20 trials, [\d.]+ us with the static choice, [\d.]+ us with the best; 0 errors$")
        self.assertRegex(done.stdout, r"(?m)^schedules: [01] result: 70\.0$")
        self.assertNotIn("Traceback", done.stderr)


if __name__ == "__main__":
    unittest.main()
