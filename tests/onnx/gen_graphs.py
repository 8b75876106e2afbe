# SPDX-License-Identifier: Apache-2.0
"""Makes small random ONNX graphs with inputs and expected outputs, from a seed.

Each node is evaluated by onnx's reference evaluator as it is added: once in the types of the graph, and once with every
float type widened to float64, which gives the expected answers. A node is taken only when the two agree and when its
result does not hang on the last bits of its operands (a comparison of nearly equal values, a rounding near a half). So
whatever departs from the expectation by more than the tolerance is a wrong answer and not bad luck.

The graph of a seed with fewer nodes is a prefix of the graph with more, which makes a failing graph easy to shrink.
"""

import argparse
import sys
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import onnx.shape_inference
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

OPSETS = (20, 21, 22, 23)
IR_VERSION = 10
DIMS = (1, 2, 3, 4, 5, 7, 8, 16, 17)
MAX_ELEMENTS = 2048
MAX_MAGNITUDE = 1e3
# How far apart float values must be where their order matters, relative to their size.
MARGIN = 5e-3

F16, F32, F64 = (np.dtype(t) for t in (np.float16, np.float32, np.float64))
I8, I32, I64, U8 = (np.dtype(t) for t in (np.int8, np.int32, np.int64, np.uint8))
BOOL = np.dtype(bool)
FLOATS = (F32, F32, F32, F64, F16)
SIGNED = (I32, I64, I8)
INTS = (*SIGNED, U8)
NUMBERS = (*FLOATS, *INTS)
ANY = (*NUMBERS, BOOL)
# (relative to the element, relative to the largest element) by the coarsest float type in a graph.
TOLERANCES = {F16: (3e-2, 1e-2), F32: (1e-4, 2e-5), F64: (1e-7, 1e-9)}


class Reject(Exception):
    """This node cannot be made here; another one is tried."""


@dataclass
class Value:
    name: str
    array: np.ndarray
    wide: np.ndarray  # the same in float64, if it is a float

    @property
    def dtype(self):
        return self.array.dtype

    @property
    def shape(self):
        return self.array.shape

    @property
    def rank(self):
        return self.array.ndim


@dataclass
class Graph:
    """A model, the inputs to run it with, and what has to come out, by name."""

    model: onnx.ModelProto
    inputs: dict
    expected: dict
    tolerance: tuple

    def complaints(self, results):
        """Compares results by name with what is expected; returns a line for each output that is wrong."""
        found = []
        for name, want in self.expected.items():
            got = results[name]
            dtype = onnx_dtype(self.model, name)
            if got.dtype != dtype or got.shape != want.shape:
                found.append(f"{name}: {got.dtype} {got.shape} instead of {dtype} {want.shape}")
            elif dtype.kind != "f":
                wrong = int((got != want).sum())
                if wrong:
                    found.append(f"{name}: {wrong} of {want.size} elements are wrong")
            elif want.size:
                relative, absolute = self.tolerance
                allowed = relative * np.abs(want) + absolute * max(1.0, float(np.abs(want).max()))
                wrong = ~(np.abs(got.astype(F64) - want) <= allowed)
                if wrong.any():
                    at = tuple(int(i) for i in np.argwhere(wrong)[0])
                    found.append(f"{name}: {int(wrong.sum())} of {want.size} elements are wrong, first at {list(at)}: "
                                 f"{got[at]!r} instead of {want[at]!r}")
        return found


def onnx_dtype(model, output):
    for value in model.graph.output:
        if value.name == output:
            return np.dtype(helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type))
    raise KeyError(output)


def type_of(dtype):
    return helper.np_dtype_to_tensor_dtype(dtype)


def widened(array):
    return array.astype(F64) if array.dtype.kind == "f" else array


def evaluate(node, opset, arrays):
    """Runs one node in the reference evaluator on {name: array}."""
    inputs = [helper.make_tensor_value_info(name, type_of(array.dtype), array.shape) for name, array in arrays.items()]
    outputs = [helper.make_empty_tensor_value_info(name) for name in node.output]
    model = helper.make_model(helper.make_graph([node], "node", inputs, outputs),
                              opset_imports=[helper.make_opsetid("", opset)], ir_version=IR_VERSION)
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            inferred = onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True)
            results = [np.asarray(result) for result in ReferenceEvaluator(model).run(None, arrays)]
    except Exception as error:  # The evaluator raises all sorts of things for operands that it cannot take.
        raise Reject(str(error)) from error
    for value, result in zip(inferred.graph.output, results):
        # The evaluator is wrong about a few shapes, such as GlobalMaxPool's in one dimension.
        if value.type.tensor_type.HasField("shape"):
            dims = value.type.tensor_type.shape.dim
            if len(dims) != result.ndim or any(dim.HasField("dim_value") and dim.dim_value != size
                                               for dim, size in zip(dims, result.shape)):
                raise Reject("the evaluator's shape is not what ONNX infers")
    return results


