#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Models that become C alone: what the files need, what compilers say of them, machines with another order of bytes, and
what is refused. That results are right is tested by test_emit_c.py and its like with TENON_EMIT_TARGET=c99."""

import os
import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto

import tenon
from product import LIGHT, graph, info, node, required, run, tenon as cli
from test_emit_c import constant, model_of

FLOAT, INT64, BOOL, HALF, DOUBLE = (TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL, TensorProto.FLOAT16,
                                    TensorProto.DOUBLE)

DECLARATIONS = Path(__file__).resolve().parents[2] / "bench" / "declarations"

# A machine that has nothing: results go to its standard output by system calls of Linux.
BARE = """
#include <stddef.h>
#include "m.h"

static unsigned char workspace[1 << 16] __attribute__((aligned(64)));
static unsigned char out[1 << 12] __attribute__((aligned(64)));

static long call(long number, long a, const void *b, long c) {
  register long x8 __asm__("x8") = number;
  register long x0 __asm__("x0") = a;
  register const void *x1 __asm__("x1") = b;
  register long x2 __asm__("x2") = c;
  __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2) : "memory");
  return x0;
}

void *memcpy(void *restrict to, const void *restrict from, size_t size) {
  size_t i;
  for (i = 0; i < size; i++) ((volatile char *)to)[i] = ((const char *)from)[i];
  return to;
}
void *memset(void *to, int byte, size_t size) {
  size_t i;
  for (i = 0; i < size; i++) ((volatile char *)to)[i] = (char)byte;
  return to;
}

