#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Operators that compute the indices they read, against exact fractions, where floating point would be off by one."""

import math
import sys
import unittest
from fractions import Fraction

import numpy as np
from onnx import TensorProto, helper, numpy_helper

import tenon
from product import graph, info, node

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
HALF = Fraction(1, 2)
SIZES = range(1, 34)
COORDINATES = ("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric",
               "tf_crop_and_resize")
ROUNDINGS = {
    "floor": math.floor,
    "ceil": math.ceil,
    "round_prefer_floor": lambda x: math.ceil(x - HALF),
    "round_prefer_ceil": lambda x: math.floor(x + HALF),
}
MODES = [(coordinates, rounding) for coordinates in COORDINATES for rounding in ROUNDINGS]
ROI = (0.125, 0.8125)
OUTSIDE = -1


def compiled(nodes, inputs, outputs, constants=(), opset=19):
    model = helper.make_model(graph(nodes, inputs, outputs, constants), opset_imports=[helper.make_opsetid("", opset)],
                              ir_version=10)
    return tenon.compile(model, cache=False, threads=1)


def coordinate(mode, y, source, target, scale):
    """The source coordinate of output element y when `source` elements become `target`, by ONNX's formulas."""
    length = scale * source
    if mode == "asymmetric":
        return y / scale
    if mode == "align_corners":
        return Fraction(0) if length == 1 else y * Fraction(source - 1) / (length - 1)
    if mode == "tf_crop_and_resize":
        start, end = map(Fraction, ROI)
        if length == 1:
            return HALF * (start + end) * (source - 1)
        return start * (source - 1) + y * (end - start) * (source - 1) / (length - 1)
    if mode == "pytorch_half_pixel" and length == 1:
        return Fraction(0)
    half = (y + HALF) / scale - HALF
    if mode == "half_pixel_symmetric":
        return half + Fraction(source, 2) * (1 - target / length)
    return half


def nearest(mode, rounding, source, target, scale):
    """The elements of 0, 1 ... source - 1 that a nearest Resize selects."""
    picked = []
    for y in range(target):
        x = coordinate(mode, y, source, target, scale)
        outside = mode == "tf_crop_and_resize" and not 0 <= x <= source - 1
        picked.append(OUTSIDE if outside else min(max(ROUNDINGS[rounding](x), 0), source - 1))
    return picked


def resize(x, y, mode, rounding, **attributes):
    return node("Resize", [x, "roi", "", "sizes"], [y], mode="nearest", coordinate_transformation_mode=mode,
                nearest_mode=rounding, extrapolation_value=float(OUTSIDE), **attributes)


class NearestBySizes(unittest.TestCase):
    ROI = numpy_helper.from_array(np.asarray(ROI, np.float32), "roi")

    def test_open_sizes(self):
        outputs = [f"y{i}" for i in range(len(MODES))]
        model = compiled([resize("x", y, *mode) for y, mode in zip(outputs, MODES)],
                         [info("x", INT64, ["n"]), info("sizes", INT64, [1])],
                         [info(y, INT64, [f"m{y}"]) for y in outputs], [self.ROI])
        for source in SIZES:
            x = np.arange(source)
            for target in SIZES:
                for mode, got in zip(MODES, model(x, np.asarray([target]))):
                    want = nearest(*mode, source, target, Fraction(target, source))
                    self.assertEqual(got.tolist(), want, (mode, source, target))

    def test_fixed_sizes(self):
        for source in SIZES:
            nodes, outputs = [], []
            for target in SIZES:
                for mode, rounding in MODES:
                    outputs.append(f"y{len(outputs)}")
                    nodes.append(resize("x", outputs[-1], mode, rounding))
                    nodes[-1].input[3] = f"sizes{target}"
            nodes.append(node("Concat", outputs, ["y"], axis=0))
            constants = [numpy_helper.from_array(np.asarray([target]), f"sizes{target}") for target in SIZES]
            constants.append(numpy_helper.from_array(np.arange(source), "x"))
            model = compiled(nodes, [], [info("y", INT64, ["n"])], [*constants, self.ROI])
            want = [x for target in SIZES for mode in MODES
                    for x in nearest(*mode, source, target, Fraction(target, source))]
            self.assertEqual(model().tolist(), want, source)

    def test_one_ratio_for_both(self):
        """With keep_aspect_ratio_policy sizes are rounded, and coordinates are not."""
        rng = np.random.default_rng(5)
        for policy, chosen in (("not_larger", min), ("not_smaller", max)):
            nodes = [resize("x", f"y{i}", *mode, keep_aspect_ratio_policy=policy) for i, mode in enumerate(MODES)]
            model = compiled(nodes, [info("x", INT64, ["n", "m"]), info("sizes", INT64, [2])],
                             [info(f"y{i}", INT64, [f"a{i}", f"b{i}"]) for i in range(len(MODES))],
                             [numpy_helper.from_array(np.repeat(np.asarray(ROI, np.float32), 2), "roi")])
            for _ in range(200):
                source, asked = rng.integers(1, 34, 2).tolist(), rng.integers(1, 34, 2).tolist()
                scale = chosen(Fraction(a, b) for a, b in zip(asked, source))
                target = [math.floor(scale * size + HALF) for size in source]
                x = np.arange(source[0] * source[1]).reshape(source)
                results = model(x, np.asarray(asked))
                for (mode, rounding), got in zip(MODES, results):
                    self.assertEqual(list(got.shape), target, (policy, mode, source, asked))
                    rows, columns = (np.asarray(nearest(mode, rounding, source[i], target[i], scale), np.int64)
                                     for i in range(2))
                    want = rows[:, None] * source[1] + columns
                    want[(rows[:, None] == OUTSIDE) | (columns == OUTSIDE)] = OUTSIDE
                    np.testing.assert_array_equal(got, want, str((policy, mode, rounding, source, asked)))


