# SPDX-License-Identifier: Apache-2.0
"""The operators that `bench.py operators` measures: models of one node, with seeded inputs, of sizes that networks
have."""

import zlib
from dataclasses import dataclass, field
from typing import Callable

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

INT64, FLOAT16 = TensorProto.INT64, TensorProto.FLOAT16
IMAGE = (1, 64, 112, 112)
ROWS = (512, 1000)


class Constant:
    """An operand that is in the model."""

    def __init__(self, value, dtype=None):
        self.value = np.asarray(value, dtype)


@dataclass
class Case:
    """`operands` makes the inputs from a generator of random numbers: arrays, Constants, and None for what is left out.
    `steps` is what answers may differ by where they are integers that come from rounding, in their own units."""

    name: str
    operator: str
    operands: Callable
    attributes: dict = field(default_factory=dict)
    outputs: int = 1
    opset: int = 18
    steps: int = 0

    def build(self):
        """Returns the model and the arrays to run it with."""
        operands = self.operands(np.random.default_rng(zlib.crc32(self.name.encode())))
        names = [f"x{index}" if operand is not None else "" for index, operand in enumerate(operands)]
        feeds = {name: value for name, value in zip(names, operands) if isinstance(value, np.ndarray)}
        node = helper.make_node(self.operator, names, [f"y{index}" for index in range(self.outputs)], **self.attributes)
        graph = helper.make_graph(
            [node], self.operator,
            [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
             for name, value in feeds.items()],
            [helper.make_empty_tensor_value_info(name) for name in node.output],
            [numpy_helper.from_array(value.value, name) for name, value in zip(names, operands)
             if isinstance(value, Constant)])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=10)
        model = onnx.shape_inference.infer_shapes(model, strict_mode=True)
        for output in model.graph.output:
            if not output.type.HasField("tensor_type"):  # a function of the standard, which inference does not look into
                output.CopyFrom(helper.make_tensor_value_info(output.name, TensorProto.FLOAT, feeds["x0"].shape))
        onnx.checker.check_model(model)
        return model, feeds


def floats(*shape, low=0.0, high=1.0):
    return lambda rng: [uniform(rng, shape, low, high)]


def uniform(rng, shape, low=0.0, high=1.0):
    return (low + (high - low) * rng.random(shape, np.float32)).astype(np.float32)


def weights(rng, *shape, scale=1, dtype=np.float32):
    return Constant(rng.standard_normal(shape, np.float32) * scale, dtype)


def indices(rng, below, *shape):
    return rng.integers(0, below, shape)


def bytes_of(rng, *shape):
    return rng.integers(0, 256, shape).astype(np.uint8)


def signed_weights(rng, *shape):
    return Constant(rng.integers(-127, 128, shape), np.int8)


def resize(name, scale, **attributes):
    return Case(name, "Resize", lambda rng: [uniform(rng, IMAGE), None, Constant([1, 1, scale, scale], np.float32)],
                attributes)


