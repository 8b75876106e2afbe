#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Strings in ONNX models: the operators on them, what moves them, branches, loops and sequences, through the package."""

import os
import random
import re
import subprocess
import sys
import tempfile
import unittest

import numpy as np
from onnx import TensorProto, helper, numpy_helper

import tenon

STRING, FLOAT, INT64, BOOL = TensorProto.STRING, TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL


def info(name, kind, shape):
    return helper.make_tensor_value_info(name, kind, shape)


def strings(name, *values):
    return helper.make_tensor(name, STRING, [len(values)], [value.encode() for value in values])


def node(op, inputs, outputs, **attributes):
    return helper.make_node(op, inputs, outputs, **attributes)


def graph(nodes, inputs, outputs, initializers=()):
    return helper.make_graph(nodes, "g", inputs, outputs, initializer=list(initializers))


def model_of(nodes, inputs, outputs, initializers=()):
    domains = [helper.make_opsetid("", 21), helper.make_opsetid("ai.onnx.ml", 4)]
    return helper.make_model(graph(nodes, inputs, outputs, initializers), opset_imports=domains, ir_version=10)


def compiled(nodes, inputs, outputs, initializers=()):
    return tenon.compile(model_of(nodes, inputs, outputs, initializers), cache=False, threads=1)


def one(op, x, kind, inputs=("x",), domain="", x_kind=STRING, shape=("n",), out_shape=None, **attributes):
    """One node with operand x."""
    model = compiled([node(op, list(inputs), ["y"], domain=domain, **attributes)], [info("x", x_kind, list(shape))],
                     [info("y", kind, out_shape)])
    return model(x)


class Moving(unittest.TestCase):
    def check(self, nodes, expected, x=(("a", "bb", ""), ("d", "é", "f")), initializers=()):
        x = np.array(x, object)
        for shape in (list(x.shape), [f"n{i}" for i in range(x.ndim)]):
            model = compiled(nodes, [info("x", STRING, shape)], [info("y", STRING, None)], initializers)
            np.testing.assert_array_equal(model(x), np.array(expected, object))

    def test_what_moves_numbers_moves_strings(self):
        ints = [numpy_helper.from_array(np.array(v, np.int64), k) for k, v in
                {"i": [1, 0, 1], "from": [1], "to": [3], "axis": [1], "flat": [-1], "wide": [2, 2, 3], "at": [[1, 2], [0, 0]],
                 "index": [[0], [1]], "axes": [0], "times": [1, 2]}.items()]
        x = np.array([["a", "bb", ""], ["d", "é", "f"]], object)
        more = [*ints, helper.make_tensor("k", STRING, [1, 3], [b"p", b"q", b"r"])]
        for nodes, expected in (
            ([node("Transpose", ["x"], ["y"])], x.T),
            ([node("Gather", ["x", "i"], ["y"], axis=0)], x[[1, 0, 1]]),
            ([node("GatherND", ["x", "at"], ["y"])], np.array(["f", "a"], object)),
            ([node("GatherElements", ["x", "index"], ["y"], axis=1)], np.array([["a"], ["é"]], object)),
            ([node("Slice", ["x", "from", "to", "axis"], ["y"])], x[:, 1:3]),
            ([node("Reshape", ["x", "flat"], ["y"])], x.reshape(-1)),
            ([node("Flatten", ["x"], ["y"], axis=0)], x.reshape(1, -1)),
            ([node("Unsqueeze", ["x", "axes"], ["y"])], x[None]),
            ([node("Expand", ["x", "wide"], ["y"])], np.broadcast_to(x, (2, 2, 3))),
            ([node("Tile", ["x", "times"], ["y"])], np.tile(x, (1, 2))),
            ([node("Concat", ["x", "k", "x"], ["y"], axis=0)], np.concatenate([x, [["p", "q", "r"]], x])),
            ([node("Identity", ["x"], ["y"])], x),
        ):
            with self.subTest(nodes[0].op_type):
                self.check(nodes, expected, x, more)

    def test_selection_and_comparison(self):
        model = compiled([node("Equal", ["a", "b"], ["same"]), node("Not", ["same"], ["other"]),
                          node("Where", ["same", "a", "k"], ["y"])],
                         [info("a", STRING, ["n"]), info("b", STRING, ["n"])],
                         [info("same", BOOL, ["n"]), info("other", BOOL, ["n"]), info("y", STRING, ["n"])],
                         [strings("k", "none")])
        a, b = ["x", "y\0", "é", ""], ["x", "y", "é", "\0"]
        same, other, y = model(a, b)
        self.assertEqual(same.tolist(), [True, False, True, False])
        self.assertEqual(other.tolist(), [False, True, False, True])
        self.assertEqual(y.tolist(), ["x", "none", "é", "none"])

    def test_arithmetic_is_refused(self):
        with self.assertRaisesRegex(tenon.Error, r'input 0 "x" \(A of Add\) is string, expected f32, '):
            compiled([node("Add", ["x", "x"], ["y"])], [info("x", STRING, ["n"])], [info("y", STRING, ["n"])])


