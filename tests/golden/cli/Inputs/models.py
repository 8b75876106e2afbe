"""Writes the small models of the command line's tests: models.py NAME FILE."""

import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def save(path, nodes, inputs, outputs, initializers=(), opset=17, **extra):
    graph = helper.make_graph(nodes, "test", inputs, outputs, list(initializers))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8, **extra)
    onnx.save(model, path)


def value(name, shape, dtype=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, dtype, shape)


def mlp(path, rows=2):
    weights = np.arange(12, dtype=np.float32).reshape(3, 4) - 6
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"], name="product"), helper.make_node("Relu", ["h"], ["y"], name="relu")]
    save(path, nodes, [value("x", [rows, 3])], [value("y", [rows, 4])], [numpy_helper.from_array(weights, "w")])


def softmaxes(path, *axes):
    names = [*(f"h{axis}" for axis in axes[1:]), "y"]
    nodes = [helper.make_node("Softmax", [before], [name], axis=int(axis))
             for before, name, axis in zip(["x", *names], names, axes)]
    save(path, nodes, [value("x", [2048, 1024])], [value("y", [2048, 1024])])


def constant(name, number):
    return numpy_helper.from_array(np.array(number, np.int64 if isinstance(number, list) else np.float32), name)


def spelt(path):
    """Softmax, layer normalisation and GELU in the operators that they are made of, one behind the other."""
    nodes = [helper.make_node(*args, **attributes) for args, attributes in (
        (("ReduceMax", ["x"], ["most"], "most"), {"axes": [-1]}), (("Sub", ["x", "most"], ["shifted"], "shifted"), {}),
        (("Exp", ["shifted"], ["e"], "e"), {}), (("ReduceSum", ["e", "last"], ["sum"], "sum"), {}),
        (("Div", ["e", "sum"], ["weights"], "weights"), {}), (("ReduceMean", ["weights"], ["mean"], "mean"), {"axes": [-1]}),
        (("Sub", ["weights", "mean"], ["centered"], "centered"), {}), (("Pow", ["centered", "two"], ["squares"], "squares"), {}),
        (("ReduceMean", ["squares"], ["variance"], "variance"), {"axes": [-1]}),
        (("Add", ["variance", "epsilon"], ["above"], "above"), {}), (("Sqrt", ["above"], ["deviation"], "deviation"), {}),
        (("Div", ["centered", "deviation"], ["norm"], "norm"), {}), (("Div", ["norm", "root"], ["argument"], "argument"), {}),
        (("Erf", ["argument"], ["erf"], "erf"), {}), (("Add", ["erf", "one"], ["more"], "more"), {}),
        (("Mul", ["norm", "more"], ["twice"], "twice"), {}), (("Mul", ["twice", "half"], ["y"], "gelu"), {}))]
    save(path, nodes, [value("x", [4, 8])], [value("y", [4, 8])],
         [constant("last", [-1]), constant("two", 2), constant("epsilon", 1e-5), constant("root", 2**0.5), constant("one", 1),
          constant("half", 0.5)])


def symbolic(path):
    mlp(path, "rows")


def unknown(path):
    nodes = [helper.make_node("Frobnicate", ["x"], ["h"], name="first"), helper.make_node("Gargle", ["h"], ["y"])]
    save(path, nodes, [value("x", [2])], [value("y", [2])])


def mismatch(path):
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"], name="product")]
    weights = numpy_helper.from_array(np.ones((5, 4), np.float32), "w")
    save(path, nodes, [value("x", [2, 3])], [value("y", [2, 4])], [weights])


def dangling(path):
    save(path, [helper.make_node("Relu", ["nowhere"], ["y"], name="relu")], [value("x", [2])], [value("y", [2])])


def gather(path):
    nodes = [helper.make_node("Gather", ["x", "i"], ["y"], name="pick")]
    save(path, nodes, [value("x", [3, 2]), value("i", [2], TensorProto.INT64)], [value("y", [2, 2])])