void _start(void) {
  static const float x[] = {INPUT};
  const void *const inputs[] = {x};
  void *outputs[OUTPUTS];
  int64_t sizes[] = {SIZES}, at = 0;
  int32_t status;
  int i;
  for (i = 0; i < OUTPUTS; i++) outputs[i] = out + at, at += (sizes[i] + 63) / 64 * 64;
  status = sizeof workspace < TN_M_MAIN_WORKSPACE ? 99 : tn_m_main(inputs, outputs, workspace);
  for (i = 0; i < OUTPUTS; i++) call(64, 1, outputs[i], (long)sizes[i]);
  call(93, status, 0, 0);
}
"""
STRING_H = """
#include <stddef.h>
void *memcpy(void *restrict to, const void *restrict from, size_t size);
void *memmove(void *to, const void *from, size_t size);
void *memset(void *to, int byte, size_t size);
"""


def of_many_types(rng):
    """Constants of every size, with numbers that have no digits."""
    odd = np.array([np.inf, -np.inf, np.nan, -0.0, 1e-45, 3.4e38], np.float32)
    return model_of(
        [node("MatMul", ["x", "w"], ["p"]), node("Erf", ["p"], ["e"]), node("Sqrt", ["e"], ["y"]),
         node("ReduceSum", ["x"], ["s"], keepdims=0), node("Add", ["odd", "s"], ["o"]),
         node("Cast", ["s"], ["d"], to=DOUBLE), node("Mul", ["d", "wide"], ["l"]),
         node("Cast", ["s"], ["i"], to=INT64), node("Add", ["i", "whole"], ["k"]),
         node("Cast", ["s"], ["h"], to=HALF), node("Mul", ["h", "half"], ["g"]),
         node("Cast", ["s"], ["c"], to=BOOL), node("And", ["c", "flags"], ["f"])],
        [info("x", FLOAT, [4, 8])],
        [info("y", FLOAT, [4, 16]), info("o", FLOAT, [6]), info("l", DOUBLE, [3]), info("k", INT64, [3]), info("g", HALF, [3]),
         info("f", BOOL, [3])],
        [constant("w", rng.normal(size=(8, 16)).astype(np.float32)), constant("odd", odd), constant("wide", np.array([1e300, -2.5, 3e-310])),
         constant("whole", np.array([1 << 60, -5, 7])), constant("half", np.array([0.5, 1000, -3], np.float16)),
         constant("flags", np.array([True, False, True]))])


class C99(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = Path(scratch.name)
        self.rng = np.random.default_rng(7)

    def save(self, model):
        onnx.save(model, self.folder / "a.onnx")
        return self.folder / "a.onnx"

    def emit(self, model, name="m", *options):
        said = cli("compile", self.save(model), "--emit", "c", "--target", "c99", "-o", self.folder / name, "--no-cache", *options)
        self.assertEqual(said.stdout, f"{self.folder / name}.c, {self.folder / name}.h\n")
        return self.folder / f"{name}.c"

    def perceptron(self):
        return model_of([node("MatMul", ["x", "w"], ["p"]), node("Tanh", ["p"], ["t"]), node("LayerNormalization", ["t", "g"], ["y"])],
                        [info("x", FLOAT, ["n", 8])], [info("y", FLOAT, ["n", 16])],
                        [constant("w", self.rng.normal(size=(8, 16)).astype(np.float32)), constant("g", np.ones(16, np.float32))])

    def test_files_need_memory_functions_alone(self):
        source = self.emit(self.perceptron())
        text = source.read_text(encoding="utf-8")
        self.assertNotRegex(text, r"\blong\b|#include <(?!float|stdint|stddef)")
        self.assertFalse((self.folder / "m.o").exists())
        for compiler in filter(None, (required("TENON_CC"), shutil.which("clang-19"), shutil.which("clang"))):
            for flags in (("-O0",), ("-O2", "-ffreestanding"), ("-O3", "-march=x86-64-v3")):
                if "-march=x86-64-v3" in flags and os.uname().machine != "x86_64":
                    continue
                run(compiler, "-std=c99", "-Wall", "-Wextra", "-pedantic", "-Werror", *flags, "-c", "-o", self.folder / "m.o", source)
                wanted = run("nm", "-u", self.folder / "m.o").stdout.split()[1::2]
                self.assertLessEqual(set(wanted), {"memcpy", "memmove", "memset"}, (compiler, flags))

    def test_arithmetic_that_would_be_changed_is_refused(self):
        """test_c_flags.py covers all options."""
        source = self.emit(self.perceptron())
        said = run(required("TENON_CC"), "-std=c99", "-O2", "-ffast-math", "-c", "-o", self.folder / "m.o", source, status=1).stderr
        self.assertIn("cannot keep results right: -ffast-math or -Ofast changes arithmetic; add -fno-fast-math", said)

    def test_networks_and_declarations_without_a_warning(self):
        for path in [*sorted(LIGHT.glob("light_*.onnx")), *sorted(DECLARATIONS.glob("*.te"))]:
            command = ("build", path, "--emit", "c99", "-o", self.folder / "m.c") if path.suffix == ".te" else (
                "compile", path, "--emit", "c", "-o", self.folder / "m")
            cli(*command, "--target", "c99", "--no-measure")
            for compiler in (required("TENON_CC"), required("TENON_OTHER_CC")):
                with self.subTest(f"{path.name} {compiler}"):
                    run(compiler, "-std=c99", "-Wall", "-Wextra", "-pedantic", "-Werror", "-fsyntax-only", self.folder / "m.c")

    def test_machines_of_32_bits(self):
        source = self.emit(of_many_types(self.rng))
        (self.folder / "string.h").write_text(STRING_H, encoding="utf-8")
        if os.uname().machine == "x86_64":
            run(required("TENON_CC"), "-m32", "-msse2", "-mfpmath=sse", "-ffreestanding", f"-I{self.folder}", "-std=c99", "-Wall", "-Wextra", "-pedantic",
                "-Werror", "-O2", "-S", "-o", self.folder / "m.s", source)

    def test_the_other_order_of_bytes(self):
        """The program of a bare AArch64 in either order, under an emulator, says what the runtime here says."""
        emulator, compiler = os.environ.get("TENON_EMULATOR"), os.environ.get("TENON_AARCH64_CC")
        if not emulator or not compiler:
            self.skipTest("there is no compiler, or no emulator, of another machine")
        model = of_many_types(self.rng)
        self.emit(model)
        x = self.rng.normal(size=(4, 8)).astype(np.float32)
        wanted = tenon.compile(model, cache=False, threads=1)(x)
        text = BARE.replace("INPUT", ", ".join(float(v).hex() + "f" for v in x.reshape(-1)))
        text = text.replace("OUTPUTS", str(len(wanted))).replace("SIZES", ", ".join(str(w.nbytes) for w in wanted))
        (self.folder / "program.c").write_text(text, encoding="utf-8")
        (self.folder / "string.h").write_text(STRING_H, encoding="utf-8")
        for order, ending in ((">", "_be"), ("<", "")):
            run(compiler, *(["-mbig-endian"] if ending else []), "-std=c99", "-Wall", "-Wextra", "-Werror", "-O1", "-ffreestanding",
                "-nostdlib", "-static", f"-I{self.folder}", "-o", self.folder / "program", self.folder / "program.c",
                self.folder / "m.c")
            result = subprocess.run([emulator + ending, self.folder / "program"], capture_output=True, check=False)
            self.assertEqual(result.returncode, 0, result.stderr)
            at = 0
            for want in wanted:
                got = np.frombuffer(result.stdout[at:at + want.nbytes], want.dtype.newbyteorder(order)).reshape(want.shape)
                np.testing.assert_allclose(got.astype(np.float64), want.astype(np.float64), rtol=2e-5, atol=2e-6)
                at += want.nbytes
            self.assertEqual(at, len(result.stdout))

    def test_the_same_bytes_again(self):
        first = self.emit(self.perceptron(), "m").read_bytes()
        header = (self.folder / "m.h").read_bytes()
        self.rng = np.random.default_rng(7)
        self.assertEqual(self.emit(self.perceptron(), "m").read_bytes(), first)
        self.assertEqual((self.folder / "m.h").read_bytes(), header)

    def test_models_without_kernels_and_two_in_one_program(self):
        self.emit(model_of([node("Identity", ["x"], ["y"])], [info("x", FLOAT, [3])], [info("y", FLOAT, [3])]), "a")
        self.emit(self.perceptron(), "b")
        self.rng = np.random.default_rng(7)
        self.emit(self.perceptron(), "c")
        (self.folder / "p.c").write_text('#include "a.h"\n#include "b.h"\n#include "c.h"\nint main(void) { float x[3] = {1, 2, 3}, y[3];\n'
                                         "  const void *in[] = {x};\n  void *out[] = {y};\n"
                                         "  return tn_a_main(in, out, 0) != 0 || y[2] != 3; }\n", encoding="utf-8")
        run(required("TENON_CC"), "-std=c99", "-Wall", "-Wextra", "-pedantic", "-Werror", "-O2", "-flto", "-o", self.folder / "p",
            *(self.folder / f"{name}.c" for name in "pabc"))
        run(self.folder / "p")

    # ---- refused

    def test_executables_of_c_are_refused(self):
        model = self.save(self.perceptron())
        said = cli("compile", model, "--target", "c99", "-o", self.folder / "m.tnx", "--no-cache", status=1).stderr
        self.assertEqual(said, "tenon: kernels for c99 are C, which no executable runs: --emit c writes the model as FILE.c and "
                         "FILE.h\n")
        self.assertFalse((self.folder / "m.tnx").exists())
        for command in (("run",), ("explain",)):
            said = cli(*command, model, "--target", "c99", "--dim", "n=2", "--no-cache", status=1).stderr
            self.assertIn("the kernels for cpu:0 are C99, which a compiler of C has to translate: `tenon compile --target c99 --emit c` "
                          "writes the model as a C file and a header; to run it here, compile it for this machine", said)
        with self.assertRaisesRegex(Exception, "the kernels for cpu:0 are C99"):
            tenon.compile(self.perceptron(), target="c99", cache=False)

    def test_stages_of_machine_code_are_refused(self):
        model = self.save(self.perceptron())
        for stage in ("llvm", "asm"):
            self.assertIn(f'target "c99": no code generator makes {stage} for c99; one does for cpu',
                          cli("compile", model, "--target", "c99", "--emit", stage, status=1).stderr)
        self.assertIn('target "c99": for c99 there is source text alone: `tenon build --emit c99` writes that of declarations, and '
                      "`tenon compile --emit c` that of models",
                      cli("compile", model, "--target", "c99", "--emit", "obj", "-o", self.folder / "x", status=1).stderr)
        self.assertRegex(cli("compile", model, "--target", "c99", "--emit", "tir").stdout, r"func dot_general")

    def test_other_devices_are_refused(self):
        model = self.save(self.perceptron())
        said = cli("compile", model, "--target", "c99; island", "--place", "*=island", "--emit", "c", "-o", self.folder / "m",
                   "--no-cache", status=1).stderr
        self.assertIn('function "main" cannot become a C function: it has values on island:0, and C runs on the CPU alone', said)
        said = cli("compile", model, "--target", "c99; x86-64-v3 -device=1", "--place", "*=cpu:1", "--emit", "c", "-o",
                   self.folder / "m", "--no-cache", status=1).stderr
        self.assertRegex(said, r'function "main" cannot become a C function: .*: it runs on cpu:1, which is x86-64-v3, and C calls what is '
                               "C alone")
        said = cli("compile", model, "--target", "cpu; c99 -device=1", "--place", "*=cpu:1", "-o", self.folder / "m.tnx", "--no-cache",
                   status=1).stderr
        self.assertRegex(said, r"is placed on cpu:1 \(c99\), and a program has C for its host alone, which calls nothing but C")

    def test_what_would_be_overwritten(self):
        path = self.folder / "m.c"
        shutil.copy(self.save(self.perceptron()), path)
        self.assertIn("the result would take the place of", cli("compile", f"main={path}", "--emit", "c", "--target", "c99", "-o",
                                                                self.folder / "m", status=2).stderr)


if __name__ == "__main__":
    unittest.main()