class Operators(unittest.TestCase):
    def test_concatenation_broadcasts(self):
        model = compiled([node("StringConcat", ["a", "b"], ["y"])],
                         [info("a", STRING, ["n", 1]), info("b", STRING, ["m"])], [info("y", STRING, None)])
        y = model([["a"], [""]], np.array(["1", "é", ""]))
        self.assertEqual(y.tolist(), [["a1", "aé", "a"], ["1", "é", ""]])

    def test_split_as_python_does(self):
        texts = ["a,b,,c", "", ",", "one", " a  b ", "\t x\ny ", "a, b"]
        for delimiter in (",", "", None, ", ", "é"):
            for most in (None, 0, 1, 2):
                attributes = {} if delimiter is None else {"delimiter": delimiter}
                attributes |= {} if most is None else {"maxsplit": most}
                model = compiled([node("StringSplit", ["x"], ["y", "counts"], **attributes)],
                                 [info("x", STRING, ["n"])], [info("y", STRING, None), info("counts", INT64, ["n"])])
                y, counts = model(texts)
                expected = [text.split(delimiter or None, -1 if most is None else most) for text in texts]
                self.assertEqual(counts.tolist(), [len(pieces) for pieces in expected])
                width = max(len(pieces) for pieces in expected)
                self.assertEqual(y.tolist(), [pieces + [""] * (width - len(pieces)) for pieces in expected])

    def test_normalization(self):
        def run(x, **attributes):
            return one("StringNormalizer", x, STRING, **attributes).tolist()

        words = ["Ab", "STOP", "straße", "ÄÖ", "stop", "ΣΑΣ", "żółw"]
        self.assertEqual(run(words), words)
        self.assertEqual(run(words, case_change_action="LOWER"), ["ab", "stop", "straße", "äö", "stop", "σασ", "żółw"])
        self.assertEqual(run(words, case_change_action="UPPER"),
                         ["AB", "STOP", "STRAßE", "ÄÖ", "STOP", "ΣΑΣ", "ŻÓŁW"])
        self.assertEqual(run(words, stopwords=["stop", "äö"], is_case_sensitive=1), [w for w in words if w != "stop"])
        self.assertEqual(run(words, stopwords=["stop", "äö"], is_case_sensitive=0, case_change_action="LOWER"),
                         ["ab", "straße", "σασ", "żółw"])
        self.assertEqual(run(["stop"], stopwords=["stop"]), [""])
        self.assertEqual(run([], stopwords=["stop"]), [""])
        self.assertEqual(one("StringNormalizer", [["a", "b"]], STRING, shape=(1, "n"), stopwords=["a"]).tolist(), [["b"]])
        broken = one("StringNormalizer", [b"A\xff\xc3", b"\xc3\x84"], STRING, case_change_action="LOWER")
        self.assertEqual([text.encode("utf-8", "surrogateescape") for text in broken], [b"a\xff\xc3", b"\xc3\xa4"])
        with self.assertRaisesRegex(tenon.Error, r"dimension 0 of operand 0 \(x\) is .*, but must be equal to 1"):
            one("StringNormalizer", [["a"], ["b"]], STRING, shape=("m", "n"))

    def test_regular_expressions_agree_with_pythons(self):
        rng = random.Random(7)
        atoms = ["a", "b", "c", ".", "[ab]", "[^a]", "(a|bc)", "(b|)", r"\w", r"\d", "é", "(?:ab)"]
        for _ in range(60):
            pattern = "".join(rng.choice(atoms) + rng.choice(["", "", "*", "+", "?", "{2}", "{1,2}", "*?"])
                              for _ in range(rng.randint(1, 4)))
            if rng.random() < 0.3:
                pattern += "|" + rng.choice(atoms)
            texts = ["", "é", *("".join(rng.choice("abc1é ") for _ in range(rng.randint(1, 5))) for _ in range(40))]
            expected = [re.fullmatch(pattern, text, re.ASCII) is not None for text in texts]
            self.assertEqual(one("RegexFullMatch", texts, BOOL, pattern=pattern).tolist(), expected, pattern)
        with self.assertRaisesRegex(tenon.Error, r'node #0 \(RegexFullMatch, opset 21\): the pattern "a\(" at byte 2: \( has no \)'):
            one("RegexFullMatch", ["a"], BOOL, pattern="a(")

    def test_casts(self):
        def cast(x, kind, to):
            return one("Cast", np.asarray(x), to, x_kind=kind, to=to).tolist()

        floats = [0.1, -2.5, 3.0, 1e-5, 1.5e-5, 123456.75, 1e15, 1e16, 3.4e38, 1e-45, 0.0, -0.0, np.nan, np.inf, -np.inf]
        for dtype, kind in ((np.float32, FLOAT), (np.float64, TensorProto.DOUBLE), (np.float16, TensorProto.FLOAT16)):
            with np.errstate(over="ignore"):
                x = np.array(floats, dtype)
            texts = cast(x, kind, STRING)
            with np.errstate(over="ignore"):
                back = np.array([dtype(text) for text in texts])
            np.testing.assert_array_equal(back, x)
            if dtype == np.float64:
                self.assertEqual(texts, [repr(float(value)) for value in x])
            np.testing.assert_array_equal(np.array(cast(np.array(texts, object), STRING, kind), dtype), x)
        self.assertEqual(cast(np.array([0.1, 1 / 3, 1e10], np.float32), FLOAT, STRING), ["0.1", "0.33333334", "10000000000.0"])
        self.assertEqual(cast([-5, 2**63 - 1], INT64, STRING), ["-5", "9223372036854775807"])
        self.assertEqual(cast(np.array([True, False]), BOOL, STRING), ["True", "False"])
        self.assertEqual(cast(np.array([2**64 - 1], np.uint64), TensorProto.UINT64, STRING), ["18446744073709551615"])
        texts = np.array(["100", " -7 ", "2.718", "1e3", "+9223372036854775807"], object)
        self.assertEqual(cast(texts, STRING, INT64), [100, -7, 2, 1000, 2**63 - 1])
        texts = np.array(["9223372036854775807.9", "-9223372036854775808.0", "9007199254740993.", "1e18", "-0.9", "0e999999999"], object)
        self.assertEqual(cast(texts, STRING, INT64), [2**63 - 1, -2**63, 2**53 + 1, 10**18, 0, 0])
        texts = np.array(["9223372036854775808.0", "18446744073709551615.5", "-0.5"], object)
        self.assertEqual(cast(texts, STRING, TensorProto.UINT64), [2**63, 2**64 - 1, 0])
        texts = np.array(["1E8", "-INF", "nan", "+inf", ".5", "5.", "1e400", "0.1000000000000000055511151231257827"], object)
        np.testing.assert_array_equal(cast(texts, STRING, TensorProto.DOUBLE),
                                      [1e8, -np.inf, np.nan, np.inf, 0.5, 5, np.inf, 0.1])
        self.assertEqual(cast(np.array(["true", "False", "2", "0"], object), STRING, BOOL), [True, False, True, False])
        for text, kind, name in (("Hello", FLOAT, "f32"), ("", INT64, "i64"), ("1e", FLOAT, "f32"), ("128", TensorProto.INT8, "i8"),
                                 ("-1", TensorProto.UINT64, "u64"), ("nan", INT64, "i64"), ("1 2", INT64, "i64"), ("9223372036854775808.0", INT64, "i64"),
                                 ("-9223372036854775809.0", INT64, "i64"), ("1e400", INT64, "i64"), ("127.5e1", TensorProto.INT8, "i8"),
                                 ("18446744073709551616.0", TensorProto.UINT64, "u64"), ("-1.5", TensorProto.UINT64, "u64")):
            with self.assertRaisesRegex(tenon.Error, f'string 0, "{text}", is no number that {name} has'):
                cast(np.array([text], object), STRING, kind)

    def test_labels(self):
        def label(x, kind, x_kind, **attributes):
            return one("LabelEncoder", x, kind, domain="ai.onnx.ml", x_kind=x_kind, **attributes).tolist()

        words = ["b", "a", "", "zz", "c"]
        self.assertEqual(label(words, INT64, STRING, keys_strings=["c", "a", "b", ""], values_int64s=[3, 1, 2, 9]),
                         [2, 1, 9, -1, 3])
        self.assertEqual(label(words, STRING, STRING, keys_strings=["b", "b"], values_strings=["x", "y"]),
                         ["y", "_Unused", "_Unused", "_Unused", "_Unused"])
        self.assertEqual(label(np.array([3, 1, 4]), STRING, INT64, keys_int64s=[4, 1], values_strings=["four", "one"],
                               default_string="?"), ["?", "one", "four"])
        x = np.array([np.nan, 0.5, -0.0, 7], np.float32)
        self.assertEqual(label(x, INT64, FLOAT, keys_floats=[0.5, float("nan"), 0.0], values_int64s=[5, 6, 7],
                               default_int64=-9), [6, 5, 7, -9])
        tensor = numpy_helper.from_array
        self.assertEqual(label(np.array([1, 2], np.int32), TensorProto.DOUBLE, TensorProto.INT32,
                               keys_tensor=tensor(np.array([2], np.int32)), values_tensor=tensor(np.array([0.25])),
                               default_tensor=tensor(np.array([-1.0]))), [-1.0, 0.25])
        with self.assertRaisesRegex(tenon.Error, "its keys are i64 and its operand is string"):
            label(words, INT64, STRING, keys_int64s=[1], values_int64s=[1])

    def test_n_grams(self):
        def count(x, **attributes):
            return one("TfIdfVectorizer", x, FLOAT, **attributes).tolist()

        pool = {"pool_strings": ["b", "a", "a", "b", "b", "a"], "ngram_counts": [0, 2], "ngram_indexes": [0, 1, 2, 3],
                "min_gram_length": 1, "max_gram_length": 2, "max_skip_count": 0}
        words = ["a", "b", "a", "c", "b"]
        self.assertEqual(count(words, mode="TF", **pool), [2, 2, 1, 1])
        self.assertEqual(count(words, mode="IDF", weights=[.5, .25, 2., 3.], **pool), [.5, .25, 2, 3])
        self.assertEqual(count(words, mode="TFIDF", weights=[.5, .25, 2., 3.], **pool), [1, .5, 2, 3])
        self.assertEqual(count(words, mode="TF", **(pool | {"max_skip_count": 2})), [2, 2, 2, 1])
        x = np.array([["a", "c"], ["b", "a"]], object)
        self.assertEqual(count(x, mode="TF", shape=("m", 2), **pool), [[0, 1, 0, 0], [1, 1, 0, 1]])


