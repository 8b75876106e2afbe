#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Models as objects and headers of C functions: compiled into C programs, whose results are those of the runtime, byte
for byte; with TENON_EMIT_TARGET=c99 kernels are C, too, and results agree."""

import os
import re
import resource
import signal
import subprocess
import tempfile
import unittest
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import tenon
from emit_c_batch import CODE, OPTIONS, assert_same, code_of
from product import graph, info, node, required, run, tenon as cli

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL

PROGRAM = """
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "m.h"

static void *memory(int64_t bytes) {
  void *data = 0;
  return posix_memalign(&data, 64, (size_t)bytes + 64) == 0 ? data : 0;
}

/* Of a tensor: where its elements may lie, and nothing larger. */
static void *elements(int64_t bytes) { return (char *)memory(bytes) + 8; }

static void *load(const char *path) {
  FILE *file = fopen(path, "rb");
  long size;
  void *data;
  if (!file) exit(9);
  fseek(file, 0, SEEK_END);
  size = ftell(file);
  rewind(file);
  data = elements(size);
  if (fread(data, 1, (size_t)size, file) != (size_t)size) exit(9);
  fclose(file);
  return data;
}

static void save(const char *folder, int index, const void *data, int64_t bytes) {
  char path[4096];
  FILE *file;
  snprintf(path, sizeof path, "%s/out%d", folder, index);
  file = fopen(path, "wb");
  if (!file || fwrite(data, 1, (size_t)bytes, file) != (size_t)bytes) exit(9);
  fclose(file);
}

