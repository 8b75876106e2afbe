#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Open sizes that are 1 at run time: each broadcasting operator, with each choice of broadcast dimensions, against
NumPy."""

import itertools
import sys
import unittest

import numpy as np
from onnx import TensorProto, helper

import tenon
from product import graph, info, node

BOOL, FLOAT, INT32, INT64 = TensorProto.BOOL, TensorProto.FLOAT, TensorProto.INT32, TensorProto.INT64
UINT8, INT8 = TensorProto.UINT8, TensorProto.INT8
SIZES = (2, 3, 19)  # the last size is more than one vector
KINDS = {FLOAT: np.float32, BOOL: np.bool_, INT32: np.int32, INT64: np.int64, UINT8: np.uint8, INT8: np.int8}


def compiled(nodes, inputs, outputs, opset=22):
    model = helper.make_model(graph(nodes, inputs, outputs), opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
    return tenon.compile(model, cache=False, threads=1)


def shapes(count, sizes=SIZES):
    """Yields each choice of dimensions of `count` operands to set to 1."""
    for ones in itertools.product((False, True), repeat=count * len(sizes)):
        yield [tuple(1 if ones[k * len(sizes) + i] else size for i, size in enumerate(sizes)) for k in range(count)]


def names(k, rank):
    return [f"d{k}{i}" for i in range(rank)]


def values(rng, kind, shape):
    if kind == FLOAT:
        return rng.normal(size=shape).astype(np.float32)
    return rng.integers(0, 2 if kind == BOOL else 5, shape).astype(KINDS[kind])


ELEMENTWISE = {
    "Add": (np.add, FLOAT, FLOAT), "Sub": (np.subtract, INT64, INT64), "Mul": (np.multiply, FLOAT, FLOAT),
    "Div": (np.divide, FLOAT, FLOAT), "Pow": (np.power, INT64, INT64), "BitwiseXor": (np.bitwise_xor, INT32, INT32),
    "And": (np.logical_and, BOOL, BOOL), "Or": (np.logical_or, BOOL, BOOL), "Xor": (np.logical_xor, BOOL, BOOL),
    "Less": (np.less, FLOAT, BOOL), "Equal": (np.equal, INT64, BOOL), "GreaterOrEqual": (np.greater_equal, FLOAT, BOOL),
    "Max": (np.maximum, FLOAT, FLOAT), "Min": (np.minimum, INT32, INT32), "Sum": (np.add, FLOAT, FLOAT),
}


class Broadcast(unittest.TestCase):
    def setUp(self):
        self.rng = np.random.default_rng(7)

    def check(self, model, want, *operands):
        got = model(*operands)
        text = str([x.shape for x in operands])
        self.assertEqual(got.shape, want.shape, text)
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5, err_msg=text)

    def test_two_operands(self):
        for operator, (function, kind, result) in ELEMENTWISE.items():
            with self.subTest(operator=operator):
                model = compiled([node(operator, ["a", "b"], ["y"])],
                                 [info(x, kind, names(k, 3)) for k, x in enumerate("ab")], [info("y", result, names(2, 3))])
                for pair in shapes(2):
                    a, b = (values(self.rng, kind, shape) for shape in pair)
                    self.check(model, function(a, b), a, b)

    def test_ranks_and_numbers(self):
        """Operands of other ranks, fixed dimensions, a shared name, and sizes of 0."""
        cases = [(["n", "m"], ["k"]), (["n"], ["p", "q", "m"]), (["n", 4], ["m", "k"]), ([4, "m"], ["n", 4]), (["n", "m"], ["n", "k"]),
                 (["n", "m"], ["m", "n"]), ([1, "m"], ["k", 1])]
        for left, right in cases:
            model = compiled([node("Add", ["a", "b"], ["y"])], [info("a", FLOAT, left), info("b", FLOAT, right)],
                             [info("y", FLOAT, None)])
            symbols = sorted({x for x in left + right if isinstance(x, str)})
            for sizes in itertools.product((0, 1, 4), repeat=len(symbols)):
                known = dict(zip(symbols, sizes))
                a, b = (values(self.rng, FLOAT, [known.get(x, x) for x in shape]) for shape in (left, right))
                try:
                    want = a + b
                except ValueError:
                    with self.assertRaises(tenon.Error):
                        model(a, b)
                    continue
                with self.subTest(left=left, right=right, sizes=known):
                    self.check(model, want, a, b)

    def test_three_operands(self):
        model = compiled([node("Where", ["c", "a", "b"], ["y"])],
                         [info("c", BOOL, names(0, 3)), info("a", FLOAT, names(1, 3)), info("b", FLOAT, names(2, 3))],
                         [info("y", FLOAT, names(3, 3))])
        many = compiled([node(operator, ["a", "b", "c"], [operator]) for operator in ("Max", "Sum", "Mean")],
                        [info(x, FLOAT, names(k, 3)) for k, x in enumerate("abc")],
                        [info(y, FLOAT, names(3 + k, 3)) for k, y in enumerate(("Max", "Sum", "Mean"))])
        for shape in shapes(3):
            c = values(self.rng, BOOL, shape[0])
            x, a, b = (values(self.rng, FLOAT, shape[i]) for i in range(3))
            self.check(model, np.where(c, a, b), c, a, b)
            for got, want in zip(many(x, a, b), (np.maximum(np.maximum(x, a), b), x + a + b, (x + a + b) / 3)):
                self.assertEqual(got.shape, want.shape)
                np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)

    def test_chains(self):
        """A broadcast result is broadcast again, reduced, and combined with one of its operands."""
        nodes = [node("Add", ["a", "b"], ["s"]), node("Mul", ["s", "a"], ["p"]), node("Softmax", ["p"], ["w"], axis=-1),
                 node("Sub", ["w", "c"], ["y"]), node("ReduceSum", ["y"], ["z"], keepdims=0), node("Transpose", ["s"], ["t"], perm=[1, 0])]
        model = compiled(nodes, [info(x, FLOAT, names(k, 2)) for k, x in enumerate("abc")],
                         [info("y", FLOAT, None), info("z", FLOAT, None), info("t", FLOAT, None)])
        for shape in shapes(3, (5, 19)):
            a, b, c = (values(self.rng, FLOAT, x) for x in shape)
            e = np.exp((a + b) * a - ((a + b) * a).max(-1, keepdims=True))
            y = e / e.sum(-1, keepdims=True) - c
            for got, want in zip(model(a, b, c), (y, y.sum(), (a + b).T)):
                self.assertEqual(got.shape, want.shape)
                np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)

    def test_batches_of_products(self):
        model = compiled([node("MatMul", ["a", "b"], ["y"])],
                         [info("a", FLOAT, ["p", "q", "n", "k"]), info("b", FLOAT, ["r", "s", "k", "m"])], [info("y", FLOAT, None)])
        whole = compiled([node("MatMulInteger", ["a", "b"], ["y"])],
                         [info("a", UINT8, ["p", "q", "n", "k"]), info("b", INT8, ["r", "s", "k", "m"])], [info("y", INT32, None)])
        einsum = compiled([node("Einsum", ["a", "b"], ["y"], equation="...ij,...jk->...ik")],
                          [info("a", FLOAT, ["p", "q", "n", "k"]), info("b", FLOAT, ["r", "s", "k", "m"])], [info("y", FLOAT, None)])
        for (p, q), (r, s) in shapes(2, (3, 4)):
            for n, k, m in ((5, 7, 6), (1, 4, 9)):
                a, b = values(self.rng, FLOAT, (p, q, n, k)), values(self.rng, FLOAT, (r, s, k, m))
                self.check(model, a @ b, a, b)
                self.check(einsum, a @ b, a, b)
                a, b = values(self.rng, UINT8, (p, q, n, k)), values(self.rng, INT8, (r, s, k, m))
                self.check(whole, a.astype(np.int32) @ b.astype(np.int32), a, b)
        narrow = compiled([node("MatMul", ["a", "b"], ["y"])],
                          [info("a", FLOAT, ["p", 3, 4]), info("b", FLOAT, ["q", 4, 6])], [info("y", FLOAT, None)])
        for p, q in ((1, 5), (5, 1), (5, 5), (1, 1), (0, 1), (1, 0)):
            a, b = values(self.rng, FLOAT, (p, 3, 4)), values(self.rng, FLOAT, (q, 4, 6))
            self.check(narrow, a @ b, a, b)

    def test_subscripts(self):
        """Einsum broadcasts a label of two operands too, unless it is summed."""
        model = compiled([node("Einsum", ["a", "b"], ["y"], equation="ij,ij->ij")],
                         [info("a", FLOAT, ["p", "q"]), info("b", FLOAT, ["r", "s"])], [info("y", FLOAT, None)])
        for pair in shapes(2, (3, 19)):
            a, b = (values(self.rng, FLOAT, shape) for shape in pair)
            self.check(model, a * b, a, b)

    def test_one_way(self):
        """Gemm's C, PRelu's slope, and Expand to a run-time shape. The first operand keeps its shape, except in
        Expand."""
        gemm = compiled([node("Gemm", ["a", "b", "c"], ["y"])],
                        [info("a", FLOAT, ["n", "k"]), info("b", FLOAT, ["k", "m"]), info("c", FLOAT, ["p", "q"])],
                        [info("y", FLOAT, ["n", "m"])])
        slope = compiled([node("PRelu", ["x", "s"], ["y"])], [info("x", FLOAT, names(0, 3)), info("s", FLOAT, names(1, 3))],
                         [info("y", FLOAT, names(0, 3))])
        expand = compiled([node("Expand", ["x", "s"], ["y"])], [info("x", FLOAT, names(0, 3)), info("s", INT64, [3])],
                          [info("y", FLOAT, None)])
        for (shape,) in shapes(1, (5, 19)):
            a, b, c = (values(self.rng, FLOAT, x) for x in ((5, 4), (4, 19), shape))
            self.check(gemm, a @ b + c, a, b, c)
        for (shape,) in shapes(1):
            x, s = values(self.rng, FLOAT, SIZES), values(self.rng, FLOAT, shape)
            self.check(slope, np.where(x < 0, x * s, x), x, s)
        for pair in shapes(2):
            x = values(self.rng, FLOAT, pair[0])
            self.check(expand, x * np.ones(pair[1], np.float32), x, np.asarray(pair[1]))

    def test_errors(self):
        """Errors name both operands, the dimension and both sizes."""
        model = compiled([node("Add", ["a", "b"], ["y"], name="sum")],
                         [info("a", FLOAT, ["n", "m"]), info("b", FLOAT, ["k"])], [info("y", FLOAT, None)])
        with self.assertRaisesRegex(tenon.Error, r'node "sum" \(Add, opset 22\): dimension 1 of operand 0 is m = 3, and dimension 0 of '
                                                 r'operand 1 is k = 4: they must be equal, or one of them 1'):
            model(np.ones((2, 3), np.float32), np.ones(4, np.float32))
        model = compiled([node("MatMul", ["a", "b"], ["y"], name="product")],
                         [info("a", FLOAT, ["n", 3, 4]), info("b", FLOAT, ["m", 4, 2])], [info("y", FLOAT, None)])
        with self.assertRaisesRegex(tenon.Error, r'node "product" \(MatMul, opset 22\): dimension 0 of operand 0 is n = 2, and dimension '
                                                 r'0 of operand 1 is m = 3: they must be equal, or one of them 1'):
            model(np.ones((2, 3, 4), np.float32), np.ones((3, 4, 2), np.float32))


if __name__ == "__main__":
    sys.exit(unittest.main())