def scan_direction(path):
    body = helper.make_graph([helper.make_node("Add", ["s", "x"], ["t"]), helper.make_node("Identity", ["t"], ["y"])], "body",
                             [value("s", [2]), value("x", [2])], [value("t", [2]), value("y", [2])])
    scan = helper.make_node("Scan", ["a", "b"], ["c", "d"], name="scan", body=body, num_scan_inputs=1, scan_input_directions=[2])
    save(path, [scan], [value("a", [2]), value("b", [3, 2])], [value("c", [2]), value("d", [3, 2])])


def loop_without_results(path):
    body = helper.make_graph([], "body", [value("i", [], TensorProto.INT64), value("go", [], TensorProto.BOOL)], [])
    nodes = [helper.make_node("Loop", ["n", "go"], ["y"], name="loop", body=body)]
    save(path, nodes, [value("n", [], TensorProto.INT64), value("go", [], TensorProto.BOOL)], [value("y", [2])])


def declarations(path):
    with open(path, "w") as file:
        file.write("kernel gemm(A: f32[M, K], B: f32[K, N]) -> C: f32[M, N] { C[i, j] = sum(k: K) A[i, k] * B[k, j] }\n"
                   "kernel twice(X: f64[M]) -> Y: f64[M] { Y[i] = X[i] + X[i] }\n")


def odd_names(path):
    nodes = [helper.make_node("Relu", ["x"], ["a/b:0 c"], name="relu")]
    save(path, nodes, [value("x", [2])], [value("a/b:0 c", [2])])


def same_file(path):
    nodes = [helper.make_node("Relu", ["x"], ["a/b"]), helper.make_node("Neg", ["x"], ["a b"])]
    save(path, nodes, [value("x", [2])], [value("a/b", [2]), value("a b", [2])])


def reshape_at_run_time(path):
    """The shape is the result of a kernel, so it is known in the middle of a run only."""
    nodes = [
        helper.make_node("Add", ["s", "s"], ["twice"]),
        helper.make_node("Reshape", ["x", "twice"], ["r"], name="reshape"),
        helper.make_node("Relu", ["r"], ["y"]),
    ]
    save(path, nodes, [value("x", [2, 6]), value("s", [2], TensorProto.INT64)], [value("y", None)])


def accented(path):
    """An output's name of characters that UTF-8 writes in two, three and four bytes."""
    node = helper.make_node("Relu", ["x"], ["\u00e9t\u00e9-\u4e2d\U0001f600.z"])
    save(path, [node], [value("x", [2])], [value(node.output[0], [2])])


def two_symbols(path):
    """The same work on rows of two numbers."""
    nodes = [helper.make_node("Tanh", [x], [y]) for x, y in (("x", "y"), ("u", "v"))]
    save(path, nodes, [value("x", ["many", 3]), value("u", ["few", 3])], [value("y", None), value("v", None)])


def twice(path):
    """One value listed as output twice, and once more under another name."""
    nodes = [helper.make_node("Relu", ["x"], ["y"]), helper.make_node("Identity", ["y"], ["z"])]
    save(path, nodes, [value("x", [2, 3])], [value(name, [2, 3]) for name in ("y", "y", "z")])


def huge_reductions(path):
    """Over 2^40 equal elements, which nobody can visit."""
    shape = helper.make_tensor("shape", TensorProto.INT64, [2], [1 << 20, 1 << 20])
    nodes = [helper.make_node("ConstantOfShape", ["shape"], ["c"], value=helper.make_tensor("v", TensorProto.FLOAT, [1], [0.5]))]
    for kind in ("Sum", "Max"):
        nodes.append(helper.make_node(f"Reduce{kind}", ["c"], [kind], keepdims=0))
        nodes.append(helper.make_node("Add", ["x", kind], [f"y{kind}"]))
    save(path, nodes, [value("x", [2])], [value("ySum", [2]), value("yMax", [2])], [shape], opset=18)