class Builder:
    """Grows a graph node by node."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.opset = self.one_of(OPSETS)
        self.values = []
        self.pool = []  # the values that may become operands: those that have elements
        self.nodes = []
        self.inputs = []
        self.initializers = []
        self.used = set()

    # -- chance

    def chance(self, probability):
        return self.rng.random() < probability

    def one_of(self, options):
        return options[int(self.rng.integers(len(options)))]

    def integer(self, low, high):
        """An integer from low to high, both included."""
        return int(self.rng.integers(low, high + 1))

    def shape(self, rank=None, limit=MAX_ELEMENTS):
        rank = self.integer(0, 4) if rank is None else rank
        dims = []
        for _ in range(rank):
            fitting = [dim for dim in DIMS if dim * int(np.prod(dims, dtype=int)) <= limit]
            dims.append(self.one_of(fitting))
        return tuple(dims[i] for i in self.rng.permutation(rank))

    def random_array(self, dtype, shape, low=-2.0, high=2.0):
        if dtype == BOOL:
            return self.rng.random(shape) < 0.5
        if dtype.kind == "f":
            return np.asarray(self.rng.uniform(low, high, shape)).astype(dtype)
        return np.asarray(self.rng.integers(0 if dtype.kind == "u" else -5, 9, shape)).astype(dtype)

    # -- operands

    def leaf(self, array, constant=None):
        """A new input of the graph, or an initialiser."""
        array = np.asarray(array)
        constant = self.chance(0.4) if constant is None else constant
        kind = self.initializers if constant else self.inputs
        value = Value(f"{'c' if constant else 'x'}{len(kind)}", array, widened(array))
        kind.append(value)
        return value

    def constant(self, *values, dtype=I64):
        return self.leaf(np.array(values, dtype), constant=True)

    def scalar(self, value, dtype):
        return self.leaf(np.array(value, dtype), constant=True)

    def operand(self, dtypes, rank=None, fits=lambda value: True):
        """A value of one of the types: mostly one that the graph has computed, otherwise a new leaf."""
        ranks = range(9) if rank is None else (rank,) if isinstance(rank, int) else rank
        found = [value for value in self.pool if value.dtype in dtypes and value.rank in ranks and fits(value)]
        if found and self.chance(0.85):
            # The newer the likelier, so that graphs are deep rather than wide.
            return found[max(self.integer(0, len(found) - 1), self.integer(0, len(found) - 1))]
        shape = self.shape(None if rank is None else self.one_of(list(ranks)))
        value = self.leaf(self.random_array(self.one_of(dtypes), shape))
        if not fits(value):
            raise Reject("the leaf does not fit")
        return value

    def broadcastable(self, value):
        """Another operand of the same type whose shape broadcasts with the value's."""
        def fits(other):
            try:
                return int(np.prod(np.broadcast_shapes(value.shape, other.shape))) <= MAX_ELEMENTS
            except ValueError:
                return False

        found = [other for other in self.pool if other.dtype == value.dtype and fits(other)]
        if found and self.chance(0.6):
            return self.one_of(found)
        dims = [1 if self.chance(0.3) else dim for dim in value.shape[self.integer(0, value.rank):]]
        return self.leaf(self.random_array(value.dtype, dims))

    def axis(self, value):
        if value.rank == 0:
            raise Reject("no axis")
        return self.integer(-value.rank, value.rank - 1)

    def some_axes(self, value):
        count = self.integer(1, max(1, value.rank))
        axes = [int(axis) for axis in self.rng.permutation(value.rank)[:count]]
        return [axis - value.rank if self.chance(0.3) else axis for axis in axes]

    # -- nodes

    def add(self, op_type, operands, outputs=1, **attributes):
        """Evaluates and appends a node, or rejects it. An operand of None stands for one that is left out."""
        names = [f"v{len(self.values) + i}" for i in range(outputs)]
        node = helper.make_node(op_type, [value.name if value else "" for value in operands], names,
                                name=f"n{len(self.nodes)}_{op_type}", **attributes)
        given = {value.name: value for value in operands if value}
        narrow = evaluate(node, self.opset, {name: value.array for name, value in given.items()})
        wide_node = onnx.NodeProto()
        wide_node.CopyFrom(node)
        for attribute in wide_node.attribute:
            if op_type == "Cast" and attribute.name == "to" and attribute.i in (TensorProto.FLOAT, TensorProto.FLOAT16):
                attribute.i = TensorProto.DOUBLE
        wide = evaluate(wide_node, self.opset, {name: value.wide for name, value in given.items()})
        results = [Value(name, a, b.astype(F64) if a.dtype.kind == "f" else b)
                   for name, a, b in zip(names, narrow, wide)]
        for result in results:
            self.accept(result)
        self.nodes.append(node)
        self.values += results
        self.pool += [result for result in results if result.array.size]
        self.used |= set(given)
        return results[0]

    def accept(self, result):
        """Rejects results that are too large to be useful or too delicate to compare."""
        if result.array.size > 4 * MAX_ELEMENTS or result.rank > 6 or result.dtype not in ANY:
            raise Reject("the result is too large")
        if result.array.shape != result.wide.shape:
            raise Reject("the evaluator's shapes differ")
        if result.dtype.kind == "f":
            if not np.isfinite(result.wide).all() or np.abs(result.wide).max(initial=0) > MAX_MAGNITUDE:
                raise Reject("the result is not finite, or large")
            relative, absolute = TOLERANCES[result.dtype]
            scale = max(1.0, float(np.abs(result.wide).max(initial=0)))
            if not np.allclose(result.array.astype(F64), result.wide, rtol=relative / 4, atol=absolute * scale / 4):
                raise Reject("the result is ill conditioned")
        elif not np.array_equal(result.array, result.wide):
            raise Reject("the result depends on rounding")

    def away(self, distances, scale=1.0):
        """Rejects float operands for which some distance from a discontinuity is too small."""
        if np.any(np.abs(distances) <= MARGIN * np.maximum(1.0, np.abs(scale))):
            raise Reject("too near to a discontinuity")

    def grow(self, count):
        failures = 0
        while len(self.nodes) < count:
            make = self.one_of(GENERATORS)
            before = len(self.inputs), len(self.initializers)
            try:
                make(self)
            except Reject:
                del self.inputs[before[0]:], self.initializers[before[1]:]
                failures += 1
                if failures > 200 * count:
                    raise RuntimeError("no node fits any more") from None

    def finish(self, name):
        """The graph's outputs are the values that nothing uses, and the first one of the others."""
        outputs = [value for value in self.values if value.name not in self.used]
        outputs += [value for value in self.values if value.name in self.used][:1]
        info = helper.make_tensor_value_info
        used = self.used
        graph = helper.make_graph(
            self.nodes, name,
            [info(value.name, type_of(value.dtype), value.shape) for value in self.inputs if value.name in used],
            [info(value.name, type_of(value.dtype), value.shape) for value in outputs],
            [numpy_helper.from_array(value.array, value.name) for value in self.initializers if value.name in used])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=IR_VERSION)
        onnx.checker.check_model(model)
        floats = {value.dtype for value in (*self.values, *self.inputs, *self.initializers) if value.dtype.kind == "f"}
        coarsest = next((dtype for dtype in (F16, F32) if dtype in floats), F64)
        return Graph(model, {value.name: value.array for value in self.inputs if value.name in used},
                     {value.name: value.wide for value in outputs}, TOLERANCES[coarsest])