def image_cases():
    yield resize("Resize linear, 2", 2, mode="linear")
    yield resize("Resize nearest, 2", 2, mode="nearest")
    yield resize("Resize cubic, 1.5", 1.5, mode="cubic")
    yield resize("Resize linear, corners, 1/2", 0.5, mode="linear", coordinate_transformation_mode="align_corners")
    yield Case("MaxPool 3x3/2", "MaxPool", floats(*IMAGE), dict(kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4))
    yield Case("MaxPool 2x2/2", "MaxPool", floats(*IMAGE), dict(kernel_shape=[2, 2], strides=[2, 2]))
    yield Case("MaxPool 3x3", "MaxPool", floats(1, 256, 28, 28), dict(kernel_shape=[3, 3], pads=[1] * 4))
    yield Case("AveragePool 3x3", "AveragePool", floats(*IMAGE), dict(kernel_shape=[3, 3], pads=[1] * 4))
    yield Case("GlobalAveragePool", "GlobalAveragePool", floats(*IMAGE))
    yield Case("LRN", "LRN", floats(*IMAGE), dict(size=5))
    yield Case("DepthToSpace", "DepthToSpace", floats(1, 64, 64, 64), dict(blocksize=2))
    yield Case("SpaceToDepth", "SpaceToDepth", floats(1, 64, 64, 64), dict(blocksize=2))
    yield Case("GridSample", "GridSample",
               lambda rng: [uniform(rng, (1, 32, 64, 64)), uniform(rng, (1, 64, 64, 2), -1, 1)], opset=20)
    yield Case("RoiAlign", "RoiAlign", lambda rng: [
        uniform(rng, (1, 256, 80, 80)),
        np.sort(uniform(rng, (500, 2, 2), 0, 320), axis=1).reshape(500, 4), np.zeros(500, np.int64)],
        dict(output_height=7, output_width=7, sampling_ratio=2, spatial_scale=0.25))
    yield Case("MaxUnpool", "MaxUnpool",
               lambda rng: [uniform(rng, (1, 16, 32, 32)), np.arange(16 << 10).reshape(1, 16, 32, 32) * 4],
               dict(kernel_shape=[2, 2], strides=[2, 2]))
    yield Case("Col2Im", "Col2Im", lambda rng: [uniform(rng, (1, 576, 900)), Constant([32, 32]), Constant([3, 3])])
    yield Case("NonMaxSuppression", "NonMaxSuppression", lambda rng: [
        np.sort(uniform(rng, (1, 1000, 2, 2)), axis=2).reshape(1, 1000, 4), uniform(rng, (1, 20, 1000)),
        Constant([100]), Constant([0.5], np.float32), Constant([0.3], np.float32)])


def normalization_cases():
    def scaled(shape, *more):
        return lambda rng: [uniform(rng, shape), *(uniform(rng, size) for size in more)]

    yield Case("InstanceNormalization", "InstanceNormalization", scaled(IMAGE, (64,), (64,)))
    yield Case("GroupNormalization", "GroupNormalization", scaled(IMAGE, (64,), (64,)), dict(num_groups=8), opset=21)
    yield Case("BatchNormalization", "BatchNormalization",
               lambda rng: [uniform(rng, IMAGE), *(Constant(uniform(rng, (64,), 0.5, 1)) for _ in range(4))])
    yield Case("LayerNormalization", "LayerNormalization", scaled((512, 768), (768,), (768,)))
    yield Case("Softmax", "Softmax", floats(*ROWS))
    yield Case("Softmax of channels", "Softmax", floats(8, 64, 28, 28), dict(axis=1))
    yield Case("Softmax of 10 classes", "Softmax", floats(20000, 10))
    yield Case("LogSoftmax", "LogSoftmax", floats(*ROWS))


def reduction_cases():
    def reduction(name, operator, shape, *operands, outputs=1, **attributes):
        return Case(name, operator, lambda rng: [uniform(rng, shape), *map(Constant, operands)], attributes, outputs)

    yield Case("ArgMax", "ArgMax", floats(*ROWS), dict(axis=1))
    yield Case("ArgMax of columns", "ArgMax", floats(*ROWS), dict(axis=0))
    yield Case("ArgMax of channels", "ArgMax", floats(1, 21, 130, 130), dict(axis=1))
    yield reduction("TopK 5", "TopK", ROWS, [5], outputs=2)
    yield reduction("TopK 100 of 100,000", "TopK", (1, 100000), [100], outputs=2)
    yield Case("CumSum", "CumSum", lambda rng: [uniform(rng, ROWS), Constant(1)])
    yield reduction("ReduceMean of images", "ReduceMean", IMAGE, [2, 3])
    yield reduction("ReduceSum of channels", "ReduceSum", IMAGE, [1])
    yield reduction("ReduceL2", "ReduceL2", ROWS, [1])
    yield reduction("ReduceMax of all", "ReduceMax", (1024, 1024), keepdims=0)


