#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Kernels from declarations in Python: arrays in, arrays out, and the words of what goes wrong."""

import platform
import tempfile
import unittest
from pathlib import Path

import numpy as np

import tenon

GEMM = """kernel gemm(A: f32[M, K], B: f32[K, N]) -> C: f32[M, N] {
  C[i, j] = sum(k: K) A[i, k] * B[k, j]
}
"""


class Exporter:
    """Any library's tensor, as DLPack sees it."""

    def __init__(self, array):
        self.array = array
        self.shape = array.shape

    def __dlpack__(self, **options):
        return self.array.__dlpack__()

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


class TeTest(unittest.TestCase):
    def test_open_and_fixed_dimensions(self):
        rng = np.random.default_rng(0)
        gemm = tenon.build_te(GEMM)
        self.assertEqual([v.shape for v in gemm.inputs], [("M", "K"), ("K", "N")])
        for m, n, k in ((1, 1, 1), (7, 13, 49), (64, 33, 48)):
            a, b = rng.normal(size=(m, k)).astype(np.float32), rng.normal(size=(k, n)).astype(np.float32)
            expected = a.astype(np.float64) @ b
            np.testing.assert_allclose(gemm(a, b), expected, rtol=1e-4, atol=1e-4)
            np.testing.assert_allclose(gemm(Exporter(a), B=Exporter(b)), expected, rtol=1e-4, atol=1e-4)
            fixed = tenon.build_te(GEMM, dims={"M": m, "N": n, "K": k}, threads=1)
            self.assertEqual(fixed.inputs[0].shape, (m, k))
            np.testing.assert_allclose(fixed(a, b), expected, rtol=1e-4, atol=1e-4)
        with self.assertRaisesRegex(tenon.Error, "dimension"):
            gemm(np.zeros((2, 3), np.float32), np.zeros((4, 5), np.float32))

    def test_sizes_that_are_refused_are_named(self):
        """Errors name the operand, its dimension and both values, and the values of the dimensions that determine
        them."""
        transposed = tenon.build_te("""kernel f(A: f32[M, K], B: f32[K, N]) -> C: f32[M, N] {
  C[i, j] = sum(k: K) A[i, k] * B[j, k]
}
""")
        ones = lambda *shape: np.ones(shape, np.float32)
        np.testing.assert_array_equal(transposed(ones(3, 4), ones(4, 4)), np.full((3, 4), 4, np.float32))
        for n, k, message in ((5, 4, 'it reads "B" at index 4 of dimension 0, which is 4: K is 4, N is 5; pass tensors'),
                              (4, 6, 'it reads "B" at index 5 of dimension 1, which is 4: K is 6, N is 4; pass tensors')):
            with self.assertRaisesRegex(tenon.Error, message):
                transposed(ones(3, k), ones(k, n))
        halves = tenon.build_te("kernel g(X: f32[N]) -> Y: f32[N - 3] { Y[i] = X[i] + X[i + 3] }")
        with self.assertRaisesRegex(tenon.Error, 'dimension 0 of "Y" would be -1, and must be at least 1: N is 2'):
            halves(ones(2))
        pairs = tenon.build_te("kernel h(X: f32[N], Y: f32[2 * N]) -> Z: f32[N] { Z[i] = X[i] + Y[2 * i] }")
        with self.assertRaisesRegex(tenon.Error, 'dimension 0 of "Y" is 7, and its kernel computes it to be 6'):
            pairs(ones(3), ones(7))

    def test_stages_with_common_axes_on_threads(self):
        """Tiles of columns that threads share: what each keeps is its own, and the bits are those of one thread."""
        text = """
kernel normalise(X: f32[403, 901]) -> Y: f32[403, 901] {
  m[j] = sum(k) X[k, j]
  v[j] = sum(k) (X[k, j] - m[j] / 403) * (X[k, j] - m[j] / 403)
  Y[i, j] = (X[i, j] - m[j] / 403) / sqrt(v[j] / 403 + f32(0.00001))
}
kernel share(X: f32[64, 203, 101]) -> Y: f32[64, 101] {
  m[b, j] = max(k) X[b, k, j]
  n[b, j] = sum(k) select(X[b, k, j] == m[b, j], f32(1), f32(0))
  Y[b, j] = m[b, j] / n[b, j]
}
"""
        rng = np.random.default_rng(5)
        x, z = rng.normal(size=(403, 901)).astype(np.float32), rng.integers(0, 9, (64, 203, 101)).astype(np.float32)
        wide = x.astype(np.float64)
        normal = (wide - wide.mean(0)) / np.sqrt(wide.var(0) + 1e-5)
        greatest = z.max(1)
        for target in (None, "x86-64", "x86-64-v3") if platform.machine() == "x86_64" else (None,):
            kernels = [tenon.build_te(text, "normalise", threads=n, target=target, measure=False) for n in (1, 2, 5)]
            results = [kernel(x) for kernel in kernels]
            np.testing.assert_allclose(results[0], normal, rtol=1e-4, atol=1e-4)
            np.testing.assert_array_equal(results[1], results[0])
            np.testing.assert_array_equal(results[2], results[0])
            self.assertIn("chain", str(kernels[0].explain()))
            for n in (1, 3):
                shares = tenon.build_te(text, "share", threads=n, target=target, measure=False)(z)
                np.testing.assert_array_equal(shares, greatest / (z == greatest[:, None]).sum(1).astype(np.float32))

    def test_sums_of_zeros_are_above_zero(self):
        """Sums start from 0, whatever is added, and of however many terms: none of them is -0."""
        text = """kernel sums(X: f32[9, K]) -> Y: f32[9], Z: f64 {
  Y[i] = sum(k: K) X[i, k]
  Z = sum(i: 9, k: K) f64(X[i, k])
}"""
        open_kernel = tenon.build_te(text)
        for k in (1, 5, 64, 777):
            for kernel in (open_kernel, tenon.build_te(text, dims={"K": k}, threads=1)):
                rows, total = kernel(np.full((9, k), -0.0, np.float32))
                self.assertFalse(np.signbit(rows).any() or np.signbit(total), k)

    def test_scalars_several_outputs_and_data(self):
        kernel = tenon.build_te("""
kernel f(X: f64[N], by: f64, I: i64[M], flip: bool) -> scaled: f64[N], picked: f64[M], total: f64, at: i64 {
  scaled[i] = select(flip, -X[i], X[i]) * by
  picked[i] = X[I[i]]
  total = sum(i: N) X[i]
  at = argmax(i: N) X[i]
}
""")
        x = np.array([3.0, 9.0, -2.0, 4.0])
        scaled, picked, total, at = kernel(x, 0.5, np.array([1, 3, -7, 100]), True)
        np.testing.assert_array_equal(scaled, -x / 2)
        np.testing.assert_array_equal(picked, [9, 4, 3, 4])  # the nearest element, where there is none
        self.assertEqual((total[()], at[()]), (14, 1))
        self.assertEqual(kernel.run({"X": x, "by": 2, "I": [0], "flip": False})["picked"].tolist(), [3])

    def test_bound_arrays_and_files(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "k.te"
            path.write_text("\ufeffkernel one(X: f32[N]) -> Y: f32[N] { Y[i] = X[i] + 1 }\n"
                            "kernel two(X: f32[N]) -> Y: f32[N] { Z = one(X)  Y = one(Z) }\n", encoding="utf-8")
            x, y = np.arange(5, dtype=np.float32), np.empty(5, np.float32)
            two = tenon.build_te(path)
            two.set_inputs(X=x)
            two.set_outputs(Y=y)
            two.invoke()
            np.testing.assert_array_equal(y, x + 2)
            np.testing.assert_array_equal(tenon.build_te(path, kernel="one")(x), x + 1)
            two.save(Path(folder) / "two.tnx")
            np.testing.assert_array_equal(tenon.load(Path(folder) / "two.tnx")(x), x + 2)
            path.write_text("kernel one(X: f32[N]) -> Y: f32[N] { Y[i] = X[i + 1] }")
            with self.assertRaisesRegex(tenon.Error, r"k\.te:1:49: error: index 0 of X goes up to N, and the tensor has N"):
                tenon.build_te(path)

    def test_schedules(self):
        rng = np.random.default_rng(1)
        a, b = rng.normal(size=(9, 11)).astype(np.float32), rng.normal(size=(11, 33)).astype(np.float32)
        own = "schedule for gemm {\n  split C.i by 3 as io, ii\n  unroll ii\n}\n"
        kernel = tenon.build_te(GEMM, schedule=own, target="x86-64-v3")
        self.assertEqual(kernel.schedule, "schedule for gemm on x86-64-v3 {\n  split C.i by 3\n  unroll C.i.1\n}\n")
        self.assertRegex(kernel.trace, r'^trace 1 [0-9a-f]{16}\nsplit "C.i" 0 3\nunroll "C.i.1"\nend\n$')
        np.testing.assert_allclose(kernel(a, b), a.astype(np.float64) @ b, rtol=1e-4, atol=1e-4)
        for again in (tenon.build_te(GEMM, schedule=kernel.schedule, target="x86-64-v3"),
                      tenon.build_te(GEMM, trace=kernel.trace, target="x86-64-v3")):
            self.assertEqual((again.schedule, again.trace), (kernel.schedule, kernel.trace))
        self.assertEqual(kernel.explain()["rule"], "written schedule")
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "own.schedule"
            path.write_text(own.replace("C.i", "C.q"), encoding="utf-8")
            with self.assertRaisesRegex(tenon.Error, r"own\.schedule:2:9: error: there is no loop C\.q"):
                tenon.build_te(GEMM, schedule=path)
        inside = tenon.build_te(GEMM + own, target="x86-64-v3")
        self.assertEqual(inside.schedule, kernel.schedule)
        chosen = tenon.build_te(GEMM + own, no_schedule=True)
        self.assertEqual(chosen.explain()["rule"], "contraction")
        self.assertGreater(chosen.explain()["cycles"], 0)
        self.assertIn("vectorize", chosen.schedule)
        self.assertEqual(tenon.build_te(GEMM, plain=True).explain()["rule"], "plain nest")
        self.assertLess(tenon.build_te(GEMM, search_space=7).explain()["weighed"], 100)
        self.assertGreater(chosen.explain()["weighed"], 100)
        narrow = tenon.build_te(GEMM, vector_bytes=16, dims={"M": 64, "N": 64, "K": 64})
        self.assertIn("lanes 4", narrow.explain()["decisions"])
        with self.assertRaisesRegex(tenon.Error, "schedule option vector_bytes is 24; it must be a power of two"):
            tenon.build_te(GEMM, vector_bytes=24)
        with self.assertRaisesRegex(TypeError, "two answers to one question"):
            tenon.build_te(GEMM, schedule=own, trace=kernel.trace)
        with self.assertRaisesRegex(TypeError, "a trace begins with the word trace"):
            tenon.build_te(GEMM, trace=own)

    def test_imports(self):
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "parts").mkdir()
            (Path(folder) / "parts/twice.te").write_text("import \"more.te\"\nfunction twice(x) = TWO * x\n")
            (Path(folder) / "parts/more.te").write_text("const TWO = 2\n")
            text = "import \"parts/twice.te\"\nkernel f(X: f32[N]) -> Y: f32[N] { Y[i] = twice(X[i]) }\n"
            path = Path(folder) / "f.te"
            path.write_text(text)
            x = np.arange(5, dtype=np.float32)
            for kernel in (tenon.build_te(path), tenon.build_te(text, folder=folder), tenon.build_te(text, folder=Path(folder))):
                np.testing.assert_array_equal(kernel(x), 2 * x)
                self.assertIn("rule", kernel.explain())
            with self.assertRaisesRegex(TypeError, "imports of a file are beside it: folder is for a text"):
                tenon.build_te(path, folder=folder)
            with self.assertRaisesRegex(tenon.Error, r"te:1:8: error: .*parts/parts/twice.te: cannot open: No such file"):
                tenon.build_te(text, folder=Path(folder) / "parts")
            with self.assertRaisesRegex(tenon.Error, "this text stands in none"):
                tenon.build_te(text)

    def test_memory_is_the_callers(self):
        kernel = tenon.build_te("""
kernel f(X: f32[M, N] strides [ldx, 1], V: f32[M, N]) -> (Y: f32[M, N] over X, Z: f32[M, N] strides [1, M]) {
  store P[i, j] = X[i, j] * 2
  inline Q[i, j] = P[i, j] + V[i, j]
  Y[i, j] = Q[M - 1 - i, j]
  Z[i, j] = Q[i, j] - 1
}""")
        self.assertEqual([v.name for v in kernel.inputs], ["X", "V"])
        x, v = np.arange(60, dtype=np.float32).reshape(6, 10)[1:4, 2:7], np.ones((3, 5), np.float32)
        y, z = kernel(x, v)
        np.testing.assert_array_equal(y, (2 * x + v)[::-1])
        np.testing.assert_array_equal(z, 2 * x + v - 1)

    def test_results_in_the_callers_arrays(self):
        kernel = tenon.build_te("kernel f(X: f32[N]) -> Y: f32[N], Z: f64[N] { Y[i] = X[i] + 1  Z[i] = f64(X[i]) * 2 }")
        x, y, z = np.arange(5, dtype=np.float32), np.empty(5, np.float32), np.empty(5)
        results = kernel(x, out=(y, z))
        self.assertIs(results[0], y)
        self.assertIs(results[1], z)
        np.testing.assert_array_equal(y, x + 1)
        np.testing.assert_array_equal(z, x * 2)
        fresh, same = kernel(x + 1, out=(None, z))
        self.assertIs(same, z)
        np.testing.assert_array_equal(fresh, x + 2)
        np.testing.assert_array_equal(z, x * 2 + 2)
        with self.assertRaisesRegex(TypeError, r"out has 1 arrays, and the model 2 outputs"):
            kernel(x, out=y)
        with self.assertRaisesRegex(TypeError, r"out: 'Y' cannot go into a list"):
            kernel(x, out=([], z))
        for wrong in (np.empty(4, np.float32), np.empty(5), np.empty((5, 1), np.float32)):
            with self.assertRaises((tenon.Error, TypeError, ValueError)):
                kernel(x, out=(wrong, z))

    def test_refusals(self):
        with self.assertRaisesRegex(tenon.Error, r"^te:1:8: error: expected"):
            tenon.build_te("kernel (")
        with self.assertRaises(tenon.Error) as caught:
            tenon.build_te("kernel f(A: f32[N]) -> B: f32[N] {\n  P[i] = expp(A[i])\n  B[i] = Q[i] + P[i]\n}\n"
                           "kernel g(A: f32[N]) -> B: f32[N] { B[i] = A[i] + }")
        self.assertEqual(str(caught.exception).split("\n"), [
            "te:2:10: error: there is no operation, function or kernel called expp; did you mean exp?",
            "    2 |   P[i] = expp(A[i])", "      |          ^",
            "te:3:10: error: there is no tensor Q here", "    3 |   B[i] = Q[i] + P[i]", "      |          ^",
            "te:5:50: error: expected an expression",
            "    5 | kernel g(A: f32[N]) -> B: f32[N] { B[i] = A[i] + }",
            "      |                                                  ^"])
        with self.assertRaisesRegex(tenon.Error, "^te: no kernel has a dimension Q$"):
            tenon.build_te(GEMM, dims={"Q": 3})
        with self.assertRaisesRegex(tenon.Error, "^te: there is no kernel called conv$"):
            tenon.build_te(GEMM, kernel="conv")
        with self.assertRaisesRegex(tenon.Error, "the dimension M is 0; it must be at least 1"):
            tenon.build_te(GEMM, dims={"M": 0})
        with self.assertRaisesRegex(tenon.Error, "no-such-cpu"):
            tenon.build_te(GEMM, target="no-such-cpu")
        with self.assertRaisesRegex(tenon.Error, "the dimension N follows from no input's shape: fix it"):
            tenon.build_te("kernel f() -> Y: f32[N] { Y[i] = 1 }")
        self.assertEqual(tenon.build_te("kernel f() -> Y: f32[N] { Y[i] = 1 }", dims={"N": 3})().tolist(), [1, 1, 1])
        with self.assertRaisesRegex(TypeError, "the dimension 'M' has one size, not \\[1, 2\\]"):
            tenon.build_te(GEMM, dims={"M": [1, 2]})
        with self.assertRaisesRegex(TypeError, "declarations are a text or a path, not int"):
            tenon.build_te(3)
        with self.assertRaisesRegex(TypeError, r"missing: \['B'\]"):
            tenon.build_te(GEMM)(np.zeros((1, 1), np.float32))


if __name__ == "__main__":
    unittest.main()