class Control(unittest.TestCase):
    def test_branches(self):
        then = graph([node("StringConcat", ["x", "k"], ["a"])], [], [info("a", STRING, None)])
        other = graph([node("Concat", ["x", "k"], ["b"], axis=0)], [], [info("b", STRING, None)])
        model = compiled([node("If", ["flag"], ["y"], then_branch=then, else_branch=other)],
                         [info("x", STRING, ["n"]), info("flag", BOOL, [])], [info("y", STRING, None)], [strings("k", "!")])
        self.assertEqual(model(["a", "b"], np.array(True)).tolist(), ["a!", "b!"])
        self.assertEqual(model(["a", "b"], np.array(False)).tolist(), ["a", "b", "!"])

    def test_loops_carry_strings(self):
        body = graph([node("StringConcat", ["s", "x"], ["longer"]), node("Identity", ["going"], ["on"]),
                      node("Identity", ["longer"], ["seen"])],
                     [info("i", INT64, []), info("going", BOOL, []), info("s", STRING, ["n"])],
                     [info("on", BOOL, []), info("longer", STRING, ["n"]), info("seen", STRING, ["n"])])
        model = compiled([node("Loop", ["trips", "", "start"], ["last", "all"], body=body)],
                         [info("trips", INT64, []), info("start", STRING, ["n"]), info("x", STRING, ["n"])],
                         [info("last", STRING, None), info("all", STRING, None)])
        for trips in (0, 1, 40, 3):
            last, every = model(np.array(trips), ["", "é"], ["a", "b"])
            self.assertEqual(last.tolist(), ["a" * trips, "é" + "b" * trips])
            self.assertEqual(every.tolist(), [["a" * i, "é" + "b" * i] for i in range(1, trips + 1)])

    def test_sequences(self):
        kind = helper.make_sequence_type_proto(helper.make_tensor_type_proto(STRING, ["k"]))
        model = compiled([node("SequenceInsert", ["s", "x", "at"], ["longer"]), node("SequenceLength", ["longer"], ["n"]),
                          node("SequenceAt", ["longer", "first"], ["head"]),
                          node("ConcatFromSequence", ["longer"], ["joined"], axis=0)],
                         [helper.make_value_info("s", kind), info("x", STRING, ["m"]), info("at", INT64, [])],
                         [helper.make_value_info("longer", kind), info("n", INT64, []), info("head", STRING, None),
                          info("joined", STRING, None)],
                         [numpy_helper.from_array(np.array(0), "first")])
        for _ in range(2):
            longer, n, head, joined = model([["a", "bc"], [], ["defghij"]], ["new"], np.array(1))
            self.assertEqual([part.tolist() for part in longer], [["a", "bc"], ["new"], [], ["defghij"]])
            self.assertEqual((int(n), head.tolist(), joined.tolist()), (4, ["a", "bc"], ["a", "bc", "new", "defghij"]))

    def test_an_optional_string(self):
        kind = helper.make_optional_type_proto(helper.make_tensor_type_proto(STRING, ["k"]))
        model = compiled([node("OptionalHasElement", ["o"], ["there"]), node("Identity", ["o"], ["same"])],
                         [helper.make_value_info("o", kind)], [info("there", BOOL, []), helper.make_value_info("same", kind)])
        self.assertIsNone(model(None)[1])
        self.assertEqual(model(["x"])[1].tolist(), ["x"])