def expanded(path):
    """What is expanded to a computed shape meets a constant one."""
    nodes = [helper.make_node("Expand", ["x", "s"], ["e"]), helper.make_node("Add", ["e", "c"], ["y"], name="sum")]
    constant = numpy_helper.from_array(np.arange(8, dtype=np.float32).reshape(4, 2), "c")
    save(path, nodes, [value("x", ["rows", 2]), value("s", [2], TensorProto.INT64)], [value("y", None)], [constant])


def pooled(path):
    node = helper.make_node("MaxPool", ["x"], ["y"], name="pool", kernel_shape=[3])
    save(path, [node], [value("x", [1, 1, "n"])], [value("y", None)])


def range_of_inputs(path):
    ends = [value(name, [], TensorProto.INT64) for name in ("start", "limit", "delta")]
    save(path, [helper.make_node("Range", ["start", "limit", "delta"], ["y"])], ends, [value("y", [None], TensorProto.INT64)])


def scalar(path, number):
    np.save(path, np.array(int(number), np.int64))


def pooled_samples(path):
    node = helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[2, 2])
    save(path, [node], [value("x", ["n", 1, 3, 3])], [value("y", None)])


def many(path, parts="100"):
    """One operator with more operands than most."""
    names = [f"o{i}" for i in range(int(parts))]
    nodes = [
        helper.make_node("Split", ["x"], names, axis=0, num_outputs=len(names)),
        helper.make_node("Relu", ["o0"], ["first"]),
        helper.make_node("Concat", ["first"] + names[:0:-1], ["y"], axis=0),
    ]
    save(path, nodes, [value("x", [len(names)])], [value("y", [len(names)])], opset=18)


def chained(path, count):
    """Softmaxes over turning axes, which are a kernel each."""
    names = ["x", *(f"v{i}" for i in range(int(count) - 1)), "y"]
    nodes = [helper.make_node("Softmax", [names[i]], [names[i + 1]], axis=i % 2) for i in range(int(count))]
    save(path, nodes, [value("x", [8, 8])], [value("y", [8, 8])])


def spread(path, count):
    """One value plus many constants, each by itself, and the sum of these."""
    terms = [f"v{i}" for i in range(int(count))]
    nodes = [helper.make_node("Add", ["x", f"c{i}"], [name]) for i, name in enumerate(terms)]
    constants = {f"c{i}": np.full(8, i, np.float32) for i in range(int(count))}
    while len(terms) > 1:
        groups = [terms[i:i + 16] for i in range(0, len(terms), 16)]
        terms = [f"s{len(nodes) + i}" for i in range(len(groups))]
        nodes += [helper.make_node("Sum", group, [name]) for group, name in zip(groups, terms)]
    initializers = [numpy_helper.from_array(data, name) for name, data in constants.items()]
    save(path, nodes, [value("x", [4, 8])], [value(terms[0], [4, 8])], initializers)


def counting(path, count):
    np.save(path, np.arange(1, int(count) + 1, dtype=np.float32))


def array(path, *numbers):
    np.save(path, np.array(numbers, np.float32).reshape(2, -1))


def indices(path, *numbers):
    np.save(path, np.array(numbers, np.int64))


def archive(path):
    np.savez_compressed(path, x=np.ones((2, 3), np.float32))


def truncate(path, source, size):
    with open(source, "rb") as file, open(path, "wb") as out:
        out.write(file.read()[: int(size)])


def data_set(folder, scale="1"):
    import os

    os.makedirs(folder, exist_ok=True)
    x = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)
    y = np.maximum(x @ (np.arange(12, dtype=np.float32).reshape(3, 4) - 6), 0) * np.float32(scale)
    for name, tensor in (("input_0", x), ("output_0", y)):
        with open(f"{folder}/{name}.pb", "wb") as file:
            file.write(numpy_helper.from_array(tensor, name).SerializeToString())