class Pads(unittest.TestCase):
    """Negative pads crop first; the rest is then repeated."""

    def test_pads_of_both_signs(self):
        modes = {"wrap": "wrap", "edge": "edge", "reflect": "reflect"}
        outputs = list(modes)
        nodes = [node("Pad", ["x", "pads"], [y], mode=y) for y in outputs]
        open_ends = compiled(nodes, [info("x", INT64, ["n"]), info("pads", INT64, [2])],
                             [info(y, INT64, [f"n{y}"]) for y in outputs])
        x = np.arange(6)
        for low in range(-4, 9):
            for high in range(-4, 9):
                left = x[max(-low, 0):len(x) - max(-high, 0)]
                if left.size == 0:
                    continue
                want = [np.pad(left, (max(low, 0), max(high, 0)), mode=y) for y in outputs]
                for y, got, right in zip(outputs, open_ends(x, np.array([low, high])), want):
                    np.testing.assert_array_equal(got, right, str((y, low, high)))
        for low, high in ((-1, 2), (3, -3), (-2, -1), (-2, 9)):
            constant = numpy_helper.from_array(np.array([low, high]), "pads")
            fixed = compiled(nodes, [info("x", INT64, [6])], [info(y, INT64, ["n" + y]) for y in outputs], [constant])
            left = x[max(-low, 0):len(x) - max(-high, 0)]
            for y, got in zip(outputs, fixed(x)):
                np.testing.assert_array_equal(got, np.pad(left, (max(low, 0), max(high, 0)), mode=y), str((y, low, high)))

    def test_nothing_left(self):
        model = compiled([node("Pad", ["x", "pads"], ["y"], mode="wrap", name="pad")],
                         [info("x", INT64, ["n"]), info("pads", INT64, [2])], [info("y", INT64, ["m"])])
        self.assertEqual(model(np.arange(3), np.array([-3, 0])).tolist(), [])
        with self.assertRaisesRegex(tenon.Error, r'node "pad" \(Pad, opset 19\): 0 elements are left of a dimension of n = 3 when '
                                                 r'it is cropped, and none can be repeated'):
            model(np.arange(3), np.array([-3, 2]))


class GridSampleInDouble(unittest.TestCase):
    def test_double_precision(self):
        """Coordinates and weights have the type of the grid; in f32 their error would be 1e-8."""
        x = np.array([[[[0.0, 1.0, 2.0, 3.0, 4.0]]]])
        at = np.linspace(-0.9, 0.9, 37)
        grid = np.stack([at, np.zeros_like(at)], -1)[None, None]
        double = TensorProto.DOUBLE
        model = compiled([node("GridSample", ["x", "grid"], ["y"], mode="linear", align_corners=1)],
                         [info("x", double, x.shape), info("grid", double, grid.shape)], [info("y", double, [1, 1, 1, 37])], opset=20)
        np.testing.assert_allclose(model(x, grid)[0, 0, 0], (at + 1) * 2, rtol=0, atol=1e-14)


if __name__ == "__main__":
    sys.exit(unittest.main())
