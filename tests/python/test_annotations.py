#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Where values of ONNX models are said to live, by name, in Python (tenon.on_device) and on the command line
(--on-device): what names mean in branches, loops and functions, what is refused, and that results stay the same."""

import dataclasses
import os
import platform
import re
import subprocess
import tempfile
import unittest
import warnings
from pathlib import Path

import numpy as np
from onnx import TensorProto, helper, numpy_helper

import tenon
from product import graph, info, node

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
LEAST = platform.machine().replace("_", "-")
TARGETS = f"{LEAST}; island -mcpu={LEAST}"
ISLAND = 12  # DLPack's kDLExtDev
X = np.array([1.5, -2, 3, -4], np.float32)


def same(actual, wanted):
    """What was one kernel and is two may add in another order."""
    np.testing.assert_allclose(actual, wanted, rtol=1e-6)


def constant(name, value):
    return numpy_helper.from_array(np.asarray(value), name)


def model_of(nodes, inputs, outputs, initializers=(), functions=()):
    sets = [helper.make_opsetid("", 20), helper.make_opsetid("own", 1)]
    return helper.make_model(graph(nodes, inputs, outputs, initializers), opset_imports=sets, ir_version=9, functions=list(functions))


def chain():
    return model_of([node("Abs", ["x"], ["a"], name="one"), node("Neg", ["a"], ["b"], name="two"), node("Exp", ["b"], ["y"], name="three")],
                    [info("x", FLOAT, [4])], [info("y", FLOAT, [4])])


def compiled(model, *said, **options):
    return tenon.compile(model, target=TARGETS, cache=False, threads=1, measure=False, annotations=said, **options)


def plan(model, *said):
    """Where nodes are, by name, and the inputs: [(device, operator, name, rule)]."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        path.write_bytes(model.SerializeToString())
        words = [word for one in said for word in ("--on-device", one)]
        told = subprocess.run([os.environ["TENON_CLI"], "compile", path, "-o", Path(folder) / "m.tnx", "--target", TARGETS, "--threads", "1",
                               "--no-measure", "--explain-devices", *words], capture_output=True, text=True, check=True).stderr
    lines = re.findall(r"^ +(\w+:\d+) +(\w+) +(\S+)(?:  \((.*)\))?$", told, re.MULTILINE)
    return [(device, operator, name, rule.split("; ")[0]) for device, operator, name, rule in lines]


def places(model, *said):
    """{name: device} without copies."""
    return {name: device for device, operator, name, rule in plan(model, *said) if operator != "device_copy"}