# ---- element-wise ----------------------------------------------------------------------------------------------------


def unary(g):
    op = g.one_of(["Abs", "Neg", "Relu", "Sigmoid", "Tanh", "Exp", "Erf", "Softplus", "Softsign", "HardSigmoid",
                   "HardSwish", "Mish", "Sin", "Cos", "Atan", "Identity", "Elu", "Selu", "LeakyRelu", "Celu", "Gelu"])
    x = g.operand(NUMBERS if op in ("Abs", "Identity") else (*FLOATS, *SIGNED) if op == "Neg" else FLOATS)
    attributes = {}
    if op in ("LeakyRelu", "Elu", "Celu") and g.chance(0.7):
        attributes["alpha"] = float(g.rng.uniform(0.1, 1.5))
    if op == "Celu" and x.dtype != F32:
        raise Reject("Celu is for float32 only")
    if op == "Gelu" and g.chance(0.5):
        attributes["approximate"] = "tanh"
    g.add(op, [x], **attributes)


def unary_partial(g):
    """Functions that are not defined everywhere, or that jump."""
    op = g.one_of(["Log", "Sqrt", "Reciprocal", "Floor", "Ceil", "Round", "Sign", "ThresholdedRelu"])
    x = g.operand(FLOATS)
    wide = x.wide
    if op in ("Log", "Sqrt") and (wide < 0.05).any():
        raise Reject("outside of the domain")
    if op == "Reciprocal" and (np.abs(wide) < 0.05).any():
        raise Reject("near the pole")
    if op in ("Floor", "Ceil"):
        g.away(wide - np.round(wide), wide)
    if op == "Round":
        g.away(np.abs(wide - np.floor(wide)) - 0.5, wide)
    if op == "Sign":
        g.away(wide, 0.0)
    if op == "ThresholdedRelu":
        g.away(wide - 1.0, wide)
    g.add(op, [x])


