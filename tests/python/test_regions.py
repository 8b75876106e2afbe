#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""MaxRoiPool, which ONNX's suite has no test of, against its definition in NumPy."""

import math
import sys
import unittest

import numpy as np
from onnx import TensorProto, helper

import tenon


def half_away(value):
    return int(math.copysign(math.floor(abs(value) + 0.5), value))


def pooled(x, rois, shape, scale):
    y = np.zeros((len(rois), x.shape[1], *shape), x.dtype)
    for r, (batch, *corners) in enumerate(rois):
        x1, y1, x2, y2 = (half_away(np.float32(c) * np.float32(scale)) for c in corners)
        for index in np.ndindex(*shape):
            bounds = []
            for cell, cells, first, last, size in zip(index, shape, (y1, x1), (y2, x2), x.shape[2:]):
                step = np.float32(max(last - first + 1, 1)) / np.float32(cells)
                low, high = math.floor(step * np.float32(cell)) + first, math.ceil(step * np.float32(cell + 1)) + first
                bounds.append((min(max(low, 0), size), min(max(high, 0), size)))
            (top, bottom), (left, right) = bounds
            if top < bottom and left < right:
                y[r, :, index[0], index[1]] = x[int(batch), :, top:bottom, left:right].max(axis=(1, 2))
    return y


class Regions(unittest.TestCase):
    def model(self, x, shape, scale):
        node = helper.make_node("MaxRoiPool", ["x", "rois"], ["y"], pooled_shape=shape, spatial_scale=scale)
        graph = helper.make_graph([node], "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, x),
                                                helper.make_tensor_value_info("rois", TensorProto.FLOAT, ["n", 5])],
                                  [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)])
        return tenon.compile(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)]), cache=False, threads=1)

    def test_regions_in_and_outside_of_the_image(self):
        rng = np.random.default_rng(3)
        x = rng.normal(size=(2, 3, 9, 12)).astype(np.float32) - 4  # below zero: an empty cell is greater
        corners = rng.uniform(-4, 26, size=(20, 4))
        rois = np.concatenate([rng.integers(0, 2, (20, 1)), corners], 1).astype(np.float32)
        rois[0] = [1, 3, 3, 3, 3]
        rois[1] = [0, 0, 0, 23, 17]
        rois[2] = [0, 10, 8, 2, 1]
        for shape, scale in (((2, 3), 0.5), ((1, 1), 1.0), ((7, 7), 0.4375)):
            for dims in (list(x.shape), ["b", 3, "h", "w"]):
                y = self.model(dims, shape, scale)(x, rois)
                np.testing.assert_array_equal(y, pooled(x, rois, shape, scale))
        self.assertTrue((y == 0).any())

    def test_wrong_shapes(self):
        with self.assertRaisesRegex(tenon.Error, "pooled_shape is not two sizes"):
            self.model([1, 1, 4, 4], [2], 1.0)


if __name__ == "__main__":
    sys.exit(unittest.main())
