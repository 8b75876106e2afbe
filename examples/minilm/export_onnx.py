# SPDX-License-Identifier: Apache-2.0
"""Writes all-MiniLM-L6-v2 as an ONNX model, from its safetensors file, with onnx.helper alone.

The graph is the BERT encoder in the operators and the order that transformers' exporter emits, plus the pooling that
makes a sentence encoder of it: the mean of the tokens' vectors under the attention mask, scaled to length one.

  inputs   input_ids, attention_mask, token_type_ids   int64 [batch, sequence]
  outputs  last_hidden_state                           float32 [batch, sequence, hidden]
           sentence_embedding                          float32 [batch, hidden]
"""

import argparse
import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from weights import Config, ModelFilesError, find_model_folder, read_safetensors

OPSET = 17
IR_VERSION = 8


class GraphBuilder:
    """Collects nodes and initialisers; `op` returns the names of a node's results."""

    def __init__(self):
        self.nodes = []
        self.initializers = []
        self.constants = {}

    def op(self, op_type, inputs, name, outputs=None, **attributes):
        outputs = outputs or [f"{name}_output_0"]
        self.nodes.append(helper.make_node(op_type, inputs, outputs, name=name, **attributes))
        return outputs[0]

    def weight(self, name, array):
        self.initializers.append(numpy_helper.from_array(np.asarray(array, order="C"), name))
        return name

    def constant(self, value, dtype):
        """Names an initialiser with this value; equal constants are shared."""
        array = np.asarray(value, dtype)
        key = (array.dtype.str, array.shape, array.tobytes())
        if key not in self.constants:
            self.constants[key] = self.weight(f"constant_{len(self.constants)}", array)
        return self.constants[key]

    def ints(self, *values):
        return self.constant(values, np.int64)

    def float(self, value):
        return self.constant(value, np.float32)


