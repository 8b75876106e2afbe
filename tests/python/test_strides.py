# SPDX-License-Identifier: Apache-2.0
"""Declarations that say where tensors lie: strides and outputs over inputs, against the same kernels with dense tensors
of their own. Memory ends at a page without access, and what lies between elements must stay as it is."""

import ctypes
import mmap
import re
import tempfile
import unittest
from pathlib import Path

import numpy as np
from product import required, run, tenon

PAGE = mmap.PAGESIZE
LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.mmap.restype = ctypes.c_void_p
LIBC.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
LIBC.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
LIBC.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]

TYPES = {"f32": np.float32, "f64": np.float64, "i64": np.int64, "i32": np.int32, "u8": np.uint8, "i8": np.int8}
PARAM = re.compile(r"(\w+): (\w+)\[([^\]]*)\](?: strides \[([^\]]*)\])?(?: over (\w+))?")

KERNELS = """
kernel product(A: f32[M, K] strides [lda, 1], B: f32[K, N] strides [ldb, 1]) -> C: f32[M, N] strides [ldc, 1] {
  C[i, j] = sum(k) A[i, k] * B[k, j]
}
kernel columns(A: f32[M, K] strides [1, lda], B: f32[K, N] strides [1, ldb]) -> C: f32[M, N] strides [1, ldc] {
  P[i, j] = sum(k) A[i, k] * B[k, j]
  C[i, j] = max(P[i, j], 0)
}
kernel turned(A: f32[K, M] strides [lda, 1], B: f32[N, K] strides [ldb, 1]) -> C: f32[M, N] strides [ldc, 1] {
  C[i, j] = sum(k) A[k, i] * B[j, k]
}
kernel softmax(X: f32[M, N] strides [ldx, 1]) -> Y: f32[M, N] strides [ldy, 1] {
  e[i, j] = exp(X[i, j] - max(k: N) X[i, k])
  Y[i, j] = e[i, j] / sum(k: N) e[i, k]
}
kernel map(X: f32[M, N] strides [ldx, 1], b: f32[N] strides [step]) -> Y: f32[M, N] strides [ldy, 1] {
  Y[i, j] = X[i, j] * 2 + b[j]
}
kernel copy(X: u8[M, N] strides [ldx, 1]) -> Y: u8[N, M] strides [ldy, 1] { Y[j, i] = X[i, j] }
kernel blur(X: f32[M, N] strides [ldx, 1]) -> Y: f32[M, N] strides [ldy, 1] {
  H[i, j] = pad(X[i, j - 1], 0) + X[i, j] + repeat(X[i, j + 1])
  Y[i, j] = repeat(H[i - 1, j]) + H[i, j] + pad(H[i + 1, j], 0)
}
kernel gray(X: u8[M, N, 3] strides [ldx, 3, 1]) -> Y: f32[M, N] strides [ldy, 1] {
  Y[i, j] = f32(X[i, j, 0]) * 0.3 + f32(X[i, j, 1]) * 0.6 + f32(X[i, j, 2]) * 0.1
}
kernel pixels(X: f32[M, N, 3] strides [ldx, 4, 1]) -> Y: f32[M, N, 3] strides [3 * ldy, 3, 1] {
  Y[i, j, c] = X[i, j, 2 - c] + 1
}
kernel box(X: f32[B, M, N] strides [H * W, W, 1]) -> Y: f32[B, M, N] strides [1, B, B * ldy] {
  Y[b, i, j] = X[b, i, j] * 3
}
kernel bytes(A: u8[M, K] strides [lda, 1], B: i8[N, K] strides [ldb, 1]) -> C: i32[M, N] strides [ldc, 1] {
  C[i, j] = sum(k) i32(A[i, k]) * i32(B[j, k])
}
kernel running(X: f32[M, N] strides [ldx, 1]) -> S: f32[M, N] strides [lds, 1] {
  S[i, j] = scan(i) X[0, j] then S[i - 1, j] * 0.5 + X[i, j]
}
kernel along(X: f32[M, N] strides [1, ldx]) -> S: f32[M, N] strides [lds, 1] {
  S[i, j] = scan(j) X[i, 0] then S[i, j - 1] * 0.5 + X[i, j]
}
kernel best(X: f32[M, N] strides [ldx, 1]) -> v: f32[M] strides [step], at: i64[M] {
  v[i], at[i] = argmax(k: N) X[i, k]
}
kernel histogram(X: u8[M, N] strides [ldx, 1]) -> H: i32[256] strides [step] { H[b: 256] = sum(i, j) 1 into [i64(X[i, j])] }
kernel down(X: f32[2 * M, 2 * N] strides [ldx, 2]) -> Y: f32[M, N] strides [2 * ldy, 2] {
  Y[i, j] = sum(r: 2, s: 2) X[2 * i + r, 2 * j + s]
}
kernel gather(X: f32[M, N] strides [ldx, 1], I: i64[N] strides [step]) -> Y: f32[N] strides [step] { Y[j] = X[I[j], j] }
kernel sorted(X: f32[M, N] strides [ldx, 1]) -> Y: f32[M, N] strides [ldy, 1] {
  extern fill(X) -> Y: f32[M, N] {
    for i in [0, +M) { for j in [0, +N) { Y[i, j] = X[M - 1 - i, N - 1 - j] } }
  }
}
"""

