# SPDX-License-Identifier: Apache-2.0
"""Networks with seeded random weights: the architectures of torchvision and transformers to the letter, without torch.

Each builder returns (model, feeds) for a batch of one. Convolutions and batch normalisations are nodes of their own, as
the networks are defined; every runtime is free to fold them.
"""

import math

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

SEED = 20240917
OPSET = 17
SEQUENCE = 128


class Builder:
    """Collects nodes and weights. Every method that adds a node returns the name of its result."""

    def __init__(self, name):
        self.name = name
        self.rng = np.random.default_rng(SEED)
        self.nodes, self.weights, self.inputs = [], [], []

    def input(self, name, shape, dtype=TensorProto.FLOAT):
        self.inputs.append(helper.make_tensor_value_info(name, dtype, shape))
        return name

    def weight(self, value):
        name = f"w{len(self.weights)}"
        value = np.asarray(value)
        self.weights.append(numpy_helper.from_array(value.astype(np.float32) if value.dtype.kind == "f" else value, name))
        return name

    def normal(self, shape, deviation):
        return self.weight(self.rng.normal(0.0, deviation, shape))

    def node(self, operator, *inputs, outputs=1, **attributes):
        names = [f"v{len(self.nodes)}" + (f"_{i}" if outputs > 1 else "") for i in range(outputs)]
        self.nodes.append(helper.make_node(operator, list(inputs), names, **attributes))
        return names[0] if outputs == 1 else names

    def conv(self, x, channels, out, window, stride=1, pad=0, groups=1, bias=True):
        fan_in = channels // groups * window * window
        # He's initialisation keeps the scale of activations through the layers.
        operands = [x, self.normal((out, channels // groups, window, window), math.sqrt(2.0 / fan_in))]
        if bias:
            operands.append(self.normal((out,), 0.05))
        return self.node("Conv", *operands, kernel_shape=[window] * 2, strides=[stride] * 2, pads=[pad] * 4, group=groups)

    def batch_norm(self, x, channels, low=0.8, high=1.2):
        uniform = self.rng.uniform
        return self.node("BatchNormalization", x, self.weight(uniform(low, high, channels)), self.normal((channels,), 0.1),
                         self.normal((channels,), 0.1), self.weight(uniform(0.8, 1.2, channels)), epsilon=1e-5)

    def pool(self, x, window, stride, pad=0, kind="MaxPool", **attributes):
        return self.node(kind, x, kernel_shape=[window] * 2, strides=[stride] * 2, pads=[pad] * 4, **attributes)

    def linear(self, x, features, out):
        """A torch Linear on a matrix."""
        return self.node("Gemm", x, self.normal((out, features), 1 / math.sqrt(features)), self.normal((out,), 0.05),
                         transB=1)

    def layer_norm(self, x, width, epsilon):
        scale = self.weight(self.rng.uniform(0.9, 1.1, width))
        return self.node("LayerNormalization", x, scale, self.normal((width,), 0.02), axis=-1, epsilon=epsilon)

    def constant(self, value):
        return self.weight(np.float32(value))

    def finish(self, outputs, feeds):
        """`outputs` maps a result to (name, shape)."""
        for value, (name, _) in outputs.items():
            self.nodes.append(helper.make_node("Identity", [value], [name]))
        results = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in outputs.values()]
        graph = helper.make_graph(self.nodes, self.name, self.inputs, results, self.weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=9)
        onnx.checker.check_model(model)
        return model, feeds


def image(builder, *shape):
    name = builder.input("image", shape)
    return name, {name: builder.rng.standard_normal(shape, np.float32)}


def lenet5():
    """LeCun et al. 1998: 32x32, tanh, mean pooling."""
    b = Builder("lenet5")
    x, feeds = image(b, 1, 1, 32, 32)
    for channels, out in ((1, 6), (6, 16)):
        x = b.pool(b.node("Tanh", b.conv(x, channels, out, 5)), 2, 2, kind="AveragePool")
    x = b.node("Flatten", b.node("Tanh", b.conv(x, 16, 120, 5)))
    x = b.linear(b.node("Tanh", b.linear(x, 120, 84)), 84, 10)
    return b.finish({x: ("logits", [1, 10])}, feeds)


def squeezenet1_1():
    b = Builder("squeezenet1_1")
    x, feeds = image(b, 1, 3, 224, 224)

    def fire(x, channels, squeeze, expand):
        x = b.node("Relu", b.conv(x, channels, squeeze, 1))
        one, three = b.conv(x, squeeze, expand, 1), b.conv(x, squeeze, expand, 3, pad=1)
        return b.node("Concat", b.node("Relu", one), b.node("Relu", three), axis=1)

    def pool(x):
        return b.pool(x, 3, 2, ceil_mode=1)

    x = pool(b.node("Relu", b.conv(x, 3, 64, 3, stride=2)))
    x = pool(fire(fire(x, 64, 16, 64), 128, 16, 64))
    x = pool(fire(fire(x, 128, 32, 128), 256, 32, 128))
    x = fire(fire(x, 256, 48, 192), 384, 48, 192)
    x = fire(fire(x, 384, 64, 256), 512, 64, 256)
    x = b.node("Relu", b.conv(x, 512, 1000, 1))
    x = b.node("Flatten", b.node("GlobalAveragePool", x))
    return b.finish({x: ("logits", [1, 1000])}, feeds)


MOBILENET_V2_BLOCKS = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2),
                       (6, 320, 1, 1))  # expansion, channels, repeats, stride of the first


