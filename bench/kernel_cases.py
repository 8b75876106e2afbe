# SPDX-License-Identifier: Apache-2.0
"""The computations that `bench.py kernels` measures: products, convolutions, and maps and reductions over memory.

Each is a small ONNX model, which Tenon compiles and ONNX Runtime answers for reference, and the same as a line for the
programs of bench/kernels.
"""

from dataclasses import dataclass, field

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import networks

SEED = networks.SEED
OPSET = 20
# Bytes that maps and reductions read and write together, by what holds them. Sizes in between, which a cache holds in
# part, measure what other work does with it.
FOOTPRINTS = {
    "cached": 256 << 10,  # in L2, and past L1
    "past L2": 8 << 20,  # four times an L2 of up to 2 MB
    "memory": 128 << 20,  # four times a last cache of up to 32 MB
}
# Vector instructions of an element of what is no addition or multiplication: range reduction, polynomial, exponent.
EXP_INSTRUCTIONS = 12
ERF_INSTRUCTIONS = 24


@dataclass
class Case:
    """A computation. `flops` counts multiplications and additions; where those are not what it does, `instructions` is
    the vector instructions of one element times elements."""

    name: str
    group: str
    nodes: list
    inputs: dict  # name -> shape: what the model is given
    constants: dict  # name -> array: what is in the model
    output: tuple
    peer_line: str = ""  # for the programs of the libraries; empty: Tenon only
    operands: dict = field(default_factory=dict)  # peer's key -> name of an input or constant
    flops: float = 0.0
    instructions: float = 0.0
    bytes: int = 0  # least traffic: every input read once, every output written once
    stream: str = "copy"  # the bandwidth that bounds it: copy or read
    is_image: bool = False  # "x" and "y" are images, which libraries like to have in a layout of their own

    def model(self):
        return self.wrap(self.nodes, self.inputs, self.output)

    def channels_last_model(self):
        """The same with "x" and "y" channels-last, the layout in which Tenon keeps images from layer to layer: the
        transposes at both ends cancel those of the compiled convolution."""
        first, last = [0, 3, 1, 2], [0, 2, 3, 1]
        nodes = [helper.make_node("Transpose", ["x"], ["x_plain"], perm=first)]
        for node in self.nodes:
            copy = type(node).FromString(node.SerializeToString())
            copy.input[:] = ["x_plain" if name == "x" else name for name in node.input]
            copy.output[:] = ["y_plain" if name == "y" else name for name in node.output]
            nodes.append(copy)
        nodes.append(helper.make_node("Transpose", ["y_plain"], ["y"], perm=last))
        shape = self.inputs["x"]
        return self.wrap(nodes, {"x": [shape[axis] for axis in last]}, [self.output[axis] for axis in last])

    def wrap(self, nodes, inputs, output):
        graph = helper.make_graph(
            nodes, self.group,
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs.items()],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, output)],
            [numpy_helper.from_array(value, name) for name, value in self.constants.items()])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=10)
        onnx.checker.check_model(model)
        return model

    def feeds(self):
        rng = np.random.default_rng(SEED)
        return {name: rng.standard_normal(shape, np.float32) for name, shape in self.inputs.items()}


def constant(shape, seed=1):
    return np.random.default_rng(SEED + seed).standard_normal(shape, np.float32)


def product(group, m, k, n, constant_operand, batch=1):
    lead = () if batch == 1 else (batch,)
    shapes = {"a": (*lead, m, k), "b": (*lead, k, n)}
    constants = {constant_operand: constant(shapes[constant_operand])} if constant_operand else {}
    text = f"{m}x{k}x{n}"
    return Case(
        name=text if batch == 1 else f"{batch}*{text}", group=group, nodes=[helper.make_node("MatMul", ["a", "b"], ["y"])],
        inputs={name: shape for name, shape in shapes.items() if name not in constants}, constants=constants,
        output=(*lead, m, n),
        peer_line=f"kind=gemm m={m} k={k} n={n} batch={batch} constant={constant_operand or 'none'}",
        operands={"a": "a", "b": "b"}, flops=2.0 * batch * m * k * n, bytes=4 * batch * (m * k + k * n + m * n),
        stream="read" if m == 1 else "copy")


def products():
    yield from (product("square", n, n, n, "b") for n in (512, 1024, 2048))
    yield product("product", 128, 768, 3072, "b")
    yield product("product", 197, 768, 768, "b")
    yield product("product", 64, 147, 12544, "a")
    yield product("product", 128, 64, 128, None, batch=12)
    yield product("vector", 1, 768, 3072, "b")
    yield product("vector", 1, 4096, 4096, "b")