OVER = """
kernel relu(X: f32[M, N]) -> Y: f32[M, N] over X { Y[i, j] = max(X[i, j], 0) }
kernel flip(X: f32[M, N]) -> Y: f32[M, N] over X { Y[i, j] = X[M - 1 - i, j] }
kernel square(X: f32[N, N] strides [ldx, 1]) -> Y: f32[N, N] over X { Y[i, j] = X[j, i] + X[i, j] }
kernel softmax(X: f32[M, N] strides [ldx, 1]) -> Y: f32[M, N] over X {
  e[i, j] = exp(X[i, j] - max(k: N) X[i, k])
  Y[i, j] = e[i, j] / sum(k: N) e[i, k]
}
kernel product(A: f32[M, N], B: f32[N, N]) -> C: f32[M, N] over A { C[i, j] = sum(k) A[i, k] * B[k, j] }
kernel update(C: f32[M, N] strides [ldc, 1], A: f32[M, K], B: f32[K, N]) -> D: f32[M, N] over C {
  P[i, j] = sum(k) A[i, k] * B[k, j]
  D[i, j] = C[i, j] + P[i, j]
}
kernel heat(X: f32[M, N]) -> Y: f32[M, N] over X {
  Y[i, j] = (repeat(X[i - 1, j]) + repeat(X[i + 1, j]) + repeat(X[i, j - 1]) + repeat(X[i, j + 1])) / 4
}
kernel ahead(X: f32[N]) -> Y: f32[N] over X { Y[i] = X[i] + repeat(X[i + 1]) }
kernel behind(X: f32[N]) -> Y: f32[N] over X { Y[i] = X[i] + repeat(X[i - 1]) }
kernel running(X: f32[M, N]) -> S: f32[M, N] over X { S[i, j] = scan(i) X[0, j] then S[i - 1, j] * 0.5 + X[i, j] }
kernel backwards(X: f32[M, N]) -> S: f32[M, N] over X { S[i, j] = scan(-j) X[i, N - 1] then S[i, j + 1] + X[i, j] }
kernel two(X: f32[N], V: f32[N], dt: f32) -> P: f32[N] over X, W: f32[N] over V {
  P[i] = X[i] + dt * V[i]
  W[i] = V[i] - dt * X[i]
}
kernel norm(X: f32[N]) -> Y: f32[N] over X { Y[i] = X[i] / sqrt((sum(k) X[k] * X[k]) + 1) }
kernel scatter(X: f32[N], I: i64[M], V: f32[M]) -> Y: f32[N] over X { Y[i: N] = sum(m) V[m] into [I[m]] from X[i] }
kernel filtered(X: f32[N], w: f32[5]) -> Y: f32[N] over X { Y[i] = sum(r) pad(X[i + r - 2], 0) * w[r] }
"""


class Memory:
    """Bytes whose end, or beginning, is the edge of what may be touched."""

    def __init__(self, size, at_end):
        self.whole = (size + PAGE - 1) // PAGE * PAGE + 2 * PAGE
        self.base = LIBC.mmap(None, self.whole, 3, 0x22, -1, 0)
        for edge in (0, self.whole - PAGE):
            LIBC.mprotect(self.base + edge, PAGE, 0)
        self.address = self.base + (self.whole - PAGE - size if at_end else PAGE)

    def __del__(self):
        LIBC.munmap(self.base, self.whole)


def kernels(text):
    """Name, parameters before and behind the arrow, and text of each."""
    for part in re.split(r"^(?=kernel )", text.strip(), flags=re.M):
        if part:
            before, behind = part.split("->", 1)
            yield re.match(r"kernel (\w+)", part)[1], PARAM.findall(before), PARAM.findall(behind.split("{")[0]), part


def dense(text):
    return re.sub(r" strides \[[^\]]*\]| over \w+", "", text)


def dims_of(*params):
    """Names in the order in which shapes and strides have them."""
    found = {}
    for _, _, shape, strides, _ in params:
        for name in re.findall(r"[A-Za-z]\w*", shape) + re.findall(r"[A-Za-z]\w*", strides):
            found.setdefault(name, None)
    return list(found)


