# SPDX-License-Identifier: Apache-2.0
"""Models made of n operators in a row, each of which reads the one before it several times, or whose sizes are made of the
sizes before: what is written out for them would double with every step."""

import numpy as np
from onnx import TensorProto, helper, numpy_helper

FLOAT, INT, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
FAMILIES = {}
node, value = helper.make_node, helper.make_tensor_value_info


def family(builder):
    FAMILIES[builder.__name__] = builder
    return builder


def constant(name, array):
    return numpy_helper.from_array(np.asarray(array), name)


def model(nodes, inputs, outputs, constants=(), functions=()):
    graph = helper.make_graph(nodes, "g", inputs, outputs, list(constants))
    opsets = [helper.make_opsetid("", 22)] + ([helper.make_opsetid("f", 1)] if functions else [])
    return helper.make_model(graph, opset_imports=opsets, functions=list(functions), ir_version=10)


def chain(n, step, inputs, shape, constants=()):
    """`step(i)` makes t{i+1} of t{i}."""
    nodes = [made for i in range(n) for made in step(i)]
    return model(nodes, inputs, [value(f"t{n}", inputs[0].type.tensor_type.elem_type, shape)], constants)


# ---- one node of many operands ---------------------------------------------------------------------------------------


def concatenation(sizes):
    names = [f"t{i}" for i in range(len(sizes))]
    inputs = [value(name, FLOAT, (size, 2)) for name, size in zip(names, sizes)]
    return model([node("Concat", names, ["y"], axis=0)], inputs, [value("y", FLOAT, ("m", 2))])


@family
def concatenation_of_many(n):
    return concatenation([3] * (4 * n))


@family
def concatenation_of_open_sizes(n):
    return concatenation([f"n{i}" for i in range(3 * n)])


# ---- values ----------------------------------------------------------------------------------------------------------


@family
def sums_with_itself(n):
    return chain(n, lambda i: [node("Add", [f"t{i}", f"t{i}"], [f"t{i + 1}"])], [value("t0", FLOAT, ("n", 4))], ("n", 4))


@family
def products_of_the_last_two(n):
    nodes = [node("Mul", [f"t{i}", f"t{i + 1}"], [f"t{i + 2}"]) for i in range(n)]
    return model(nodes, [value("t0", FLOAT, ("n",)), value("t1", FLOAT, ("n",))], [value(f"t{n + 1}", FLOAT, ("n",))])


@family
def choices(n):
    def step(i):
        return [node("Less", [f"t{i}", "u"], [f"c{i}"]), node("Neg", [f"t{i}"], [f"m{i}"]),
                node("Where", [f"c{i}", f"t{i}", f"m{i}"], [f"t{i + 1}"])]
    return chain(n, step, [value("t0", FLOAT, ("n",)), value("u", FLOAT, ("n",))], ("n",))


@family
def branches(n):
    def body(op, i, name):
        return helper.make_graph([node(op, [f"t{i}"], [name])], name, [], [value(name, FLOAT, None)])

    def step(i):
        return [node("If", ["c"], [f"t{i + 1}"], then_branch=body("Relu", i, f"a{i}"), else_branch=body("Exp", i, f"b{i}"))]
    return chain(n, step, [value("t0", FLOAT, ("n",)), value("c", BOOL, ())], ("n",))


@family
def sums_with_the_transpose(n):
    def step(i):
        return [node("Transpose", [f"t{i}"], [f"u{i}"], perm=[1, 0]), node("Add", [f"u{i}", f"t{i}"], [f"t{i + 1}"])]
    return chain(n, step, [value("t0", FLOAT, ("n", "n"))], (None, None))


@family
def many_readers(n):
    nodes = [node("Exp", ["x"], ["e"])] + [node("Mul", ["e", f"k{i}"], [f"y{i}"]) for i in range(n)]
    nodes.append(node("Sum", [f"y{i}" for i in range(n)], ["z"]))
    return model(nodes, [value("x", FLOAT, ("n",))], [value("z", FLOAT, ("n",))],
                 [constant(f"k{i}", np.float32(i)) for i in range(n)])


@family
def slices_of_one(n):
    constants = [constant(f"s{i}", [i]) for i in range(n + 1)] + [constant("zero", [0])]
    nodes = [node("Slice", ["x", f"s{i}", f"s{i + 1}", "zero"], [f"y{i}"]) for i in range(n)]
    nodes.append(node("Concat", [f"y{i}" for i in reversed(range(n))], ["z"], axis=0))
    return model(nodes, [value("x", FLOAT, (n, 4))], [value("z", FLOAT, (n, 4))], constants)


