#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Emitted C under compiler options. If an option breaks an assumption about arithmetic, the C does not compile, and
the error names a remedy. Under all other options results equal those of a plain compilation, bit for bit."""

import os
import re
import shutil
import tempfile
import unittest
from pathlib import Path

import numpy as np

from product import required, run, tenon as cli

COUNT = 512
X86 = os.uname().machine == "x86_64"
FUNCTIONS = ("exp", "expm1", "log", "log1p", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh",
             "atanh", "erf", "sqrt", "rsqrt", "floor", "ceil", "trunc", "round_even", "abs")
BINARY = ("pow", "atan2", "min", "max")
OTHERS = {"mod": "X[i] % Z[i]", "logistic": "1 / (1 + exp(-X[i]))", "whole": "T(i32(X[i]))", "unsigned": "T(u8(X[i]))", "long": "T(i64(X[i]))", "half": "T(f16(X[i]))",
          "brain": "T(bf16(X[i]))", "fused": "fma(X[i], Z[i], X[i])", "plain": "X[i] * Z[i] + X[i]", "quotient": "X[i] / Z[i]",
          "thirds": "X[i] / 3", "kept": "(X[i] + 0) * 1", "most": "max(k: 4) X[(i + k) % 512]", "sum": "sum(k: 64) X[(i + k) % 512]",
          "chosen": "select(X[i] == X[i], X[i], Z[i])", "order": "select(X[i] < Z[i], 1, select(X[i] >= Z[i], 2, 3))"}
TYPES = {"f32": ("float", np.float32), "f64": ("double", np.float64)}

# -O1 plus optimisations based on aliasing and overflow rules.
PLAIN = ("-std=c99", "-Wall", "-Wextra", "-Werror", "-O1", "-fstrict-aliasing")
# Rejected options, and the words of the message.
REFUSED = [("-ffast-math", "-fno-fast-math"), ("-Ofast -Wno-error", "-fno-fast-math"), ("-ffinite-math-only", "-fno-finite-math-only")]
X87 = [("-m32", "-msse2 -mfpmath=sse")]
REFUSED_BY = {
    "gcc": [("-funsafe-math-optimizations", "-fno-unsafe-math-optimizations"),
            ("-fassociative-math -fno-signed-zeros -fno-trapping-math", "-fno-associative-math"),
            ("-freciprocal-math", "-fno-reciprocal-math"), ("-fno-signed-zeros", "-fsigned-zeros"),
            ("-ffast-math -fno-finite-math-only", "-fno-unsafe-math-optimizations"), ("-fsingle-precision-constant", "without_fsingle_precision")],
    "clang": [("-fno-honor-nans", "add -fhonor-nans"), ("-fno-honor-infinities", "add -fhonor-nans -fhonor-infinities")],
}
X87_BY = {"gcc": [("-mfpmath=387", "-msse2 -mfpmath=sse"), ("-m32 -msse2", "-msse2 -mfpmath=sse")],
          "clang": [("-m32 -march=pentium3", "-msse2 -mfpmath=sse")]}
# Options without effect on results, grouped for compilers that support them.
HARMLESS = ["-fno-math-errno -fno-trapping-math -funsigned-char -fshort-enums -fwrapv -O2", "-frounding-math -fno-strict-aliasing -ftrapv"]
HARMLESS_BY = {
    "gcc": ["-fsignaling-nans -fno-builtin -ffast-math -fno-fast-math -ffloat-store"],
    # clang has no macros for these, so pragmas in the C override them.
    "clang": ["-fno-signed-zeros -fassociative-math -freciprocal-math -fapprox-func -fno-trapping-math", "-ffast-math -fno-finite-math-only",
              "-ffp-model=strict"],
}
# Fused multiply-add: an option must not make gcc form more of them; with clang results must stay close.
FUSED = "-march=x86-64-v3 -O2"
CONTRACTED = " -ffp-contract=fast"
BITS32 = os.environ.get("TENON_BITS32")  # where its libraries are installed

PROGRAM = """
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#ifdef FLUSH
#include <xmmintrin.h>
#endif
PROTOTYPES
static float xf[COUNT], zf[COUNT], yf[COUNT];
static double xd[COUNT], zd[COUNT], yd[COUNT];
static void get(FILE *file, void *data, size_t size) { if (fread(data, size, COUNT, file) != COUNT) exit(9); }
int main(int argc, char **argv) {
  FILE *in = fopen(argv[1], "rb"), *out = fopen(argv[2], "wb");
  if (argc != 3 || !in || !out) return 8;
  get(in, xf, 4), get(in, zf, 4), get(in, xd, 8), get(in, zd, 8);
#ifdef FLUSH
  _mm_setcsr(_mm_getcsr() | 0x8040); /* numbers below the normal range are zeros */
#endif
CALLS
  return fclose(out) != 0;
}
"""


def same(want, got):
    """Whether bits are equal, except those of NaNs."""
    nan = np.isnan(want) & np.isnan(got)
    bits = f"u{want.dtype.itemsize}"
    return nan | (want.view(bits) == got.view(bits))


class Flags(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.scratch.cleanup)
        cls.folder = Path(cls.scratch.name)
        expressions = {name: f"{name}(X[i])" for name in FUNCTIONS} | {name: f"{name}(X[i], Z[i])" for name in BINARY} | OTHERS
        cls.results, cls.plain_results = [], {}
        kernels, prototypes, calls = [], [], []
        for kind, (ctype, dtype) in TYPES.items():
            for name, text in expressions.items():
                text = text.replace("T(", f"{kind}(")
                kernels.append(f"kernel {name}_{kind}(X: {kind}[{COUNT}], Z: {kind}[{COUNT}]) -> Y: {kind}[{COUNT}] {{\n"
                               f"  Y[i: {COUNT}] = {text}\n}}\n")
                prototypes.append(f"int32_t {name}_{kind}(const {ctype} *, const {ctype} *, {ctype} *);")
                letter = ctype[0]
                calls.append(f"  if ({name}_{kind}(x{letter}, z{letter}, y{letter}) != 0) return 7;\n"
                             f"  if (fwrite(y{letter}, sizeof *y{letter}, COUNT, out) != COUNT) return 6;")
                cls.results.append((f"{name}_{kind}", dtype))
        (cls.folder / "k.te").write_text("\n".join(kernels), encoding="utf-8")
        cli("build", cls.folder / "k.te", "--emit", "c99", "--target", "c99", "--no-measure", "-o", cls.folder / "k.c")
        program = PROGRAM.replace("PROTOTYPES", "\n".join(prototypes)).replace("CALLS", "\n".join(calls)).replace("COUNT", str(COUNT))
        (cls.folder / "p.c").write_text(program, encoding="utf-8")
        cls.inputs("input", cls.numbers(tiny=True))
        cls.inputs("normal", cls.numbers(tiny=False))
        cls.compilers = {"gcc" if "gcc" in Path(path).resolve().name else "clang": path for path in
                         filter(None, (shutil.which("gcc"), shutil.which("clang-19") or shutil.which("clang")))}
        if not cls.compilers:
            cls.compilers = {"clang": required("TENON_CC")}

    @staticmethod
    def numbers(tiny):
        """x and z of each type: usual values, large ones, halves, integers, infinities, NaNs, zeros."""
        rng, arrays = np.random.default_rng(3), []
        for _, dtype in TYPES.values():
            info = np.finfo(dtype)
            x, z = rng.normal(size=(2, COUNT)) * np.where(np.arange(COUNT) % 4 == 0, 40, 3)
            x[:64] = np.arange(-32, 32) / 2
            x[64:70] = 1e5, -3e6, 1e30, 2.0**31, -2.0**63, 255.5
            x, z = x.astype(dtype), z.astype(dtype)
            special = [np.inf, -np.inf, np.nan, 0.0, -0.0, 1, -1, info.max, info.smallest_normal * 2.0**60]
            if tiny:
                special += [info.smallest_normal, info.smallest_subnormal, -info.smallest_subnormal * 5]
            pairs = np.array([(a, b) for a in special for b in special], dtype)
            x[100:100 + len(pairs)], z[100:100 + len(pairs)] = pairs.T
            arrays += [x, z]
        return arrays

    @classmethod
    def inputs(cls, name, arrays):
        (cls.folder / name).write_bytes(b"".join(array.tobytes() for array in arrays))

    def compile(self, compiler, flags, name, *, more=(), status=0):
        return run(compiler, *PLAIN, *flags.split(), *more, "-c", "-o", self.folder / f"{name}.o", self.folder / "k.c", status=status)

    def plain(self, compiler):
        """The reference results."""
        if compiler not in self.plain_results:
            self.plain_results[compiler] = self.compute(compiler, "")
        return self.plain_results[compiler]

    def compute(self, compiler, flags, *, inputs="input", program=(), link=""):
        name = "p"
        self.compile(compiler, flags, name)
        run(compiler, *PLAIN, *link.split(), *program, "-o", self.folder / name, self.folder / "p.c", self.folder / f"{name}.o")
        run(self.folder / name, self.folder / inputs, self.folder / "out")
        data, at, results = (self.folder / "out").read_bytes(), 0, {}
        for kernel, dtype in self.results:
            results[kernel] = np.frombuffer(data, dtype, COUNT, at)
            at += results[kernel].nbytes
        self.assertEqual(at, len(data))
        return results

    def assert_equal(self, want, got):
        wrong = {kernel: int((~same(want[kernel], got[kernel])).sum()) for kernel in want}
        self.assertEqual({kernel: count for kernel, count in wrong.items() if count}, {})

    # ---- rejected options

    def test_options_that_change_arithmetic_are_refused(self):
        for kind, compiler in self.compilers.items():
            x87 = X87 + X87_BY[kind] if X86 else []
            for flags, help_ in REFUSED + REFUSED_BY[kind] + x87:
                with self.subTest(f"{kind} {flags}"):
                    # The first message suffices, and 32-bit libraries are not needed.
                    said = self.compile(compiler, f"{flags} -ffreestanding -fsyntax-only", "r", status=1).stderr
                    self.assertIn(help_, said)

    def test_what_the_messages_name_helps(self):
        for kind, compiler in self.compilers.items():
            for flags, _ in REFUSED + REFUSED_BY[kind]:
                with self.subTest(f"{kind} {flags}"):
                    tried = flags
                    for _ in range(4):
                        said = self.compile(compiler, f"{tried} -fsyntax-only", "r", status=None)
                        if said.returncode == 0:
                            break
                        help_ = re.search(r"; add ((-\S+ ?)+)|/\* add ((-\S+ ?)+)\*/|without_f(single_precision)_constant", said.stderr)
                        tried += f" {help_[1] or help_[3] or '-fno-single-precision-constant'}".replace('"', "")
                    self.assertEqual(said.returncode, 0, said.stderr)

    # ---- options without effect

    def test_other_options_change_no_bit(self):
        for kind, compiler in self.compilers.items():
            want = self.plain(compiler)
            for flags in HARMLESS + HARMLESS_BY[kind]:
                with self.subTest(f"{kind} {flags}"):
                    self.assert_equal(want, self.compute(compiler, flags))

    def test_compilers_agree(self):
        if len(self.compilers) < 2:
            self.skipTest("there is one compiler")
        self.assert_equal(*(self.plain(compiler) for compiler in self.compilers.values()))

    @unittest.skipUnless(X86, "SSE is x86's")
    def test_instructions_that_round_change_no_bit(self):
        """-0.5 converted to an integer and back is 0 and not -0, even where gcc has a truncating instruction."""
        for compiler in self.compilers.values():
            self.assert_equal(self.plain(compiler), self.compute(compiler, "-O2 -msse4.1"))

    @unittest.skipUnless(BITS32, "there are no libraries for 32 bits")
    def test_32_bits_with_sse_change_no_bit(self):
        for kind, compiler in self.compilers.items():
            with self.subTest(kind):
                self.assert_equal(self.plain(compiler), self.compute(compiler, BITS32, link=BITS32))

    @unittest.skipUnless(X86, "one machine's instruction")
    def test_contraction(self):
        for kind, compiler in self.compilers.items():
            with self.subTest(kind):
                want, got = self.compute(compiler, FUSED), self.compute(compiler, FUSED + CONTRACTED)
                if kind == "gcc":
                    self.assert_equal(want, got)
                    continue
                for kernel in want:  # one rounding fewer in a sum changes a function by at most two units
                    self.assert_near(kernel, want[kernel], got[kernel], 2 if kernel[:-4] in FUNCTIONS + BINARY else 0)

    def assert_near(self, kernel, want, got, units):
        self.assertTrue((np.isnan(want) == np.isnan(got)).all(), kernel)
        if kernel[:-4] not in ("plain", "logistic", "sum"):
            finite = np.isfinite(want) & np.isfinite(got)
            self.assertTrue((same(want, got) | finite).all(), kernel)
            bits = [np.abs(values[finite]).view(f"i{values.itemsize}") for values in (want, got)]
            self.assertLessEqual(np.abs(bits[0] - bits[1]).max(), units, kernel)

    @unittest.skipUnless(X86, "the test sets x86's mode")
    def test_where_small_numbers_are_zeros(self):
        """Other files with -ffast-math flush subnormal numbers to zero; nothing else changes."""
        compiler = required("TENON_CC")
        want = self.compute(compiler, "", inputs="normal")
        got = self.compute(compiler, "", inputs="normal", program=("-DFLUSH",))
        for kernel, dtype in self.results:
            tiny = np.abs(want[kernel]) < np.finfo(dtype).smallest_normal
            self.assertTrue((same(want[kernel], got[kernel]) | tiny).all(), kernel)


if __name__ == "__main__":
    unittest.main()