def index_cases():
    yield Case("Gather of words", "Gather", lambda rng: [weights(rng, 30000, 384), indices(rng, 30000, 8, 128)])
    yield Case("Gather of columns", "Gather", lambda rng: [uniform(rng, (128, 1000)), indices(rng, 1000, 300)],
               dict(axis=1))
    yield Case("GatherElements", "GatherElements", lambda rng: [uniform(rng, ROWS), indices(rng, 512, *ROWS)],
               dict(axis=0))
    yield Case("GatherND", "GatherND", lambda rng: [uniform(rng, (100, 100, 64)), indices(rng, 100, 4096, 2)])
    yield Case("ScatterND", "ScatterND",
               lambda rng: [uniform(rng, (1000, 256)), rng.permutation(1000)[:300, None], uniform(rng, (300, 256))])
    yield Case("ScatterElements, add", "ScatterElements",
               lambda rng: [uniform(rng, ROWS), indices(rng, 512, *ROWS), uniform(rng, ROWS)],
               dict(axis=0, reduction="add"))
    yield Case("OneHot", "OneHot",
               lambda rng: [indices(rng, 1000, 512), Constant(1000), Constant([0, 1], np.float32)])
    yield Case("NonZero", "NonZero", lambda rng: [rng.random(ROWS) > 0.9])
    yield Case("Unique", "Unique", lambda rng: [indices(rng, 1000, 100000)], outputs=4)


def movement_cases():
    def moved(name, operator, shape, *operands, **attributes):
        return Case(name, operator, lambda rng: [uniform(rng, shape), *map(Constant, operands)], attributes)

    yield Case("Transpose 0231", "Transpose", floats(*IMAGE), dict(perm=[0, 2, 3, 1]))
    yield Case("Transpose 0213", "Transpose", floats(8, 128, 12, 64), dict(perm=[0, 2, 1, 3]))
    yield Case("Transpose 021", "Transpose", floats(64, 197, 768), dict(perm=[0, 2, 1]))
    yield Case("Concat", "Concat", lambda rng: [uniform(rng, (1, channels, 56, 56)) for channels in (64, 64, 32)],
               dict(axis=1))
    yield Case("Split", "Split", floats(*IMAGE), dict(axis=1, num_outputs=4), outputs=4)
    yield moved("Slice by 2", "Slice", IMAGE, [0, 0], [112, 112], [2, 3], [2, 2])
    yield moved("Pad by reflection", "Pad", IMAGE, [0, 0, 3, 3, 0, 0, 3, 3], mode="reflect")
    yield moved("Pad with zeros", "Pad", IMAGE, [0, 0, 1, 1, 0, 0, 1, 1])
    yield moved("Tile", "Tile", (64, 100, 10), [1, 2, 5])
    yield moved("Expand", "Expand", (64, 1, 100), [64, 200, 100])
    yield Case("Trilu", "Trilu", floats(512, 512))
    yield Case("ReverseSequence", "ReverseSequence",
               lambda rng: [uniform(rng, (128, 64, 32)), np.full(64, 100, np.int64)], dict(time_axis=0, batch_axis=1))


def element_cases():
    for operator in ("Erf", "Tanh", "Sigmoid", "Exp", "Sin", "Softplus", "Elu", "Mish", "HardSwish"):
        yield Case(operator, operator, floats(*ROWS, low=-1))
    yield Case("Log", "Log", floats(*ROWS, low=0.1, high=2))
    yield Case("Gelu", "Gelu", floats(*ROWS, low=-1), opset=20)
    for operator, attributes in (("Pow", {}), ("Mod", {"fmod": 1})):
        yield Case(operator, operator, lambda rng: [uniform(rng, ROWS), uniform(rng, ROWS, 1, 2)], attributes)
    yield Case("Where", "Where", lambda rng: [rng.random(ROWS) > 0.5, uniform(rng, ROWS), uniform(rng, ROWS)])
    yield Case("Clip", "Clip",
               lambda rng: [uniform(rng, ROWS), Constant(0.2, np.float32), Constant(0.8, np.float32)])
    yield Case("PRelu", "PRelu", lambda rng: [uniform(rng, IMAGE, -1), uniform(rng, (64, 1, 1))])
    yield Case("Dropout", "Dropout", floats(*ROWS))
    yield Case("Cast to int64", "Cast", floats(*ROWS, high=100), dict(to=INT64))
    yield Case("Cast to float16", "Cast", floats(*ROWS), dict(to=FLOAT16))
    yield Case("QuantizeLinear", "QuantizeLinear",
               lambda rng: [uniform(rng, ROWS), Constant(0.01, np.float32), Constant(128, np.uint8)], steps=1)
    yield Case("DequantizeLinear", "DequantizeLinear",
               lambda rng: [bytes_of(rng, *ROWS), Constant(0.01, np.float32), Constant(128, np.uint8)])
    yield Case("DynamicQuantizeLinear", "DynamicQuantizeLinear", floats(*ROWS), outputs=3, steps=1)


