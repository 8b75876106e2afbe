#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Single operators of the sizes at which they are computed in vectors and parts, which ONNX's suite is too small for,
against NumPy and against themselves element by element."""

import itertools
import sys
import unittest

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from onnx import TensorProto, helper, numpy_helper

import tenon


def run(operator, *operands, opset=20, **attributes):
    names = [f"x{i}" for i in range(len(operands))]
    inputs = [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
              for name, value in zip(names, operands)]
    graph = helper.make_graph([helper.make_node(operator, names, ["y"], **attributes)], "g", inputs,
                              [helper.make_empty_tensor_value_info("y")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)
    return tenon.compile(model.SerializeToString(), threads=1, cache=False)(*operands)


class Operators(unittest.TestCase):
    def setUp(self):
        self.random = np.random.default_rng(5)

    def floats(self, *shape):
        return self.random.normal(size=shape).astype(np.float32)

    def test_windows_of_plain_images(self):
        for size, window, stride, pad, dilation in (((28, 28), 3, 1, 1, 1), ((37, 50), 3, 2, 1, 1), ((24, 40), 2, 2, 0, 1),
                                                    ((33, 47), 5, 3, 2, 1), ((20, 70), 3, 4, 1, 2), ((130, 131), 3, 1, 1, 1)):
            x = self.floats(2, 3, *size)
            x[1, 2, 4, 5] = np.nan
            attributes = dict(kernel_shape=[window] * 2, strides=[stride] * 2, pads=[pad] * 4)
            reach = dilation * (window - 1) + 1
            for operator, fill in (("MaxPool", -np.inf), ("AveragePool", 0)):
                padded = np.pad(x, [(0, 0), (0, 0), (pad, pad), (pad, pad)], constant_values=fill)
                views = sliding_window_view(padded, (reach, reach), axis=(2, 3))
                views = views[:, :, ::stride, ::stride, ::dilation, ::dilation]
                expected = views.max(axis=(4, 5)) if operator == "MaxPool" else views.mean(axis=(4, 5))
                more = dict(count_include_pad=1) if operator == "AveragePool" else {}
                with self.subTest(operator, size=size, window=window, stride=stride):
                    got = run(operator, x, dilations=[dilation] * 2, **attributes, **more)
                    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)

    def test_images_that_are_padded_more_on_some_sides(self):
        """No two sides alike: neither the ends of a dimension, nor the dimensions."""
        w = self.floats(4, 3, 3, 2)
        for size in ((9, 8), (24, 40)):
            x = self.floats(2, 3, *size)
            for top, left, bottom, right in ((0, 1, 2, 3), (3, 2, 1, 0), (2, 1, 0, 0), (1, 0, 2, 1)):
                attributes = dict(kernel_shape=[3, 2], pads=[top, left, bottom, right])
                sides = [(0, 0), (0, 0), (top, bottom), (left, right)]
                views = sliding_window_view(np.pad(x, sides), (3, 2), axis=(2, 3))
                with self.subTest(size=size, sides=sides):
                    np.testing.assert_allclose(run("Conv", x, w, **attributes), np.einsum("ncyxhw,ochw->noyx", views, w), rtol=1e-4, atol=1e-5)
                    if max(top, left, bottom, right) > 2:  # a window of padding alone has no greatest element
                        continue
                    lowest = sliding_window_view(np.pad(x, sides, constant_values=-np.inf), (3, 2), axis=(2, 3))
                    np.testing.assert_array_equal(run("MaxPool", x, **attributes), lowest.max(axis=(4, 5)))

    def test_unique_rows_of_no_elements(self):
        for shape, axis, rows in (((0, 7), 0, (0, 7)), ((2, 0), 1, (2, 0)), ((3, 0), 0, (1, 0))):
            with self.subTest(shape=shape, axis=axis):  # of a type that is sorted as another, in a workspace
                self.assertEqual(run("Unique", np.zeros(shape, bool), axis=axis).shape, rows)

    def test_ignored_places_add_nothing_to_a_loss(self):
        x = self.floats(3, 5)
        x[1] = -np.inf  # a place that is ignored may hold anything, its first class too
        target = np.array([2, 7, 0])
        weight = np.array([0.5, 1, 2, 1, 1], np.float32)
        for weights in ([], [weight]):
            loss = run("NegativeLogLikelihoodLoss", x, target, *weights, ignore_index=7, reduction="sum")
            share = weight if weights else np.ones_like(weight)
            np.testing.assert_allclose(loss, -x[0, 2] * share[2] - x[2, 0] * share[0], rtol=1e-6)

    def test_places_of_the_greatest(self):
        for shape, axis in itertools.product(((3, 21, 5, 37), (7, 200), (1, 5, 64)), (0, 1, -1)):
            x = self.random.integers(-9, 9, shape).astype(np.float32)  # with equals
            x.flat[23] = np.nan
            for last in (0, 1):
                with self.subTest(shape=shape, axis=axis, last=last):
                    turned = np.flip(x, axis) if last else x
                    greatest, least = np.argmax(turned, axis), np.argmin(turned, axis)
                    if last:
                        greatest, least = x.shape[axis] - 1 - greatest, x.shape[axis] - 1 - least
                    for operator, expected in (("ArgMax", greatest), ("ArgMin", least)):
                        got = run(operator, x, axis=axis, keepdims=0, select_last_index=last)
                        self.assertEqual(got.dtype, np.int64)
                        np.testing.assert_array_equal(got, expected)

    def test_places_of_the_greatest_of_windows(self):
        for shape in ((2, 3, 9, 7), (1, 2, 5, 6, 4)):
            spatial = len(shape) - 2
            x = self.random.integers(-2, 3, shape).astype(np.float32)  # with equals: the first in the order of rows counts
            views = sliding_window_view(x, [2] * spatial, axis=tuple(range(2, 2 + spatial)))
            first = np.unravel_index(views.reshape(*views.shape[:-spatial], -1).argmax(-1), [2] * spatial)
            places = [np.arange(size).reshape([-1 if i == d else 1 for i in range(len(shape))])
                      for d, size in enumerate(views.shape[:len(shape)])]
            inside = [places[d + 2] + first[d] for d in range(spatial)]
            images = (places[0] * shape[1] + places[1]) * int(np.prod(shape[2:]))
            for storage, order in ((0, "C"), (1, "F")):
                with self.subTest(shape=shape, storage_order=storage):
                    graph = helper.make_graph(
                        [helper.make_node("MaxPool", ["x"], ["y", "at"], kernel_shape=[2] * spatial, storage_order=storage)],
                        "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
                        [helper.make_empty_tensor_value_info("y"), helper.make_empty_tensor_value_info("at")])
                    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
                    _, at = tenon.compile(model.SerializeToString(), threads=1, cache=False)(x)
                    np.testing.assert_array_equal(at, images + np.ravel_multi_index(inside, shape[2:], order=order))

    def test_scattered_slices(self):
        for shape, count, tuples in (((50, 70), 20, 1), ((9, 5, 3), 6, 1), ((9, 8, 100), 30, 2), ((11, 12), 9, 2)):
            x = self.floats(*shape)
            places = self.random.permutation(int(np.prod(shape[:tuples])))[:count]
            indices = np.stack(np.unravel_index(places, shape[:tuples]), axis=-1).astype(np.int64)
            updates, expected, summed = self.floats(count, *shape[tuples:]), x.copy(), x.copy()
            expected[tuple(indices.T)] = updates
            summed[tuple(indices.T)] += updates
            with self.subTest(shape=shape, tuples=tuples):
                np.testing.assert_array_equal(run("ScatterND", x, indices, updates), expected)
                np.testing.assert_array_equal(run("ScatterND", x, indices - np.array(shape[:tuples]), updates), expected)
                np.testing.assert_array_equal(run("ScatterND", x, indices, updates, reduction="add"), summed)

    def check_channels(self, sample, x):
        """All channels together, which are then in vectors, give what each gives alone."""
        together = sample(x)
        for channel in range(x.shape[1]):
            np.testing.assert_allclose(together[:, channel:channel + 1], sample(x[:, channel:channel + 1]), rtol=1e-5,
                                       atol=1e-5)

    def test_channels_of_sampled_images(self):
        x = self.floats(2, 19, 11, 9)
        grid = self.random.uniform(-1.3, 1.3, (2, 6, 10, 2)).astype(np.float32)
        for mode, padding in itertools.product(("linear", "nearest", "cubic"), ("zeros", "border", "reflection")):
            with self.subTest(mode=mode, padding=padding):
                self.check_channels(lambda a: run("GridSample", a, grid, mode=mode, padding_mode=padding), x)
        lines, points = self.floats(1, 12, 40), self.random.uniform(-1.1, 1.1, (1, 33, 1)).astype(np.float32)
        self.check_channels(lambda a: run("GridSample", a, points, opset=20), lines)

    def test_channels_of_aligned_regions(self):
        x = self.floats(2, 37, 12, 14)
        corners = np.sort(self.random.uniform(-6, 18, (9, 2, 2)), axis=1).reshape(9, 4).astype(np.float32)
        batches = self.random.integers(0, 2, 9)
        for mode, ratio in itertools.product(("avg", "max"), (0, 2)):
            with self.subTest(mode=mode, ratio=ratio):
                self.check_channels(lambda a: run("RoiAlign", a, corners, batches, mode=mode, sampling_ratio=ratio,
                                                  output_height=3, output_width=4, spatial_scale=0.9), x)

    def test_powers_of_integers(self):
        """Results are exact modulo the type's range; a negative exponent truncates towards zero."""
        def power(x, y, bits):
            if y < 0:
                value = {0: 2 ** (bits - 1) - 1, 1: 1, -1: -1 if y % 2 else 1}.get(x, 0)
            else:
                value = pow(x, y, 2 ** bits)
            return (value + 2 ** (bits - 1)) % 2 ** bits - 2 ** (bits - 1)
        bases = [0, 1, -1, 2, -2, 3, -3, 7, 10, 46341, -2 ** 31, 2 ** 31 - 1, -3]
        exponents = [0, 1, 2, 3, 5, 19, 22, 31, 39, 63, 64, 2 ** 31 - 1, -1, -2]
        pairs = np.array(list(itertools.product(bases, exponents)))
        for base, exponent in itertools.product((np.int32, np.int64), (np.int32, np.int64, np.uint64, np.int8)):
            x, y = pairs[:, 0].astype(base), pairs[:, 1].astype(exponent)
            want = [power(int(a), int(b), 8 * x.itemsize) for a, b in zip(x, y)]
            np.testing.assert_array_equal(run("Pow", x, y), want)
        x = np.array([2, -3, 2 ** 40 + 1, 0], np.int64)
        for y in [0, 1, 2, 3, 4, 7, 39, 63, 64, 65, 2 ** 40, -1, -5]:  # constants
            want = [power(int(a), y, 64) for a in x]
            for kind in (np.int64, np.float32):
                constant = numpy_helper.from_array(np.array(y, kind), "k")
                inputs = [helper.make_tensor_value_info("x", helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)]
                graph = helper.make_graph([helper.make_node("Pow", ["x", "k"], ["y"])], "g", inputs,
                                          [helper.make_empty_tensor_value_info("y")], [constant])
                model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 15)], ir_version=9)
                np.testing.assert_array_equal(tenon.compile(model, threads=1, cache=False)(x), want, f"{kind} {y}")

    def test_windows_larger_than_the_input(self):
        """With ceil_mode a window counts if it begins inside. A window larger by one stride yields an empty result."""
        for size, window, stride, dilation in itertools.product((1, 2, 3, 5), (1, 2, 3, 4), (1, 2, 3), (1, 2)):
            reach = (window - 1) * dilation + 1
            count = -((reach - size) // stride) + 1
            if count > 0 and (count - 1) * stride >= size:
                count -= 1
            if count < 0:
                continue
            x = self.random.normal(size=(1, 2, size)).astype(np.float32)
            seen = [x[:, :, i * stride:][:, :, :reach:dilation] for i in range(count)]
            for operator, function in (("MaxPool", np.max), ("AveragePool", np.mean)):
                with self.subTest(operator=operator, size=size, window=window, stride=stride, dilation=dilation):
                    got = run(operator, x, kernel_shape=[window], strides=[stride], dilations=[dilation], ceil_mode=1)
                    want = np.stack([function(part, axis=2) for part in seen], -1) if seen else np.empty((1, 2, 0))
                    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)

    def test_groups_with_weights_of_the_run(self):
        """The number of filters, and so of filters in a group, is open."""
        rng = self.random
        for operator, groups, each, depth in itertools.product(("Conv", "ConvTranspose"), (2, 3), (1, 2, 5), (1, 2)):
            x = rng.normal(size=(2, groups * depth, 5)).astype(np.float32)
            w = rng.normal(size=(groups * each, depth, 3) if operator == "Conv" else (groups * depth, each, 3)).astype(np.float32)
            graph = helper.make_graph([helper.make_node(operator, ["x", "w"], ["y"], group=groups)], "g",
                                      [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", "c", "l"]),
                                       helper.make_tensor_value_info("w", TensorProto.FLOAT, ["o", "i", 3])],
                                      [helper.make_empty_tensor_value_info("y")])
            model = tenon.compile(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9),
                                  threads=1, cache=False)
            parts = []
            for g in range(groups):
                own = x[:, g * depth:(g + 1) * depth].astype(np.float64)
                if operator == "Conv":
                    windows = sliding_window_view(own, 3, axis=2)
                    parts.append(np.einsum("nclk,ock->nol", windows, w[g * each:(g + 1) * each].astype(np.float64)))
                else:
                    wide = np.pad(own, ((0, 0), (0, 0), (2, 2)))
                    turned = w[g * depth:(g + 1) * depth, :, ::-1].astype(np.float64)
                    parts.append(np.einsum("nclk,cok->nol", sliding_window_view(wide, 3, axis=2), turned))
            with self.subTest(operator=operator, groups=groups, each=each, depth=depth):
                np.testing.assert_allclose(model(x, w), np.concatenate(parts, 1), rtol=1e-4, atol=1e-5)
            if operator == "Conv":
                with self.assertRaisesRegex(tenon.Error, f"convolution: o = {groups * each + 1} output channels do not divide into "
                                                         f"{groups} groups"):
                    model(x, np.concatenate([w, w[:1]]))

    def kept_boxes(self, corners, scores, most, overlap, least):
        """Triples as NonMaxSuppression gives them, one candidate after the other."""
        chosen = []
        for batch, kind in np.ndindex(scores.shape[:2]):
            low, high = np.minimum(corners[batch, :, :2], corners[batch, :, 2:]), np.maximum(corners[batch, :, :2], corners[batch, :, 2:])
            area, kept = (high - low).prod(axis=1), []
            for box in np.argsort(-scores[batch, kind], kind="stable"):
                if len(kept) == most or scores[batch, kind, box] <= least:
                    break
                common = np.minimum(high[box], high[kept]) - np.maximum(low[box], low[kept])
                inter = np.maximum(common, 0).prod(axis=1)
                if not (inter > overlap * (area[box] + area[kept] - inter)).any():
                    kept.append(box)
            chosen += [(batch, kind, box) for box in kept]
        return np.array(chosen, np.int64)

    def test_boxes_among_many(self):
        corners = self.random.uniform(0, 40, (2, 700, 4)).astype(np.float32)
        corners[:, :, 2:] = corners[:, :, :2] + self.random.uniform(-3, 3, (2, 700, 2)).astype(np.float32)
        scores = self.random.permutation(2 * 3 * 700).reshape(2, 3, 700).astype(np.float32)
        centers = np.concatenate([(corners[..., 1::-1] + corners[..., :1:-1]) / 2,
                                  np.abs(corners[..., :1:-1] - corners[..., 1::-1])], axis=-1)
        for most, overlap, least in ((700, 0.2, 400.5), (5, 0.4, 0), (300, 0, 100)):
            expected = self.kept_boxes(corners, scores, most, np.float32(overlap), least)
            limits = [np.array([value], dtype) for value, dtype in ((most, np.int64), (overlap, np.float32), (least, np.float32))]
            for boxes, center in ((corners, 0), (centers, 1)):
                with self.subTest(most=most, center=center):
                    got = run("NonMaxSuppression", boxes, scores, *limits, center_point_box=center)
                    np.testing.assert_array_equal(got, expected)
        self.assertGreater(len(self.kept_boxes(corners, scores, 700, np.float32(0.2), 0)), 6 * 130)  # several blocks each


if __name__ == "__main__":
    sys.exit(unittest.main())
