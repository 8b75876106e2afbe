#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Inputs that have initializers of their names: callers may bind them, and they have the initializers' values otherwise."""

import tempfile
import unittest
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from product import graph, info, node
from product import tenon as command

import tenon

FLOAT, INT64, STRING = TensorProto.FLOAT, TensorProto.INT64, TensorProto.STRING


def model(nodes, inputs, outputs, initializers, ir=9):
    made = helper.make_model(graph(nodes, inputs, outputs, [numpy_helper.from_array(value, name) for name, value in initializers.items()]),
                             opset_imports=[helper.make_opsetid("", 17)], ir_version=ir)
    onnx.checker.check_model(made)
    return made


def affine(ir=9, dims=(1,), scale=np.float32([2]), offset=np.float32([10])):
    """x * scale + offset; the latter two have defaults."""
    return model([node("Mul", ["x", "scale"], ["m"]), node("Add", ["m", "offset"], ["y"])],
                 [info("x", FLOAT, ["n"]), info("scale", FLOAT, list(dims)), info("offset", FLOAT, list(dims))], [info("y", FLOAT, ["n"])],
                 {"scale": scale, "offset": offset}, ir)


def compiled(made, **options):
    return tenon.compile(made, cache=False, threads=1, **options)


X = np.float32([1, 2, 3])