def product_cases():
    def product(name, left, right, **attributes):
        return Case(name, attributes.pop("operator", "MatMul"),
                    lambda rng: [uniform(rng, left), uniform(rng, right)], attributes)

    yield product("Einsum bij,bjk", (12, 128, 64), (12, 64, 128), operator="Einsum", equation="bij,bjk->bik")
    yield product("Einsum bhid,bhjd", *[(2, 12, 128, 64)] * 2, operator="Einsum", equation="bhid,bhjd->bhij")
    yield Case("MatMul 512, weights", "MatMul", lambda rng: [uniform(rng, (512, 512)), weights(rng, 512, 512)])
    yield product("MatMul 256", (256, 256), (256, 256))
    yield product("MatMul 64 times 49x32x49", (64, 49, 32), (64, 32, 49))
    yield Case("MatMul 1x4096x4096", "MatMul", lambda rng: [uniform(rng, (1, 4096)), weights(rng, 4096, 4096)])
    yield Case("MatMul of f64", "MatMul", lambda rng: [rng.random((256, 256)), rng.random((256, 256))])
    yield Case("Gemm, A transposed", "Gemm",
               lambda rng: [uniform(rng, (256, 512)), uniform(rng, (256, 128)), uniform(rng, (128,))], dict(transA=1))
    yield product("Gemm, B transposed", (300, 500), (700, 500), operator="Gemm", transB=1)
    yield Case("MatMulInteger", "MatMulInteger",
               lambda rng: [bytes_of(rng, 256, 256), Constant(bytes_of(rng, 256, 256))])
    yield Case("QLinearMatMul 512x768x768", "QLinearMatMul", lambda rng: [
        bytes_of(rng, 512, 768), Constant(0.02, np.float32), Constant(120, np.uint8), signed_weights(rng, 768, 768),
        Constant(0.01, np.float32), Constant(0, np.int8), Constant(4, np.float32), Constant(128, np.uint8)], steps=1)
    yield Case("DFT", "DFT", floats(1, 512, 512, 1), dict(axis=1), opset=17)
    yield Case("Det", "Det", floats(1000, 6, 6))