def clip(g):
    x = g.operand(NUMBERS)
    low, high = (1, 4) if x.dtype.kind in "iu" else (-0.7, 1.1)
    g.add("Clip", [x, g.scalar(low, x.dtype) if g.chance(0.8) else None,
                   g.scalar(high, x.dtype) if g.chance(0.8) else None])


def binary(g):
    op = g.one_of(["Add", "Sub", "Mul", "Max", "Min", "Add", "Mul", "Sum", "Mean", "PRelu"])
    x = g.operand(FLOATS if op in ("Sum", "Mean", "PRelu") else NUMBERS)
    y = g.broadcastable(x)
    if op == "PRelu" and np.broadcast_shapes(x.shape, y.shape) != x.shape:
        raise Reject("the slope must broadcast to the operand")
    operands = [x, y] if op == "PRelu" or g.chance(0.5) else [y, x]
    if op in ("Max", "Min", "Sum", "Mean") and g.chance(0.4):
        operands.append(g.broadcastable(x))
    g.add(op, operands)


def divide(g):
    x = g.operand((*FLOATS, U8))
    y = g.broadcastable(x)
    if (np.abs(y.wide.astype(F64)) < 0.1).any():
        raise Reject("near the pole")
    g.add("Div", [x, y])


def modulo(g):
    x = g.operand(INTS)
    y = g.broadcastable(x)
    if (y.array == 0).any():
        raise Reject("modulo zero")
    g.add("Mod", [x, y])


def power(g):
    x = g.operand(FLOATS)
    exponent = g.one_of([2.0, 3.0, 0.5, 1.5, -1.0])
    if exponent not in (2.0, 3.0) and (x.wide < 0.05).any():
        raise Reject("outside of the domain")
    g.add("Pow", [x, g.scalar(exponent, x.dtype)])


def compare(g):
    op = g.one_of(["Less", "Greater", "LessOrEqual", "GreaterOrEqual", "Equal"])
    x = g.operand(NUMBERS)
    y = g.broadcastable(x)
    if x.dtype.kind == "f":
        g.away(x.wide - y.wide, x.wide)
    g.add(op, [x, y])


def logic(g):
    x = g.operand((BOOL,))
    if g.chance(0.3):
        g.add("Not", [x])
    else:
        g.add(g.one_of(["And", "Or", "Xor"]), [x, g.broadcastable(x)])


def bits(g):
    x = g.operand(INTS)
    if g.chance(0.3):
        g.add("BitwiseNot", [x])
    elif x.dtype == U8 and g.chance(0.5):
        g.add("BitShift", [x, g.leaf((g.random_array(U8, x.shape) % 8).astype(U8))],
              direction=g.one_of(["LEFT", "RIGHT"]))
    else:
        g.add(g.one_of(["BitwiseAnd", "BitwiseOr", "BitwiseXor"]), [x, g.broadcastable(x)])


def where(g):
    x = g.operand(ANY)
    y = g.broadcastable(x)
    shape = np.broadcast_shapes(x.shape, y.shape)
    found = [value for value in g.pool if value.dtype == BOOL and value.shape == shape]
    condition = g.one_of(found) if found else g.leaf(g.random_array(BOOL, shape[g.integer(0, len(shape)):]))
    g.add("Where", [condition, x, y])


