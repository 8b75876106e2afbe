# SPDX-License-Identifier: Apache-2.0
"""What the tests of the finished product share: the built programs, and models to give to them."""

import os
import subprocess
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"


def required(variable):
    """The value of an environment variable that ctest sets: without it a test would have nothing to test."""
    value = os.environ.get(variable)
    if not value:
        raise KeyError(f"{variable} is not set: start the test with ctest")
    return value


def run(*command, status=0, environment=None):
    """Runs a command that must exit with `status` (None: any). Returns its stdout and stderr."""
    result = subprocess.run([str(word) for word in command], text=True, capture_output=True,
                            env=os.environ | (environment or {}))
    if status is not None and result.returncode != status:
        raise AssertionError(f"{' '.join(map(str, command))} ended with {result.returncode}, not {status}:\n"
                             f"{result.stdout}{result.stderr}")
    return result


def tenon(*arguments, status=0, environment=None):
    return run(required("TENON_CLI"), *arguments, status=status, environment=environment)


def info(name, kind, shape):
    return helper.make_tensor_value_info(name, kind, shape)


def graph(nodes, inputs, outputs, initializers=()):
    return helper.make_graph(nodes, "g", inputs, outputs, initializer=list(initializers))


def node(op, inputs, outputs, **attributes):
    return helper.make_node(op, inputs, outputs, **attributes)


def mlp(sizes=(20, 64, 64, 10), rows=3, seed=1, last="Softmax"):
    """A multilayer perceptron with random weights, its input, and its output in float64. `rows` may be a symbol."""
    rng = np.random.default_rng(seed)
    nodes, weights, name = [], [], "x"
    x = rng.normal(size=(3 if isinstance(rows, str) else rows, sizes[0])).astype(np.float32)
    y = x.astype(np.float64)
    for i, (inner, outer) in enumerate(zip(sizes, sizes[1:])):
        w = (rng.normal(size=(inner, outer)) / np.sqrt(inner)).astype(np.float32)
        b = rng.normal(size=outer).astype(np.float32)
        weights += [numpy_helper.from_array(w, f"w{i}"), numpy_helper.from_array(b, f"b{i}")]
        nodes.append(helper.make_node("Gemm", [name, f"w{i}", f"b{i}"], [f"h{i}"], name=f"layer{i}"))
        y = y @ w + b
        name = f"h{i}"
        if i + 2 < len(sizes):
            nodes.append(helper.make_node("Relu", [name], [f"r{i}"], name=f"relu{i}"))
            y = np.maximum(y, 0)
            name = f"r{i}"
    nodes.append(helper.make_node(last, [name], ["y"], name="last"))
    if last == "Softmax":
        y = np.exp(y - y.max(axis=1, keepdims=True))
        y /= y.sum(axis=1, keepdims=True)
    else:
        y = np.tanh(y)
    values = [[helper.make_tensor_value_info(name, TensorProto.FLOAT, [rows, size])]
              for name, size in (("x", sizes[0]), ("y", sizes[-1]))]
    graph = helper.make_graph(nodes, "mlp", *values, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), x, y


def write_mlp(folder, name="mlp", **options):
    """Writes NAME.onnx and NAME.x.npy into a folder. Returns their paths and the expected output."""
    model, x, y = mlp(**options)
    paths = Path(folder) / f"{name}.onnx", Path(folder) / f"{name}.x.npy"
    onnx.save(model, paths[0])
    np.save(paths[1], x)
    return *paths, y
