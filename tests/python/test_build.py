# SPDX-License-Identifier: Apache-2.0
"""`tenon build`: declarations to objects and headers that a C compiler takes, checked against NumPy and plain C."""

import ctypes
import os
import shutil
import tempfile
import unittest
from pathlib import Path

import numpy as np
from product import required, run, tenon

ROOT = Path(__file__).resolve().parents[2]

GEMM = """kernel gemm_bias_relu(A: f32[M, K], B: f32[K, N], b: f32[N]) -> C: f32[M, N] {
  P[i, j] = sum(k: K) A[i, k] * B[k, j]
  C[i, j] = max(P[i, j] + b[j], 0)
}
"""


def pointer(array):
    return ctypes.c_void_p(array.ctypes.data)


class BuildTest(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = Path(scratch.name)

    def write(self, text, name="k.te"):
        path = self.folder / name
        path.write_text(text)
        return path

    def library(self, text, *options):
        """The built kernels as a shared library; what it needs besides libc is an error."""
        base = self.folder / "built"
        tenon("build", self.write(text), "-o", base, *options)
        shared = self.folder / f"built{len(list(self.folder.glob('built*.so')))}.so"
        run(required("TENON_CC"), "-shared", "-Wl,-z,defs", f"{base}.o", "-o", shared, "-lm")
        return ctypes.CDLL(str(shared))

    def library_of_c99(self, text, *options):
        """The same as C99, compiled with the header of the objects in front, so that both agree on each function."""
        base = self.folder / "built"
        tenon("build", self.write(text), "-o", base, *options)
        tenon("build", self.write(text), "--emit", "c99", "-o", f"{base}_c99.c", *options)
        both = self.write('#include "built.h"\n#include "built_c99.c"\n', "both.c")
        shared = self.folder / f"c99{len(list(self.folder.glob('c99*.so')))}.so"
        run(required("TENON_CC"), "-std=c99", "-Wall", "-Werror", "-O2", "-fPIC", "-shared", "-Wl,-z,defs", both,
            "-o", shared)
        return ctypes.CDLL(str(shared))

    def test_c99(self):
        rng = np.random.default_rng(2)
        a, b, bias = (rng.normal(size=s).astype(np.float32) for s in ((37, 29), (29, 53), (53,)))
        expected = np.maximum(a.astype(np.float64) @ b + bias, 0)
        tensors = [pointer(x) for x in (a, b, bias)]
        for options in ((), ("--parallel",), ("--threads", "4"), ("--workspace",)):
            parallel, workspace = options[:1] in (("--parallel",), ("--threads",)), options == ("--workspace",)
            built = self.library_of_c99(GEMM, *options)
            c = np.full((37, 53), np.nan, np.float32)
            memory = np.empty(1 << 20, np.uint8)
            call = built.gemm_bias_relu
            call.argtypes = ([ctypes.c_void_p] * parallel + [ctypes.c_int64] * 3 + [ctypes.c_void_p] * (4 + workspace) +
                             [ctypes.c_int64] * workspace)
            more = [pointer(memory), memory.size] if workspace else []
            self.assertEqual(call(*[None] * parallel, 37, 29, 53, *tensors, pointer(c), *more), 0)
            np.testing.assert_allclose(c, expected, rtol=1e-4, atol=1e-4)
            self.assertEqual(call(*[None] * parallel, 0, 29, 53, *tensors, pointer(c), *more), 6)
        built = self.library_of_c99("""
kernel mixed(X: f16[N], k: i32, flip: bool, I: i32[N]) -> Y: bf16[N], Q: i32[N], R: bool[N] {
  Y[i] = bf16(exp(X[i])) * select(flip, -1, 1)
  Q[i] = I[i] / k
  R[i] = X[i] < 0 && I[i] > 0
}
""")
        x, i = rng.normal(size=100).astype(np.float16), rng.integers(-50, 50, 100).astype(np.int32)
        y, q, r = np.empty(100, np.uint16), np.empty(100, np.int32), np.empty(100, bool)
        call = built.mixed
        call.argtypes = [ctypes.c_int64, ctypes.c_void_p, ctypes.c_int32, ctypes.c_bool] + [ctypes.c_void_p] * 4
        outputs = [pointer(t) for t in (y, q, r)]
        self.assertEqual(call(100, pointer(x), -7, True, pointer(i), *outputs), 0)
        np.testing.assert_allclose((y.astype(np.uint32) << 16).view(np.float32), -np.exp(x.astype(np.float32)), rtol=1e-2)
        np.testing.assert_array_equal(q, i // -7)
        np.testing.assert_array_equal(r, (x < 0) & (i > 0))
        self.assertEqual(call(100, pointer(x), 0, True, pointer(i), *outputs), 2)

    def test_product_for_fixed_and_open_dimensions(self):
        rng = np.random.default_rng(0)
        for m, n, k in ((1, 1, 1), (7, 13, 49), (64, 48, 33)):
            a, b, bias = (rng.normal(size=s).astype(np.float32) for s in ((m, k), (k, n), (n,)))
            expected = np.maximum(a.astype(np.float64) @ b + bias, 0)
            fixed = self.library(GEMM, "--dim", f"M={m},N={n}", "--dim", f"K={k}")
            c = np.full((m, n), np.nan, np.float32)
            self.assertEqual(fixed.gemm_bias_relu(pointer(a), pointer(b), pointer(bias), pointer(c)), 0)
            np.testing.assert_allclose(c, expected, rtol=1e-4, atol=1e-4)
            opened = self.library(GEMM).gemm_bias_relu
            opened.argtypes = [ctypes.c_int64] * 3 + [ctypes.c_void_p] * 4
            c = np.full(m * n + 1, np.nan, np.float32)
            # Any alignment that the type allows.
            self.assertEqual(opened(m, k, n, pointer(a), pointer(b), pointer(bias), pointer(c[1:])), 0)
            np.testing.assert_allclose(c[1:].reshape(m, n), expected, rtol=1e-4, atol=1e-4)
            for bad in ((0, k, n), (m, -1, n), (m, k, 2**47), (2**62, k, n)):
                self.assertEqual(opened(*bad, pointer(a), pointer(b), pointer(bias), pointer(c)), 6)

    def test_many_kinds_of_kernels(self):
        built = self.library("""
const TAPS = 3
combiner moments((n: f64, s: f64), (m: f64, t: f64)) = (n + m, s + t) from (0, 0)
kernel blur(X: f32[N]) -> Y: f32[N] { Y[i] = (pad(X[i - 1], 0) + X[i] + pad(X[i + 1], 0)) / TAPS }
kernel best(X: f32[M, N]) -> v: f32[M], at: i64[M], least: i32[M] {
  v[i], at[i] = argmax(k: N) X[i, k]
  least[i] = argmin(k: N) X[i, k]
}
kernel sums(X: f64[N]) -> count: f64, total: f64 { count, total = moments(i: N) (1, X[i]) }
kernel running(X: f32[T, D], decay: f32) -> S: f32[T, D] { S[t, j] = scan(t) X[0, j] then S[t - 1, j] * decay + X[t, j] }
kernel axpy(a: f64, n: i8, flip: bool, X: f64[N]) -> Y: f64[N] { Y[i] = select(flip, -a, a) * X[i] + f64(n) }
kernel softmax(X: f32[M, N]) -> Y: f32[M, N] {
  Y[i, j] = exp(X[i, j] - (max(k: N) X[i, k])) / (sum(k: N) exp(X[i, k] - (max(l: N) X[i, l])))
}
kernel shorter(X: f32[N]) -> Y: f32[N - 2] { Y[i] = X[i] + X[i + 2] }
kernel joined(X: f32[M], Y: f32[N]) -> Z: f32[N] { Z[i] = X[i] + Y[i] }
kernel diagonal(X: f32[N*N]) -> Y: f32[N] { Y[i] = X[i*N + i] }
kernel halves(X: f32[N*N/2]) -> Y: f32[N] { Y[i] = X[0] }
kernel spread(X: f32[N]) -> Y: f32[M] { Y[i] = X[i*70368744177664] }
kernel turned(int: f32[N]) -> new: f32[N] { new[i] = int[N - 1 - i] }
""")
        rng = np.random.default_rng(1)
        x = rng.normal(size=19).astype(np.float32)
        y = np.empty_like(x)
        i64 = ctypes.c_int64
        self.assertEqual(built.blur(i64(19), pointer(x), pointer(y)), 0)
        framed = np.pad(x, 1)
        np.testing.assert_allclose(y, (framed[:-2] + x + framed[2:]) / 3, rtol=1e-5, atol=1e-6)
        grid = rng.normal(size=(5, 37)).astype(np.float32)
        v, at, least = np.empty(5, np.float32), np.empty(5, np.int64), np.empty(5, np.int32)
        self.assertEqual(built.best(i64(5), i64(37), pointer(grid), pointer(v), pointer(at), pointer(least)), 0)
        np.testing.assert_array_equal(v, grid.max(1))
        np.testing.assert_array_equal(at, grid.argmax(1))
        np.testing.assert_array_equal(least, grid.argmin(1))
        wide, count, total = rng.normal(size=100), np.empty(()), np.empty(())
        self.assertEqual(built.sums(i64(100), pointer(wide), pointer(count), pointer(total)), 0)
        np.testing.assert_allclose((count, total), (100, wide.sum()), rtol=1e-12)
        out = np.empty_like(grid)
        self.assertEqual(built.running(i64(5), i64(37), pointer(grid), ctypes.c_float(0.5), pointer(out)), 0)
        expected = grid.astype(np.float64)
        for t in range(1, 5):
            expected[t] += 0.5 * expected[t - 1]
        np.testing.assert_allclose(out, expected, rtol=1e-5, atol=1e-6)
        result = np.empty_like(wide)
        self.assertEqual(built.axpy(i64(100), ctypes.c_double(2.5), ctypes.c_int8(-3), ctypes.c_bool(True),
                                    pointer(wide), pointer(result)), 0)
        np.testing.assert_allclose(result, -2.5 * wide - 3)
        self.assertEqual(built.softmax(i64(5), i64(37), pointer(grid), pointer(out)), 0)
        e = np.exp(grid - grid.max(1, keepdims=True))
        np.testing.assert_allclose(out, e / e.sum(1, keepdims=True), rtol=1e-5)
        # What follows from dimensions is checked: an extent below 1, an input that is shorter than what is read.
        self.assertEqual(built.shorter(i64(2), pointer(x), pointer(y)), 6)
        self.assertEqual(built.shorter(i64(19), pointer(x), pointer(y)), 0)
        np.testing.assert_array_equal(y[:17], x[:-2] + x[2:])
        for n in 1 << 31, 1 << 32, (1 << 32) + 1:  # whose squares are nothing and little in 64 bits
            self.assertEqual(built.diagonal(i64(n), pointer(x), pointer(y)), 6)
            self.assertEqual(built.halves(i64(n), pointer(x), pointer(y)), 6)
        # Indices that would wrap around in 64 bits, and be inside again, are outside.
        for m in 2**40, 2**44, 2**47:
            self.assertEqual(built.spread(i64(19), i64(m), pointer(x), pointer(y)), 6)
        self.assertEqual(built.spread(i64(19), i64(1), pointer(x), pointer(y)), 0)
        self.assertEqual(y[0], x[0])
        self.assertEqual(built.joined(i64(18), i64(19), pointer(x), pointer(x), pointer(y)), 6)
        self.assertEqual(built.joined(i64(19), i64(18), pointer(x), pointer(x), pointer(y)), 0)
        self.assertEqual(built.turned(i64(19), pointer(x), pointer(y)), 0)
        np.testing.assert_array_equal(y, x[::-1])

    def test_memory_that_the_caller_gives(self):
        built = self.library("""
kernel smooth(X: f32[M, N]) -> Y: f32[M, N] {
  S[i] = sum(j: N) X[i, j]
  T[j] = sum(i: M) X[i, j] * S[i]
  Y[i, j] = X[i, j] / (abs(T[j]) + 1) + S[i]
}
kernel fixed(X: f32[300, 200]) -> Y: f32[300, 200] {
  S[i] = sum(j: 200) X[i, j]
  T[j] = sum(i: 300) X[i, j] * S[i]
  Y[i, j] = X[i, j] / (abs(T[j]) + 1) + S[i]
}
kernel twice(workspace: f32[N], workspace_size: f32) -> Y: f32[N] { Y[i] = workspace[i] * workspace_size }
""", "--workspace")
        undefined = run("nm", "-u", self.folder / "built.o").stdout
        self.assertNotIn("malloc", undefined)
        self.assertNotIn("free", undefined)
        i64 = ctypes.c_int64
        x = np.random.default_rng(3).normal(size=(300, 200)).astype(np.float32)
        sums = x.astype(np.float64).sum(1)
        expected = x / (np.abs((x * sums[:, None]).sum(0)) + 1) + sums[:, None]
        for function, dims in ((built.smooth, (i64(300), i64(200))), (built.fixed, ())):
            ask = getattr(built, f"{function.__name__}_workspace_size")
            ask.restype = ctypes.c_int64
            size = ask(*dims)
            self.assertGreater(size, (300 + 200) * 4)
            y = np.empty_like(x)
            for misaligned in (0, 1, 63):
                room = np.full(size + 192, 0x5A, np.uint8)
                start = -room.ctypes.data % 64 + 64 + misaligned
                y[:] = np.nan
                at = ctypes.c_void_p(room.ctypes.data + start)
                self.assertEqual(function(*dims, pointer(x), pointer(y), at, i64(size)), 0)
                np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-4)
                self.assertTrue((room[:start] == 0x5A).all() and (room[start + size:] == 0x5A).all())
            y[:] = 7
            for block, given in ((at, size - 1), (at, 0), (at, -1), (None, size)):
                self.assertEqual(function(*dims, pointer(x), pointer(y), block, i64(given)), 5)
            self.assertTrue((y == 7).all())
        self.assertEqual(built.smooth_workspace_size(i64(0), i64(200)), -6)
        self.assertEqual(built.twice_workspace_size(i64(5)), 0)
        y = np.empty(200, np.float32)
        self.assertEqual(built.twice(i64(200), pointer(x), ctypes.c_float(2), pointer(y), None, i64(0)), 0)
        np.testing.assert_array_equal(y, 2 * x[0])

    def test_many_products_are_each_scheduled_as_one_alone(self):
        count, rng = 80, np.random.default_rng(5)
        text, last = f"kernel layers(X: f32[3, 24], W: f32[{count}, 24, 24]) -> Y: f32[3, 24] {{\n", "X"
        for i in range(count):
            head = "Y[i, j]" if i == count - 1 else f"R{i}[i: 3, j: 24]"
            text += f"  P{i}[i: 3, j: 24] = sum(k: 24) {last}[i, k] * W[{i}, k, j]\n  {head} = max(P{i}[i, j], -0.5)\n"
            last = f"R{i}"
        built = self.library(text + "}\n")
        x, w = rng.normal(size=(3, 24)), rng.normal(size=(count, 24, 24)) / 5
        given, weights, y = x.astype(np.float32), w.astype(np.float32), np.empty((3, 24), np.float32)
        self.assertEqual(built.layers(pointer(given), pointer(weights), pointer(y)), 0)
        for layer in weights.astype(np.float64):
            given = np.maximum(given @ layer, -0.5)
        np.testing.assert_allclose(y, given, rtol=1e-3, atol=1e-3)
        told = tenon("explain", self.write(text + "}\n"), "--kernel", "layers").stdout
        self.assertRegex(told, r"sequence: parts 80\b")

    def test_workspace_functions_have_names_of_their_own(self):
        text = "kernel f(X: f32[N]) -> Y: f32[N] { Y[i] = X[i] }\n"
        text += text.replace("kernel f(", "kernel f_workspace_size(")
        tenon("build", self.write(text), "-o", self.folder / "k")
        refused = tenon("build", self.write(text), "-o", self.folder / "k", "--workspace", status=1)
        self.assertIn("kernel f_workspace_size: that is the name of the function that tells the workspace of kernel f; "
                      "use another", refused.stderr)

    def test_header_suits_c_and_cpp(self):
        text = GEMM + "kernel scale(auto: f16[N], by: u8, all: bool[N]) -> class: f16[N] {\n" \
                      "  class[i] = select(all[i], auto[i] * f16(by), 0)\n}\n"
        for extra in ((), ("--workspace",), ("--parallel", "--workspace"), ("--parallel",)):
            tenon("build", self.write(text), "-o", self.folder / "k", *extra)
            use = self.write('#include "k.h"\n#include "k.h"\nint main(void) { return gemm_bias_relu == 0; }\n', "use.c")
            for words in (["-x", "c", "-std=c11"], ["-x", "c++", "-std=c++17"]):
                run(required("TENON_CC"), *words, "-Wall", "-Wextra", "-pedantic", "-Werror", "-Wno-address", "-fsyntax-only",
                    f"-I{self.folder}", use)
        header = (self.folder / "k.h").read_text()
        self.assertIn("const struct tn_kernel_env *env,\n    int64_t N,\n    const uint16_t *TENON_RESTRICT auto_,\n"
                      "    uint8_t by,\n    const bool *TENON_RESTRICT all,\n    uint16_t *TENON_RESTRICT class_);", header)

    def test_threads_of_the_runtime(self):
        tenon("build", self.write(GEMM), "-o", self.folder / "gemm", "--parallel", "--dim", "M=96,N=64,K=80")
        main = self.write("""#include <stdio.h>
#include <stdlib.h>
#include "tenon/kernel_abi.h"
#include "tenon/runtime.h"
#include "gemm.h"
static float a[96 * 80], b[80 * 64], bias[64], c[2][96 * 64];
int main(void) {
  tn_thread_pool *pool;
  tn_thread_pool_options options = {.size = sizeof options, .threads = 3};
  for (int i = 0; i < 96 * 80; i++) a[i] = (float)(i % 7) - 3;
  for (int i = 0; i < 80 * 64; i++) b[i] = (float)(i % 5) - 2;
  if (tn_thread_pool_create(&options, &pool) != NULL) return 1;
  int first = gemm_bias_relu(tn_thread_pool_env(pool), a, b, bias, c[0]), second = gemm_bias_relu(NULL, a, b, bias, c[1]);
  for (int i = 0; i < 96; i++)
    for (int j = 0; j < 64; j++) {
      float sum = 0;
      for (int k = 0; k < 80; k++) sum += a[i * 80 + k] * b[k * 64 + j];
      if (sum < 0) sum = 0;
      if (c[0][i * 64 + j] != sum || c[1][i * 64 + j] != sum) return 2;
    }
  tn_thread_pool_release(pool);
  printf("%d %d\\n", first, second);
  return 0;
}
""", "main.c")
        libraries = required("TENON_LIBRARIES")
        run(required("TENON_CC"), "-std=c11", f"-I{ROOT}/include", f"-I{self.folder}", main, self.folder / "gemm.o",
            f"-L{libraries}", "-ltenon_runtime", "-o", self.folder / "main")
        result = run(self.folder / "main", environment={"LD_LIBRARY_PATH": libraries})
        self.assertEqual(result.stdout, "0 0\n")

    def test_stages_and_traces(self):
        source = self.write(GEMM)
        dims = ("--dim", "M=32,N=48,K=16")
        text = tenon("build", source, "--emit", "te", *dims).stdout
        self.assertEqual(text, "kernel gemm_bias_relu(A: f32[32, 16], B: f32[16, 48], b: f32[48]) -> C: f32[32, 48] {\n"
                               "  P: f32[i: 32, j: 48] = sum(k: 16) A[i, k]*B[k, j]\n"
                               "  C: f32[i: 32, j: 48] = max(P[i, j] + b[j], 0.0f32)\n}\n")
        again = self.write(text, "again.te")
        self.assertEqual(tenon("build", again, "--emit", "te").stdout, text)
        trace = self.folder / "gemm.trace"
        tenon("build", source, "--emit", "trace", "-o", trace, *dims)
        self.assertTrue(trace.read_text().startswith("trace 1 "))
        chosen = tenon("build", source, "--emit", "tir", *dims).stdout
        self.assertEqual(tenon("build", again, "--emit", "tir", "--schedule", trace).stdout, chosen)
        other = tenon("build", source, "--emit", "tir", "--schedule", trace, "--dim", "M=32,N=48,K=17", status=1).stderr
        self.assertIn(f"tenon: {trace}: trace:1: the trace is of another declaration", other)
        trace.write_text("\n".join(trace.read_text().split("\n")[:1]) + '\nsplit "P.z" 0 4\nend\n')
        self.assertIn(f"tenon: {trace}: trace:2: ", tenon("build", source, "-o", self.folder / "g", "--schedule", trace,
                                                          *dims, status=1).stderr)
        self.assertIn("define i32 @gemm_bias_relu(ptr", tenon("build", source, "--emit", "llvm", *dims).stdout)
        self.assertIn("gemm_bias_relu:", tenon("build", source, "--emit", "asm", "--target", "aarch64").stdout)

    def test_refusals(self):
        source = self.write(GEMM, "gemm.te")
        base = self.folder / "out"

        def refused(*arguments, status=1):
            result = tenon("build", *arguments, status=status).stderr
            self.assertFalse(base.with_suffix(".o").exists() or base.with_suffix(".h").exists())
            return result

        self.assertEqual(refused(source, "-o", base, "--dim", "Q=3"),
                         f"tenon: {source}: no kernel has a dimension Q\n")
        line = GEMM.split("\n")[0]
        self.assertEqual(refused(source, "-o", base, "--dim", "M=0"),
                         f"{source}:1:30: error: the dimension M is 0; it must be at least 1\n"
                         f"    1 | {line}\n      | {' ' * 29}^\n")
        self.assertEqual(refused(source, "-o", base, "--kernel", "conv"),
                         f"tenon: {source}: there is no kernel called conv\n")
        self.assertIn("--dim takes NAME=N or NAME=N,NAME=N, with N at least 0, not \"M=x\"",
                      refused(source, "-o", base, "--dim", "M=x", status=2))
        self.assertIn("where to? -o BASE", refused(source, status=2))
        self.assertIn("--emit obj is binary: say where with -o FILE", refused(source, "--emit", "obj", status=2))
        self.assertIn('tenon build: --emit takes te, schedule, trace, tir, llvm, asm, c99, opencl, cuda or obj, not "soup"',
                      refused(source, "--emit", "soup", status=2))
        for twice in (("--dim", "M=2", "--dim", "M=3"), ("--dim", "M=2,M=3")):
            self.assertIn("tenon build: --dim M is given twice: 2 and 3;", refused(source, "-o", base, *twice, status=2))
        self.assertIn("--dim takes NAME=N or NAME=N,NAME=N, with N at least 0, not \"M=99999999999999999999\"",
                      refused(source, "-o", base, "--dim", "M=99999999999999999999", status=2))
        self.assertEqual(refused(source, "-o", base / "none" / "k"),
                         f"tenon: {base}/none/k.o: cannot write: there is no folder {base}/none\n")
        model = self.write("", "model.onnx")
        self.assertIn(f"tenon build: {model} is a model: `tenon compile` takes it", refused(model, "-o", base, status=2))
        bad = self.write("kernel f(A: f32[N]) -> B: f32[N] {\n  B[i] = A[i + 1]\n}\n", "bad.te")
        self.assertEqual(refused(bad, "-o", base),
                         f"{bad}:2:14: error: index 0 of A goes up to N, and the tensor has N elements there; let i run up to "
                         "N - 1 instead of N, or guard it by pad(...) or select\n"
                         "    2 |   B[i] = A[i + 1]\n      |              ^\n")
        self.assertIn("cannot open", refused(self.folder / "none.te", "-o", base))
        for name in ("int", "main", "memcpy"):
            taken = self.write(f"kernel {name}(A: f32[N]) -> B: f32[N] {{ B[i] = A[i] }}\n", "taken.te")
            for options in (("-o", base), ("--emit", "c99")):
                self.assertIn(f"kernel {name}: its C function can't have this name; use another",
                              refused(taken, *options))
        clash = self.write(GEMM, "clash.o")
        self.assertIn("the result would take the place of the declarations",
                      refused(clash, "-o", self.folder / "clash", status=2))
        self.assertEqual(clash.read_text(), GEMM)
        self.assertIn("no-such-cpu", refused(source, "-o", base, "--target", "no-such-cpu", status=2))

    def make_example(self, name, declarations):
        """Builds a copy of an example whose kernels are those of one file, and returns its folder."""
        folder = self.folder / name
        shutil.copytree(ROOT / "examples" / name, folder)
        for made in (name, f"{declarations}.o", f"{declarations}.h"):
            (folder / made).unlink(missing_ok=True)
        run("make", "-C", folder, f"TENON={required('TENON_CLI')}", f"CC={required('TENON_CC')}")
        return folder

    def test_prepacked_example(self):
        folder = self.make_example("prepacked", "layer")
        self.assertEqual(run(folder / "prepacked").stdout, "5 rows of 128; right\n")

    def test_constant_operands_are_packed_beforehand(self):
        rng = np.random.default_rng(2)
        dims = ("--dim", "N=70,K=33")
        a, b, bias = (rng.normal(size=s).astype(np.float32) for s in ((7, 33), (33, 70), (70,)))
        expected = np.maximum(a.astype(np.float64) @ b + bias, 0)
        built = self.library(GEMM, "--constant", "B", *dims)
        header = (self.folder / "built.h").read_text()
        self.assertRegex(header, r" \*   B_packed: f32\[\d+, 33, \d+\], which gemm_bias_relu_pack_B\(\) makes of B\n")
        self.assertIn("const float *TENON_RESTRICT B_packed,", header)
        self.assertIn("int32_t gemm_bias_relu_pack_B(const float *TENON_RESTRICT B, float *TENON_RESTRICT packed);", header)
        packed, c = np.full(33 * 128, np.nan, np.float32), np.full((7, 70), np.nan, np.float32)
        self.assertEqual(built.gemm_bias_relu_pack_B(pointer(b), pointer(packed)), 0)
        built.gemm_bias_relu.argtypes = [ctypes.c_int64] + [ctypes.c_void_p] * 4
        self.assertEqual(built.gemm_bias_relu(7, pointer(a), pointer(packed), pointer(bias), pointer(c)), 0)
        np.testing.assert_allclose(c, expected, rtol=1e-4, atol=1e-4)
        # A schedule of one's own may pack, too: any layout, also of the left operand.
        source = self.write(GEMM)
        trace = self.folder / "packing.trace"
        first = tenon("build", source, "--emit", "trace", *dims, "--dim", "M=7").stdout.split("\n")[0]
        trace.write_text(f'{first}\ndeclare_constant "A"\ntransform_layout "A" 1 1 0 0 1 0\n'
                         'declare_constant "B"\ntransform_layout "B" 1 16 0 0 1 0 1 1 16\nend\n')
        built = self.library(GEMM, "--schedule", trace, *dims, "--dim", "M=7")
        turned, packed = np.empty((33, 7), np.float32), np.empty((5, 33, 16), np.float32)
        self.assertEqual(built.gemm_bias_relu_pack_A(pointer(a), pointer(turned)), 0)
        np.testing.assert_array_equal(turned, a.T)
        self.assertEqual(built.gemm_bias_relu_pack_B(pointer(b), pointer(packed)), 0)
        c = np.full((7, 70), np.nan, np.float32)
        self.assertEqual(built.gemm_bias_relu(pointer(turned), pointer(packed), pointer(bias), pointer(c)), 0)
        np.testing.assert_allclose(c, expected, rtol=1e-4, atol=1e-4)
        # What cannot be packed is refused, with the reason.
        base = self.folder / "out"
        for name, why in (("A", "packing is for the operand that the last axis of the result (j) is an index of"),
                          ("b", "packing is for an operand that one sum of products reads, once"),
                          ("Q", "there is no such input")):
            self.assertEqual(tenon("build", source, "-o", base, "--constant", name, "--dim", "M=7", *dims, status=1).stderr,
                             f"tenon: kernel gemm_bias_relu: te gemm_bias_relu: constant {name}: {why}\n")
        self.assertIn("constant B: dimension 0 is open; fix it",
                      tenon("build", source, "-o", base, "--constant", "B", status=1).stderr)
        two = self.write(GEMM + "kernel copy(X: f32[N]) -> Y: f32[N] { Y[i] = X[i] }\n")
        self.assertIn("has 2 kernels, and --constant is for one: name it with --kernel",
                      tenon("build", two, "-o", base, "--constant", "B", *dims, status=1).stderr)

    def test_the_same_bytes_every_time(self):
        source = self.write(GEMM)
        for name in ("one", "two"):
            tenon("build", source, "-o", self.folder / name)
        self.assertEqual((self.folder / "one.o").read_bytes(), (self.folder / "two.o").read_bytes())
        self.assertEqual((self.folder / "one.h").read_text(), (self.folder / "two.h").read_text())

    def test_lenet_example(self):
        folder = self.make_example("lenet", "lenet")
        printed = run(folder / "lenet").stdout.splitlines()
        self.assertEqual(len(printed), 11)
        self.assertAlmostEqual(sum(float(line.split()[1]) for line in printed[:10]), 1, places=5)
        needed = run("readelf", "-d", folder / "lenet").stdout
        self.assertNotIn("tenon", needed)


if __name__ == "__main__":
    os.environ.setdefault("LC_ALL", "C")
    unittest.main()