def cast(g):
    x = g.operand(ANY)
    to = g.one_of(ANY)
    if x.dtype.kind == "f" and to.kind in "iu":
        g.away(x.wide - np.round(x.wide), x.wide)
        if (x.wide < (0 if to == U8 else -100)).any() or (x.wide > 100).any():
            raise Reject("outside of the integer's range")
    if x.dtype.kind == "f" and to == BOOL:
        g.away(x.wide, 0.0)
    g.add("Cast", [x], to=type_of(to))


# ---- reductions ------------------------------------------------------------------------------------------------------


def reduce(g):
    op = g.one_of(["ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceL1", "ReduceL2", "ReduceSumSquare",
                   "ReduceLogSumExp", "ReduceProd"])
    x = g.operand((F32, F64, I32, I64) if op in ("ReduceSum", "ReduceMax", "ReduceMin") else (F32, F64))
    if op == "ReduceProd" and np.abs(np.log(np.abs(x.wide) + 1e-30)).sum() > 60:
        raise Reject("some order of multiplying may overflow")
    axes = None
    if x.rank and g.chance(0.8):
        axes = g.constant(*g.some_axes(x))
    g.add(op, [x, axes] if axes else [x], keepdims=g.integer(0, 1))


def arg_reduce(g):
    x = g.operand((F32, F64, I32), rank=range(1, 5))
    axis = g.axis(x)
    op = g.one_of(["ArgMax", "ArgMin"])
    if x.dtype.kind == "f" and x.shape[axis] > 1:
        ordered = np.sort(x.wide, axis=axis)
        g.away(np.diff(ordered, axis=axis), ordered[..., :1] if axis in (-1, x.rank - 1) else 1.0)
    attributes = {"select_last_index": 1} if g.chance(0.3) else {}
    g.add(op, [x], axis=axis, keepdims=g.integer(0, 1), **attributes)


def cumulative(g):
    x = g.operand((F32, F64, I32, I64), rank=range(1, 5))
    axis = g.leaf(np.array(g.axis(x), g.one_of((I32, I64))), constant=True)
    g.add("CumSum", [x, axis], exclusive=g.integer(0, 1), reverse=g.integer(0, 1))


def top_k(g):
    x = g.operand((F32, F64), rank=range(1, 5))
    axis = g.axis(x)
    if x.shape[axis] > 1:
        g.away(np.diff(np.sort(x.wide, axis=axis), axis=axis), np.abs(x.wide).max())
    g.add("TopK", [x, g.constant(g.integer(1, x.shape[axis]))], outputs=2, axis=axis, largest=g.integer(0, 1))


def softmax(g):
    x = g.operand(FLOATS, rank=range(1, 5))
    g.add(g.one_of(["Softmax", "LogSoftmax"]), [x], axis=g.axis(x))


def layer_norm(g):
    x = g.operand((F32,), rank=range(1, 5))
    axis = g.axis(x)
    tail = x.shape[axis:]
    if int(np.prod(tail)) < 2:
        raise Reject("nothing to normalise over")
    operands = [x, g.leaf(g.random_array(F32, tail))]
    if g.chance(0.6):
        operands.append(g.leaf(g.random_array(F32, tail)))
    g.add("LayerNormalization", operands, axis=axis, epsilon=g.one_of([1e-5, 1e-2]))


def batch_norm(g):
    x = g.operand((F32, F64), rank=range(2, 5))
    channels = (x.shape[1],)
    g.add("BatchNormalization", [x, *(g.leaf(g.random_array(x.dtype, channels)) for _ in range(3)),
                                 g.leaf(g.random_array(x.dtype, channels, 0.3, 2.0))], epsilon=1e-3)


def instance_norm(g):
    x = g.operand((F32,), rank=range(3, 5), fits=lambda value: np.prod(value.shape[2:]) >= 2)
    channels = (x.shape[1],)
    g.add("InstanceNormalization", [x, *(g.leaf(g.random_array(F32, channels)) for _ in range(2))], epsilon=1e-2)


# ---- products --------------------------------------------------------------------------------------------------------


def matmul(g):
    x = g.operand((F32, F32, F64, I32), rank=range(1, 5))
    if x.rank == 1:
        shape = g.one_of([(x.shape[0],), (x.shape[0], g.one_of(DIMS)), (2, x.shape[0], g.one_of(DIMS))])
    else:
        lead = tuple(1 if g.chance(0.3) else dim for dim in x.shape[g.integer(0, x.rank - 2):-2])
        shape = (x.shape[-1],) if g.chance(0.1) else (*lead, x.shape[-1], g.one_of(DIMS))
    g.add("MatMul", [x, g.leaf(g.random_array(x.dtype, shape, -1.0, 1.0))])