def mobilenet_v2():
    b = Builder("mobilenet_v2")
    x, feeds = image(b, 1, 3, 224, 224)
    low, high = b.weight(np.float32(0)), b.weight(np.float32(6))

    def conv(x, channels, out, window, stride=1, groups=1, relu6=True):
        x = b.conv(x, channels, out, window, stride, window // 2, groups, bias=False)
        x = b.batch_norm(x, out)
        return b.node("Clip", x, low, high) if relu6 else x

    x, channels = conv(x, 3, 32, 3, stride=2), 32
    for expansion, out, repeats, first_stride in MOBILENET_V2_BLOCKS:
        for block in range(repeats):
            stride, hidden, y = first_stride if block == 0 else 1, channels * expansion, x
            if expansion != 1:
                y = conv(y, channels, hidden, 1)
            y = conv(y, hidden, hidden, 3, stride, hidden)
            y = conv(y, hidden, out, 1, relu6=False)
            x = b.node("Add", x, y) if stride == 1 and channels == out else y
            channels = out
    x = b.node("Flatten", b.node("GlobalAveragePool", conv(x, channels, 1280, 1)))
    x = b.linear(x, 1280, 1000)
    return b.finish({x: ("logits", [1, 1000])}, feeds)


RESNET50_STAGES = ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2))  # width, blocks, stride of the first