class MiniLM:
    """Builds the network. Dimensions are integers, or names where they are symbolic."""

    def __init__(self, config, tensors, batch, sequence):
        self.config = config
        self.tensors = tensors
        self.batch = batch
        self.sequence = sequence
        self.g = GraphBuilder()
        self.dims = {}

    def dim(self, axis):
        """The run-time size of a symbolic dimension, as a vector of one element, read from input_ids."""
        if axis not in self.dims:
            g = self.g
            shape = g.op("Shape", ["input_ids"], f"/{axis}/Shape")
            index = g.constant(0 if axis == "batch" else 1, np.int64)
            size = g.op("Gather", [shape, index], f"/{axis}/Gather", axis=0)
            self.dims[axis] = g.op("Unsqueeze", [size, g.ints(0)], f"/{axis}/Unsqueeze")
        return self.dims[axis]

    def shape(self, name, *tail):
        """The shape [batch, sequence, *tail] as a tensor: a constant where both are known, else computed."""
        lead = [("batch", self.batch), ("sequence", self.sequence)]
        if all(isinstance(size, int) for _, size in lead):
            return self.g.ints(self.batch, self.sequence, *tail)
        parts = [self.g.ints(size) if isinstance(size, int) else self.dim(axis) for axis, size in lead]
        return self.g.op("Concat", parts + [self.g.ints(*tail)], f"{name}/Concat", axis=0)

    def linear(self, x, name, weights):
        """x @ W^T + b. The weight is stored transposed, as the exporter's constant folding leaves it."""
        g = self.g
        w = g.weight(f"{weights}.weight_t", self.tensors[f"{weights}.weight"].T)
        b = g.weight(f"{weights}.bias", self.tensors[f"{weights}.bias"])
        product = g.op("MatMul", [x, w], f"{name}/MatMul")
        return g.op("Add", [b, product], f"{name}/Add")

    def layer_norm(self, x, name, weights, **kwargs):
        g = self.g
        scale = g.weight(f"{weights}.weight", self.tensors[f"{weights}.weight"])
        bias = g.weight(f"{weights}.bias", self.tensors[f"{weights}.bias"])
        return g.op("LayerNormalization", [x, scale, bias], f"{name}/LayerNormalization", axis=-1,
                    epsilon=self.config.layer_norm_eps, **kwargs)

    def embeddings(self):
        g = self.g
        where = "/embeddings"

        def table(kind):
            name = f"embeddings.{kind}_embeddings.weight"
            return g.weight(name, self.tensors[name])

        words = g.op("Gather", [table("word"), "input_ids"], f"{where}/word_embeddings/Gather")
        types = g.op("Gather", [table("token_type"), "token_type_ids"], f"{where}/token_type_embeddings/Gather")
        if isinstance(self.sequence, int):
            positions = g.weight("embeddings.position_ids", np.arange(self.sequence, dtype=np.int64)[None])
        else:
            every = np.arange(self.config.max_position_embeddings, dtype=np.int64)[None]
            positions = g.op("Slice", [g.weight("embeddings.position_ids", every), g.ints(0), self.dim("sequence"),
                                       g.ints(1)], f"{where}/Slice")
        places = g.op("Gather", [table("position"), positions], f"{where}/position_embeddings/Gather")
        total = g.op("Add", [g.op("Add", [words, types], f"{where}/Add"), places], f"{where}/Add_1")
        return self.layer_norm(total, f"{where}/LayerNorm", "embeddings.LayerNorm")

    def attention_bias(self):
        """0 where a token may be attended to, the lowest float where not: [batch, 1, 1, sequence]."""
        g = self.g
        mask = g.op("Unsqueeze", ["attention_mask", g.ints(1)], "/mask/Unsqueeze")
        mask = g.op("Unsqueeze", [mask, g.ints(2)], "/mask/Unsqueeze_1")
        mask = g.op("Cast", [mask], "/mask/Cast", to=TensorProto.FLOAT)
        hidden = g.op("Sub", [g.float(1.0), mask], "/mask/Sub")
        return g.op("Mul", [hidden, g.float(np.finfo(np.float32).min)], "/mask/Mul")

    def heads(self, x, part, where, weights, perm):
        g = self.g
        name = f"{where}/{part}"
        x = self.linear(x, name, f"{weights}.{part}")
        shape = self.shape(name, self.config.num_attention_heads, self.config.head_size)
        x = g.op("Reshape", [x, shape], f"{name}/Reshape")
        return g.op("Transpose", [x], f"{name}/Transpose", perm=perm)

    def attention(self, x, bias, where, weights):
        g = self.g
        query = self.heads(x, "query", f"{where}/self", f"{weights}.self", [0, 2, 1, 3])
        key = self.heads(x, "key", f"{where}/self", f"{weights}.self", [0, 2, 3, 1])
        value = self.heads(x, "value", f"{where}/self", f"{weights}.self", [0, 2, 1, 3])
        scores = g.op("MatMul", [query, key], f"{where}/self/MatMul")
        scores = g.op("Div", [scores, g.float(np.sqrt(self.config.head_size))], f"{where}/self/Div")
        scores = g.op("Add", [scores, bias], f"{where}/self/Add")
        weight = g.op("Softmax", [scores], f"{where}/self/Softmax", axis=-1)
        context = g.op("MatMul", [weight, value], f"{where}/self/MatMul_1")
        context = g.op("Transpose", [context], f"{where}/self/Transpose", perm=[0, 2, 1, 3])
        context = g.op("Reshape", [context, self.shape(f"{where}/self", self.config.hidden_size)],
                       f"{where}/self/Reshape")
        y = self.linear(context, f"{where}/output/dense", f"{weights}.output.dense")
        y = g.op("Add", [y, x], f"{where}/output/Add")
        return self.layer_norm(y, f"{where}/output/LayerNorm", f"{weights}.output.LayerNorm")

    def gelu(self, x, where):
        """x * (1 + erf(x / sqrt 2)) / 2, spelled out as exporters do below opset 20."""
        g = self.g
        y = g.op("Div", [x, g.float(np.sqrt(2.0))], f"{where}/Div")
        y = g.op("Erf", [y], f"{where}/Erf")
        y = g.op("Add", [y, g.float(1.0)], f"{where}/Add")
        y = g.op("Mul", [x, y], f"{where}/Mul")
        return g.op("Mul", [y, g.float(0.5)], f"{where}/Mul_1")

    def layer(self, x, bias, index, **kwargs):
        g = self.g
        where = f"/encoder/layer.{index}"
        weights = f"encoder.layer.{index}"
        x = self.attention(x, bias, f"{where}/attention", f"{weights}.attention")
        y = self.linear(x, f"{where}/intermediate/dense", f"{weights}.intermediate.dense")
        y = self.gelu(y, f"{where}/intermediate/gelu")
        y = self.linear(y, f"{where}/output/dense", f"{weights}.output.dense")
        y = g.op("Add", [y, x], f"{where}/output/Add")
        return self.layer_norm(y, f"{where}/output/LayerNorm", f"{weights}.output.LayerNorm", **kwargs)

    def pooling(self, hidden):
        """The mean over the tokens that the mask keeps, then the L2 norm, with the limits that torch puts on zeros."""
        g = self.g
        mask = g.op("Unsqueeze", ["attention_mask", g.ints(-1)], "/pooling/Unsqueeze")
        mask = g.op("Expand", [mask, self.shape("/pooling", self.config.hidden_size)], "/pooling/Expand")
        mask = g.op("Cast", [mask], "/pooling/Cast", to=TensorProto.FLOAT)
        total = g.op("ReduceSum", [g.op("Mul", [hidden, mask], "/pooling/Mul"), g.ints(1)], "/pooling/ReduceSum",
                     keepdims=0)
        count = g.op("ReduceSum", [mask, g.ints(1)], "/pooling/ReduceSum_1", keepdims=0)
        count = g.op("Clip", [count, g.float(1e-9)], "/pooling/Clip")
        mean = g.op("Div", [total, count], "/pooling/Div")
        norm = g.op("ReduceL2", [mean], "/normalize/ReduceL2", axes=[1], keepdims=1)
        norm = g.op("Clip", [norm, g.float(1e-12)], "/normalize/Clip")
        g.op("Div", [mean, norm], "/normalize/Div", outputs=["sentence_embedding"])

    def build(self):
        x = self.embeddings()
        bias = self.attention_bias()
        last = self.config.num_hidden_layers - 1
        for index in range(last):
            x = self.layer(x, bias, index)
        x = self.layer(x, bias, last, outputs=["last_hidden_state"])
        self.pooling(x)
        batch, sequence, hidden = self.batch, self.sequence, self.config.hidden_size
        inputs = [helper.make_tensor_value_info(name, TensorProto.INT64, [batch, sequence])
                  for name in ("input_ids", "attention_mask", "token_type_ids")]
        outputs = [
            helper.make_tensor_value_info("last_hidden_state", TensorProto.FLOAT, [batch, sequence, hidden]),
            helper.make_tensor_value_info("sentence_embedding", TensorProto.FLOAT, [batch, hidden]),
        ]
        graph = helper.make_graph(self.g.nodes, "all-MiniLM-L6-v2", inputs, outputs, self.g.initializers)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION,
                                 producer_name="tenon-examples-minilm")


