#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Integers of 2 and 4 bits: quantised weights, and what is refused of them."""

import sys
import unittest

import numpy as np
from onnx import TensorProto, helper, numpy_helper

import tenon
from product import graph, info, node

FLOAT, INT8, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT8, TensorProto.INT64, TensorProto.BOOL
KINDS = {TensorProto.INT4: (-8, 7), TensorProto.UINT4: (0, 15), TensorProto.INT2: (-2, 1), TensorProto.UINT2: (0, 3)}


def packed(kind, values):
    """The bytes of the elements, the lowest bits first."""
    bits = 4 if kind in (TensorProto.INT4, TensorProto.UINT4) else 2
    flat, size = np.asarray(values).ravel(), 8 // bits
    flat = np.append(flat, np.zeros(-len(flat) % size, int)).reshape(-1, size) & ((1 << bits) - 1)
    return (flat << (bits * np.arange(size))).sum(1).astype(np.uint8)


def narrow(name, kind, values, raw=True):
    tensor = TensorProto(name=name, data_type=kind, dims=np.shape(values))
    if raw:
        tensor.raw_data = packed(kind, values).tobytes()
    else:
        tensor.int32_data.extend(packed(kind, values).tolist())
    return tensor


def array(name, values):
    return numpy_helper.from_array(np.asarray(values), name)


def compiled(nodes, inputs, outputs, initializers):
    model = helper.make_model(graph(nodes, inputs, outputs, initializers), opset_imports=[helper.make_opsetid("", 25)], ir_version=12)
    return tenon.compile(model, cache=False, threads=1)