def integers(path):
    """The ends of 64 bits, whose digits a double has not."""
    ends = [numpy_helper.from_array(np.array([np.iinfo(t).min, np.iinfo(t).max - 1, np.iinfo(t).max], t), "ends_" + t)
            for t in ("int64", "uint64")]
    nodes = [helper.make_node("Mul", [e.name, "one_" + e.name], ["y_" + e.name]) for e in ends]
    save(path, nodes, [value("one_" + e.name, [1], e.data_type) for e in ends],
         [value("y_" + e.name, [3], e.data_type) for e in ends], ends)


def controls(path):
    """A name that would clear the screen, were it printed as it is."""
    save(path, [helper.make_node("Relu", ["x"], ["a\\b\x1b[2J\u009b2J\n\"c"])], [value("x", [2])],
         [value("a\\b\x1b[2J\u009b2J\n\"c", [2])])


def controlled_input(path):
    save(path, [helper.make_node("Relu", ["n\x1b[2J\u009b"], ["y"])], [value("x", [2])], [value("y", [2])])


def one(path, kind):
    np.save(path, np.ones(1, kind))


def two_outputs(path):
    save(path, [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Relu", ["h"], ["y"]),
                helper.make_node("Neg", ["y"], ["z"])], [value("x", [2, 3])], [value("y", [2, 4]), value("z", [2, 4])],
         [numpy_helper.from_array(np.arange(12, dtype=np.float32).reshape(3, 4) - 6, "w")])


def of_strings(path):
    texts = [value(name, [2], TensorProto.STRING) for name in ("a", "b", "ab")]
    save(path, [helper.make_node("StringConcat", ["a", "b"], ["ab"])], texts[:2], texts[2:], opset=20)


def of_lists(path):
    """Kernels over what a sequence, an optional tensor and an optional sequence hold."""
    sequence = helper.make_sequence_type_proto(helper.make_tensor_type_proto(TensorProto.FLOAT, [None, None]))
    optional = helper.make_optional_type_proto(helper.make_tensor_type_proto(TensorProto.FLOAT, [None, None]))
    inputs = [helper.make_value_info(name, kind) for name, kind in
              (("s", sequence), ("o", optional), ("os", helper.make_optional_type_proto(sequence)))]
    nodes = [helper.make_node("ConcatFromSequence", ["s"], ["all"], axis=0), helper.make_node("Relu", ["all"], ["a"]),
             helper.make_node("OptionalGetElement", ["o"], ["one"]), helper.make_node("MatMul", ["a", "one"], ["b"]),
             helper.make_node("OptionalGetElement", ["os"], ["more"]),
             helper.make_node("ConcatFromSequence", ["more"], ["c"], axis=1),
             helper.make_node("Softmax", ["c"], ["z"])]
    save(path, nodes, inputs, [value("b", [None, None]), value("z", [None, None])], opset=18)


def lists(folder):
    import os

    def sequence(name):
        return helper.make_tensor_sequence_value_info(name, TensorProto.FLOAT, [None])

    nodes = [helper.make_node("SequenceInsert", ["s", "x"], ["both"]), helper.make_node("SequenceEmpty", [], ["none"])]
    os.makedirs(folder, exist_ok=True)
    save(f"{folder}/model.onnx", nodes, [sequence("s"), value("x", [2])], [sequence("both"), sequence("none")])
    one, two = np.array([1, 2, 3], np.float32), np.array([4, 5], np.float32)
    for name, last, none in (("right", two, []), ("wrong", two + 1, [one])):
        os.makedirs(f"{folder}/{name}", exist_ok=True)
        values = {"input_0": [one], "input_1": two, "output_0": [one, last], "output_1": none}
        for file_name, item in values.items():
            proto = numpy_helper.from_list(item, file_name, dtype=1) if isinstance(item, list) else numpy_helper.from_array(item)
            with open(f"{folder}/{name}/{file_name}.pb", "wb") as file:
                file.write(proto.SerializeToString())


def show(path):
    print(np.load(path).tolist())


globals()[sys.argv[1]](sys.argv[2], *[float(a) if a.lstrip("-").replace(".", "", 1).isdigit() and sys.argv[1] == "array" else a for a in sys.argv[3:]])
