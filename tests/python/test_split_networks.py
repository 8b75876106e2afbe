#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Networks split across two CPUs and a device of OpenCL or CUDA, by pattern, at random, by predicted time and by default,
give what they give on one CPU. It is done for each of the two kinds that this machine has; without either, an island is
in their place. TENON_TEST_DEVICES=opencl,cuda says which must be there.

SplitNetworks are small ones. RealNetworks are ResNet-50 with random weights and MiniLM as it was trained."""

import os
import platform
import random
import sys
import time
import unittest
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import tenon

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))

LEAST = platform.machine().replace("_", "-")


class Graph:
    """Collects the nodes and weights of a model."""

    def __init__(self, seed):
        self.draw = np.random.default_rng(seed)
        self.nodes, self.weights = [], []

    def node(self, op, *inputs, **attributes):
        name = f"{op}{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(inputs), [f"v_{name}"], name, **attributes))
        return f"v_{name}"

    def weight(self, *shape):
        name = f"w{len(self.weights)}"
        scale = 1 / np.sqrt(np.prod(shape[1:]) if len(shape) > 2 else shape[0])
        values = (self.draw.standard_normal(shape) * scale).astype(np.float32)
        self.weights.append(numpy_helper.from_array(values, name))
        return name

    def constant(self, values):
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(values), name))
        return name

    def model(self, inputs, output, shape):
        result = helper.make_tensor_value_info(output, TensorProto.FLOAT, shape)
        graph = helper.make_graph(self.nodes, "network", inputs, [result], self.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


def floats(name, *shape):
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, list(shape))


def residual_network():
    """A stem, four blocks with shortcuts, one of them strided, and a classifier."""
    g = Graph(1)
    x = g.node("Relu", g.node("Conv", "image", g.weight(16, 3, 3, 3), pads=[1] * 4))
    before = 16
    for channels, stride in ((16, 1), (32, 2), (32, 1), (48, 2)):
        inside = g.node("Conv", x, g.weight(channels, before, 3, 3), pads=[1] * 4, strides=[stride] * 2)
        inside = g.node("Conv", g.node("Relu", inside), g.weight(channels, channels, 3, 3), pads=[1] * 4)
        if stride > 1:
            x = g.node("Conv", x, g.weight(channels, before, 1, 1), strides=[stride] * 2)
        x = g.node("Relu", g.node("Add", x, inside))
        before = channels
    x = g.node("Flatten", g.node("GlobalAveragePool", x))
    x = g.node("Softmax", g.node("Gemm", x, g.weight(48, 10)))
    return g.model([floats("image", 1, 3, 24, 24)], x, [1, 10]), {"image": g.draw.standard_normal((1, 3, 24, 24))}


def encoder(length="n"):
    """Two layers of attention over a sequence of open length."""
    g = Graph(2)
    x, heads, width = "tokens", 4, 32
    for _ in range(2):
        parts = [g.node("Transpose", g.node("Reshape", g.node("MatMul", x, g.weight(width, width)),
                                            g.constant([0, 0, heads, width // heads])), perm=perm)
                 for perm in ((0, 2, 1, 3), (0, 2, 3, 1), (0, 2, 1, 3))]
        scores = g.node("Softmax", g.node("Div", g.node("MatMul", parts[0], parts[1]), g.constant(np.float32(2.8))))
        mixed = g.node("Transpose", g.node("MatMul", scores, parts[2]), perm=[0, 2, 1, 3])
        mixed = g.node("MatMul", g.node("Reshape", mixed, g.constant([0, 0, width])), g.weight(width, width))
        x = g.node("LayerNormalization", g.node("Add", x, mixed), g.constant(np.ones(width, np.float32)))
        inner = g.node("Sigmoid", g.node("MatMul", x, g.weight(width, 64)))
        x = g.node("LayerNormalization", g.node("Add", x, g.node("MatMul", inner, g.weight(64, width))),
                   g.constant(np.ones(width, np.float32)))
    return g.model([floats("tokens", 1, length, width)], x, [1, length, width]), {
        "tokens": g.draw.standard_normal((1, 11, width))}


def branch_and_loop():
    """A loop that multiplies by a matrix, and a branch on what came of it."""
    g = Graph(3)
    matrix = g.weight(8, 8)
    body = helper.make_graph(
        [helper.make_node("MatMul", ["state", matrix], ["product"], "product"),
         helper.make_node("Tanh", ["product"], ["next"], "squash"), helper.make_node("Identity", ["go"], ["on"], "on")],
        "round", [helper.make_tensor_value_info("i", TensorProto.INT64, []),
                  helper.make_tensor_value_info("go", TensorProto.BOOL, []), floats("state", 4, 8)],
        [helper.make_tensor_value_info("on", TensorProto.BOOL, []), floats("next", 4, 8)])
    x = g.node("Loop", g.constant(np.int64(5)), g.constant(np.bool_(True)), g.node("Relu", "x"), body=body)
    total = g.node("ReduceSum", x, keepdims=0)
    arms = [helper.make_graph([helper.make_node(op, [x], [f"arm{op}"], f"arm{op}")], op, [], [floats(f"arm{op}", 4, 8)])
            for op in ("Neg", "Exp")]
    x = g.node("If", g.node("Greater", total, g.constant(np.float32(0))), then_branch=arms[0], else_branch=arms[1])
    x = g.node("Abs", x)
    return g.model([floats("x", 4, 8)], x, [4, 8]), {"x": g.draw.standard_normal((4, 8))}


def names_of(graph):
    for node in graph.node:
        yield node.name
        for attribute in node.attribute:
            yield from names_of(attribute.g)


def third_devices():
    """A device of each kind that is not a CPU, or the island."""
    probe = helper.make_model(helper.make_graph([helper.make_node("Neg", ["x"], ["y"], "n")], "probe", [floats("x", 2)],
                                                [floats("y", 2)]), opset_imports=[helper.make_opsetid("", 17)])
    found = []
    for kind in "opencl", "cuda":
        try:
            tenon.compile(probe.SerializeToString(), target=f"native;{kind}", place=[f"n={kind}:0"]).run(
                {"x": np.ones(2, np.float32)})
            found.append(kind)
        except tenon.Error as error:
            if kind in os.environ.get("TENON_TEST_DEVICES", "").split(","):
                raise
            print(f"no device of {kind} here: {error}")
    return found or ["island"]


DEVICE_TYPES = {"cuda": 2, "opencl": 4, "island": 12}  # DLPack's


def thirds_of(names, devices):
    """The first third of the nodes on the first device, and so on."""
    third = len(names) // 3
    return [f"{name}={devices[min(i // third, 2)]}" for i, name in enumerate(names)]


class SplitNetworks(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.kinds = third_devices()

    def check(self, made):
        for kind in self.kinds:
            with self.subTest(kind):
                self.third = f"{kind}:0"
                self.targets = f"native;cpu -device=1 -mcpu={LEAST};{kind}"
                self.third_first = f"{kind};native;cpu -device=1 -mcpu={LEAST}"
                self.check_split(*made)

    def check_split(self, model, inputs):
        inputs = {name: values.astype(np.float32) for name, values in inputs.items()}
        data, names = model.SerializeToString(), list(names_of(model.graph))
        alone = tenon.compile(data, cache=False, threads=1).run(inputs)
        devices = ["cpu:0", "cpu:1", self.third]
        draw = random.Random(len(names))
        placements = {
            "pattern": thirds_of(names, devices),
            "everything": [f"*={self.third}"],
            "auto": ["auto"],
            **{f"random {i}": [f"{name}={draw.choice(devices)}" for name in names] for i in range(3)},
        }
        for what, place in placements.items():
            with self.subTest(what):
                split = tenon.compile(data, target=self.targets, place=place, cache=False, threads=1)
                self.compare(split.run(inputs), alone)
        with self.subTest("default"):
            split = tenon.compile(data, target=self.third_first, host="native", cache=False, threads=1)
            for _ in range(2):
                self.compare(split.run(inputs), alone)

    def compare(self, results, alone):
        for name, values in alone.items():
            np.testing.assert_allclose(results[name], values, rtol=2e-5, atol=2e-6)

    def test_a_residual_network(self):
        self.check(residual_network())

    def test_an_encoder_of_open_length(self):
        self.check(encoder())

    def test_a_branch_and_a_loop(self):
        self.check(branch_and_loop())


class RealNetworks(unittest.TestCase):
    MOST = 1e-4  # of the largest output: float32 in some 50 layers, in other orders

    @classmethod
    def setUpClass(cls):
        cls.kinds = third_devices()

    def check(self, name):
        import models

        model, inputs = models.BUILDERS[name]()
        for i, node in enumerate(model.graph.node):
            node.name = node.name or f"node{i}"
        for kind in self.kinds:
            with self.subTest(kind):
                self.check_split(name, model, inputs, kind)

    def check_split(self, name, model, inputs, kind):
        data, names = model.SerializeToString(), list(names_of(model.graph))
        third = f"{kind} -type=cpu" if kind == "opencl" else kind  # PoCL's, in schedules of CPUs
        one, other = "native", f"cpu -device=1 -mcpu={LEAST}"
        alone = tenon.compile(data, cache=False, threads=2).run(inputs)
        for what, targets, place in (("pattern", [one, other, third], thirds_of(names, ["cpu:0", "cpu:1", f"{kind}:0"])),
                                     ("auto", [one, other, third], ["auto"]), ("default", [third, one, other], [])):
            with self.subTest(what):
                start = time.monotonic()  # clock: printed
                split = tenon.compile(data, target=";".join(targets), host=one, place=place, cache=False, threads=2)
                compiled = time.monotonic()  # clock: printed
                results = split.run(inputs)
                first = time.monotonic()  # clock: printed
                results = split.run(inputs)
                end = time.monotonic()  # clock: printed
                far = max(np.abs(results[key] - values).max() / np.abs(values).max() for key, values in alone.items())
                print(f"{name} over two CPUs and {kind}, {what}: compiled in {compiled - start:.1f} s, run in "
                      f"{first - compiled:.1f} and {end - first:.2f} s, differs by {far:.1e} of the largest output",
                      flush=True)
                self.assertLess(far, self.MOST)
                if what != "auto":  # where the last layers are
                    self.assertEqual({value.device for value in split.outputs}, {(DEVICE_TYPES[kind], 0)})

    def test_resnet50(self):
        self.check("light-resnet50-random")

    def test_minilm(self):
        self.check("minilm-trained")


if __name__ == "__main__":
    unittest.main()