class StridesTest(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = Path(scratch.name)

    def library(self, text, name, *options):
        (self.folder / f"{name}.te").write_text(text)
        base = self.folder / name
        tenon("build", f"{base}.te", "-o", base, *options)
        run(required("TENON_CC"), "-shared", "-Wl,-z,defs", f"{base}.o", "-o", f"{base}.so", "-lm")
        return ctypes.CDLL(f"{base}.so")

    def place(self, values, strides, at_end):
        """The tensor in memory that ends behind its last element; its neighbours are marked."""
        count = 1 + sum((n - 1) * s for n, s in zip(values.shape, strides))
        memory = Memory(count * values.itemsize, at_end)
        flat = np.frombuffer((ctypes.c_char * (count * values.itemsize)).from_address(memory.address), values.dtype)
        flat.view(np.uint8)[:] = 0x7B
        view = np.lib.stride_tricks.as_strided(flat, values.shape, [s * values.itemsize for s in strides], writeable=True)
        untouched = np.ones(count, bool)
        np.lib.stride_tricks.as_strided(untouched, values.shape, strides, writeable=True)[...] = False
        view[...] = values
        return memory, flat, view, untouched

    def check(self, own, reference, kernel, sizes, fixed, at_end, rng, first):
        name, inputs, outputs, _ = kernel
        given = {d: sizes[d] for d in dims_of(*inputs, *outputs)}

        def number(text):
            return eval(text, {}, given)  # noqa: S307: of the lines above

        shapes = {p[0]: tuple(number(n) for n in p[2].split(",")) for p in inputs + outputs}
        arrays = {}
        for n, t, *_ in inputs:
            integer = TYPES[t] in (np.int64, np.int32)
            values = rng.integers(0, 4, shapes[n]) if integer else rng.normal(size=shapes[n]) * 40
            arrays[n] = (np.abs(values) if t == "u8" else values).astype(TYPES[t])
        wanted = {p[0]: np.zeros(shapes[p[0]], TYPES[p[1]]) for p in outputs}
        scalars = [ctypes.c_float(0.25)] if name == "two" else []
        open_dims = [] if fixed else [given[d] for d in dims_of(*[(*p[:3], "", "") for p in inputs + outputs])]
        order = [ctypes.c_void_p(a.ctypes.data) for a in arrays.values()]
        at = len(order) if name == "two" else 0
        order = order[:at] + scalars + order[at:] + [ctypes.c_void_p(a.ctypes.data) for a in wanted.values()]
        self.assertEqual(reference[name](*first, *map(ctypes.c_int64, open_dims), *order), 0)
        placed, over = {}, {}
        for n, _, _, strides, onto in inputs + outputs:
            values = arrays[n] if n in arrays else np.zeros(shapes[n], wanted[n].dtype)
            steps = [number(s) for s in strides.split(",")] if strides else [int(np.prod(values.shape[d + 1:])) for d in range(values.ndim)]
            if onto:
                over[n] = onto
            else:
                placed[n] = self.place(values, steps, at_end)
        pointers = [ctypes.c_void_p(placed[p[0]][0].address) for p in inputs]
        pointers = pointers[:at] + scalars + pointers[at:] + [ctypes.c_void_p(placed[p[0]][0].address) for p in outputs if p[0] not in over]
        open_dims = [] if fixed else [given[d] for d in dims_of(*inputs, *outputs)]
        self.assertEqual(own[name](*first, *map(ctypes.c_int64, open_dims), *pointers), 0, name)
        for n, expected in wanted.items():
            _, flat, view, untouched = placed[over.get(n, n)]
            np.testing.assert_allclose(view, expected, rtol=2e-4, atol=2e-3, err_msg=f"{name} {given} {fixed}")
            self.assertTrue((flat.view(np.uint8).reshape(len(flat), -1)[untouched] == 0x7B).all(), name)

    def check_all(self, text, *options, all_sizes=True):
        rng = np.random.default_rng(5)
        first = [ctypes.c_void_p(None)] if "--threads" in options else []  # without an environment: on this thread
        every = list(kernels(text))
        few = ({"M": 37, "N": 53, "K": 29, "B": 3},)
        for sizes in few + (({"M": 64, "N": 96, "K": 48, "B": 2}, {"M": 5, "N": 3, "K": 7, "B": 1}) if all_sizes else ()):
            wide = 2 * max(sizes.values()) + 11
            names = {d for k in every for d in dims_of(*k[1], *k[2])} - set(sizes)
            sizes = sizes | {d: wide + 2 * i for i, d in enumerate(sorted(names))} | {"step": 3}
            sizes |= {"ldx": 4 * wide}
            for fixed in (False, True):
                dims = ["--dim", ",".join(f"{d}={sizes[d]}" for d in {x for k in every for x in dims_of(*k[1], *k[2])})] if fixed else []
                plain = ["--dim", ",".join(f"{d}={sizes[d]}" for d in {x for k in every for x in dims_of(*[(*p[:3], "", "") for p in k[1] + k[2]])})] if fixed else []
                number = len(list(self.folder.glob("*.so")))
                own = self.library(text, f"own{number}", *dims, *options)
                reference = self.library(dense(text), f"dense{number}", *plain, *options)
                for kernel in every:
                    with self.subTest(kernel[0], sizes=sizes, fixed=fixed):
                        for at_end in (True, False):
                            self.check(own, reference, kernel, sizes, fixed, at_end, rng, first)

    def test_strides(self):
        self.check_all(KERNELS)

    def test_strides_in_threads_of_another_target(self):
        self.check_all(KERNELS, "--target", "x86-64-v3", "--threads", "4", all_sizes=False)

    def test_over_inputs(self):
        self.check_all(OVER)

    def test_over_inputs_in_threads_of_another_target(self):
        self.check_all(OVER, "--target", "x86-64-v3", "--threads", "4", all_sizes=False)


if __name__ == "__main__":
    unittest.main()