# ---- sizes -----------------------------------------------------------------------------------------------------------


@family
def concatenations_with_itself(n):
    return chain(n, lambda i: [node("Concat", [f"t{i}", f"t{i}"], [f"t{i + 1}"], axis=0)],
                 [value("t0", FLOAT, ("n", 4))], (None, 4))


@family
def concatenation_of_one(n):
    return model([node("Concat", ["x"] * n, ["y"], axis=0)], [value("x", FLOAT, ("n", 4))], [value("y", FLOAT, (None, 4))])


@family
def slices(n):
    constants = [constant("one", [1]), constant("end", [2**62]), constant("zero", [0])]
    return chain(n, lambda i: [node("Slice", [f"t{i}", "one", "end", "zero"], [f"t{i + 1}"])],
                 [value("t0", FLOAT, ("n", 4))], (None, 4), constants)


@family
def slices_to_data(n):
    inputs = [value("t0", FLOAT, ("n", 4))] + [value(f"e{i}", INT, (1,)) for i in range(n)]
    return chain(n, lambda i: [node("Slice", [f"t{i}", "zero", f"e{i}", "zero"], [f"t{i + 1}"])], inputs, (None, 4),
                 [constant("zero", [0])])


@family
def slices_to_data_joined(n):
    inputs = [value("t0", FLOAT, ("n", 4))] + [value(f"e{i}", INT, (1,)) for i in range(n)]
    nodes = [node("Slice", ["t0", "zero", f"e{i}", "zero"], [f"y{i}"]) for i in range(n)]
    nodes.append(node("Concat", [f"y{i}" for i in range(n)], ["z"], axis=0))
    return model(nodes, inputs, [value("z", FLOAT, (None, 4))], [constant("zero", [0])])


@family
def slices_put_back(n):
    def step(i):
        return [node("Slice", [f"t{i}", "zero", "one", "zero"], [f"a{i}"]),
                node("Concat", [f"t{i}", f"a{i}"], [f"t{i + 1}"], axis=0)]
    return chain(n, step, [value("t0", FLOAT, ("n", 4))], (None, 4), [constant("zero", [0]), constant("one", [1])])


def arithmetic(n, step):
    """Four sizes and what `step` makes of each and the next."""
    nodes = [node("Shape", ["t0"], ["e0"])]
    for i in range(n):
        nodes += [node("Gather", [f"e{i}", "next"], [f"r{i}"])] + step(i)
    nodes.append(node("Expand", ["zero", f"e{n}"], ["y"]))
    return model(nodes, [value("t0", FLOAT, ("a", "b", "c", "d"))], [value("y", FLOAT, (None,) * 4)],
                 [constant("zero", np.float32(0)), constant("next", [1, 2, 3, 0]), constant("seven", [7])])


@family
def sizes_multiplied(n):
    return arithmetic(n, lambda i: [node("Mul", [f"e{i}", f"r{i}"], [f"m{i}"]), node("Mod", [f"m{i}", "seven"], [f"e{i + 1}"])])


@family
def greatest_sizes(n):
    return arithmetic(n, lambda i: [node("Max", [f"e{i}", f"r{i}"], [f"m{i}"]), node("Add", [f"m{i}", f"e{i}"], [f"s{i}"]),
                                    node("Div", [f"s{i}", "seven"], [f"e{i + 1}"])])


@family
def sizes_chosen(n):
    return arithmetic(n, lambda i: [node("Less", [f"e{i}", f"r{i}"], [f"l{i}"]), node("Add", [f"e{i}", f"r{i}"], [f"s{i}"]),
                                    node("Mod", [f"s{i}", "seven"], [f"m{i}"]),
                                    node("Where", [f"l{i}", f"e{i}", f"m{i}"], [f"e{i + 1}"])])


# ---- functions -------------------------------------------------------------------------------------------------------


def functions_of_functions(n):
    """Two calls in each of n functions: 2^n operators, which is what the importer counts."""
    opsets = [helper.make_opsetid("", 22), helper.make_opsetid("f", 1)]
    made = [helper.make_function("f", "f0", ["x"], ["y"], [node("Exp", ["x"], ["y"])], opsets)]
    for i in range(n):
        calls = [node(f"f{i}", ["x"], ["a"], domain="f"), node(f"f{i}", ["a"], ["y"], domain="f")]
        made.append(helper.make_function("f", f"f{i + 1}", ["x"], ["y"], calls, opsets))
    return model([node(f"f{n}", ["x"], ["y"], domain="f")], [value("x", FLOAT, ("n",))], [value("y", FLOAT, ("n",))], (), made)
