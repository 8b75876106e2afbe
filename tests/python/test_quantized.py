#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Quantised models in both of ONNX's forms: operators of 8-bit integers, exactly, and products and convolutions between
DequantizeLinear and QuantizeLinear, against the exact sums."""

import itertools
import unittest

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from onnx import TensorProto, helper, numpy_helper

import tenon

TARGETS = ("native", "x86-64-v3")


class Model:
    """A graph of one input, x."""

    def __init__(self, x):
        self.x, self.nodes, self.constants, self.count = x, [], [], 0

    def constant(self, value):
        self.constants.append(numpy_helper.from_array(np.asarray(value), f"c{len(self.constants)}"))
        return self.constants[-1].name

    def add(self, operator, *inputs, **attributes):
        names = [value if isinstance(value, str) else self.constant(value) for value in inputs]
        self.count += 1
        self.nodes.append(helper.make_node(operator, names, [f"v{self.count}"], **attributes))
        return f"v{self.count}"

    def run(self, *outputs, target):
        graph = helper.make_graph(
            self.nodes, "g", [helper.make_tensor_value_info("x", helper.np_dtype_to_tensor_dtype(self.x.dtype),
                                                            self.x.shape)],
            [helper.make_empty_tensor_value_info(name) for name in outputs], self.constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
        return tenon.compile(model.SerializeToString(), threads=1, cache=False, target=target)(self.x)


def convolve(x, w, pad, stride, groups):
    """Of int64, channels first."""
    x = np.pad(x, [(0, 0), (0, 0), (pad, pad), (pad, pad)])
    windows = sliding_window_view(x, w.shape[2:], axis=(2, 3))[:, :, ::stride, ::stride]
    parts = [np.einsum("ncyxrs,ocrs->noyx", windows[:, g * w.shape[1]:(g + 1) * w.shape[1]], filters)
             for g, filters in enumerate(np.split(w, groups))]
    return np.concatenate(parts, axis=1)


class Quantized(unittest.TestCase):
    def setUp(self):
        self.random = np.random.default_rng(11)

    def integers(self, dtype, *shape):
        limits = np.iinfo(dtype)
        return self.random.integers(limits.min, limits.max + 1, shape).astype(dtype)

    def check_sums(self, got, sums, scale, bias=0.0):
        """Sums are exact: what is left are the roundings of the scale, of the multiplication and of the addition."""
        exact = sums * scale + bias
        self.assertTrue((np.abs(got - exact) <= 3e-7 * (np.abs(sums * scale) + np.abs(bias))).all(),
                        np.abs(got - exact).max())

    def check_rounded(self, got, exact, zero):
        """`exact`: in steps of the result. Where it is no tie the result is the nearest step."""
        limits = np.iinfo(got.dtype)
        wanted = np.clip(np.rint(exact) + zero, limits.min, limits.max)
        sure = np.abs(np.abs(exact - np.floor(exact)) - 0.5) > 1e-4
        np.testing.assert_array_equal(got[sure], wanted[sure])
        self.assertLessEqual(np.abs(got.astype(int) - wanted).max(), 1)

    def test_convolutions(self):
        for (kind, weights, many, zeros), target in itertools.product(
                itertools.product((np.uint8, np.int8), (np.int8, np.uint8), (False, True), (False, True)), TARGETS):
            x = self.integers(kind, 2, 32, 9, 11)
            w = self.integers(weights, 20, 32, 3, 3)
            x_zero = self.integers(kind, 1)[0]
            w_zero = self.integers(weights, 20) if zeros else np.zeros(20, weights)
            w_scale = self.random.uniform(1e-3, 2e-3, 20).astype(np.float32)
            if not many:
                w_zero, w_scale = w_zero[0], w_scale[0]
            bias = self.random.normal(size=20).astype(np.float32)
            model = Model(x)
            left = model.add("DequantizeLinear", "x", np.float32(0.02), x_zero)
            right = model.add("DequantizeLinear", w, w_scale, w_zero, axis=0)
            sums = model.add("Conv", left, right, bias, pads=[1] * 4)
            positive = model.add("Relu", sums)
            result = model.add("QuantizeLinear", positive, np.float32(0.07), np.array(3, np.uint8))
            signed = model.add("QuantizeLinear", sums, np.float32(0.09), np.array(-5, np.int8))
            outputs = model.run(sums, result, signed, target=target)
            shape = (-1, 1, 1) if many else ()
            weights_zero = w_zero.astype(np.int64).reshape((-1, 1, 1, 1) if many else ())
            exact = convolve(x.astype(np.int64) - int(x_zero), w.astype(np.int64) - weights_zero, 1, 1, 1)
            scale = np.float64(np.float32(0.02)) * w_scale.astype(np.float64).reshape(shape)
            wide = bias.astype(np.float64).reshape(-1, 1, 1)
            with self.subTest(kind=kind, weights=weights, many=many, zeros=zeros, target=target):
                self.check_sums(outputs[0], exact, scale, wide)
                real = exact * scale + wide
                self.check_rounded(outputs[1], np.maximum(real, 0) / np.float32(0.07).astype(np.float64), 3)
                self.check_rounded(outputs[2], real / np.float32(0.09).astype(np.float64), -5)

    def test_groups_of_channels(self):
        for groups, stride in ((4, 2), (32, 1)):
            x, w = self.integers(np.uint8, 1, 32, 12, 12), self.integers(np.int8, 64, 32 // groups, 3, 3)
            model = Model(x)
            left = model.add("DequantizeLinear", "x", np.float32(0.5), np.uint8(100))
            sums = model.add("Conv", left, model.add("DequantizeLinear", w, np.float32(0.25), np.int8(0)), group=groups,
                             pads=[1] * 4, strides=[stride] * 2)
            exact = convolve(x.astype(np.int64) - 100, w.astype(np.int64), 1, stride, groups)
            with self.subTest(groups=groups):
                np.testing.assert_array_equal(model.run(sums, target="native"), exact * 0.125)

    def test_products(self):
        for (kind, many, transposed), target in itertools.product(
                itertools.product((np.uint8, np.int8), (False, True), (False, True)), TARGETS):
            x, w = self.integers(kind, 3, 7, 130), self.integers(np.int8, 130, 45)
            scale = self.random.uniform(1e-3, 2e-3, 45).astype(np.float32) if many else np.float32(2e-3)
            bias = self.random.normal(size=45).astype(np.float32)
            zero = self.integers(kind, 1)[0]
            model = Model(x[0] if transposed else x)
            left = model.add("DequantizeLinear", "x", np.float32(0.02), zero)
            if transposed:
                right = model.add("DequantizeLinear", np.ascontiguousarray(w.T), scale, axis=0)
                sums = model.add("Gemm", left, right, bias, transB=1)
            else:
                right = model.add("DequantizeLinear", w, scale, axis=1)
                sums = model.add("Add", model.add("MatMul", left, right), bias)
            result = model.add("QuantizeLinear", sums, np.float32(0.03), np.array(7, np.uint8))
            outputs = model.run(sums, result, target=target)
            exact = (model.x.astype(np.int64) - int(zero)) @ w.astype(np.int64)
            wide = np.float64(np.float32(0.02)) * scale.astype(np.float64)
            with self.subTest(kind=kind, many=many, transposed=transposed, target=target):
                self.check_sums(outputs[0], exact, wide, bias.astype(np.float64))
                self.check_rounded(outputs[1], (exact * wide + bias) / np.float32(0.03).astype(np.float64), 7)

    def test_weights_transposed_behind_their_dequantisation(self):
        x, w = self.integers(np.uint8, 7, 130), self.integers(np.int8, 45, 130)
        scale = self.random.uniform(1e-3, 2e-3, 45).astype(np.float32)
        model = Model(x)
        left = model.add("DequantizeLinear", "x", np.float32(0.02), np.uint8(128))
        right = model.add("Transpose", model.add("DequantizeLinear", w, scale, axis=0), perm=[1, 0])
        exact = (x.astype(np.int64) - 128) @ w.astype(np.int64).T
        got = model.run(model.add("Mul", model.add("MatMul", left, right), np.float32(3)), target="native")
        self.check_sums(got, exact, 3 * np.float64(np.float32(0.02)) * scale.astype(np.float64))

    def test_scales_along_the_sum_stay_in_floats(self):
        x, w = self.integers(np.int8, 6, 24), self.integers(np.int8, 24, 10)
        scale = 2.0 ** self.random.integers(-3, 3, 24).astype(np.float32)
        model = Model(x)
        right = model.add("DequantizeLinear", w, scale.astype(np.float32), axis=0)
        product = model.add("MatMul", model.add("DequantizeLinear", "x", np.float32(0.5)), right)
        exact = (x * 0.5) @ (w * scale[:, None].astype(np.float64))
        np.testing.assert_allclose(model.run(product, target="native"), exact, rtol=1e-6, atol=1e-4)

    def test_vectors(self):
        x, bias = self.integers(np.int8, 5, 9), self.integers(np.int8, 7)
        model = Model(x)
        left = model.add("DequantizeLinear", "x", np.array([0.5], np.float32), np.array([3], np.int8))
        product = model.add("MatMul", left, np.ones((9, 7), np.float32))
        result = model.add("Add", product, model.add("DequantizeLinear", bias, np.float32(0.25)))
        dot = model.add("MatMul", left, model.add("DequantizeLinear", self.integers(np.int8, 9) * 0 + 1, np.float32(2)))
        outputs = model.run(result, dot, target="native")
        rows = (x.astype(np.int64) - 3).sum(axis=1)
        np.testing.assert_array_equal(outputs[0], rows[:, None] * 0.5 + bias * 0.25)
        np.testing.assert_array_equal(outputs[1], rows)

    def test_operators_of_integers(self):
        for kind, target in itertools.product((np.uint8, np.int8), TARGETS):
            x, w = self.integers(kind, 2, 9, 70), self.integers(np.int8, 70, 33)
            x_zero, w_zero = self.integers(kind, 1)[0], self.integers(np.int8, 33)
            model = Model(x)
            sums = model.add("MatMulInteger", "x", w, x_zero, w_zero)
            exact = (x.astype(np.int64) - int(x_zero)) @ (w.astype(np.int64) - w_zero)
            result = model.add("QLinearMatMul", "x", np.float32(0.02), x_zero, w, np.full(33, 0.01, np.float32), w_zero,
                               np.float32(0.9), np.array(120, np.uint8))
            outputs = model.run(sums, result, target=target)
            with self.subTest(kind=kind, target=target):
                np.testing.assert_array_equal(outputs[0], exact)
                step = np.float64(np.float32(0.02)) * np.float64(np.float32(0.01)) / np.float64(np.float32(0.9))
                self.check_rounded(outputs[1], exact * step, 120)

    def test_ranges_found_at_run_time(self):
        x = self.random.normal(size=(5, 64)).astype(np.float32)
        w = self.integers(np.int8, 64, 40)
        model = Model(x)
        model.nodes.append(helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "scale", "zero"]))
        sums = model.add("MatMulInteger", "q", w, "zero")
        real = model.add("Mul", model.add("Cast", sums, to=TensorProto.FLOAT), "scale")
        q, scale, zero, got, result = model.run("q", "scale", "zero", sums, real, target="native")
        exact = (q.astype(np.int64) - int(zero)) @ w.astype(np.int64)
        np.testing.assert_array_equal(got, exact)
        np.testing.assert_allclose(result, exact * np.float64(scale), rtol=3e-7)


if __name__ == "__main__":
    unittest.main()