class Defaults(unittest.TestCase):
    def test_bound_and_unbound_inputs(self):
        run = compiled(affine())
        self.assertEqual([value.default for value in run.inputs], [None, (1,), (1,)])
        for _ in range(2):
            np.testing.assert_array_equal(run(X), X * 2 + 10)
            np.testing.assert_array_equal(run(X, offset=np.float32([5])), X * 2 + 5)
            np.testing.assert_array_equal(run({"x": X, "scale": np.float32([3])}), X * 3 + 10)
            np.testing.assert_array_equal(run(X, np.float32([3]), np.float32([1])), X * 3 + 1)
            np.testing.assert_array_equal(run.run({"x": X})["y"], X * 2 + 10)
        self.assertEqual(run.infer_shapes({"x": (7,)}), {"y": (7,)})
        with self.assertRaisesRegex(TypeError, r"missing: \['x'\]$"):
            run(scale=np.float32([1]))

    def test_persistent_bindings_end(self):
        run = compiled(affine())
        run.set_inputs(x=X)
        for _ in range(2):
            for _ in range(2):  # the second on settled bindings
                run.invoke()
                np.testing.assert_array_equal(run.output("y"), X * 2 + 10)
            run.set_inputs(offset=np.float32([4]))
            for _ in range(2):
                run.invoke()
                np.testing.assert_array_equal(run.output("y"), X * 2 + 4)
            run.set_inputs(offset=np.float32([6]), scale=np.float32([1]))
            run.invoke()
            np.testing.assert_array_equal(run.output("y"), X + 6)
            run.set_inputs(offset=None, scale=None)
        self.assertEqual(compiled(affine(), fold_defaults=True)._input_names, ["x"])

    def test_what_is_bound_must_fit(self):
        run = compiled(affine())
        with self.assertRaisesRegex(tenon.Error, r'input "offset": the tensor has shape \[2\] and the executable wants \[1\]'):
            run(X, offset=np.float32([1, 2]))
        with self.assertRaisesRegex(tenon.Error, 'input "offset": the tensor is f64 and the executable wants f32'):
            run(X, offset=np.float64([1]))

    def test_older_models_have_constants(self):
        run = compiled(affine(ir=3))
        self.assertEqual([value.name for value in run.inputs], ["x"])
        np.testing.assert_array_equal(run(X), X * 2 + 10)

    def test_folding(self):
        run = compiled(affine(), fold_defaults=True)
        np.testing.assert_array_equal(run(X), X * 2 + 10)
        with self.assertRaisesRegex(TypeError, r"unknown: \['offset'\]"):
            run(X, offset=np.float32([5]))

    def test_open_sizes(self):
        """A default fixes no size that the model leaves open."""
        run = compiled(affine(dims=("k",), scale=np.float32([2]), offset=np.float32([1])))
        np.testing.assert_array_equal(run(X), X * 2 + 1)
        both = {"scale": np.float32([1, 2, 3]), "offset": np.float32([4, 5, 6])}
        np.testing.assert_array_equal(run(x=X, **both), X * both["scale"] + both["offset"])
        with self.assertRaisesRegex(tenon.Error, '"k"|k is'):
            run(x=X, scale=both["scale"])

    def test_fixed_sizes(self):
        """Where --dim fixes another size than the default's, there is no default; special sizes are chosen by what is there."""
        made = affine(dims=("k",))
        np.testing.assert_array_equal(compiled(made, dims={"k": 1})(X), X * 2 + 10)
        run = compiled(made, dims={"k": 3})
        self.assertEqual([value.default for value in run.inputs], [None, None, None])
        with self.assertRaisesRegex(TypeError, "missing: .'scale', 'offset'.$"):
            run(X)
        run = compiled(made, dims={"k": [1, 3]})
        np.testing.assert_array_equal(run(X), X * 2 + 10)
        np.testing.assert_array_equal(run(X, np.float32([1, 2, 3]), np.float32([1, 1, 1])), X * [1, 2, 3] + 1)

    def test_kinds_of_use(self):
        """Shapes that are data, an output that is the input itself, two inputs that share a default's bytes, strings."""
        run = compiled(model([node("Reshape", ["x", "shape"], ["y"]), node("Identity", ["shape"], ["s"])],
                             [info("x", FLOAT, [6]), info("shape", INT64, [2])], [info("y", FLOAT, ["a", "b"]), info("s", INT64, [2])],
                             {"shape": np.int64([2, 3])}))
        x = np.arange(6, dtype=np.float32)
        for shape in (None, (3, 2), (1, -1), None):
            y, s = run(x) if shape is None else run(x, np.int64(shape))
            np.testing.assert_array_equal(y, x.reshape(shape or (2, 3)))
            np.testing.assert_array_equal(s, shape or (2, 3))
        run = compiled(affine(scale=np.float32([3]), offset=np.float32([3])))
        np.testing.assert_array_equal(run(X), X * 3 + 3)
        np.testing.assert_array_equal(run(X, offset=np.float32([0])), X * 3)
        run = compiled(model([node("Equal", ["t", "word"], ["y"])],
                             [info("t", INT64, ["n"]), info("word", INT64, [])], [info("y", TensorProto.BOOL, ["n"])], {"word": np.int64(7)}))
        np.testing.assert_array_equal(run(np.int64([7, 8])), [True, False])
        np.testing.assert_array_equal(run(np.int64([7, 8]), np.int64(8)), [False, True])
        run = compiled(model([node("Concat", ["t", "more"], ["y"], axis=0)], [info("t", STRING, ["n"]), info("more", STRING, [2])],
                             [info("y", STRING, ["m"])], {"more": np.array(["one", ""], dtype=object)}))
        for _ in range(2):
            self.assertEqual(run(np.array(["a"], object)).tolist(), ["a", "one", ""])
            self.assertEqual(run(np.array(["a"], object), np.array(["b", "c"], object)).tolist(), ["a", "b", "c"])

    def test_strided_inputs(self):
        run = compiled(affine(dims=(3,), scale=np.float32([1, 2, 3]), offset=np.float32([1, 1, 1])), strided=["*"])
        wide = np.arange(12, dtype=np.float32)
        for x in (X, wide[::4], wide[2::-1]):
            np.testing.assert_array_equal(run(x), x * [1, 2, 3] + 1)
            np.testing.assert_array_equal(run(x, offset=wide[::4]), x * [1, 2, 3] + wide[::4])

    def test_subgraphs_see_what_is_bound(self):
        branch = helper.make_graph([node("Add", ["x", "c"], ["t"])], "t", [], [info("t", FLOAT, ["n"])])
        other = helper.make_graph([node("Mul", ["x", "c"], ["e"])], "e", [], [info("e", FLOAT, ["n"])])
        run = compiled(model([node("If", ["p"], ["y"], then_branch=branch, else_branch=other)],
                             [info("x", FLOAT, ["n"]), info("p", TensorProto.BOOL, []), info("c", FLOAT, [1])], [info("y", FLOAT, ["n"])],
                             {"c": np.float32([4]), "p": np.array(True)}))
        np.testing.assert_array_equal(run(X), X + 4)
        np.testing.assert_array_equal(run(X, p=np.array(False)), X * 4)
        np.testing.assert_array_equal(run(X, p=np.array(False), c=np.float32([2])), X * 2)

    def test_messages(self):
        large = {"scale": np.ones(2000, np.float32), "offset": np.zeros(2000, np.float32)}
        with self.assertWarnsRegex(RuntimeWarning, "^2 inputs have defaults with 4000 elements in them: .*--fold-defaults"):
            compiled(affine(dims=(2000,), **large))
        shaped = model([node("Reshape", ["x", "shape"], ["y"])], [info("x", FLOAT, [6]), info("shape", INT64, ["rank"])],
                       [info("y", FLOAT, ["a", "b"])], {"shape": np.int64([2, 3])})
        with self.assertRaisesRegex(tenon.Error, '"shape" must .*; it is an input with a default: --fold-defaults makes that a constant'):
            compiled(shaped)
        self.assertEqual(compiled(shaped, fold_defaults=True)(np.ones(6, np.float32)).shape, (2, 3))
        wrong = affine()
        wrong.graph.input[1].type.tensor_type.elem_type = TensorProto.DOUBLE
        with self.assertRaisesRegex(tenon.Error, 'input "scale": is declared as f64, and its initializer is f32'):
            compiled(wrong)

    def test_command_line(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder)
            onnx.save(affine(), path / "m.onnx")
            np.save(path / "x.npy", X)
            np.save(path / "five.npy", np.float32([5]))
            x = ("--input", f"x={path / 'x.npy'}")
            shown = command("inspect", path / "m.onnx", "--json").stdout
            self.assertEqual(shown.count('"default": [1]'), 2)
            self.assertIn("12 14 16", command("run", path / "m.onnx", *x).stdout)
            five = ("--input", f"offset={path / 'five.npy'}")
            self.assertIn("7 9 11", command("run", path / "m.onnx", *x, *five).stdout)
            for given in (x, (*x, *five)):
                self.assertIn("agrees with the interpreter", command("run", path / "m.onnx", *given, "--check").stdout)
            self.assertIn("12 14 16", command("run", path / "m.onnx", *x, "--fold-defaults").stdout)
            command("compile", path / "m.onnx", "-o", path / "m.tnx")
            self.assertIn("offset: f32[1] = default", command("inspect", path / "m.tnx", "--text").stdout)
            self.assertIn("12 14 16", command("run", path / "m.tnx", *x).stdout)
            text = command("compile", path / "m.onnx", "--emit", "graph").stdout
            self.assertIn("input offset: f32[1] default ", text)
            (path / "m.tng").write_text(text)
            self.assertEqual(command("compile", path / "m.tng", "--emit", "graph").stdout, text)
            self.assertIn("7 9 11", command("run", path / "m.tng", *x, *five).stdout)
            self.assertIn("12 14 16", command("run", path / "m.tng", *x).stdout)
            refused = command("compile", path / "m.onnx", "--emit", "c", "-o", path / "m", status=1)
            self.assertIn('input "scale" has a default, which only the runtime binds; --fold-defaults', refused.stderr)


if __name__ == "__main__":
    unittest.main()