def resnet50_shapes():
    """Distinct (in, out, window, stride, groups, input size) of torchvision's ResNet-50, in order of appearance."""
    shapes = [(3, 64, 7, 2, 1, 224)]
    size, channels = 56, 64
    for width, blocks, stride in networks.RESNET50_STAGES:
        for block in range(blocks):
            step = stride if block == 0 else 1
            shapes += [(channels, width, 1, 1, 1, size), (width, width, 3, step, 1, size),
                       (width, 4 * width, 1, 1, 1, size // step)]
            if block == 0:
                shapes.append((channels, 4 * width, 1, step, 1, size))
            size, channels = size // step, 4 * width
    return list(dict.fromkeys(shapes))


def mobilenet_v2_shapes():
    """The same of torchvision's MobileNetV2."""
    shapes = [(3, 32, 3, 2, 1, 224)]
    size, channels = 112, 32
    for expansion, out, repeats, stride in networks.MOBILENET_V2_BLOCKS:
        for block in range(repeats):
            step, hidden = stride if block == 0 else 1, channels * expansion
            if expansion != 1:
                shapes.append((channels, hidden, 1, 1, 1, size))
            shapes += [(hidden, hidden, 3, step, hidden, size), (hidden, out, 1, 1, 1, size // step)]
            size, channels = size // step, out
    shapes.append((channels, 1280, 1, 1, 1, size))
    return list(dict.fromkeys(shapes))


def convolution(group, channels, out, window, stride, groups, size):
    pad = window // 2
    result = (size + 2 * pad - window) // stride + 1
    weight = constant((out, channels // groups, window, window)) / np.sqrt(np.float32(channels // groups * window**2))
    kind = f"dw{channels}" if groups > 1 else f"{channels}-{out}"
    return Case(
        name=f"{kind} {window}x{window}/{stride} @{size}", group=group,
        nodes=[helper.make_node("Conv", ["x", "w", "bias"], ["y"], pads=[pad] * 4, strides=[stride] * 2, group=groups,
                                kernel_shape=[window] * 2)],
        inputs={"x": (1, channels, size, size)}, constants={"w": weight, "bias": constant((out,), 2)},
        output=(1, out, result, result),
        peer_line=f"kind=conv in={channels} out={out} groups={groups} size={size} window={window} stride={stride} "
        f"pad={pad} constant=b",
        operands={"a": "x", "b": "w", "bias": "bias"},
        flops=2.0 * out * result * result * (channels // groups) * window * window,
        bytes=4 * (channels * size * size + weight.size + out * result * result), is_image=True)


def memory_cases(label, total):
    """Maps, normalisations and reductions that read and write about `total` bytes together. Reductions write next to
    nothing, and are held to the bandwidth of reading."""
    width = 1024
    node = helper.make_node

    def case(name, nodes, reduced=None, constants=None, inputs=("x",), instructions=1.0, turned=False, columns=width):
        rows = total / 4 / columns / (len(inputs) + (reduced is None))
        lines = max(round(rows / 16), 1)  # of a column's vectors
        rows = 16 * (lines | 1 if columns != width and lines > 8 else lines)
        shape = (rows, columns)
        output = shape if reduced is None else (shape[1 - reduced],)
        count = rows * columns
        return Case(name=name, group=label, nodes=nodes, inputs={input_name: shape for input_name in inputs},
                    constants=constants or {}, output=output[::-1] if turned else output,
                    instructions=instructions * count, bytes=4 * (count * len(inputs) + int(np.prod(output))),
                    stream="copy" if reduced is None else "read")

    def scalar(value):
        return np.array(value, np.float32)

    affine = {"scale": constant((width,)), "shift": constant((width,), 2)}
    yield case("softmax", [node("Softmax", ["x"], ["y"], axis=-1)], instructions=EXP_INSTRUCTIONS + 4)
    yield case("layer norm", [node("LayerNormalization", ["x", "scale", "shift"], ["y"], axis=-1)], constants=affine,
               instructions=6)
    yield case("gelu", [node("Gelu", ["x"], ["y"])], instructions=ERF_INSTRUCTIONS + 4)
    for name, operator, axis in (("sum rows", "ReduceSum", 1), ("sum columns", "ReduceSum", 0),
                                 ("max rows", "ReduceMax", 1)):
        yield case(name, [node(operator, ["x", "axis"], ["y"], keepdims=0)], reduced=axis,
                   constants={"axis": np.array([axis], np.int64)})
    yield case("add relu", [node("Add", ["x", "x2"], ["sum"]), node("Relu", ["sum"], ["y"])], inputs=("x", "x2"),
               instructions=2)
    yield case("chain", [node("Mul", ["x", "scale"], ["a"]), node("Add", ["a", "shift"], ["b"]),
                         node("Clip", ["b", "low", "high"], ["c"]), node("Mul", ["c", "x"], ["y"])],
               constants={**affine, "low": scalar(-1), "high": scalar(1)}, instructions=5)
    # Rows 4096 bytes apart meet in the same sets of every cache; those an odd number of cache lines apart do not.
    for columns in (width, width + 16):
        yield case(f"transpose {columns}", [node("Transpose", ["x"], ["y"], perm=[1, 0])], turned=True, columns=columns)


def call_case():
    """Nothing but the call."""
    return Case(name="one element", group="call", nodes=[helper.make_node("Neg", ["x"], ["y"])], inputs={"x": (1,)},
                constants={}, output=(1,), instructions=1.0, bytes=8)


def all_cases():
    yield from products()
    yield from (convolution("resnet50", *shape) for shape in resnet50_shapes())
    yield from (convolution("mobilenetv2", *shape) for shape in mobilenet_v2_shapes())
    for label, total in FOOTPRINTS.items():
        yield from memory_cases(label, total)
    yield call_case()