def export(folder, batch="batch", sequence="sequence"):
    """Returns the ModelProto of the MiniLM in `folder`; each dimension is an integer or a symbol's name."""
    config = Config.read(Path(folder) / "config.json")
    if isinstance(sequence, int) and sequence > config.max_position_embeddings:
        raise ModelFilesError(f"a sequence of {sequence} tokens: the model has {config.max_position_embeddings} "
                              "positions")
    model = MiniLM(config, read_safetensors(Path(folder) / "model.safetensors"), batch, sequence).build()
    onnx.checker.check_model(model, full_check=True)
    return model


def write_atomically(model, path):
    """Saves beside `path` and renames, so that an interrupted export leaves no half of a model."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".partial")
    onnx.save(model, partial)
    partial.replace(path)


def dimension(text):
    if text.isidentifier():
        return text
    if text.isdigit() and int(text) > 0:
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is neither a positive number nor a name")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("output", nargs="?", default="minilm.onnx", help="the ONNX file to write (%(default)s)")
    parser.add_argument("--model", metavar="FOLDER", help="folder of the weights (default: the installed package)")
    parser.add_argument("--batch", type=dimension, default="batch", help="a number, or a name for a symbolic dimension")
    parser.add_argument("--sequence", type=dimension, default="sequence", help="the same for the number of tokens")
    arguments = parser.parse_args()
    try:
        model = export(find_model_folder(arguments.model), arguments.batch, arguments.sequence)
    except (ModelFilesError, OSError) as error:
        print(f"export_onnx.py: {error}", file=sys.stderr)
        return 1
    write_atomically(model, arguments.output)
    print(f"{arguments.output}: {len(model.graph.node)} nodes, {Path(arguments.output).stat().st_size / 1e6:.1f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
