# SPDX-License-Identifier: Apache-2.0
"""The networks that are benchmarked: those of networks.py, the onnx package's light ones, and MiniLM as it was trained.

The light models make their weights with ConstantOfShape, every element of a weight the same. Such weights hide errors
that permute elements, so each network also comes with seeded random weights in their place.
"""

import argparse
import math
import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

import networks

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "examples" / "minilm"))

SEED = 20240917
LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
MINILM_SEQUENCE = 128


def uses_of(graph):
    """Returns {value name: [(node, operand index)]}."""
    uses = {}
    for node in graph.node:
        for index, name in enumerate(node.input):
            uses.setdefault(name, []).append((node, index))
    return uses


def random_weight(name, shape, uses, rng):
    """A weight for what it is used as, such that activations keep their scale through the network."""
    node, operand = uses[name][0]
    if node.op_type in ("Conv", "Gemm") and operand == 1:
        # He's initialisation. The fan-in is everything but the output channels; Gemm's weights here are transposed.
        return rng.normal(0.0, math.sqrt(2.0 / math.prod(shape[1:])), shape)
    if node.op_type == "BatchNormalization" and operand in (1, 4):
        # The last scale of a residual branch is small, so that sixteen branches add up to logits which softmax can
        # still tell apart.
        residual = operand == 1 and any(use.op_type in ("Sum", "Add") for use, _ in uses.get(node.output[0], []))
        return rng.uniform(0.1, 0.3, shape) if residual else rng.uniform(0.5, 1.5, shape)
    return rng.normal(0.0, 0.1, shape)


def with_random_weights(model, seed=SEED):
    """A copy of `model` in which every ConstantOfShape is an initialiser of random values."""
    result = onnx.ModelProto()
    result.CopyFrom(model)
    graph = result.graph
    values = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    uses = uses_of(graph)
    rng = np.random.default_rng(seed)
    kept, made, shapes = [], [], set()
    for node in graph.node:
        if node.op_type != "ConstantOfShape":
            kept.append(node)
            continue
        shape = values[node.input[0]].tolist()
        weight = random_weight(node.output[0], shape, uses, rng).astype(np.float32)
        made.append(numpy_helper.from_array(weight, node.output[0]))
        shapes.add(node.input[0])
    if not made:
        raise ValueError(f"{graph.name}: no ConstantOfShape to replace")
    initializers = [tensor for tensor in graph.initializer if tensor.name not in shapes] + made
    names = {tensor.name for tensor in initializers} | shapes
    inputs = [value for value in graph.input if value.name not in names]
    for field, content in (("node", kept), ("initializer", initializers), ("input", inputs)):
        content = [type(entry).FromString(entry.SerializeToString()) for entry in content]
        del getattr(graph, field)[:]
        getattr(graph, field).extend(content)
    # From version 4 of the format on, initialisers need not be inputs, and are constants.
    result.ir_version = max(result.ir_version, 4)
    onnx.checker.check_model(result)
    return result


def image_inputs(model, rng):
    initialized = {tensor.name for tensor in model.graph.initializer}
    feeds = {}
    for value in model.graph.input:
        if value.name not in initialized:
            shape = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
            feeds[value.name] = rng.normal(0.0, 1.0, shape).astype(np.float32)
    return feeds


def build_light(name, random):
    model = onnx.load(LIGHT / f"light_{name}.onnx")
    if random:
        model = with_random_weights(model)
    return model, image_inputs(model, np.random.default_rng(SEED))


def build_minilm():
    import export_onnx
    import weights

    model = export_onnx.export(weights.find_model_folder(), 1, MINILM_SEQUENCE)
    rng = np.random.default_rng(SEED)
    shape = (1, MINILM_SEQUENCE)
    return model, {
        "input_ids": rng.integers(1000, 30000, shape, dtype=np.int64),
        "attention_mask": np.ones(shape, np.int64),
        "token_type_ids": np.zeros(shape, np.int64),
    }


def light(name, random):
    return lambda: build_light(name, random)


DEFAULT = list(networks.BUILDERS)
BUILDERS = networks.BUILDERS | {
    "light-resnet50": light("resnet50", random=False),
    "light-resnet50-random": light("resnet50", random=True),
    "light-squeezenet": light("squeezenet", random=False),
    "light-squeezenet-random": light("squeezenet", random=True),
    "gpt2-grow": networks.gpt2_grow,
    "minilm-open": lambda: networks.minilm(None),
    # As wide as MiniLM, with two of its layers and four times the places.
    "minilm-open-2048": lambda: networks.Encoder("minilm-open-2048", hidden=384, layers=2, heads=12, inner=1536,
                                                 positions=2048).build(None),
    "minilm-trained": build_minilm,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("folder", type=Path, help="where to write NAME.onnx and NAME.npz, the inputs")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which ({', '.join(BUILDERS)}; default: {', '.join(DEFAULT)})")
    arguments = parser.parse_args()
    unknown = set(arguments.names) - set(BUILDERS)
    if unknown:
        parser.error(f"unknown model {', '.join(sorted(unknown))}; there are {', '.join(BUILDERS)}")
    arguments.folder.mkdir(parents=True, exist_ok=True)
    for name in arguments.names or DEFAULT:
        model, inputs = BUILDERS[name]()
        onnx.save(model, arguments.folder / f"{name}.onnx")
        np.savez(arguments.folder / f"{name}.npz", **inputs)
    return 0


if __name__ == "__main__":
    sys.exit(main())
