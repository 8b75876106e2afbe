# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C ends a run or a compilation of the Python binding soon, and what was interrupted can be used again.

ctest sets PYTHONPATH and TENON_CLI."""

import os
import signal
import tempfile
import threading
import time
import unittest
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto
from product import graph, info, node

import tenon

# Each would take minutes.
SUM = """kernel one_sum(A: f32[N]) -> C: f32[N] {
  C[i] = sum(k: 100000000000) sin(A[i] + f32(k))
}"""
# So many as `count` says: what a run takes is not known from shapes.
ROUNDS = 4_000_000_000
SOON = 20  # seconds of CPU time, independent of other work; usually tens of milliseconds


def loop_model():
    """y = x after `count` rounds of cos."""
    body = graph([node("Cos", ["v"], ["w"]), node("Identity", ["go"], ["on"])],
                 [info("i", TensorProto.INT64, []), info("go", TensorProto.BOOL, []), info("v", TensorProto.FLOAT, [8])],
                 [info("on", TensorProto.BOOL, []), info("w", TensorProto.FLOAT, [8])])
    body = onnx.helper.make_graph(body.node, "body", body.input, body.output)
    return onnx.helper.make_model(
        graph([node("Loop", ["count", "", "x"], ["y"], body=body)],
              [info("count", TensorProto.INT64, []), info("x", TensorProto.FLOAT, [8])], [info("y", TensorProto.FLOAT, [8])]),
        opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)


def large_model(layers=250):
    """Convolutions of different sizes, each a kernel of its own."""
    rng = np.random.default_rng(1)
    nodes, weights, name, channels = [], [], "x", 8
    for i in range(layers):
        out = 8 + i % 97
        weights.append(onnx.numpy_helper.from_array(rng.normal(size=(out, channels, 3, 3)).astype(np.float32), f"w{i}"))
        nodes.append(node("Conv", [name, f"w{i}"], [f"h{i}"], pads=[1, 1, 1, 1]))
        name, channels = f"h{i}", out
    return onnx.helper.make_model(
        graph(nodes, [info("x", TensorProto.FLOAT, [1, 8, 20, 20])], [info(name, TensorProto.FLOAT, [1, channels, 20, 20])], weights),
        opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)


class Stop(Exception):
    pass


class InterruptTest(unittest.TestCase):
    def interrupted(self, call, error=KeyboardInterrupt, number=signal.SIGINT, after=0.15):
        """Returns the CPU seconds from the signal to the exception."""
        sent = []

        def send():
            sent.append(time.process_time())
            os.kill(os.getpid(), number)

        timer = threading.Timer(after, send)
        timer.start()
        try:
            with self.assertRaises(error):
                call()
            return time.process_time() - sent[0]
        finally:
            timer.cancel()
            timer.join()

    def test_a_run_ends_and_the_model_stays(self):
        model = tenon.compile(loop_model().SerializeToString(), cache=False)
        x = np.linspace(0, 1, 8, dtype=np.float32)
        few, many = np.int64(3), np.int64(ROUNDS)
        wanted = np.cos(np.cos(np.cos(x)))
        for _ in range(3):
            self.assertLess(self.interrupted(lambda: model(many, x)), SOON)
            np.testing.assert_allclose(model(few, x), wanted, rtol=1e-5)
            larger = tenon.compile(loop_model().SerializeToString(), cache=False)
            self.assertLess(self.interrupted(lambda: larger.run({"count": many, "x": x})), SOON)

    def test_a_run_of_one_kernel_ends(self):
        for threads in (1, 2):
            model = tenon.build_te(SUM, threads=threads)
            self.assertLess(self.interrupted(lambda: model(np.zeros(4, np.float32))), SOON)
            self.assertLess(self.interrupted(lambda: model(np.zeros(4, np.float32))), SOON)

    def test_what_is_bound_runs_again(self):
        model = tenon.compile(loop_model().SerializeToString(), cache=False)
        count, x, y = np.array(ROUNDS), np.zeros(8, np.float32), np.empty(8, np.float32)
        model.set_inputs(count=count, x=x)
        model.set_outputs(y=y)
        self.assertLess(self.interrupted(model.invoke), SOON)
        count[...] = 1
        model.invoke()
        np.testing.assert_array_equal(y, np.ones(8, np.float32))
        count[...] = ROUNDS
        model.start()
        self.assertLess(self.interrupted(model.wait), SOON)
        count[...], y[...] = 1, 0
        model.start()
        model.wait()
        np.testing.assert_array_equal(y, np.ones(8, np.float32))

    def test_what_a_handler_raises_ends_a_run_and_other_handlers_do_not(self):
        model = tenon.compile(loop_model().SerializeToString(), cache=False)
        x, seen = np.zeros(8, np.float32), []

        def stop(number, frame):
            raise Stop

        def look(number, frame):
            seen.append(number)

        self.addCleanup(signal.signal, signal.SIGTERM, signal.signal(signal.SIGTERM, stop))
        self.addCleanup(signal.signal, signal.SIGUSR1, signal.signal(signal.SIGUSR1, look))
        timer = threading.Timer(0.05, lambda: os.kill(os.getpid(), signal.SIGUSR1))
        timer.start()
        self.assertLess(self.interrupted(lambda: model(np.int64(ROUNDS), x), Stop, signal.SIGTERM, 0.3), SOON)
        timer.join()
        self.assertEqual(seen, [signal.SIGUSR1])

    def test_a_compilation_ends(self):
        with tempfile.TemporaryDirectory() as folder:
            data = large_model().SerializeToString()
            for threads in (1, 2):
                took = self.interrupted(lambda: tenon.compile(data, cache_directory=folder, compile_threads=threads, threads=1), after=0.4)
                self.assertLess(took, SOON)
                self.assertEqual([path.name for path in Path(folder).rglob("*") if ".tmp-" in path.name], [])
            model = tenon.compile(loop_model().SerializeToString(), cache_directory=folder)
            np.testing.assert_array_equal(model(np.int64(1), np.zeros(8, np.float32)), np.ones(8, np.float32))

    def test_other_threads_run_as_ever(self):
        model = tenon.compile(loop_model().SerializeToString(), cache=False)
        results = []
        x = np.zeros(8, np.float32)
        threads = [threading.Thread(target=lambda: results.append(model(np.int64(1), x))) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        np.testing.assert_array_equal(results, np.ones((4, 8), np.float32))


if __name__ == "__main__":
    unittest.main()
