#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Operands that most models give as constants, axes and sizes, known only when the model runs."""

import itertools
import sys
import unittest

import numpy as np
from onnx import TensorProto, helper

import tenon
from product import graph, info, node

BOOL, FLOAT, INT64 = TensorProto.BOOL, TensorProto.FLOAT, TensorProto.INT64


def compiled(nodes, inputs, outputs, opset=22):
    model = helper.make_model(graph(nodes, inputs, outputs, []), opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
    return tenon.compile(model, cache=False, threads=1)


def ints(*values):
    return np.asarray(values, np.int64)


def image_of(x, image, block, strides, dilations, pads):
    """What Col2Im adds up, element by element."""
    count = [(image[d] + pads[d] + pads[2 + d] - dilations[d] * (block[d] - 1) - 1) // strides[d] + 1 for d in range(2)]
    columns = x.reshape(x.shape[0], -1, *block, *count)
    y = np.zeros((*columns.shape[:2], image[0] + pads[0] + pads[2], image[1] + pads[1] + pads[3]), x.dtype)
    for i, j, p, q in itertools.product(*map(range, (*block, *count))):
        y[:, :, p * strides[0] + i * dilations[0], q * strides[1] + j * dilations[1]] += columns[:, :, i, j, p, q]
    return y[:, :, pads[0]:pads[0] + image[0], pads[1]:pads[1] + image[1]]


class Axes(unittest.TestCase):
    X = np.random.default_rng(1).normal(size=(2, 3, 4)).astype(np.float32)

    def test_running_sums(self):
        for shape in ((2, 3, 4), ("a", "b", "c")):
            model = compiled([node("CumSum", ["x", "axis"], ["y"], name="sums", exclusive=1, reverse=1)],
                             [info("x", FLOAT, shape), info("axis", INT64, [])], [info("y", FLOAT, shape)])
            for axis in range(-3, 3):
                flipped = np.flip(self.X, axis)
                want = np.flip(np.cumsum(flipped, axis) - flipped, axis)
                np.testing.assert_allclose(model(self.X, np.asarray(axis)), want, rtol=1e-5, atol=1e-6)
            for axis in (-4, 3):
                with self.assertRaisesRegex(tenon.Error, rf'node "sums" \(CumSum, opset 22\): input 1 \(axis\) is {axis}, and must '
                                                         r'be in \[-3, 0\) or \[0, 3\)'):
                    model(self.X, np.asarray(axis))

    def test_fourier_transforms(self):
        signal = np.random.default_rng(2).normal(size=(5, 4, 6, 2)).astype(np.float32)
        numbers = signal[..., 0] + 1j * signal[..., 1]
        parts = lambda y: np.stack([y.real, y.imag], -1)  # noqa: E731
        cases = {  # inverse and one-sided: of the input, what NumPy has for it
            (0, 0): (signal, lambda n, axis: parts(np.fft.fft(numbers, n, axis))),
            (1, 0): (signal, lambda n, axis: parts(np.fft.ifft(numbers, n, axis))),
            (0, 1): (signal[..., :1], lambda n, axis: parts(np.fft.rfft(signal[..., 0], n, axis))),
            (1, 1): (signal, lambda n, axis: np.fft.irfft(numbers, n, axis)[..., None])}
        for (inverse, onesided), (x, expected) in cases.items():
            for length in (False, True):
                model = compiled([node("DFT", ["x", "n" if length else "", "axis"], ["y"], inverse=inverse, onesided=onesided)],
                                 [info("x", FLOAT, x.shape), *([info("n", INT64, [])] if length else []), info("axis", INT64, [])],
                                 [info("y", FLOAT, [None] * 4)])
                for n in (7, 3, 4) if length else (None,):
                    sizes = [np.asarray(n)] if length else []
                    for axis in (0, 1, 2, -2, -3, -4):
                        y = model(x, *sizes, np.asarray(axis))
                        np.testing.assert_allclose(y, expected(n, axis % 4), rtol=1e-4, atol=1e-5)
        for axis in (3, -1, -5):
            with self.assertRaisesRegex(tenon.Error, rf"input 2 \(axis\) is {axis}, and must be in \[-4, -1\) or \[0, 3\)"):
                model(x, np.asarray(4), np.asarray(axis))

    def test_several(self):
        x, axes, y = info("x", FLOAT, ["a", "b", "c"]), info("axes", INT64, [2]), info("y", FLOAT, None)
        models = {
            "ReduceSum": compiled([node("ReduceSum", ["x", "axes"], ["y"], keepdims=0)], [x, axes], [y]),
            "Slice": compiled([node("Slice", ["x", "from", "to", "axes"], ["y"])],
                              [x, axes, info("from", INT64, [2]), info("to", INT64, [2])], [y]),
            "Pad": compiled([node("Pad", ["x", "pads", "", "axes"], ["y"])], [x, axes, info("pads", INT64, [4])], [y]),
            "Unsqueeze": compiled([node("Unsqueeze", ["x", "axes"], ["y"])], [x, axes], [y]),
            "Squeeze": compiled([node("Squeeze", ["x", "axes"], ["y"])], [x, axes], [y])}

        def sliced(a, b):
            index = [slice(None)] * 3
            index[a], index[b] = slice(1, 2), slice(0, -1)
            return self.X[tuple(index)]

        def padded(a, b):
            pads = np.zeros((3, 2), int)
            pads[a], pads[b] = (1, 3), (2, 4)
            return np.pad(self.X, pads)

        for a, b in ((0, 1), (2, 0), (-1, 1), (-2, -3)):
            np.testing.assert_allclose(models["ReduceSum"](self.X, ints(a, b)), self.X.sum((a, b)), rtol=1e-5)
            np.testing.assert_array_equal(models["Slice"](self.X, ints(a, b), ints(1, 0), ints(2, -1)), sliced(a, b))
            np.testing.assert_array_equal(models["Pad"](self.X, ints(a, b), ints(1, 2, 3, 4)), padded(a, b))
            wide = models["Unsqueeze"](self.X, ints(a, b))
            np.testing.assert_array_equal(wide, np.expand_dims(self.X, (a, b)))
        np.testing.assert_array_equal(models["Squeeze"](np.ones((1, 3, 1), np.float32), ints(2, 0)), np.ones(3))
        extra = {"Slice": [ints(0, 0), ints(1, 1)], "Pad": [ints(0, 0, 0, 0)]}
        for name, model in models.items():
            rank = 5 if name == "Unsqueeze" else 3
            place = 3 if name in extra else 1
            for wrong, named in (((0, rank), 1), ((1, 1), 1), ((1, 1 - rank), 1), ((-rank - 1, rank), 0)):
                with self.assertRaisesRegex(tenon.Error, rf"{name}, opset 22\): input {place} must name 2 different dimensions of a tensor "
                                                         rf"with {rank}, and names {named}"):
                    model(self.X, ints(*wrong), *extra.get(name, []))


class Sizes(unittest.TestCase):
    def test_images_of_columns(self):
        rng = np.random.default_rng(3)
        for strides, dilations, pads in (([1, 1], [1, 1], [0] * 4), ([2, 1], [1, 2], [1, 0, 2, 1])):
            model = compiled([node("Col2Im", ["x", "image", "block"], ["y"], name="image", strides=strides, dilations=dilations, pads=pads)],
                             [info("x", FLOAT, [2, "rows", "columns"]), info("image", INT64, [2]), info("block", INT64, [2])],
                             [info("y", FLOAT, [2, None, None, None])])
            for image, block, channels in (((5, 6), (2, 2), 3), ((9, 7), (3, 1), 1), ((8, 8), (1, 3), 2)):
                count = [(image[d] + pads[d] + pads[2 + d] - dilations[d] * (block[d] - 1) - 1) // strides[d] + 1 for d in range(2)]
                x = rng.normal(size=(2, channels * block[0] * block[1], count[0] * count[1])).astype(np.float32)
                np.testing.assert_allclose(model(x, ints(*image), ints(*block)), image_of(x, image, block, strides, dilations, pads),
                                           rtol=1e-5, atol=1e-6)
        for image, block, columns, words in (
                ((5, 6), (3, 2), 15, r"dimension 1 of f32\[2, rows, columns\] must be a multiple of 6"),
                ((5, 5), (2, 2), 20, "dimension 2 of operand 0 is columns = 20 and must be equal to 16"),
                ((5, 6), (0, 2), 30, "block has 0 elements along dimension 0, expected some"),
                ((2, 2), (1, 4), 0, "a block over 4 elements must fit into dimension 1 of the image, which has 2 with its pads"),
                ((2, 2), (10, 10), 49, "a block over 10 elements must fit into dimension 0 of the image, which has 2 with"),
                ((-1, 6), (2, 2), 20, "image has -1 elements along dimension 0")):
            model = compiled([node("Col2Im", ["x", "image", "block"], ["y"], name="image")],
                             [info("x", FLOAT, [2, "rows", "columns"]), info("image", INT64, [2]), info("block", INT64, [2])],
                             [info("y", FLOAT, [2, None, None, None])])
            with self.assertRaisesRegex(tenon.Error, rf'node "image" \(Col2Im, opset 22\): col2im: {words}'):
                model(np.ones((2, 8, columns), np.float32), ints(*image), ints(*block))
        for image, pads, elements in (((2, 2), [0] * 4, 2), ((3, 6), [1, 0, 2, 0], 6)):  # known when it is compiled
            with self.assertRaisesRegex(tenon.Error, r'node "image" \(Col2Im, opset 22\): col2im: a block over 10 elements must fit into '
                                                     rf"dimension 0 of the image, which has {elements} with its pads"):
                compiled([node("Constant", [], ["sizes"], value_ints=image), node("Constant", [], ["block"], value_ints=[10, 10]),
                          node("Col2Im", ["x", "sizes", "block"], ["y"], name="image", pads=pads)],
                         [info("x", FLOAT, [2, 100, None])], [info("y", FLOAT, [2, 1, None, None])])

    def test_blocks_whose_sizes_wrap_around(self):
        # 2^64 elements a block are 0 in 64 bits, and one that reaches over 2^64 - 2^33 + 1 has a reach below 0.
        for image, block, pads, dilation, words in (
                ((4, 4), (2**32, 2**32), 2**31 - 1, 1, "dimension 1 of .* must be a multiple of"),
                ((2, 2), (2**33 + 1, 1), 0, 2**31 - 1, "a block over .* elements must fit into dimension 0")):
            col2im, y = node("Col2Im", ["x", "image", "block"], ["y"], pads=[pads] * 4, dilations=[dilation, 1]), info("y", FLOAT, [None] * 4)
            model = compiled([col2im], [info("x", FLOAT, [1, "rows", 9]), info("image", INT64, [2]), info("block", INT64, [2])], [y])
            with self.assertRaisesRegex(tenon.Error, words):
                model(np.ones((1, 1, 9), np.float32), ints(*image), ints(*block))
            with self.assertRaisesRegex(tenon.Error, words):
                compiled([node("Constant", [], ["image"], value_ints=image), node("Constant", [], ["block"], value_ints=block), col2im],
                         [info("x", FLOAT, [1, 1, 9])], [y])

    def test_shapes_of_more_elements_than_can_be_counted(self):
        model = compiled([node("Reshape", ["x", "shape"], ["y"], name="far")], [info("x", FLOAT, ["a", "b"]), info("shape", INT64, [3])],
                         [info("y", FLOAT, [None] * 3)])
        for shape in ((2**62, 2**62, -1), (2**62, 4, 1), (2**32, 2**32, 6)):  # products that 64 bits would wrap around
            made = ", ".join(str(6 if size == -1 else size) for size in shape)
            with self.assertRaisesRegex(tenon.Error, rf"of 6 elements can't take the shape \[{made}\]"):
                model(np.zeros((2, 3), np.float32), ints(*shape))
        with self.assertRaisesRegex(tenon.Error, "which does not fit into memory"):
            model(np.zeros((2, 3), np.float32), ints(7, 7905747460161236407, 6))  # 6 elements to 64 bits
        with self.assertRaisesRegex(tenon.Error, "which does not fit into memory"):
            model(np.zeros((0, 3), np.float32), ints(2**32, 2**32, 1))  # none to 64 bits

    def test_a_shape_that_is_known_after_its_elements(self):
        # The elements of y are made before the numbers that say its shape.
        model = compiled([node("Relu", ["x"], ["r"]), node("Concat", ["a", "b"], ["shape"], axis=0), node("Reshape", ["r", "shape"], ["y"])],
                         [info("x", FLOAT, ["n"]), info("a", INT64, [1]), info("b", INT64, [1])], [info("y", FLOAT, ["p", "q"])])
        x = np.arange(-5, 7, dtype=np.float32)
        for a, b in ((3, 4), (12, 1), (2, -1)):
            want = np.maximum(x, 0).reshape(a, b)
            np.testing.assert_array_equal(model(x, ints(a), ints(b)), want)
            memory = np.full(want.shape, 9, np.float32)
            model.set_inputs(x=x, a=ints(a), b=ints(b))
            model.set_outputs(y=memory)
            model.invoke()
            np.testing.assert_array_equal(memory, want)

    def test_frames_of_signals(self):
        # A step below 1 would read in front of the signal.
        model = compiled([node("STFT", ["x", "step", "", "length"], ["y"], name="frames")],
                         [info("x", FLOAT, [1, "n", 1]), info("step", INT64, []), info("length", INT64, [])], [info("y", FLOAT, [None] * 4)])
        x = np.random.default_rng(5).normal(size=(1, 10, 1)).astype(np.float32)
        for step, length, frames in ((2, 4, 4), (1, 10, 1), (3, 1, 4), (2, 11, 0), (2, 20, 0)):
            y = model(x, np.asarray(step), np.asarray(length))
            self.assertEqual(y.shape, (1, frames, length // 2 + 1, 2))
            for i in range(frames):
                want = np.fft.rfft(x[0, i * step:i * step + length, 0])
                np.testing.assert_allclose(y[0, i, :, 0] + 1j * y[0, i, :, 1], want, rtol=1e-4, atol=1e-5)
        for step, length, words in ((0, 4, "step is 0"), (-10**9, 4, "step is -1000000000"),
                                    (2, 0, "length is 0"), (2, -3, "length is -3")):
            with self.assertRaisesRegex(tenon.Error, rf'node "frames" \(STFT, opset 22\): the frame {words}, and must be at least 1'):
                model(x, np.asarray(step), np.asarray(length))

    def test_steps_of_slices(self):
        model = compiled([node("Slice", ["x", "from", "to", "axes", "step"], ["y"], name="part")],
                         [info("x", FLOAT, ["n"]), *(info(name, INT64, [1]) for name in ("from", "to", "axes", "step"))], [info("y", FLOAT, [None])])
        x, least, most = np.arange(1, 11, dtype=np.float32), -2**63, 2**63 - 1
        for start, end, step in itertools.product((least, -4, 2, most), (least, -9, 0, 7, most), (least, -2**62, -3, -1, 1, 4, most)):
            # Python's own slices are what ONNX means, but for an end below all, which is written as such.
            np.testing.assert_array_equal(model(x, ints(start), ints(end), ints(0), ints(step)), x[slice(start, end, step)])
        with self.assertRaisesRegex(tenon.Error, r'node "part" \(Slice, opset 22\): a step is 0'):
            model(x, ints(5), ints(1), ints(0), ints(0))

    def test_operands_of_one_element(self):
        x, one = info("x", FLOAT, [1, 8, 1]), info("f", FLOAT, [])
        cases = {"DFT": (["x", "l"], 1), "STFT": (["x", "l", "", "l"], 1), "MelWeightMatrix": (["l", "l", "l", "f", "f"], 0)}
        for count in (0, 2):
            for op, (inputs, place) in cases.items():
                with self.assertRaisesRegex(tenon.Error, rf'{op}, opset 22\): input {place} "l" has {count} elements, expected 1'):
                    compiled([node(op, inputs, ["y"])], [x, info("l", INT64, [count]), one], [info("y", FLOAT, None)])

    def test_no_elements_of_a_size_that_is_found_on_the_way(self):
        model = compiled([node("Constant", [], ["zero"], value_ints=[0]), node("Constant", [], ["axis"], value_int=1),
                          node("NonZero", ["x"], ["places"]), node("Cast", ["places"], ["numbers"], to=FLOAT),
                          node("Slice", ["numbers", "zero", "zero"], ["none"]), node("Softmax", ["none"], ["parts"], axis=0),
                          node("CumSum", ["parts", "axis"], ["sums"]), node("ReduceSum", ["parts", "zero"], ["total"], keepdims=0)],
                         [info("x", FLOAT, ["n"])],
                         [info("sums", FLOAT, [None, None]), info("total", FLOAT, [None])])
        sums, total = model(np.asarray([0, 1, 2], np.float32))
        self.assertEqual(sums.shape, (0, 2))
        np.testing.assert_array_equal(total, [0, 0])

    def test_the_greatest_index_of_no_elements(self):
        """What is added to it wraps, and nothing lies where it leads."""
        greatest, x = np.iinfo(np.int64).max, np.zeros((0, 4), np.float32)
        for op, indices in (("Gather", (1,)), ("GatherElements", (1, 4)), ("GatherND", (1, 1)),
                            ("ScatterElements", (1, 4)), ("ScatterND", (1, 1))):
            inputs = [info("x", FLOAT, ["n", 4]), info("i", INT64, ["k", *indices[1:]])]
            values = [x, np.full(indices, greatest)]
            if op.startswith("Scatter"):
                inputs.append(info("u", FLOAT, ["k", 4]))
                values.append(np.ones((1, 4), np.float32))
            model = compiled([node(op, [i.name for i in inputs], ["y"])], inputs, [info("y", FLOAT, None)])
            with self.assertRaisesRegex(tenon.Error, "index out of range"):
                model(*values)


class Extremes(unittest.TestCase):
    """Numbers from which no size or place can be made are refused; they neither wrap around to one nor read elsewhere."""

    def check(self, op, inputs, values, text, makes=None, **attributes):
        names = [name for name, _, _ in inputs]
        model = compiled([node(op, names, ["y"], name="n", **attributes)], [info(*given) for given in inputs if given[0]],
                         [info("y", makes or (FLOAT if inputs[0][1] == FLOAT else INT64), None)], 24)
        with self.assertRaisesRegex(tenon.Error, text):
            model(*values)

    def test_ranges(self):
        for dtype, values, text in (
                (INT64, (-2**63, 2**63 - 1, 1), r"input 0 \(start\) is -9223372036854775808, and must be within 2\^61 of 0"),
                (INT64, (10, 0, -2**63), r"input 2 \(delta\) is -9223372036854775808, and must be within 2\^61 of 0"),
                (FLOAT, (np.nan, 5, 1), r'node "n" \(Range, opset 24\): the start, the limit or the step is not a number'),
                (FLOAT, (0, np.inf, 1), "does not fit into memory"),
                (FLOAT, (0, 1, 0), "does not fit into memory")):
            values = [np.asarray(v, np.int64 if dtype == INT64 else np.float32) for v in values]
            self.check("Range", [(name, dtype, []) for name in "xwz"], values, text)

    def test_sizes(self):
        x = np.ones((2, 2), np.float32)
        image, size = ("x", FLOAT, [2, 2]), lambda count: ("s", INT64, [count])
        self.check("Pad", [image, size(4)], [x, ints(2**63 - 1, 0, 2**63 - 1, 0)],
                   r"element 0 of the pads is 9223372036854775807, and must be within 2\^48 of 0")
        self.check("Tile", [image, size(2)], [x, ints(2**62, 4)], r"element 0 of input 1 \(repeats\) is 4611686018427387904, and must be")
        for scale in (np.nan, -1, 0):
            self.check("Resize", [image, ("", 0, 0), ("s", FLOAT, [2])], [x, np.asarray([scale, 1], np.float32)],
                       r'node "n" \(Resize, opset 24\): the scale of dimension 0 is not a positive number')
        self.check("Resize", [("x", FLOAT, ["n", 2]), ("", 0, 0), ("", 0, 0), size(2)], [x[:0], ints(4, 2)],
                   "resize: dimension 0 has no elements to make 4 of")
        with self.assertRaisesRegex(tenon.Error, r"input 1 \(depth\) is nan"):
            compiled([node("Constant", [], ["depth"], value_float=np.nan), node("OneHot", ["x", "depth", "values"], ["y"])],
                     [info("x", INT64, [2]), info("values", FLOAT, [2])], [info("y", FLOAT, None)])

    def test_negative_sizes(self):
        """Each operator that takes sizes as data names its node."""
        x = ("x", FLOAT, ["n", 2])
        ones, sizes, dims = np.ones((4, 2), np.float32), ("s", INT64, [2]), "dimension 1 of the new shape"
        two = ("v", FLOAT, [2])
        for op, inputs, values, words in (
                ("Reshape", [x, sizes], [ones, ints(4, -2)], dims),
                ("Expand", [x, sizes], [ones, ints(4, -2)], dims),
                ("ConstantOfShape", [sizes], [ints(4, -2)], dims),
                ("Tile", [x, sizes], [ones, ints(4, -2)], r"element 1 of input 1 \(repeats\)"),
                ("Resize", [x, ("", 0, 0), ("", 0, 0), sizes], [ones, ints(4, -2)], "the size of dimension 1"),
                ("OneHot", [("i", INT64, ["n"]), ("d", INT64, []), two], [ints(1), np.asarray(-2), ones[0]], r"input 1 \(depth\)"),
                ("OneHot", [("i", INT64, ["n"]), ("d", FLOAT, []), two], [ints(1), np.asarray(-2, np.float32), ones[0]],
                 r"input 1 \(depth\)")):
            with self.subTest(op):
                self.check(op, inputs, values, rf'node "n" \({op}, opset 24\): {words} is -2, and must not be negative', FLOAT)
        self.check("Pad", [x, ("s", INT64, [4])], [ones, ints(0, -2, 0, -2)],
                   r'node "n" \(Pad, opset 24\): pad: dimension 1 would have -2 elements')

    def test_expanded_to_sizes_that_do_not_suit(self):
        for shape in ((4, 2), ("n", 2), ("n", "m")):
            inputs = [info("x", FLOAT, shape), info("s", INT64, [2])]
            model = compiled([node("Expand", ["x", "s"], ["y"], name="wide")], inputs, [info("y", FLOAT, None)])
            x = np.ones((4, 2), np.float32)
            for size in ((1, 1), (4, 1), (4, 2)):
                np.testing.assert_array_equal(model(x, ints(*size)), x)
            for size, words in (((3, 2), "dimension 0 is .*4 and cannot be expanded to 3"), ((8, 1), "dimension 0 is .*4 and cannot be expanded to 8"),
                                ((4, 0), "dimension 1 is .*2 and cannot be expanded to 0")):
                with self.subTest(shape=shape, size=size), self.assertRaisesRegex(
                        tenon.Error, rf'node "wide" \(Expand, opset 22\): {words}'):
                    model(x, ints(*size))
            if shape[0] == "n":
                for size in ((3, 2), (1, 2), (0, 2)):
                    self.assertEqual(model(x[:1], ints(*size)).shape, size)
                self.assertEqual(model(x[:0], ints(1, 2)).shape, (0, 2))
            constant = lambda size: [node("Constant", [], ["s"], value_ints=size), node("Expand", ["x", "s"], ["y"], name="wide")]  # noqa: E731
            if shape[0] == "n":
                model = compiled(constant([3, 2]), inputs[:1], [info("y", FLOAT, None)])
                self.assertEqual(model(x[:1]).shape, (3, 2))
                self.assertEqual(model(x[:3]).shape, (3, 2))
                with self.assertRaisesRegex(tenon.Error, r'node "wide" \(Expand, opset 22\): dimension 0 is n = 4 and cannot be expanded to 3'):
                    model(x)
            else:
                with self.assertRaisesRegex(tenon.Error, r'node "wide" \(Expand, opset 22\): dimension 0 is 4 and cannot be expanded to 3'):
                    compiled(constant([3, 2]), inputs[:1], [info("y", FLOAT, None)])
            with self.assertRaisesRegex(tenon.Error, r'node "wide" \(Expand, opset 22\): dimension 0 of the new shape is -3, and must not be'):
                compiled(constant([-3, 2]), inputs[:1], [info("y", FLOAT, None)])

    def test_lengths_of_sequences(self):
        """0 is one, as many as there are steps too; what is beyond that is refused, and it is not cut to them."""
        weights = [("w", FLOAT, [1, 4, 2]), ("r", FLOAT, [1, 4, 1]), ("b", FLOAT, [1, 8])]
        values = [np.ones((1, 4, 2), np.float32), np.ones((1, 4, 1), np.float32), np.zeros((1, 8), np.float32)]
        models = {
            "ReverseSequence": ([("x", FLOAT, ["t", "b"]), ("l", INT64, ["b"])], np.ones((3, 2), np.float32), [], np.int64, 1),
            "LSTM": ([("x", FLOAT, ["t", "b", 2]), *weights, ("l", TensorProto.INT32, ["b"])], np.ones((3, 2, 2), np.float32), values, np.int32, 4)}
        for op, (inputs, x, rest, dtype, place) in models.items():
            attributes = {"hidden_size": 1} if op == "LSTM" else {}
            nodes = [node(op, [name for name, _, _ in inputs], ["y"], name="n", **attributes)]
            model = compiled(nodes, [info(*given) for given in inputs], [info("y", FLOAT, None)])
            place = rf'node "n" \({op}, opset 22\): the %s of input {place} "l" is %d, '
            for lengths in ([0, 3], [3, 1]):
                model(x, *rest, np.asarray(lengths, dtype))
            self.assertEqual(model(x[:, :0], *rest, np.zeros(0, dtype)).size, 0)
            for lengths, words in (([-1, 3], place % ("least", -1) + "and must not be negative"),
                                   ([2, 4], place % ("greatest", 4) + "but must be at most t = 3, the number of steps")):
                with self.subTest(op, lengths=lengths), self.assertRaisesRegex(tenon.Error, words):
                    model(x, *rest, np.asarray(lengths, dtype))
            for lengths, words in (([-1, 3], "element 0 of input . \"l\" is -1, and must not be negative"),
                                   ([2, 4], "element 1 of input . \"l\" is 4, but must be at most")):
                fixed = [info(name, dt, [3 if d == "t" else 2 if d == "b" else d for d in dims]) for name, dt, dims in inputs if name != "l"]
                data = helper.make_tensor("l", inputs[-1][1], [2], lengths)
                with self.subTest(op, constant=lengths), self.assertRaisesRegex(tenon.Error, words):
                    compiled([node("Constant", [], ["l"], value=data), *nodes], fixed, [info("y", FLOAT, None)])

    def test_updates_that_are_longer_than_their_cache(self):
        for mode in ("circular", "linear"):
            self.check("TensorScatter", [("c", FLOAT, [1, 2, 3]), ("u", FLOAT, [1, "n", 3])],
                       [np.zeros((1, 2, 3), np.float32), np.zeros((1, 3, 3), np.float32)],
                       r'node "n" \(TensorScatter, opset 24\): dimension 1 of the update is n = 3, but must be at most 2, as of the cache', mode=mode)

    def test_bits_of_truths(self):
        for to in (TensorProto.UINT8, TensorProto.INT8, BOOL):
            model = compiled([node("BitCast", ["x"], ["y"], to=to)], [info("x", BOOL, [2])], [info("y", to, [2])], 26)
            np.testing.assert_array_equal(model(np.asarray([True, False])), [1, 0])
        with self.assertRaisesRegex(tenon.Error, "bits of u8 may be those of no bool"):
            compiled([node("BitCast", ["x"], ["y"], to=BOOL)], [info("x", TensorProto.UINT8, [2])], [info("y", BOOL, [2])], 26)

    def test_far_dimensions_beside_none(self):
        """Nothing is walked that has no elements."""
        model = compiled([node("ConstantOfShape", ["s"], ["y"])], [info("s", INT64, [3])], [info("y", FLOAT, [None] * 3)])
        for shape in ((2**60, 0, 1), (2**40, 2**20, 0), (0, 2**60, 1)):
            self.assertEqual(model(ints(*shape)).shape, shape)
        model = compiled([node("Relu", ["x"], ["y"])], [info("x", FLOAT, ["n", "m"])], [info("y", FLOAT, ["n", "m"])])
        self.assertEqual(model(np.zeros((2**60, 0), np.float32)).shape, (2**60, 0))

    def test_bodies(self):
        """Checks of what is in a body run with it: in each round of a loop."""
        flags = [info(name, BOOL, []) for name in ("on", "go")]
        body = graph([node("Compress", ["kept", "c"], ["rest"], axis=0), node("Identity", ["on"], ["go"])],
                     [info("i", INT64, []), flags[0], info("kept", FLOAT, [None, 8])], [flags[1], info("rest", FLOAT, [None, 8])], [])
        model = compiled([node("Loop", ["m", "", "x"], ["y"], body=body)],
                         [info("x", FLOAT, ["n", 8]), info("c", BOOL, ["k"]), info("m", INT64, [])], [info("y", FLOAT, [None, 8])])
        x, rounds = np.ones((4, 8), np.float32), np.asarray(2)
        self.assertEqual(model(x, np.ones(4, bool), rounds).shape, (4, 8))
        for condition, size in (([True] * 6, 4), ([True, True, True, False], 3)):
            with self.assertRaisesRegex(tenon.Error, rf"the length of the condition is k = {len(condition)}, but must be at most \S+ = {size}"):
                model(x, np.asarray(condition), rounds)

    def test_places(self):
        x = np.ones((1, 1, 4, 4), np.float32)
        image, rois = ("x", FLOAT, [1, 1, "h", 4]), [("r", FLOAT, ["n", 4]), ("b", INT64, ["n"])]
        for region, batch, text in (((0, 0, np.inf, np.inf), 0, "a value that the operator does not allow"),
                                    ((0, 0, 4, 4), 2**63 - 1, "index out of range"), ((0, 0, 4, 4), -2, "index out of range")):
            self.check("RoiAlign", [image, *rois], [x, np.asarray([region], np.float32), ints(batch)], text)
        model = compiled([node("RoiAlign", ["x", "r", "b"], ["y"])], [info(*given) for given in (image, *rois)], [info("y", FLOAT, None)])
        for region, of in (((0, 0, np.nan, 4), x), ((0, 0, 4, 4), x[:, :, :0])):
            np.testing.assert_array_equal(model(of, np.asarray([region], np.float32), ints(0)), np.zeros((1, 1, 1, 1)))
        grid = ("g", FLOAT, [1, 2, 2, 2])
        for padding in ("border", "reflection"):
            self.check("GridSample", [image, grid], [x[:, :, :0], np.zeros((1, 2, 2, 2), np.float32)],
                       r"grid_sample: dimension 2 of operand 0 \(x\) is h = 0, but must be at least 1", padding_mode=padding)


if __name__ == "__main__":
    sys.exit(unittest.main())