class Annotations(unittest.TestCase):
    def test_the_three_ways_to_say_it(self):
        plain = compiled(chain())(X)
        cases = (("b=island:0", {"constrain_body": True}, ["island:0", "island:0", "cpu:0"]),
                 ("b=island:0,result", {"constrain_body": False, "constrain_result": True}, ["island:0", "island:0", "island:0"]),
                 ("b=island:0,body,result", {"constrain_result": True}, ["island:0", "island:0", "island:0"]))
        for text, sides, want in cases:
            found = places(chain(), text)
            self.assertEqual([found[name] for name in ("one", "two", "three")], want)
            same(compiled(chain(), tenon.on_device("b", "island:0", **sides))(X), plain)
        rules = {name: rule for device, operator, name, rule in plan(chain(), "b=island:0") if operator != "device_copy"}
        self.assertEqual(rules["two"], 'the annotation of "b"')
        said = tenon.on_device("b", "island:0")
        self.assertEqual((said.value, said.device, said.constrain_body, said.constrain_result), ("b", "island:0", True, False))
        self.assertRaises(dataclasses.FrozenInstanceError, setattr, said, "device", "cpu:0")

    def test_inputs_and_outputs(self):
        model = compiled(chain(), tenon.on_device("x", "island:0", constrain_result=True))
        self.assertEqual(model.inputs[0].device, (ISLAND, 0))
        same(model(X), compiled(chain())(X))
        for sides in ({}, {"constrain_result": True}, {"constrain_body": False, "constrain_result": True}):
            model = compiled(chain(), tenon.on_device("y", "island:0", **sides))
            self.assertEqual(model.outputs[0].device, (ISLAND, 0))
            same(model(X), compiled(chain())(X))

    def test_initializers(self):
        w = np.arange(12, dtype=np.float32).reshape(4, 3)
        product = model_of([node("MatMul", ["x", "w"], ["p"], name="product"), node("Abs", ["p"], ["y"], name="last")],
                           [info("x", FLOAT, [2, 4])], [info("y", FLOAT, [2, 3])], [constant("w", w)])
        x = np.arange(8, dtype=np.float32).reshape(2, 4)
        for sides in ({}, {"constrain_result": True}, {"constrain_body": False, "constrain_result": True}):
            np.testing.assert_allclose(compiled(product, tenon.on_device("w", "island:0", **sides))(x), x @ w, rtol=1e-6)
        # Constants are stored wherever they are read: what is read there is read by an operator that is there.
        self.assertEqual(places(product, "w=island:0,result")["product"], "island:0")

    def test_branches_whose_values_have_one_name(self):
        then = graph([node("Neg", ["x"], ["t"], name="left"), node("Abs", ["t"], ["p"])], [], [info("p", FLOAT, [4])])
        other = graph([node("Exp", ["x"], ["t"], name="right"), node("Sqrt", ["t"], ["q"])], [], [info("q", FLOAT, [4])])
        model = model_of([node("If", ["flag"], ["y"], then_branch=then, else_branch=other)],
                         [info("x", FLOAT, [4]), info("flag", BOOL, [])], [info("y", FLOAT, [4])])
        found = places(model, "t=island:0,body,result")
        self.assertEqual((found["left"], found["right"]), ("island:0", "island:0"))
        split = compiled(model, tenon.on_device("t", "island:0"))
        for flag in (True, False):
            same(split(X, np.asarray(flag)), compiled(model)(X, np.asarray(flag)))

    def test_the_state_of_loops(self):
        body = graph([node("Identity", ["cond"], ["cond_out"]), node("Mul", ["s", "w"], ["n"], name="step")],
                     [info("i", INT64, []), info("cond", BOOL, []), info("s", FLOAT, [4])],
                     [info("cond_out", BOOL, []), info("n", FLOAT, [4])])
        nodes = [node("Loop", ["trips", "", "x"], ["last"], body=body), node("Neg", ["last"], ["y"], name="behind")]
        w = constant("w", np.full(4, 1.25, np.float32))
        runs = model_of(nodes, [info("trips", INT64, []), info("x", FLOAT, [4])], [info("y", FLOAT, [4])], [w])
        unrolled = model_of(nodes, [info("x", FLOAT, [4])], [info("y", FLOAT, [4])], [w, constant("trips", np.int64(3))])
        for name in ("s", "n"):
            self.assertEqual(places(runs, f"{name}=island:0,body,result")["step"], "island:0")
            steps = [device for device, operator, at, rule in plan(unrolled, f"{name}=island:0,body,result") if at == "step"]
            self.assertEqual(set(steps), {"island:0"})
            said = tenon.on_device(name, "island:0")
            same(compiled(runs, said)(np.int64(3), X), compiled(runs)(np.int64(3), X))
            same(compiled(unrolled, said)(X), compiled(unrolled)(X))

    def test_one_of_several_results(self):
        model = model_of([node("TopK", ["x", "k"], ["v", "i"], name="best"), node("Abs", ["v"], ["y"], name="behind")],
                         [info("x", FLOAT, [4])], [info("y", FLOAT, [2])], [constant("k", np.array([2]))])
        self.assertEqual(places(model, "i=island:0")["best"], "island:0")  # which nothing reads
        same(compiled(model, tenon.on_device("v", "island:0"))(X), [3, 1.5])

    def test_what_the_importer_makes_one(self):
        model = model_of([node("Neg", ["x"], ["a"], name="one"), node("Identity", ["a"], ["b"]), node("Abs", ["b"], ["y"])],
                         [info("x", FLOAT, [4])], [info("y", FLOAT, [4])])
        self.assertEqual(places(model, "b=island:0")["one"], "island:0")
        with self.assertRaisesRegex(tenon.Error, 'annotations contradict: "a" is on island:0, and "b" on cpu:0, and they are one value'):
            compiled(model, tenon.on_device("a", "island:0"), tenon.on_device("b", "cpu:0"))
        # Different sides are no contradiction: there is a copy between them.
        both = compiled(model, tenon.on_device("a", "island:0"), tenon.on_device("b", "cpu:0", constrain_body=False, constrain_result=True))
        same(both(X), abs(X))

    def test_a_softmax_that_is_spelled_out(self):
        model = model_of([node("ReduceMax", ["x"], ["m"], keepdims=1), node("Sub", ["x", "m"], ["d"]), node("Exp", ["d"], ["e"], name="power"),
                          node("ReduceSum", ["e"], ["s"], name="sum", keepdims=1), node("Div", ["e", "s"], ["y"], name="share")],
                         [info("x", FLOAT, [2, 8])], [info("y", FLOAT, [2, 8])])
        x = np.random.default_rng(1).normal(size=(2, 8)).astype(np.float32)
        for name in ("m", "d", "e", "s", "y"):
            np.testing.assert_allclose(compiled(model, tenon.on_device(name, "island:0"))(x), compiled(model)(x), rtol=1e-5)
        self.assertEqual(places(model, "e=island:0", "y=cpu:0")["power"], "island:0")

    def test_what_has_no_effect_is_told(self):
        model = model_of([node("Reshape", ["x", "shape"], ["y"])], [info("x", FLOAT, [4])], [info("y", FLOAT, [2, 2])],
                         [constant("shape", np.array([2, 2]))])
        with self.assertWarnsRegex(RuntimeWarning, 'the annotation of "shape" has no effect: when the model has been read, nothing of'):
            compiled(model, tenon.on_device("shape", "island:0"))

    def test_names_that_there_are_not(self):
        function = helper.make_function("own", "F", ["p"], ["r"], [node("Abs", ["p"], ["hidden"]), node("Neg", ["hidden"], ["r"])],
                                        [helper.make_opsetid("", 20)])
        model = model_of([node("F", ["x"], ["y"], domain="own")], [info("x", FLOAT, [4])], [info("y", FLOAT, [4])], functions=[function])
        with self.assertRaisesRegex(tenon.Error, 'the annotation of "hidden": no value has this name: names are those of inputs,'):
            compiled(model, tenon.on_device("hidden", "island:0"))
        path = model_of([node("Abs", ["x"], ["/encoder/output"])], [info("x", FLOAT, [4])], [info("/encoder/output", FLOAT, [4])])
        for wrong in ("/encoder/outptu", "encoder"):
            with self.assertRaisesRegex(tenon.Error, f'the annotation of "{wrong}": no value has this name; did you mean "/encoder/output"') as error:
                compiled(path, tenon.on_device(wrong, "island:0"))
            self.assertEqual(error.exception.code, "not found")

    def test_lists_are_on_the_host(self):
        x = [info("x", FLOAT, [4])]
        known = model_of([node("SequenceConstruct", ["x", "x"], ["s"]), node("SequenceAt", ["s", "at"], ["y"])], x,
                         [info("y", FLOAT, [4])], [constant("at", np.int64(0))])
        given = model_of([node("SequenceAt", ["s", "at"], ["y"])],
                         [helper.make_tensor_sequence_value_info("s", FLOAT, [4]), info("at", INT64, [])], [info("y", FLOAT, [4])])
        for model in (known, given):
            with self.assertRaisesRegex(tenon.Error, 'the annotation of "s": it is a sequence, and on island:0: lists and strings are on the host, cpu:0'):
                compiled(model, tenon.on_device("s", "island:0"))
            compiled(model, tenon.on_device("s", "cpu"))
        kind = helper.make_optional_type_proto(helper.make_tensor_type_proto(FLOAT, [4]))
        optional = model_of([node("OptionalHasElement", ["o"], ["y"])], [helper.make_value_info("o", kind)], [info("y", BOOL, [])])
        with self.assertRaisesRegex(tenon.Error, 'the annotation of "o": it is an optional value, and on island:0'):
            compiled(optional, tenon.on_device("o", "island:0"))

    def test_a_pattern_that_contradicts(self):
        with self.assertRaisesRegex(tenon.Error, r'node "two" \(Neg, opset 20\): devices contradict: "') as error:
            compiled(chain(), tenon.on_device("b", "island:0"), place={"two": "cpu"})
        for words in ('(the annotation of "b")', '(placed by "two=cpu")'):
            self.assertIn(words, str(error.exception))
        # What is read may be elsewhere.
        compiled(chain(), tenon.on_device("b", "island:0", constrain_body=False, constrain_result=True), place={"two": "cpu"})

    def test_the_cache_knows_annotations(self):
        with tempfile.TemporaryDirectory() as folder:
            for said, device in (([], 1), ([tenon.on_device("x", "island:0", constrain_result=True)], ISLAND), ([], 1)):
                model = tenon.compile(chain(), target=TARGETS, threads=1, measure=False, cache_directory=folder, annotations=said)
                self.assertEqual(model.inputs[0].device[0], device)

    def test_misuse(self):
        with self.assertRaisesRegex(ValueError, "on_device: nothing is said of 'b': constrain_body, constrain_result or both are True"):
            tenon.on_device("b", "island:0", constrain_body=False)
        with self.assertRaisesRegex(TypeError, "on_device: the device is a name, not 0"):
            tenon.on_device("b", 0)
        for wrong in ("b=island:0", {"b": "island:0"}, tenon.on_device("b", "island:0"), [("b", "island:0")]):
            with self.assertRaisesRegex(TypeError, r"annotations is a list of what on_device\(\) makes, not"):
                tenon.compile(chain(), annotations=wrong)
        with self.assertRaisesRegex(tenon.Error, 'the annotation of "b": there is no device "cuda:0" among the targets: there are cpu:0'):
            compiled(chain(), tenon.on_device("b", "cuda:0"))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            same(tenon.compile(chain(), cache=False, annotations=[tenon.on_device("b", "cpu")])(X), np.exp(-abs(X)))



