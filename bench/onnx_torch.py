# SPDX-License-Identifier: Apache-2.0
"""The networks of networks.py as torch modules, so that PyTorch's inductor can compile them: each ONNX node is the torch
call that it was exported from."""

import numpy as np
import onnx
import torch
import torch.nn.functional as F
from onnx import helper, numpy_helper


def pads_of(attributes):
    top, left, bottom, right = attributes.get("pads", [0, 0, 0, 0])
    if (top, left) != (bottom, right):
        raise NotImplementedError("pads that differ from side to side")
    return top, left


def conv(attributes, x, weight, bias=None):
    return F.conv2d(x, weight, bias, attributes["strides"], pads_of(attributes), groups=attributes["group"])


def max_pool(attributes, x):
    return F.max_pool2d(x, attributes["kernel_shape"], attributes["strides"], pads_of(attributes),
                        ceil_mode=bool(attributes.get("ceil_mode", 0)))


def mean_pool(attributes, x):
    return F.avg_pool2d(x, attributes["kernel_shape"], attributes["strides"], pads_of(attributes))


def batch_norm(attributes, x, scale, shift, mean, variance):
    return F.batch_norm(x, mean, variance, scale, shift, training=False, eps=attributes["epsilon"])


def layer_norm(attributes, x, scale, shift):
    return F.layer_norm(x, scale.shape, scale, shift, attributes["epsilon"])


def gemm(attributes, x, weight, bias):
    return F.linear(x, weight, bias)


def gather(attributes, table, index):
    axis = attributes.get("axis", 0)
    return F.embedding(index, table) if axis == 0 else table.select(axis, int(index))


def unsqueeze(attributes, x, axes):
    for axis in sorted(axes.tolist()):
        x = x.unsqueeze(axis)
    return x


OPERATORS = {
    "Add": lambda a, x, y: x + y, "AveragePool": mean_pool, "BatchNormalization": batch_norm,
    "Cast": lambda a, x: x.float(), "Clip": lambda a, x, low, high: torch.clamp(x, float(low), float(high)),
    "Concat": lambda a, *x: torch.cat(x, a["axis"]), "Conv": conv, "Div": lambda a, x, y: x / y,
    "Erf": lambda a, x: torch.erf(x), "Flatten": lambda a, x: torch.flatten(x, 1), "Gather": gather, "Gemm": gemm,
    "GlobalAveragePool": lambda a, x: F.adaptive_avg_pool2d(x, 1), "Identity": lambda a, x: x,
    "LayerNormalization": layer_norm, "MatMul": lambda a, x, y: torch.matmul(x, y), "MaxPool": max_pool,
    "Mul": lambda a, x, y: x * y, "Relu": lambda a, x: F.relu(x), "Reshape": lambda a, x, shape: x.reshape(shape.tolist()),
    "Softmax": lambda a, x: F.softmax(x, a["axis"]), "Sub": lambda a, x, y: x - y, "Tanh": lambda a, x: torch.tanh(x),
    "Transpose": lambda a, x: x.permute(a["perm"]), "Unsqueeze": unsqueeze,
}


class Network(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        graph = model.graph
        self.nodes = [(node.op_type, list(node.input), node.output[0],
                       {entry.name: helper.get_attribute_value(entry) for entry in node.attribute})
                      for node in graph.node]
        unknown = {operator for operator, *_ in self.nodes} - set(OPERATORS)
        if unknown:
            raise NotImplementedError(f"no torch call for {', '.join(sorted(unknown))}")
        self.inputs = [value.name for value in graph.input]
        self.outputs = [value.name for value in graph.output]
        # Shapes, axes and bounds are values of the program, not tensors of the network.
        self.fixed = {}
        for tensor in graph.initializer:
            value = np.array(numpy_helper.to_array(tensor))
            if value.dtype == np.float32 and value.ndim:
                self.register_parameter(tensor.name, torch.nn.Parameter(torch.from_numpy(value), requires_grad=False))
            elif value.dtype == np.float32:
                self.fixed[tensor.name] = float(value)
            else:
                self.fixed[tensor.name] = torch.from_numpy(value)

    def forward(self, *feeds):
        values = self.fixed | dict(self.named_parameters()) | dict(zip(self.inputs, feeds))
        for operator, inputs, output, attributes in self.nodes:
            values[output] = OPERATORS[operator](attributes, *(values[name] for name in inputs))
        return tuple(values[name] for name in self.outputs)


def compile_model(path, threads):
    """Returns a function from feeds (name -> array) to a list of arrays."""
    torch.set_num_threads(threads)
    torch._inductor.config.freezing = True  # weights are constants, packed when the model is compiled
    network = Network(onnx.load(path)).eval()
    compiled = torch.compile(network)

    def run(feeds):
        with torch.no_grad():
            return [value.numpy() for value in compiled(*(torch.from_numpy(feeds[name]) for name in network.inputs))]

    return run