def convolution_cases():
    def convolution(name, image, window, operator="Conv", **attributes):
        return Case(name, operator, lambda rng: [uniform(rng, image), weights(rng, *window)], attributes)

    def half(name, image, window, **attributes):
        return Case(name, "Conv", lambda rng: [uniform(rng, image).astype(np.float16),
                                               weights(rng, *window, scale=0.1, dtype=np.float16)], attributes)

    yield convolution("ConvTranspose 4x4/2", (1, 64, 32, 32), (64, 32, 4, 4), "ConvTranspose", strides=[2, 2],
                      pads=[1] * 4)
    yield convolution("Conv 3, 1-D", (1, 80, 3000), (384, 80, 3), pads=[1, 1])
    yield convolution("Conv 10/5 of sound", (1, 1, 16000), (512, 1, 10), strides=[5])
    yield convolution("Conv 7, 1-D, dilated by 3", (1, 128, 2000), (128, 128, 7), pads=[9, 9], dilations=[3])
    yield convolution("Conv 31, 1-D, depthwise", (1, 256, 400), (256, 1, 31), pads=[15, 15], group=256)
    yield convolution("ConvTranspose 16/8, 1-D", (1, 256, 100), (256, 128, 16), "ConvTranspose", strides=[8], pads=[4, 4])
    yield convolution("Conv 3x3x3", (1, 16, 16, 28, 28), (32, 16, 3, 3, 3), pads=[1] * 6)
    yield convolution("Conv 3x3x3, as wide as deep", (1, 64, 8, 28, 28), (64, 64, 3, 3, 3), pads=[1] * 6)
    yield convolution("Conv 3x3x3/2", (1, 32, 16, 28, 28), (64, 32, 3, 3, 3), pads=[1] * 6, strides=[2] * 3)
    yield convolution("Conv 1x1x1", (1, 64, 8, 28, 28), (128, 64, 1, 1, 1))
    yield convolution("Conv 3x7x7/1,2,2 of a film", (1, 3, 16, 112, 112), (64, 3, 3, 7, 7), pads=[1, 3, 3, 1, 3, 3],
                      strides=[1, 2, 2])
    yield half("Conv 3x3, f16", (1, 64, 56, 56), (64, 64, 3, 3), pads=[1] * 4)
    yield half("Conv 1x1, f16", (1, 256, 28, 28), (128, 256, 1, 1))
    yield half("Conv 7x7/2, f16 picture", (1, 3, 224, 224), (64, 3, 7, 7), pads=[3] * 4, strides=[2, 2])
    yield half("Conv 3x3, f16, depthwise", (1, 96, 56, 56), (96, 1, 3, 3), pads=[1] * 4, group=96)
    yield convolution("Conv 7x7, depthwise", (1, 96, 56, 56), (96, 1, 7, 7), pads=[3] * 4, group=96)
    yield convolution("Conv 3x3, dilated by 2", (1, 128, 28, 28), (128, 128, 3, 3), pads=[2] * 4, dilations=[2, 2])
    yield convolution("Conv 3x3, dilated by 18", (1, 64, 33, 33), (64, 64, 3, 3), pads=[18] * 4, dilations=[18, 18])
    yield convolution("Conv 3x3, groups of 4", (1, 128, 28, 28), (128, 4, 3, 3), pads=[1] * 4, group=32)
    yield convolution("Conv 1x1, groups of 4", (1, 128, 28, 28), (128, 4, 1, 1), group=32)
    def quantised(name, image, window, **attributes):
        return Case(name, "QLinearConv", lambda rng: [
            bytes_of(rng, *image), Constant(0.02, np.float32), Constant(128, np.uint8), signed_weights(rng, *window),
            Constant(0.02, np.float32), Constant(0, np.int8), Constant(0.5, np.float32), Constant(128, np.uint8)],
            attributes, steps=1)

    yield quantised("QLinearConv 3x3", (1, 64, 28, 28), (64, 64, 3, 3), pads=[1] * 4)
    yield quantised("QLinearConv 1x1", (1, 256, 14, 14), (256, 256, 1, 1))
    yield quantised("QLinearConv 7x7/2, picture", (1, 3, 224, 224), (64, 3, 7, 7), pads=[3] * 4, strides=[2, 2])
    yield quantised("QLinearConv 3x3, depthwise", (1, 96, 56, 56), (96, 1, 3, 3), pads=[1] * 4, group=96)


def recurrent_cases():
    def recurrent(name, operator, gates, batch, directions=1, **attributes):
        return Case(name, operator, lambda rng: [
            uniform(rng, (64, batch, 128), -1),
            *(Constant(uniform(rng, (directions, gates * 128, 128), -0.1, 0.1)) for _ in range(2))],
            dict(hidden_size=128, **attributes))

    yield recurrent("LSTM", "LSTM", 4, 1)
    yield recurrent("LSTM, both ways", "LSTM", 4, 8, 2, direction="bidirectional")
    yield recurrent("GRU", "GRU", 3, 8)
    yield recurrent("RNN", "RNN", 1, 8)


def all_cases():
    for cases in (image_cases, normalization_cases, reduction_cases, index_cases, movement_cases, element_cases,
                  product_cases, convolution_cases, recurrent_cases):
        yield from cases()
