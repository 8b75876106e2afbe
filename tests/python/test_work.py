# SPDX-License-Identifier: Apache-2.0
"""What a compilation has to do grows with the model and no faster. Work is counted, in steps (tn_module_steps), and never
timed; the allowance for a model's size is reached by none."""

import json
import os
import subprocess
import sys
import tempfile
import unittest
import zipfile
from pathlib import Path

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator

import tenon
from doublings import FAMILIES, functions_of_functions

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))
import networks

CLI = os.environ["TENON_CLI"]
SHARE = 1 / 3  # of what is allowed, at the most
# A model twice as large may take so much more. Chains are cut into kernels of the same size, of up to 48 nodes: the sizes
# are well beyond that, as the first kernel may be another than those behind it.
GROWTH = 2.6
SIZES = (60, 120, 240)


class WorkTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def steps(self, model):
        path = self.folder / "m.onnx"
        onnx.save(model, path)
        done = subprocess.run([CLI, "compile", path, "-o", self.folder / "m.tnx", "--no-cache", "--json", "--threads", "2"],
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        answer = json.loads(done.stdout)
        self.assertGreater(answer["steps"], 0)
        self.assertLess(answer["steps"], SHARE * answer["most_steps"])
        return answer["steps"]

    def test_work_grows_with_the_model(self):
        for name, build in FAMILIES.items():
            with self.subTest(name):
                counts = [self.steps(build(n)) for n in SIZES]
                self.assertLess(counts[2], GROWTH * counts[1], counts)
                self.assertLess(counts[1], GROWTH * counts[0], counts)

    def test_steps_are_the_same_each_time(self):
        model = FAMILIES["choices"](12)
        self.assertEqual(self.steps(model), self.steps(model))

    def test_calls_count_as_the_nodes_that_they_are(self):
        counts = [self.steps(functions_of_functions(n)) for n in (5, 6, 7)]
        self.assertLess(counts[2], GROWTH * counts[1], counts)

    def test_networks_need_little_of_what_is_allowed(self):
        encoder = networks.Encoder("encoder", hidden=48, layers=2, heads=3, inner=80, vocabulary=64, positions=64)
        for name, model in (("lenet5", networks.lenet5()[0]), ("encoder", encoder.build(None)[0])):
            with self.subTest(name):
                self.steps(model)

    def test_results_are_right(self):
        rng = np.random.default_rng(3)
        rows, square = rng.standard_normal((3, 4)).astype("f"), rng.standard_normal((3, 3)).astype("f")
        long, ends = rng.standard_normal((40, 4)).astype("f"), [30, -2, 28, 26, -1, -1, 20, 21, 19, -3, 15, 12]
        sizes = {"t0": np.zeros((2, 3, 4, 5), "f")}
        cases = [("sums_with_itself", 30, {"t0": rows}), ("choices", 14, {"t0": rows[0], "u": rows[1]}),
                 ("branches", 12, {"t0": -abs(rows[0]), "c": np.array(False)}),
                 ("branches", 12, {"t0": rows[0], "c": np.array(True)}), ("sums_with_the_transpose", 14, {"t0": square}),
                 ("concatenations_with_itself", 8, {"t0": rows}), ("slices", 30, {"t0": long}),
                 ("slices_to_data", 12, {"t0": long, **{f"e{i}": np.array([e]) for i, e in enumerate(ends)}}),
                 ("slices_put_back", 20, {"t0": rows}), ("sizes_multiplied", 9, sizes), ("greatest_sizes", 12, sizes),
                 ("sizes_chosen", 12, sizes)]
        joined = {f"e{i}": np.array([i % 7 - 3]) for i in range(150)}  # a size of more operations than one may have
        cases += [("slices_of_one", 90, {"x": rng.standard_normal((90, 4)).astype("f")}),
                  ("slices_to_data_joined", 150, {"t0": long, **joined})]
        for name in ("concatenation_of_many", "concatenation_of_open_sizes"):  # more than one kernel takes
            parts = {value.name: rng.standard_normal((3, 2)).astype("f") for value in FAMILIES[name](70).graph.input}
            cases.append((name, 70, parts))
        for name, n, inputs in cases:
            with self.subTest(name):
                model = FAMILIES[name](n)
                expected, = ReferenceEvaluator(model).run(None, inputs)
                got = np.asarray(tenon.compile(model, threads=2, cache=False)(**inputs))
                self.assertEqual(got.shape, expected.shape)
                np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)

    def test_declarations(self):
        lines = "".join(f"  T{i + 1}[i] = T{i}[i] + T{i}[i]\n" for i in range(200))
        path = self.folder / "double.te"
        path.write_text(f"kernel doubles(T0: f32[N]) -> T200: f32[N] {{\n{lines}}}\n")
        done = subprocess.run([CLI, "build", path, "-o", self.folder / "double"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_sizes_may_be_any(self):
        """A size takes a model no bytes, so nothing may go through its values: 10^11 - 1 has no divisor near most sizes."""
        size = 10**11 - 1
        both = {"a": [4, size], "b": [size, 2]}
        for op, inputs, attributes in [
                ("MatMul", both, {}), ("Gemm", both, {}), ("Gemm", {"a": [size, 4], "b": [size, 2]}, {"transA": 1}),
                ("MatMul", {"a": [size, 3], "b": [3, 5]}, {}), ("MatMul", {"a": [5, 3], "b": [3, size]}, {}),
                ("Conv", {"a": [1, 3, size], "b": [4, 3, 3]}, {}), ("Conv", {"a": [1, 4, size], "b": [4, 1, 3]}, {"group": 4}),
                ("Relu", {"a": [size]}, {}), ("Add", {"a": [3, size], "b": [3, 1]}, {}), ("Softmax", {"a": [2, size]}, {}),
                ("ReduceSum", {"a": [2, size]}, {}), ("Transpose", {"a": [2, size]}, {}), ("ArgMax", {"a": [2, size]}, {}),
                ("CumSum", {"a": [2, size], "axis": []}, {}), ("MaxPool", {"a": [1, 2, size]}, {"kernel_shape": [2]}),
                ("Concat", {"a": [size], "b": [size]}, {"axis": 0})]:
            with self.subTest(op, inputs=inputs):
                kinds = {name: onnx.TensorProto.INT64 if name == "axis" else onnx.TensorProto.FLOAT for name in inputs}
                self.steps(onnx.helper.make_model(onnx.helper.make_graph(
                    [onnx.helper.make_node(op, list(inputs), ["c"], **attributes)], "g",
                    [onnx.helper.make_tensor_value_info(name, kinds[name], shape) for name, shape in inputs.items()],
                    [onnx.helper.make_tensor_value_info("c", kinds["a"], None)] if op != "ArgMax" else
                    [onnx.helper.make_tensor_value_info("c", onnx.TensorProto.INT64, None)]),
                    opset_imports=[onnx.helper.make_opsetid("", 20)], ir_version=9))
        path = self.folder / "g.te"
        path.write_text("kernel g(A: f32[M, K], B: f32[K, N]) -> C: f32[M, N] {\n  C[i, j] = sum(k: K) A[i, k] * B[k, j]\n}\n")
        for command in (["build", path, "-o", self.folder / "g"], ["explain", path, "--no-run"]):
            with self.subTest(command[0]):
                done = subprocess.run([CLI, *command, "--dim", f"M=4,N=2,K={size}"], capture_output=True, text=True)
                self.assertEqual(done.returncode, 0, done.stderr)

    def test_archives_take_what_their_shapes_need(self):
        model = onnx.helper.make_model(onnx.helper.make_graph(
            [onnx.helper.make_node("Neg", ["x"], ["y"])], "g",
            [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["n", 3])],
            [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["n", 3])]),
            opset_imports=[onnx.helper.make_opsetid("", 20)], ir_version=9)
        onnx.save(model, self.folder / "m.onnx")
        np.save(self.folder / "x.npy", np.ones((2, 3), "f"))
        array = (self.folder / "x.npy").read_bytes()

        def run(name, parts):
            with zipfile.ZipFile(self.folder / name, "w", zipfile.ZIP_DEFLATED) as archive:
                with archive.open("x.npy", "w") as member:
                    for part in parts:
                        member.write(part)
            process = subprocess.Popen([CLI, "run", self.folder / "m.onnx", "--input", self.folder / name],
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            out, error = process.stdout.read(), process.stderr.read()
            process.stdout.close()
            process.stderr.close()
            _, status, used = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            return process.returncode, out, error, used.ru_maxrss

        code, out, error, small = run("small.npz", [array])
        self.assertEqual(code, 0, error)
        code, again, error, large = run("large.npz", [array] + [bytes(1 << 20)] * 256)
        self.assertEqual((code, again), (0, out), error)
        self.assertLess(large - small, 32 << 10, "in KB, for 256 MiB that belong to no element")
        code, _, error, _ = run("short.npz", [array[:-4]])
        self.assertEqual(code, 1)
        self.assertIn('member "x.npy": f32[2, 3] needs more than the 20 bytes that follow its header', error)


if __name__ == "__main__":
    unittest.main()