def resnet50():
    """Version 1.5: the stride is in the 3x3 convolution."""
    b = Builder("resnet50")
    x, feeds = image(b, 1, 3, 224, 224)

    def conv(x, channels, out, window, stride=1, **norm):
        return b.batch_norm(b.conv(x, channels, out, window, stride, window // 2, bias=False), out, **norm)

    x = b.pool(b.node("Relu", conv(x, 3, 64, 7, 2)), 3, 2, pad=1)
    channels = 64
    for width, blocks, first_stride in RESNET50_STAGES:
        for block in range(blocks):
            stride = first_stride if block == 0 else 1
            y = b.node("Relu", conv(x, channels, width, 1))
            y = b.node("Relu", conv(y, width, width, 3, stride))
            # Small, so that sixteen residual branches add up to logits of a sensible size.
            y = conv(y, width, 4 * width, 1, low=0.1, high=0.3)
            x = conv(x, channels, 4 * width, 1, stride) if block == 0 else x
            x = b.node("Relu", b.node("Add", y, x))
            channels = 4 * width
    x = b.linear(b.node("Flatten", b.node("GlobalAveragePool", x)), 2048, 1000)
    return b.finish({x: ("logits", [1, 1000])}, feeds)


class Encoder(Builder):
    """transformers' BertModel with its pooler."""

    def __init__(self, name, hidden, layers, heads, inner, vocabulary=30522, positions=512):
        super().__init__(name)
        self.hidden, self.layers, self.heads, self.inner = hidden, layers, heads, inner
        self.vocabulary, self.positions = vocabulary, positions

    def dense(self, x, features, out):
        """A torch Linear on a tensor of rank 3, as torch exports it."""
        product = self.node("MatMul", x, self.normal((features, out), 0.02))
        return self.node("Add", self.normal((out,), 0.02), product)

    def norm(self, x):
        return self.layer_norm(x, self.hidden, 1e-12)

    def split_heads(self, x, order):
        shape = self.weight(np.array([1, -1, self.heads, self.hidden // self.heads], np.int64))
        return self.node("Transpose", self.node("Reshape", x, shape), perm=order)

    def attention(self, x, mask):
        query, key, value = (self.dense(x, self.hidden, self.hidden) for _ in range(3))
        query, value = (self.split_heads(operand, [0, 2, 1, 3]) for operand in (query, value))
        scores = self.node("MatMul", query, self.split_heads(key, [0, 2, 3, 1]))
        scores = self.node("Div", scores, self.constant(math.sqrt(self.hidden // self.heads)))
        weights = self.node("Softmax", self.node("Add", scores, mask), axis=-1)
        result = self.node("Transpose", self.node("MatMul", weights, value), perm=[0, 2, 1, 3])
        merged = self.node("Reshape", result, self.weight(np.array([1, -1, self.hidden], np.int64)))
        return self.dense(merged, self.hidden, self.hidden)

    def gelu(self, x):
        erf = self.node("Erf", self.node("Div", x, self.constant(math.sqrt(2))))
        product = self.node("Mul", x, self.node("Add", erf, self.constant(1)))
        return self.node("Mul", product, self.constant(0.5))

    def places(self, ids, length):
        """Numbers of positions; of an open length as transformers has them, a slice of all."""
        if length is not None:
            return self.weight(np.arange(length, dtype=np.int64)[None])
        ends = self.node("Slice", self.node("Shape", ids), *(self.weight(np.array([at], np.int64)) for at in (1, 2, 0)))
        every = self.weight(np.arange(self.positions, dtype=np.int64)[None])
        return self.node("Slice", every, self.weight(np.array([0], np.int64)), ends, self.weight(np.array([1], np.int64)))

    def embed(self, ids, types, length):
        words = self.node("Gather", self.normal((self.vocabulary, self.hidden), 0.02), ids)
        kinds = self.node("Gather", self.normal((2, self.hidden), 0.02), types)
        places = self.node("Gather", self.normal((self.positions, self.hidden), 0.02), self.places(ids, length))
        return self.norm(self.node("Add", self.node("Add", words, kinds), places))

    def additive_mask(self, mask):
        wide = self.node("Cast", self.node("Unsqueeze", mask, self.weight(np.array([1, 2], np.int64))), to=TensorProto.FLOAT)
        return self.node("Mul", self.node("Sub", self.constant(1), wide), self.constant(np.finfo(np.float32).min))

    def build(self, length=SEQUENCE):
        """Sentences of `length` tokens; None leaves that open, and the feeds have as many as otherwise."""
        shape = (1, "sequence" if length is None else length)
        ids, mask, types = (self.input(name, shape, TensorProto.INT64)
                            for name in ("input_ids", "attention_mask", "token_type_ids"))
        sizes = (1, length or SEQUENCE)
        feeds = {ids: self.rng.integers(0, self.vocabulary, sizes, dtype=np.int64), mask: np.ones(sizes, np.int64),
                 types: np.zeros(sizes, np.int64)}
        x, added = self.embed(ids, types, length), self.additive_mask(mask)
        for _ in range(self.layers):
            x = self.norm(self.node("Add", self.attention(x, added), x))
            inner = self.gelu(self.dense(x, self.hidden, self.inner))
            x = self.norm(self.node("Add", self.dense(inner, self.inner, self.hidden), x))
        first = self.node("Gather", x, self.weight(np.int64(0)), axis=1)
        pooled = self.node("Tanh", self.linear(first, self.hidden, self.hidden))
        return self.finish({x: ("last_hidden_state", [*shape, self.hidden]),
                            pooled: ("pooler_output", [1, self.hidden])}, feeds)


def minilm(length=SEQUENCE):
    return Encoder("minilm", hidden=384, layers=6, heads=12, inner=1536).build(length)


def bert():
    return Encoder("bert", hidden=768, layers=12, heads=12, inner=3072).build()


class Decoder(Builder):
    """One step of transformers' GPT2LMHeadModel, with a static cache of keys and values: a token goes in at
    `cache_position`, `present.*` is `past.*` with its rows written. `Tensor.index_copy_` along the third dimension is
    exported as a ScatterND between two transpositions."""

    def __init__(self, name, hidden, layers, heads, capacity, vocabulary=50257, positions=1024):
        super().__init__(name)
        self.hidden, self.layers, self.heads, self.capacity = hidden, layers, heads, capacity
        self.vocabulary, self.positions, self.width = vocabulary, positions, hidden // heads

    def shape(self, *sizes):
        return self.weight(np.array(sizes, np.int64))

    def norm(self, x):
        return self.layer_norm(x, self.hidden, 1e-5)

    def conv1d(self, x, features, out, deviation=0.02):
        """Conv1D of transformers, a Linear whose weights lie the other way round: addmm over all rows."""
        rows = self.node("Reshape", x, self.shape(-1, features))
        rows = self.node("Gemm", rows, self.normal((features, out), deviation), self.normal((out,), 0.02))
        return self.node("Reshape", rows, self.rows(out))

    def rows(self, *sizes):
        """The shape of a tensor of batch and tokens with these further dimensions."""
        return self.shape(1, 1, *sizes)

    def project(self, x, features):
        """Back into the residual stream, scaled by the number of layers as GPT-2 is initialised."""
        return self.conv1d(x, features, self.hidden, 0.02 / math.sqrt(2 * self.layers))

    def update(self, name, new, position):
        """`past` with the row at `position` replaced."""
        past = self.input(f"past.{name}", (1, self.heads, self.capacity, self.width))
        rows = self.node("Transpose", past, perm=[2, 0, 1, 3])
        rows = self.node("ScatterND", rows, self.node("Unsqueeze", position, self.shape(-1)),
                         self.node("Transpose", new, perm=[2, 0, 1, 3]))
        return self.node("Transpose", rows, perm=[1, 2, 0, 3])

    def attention(self, x, layer, position, mask):
        parts = self.node("Split", self.conv1d(x, self.hidden, 3 * self.hidden), outputs=3, axis=2)
        query, key, value = (self.node("Transpose", self.node("Reshape", part, self.rows(self.heads, self.width)),
                                       perm=[0, 2, 1, 3]) for part in parts)
        key, value = self.update(f"{layer}.key", key, position), self.update(f"{layer}.value", value, position)
        scores = self.node("MatMul", query, self.node("Transpose", key, perm=[0, 1, 3, 2]))
        scores = self.node("Div", scores, self.constant(math.sqrt(self.width)))
        weights = self.node("Softmax", self.node("Add", scores, mask), axis=-1)
        result = self.node("Transpose", self.node("MatMul", weights, value), perm=[0, 2, 1, 3])
        merged = self.node("Reshape", result, self.rows(self.hidden))
        return self.project(merged, self.hidden), {key: f"present.{layer}.key", value: f"present.{layer}.value"}

    def gelu(self, x):
        """NewGELUActivation: by tanh."""
        cube = self.node("Mul", self.constant(0.044715), self.node("Pow", x, self.constant(3)))
        inner = self.node("Mul", self.constant(math.sqrt(2 / math.pi)), self.node("Add", x, cube))
        factor = self.node("Add", self.node("Tanh", inner), self.constant(1))
        return self.node("Mul", self.node("Mul", self.constant(0.5), x), factor)

    def causal_mask(self, position):
        later = self.node("Greater", self.weight(np.arange(self.capacity)),
                          self.node("Reshape", position, self.shape(-1, 1)))
        mask = self.node("Mul", self.constant(np.finfo(np.float32).min), self.node("Cast", later, to=TensorProto.FLOAT))
        return self.node("Unsqueeze", mask, self.shape(0, 1))

    def decode(self, words, ids, places, position, mask):
        x, caches = self.node("Add", self.node("Gather", words, ids), places), {}
        for layer in range(self.layers):
            result, written = self.attention(self.norm(x), layer, position, mask)
            x, caches = self.node("Add", result, x), caches | written
            inner = self.gelu(self.conv1d(self.norm(x), self.hidden, 4 * self.hidden))
            x = self.node("Add", x, self.project(inner, 4 * self.hidden))
        return self.node("MatMul", self.norm(x), self.node("Transpose", words, perm=[1, 0])), caches

    def build(self):
        ids = self.input("input_ids", (1, 1), TensorProto.INT64)
        position = self.input("cache_position", (1,), TensorProto.INT64)
        words = self.normal((self.vocabulary, self.hidden), 0.02)
        places = self.node("Gather", self.normal((self.positions, self.hidden), 0.02),
                           self.node("Unsqueeze", position, self.shape(0)))
        logits, caches = self.decode(words, ids, places, position, self.causal_mask(position))
        feeds = {ids: np.array([[self.vocabulary // 2]], np.int64), position: np.array([self.capacity - 1], np.int64)}
        cache = (1, self.heads, self.capacity, self.width)
        feeds |= {name.replace("present", "past"): self.rng.standard_normal(cache, np.float32) for name in caches.values()}
        return self.finish({logits: ("logits", [1, 1, self.vocabulary])}
                           | {value: (name, cache) for value, name in caches.items()}, feeds)


class GrowingDecoder(Decoder):
    """The same model with a cache that grows, as transformers exports it by default: any number of tokens goes in behind
    any number of past ones, and `present.*` is `past.*` with their rows behind it."""

    def rows(self, *sizes):
        return self.node("Concat", self.tokens, self.shape(*sizes), axis=0)

    def update(self, name, new, position):
        if f"past.{name}" != "past.0.key":  # which is there from the start, for its length
            self.input(f"past.{name}", (1, self.heads, "past", self.width))
        return self.node("Concat", f"past.{name}", new, axis=2)

    def causal_mask(self, position):
        later = self.node("Greater", self.node("Range", *self.scalars(0), self.total, *self.scalars(1)),
                          self.node("Reshape", position, self.shape(-1, 1)))
        mask = self.node("Mul", self.constant(np.finfo(np.float32).min), self.node("Cast", later, to=TensorProto.FLOAT))
        return self.node("Unsqueeze", mask, self.shape(0, 1))

    def scalars(self, *values):
        return [self.weight(np.array(value, np.int64)) for value in values]

    def build(self):
        ids = self.input("input_ids", (1, "new"), TensorProto.INT64)
        past = self.input("past.0.key", (1, self.heads, "past", self.width))
        self.tokens = self.node("Shape", ids)
        start = self.node("Gather", self.node("Shape", past), *self.scalars(2), axis=0)
        self.total = self.node("Add", start, self.node("Gather", self.tokens, *self.scalars(1), axis=0))
        position = self.node("Range", start, self.total, *self.scalars(1))
        words = self.normal((self.vocabulary, self.hidden), 0.02)
        places = self.node("Unsqueeze", self.node("Gather", self.normal((self.positions, self.hidden), 0.02), position),
                           self.shape(0))
        logits, caches = self.decode(words, ids, places, position, self.causal_mask(position))
        feeds = {ids: np.array([[self.vocabulary // 2]], np.int64)}
        cache = (1, self.heads, self.capacity - 1, self.width)
        feeds |= {name.replace("present", "past"): self.rng.standard_normal(cache, np.float32) for name in caches.values()}
        return self.finish({logits: ("logits", [1, "new", self.vocabulary])}
                           | {value: (name, [1, self.heads, "total", self.width]) for value, name in caches.items()}, feeds)


def gpt2_decode():
    return Decoder("gpt2-decode", hidden=768, layers=12, heads=12, capacity=128).build()


def gpt2_grow():
    return GrowingDecoder("gpt2-grow", hidden=768, layers=12, heads=12, capacity=128).build()


BUILDERS = {"lenet5": lenet5, "squeezenet1_1": squeezenet1_1, "mobilenet_v2": mobilenet_v2, "resnet50": resnet50,
            "minilm": minilm, "bert": bert, "gpt2-decode": gpt2_decode}
