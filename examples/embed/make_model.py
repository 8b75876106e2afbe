#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes model.onnx, which stands beside this file, anew: y = relu(x * w) for any number of rows."""

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

weights = np.array([[1, -1], [2, -2], [3, -3]], np.float32)
graph = helper.make_graph(
    [helper.make_node("MatMul", ["x", "w"], ["product"]), helper.make_node("Relu", ["product"], ["y"])], "embed",
    [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows", 3])],
    [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["rows", 2])], [numpy_helper.from_array(weights, "w")])
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
onnx.save(model, Path(__file__).with_name("model.onnx"))