def gemm(g):
    x = g.operand((F32, F32, F64), rank=2)
    transposed = g.integer(0, 1)
    rows, depth = x.shape[::-1] if transposed else x.shape
    columns = g.one_of(DIMS)
    flip = g.integer(0, 1)
    operands = [x, g.leaf(g.random_array(x.dtype, (columns, depth) if flip else (depth, columns), -1.0, 1.0))]
    if g.chance(0.7):
        operands.append(g.leaf(g.random_array(x.dtype, g.one_of([(columns,), (1, columns), (rows, 1), (rows, columns),
                                                                 ()]))))
    g.add("Gemm", operands, transA=transposed, transB=flip, alpha=g.one_of([1.0, 0.5]), beta=g.one_of([1.0, -0.25]))


def window(g, x, attributes):
    """Fills in the attributes that convolutions and pools share. Returns the kernel's shape."""
    sizes = x.shape[2:]
    kernel = [g.integer(1, min(3, size)) for size in sizes]
    attributes["strides"] = [g.integer(1, 2) for _ in sizes]
    if g.chance(0.6):
        # Less than the kernel, so that no window lies in the padding alone.
        attributes["pads"] = [g.integer(0, (size - 1) // 2) for size in kernel * 2]
    elif g.chance(0.3):
        attributes["auto_pad"] = g.one_of(["SAME_UPPER", "SAME_LOWER", "VALID"])
    return kernel


def images(g, dtypes):
    return g.operand(dtypes, rank=(3, 4), fits=lambda value: min(value.shape[2:]) >= 2)


def convolution(g):
    x = images(g, (F32, F32, F64))
    attributes = {}
    kernel = window(g, x, attributes)
    channels = x.shape[1]
    groups = g.one_of([n for n in range(1, channels + 1) if channels % n == 0])
    outputs = groups * g.integer(1, 4)
    if "auto_pad" not in attributes and g.chance(0.3):
        attributes["dilations"] = [2 if (k - 1) * 2 < size else 1 for k, size in zip(kernel, x.shape[2:])]
    operands = [x, g.leaf(g.random_array(x.dtype, (outputs, channels // groups, *kernel), -1.0, 1.0))]
    if g.chance(0.5):
        operands.append(g.leaf(g.random_array(x.dtype, (outputs,))))
    g.add("Conv", operands, group=groups, kernel_shape=kernel, **attributes)


def convolution_transposed(g):
    x = images(g, (F32,))
    attributes = {}
    kernel = window(g, x, attributes)
    attributes.pop("auto_pad", None)
    operands = [x, g.leaf(g.random_array(F32, (x.shape[1], g.integer(1, 4), *kernel), -1.0, 1.0))]
    if g.chance(0.5):
        operands.append(g.leaf(g.random_array(F32, (operands[1].shape[1],))))
    g.add("ConvTranspose", operands, kernel_shape=kernel, **attributes)


def pool(g):
    x = images(g, (F32, F32, F64))
    attributes = {}
    kernel = window(g, x, attributes)
    if "auto_pad" in attributes:
        raise Reject("the evaluators disagree about pools with automatic padding")
    op = g.one_of(["MaxPool", "AveragePool"])
    if op == "AveragePool":
        attributes["count_include_pad"] = g.integer(0, 1)
    g.add(op, [x], kernel_shape=kernel, **attributes)


def global_pool(g):
    g.add(g.one_of(["GlobalAveragePool", "GlobalMaxPool"]), [images(g, (F32, F64))])


def einsum(g):
    x = g.operand((F32, F64), rank=2)
    n, k = x.shape
    m = g.one_of(DIMS)
    equation, shape = g.one_of([("ij,jk->ik", (k, m)), ("ij,kj->ki", (m, k)), ("ij,ij->i", (n, k)), ("ij,j->ij", (k,)),
                                ("ij,ik->jk", (n, m))])
    g.add("Einsum", [x, g.leaf(g.random_array(x.dtype, shape))], equation=equation)


# ---- moving data -----------------------------------------------------------------------------------------------------


def transpose(g):
    x = g.operand(ANY, rank=range(1, 6))
    g.add("Transpose", [x], perm=[int(i) for i in g.rng.permutation(x.rank)])


def reshape(g):
    x = g.operand(ANY)
    sizes, dims = x.array.size, []
    while sizes > 1 and len(dims) < 4:
        divisors = [d for d in range(1, sizes + 1) if sizes % d == 0]
        dims.append(g.one_of(divisors))
        sizes //= dims[-1]
    dims.append(sizes)
    if g.chance(0.4):
        dims[g.integer(0, len(dims) - 1)] = -1
    g.add("Reshape", [x, g.constant(*dims)])


def ranks(g):
    op = g.one_of(["Flatten", "Squeeze", "Unsqueeze", "Expand", "Tile", "Shape", "Size"])
    x = g.operand(ANY)
    if op == "Flatten":
        g.add(op, [x], axis=g.integer(-x.rank, x.rank))
    elif op == "Squeeze":
        ones = [axis for axis, dim in enumerate(x.shape) if dim == 1]
        if not ones:
            raise Reject("nothing to squeeze")
        g.add(op, [x, g.constant(g.one_of(ones))] if g.chance(0.7) else [x])
    elif op == "Unsqueeze":
        if x.rank > 4:
            raise Reject("enough dimensions")
        g.add(op, [x, g.constant(g.integer(-x.rank - 1, x.rank))])
    elif op == "Expand":
        shape = [1 if g.chance(0.3) else dim for dim in x.shape]
        target = [g.integer(2, 3)] * g.integer(0, 1) + [d if s > 1 or d > 1 else g.integer(1, 3)
                                                        for s, d in zip(shape, x.shape)]
        g.add(op, [x, g.constant(*target)])
    elif op == "Tile":
        g.add(op, [x, g.constant(*(g.integer(1, 2) for _ in x.shape))])
    else:
        g.add(op, [x])


def slicing(g):
    x = g.operand(ANY, rank=range(1, 6))
    axes = sorted({axis % x.rank for axis in g.some_axes(x)})
    starts, ends, steps = [], [], []
    for axis in axes:
        size = x.shape[axis]
        low, high = sorted((g.integer(0, size), g.integer(0, size)))
        if low == high:
            low, high = 0, size
        step = g.integer(1, 2)
        if g.chance(0.3):
            starts.append(high - 1)
            ends.append(low - 1 if low else -size - 1)
            steps.append(-step)
        else:
            starts.append(low - size if g.chance(0.3) else low)
            ends.append(2**31 - 1 if high == size and g.chance(0.3) else high)
            steps.append(step)
    g.add("Slice", [x, g.constant(*starts), g.constant(*ends), g.constant(*axes), g.constant(*steps)])


def concat(g):
    x = g.operand(ANY, rank=range(1, 5))
    axis = g.axis(x)
    others = []
    for _ in range(g.integer(1, 2)):
        shape = list(x.shape)
        shape[axis] = g.integer(1, 4)
        others.append(g.leaf(g.random_array(x.dtype, shape)))
    same = [value for value in g.pool if value.dtype == x.dtype and value.shape == x.shape]
    operands = [x, *others, *([g.one_of(same)] if same else [])]
    g.add("Concat", [operands[i] for i in g.rng.permutation(len(operands))], axis=axis)


def split(g):
    x = g.operand(ANY, rank=range(1, 5))
    axis = g.axis(x)
    size = x.shape[axis]
    if size < 2:
        raise Reject("nothing to split")
    first = g.integer(1, size - 1)
    if g.chance(0.5):
        g.add("Split", [x, g.constant(first, size - first)], outputs=2, axis=axis)
    else:
        g.add("Split", [x], outputs=2, axis=axis, num_outputs=2)


def gather(g):
    x = g.operand(ANY, rank=range(1, 5))
    op = g.one_of(["Gather", "GatherElements", "GatherND"])
    dtype = I64 if op == "GatherND" else g.one_of((I32, I64))
    if op == "GatherND":
        depth = g.integer(1, x.rank)
        lead = g.shape(g.integer(0, 2), 16)
        rows = np.stack([g.rng.integers(-size, size, lead) for size in x.shape[:depth]], axis=-1)
        g.add(op, [x, g.leaf(rows.astype(dtype))])
        return
    axis = g.axis(x)
    shape = g.shape(g.integer(0, 2), 16) if op == "Gather" else [g.integer(1, dim) for dim in x.shape]
    indices = np.asarray(g.rng.integers(-x.shape[axis], x.shape[axis], shape)).astype(dtype)
    g.add(op, [x, g.leaf(indices)], axis=axis)


def scatter(g):
    x = g.operand((F32, I32, I64), rank=range(1, 4))
    if g.chance(0.5):
        axis = g.axis(x)
        count = g.integer(1, x.shape[axis])
        shape = list(x.shape)
        shape[axis] = count
        # Every target once: the order of writes to one place is nobody's promise.
        rows = np.argsort(g.rng.random(x.shape), axis=axis).take(range(count), axis=axis)
        g.add("ScatterElements", [x, g.leaf(rows.astype(I64)), g.leaf(g.random_array(x.dtype, shape))], axis=axis,
              reduction=g.one_of(["none", "add"]))
    else:
        count = g.integer(1, x.shape[0])
        rows = g.rng.permutation(x.shape[0])[:count].reshape(count, 1)
        g.add("ScatterND", [x, g.leaf(rows.astype(I64)), g.leaf(g.random_array(x.dtype, (count, *x.shape[1:])))],
              reduction=g.one_of(["none", "add"]))


def pad(g):
    x = g.operand(NUMBERS, rank=range(1, 5))
    mode = g.one_of(["constant", "constant", "edge", "reflect"])
    most = min(x.shape) - 1 if mode == "reflect" else 2
    pads = [g.integer(0, min(2, most)) for _ in range(2 * x.rank)]
    operands = [x, g.constant(*pads)]
    if mode == "constant" and g.chance(0.6):
        operands.append(g.scalar(3, x.dtype))
    g.add("Pad", operands, mode=mode)


def depth_space(g):
    x = g.operand((F32, F64), rank=4)
    if x.shape[1] % 4 == 0 and g.chance(0.5):
        g.add("DepthToSpace", [x], blocksize=2, mode=g.one_of(["DCR", "CRD"]))
    elif x.shape[2] % 2 == 0 and x.shape[3] % 2 == 0:
        g.add("SpaceToDepth", [x], blocksize=2)
    else:
        raise Reject("no block fits")


def triangle(g):
    x = g.operand((F32, F64, I64), rank=range(2, 5))
    operands = [x, g.scalar(g.integer(-2, 2), I64)] if g.chance(0.6) else [x]
    g.add("Trilu", operands, upper=g.integer(0, 1))


GENERATORS = (
    unary, unary, unary, unary_partial, clip, binary, binary, binary, divide, modulo, power, compare, logic, bits,
    where, cast, reduce, reduce, arg_reduce, cumulative, top_k, softmax, layer_norm, batch_norm, instance_norm, matmul,
    matmul, gemm, convolution, convolution, convolution_transposed, pool, global_pool, einsum, transpose, transpose,
    reshape, ranks, slicing, concat, split, gather, scatter, pad, depth_space, triangle,
)


def random_graph(seed, nodes=None):
    """The graph of a seed: 2 to 12 nodes, or the first `nodes` of them."""
    builder = Builder(seed)
    count = builder.integer(2, 12)
    builder.grow(count if nodes is None else min(nodes, count))
    return builder.finish(f"random_{seed}")


def write(graph, folder):
    """Writes the graph as ONNX's own test folders are laid out; floats are expected in their own types."""
    data = folder / "test_data_set_0"
    data.mkdir(parents=True, exist_ok=True)
    onnx.save(graph.model, folder / "model.onnx")
    for i, value in enumerate(graph.model.graph.input):
        (data / f"input_{i}.pb").write_bytes(
            numpy_helper.from_array(graph.inputs[value.name], value.name).SerializeToString())
    for i, value in enumerate(graph.model.graph.output):
        expected = graph.expected[value.name].astype(onnx_dtype(graph.model, value.name))
        (data / f"output_{i}.pb").write_bytes(numpy_helper.from_array(expected, value.name).SerializeToString())


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("folder", type=Path, help="a folder SEED with model.onnx and test_data_set_0 is made in it")
    parser.add_argument("--seed", type=int, default=0, help="the first seed (%(default)s)")
    parser.add_argument("--count", type=int, default=1, help="how many graphs (%(default)s)")
    parser.add_argument("--nodes", type=int, help="at most so many nodes each")
    arguments = parser.parse_args()
    for seed in range(arguments.seed, arguments.seed + arguments.count):
        write(random_graph(seed, arguments.nodes), arguments.folder / str(seed))
    return 0


if __name__ == "__main__":
    sys.exit(main())