/* FOLDER WORKSPACE SIZE... CAPACITY... : inputs are FOLDER/in0 and so on. */
int main(int argc, char **argv) {
  const char *folder = argv[1];
  int64_t workspace_bytes = atoll(argv[2]), used = -1, capacities[OUTPUTS + 1] = {0}, dims[OUTPUTS + 1][TN_M_MAX_RANK];
  const void *inputs[INPUTS + 1];
  void *outputs[OUTPUTS + 1], *workspace;
  int32_t status = 0;
  int i, round;
  char path[4096];
  memset(dims, 0, sizeof dims);
  if (argc != 3 + SIZES + OUTPUTS) return 8;
  for (i = 0; i < INPUTS; i++) {
    snprintf(path, sizeof path, "%s/in%d", folder, i);
    inputs[i] = load(path);
  }
  for (i = 0; i < OUTPUTS; i++) {
    capacities[i] = atoll(argv[3 + SIZES + i]);
    outputs[i] = elements(capacities[i]);
  }
  SHARE
  ASK
  workspace = memory(workspace_bytes);
  for (round = 0; round < ROUNDS && status == 0; round++) status = CALL;
  printf("%d\\n", (int)status);
  if (status != 0) printf("%s\\n%s\\n", tn_m_message(status), tn_m_place(status));
  DIMS
  if (used >= 0) printf("used %lld\\n", (long long)used);
  for (i = 0; i < OUTPUTS; i++) save(folder, i, outputs[i], capacities[i]);
  return 0;
}
"""


def constant(name, value):
    return numpy_helper.from_array(np.asarray(value), name)


def model_of(nodes, inputs, outputs, initializers=()):
    return helper.make_model(graph(nodes, inputs, outputs, initializers),
                             opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


def loop_of(nodes, states, body_outputs, outputs, **attributes):
    """A Loop over the inputs "m" and "go"; states are (name, start, type, shape)."""
    body = graph(nodes, [info("i", INT64, []), info("going", BOOL, [])]
                 + [info(name, kind, shape) for name, _, kind, shape in states],
                 [info(name, kind, shape) for name, kind, shape in body_outputs])
    return node("Loop", ["m", "go"] + [start for _, start, _, _ in states], outputs, body=body, **attributes)


class Program:
    """One model as a C program, and in the runtime.

    `sizes`: the names that the header gives to open dimensions. `late`: outputs have capacities. `planned`: the workspace
    is a constant or asked for, with the inputs when `by_value`; otherwise it is given."""

    def __init__(self, test, model, sizes=(), late=False, planned=True, by_value=False, rounds=1,
                 share=(), function="main", options=()):
        self.test, self.sizes, self.late, self.planned = test, sizes, late, planned
        self.folder = Path(tempfile.mkdtemp(dir=test.folder))
        models = model if isinstance(model, dict) else {"main": model}
        self.model, self.function = models[function], function
        names = []
        for name, one in models.items():
            onnx.save(one, self.folder / f"{name}.onnx")
            names.append(f"{name}={self.folder / name}.onnx" if isinstance(model, dict) else self.folder / f"{name}.onnx")
        cli("compile", *names, "--emit", "c", "-o", self.folder / "m", "--threads", "1", "--no-cache", *OPTIONS, *options)
        self.header = (self.folder / "m.h").read_text(encoding="utf-8")
        self.runtime = tenon.compile(self.model, cache=False, threads=1)
        upper = function.upper()
        numbers = [f"atoll(argv[{3 + k}])" for k in range(len(sizes))]
        given = numbers + (["inputs"] if by_value else [])
        fixed = f"#define TN_M_{upper}_WORKSPACE " in self.header
        ask = "" if fixed or not planned else \
            f"workspace_bytes = tn_m_{function}_workspace_size({', '.join(given)});\n" \
            f"  if (workspace_bytes < 0) {{ printf(\"%d\\n\", (int)-workspace_bytes); return 0; }}"
        if fixed:
            ask = f"workspace_bytes = TN_M_{upper}_WORKSPACE;"
        self.asks_dims = f"tn_m_{function}_output_dims(" in self.header and not late
        if self.asks_dims:
            ask += f"\n  status = tn_m_{function}_output_dims({', '.join(given + ['dims'])});"
        call = numbers + ["inputs", "outputs"] + (["capacities", "dims"] if late else []) + ["workspace"] \
            + ([] if planned else ["workspace_bytes", "&used"])
        text = PROGRAM
        tell = "".join(f'printf("dims");\n  for (i = 0; i < {len(o.type.tensor_type.shape.dim)}; i++) '
                       f'printf(" %lld", (long long)dims[{k}][i]);\n  printf("\\n");\n'
                       for k, o in enumerate(self.model.graph.output)) if late or self.asks_dims else ""
        for word, value in {"INPUTS": len(self.model.graph.input), "OUTPUTS": len(self.model.graph.output),
                            "SIZES": len(sizes), "ASK": ask, "CALL": f"tn_m_{function}({', '.join(call)})",
                            "ROUNDS": rounds, "DIMS": tell,
                            "SHARE": "\n  ".join(f"outputs[{o}] = (void *)(uintptr_t)inputs[{i}];"
                                                 for o, i in share)}.items():
            text = re.sub(rf"\b{word}\b", lambda _, v=str(value): v, text)
        (self.folder / "program.c").write_text(text, encoding="utf-8")
        run(required("TENON_CC"), "-std=c99", "-D_POSIX_C_SOURCE=200112L", "-Wall", "-Wextra", "-pedantic", "-Werror",
            "-O1", *self.test.flags, "-o", self.folder / "program", self.folder / "program.c",
            code_of(self.folder, self.test.flags))
        (self.folder / "other.cc").write_text('#include "m.h"\n', encoding="utf-8")
        run(required("TENON_CC"), "-x", "c++", "-std=c++11", "-Wall", "-Wextra", "-pedantic", "-Werror",
            "-fsyntax-only", self.folder / "other.cc")

    def call(self, inputs, sizes=(), capacities=None, workspace=1 << 16):
        """The lines printed, and the bytes of each output."""
        for i, value in enumerate(inputs):
            (self.folder / f"in{i}").write_bytes(np.ascontiguousarray(value).tobytes())
        printed = run(self.folder / "program", self.folder, workspace, *sizes, *capacities).stdout.splitlines()
        self.used = None
        if printed[-1].startswith("used "):
            self.used = int(printed.pop().split()[1])
        outputs = [path.read_bytes() if (path := self.folder / f"out{i}").exists() else None
                   for i in range(len(capacities))]
        return printed, outputs

    def check(self, *inputs, sizes=(), spare=0, workspace=1 << 16):
        """The program's results are the runtime's. `spare`: bytes that capacities have more than they need."""
        wanted = self.runtime(*inputs)
        wanted = list(wanted) if isinstance(wanted, (tuple, list)) else [wanted]
        printed, outputs = self.call(inputs, sizes, [w.nbytes + (spare if self.late else 0) for w in wanted], workspace)
        self.test.assertEqual(printed[0], "0", printed)
        if self.late or self.asks_dims:
            self.test.assertEqual(printed[1:], [" ".join(["dims", *map(str, w.shape)]) for w in wanted])
        for want, got in zip(wanted, outputs):
            assert_same(self.test, want, got[:want.nbytes])

    def fails(self, *inputs, sizes=(), capacities, workspace=1 << 16):
        """The kind of failure, the rest that is printed."""
        printed, _ = self.call(inputs, sizes, capacities, workspace)
        return int(printed[0]) % 16, printed[1:]


class Emitted(unittest.TestCase):
    flags = os.environ.get("TENON_CFLAGS", "").split()

    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = scratch.name
        self.rng = np.random.default_rng(3)

    def floats(self, *shape):
        return self.rng.normal(size=shape).astype(np.float32)

    def refused(self, model, *options):
        path = Path(self.folder) / "refused.onnx"
        onnx.save(model, path)
        return cli("compile", path, "--emit", "c", "-o", path.with_suffix(""), "--no-cache", *OPTIONS, *options, status=1).stderr


class EmitC(Emitted):
    # ---- open sizes

    def two_products(self, rows="n"):
        w, v = self.floats(8, 16), self.floats(16, 4)
        return model_of([node("MatMul", ["x", "w"], ["a"]), node("Softmax", ["a"], ["b"]), node("MatMul", ["b", "v"], ["c"]),
                         node("Concat", ["c", "y"], ["z"], axis=0)],
                        [info("x", FLOAT, [rows, 8]), info("y", FLOAT, ["m", 4])], [info("z", FLOAT, [None, 4])],
                        [constant("w", w), constant("v", v)])

    def test_open_dimensions_are_arguments(self):
        program = Program(self, self.two_products(), sizes=("n", "m"))
        self.assertIn("outputs[0]: f32[(n + m), 4] z", program.header)
        for n, m in ((1, 1), (3, 2), (64, 7), (0, 5), (0, 0)):
            program.check(self.floats(n, 8), self.floats(m, 4), sizes=(n, m))

    def test_far_dimensions_beside_none(self):
        """Nothing is walked that has no elements, be its size known before the call or found on the way."""
        model = model_of([node("Relu", ["x"], ["y"])], [info("x", FLOAT, ["n", "m"])], [info("y", FLOAT, ["n", "m"])])
        program = Program(self, model, sizes=("n", "m"))
        for shape in ((2**60, 0), (0, 2**60), (0, 3), (2, 3)):
            program.check(np.zeros(shape, np.float32), sizes=shape)
        model = model_of([node("Relu", ["x"], ["p"]), node("NonZero", ["p"], ["i"]), node("Shape", ["i"], ["s"]),
                          node("Concat", ["s", "far"], ["t"], axis=0), node("ConstantOfShape", ["t"], ["z"]),
                          node("Relu", ["z"], ["y"])],
                         [info("x", FLOAT, ["n"]), info("far", INT64, [1])], [info("y", FLOAT, [None] * 3)])
        program = Program(self, model, sizes=("n",), late=True)
        program.check(np.zeros(2, np.float32), np.array([2**60]), sizes=(2,))
        program.check(np.ones(2, np.float32), np.array([3]), sizes=(2,))

    def test_sizes_that_cannot_be(self):
        program = Program(self, self.two_products(), sizes=("n", "m"))
        x, y = self.floats(1, 8), self.floats(1, 4)
        for n in (-1, 2**62, 2**60 + 1):
            self.assertEqual(program.fails(x, y, sizes=(n, 1), capacities=[64])[0], 6)

    def test_names_that_c_has_already(self):
        model = model_of([node("Add", ["x", "y"], ["z"])],
                         [info("x", FLOAT, ["int", "a.b", "inputs"]), info("y", FLOAT, ["int", "a_b", "inputs"])],
                         [info("z", FLOAT, ["p", "q", "r"])])
        header = Path(self.folder) / "named.h"
        onnx.save(model, Path(self.folder) / "named.onnx")
        cli("compile", Path(self.folder) / "named.onnx", "--emit", "c", "-o", header.with_suffix(""), "--no-cache", *OPTIONS)
        self.assertIn("tn_named_main(int64_t int_, int64_t a_b, int64_t inputs_, int64_t a_b_2,",
                      header.read_text(encoding="utf-8").replace("\n    ", " "))

    def test_names_of_dimensions_that_the_header_uses(self):
        names = ("space", "int64_t", "INT64_MAX", "tn_m_context", "tni_m_context", "TN_M_H", "decltype", "bytes")
        model = model_of([node("Concat", [f"x{i}" for i in range(len(names))], ["z"], axis=0),
                          node("Softmax", ["z"], ["y"], axis=0)],
                         [info(f"x{i}", FLOAT, [name, 2]) for i, name in enumerate(names)],
                         [info("y", FLOAT, ["total", 2])])
        program = Program(self, model, sizes=[f"{name}_" for name in names])
        self.assertIn("int64_t " + ", int64_t ".join(program.sizes), program.header)
        sizes = range(1, 1 + len(names))
        program.check(*(self.floats(size, 2) for size in sizes), sizes=sizes)

    def test_a_check_of_the_model_becomes_a_status(self):
        model = model_of([node("Add", ["x", "y"], ["z"], name="sum")],
                         [info("x", FLOAT, ["n"]), info("y", FLOAT, ["m"])], [info("z", FLOAT, ["k"])])
        program = Program(self, model, sizes=("n", "m"))
        program.check(self.floats(5), self.floats(5), sizes=(5, 5))
        kind, said = program.fails(self.floats(5), self.floats(4), sizes=(5, 4), capacities=[20])
        self.assertEqual(kind, 5)
        self.assertEqual(said[0], 'node "sum" (Add, opset 20): dimension 0 of operand 0 is n, and dimension 0 of operand 1 is m: '
                         "they must be equal, or one of them 1")

    def test_special_sizes_are_chosen(self):
        program = Program(self, self.two_products(), sizes=("n", "m"), options=("--dim", "n=1,16"))
        self.assertIn("/* main_n_16 */", program.header)
        self.assertIn("/* main_any */", program.header)
        self.assertNotIn("tn_m_main_any(", program.header)
        for n in (1, 5, 16):
            x, y = self.floats(n, 8), self.floats(3, 4)
            want = program.runtime(x, y)
            printed, (got,) = program.call((x, y), (n, 3), [want.nbytes])
            self.assertEqual(printed[0], "0", printed)
            np.testing.assert_allclose(np.frombuffer(got, np.float32).reshape(want.shape), want, rtol=1e-5, atol=1e-6)

    def test_special_sizes_and_a_result_of_unknown_size(self):
        model = model_of([node("Relu", ["x"], ["p"]), node("NonZero", ["p"], ["y"])],
                         [info("x", FLOAT, ["n", 3])], [info("y", INT64, [2, None])])
        program = Program(self, model, sizes=("n",), late=True, planned=False, options=("--dim", "n=2,5"))
        for n in (2, 3, 5):
            program.check(self.floats(n, 3), sizes=(n,))
        kind, said = program.fails(np.ones((2, 3), np.float32), sizes=(2,), capacities=[2 * 6 * 8 - 1])
        self.assertEqual((kind, said[0], said[-1]), (7, "an output does not fit its capacity", "dims 2 6"))

    def test_sizes_that_are_values(self):
        model = model_of([node("Reshape", ["x", "shape"], ["a"]), node("Softmax", ["a"], ["b"], axis=1),
                          node("Transpose", ["b"], ["c"], perm=[1, 0]), node("Softmax", ["c"], ["y"], axis=1)],
                         [info("x", FLOAT, ["n"]), info("shape", INT64, [2])], [info("y", FLOAT, ["a", "b"])])
        program = Program(self, model, sizes=("n",), by_value=True)
        for shape in ((3, 4), (4, 3), (12, 1), (-1, 6)):
            program.check(self.floats(12), np.asarray(shape, np.int64), sizes=(12,))
        self.assertEqual(program.fails(self.floats(12), np.asarray((5, 5), np.int64), sizes=(12,), capacities=[100])[0], 5)

    def test_outputs_whose_size_only_running_tells(self):
        model = model_of([node("Relu", ["x"], ["p"]), node("NonZero", ["p"], ["y"])],
                         [info("x", FLOAT, ["n", 3])], [info("y", INT64, [2, None])])
        program = Program(self, model, sizes=("n",), late=True, planned=False)
        for n in (0, 1, 9):
            program.check(self.floats(n, 3), sizes=(n,))
            program.check(self.floats(n, 3), sizes=(n,), spare=100)
        x = np.ones((4, 3), np.float32)
        kind, said = program.fails(x, sizes=(4,), capacities=[2 * 12 * 8 - 1])
        self.assertEqual((kind, said[0], said[-1]), (7, "an output does not fit its capacity", "dims 2 12"))
        self.assertEqual(program.fails(x, sizes=(4,), capacities=[2 * 12 * 8], workspace=64)[0], 8)

    # ---- several functions, control flow

    def test_several_functions(self):
        w = self.floats(8, 8)

        def step(rows):
            return model_of([node("MatMul", ["x", "w"], ["y"])], [info("x", FLOAT, [rows, 8])],
                            [info("y", FLOAT, [rows, 8])], [constant("w", w)])
        models = {"prefill": step("n"), "decode": step(1)}
        prefill = Program(self, models, sizes=("n",), function="prefill")
        self.assertIn("tn_m_decode(const void *const *inputs, void *const *outputs, void *workspace)", prefill.header)
        prefill.check(self.floats(5, 8), sizes=(5,))
        Program(self, models, function="decode").check(self.floats(1, 8))

    def test_functions_named_as_helpers_are(self):
        w = self.floats(8, 4)
        model = model_of([node("MatMul", ["x", "w"], ["a"]), node("Softmax", ["a"], ["y"])], [info("x", FLOAT, ["n", 8])],
                         [info("y", FLOAT, ["n", 4])], [constant("w", w)])
        same = ("add", "copy", "env", "take", "bytes", "run_0", "space_0", "kernel_0", "load_i64", "constants", "context",
                "enter")
        changed = ("message", "place", "list", "Tensor", "a", "a_output_dims", "Place_workspace_size", "b_workspace_size", "B")
        names = (*same, *changed)
        program = Program(self, dict.fromkeys(names, model), sizes=("n",), function="run_0")
        for name in (*same, "message_2", "place_2", "list_2", "Tensor_2", "a", "a_output_dims_2", "Place_workspace_size_2", "b_workspace_size",
                     "B_2"):
            self.assertIn(f"tn_m_{name}(int64_t n,", program.header)
        program.check(self.floats(3, 8), sizes=(3,))

    def test_functions_that_differ_in_case(self):
        def of(width):
            return model_of([node("MatMul", ["x", "w"], ["a"]), node("Softmax", ["a"], ["b"]), node("MatMul", ["b", "v"], ["y"])],
                            [info("x", FLOAT, [width, 8])], [info("y", FLOAT, [width, 4])],
                            [constant("w", self.floats(8, 16)), constant("v", self.floats(16, 4))])
        header = Program(self, {"enc": of(64), "Enc": of(2)}, function="enc").header
        sizes = dict(re.findall(r"#define (TN_M_\w+_WORKSPACE) (\d+)", header))
        self.assertEqual(sorted(sizes), ["TN_M_ENC_2_WORKSPACE", "TN_M_ENC_WORKSPACE"])
        self.assertGreater(int(sizes["TN_M_ENC_WORKSPACE"]), int(sizes["TN_M_ENC_2_WORKSPACE"]))

    def test_branches(self):
        then = graph([node("MatMul", ["x", "w"], ["a"])], [], [info("a", FLOAT, None)])
        other = graph([node("Softmax", ["x"], ["b"], axis=0)], [], [info("b", FLOAT, None)])
        model = model_of([node("If", ["flag"], ["y"], then_branch=then, else_branch=other), node("Neg", ["y"], ["z"])],
                         [info("x", FLOAT, ["n", 4]), info("flag", BOOL, [])], [info("z", FLOAT, ["n", 4])],
                         [constant("w", self.floats(4, 4))])
        program = Program(self, model, sizes=("n",))
        for n in (1, 6):
            for flag in (True, False):
                program.check(self.floats(n, 4), np.asarray(flag), sizes=(n,))

    def test_branches_of_different_shape(self):
        then = graph([node("MatMul", ["x", "w"], ["a"])], [], [info("a", FLOAT, None)])
        other = graph([node("Concat", ["x", "x", "x"], ["b"], axis=1)], [], [info("b", FLOAT, None)])
        choice = node("If", ["flag"], ["y"], then_branch=then, else_branch=other)
        values = [info("x", FLOAT, ["n", 4]), info("flag", BOOL, [])]
        weights = [constant("w", self.floats(4, 3))]
        direct = Program(self, model_of([choice], values, [info("y", FLOAT, ["n", None])], weights), sizes=("n",),
                         late=True)
        after = Program(self, model_of([choice, node("Softmax", ["y"], ["z"])], values,
                                       [info("z", FLOAT, ["n", None])], weights), sizes=("n",), late=True, planned=False)
        for n in (1, 5):
            for flag in (True, False):
                direct.check(self.floats(n, 4), np.asarray(flag), sizes=(n,), spare=8)
                after.check(self.floats(n, 4), np.asarray(flag), sizes=(n,))
        kind, said = direct.fails(self.floats(5, 4), np.asarray(False), sizes=(5,), capacities=[60])
        self.assertEqual((kind, said[-1]), (7, "dims 5 12"))

    def test_loops(self):
        for rows, sizes in (("n", ("n",)), (3, ())):
            loop = loop_of([node("Less", ["i", "five"], ["going_out"]), node("MatMul", ["s", "w"], ["p"]),
                            node("Tanh", ["p"], ["s_out"])], [("s", "x", FLOAT, [rows, 4])],
                           [("going_out", BOOL, []), ("s_out", FLOAT, [rows, 4])], ["last"])
            model = model_of([loop], [info("m", INT64, []), info("go", BOOL, []), info("x", FLOAT, [rows, 4])],
                             [info("last", FLOAT, [rows, 4])],
                             [constant("w", self.floats(4, 4)), constant("five", np.int64(5))])
            program = Program(self, model, sizes=sizes)
            for m in (0, 1, 4, 100):
                for go in (True, False):
                    program.check(np.asarray(m), np.asarray(go), self.floats(3, 4), sizes=(3,) if sizes else ())

    def test_a_loop_whose_condition_is_a_kernel(self):
        loop = loop_of([node("Mul", ["s", "half"], ["s_out"]), node("ReduceMax", ["s_out"], ["most"], keepdims=0),
                        node("Greater", ["most", "small"], ["going_out"])], [("s", "x", FLOAT, ["n"])],
                       [("going_out", BOOL, []), ("s_out", FLOAT, ["n"])], ["last"])
        model = model_of([loop], [info("m", INT64, []), info("go", BOOL, []), info("x", FLOAT, ["n"])],
                         [info("last", FLOAT, ["n"])],
                         [constant("half", np.float32(0.5)), constant("small", np.float32(0.01))])
        program = Program(self, model, sizes=("n",))
        program.check(np.asarray(1000), np.asarray(True), np.asarray([1, 5, 3], np.float32), sizes=(3,))
        program.check(np.asarray(2), np.asarray(True), np.asarray([1, 5, 3], np.float32), sizes=(3,))

    def test_a_loop_that_grows(self):
        loop = loop_of([node("Identity", ["going"], ["going_out"]), node("Concat", ["s", "x"], ["s_out"], axis=0)],
                       [("s", "x", FLOAT, [None, 2])], [("going_out", BOOL, []), ("s_out", FLOAT, [None, 2])], ["last"])
        model = model_of([loop], [info("m", INT64, []), info("go", BOOL, []), info("x", FLOAT, ["n", 2])],
                         [info("last", FLOAT, [None, 2])])
        program = Program(self, model, sizes=("n",), late=True, planned=False, rounds=3)
        for m in (0, 1, 2, 7):
            program.check(np.asarray(m), np.asarray(True), self.floats(3, 2), sizes=(3,))
        kind, _ = program.fails(np.asarray(1000), np.asarray(True), self.floats(3, 2), sizes=(3,), capacities=[24],
                                workspace=4096)
        self.assertEqual(kind, 8)

    def test_loops_in_branches_in_loops(self):
        then = graph([node("Loop", ["two", "", "s"], ["more"],
                           body=graph([node("Identity", ["g2"], ["g3"]), node("Add", ["t", "one"], ["t2"])],
                                      [info("j", INT64, []), info("g2", BOOL, []), info("t", FLOAT, ["n"])],
                                      [info("g3", BOOL, []), info("t2", FLOAT, ["n"])]))], [], [info("more", FLOAT, ["n"])])
        other = graph([node("Mul", ["s", "half"], ["less"])], [], [info("less", FLOAT, ["n"])])
        loop = loop_of([node("Identity", ["going"], ["going_out"]), node("Mod", ["i", "two"], ["odd"]),
                        node("Cast", ["odd"], ["flag"], to=BOOL),
                        node("If", ["flag"], ["s_out"], then_branch=then, else_branch=other)],
                       [("s", "x", FLOAT, ["n"])], [("going_out", BOOL, []), ("s_out", FLOAT, ["n"])], ["last"])
        model = model_of([loop], [info("m", INT64, []), info("go", BOOL, []), info("x", FLOAT, ["n"])],
                         [info("last", FLOAT, ["n"])],
                         [constant("one", np.float32(1)), constant("half", np.float32(0.5)), constant("two", np.int64(2))])
        program = Program(self, model, sizes=("n",))
        for m in (0, 1, 6):
            program.check(np.asarray(m), np.asarray(True), self.floats(4), sizes=(4,))

    # ---- aliases

    def test_a_cache_is_updated_in_place(self):
        model = model_of([node("ScatterND", ["past", "at", "row"], ["present"]),
                          node("ReduceSum", ["present"], ["sum"], keepdims=0)],
                         [info("past", FLOAT, ["t", 4]), info("at", INT64, [1, 1]), info("row", FLOAT, [1, 4])],
                         [info("present", FLOAT, ["t", 4]), info("sum", FLOAT, [])])
        program = Program(self, model, sizes=("t",), share=((0, 0),), options=("--alias", "present=past"))
        self.assertIn("outputs[0]: f32[t, 4] present; may have the memory of inputs[0]", program.header)
        for t in (1, 33):
            program.check(self.floats(t, 4), np.asarray([[t - 1]]), self.floats(1, 4), sizes=(t,))
        kind, said = program.fails(self.floats(2, 4), np.asarray([[2]]), self.floats(1, 4), sizes=(2,), capacities=[32, 4])
        self.assertEqual((kind, said[0]), (1, "an index is out of range"))
        self.assertIn("(ScatterND, opset 20): kernel \"scatter_nd", said[1])

    def test_a_cache_grows_in_its_buffer(self):
        model = model_of([node("Concat", ["past", "new"], ["present"], axis=1), node("Softmax", ["present"], ["y"], axis=1)],
                         [info("past", FLOAT, [2, "past_length", 4]), info("new", FLOAT, [2, "n", 4])],
                         [info("present", FLOAT, [2, None, 4]), info("y", FLOAT, [2, None, 4])])
        options = ("--alias", "present=past", "--capacity", "past_length=16")
        for share in (((0, 0),), ()):
            program = Program(self, model, sizes=("past_length", "n"), share=share, options=options)
            self.assertIn("inputs[0]: f32[2, past_length of 16, 4] past", program.header)
            # No more rows of a cache are copied than count in both buffers.
            self.assertRegex(program.header,
                             r"  tni_m_copy_rows\(out\[0\].data, in\[0\].data, b, [^,]*, tni_m_min\(s\[\d+\], s\[\d+\]\) ")
            for past, new in ((0, 3), (5, 1), (12, 4)):
                buffer, rows = self.floats(2, 16, 4), self.floats(2, new, 4)
                present, y = program.runtime(buffer[:, :past].copy(), rows)
                printed, outputs = program.call((buffer, rows), (past, new), [buffer.nbytes, y.nbytes])
                self.assertEqual(printed, ["0", f"dims 2 {past + new} 4", f"dims 2 {past + new} 4"])
                got = np.frombuffer(outputs[0], np.float32).reshape(2, 16, 4)
                np.testing.assert_array_equal(got[:, :past + new], present)
                if share:
                    np.testing.assert_array_equal(got[:, past + new:], buffer[:, past + new:])
                np.testing.assert_allclose(np.frombuffer(outputs[1], np.float32).reshape(y.shape), y, rtol=1e-6)
            for past, new, wanted in ((13, 4, 5), (17, 1, 6)):
                kind, _ = program.fails(buffer, self.floats(2, new, 4), sizes=(past, new), capacities=[512, 1024])
                self.assertEqual(kind, wanted)

    # ---- refused

    def test_strings_and_tables_are_refused(self):
        text = model_of([node("Identity", ["s"], ["t"])], [info("s", TensorProto.STRING, [2])],
                        [info("t", TensorProto.STRING, [2])])
        self.assertIn('function "main" cannot become a C function: it holds strings, whose memory only the runtime allocates',
                      self.refused(text))
        table = helper.make_model(graph([node("LabelEncoder", ["x"], ["y"], domain="ai.onnx.ml", keys_int64s=[1, 2],
                                              values_int64s=[5, 6], name="codes")],
                                        [info("x", INT64, [4])], [info("y", INT64, [4])]),
                                  opset_imports=[helper.make_opsetid("", 20), helper.make_opsetid("ai.onnx.ml", 4)],
                                  ir_version=9)
        self.assertRegex(self.refused(table), r'node "codes" \(.*\): it looks something up in a table, which only the '
                         "runtime does")

    def test_a_full_disk_leaves_what_was_there(self):
        model, base = Path(self.folder) / "a.onnx", Path(self.folder) / "m"
        onnx.save(model_of([node("MatMul", ["x", "w"], ["z"])], [info("x", FLOAT, [4, 128])], [info("z", FLOAT, [4, 128])],
                           [constant("w", self.floats(128, 128))]), model)  # the object holds 64 KB of constants
        command = ["compile", model, "--emit", "c", "-o", base, "--no-cache", *OPTIONS]
        cli(*command)
        sizes = {name: (base.parent / name).stat().st_size for name in (CODE, "m.h")}
        self.assertGreater(sizes[CODE], sizes["m.h"])  # so that there is room for the header alone

        def limit():  # of each file, as a full disk is one of all
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (sizes["m.h"] + 64, sizes["m.h"] + 64))

        for old in ({}, {CODE: b"an object", "m.h": b"a header"}):
            for name in sizes:
                (base.parent / name).unlink(missing_ok=True)
            for name, contents in old.items():
                (base.parent / name).write_bytes(contents)
            result = subprocess.run([required("TENON_CLI"), *command], capture_output=True, text=True, preexec_fn=limit,
                                    restore_signals=False, check=False)
            self.assertEqual(result.returncode, 1, result.stderr)
            self.assertIn(f"{CODE}: cannot write: File too large", result.stderr)
            left = {path.name: path.read_bytes() for path in base.parent.iterdir() if path != model}
            self.assertEqual(left, old)

    def test_names_that_are_no_identifiers_are_refused(self):
        path = Path(self.folder) / "a.onnx"
        onnx.save(self.two_products(), path)
        self.assertIn("cannot be a part of C's names",
                      cli("compile", path, "--emit", "c", "-o", Path(self.folder) / "a-b", status=2).stderr)


if __name__ == "__main__":
    unittest.main()