class Narrow(unittest.TestCase):
    def setUp(self):
        self.random = np.random.default_rng(6)

    def test_constants(self):
        for kind, (low, high) in KINDS.items():
            for raw in (True, False):
                for shape in ((), (1,), (5,), (3, 7)):
                    values = self.random.integers(low, high + 1, shape)
                    model = compiled([node("Cast", ["w"], ["f"], to=FLOAT), node("Cast", ["w"], ["i"], to=INT64), node("Cast", ["w"], ["b"], to=INT8),
                                      node("Add", ["f", "x"], ["y"]), node("Add", ["b", "one"], ["c"])],
                                     [info("x", FLOAT, [])], [info("y", FLOAT, None), info("i", INT64, None), info("c", INT8, None)],
                                     [narrow("w", kind, values, raw), array("one", np.int8(1))])
                    y, i, c = model(np.float32(0.5))
                    np.testing.assert_array_equal(y, values + np.float32(0.5))
                    np.testing.assert_array_equal(i, values)
                    np.testing.assert_array_equal(c, values + 1)

    def test_weights_in_blocks(self):
        rows, columns, block = 64, 24, 16
        for kind, (low, high) in KINDS.items():
            w = self.random.integers(low, high + 1, (rows, columns))
            zero = self.random.integers(low, high + 1, (rows // block, columns))
            scale = self.random.uniform(0.1, 1, zero.shape).astype(np.float32)
            spread = lambda a: np.repeat(a, block, axis=0)  # noqa: E731
            want = (w - spread(zero)) * spread(scale)
            x = self.random.normal(size=(3, rows)).astype(np.float32)
            initializers = [narrow("w", kind, w), narrow("zero", kind, zero), array("scale", scale)]
            nodes = [node("DequantizeLinear", ["w", "scale", "zero"], ["real"], axis=0, block_size=block), node("MatMul", ["x", "real"], ["y"])]
            inputs, outputs = [info("x", FLOAT, ["n", rows])], [info("y", FLOAT, ["n", columns])]
            np.testing.assert_allclose(compiled(nodes, inputs, outputs, initializers)(x), x @ want, rtol=1e-4, atol=1e-4)
            # The same stored another way round, flat, and inside of a branch.
            turned = [node("Reshape", ["flat", "shape"], ["wt"]), node("Transpose", ["wt"], ["w0"]), node("Identity", ["w0"], ["w"])]
            branch = graph(nodes, [], [info("y", FLOAT, None)])
            other = graph([node("MatMul", ["x", "none"], ["z"])], [], [info("z", FLOAT, None)])
            model = compiled([*turned, node("If", ["flag"], ["out"], then_branch=branch, else_branch=other)], [*inputs, info("flag", BOOL, [])],
                             [info("out", FLOAT, ["n", columns])],
                             [narrow("flat", kind, w.T.ravel()), array("shape", np.int64([columns, rows])), *initializers[1:],
                              array("none", np.zeros((rows, columns), np.float32))])
            np.testing.assert_allclose(model(x, np.asarray(True)), x @ want, rtol=1e-4, atol=1e-4)

    def test_rounding_to_a_few_bits(self):
        x = np.linspace(-20, 20, 81).astype(np.float32)
        for kind, (low, high) in KINDS.items():
            zero = (low + high + 1) // 2
            q = np.clip(np.rint(x / np.float32(0.75)) + zero, low, high)
            for by_type in (False, True):
                zeros = [] if by_type else ["zero"]
                model = compiled([node("QuantizeLinear", ["x", "scale", *zeros], ["q"], **({"output_dtype": kind} if by_type else {})),
                                  node("DequantizeLinear", ["q", "scale", *zeros], ["y"]), node("Cast", ["q"], ["i"], to=INT64)],
                                 [info("x", FLOAT, ["n"])], [info("y", FLOAT, ["n"]), info("i", INT64, ["n"])],
                                 [array("scale", np.float32(0.75)), narrow("zero", kind, zero)])
                y, i = model(x)
                want = np.clip(np.rint(x / np.float32(0.75)), low, high) if by_type else q
                np.testing.assert_array_equal(i, want)
                np.testing.assert_allclose(y, (want - (0 if by_type else zero)) * 0.75, rtol=1e-6)

    def test_what_is_refused(self):
        w = narrow("w", TensorProto.INT4, np.arange(-3, 3))
        x = [info("x", FLOAT, ["n"])]
        only = "which is supported for quantised weights only: constants that DequantizeLinear takes"
        with self.assertRaisesRegex(tenon.Error, r'node "sum" \(Add, opset 25\): input 1 "w" \(B of Add\) is int4, expected f32,'):
            compiled([node("Add", ["x", "w"], ["y"], name="sum")], x, [info("y", FLOAT, None)], [w])
        with self.assertRaisesRegex(tenon.Error, rf"\(Loop, opset 25\): input 2 is int4, {only}"):
            body = graph([node("Identity", ["c"], ["d"]), node("Identity", ["s"], ["t"])], [info("i", INT64, []), info("c", BOOL, []), info("s", FLOAT, None)],
                         [info("d", BOOL, []), info("t", FLOAT, None)])
            compiled([node("Loop", ["m", "", "w"], ["y"], body=body)], [info("m", INT64, [])], [info("y", FLOAT, None)], [w])
        with self.assertRaisesRegex(tenon.Error, r'"u" is int4, which is not supported outside of the model'):
            compiled([node("Reshape", ["w", "shape"], ["u"])], x, [info("u", TensorProto.INT4, [2, 3])], [w, array("shape", np.int64([2, 3]))])
        with self.assertRaisesRegex(tenon.Error, r"result 0 is uint2 in a branch that only a run chooses"):
            sides = [graph([node("Identity", [name], [name + "1"])], [], [info(name + "1", TensorProto.UINT2, None)]) for name in ("a", "b")]
            compiled([node("If", ["flag"], ["c"], then_branch=sides[0], else_branch=sides[1]), node("Cast", ["c"], ["y"], to=FLOAT)],
                     [info("flag", BOOL, [])], [info("y", FLOAT, None)],
                     [narrow(name, TensorProto.UINT2, np.arange(3)) for name in ("a", "b")])
        short = TensorProto(name="w", data_type=TensorProto.INT4, dims=[5], raw_data=b"\x12\x34")
        with self.assertRaisesRegex(tenon.Error, r'initializer "w": has 2 bytes of data, its type int4\[5\] needs 3'):
            compiled([node("Cast", ["w"], ["y"], to=FLOAT)], x, [info("y", FLOAT, None)], [short])
        with self.assertRaisesRegex(tenon.Error, r'attribute "to" is element type int4 \(22\), which is not supported'):
            compiled([node("Cast", ["x"], ["q"], to=TensorProto.INT4), node("Cast", ["q"], ["y"], to=FLOAT)], x, [info("y", FLOAT, None)], [])


if __name__ == "__main__":
    sys.exit(unittest.main())