class VanishedTest(unittest.TestCase):
    """Names of nodes without operators after import, or of a loop."""

    def told(self, model, *place):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            tenon.compile(model.SerializeToString(), target=TARGETS, cache=False, threads=1, measure=False, place=list(place))
        return [line for one in caught for line in str(one.message).splitlines()]

    def test_what_became_of_a_node(self):
        model = model_of(
            [node("Relu", ["x"], ["a"], name="relu"), node("Identity", ["a"], ["i"], name="same"),
             node("Identity", ["x"], ["j"], name="input"), node("Add", ["k", "k"], ["two"], name="sum"),
             node("SequenceConstruct", ["i", "j"], ["l"], name="list"), node("SequenceAt", ["l", "zero"], ["t"], name="at"),
             node("SequenceLength", ["l"], ["n"], name="length"), node("Shape", ["t"], ["s"], name="shape"),
             node("Exp", ["t"], ["y"], name="exp"), node("Mul", ["y", "two"], ["z"], name="product")],
            [info("x", FLOAT, [4])], [info("z", FLOAT, [4]), info("n", INT64, []), info("s", INT64, [1])],
            [constant("k", X), constant("zero", np.int64(0))])
        for name, operator, fate in (("same", "Identity", 'it hands on what "relu" makes'),
                                     ("input", "Identity", 'it hands on "x" as it is'),
                                     ("list", "SequenceConstruct", "it is a list whose tensors the compiler knows"),
                                     ("at", "SequenceAt", 'its result is what "relu" makes'),
                                     ("length", "SequenceLength", "the compiler knows its result: it is a constant"),
                                     ("shape", "Shape", "the compiler knows its result: it is a constant")):
            wanted = f'the placement "{name}=island" has no effect: "{name}" ({operator}) is no operator any more when the model has been read: {fate}'
            told = self.told(model, f"{name}=island")
            self.assertEqual(len(told), 1, told)
            self.assertIn(wanted, told[0])
        self.assertEqual(self.told(model, "exp=island", "s*e=cpu", "*=island"), [
            'the placement "exp=island" has no effect: those behind it place all nodes that it fits',
            told[0].replace("shape=island", "s*e=cpu").replace(' "shape" (Shape)', ' "same" (Identity)').replace(
                "the compiler knows its result: it is a constant", 'it hands on what "relu" makes')])
        self.assertIn('fits no node; did you mean "exp"?', self.told(model, "exq=island")[0])

    def test_a_loop_by_its_name(self):
        """With results of each iteration, which need lists and counters."""
        body = graph([node("Add", ["s", "x"], ["s2"], name="inner"), node("Identity", ["go"], ["go2"]), node("Neg", ["s2"], ["row"], name="neg")],
                     [info("i", INT64, []), info("go", BOOL, []), info("s", FLOAT, [4])],
                     [info("go2", BOOL, []), info("s2", FLOAT, [4]), info("row", FLOAT, [4])])
        model = model_of([node("Loop", ["m", "", "x"], ["y", "rows"], name="loop", body=body)],
                         [info("x", FLOAT, [4]), info("m", INT64, [])], [info("y", FLOAT, [4]), info("rows", FLOAT, ["r", 4])])
        told = self.told(model, "loop=island")
        self.assertEqual(len(told), 1, told)
        self.assertIn('has no effect: "loop" is while, which is where what it reads and makes is; nodes of bodies are placed', told[0])
        self.assertEqual(self.told(model, "inner=island", "neg=island"), [])


if __name__ == "__main__":
    unittest.main()