class Boundary(unittest.TestCase):
    def concatenation(self):
        return compiled([node("StringConcat", ["x", "k"], ["y"])], [info("x", STRING, ["n"])], [info("y", STRING, ["n"])],
                        [strings("k", "-end")])

    def test_signature_and_forms_of_input(self):
        model = self.concatenation()
        self.assertEqual(model.inputs[0].dtype, "string")
        for x in (["a", "é"], ("a", "é"), np.array(["a", "é"]), np.array(["a", "é"], object), [b"a", "é".encode()],
                  np.array(["a", "é"], object)[::1]):
            y = model(x)
            self.assertEqual((y.dtype, y.tolist()), (np.dtype(object), ["a-end", "é-end"]))
        self.assertEqual(model(np.array([b"ab", b"c"])).tolist(), ["ab-end", "c-end"])
        self.assertEqual(model([]).shape, (0,))
        for wrong in ([1, 2], np.zeros(2), ["a", None]):
            with self.assertRaisesRegex(TypeError, "strings are wanted, not a"):
                model(wrong)

    def test_bytes_come_back(self):
        y = self.concatenation()([b"\xff\x00\xfe", "\0"])
        self.assertEqual(y[0].encode("utf-8", "surrogateescape"), b"\xff\x00\xfe-end")
        self.assertEqual(y[1], "\0-end")

    def test_bound_arrays(self):
        model = self.concatenation()
        out = np.full(2, "?", object)
        model.set_inputs(x=["a", "b"])
        model.set_outputs(y=out)
        model.invoke()
        self.assertEqual(out.tolist(), ["a-end", "b-end"])
        model.set_inputs(x=["long" * 1000, ""])
        model.invoke()
        self.assertEqual(out.tolist(), ["long" * 1000 + "-end", "-end"])
        model.set_outputs(y=None)
        model.set_inputs(x=["c"])
        model.invoke()
        self.assertEqual(model.output("y").tolist(), ["c-end"])
        with self.assertRaisesRegex(TypeError, "go into a dense array of objects"):
            model.set_outputs(y=np.zeros(2))

    def test_files(self):
        model = self.concatenation()
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "m.tnx")
            model.save(path)
            self.assertEqual(tenon.load(path, threads=1)(["q"]).tolist(), ["q-end"])
            self.command(folder, path)

    def command(self, folder, path):
        x, data = np.array(["a", "éé", ""]), os.path.join(folder, "data")
        np.save(os.path.join(folder, "x.npy"), x)
        cli = [os.environ["TENON_CLI"], "run", path]
        done = subprocess.run([*cli, "--input", f"x={folder}/x.npy", "--output", folder], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn('y: string [3]\n  "a-end" "éé-end" "-end"\n', done.stdout)
        self.assertEqual(np.load(os.path.join(folder, "y.npy")).tolist(), ["a-end", "éé-end", "-end"])
        os.mkdir(data)
        for name, values in (("input_0", x), ("output_0", ["a-end", "éé-end", "other"])):
            tensor = helper.make_tensor(name, STRING, [3], [value.encode() for value in values])
            with open(os.path.join(data, name + ".pb"), "wb") as file:
                file.write(tensor.SerializeToString())
        done = subprocess.run([*cli, "--compare", data], capture_output=True, text=True)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn('1 of 3 strings differ, first at 2: "-end", expected "other"', done.stdout)
        done = subprocess.run([*cli, "--dim", "n=2", "--json"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn('"dtype": "string", "shape": [2]', done.stdout)


if __name__ == "__main__":
    sys.exit(unittest.main())
