#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Branches, loops, sequences and optional values of ONNX models, through the importer and the Python package."""

import sys
import unittest

import numpy as np
from onnx import TensorProto, helper, numpy_helper

import tenon
from product import graph, info, node

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL


def compiled(nodes, inputs, outputs, initializers=(), **options):
    model = helper.make_model(graph(nodes, inputs, outputs, initializers),
                              opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    return tenon.compile(model, cache=False, threads=1, **options)


def constant(name, value):
    return numpy_helper.from_array(np.asarray(value), name)


class Branches(unittest.TestCase):
    def test_branches_of_different_shape_and_weight(self):
        # A captured weight on one side, a run-time size on both, and a constant.
        w = np.arange(12, dtype=np.float32).reshape(4, 3)
        then = graph([node("MatMul", ["x", "w"], ["a"])], [], [info("a", FLOAT, None)])
        other = graph([node("Concat", ["x", "x", "x"], ["b"], axis=1)], [], [info("b", FLOAT, None)])
        model = compiled([node("If", ["flag"], ["y"], then_branch=then, else_branch=other)],
                         [info("x", FLOAT, ["n", 4]), info("flag", BOOL, [])], [info("y", FLOAT, None)],
                         [constant("w", w)])
        for n in (1, 5):
            x = np.random.default_rng(n).normal(size=(n, 4)).astype(np.float32)
            np.testing.assert_allclose(model(x, np.asarray(True)), x @ w, rtol=1e-5, atol=1e-5)
            np.testing.assert_array_equal(model(x, np.asarray(False)), np.concatenate([x, x, x], axis=1))



class Forks(unittest.TestCase):
    """Results whose number of dimensions only a run tells."""

    INPUTS = [info("x", FLOAT, ["n"]), info("flag", BOOL, [])]
    X, YES, NO = np.float32([1, 2, 3]), np.asarray(True), np.asarray(False)

    def choice(self):
        then = graph([node("Identity", ["x"], ["a"])], [], [info("a", FLOAT, None)])
        other = graph([node("ReduceSum", ["x"], ["b"], keepdims=0)], [], [info("b", FLOAT, None)])
        return node("If", ["flag"], ["y"], name="choice", then_branch=then, else_branch=other)

    def test_what_follows_suits_both(self):
        model = compiled([self.choice(), node("Add", ["y", "x"], ["z"]), node("ReduceSum", ["z"], ["w"], keepdims=0),
                          node("Shape", ["y"], ["s"]), node("Size", ["s"], ["rank"])],
                         self.INPUTS, [info("w", FLOAT, []), info("z", FLOAT, ["n"]), info("rank", INT64, [])])
        for flag, want in ((self.YES, [2, 4, 6]), (self.NO, [7, 8, 9])):
            w, z, rank = model(self.X, flag)
            np.testing.assert_array_equal(z, np.float32(want))
            self.assertEqual((float(w), int(rank)), (sum(want), int(bool(flag))))

    def test_what_follows_suits_one(self):
        model = compiled([self.choice(), node("Transpose", ["y"], ["z"], perm=[0], name="turn")], self.INPUTS,
                         [info("z", FLOAT, None)])
        np.testing.assert_array_equal(model(self.X, self.YES), self.X)
        with self.assertRaisesRegex(tenon.Error, 'node "choice" \\(If, opset 20\\): result 0 has 0 dimensions \\(the branch "else"\\), '
                                                 'and what follows does not suit that: node "turn" \\(Transpose, opset 20\\): perm has 1'):
            model(self.X, self.NO)

    def test_a_declared_output_decides(self):
        model = compiled([self.choice()], self.INPUTS, [info("y", FLOAT, [])])
        self.assertEqual(float(model(self.X, self.NO)), 6)
        with self.assertRaisesRegex(tenon.Error, 'output "y" would have 1 dimension and is declared with 0'):
            model(self.X, self.YES)

    def test_what_is_refused(self):
        with self.assertRaisesRegex(tenon.Error, 'result 0 has 1 dimension \\(the branch "then"\\), or result 0 has 0 dimensions '
                                                 '\\(the branch "else"\\), and "y" has 1 or 0 for it: results must have one number of '
                                                 'dimensions, and the model may declare it'):
            compiled([self.choice()], self.INPUTS, [info("y", FLOAT, None)])
        with self.assertRaisesRegex(tenon.Error, 'and what follows suits neither: node "turn" .*perm has 3 entries, and the input 1 '
                                                 'dimension; node "turn" .*perm has 3 entries, and the input 0'):
            compiled([self.choice(), node("Transpose", ["y"], ["z"], perm=[0, 1, 2], name="turn")], self.INPUTS,
                     [info("z", FLOAT, None)])

    def test_in_a_loop(self):
        # The parity of the round decides the rank; both add up to the state.
        then = graph([node("Identity", ["x"], ["a"])], [], [info("a", FLOAT, None)])
        other = graph([node("ReduceSum", ["x"], ["b"], keepdims=0)], [], [info("b", FLOAT, None)])
        body = [node("Mod", ["i", "two"], ["rest"]), node("Cast", ["rest"], ["odd"], to=BOOL),
                node("If", ["odd"], ["part"], then_branch=then, else_branch=other), node("Add", ["s", "part"], ["s_out"]),
                node("Identity", ["going"], ["going_out"]), node("Identity", ["s"], ["before"])]
        model = compiled([loop_model(body, [("going_out", BOOL, []), ("s_out", FLOAT, ["n"]), ("before", FLOAT, ["n"])],
                                     [("s", "x", FLOAT, ["n"])], ["last", "all"])],
                         [info("m", INT64, []), info("go", BOOL, []), info("x", FLOAT, ["n"])],
                         [info("last", FLOAT, ["n"]), info("all", FLOAT, [None, "n"])], [constant("two", np.int64(2))])
        last, everything = model(np.asarray(5), self.YES, self.X)
        np.testing.assert_array_equal(last, self.X * 3 + 18)
        np.testing.assert_array_equal(everything[:3], [self.X, self.X + 6, self.X * 2 + 6])

    def test_squeezes_of_open_sizes(self):
        model = compiled([node("Squeeze", ["x"], ["y"]), node("Mul", ["y", "y"], ["yy"]), node("ReduceSum", ["yy"], ["z"], keepdims=0)],
                         [info("x", FLOAT, ["n", "m", 1])], [info("z", FLOAT, [])])
        for shape in ((2, 3, 1), (1, 3, 1), (2, 1, 1), (1, 1, 1)):
            x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape) + 1
            self.assertEqual(float(model(x)), float((x * x).sum()))
        model = compiled([node("Squeeze", ["x"], ["y"])], [info("x", FLOAT, ["n", "m", 1])], [info("y", FLOAT, ["n", "m"])])
        self.assertEqual(model(np.ones((2, 3, 1), np.float32)).shape, (2, 3))
        with self.assertRaisesRegex(tenon.Error, "dimension 0 is 1, and what follows does not suit that"):
            model(np.ones((1, 3, 1), np.float32))

    def test_out_of_a_function_and_a_known_branch(self):
        # Whatever the branch that is known, or the function, makes of x has one rank or another; what follows on them suits both.
        choice = self.choice()
        known = graph([choice, node("Neg", ["y"], ["minus"])], [], [info("minus", FLOAT, None)])
        behind = [node("Add", ["v", "x"], ["z"]), node("ReduceMax", ["z"], ["most"], keepdims=0)]
        outputs = [info("z", FLOAT, ["n"]), info("most", FLOAT, [])]
        branch = helper.make_model(graph([node("If", ["yes"], ["v"], then_branch=known, else_branch=known), *behind], self.INPUTS, outputs,
                                         [constant("yes", np.asarray(True))]), opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
        then = graph([node("Identity", ["a"], ["b"])], [], [info("b", FLOAT, None)])
        other = graph([node("ReduceSum", ["a"], ["c"], keepdims=0)], [], [info("c", FLOAT, None)])
        inner = helper.make_function("own", "Inner", ["a", "f"], ["d"], [node("If", ["f"], ["d"], then_branch=then, else_branch=other)],
                                     [helper.make_opsetid("", 20)])
        outer = helper.make_function("own", "Outer", ["p", "q"], ["p_same", "r", "unused"],
                                     [node("Inner", ["p", "q"], ["s"], domain="own"), node("Neg", ["s"], ["r"]), node("Abs", ["s"], ["unused"]),
                                      node("Identity", ["p"], ["p_same"])],
                                     [helper.make_opsetid("", 20), helper.make_opsetid("own", 1)])
        called = helper.make_model(graph([node("Outer", ["x", "flag"], ["w", "v"], domain="own"), node("Sub", ["v", "w"], ["u"]),
                                          node("Add", ["u", "w"], ["t"]), node("Add", ["t", "x"], ["z"]), behind[1]], self.INPUTS, outputs),
                                   opset_imports=[helper.make_opsetid("", 20), helper.make_opsetid("own", 1)], functions=[inner, outer], ir_version=9)
        for model in (branch, called):
            model = tenon.compile(model, cache=False, threads=1)
            for flag, want in ((self.YES, [0, 0, 0]), (self.NO, [-5, -4, -3])):
                z, most = model(self.X, flag)
                np.testing.assert_array_equal(z, np.float32(want))
                self.assertEqual(float(most), max(want))

    def test_out_of_a_known_branch_in_a_branch_that_is_not(self):
        # Two forks, the second behind the first, and both go on to the end of the branch "then".
        other = graph([node("Neg", ["x"], ["minus"])], [], [info("minus", FLOAT, None)])
        second = node("If", ["again"], ["v"], then_branch=graph([node("Identity", ["k"], ["k1"])], [], [info("k1", FLOAT, None)]),
                      else_branch=graph([node("ReduceMax", ["k"], ["k2"], keepdims=0)], [], [info("k2", FLOAT, None)]))
        known = graph([self.choice()], [], [info("y", FLOAT, None)])
        deeper = graph([second], [], [info("v", FLOAT, None)])
        then = graph([node("If", ["yes"], ["k"], then_branch=known, else_branch=known),
                      node("If", ["yes"], ["w"], then_branch=deeper, else_branch=deeper), node("Mul", ["w", "x"], ["wx"])],
                     [], [info("wx", FLOAT, ["n"])])
        model = compiled([node("If", ["outer"], ["z"], then_branch=then, else_branch=other), node("Relu", ["z"], ["r"])],
                         [*self.INPUTS, info("again", BOOL, []), info("outer", BOOL, [])], [info("r", FLOAT, ["n"])],
                         [constant("yes", np.asarray(True))])
        for flag, again, want in ((1, 1, [1, 4, 9]), (1, 0, [3, 6, 9]), (0, 1, [6, 12, 18]), (0, 0, [6, 12, 18])):
            np.testing.assert_array_equal(model(self.X, np.asarray(bool(flag)), np.asarray(bool(again)), self.YES), np.float32(want))
            np.testing.assert_array_equal(model(self.X, np.asarray(bool(flag)), np.asarray(bool(again)), self.NO), np.zeros(3))

    def test_squeezes_out_of_a_function(self):
        # Both decisions of one operator, and a declared output that a function's end does not see.
        squeeze = helper.make_function("own", "Bare", ["a"], ["b"], [node("Squeeze", ["a"], ["b"], name="bare")], [helper.make_opsetid("", 20)])
        own = {"opset_imports": [helper.make_opsetid("", 20), helper.make_opsetid("own", 1)], "functions": [squeeze], "ir_version": 9}
        inputs = [info("x", FLOAT, ["n", "m"])]
        model = helper.make_model(graph([node("Bare", ["x"], ["y"], domain="own"), node("Mul", ["y", "scale"], ["z"], name="scaled"),
                                         node("ReduceSum", ["z"], ["sum"], keepdims=0)], [*inputs, info("scale", FLOAT, [3])],
                                        [info("sum", FLOAT, None)]), **own)
        model = tenon.compile(model, cache=False, threads=1)
        scale = np.float32([1, 2, 3])
        for shape in ((2, 3), (1, 3), (3, 1), (1, 1)):
            x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape) + 1
            self.assertEqual(float(model(x, scale)), float((np.squeeze(x) * scale).sum()))
        with self.assertRaisesRegex(tenon.Error, r'^node "scaled" \(Mul, opset 20\): dimension 0 of operand 0 is n = 5, and dimension 0 of operand 1 is 3: '):
            model(np.ones((5, 1), np.float32), scale)
        model = helper.make_model(graph([node("Bare", ["x"], ["y"], domain="own")], inputs, [info("y", FLOAT, ["n"])]), **own)
        model = tenon.compile(model, cache=False, threads=1)
        np.testing.assert_array_equal(model(np.float32([[1], [2]])), np.float32([1, 2]))
        with self.assertRaisesRegex(tenon.Error, r'node "bare" \(Squeeze, opset 20\): dimension 1 is not 1, and what follows does not suit that: '
                                                 'output "y" would have 2 dimensions and is declared with 1'):
            model(np.ones((2, 2), np.float32))

    def test_many_squeezes(self):
        nodes, last = [], "x"
        for i in range(12):
            nodes += [node("Unsqueeze", [last, "zero"], [f"u{i}"]), node("Squeeze", [f"u{i}"], [f"s{i}"]), node("Relu", [f"s{i}"], [f"r{i}"])]
            last = f"r{i}"
        zero = [constant("zero", np.int64([0]))]
        model = compiled(nodes, [info("x", FLOAT, ["n"])], [info(last, FLOAT, ["n"])], zero)
        np.testing.assert_array_equal(model(self.X), self.X)
        with self.assertRaisesRegex(tenon.Error, "is one operator too many whose result's number of dimensions only a run tells: 5 of them"):
            compiled([*nodes, node("ReduceSum", [last], ["end"], keepdims=0)], [info("x", FLOAT, ["n"])], [info("end", FLOAT, [])], zero)


def loop_model(nodes, body_outputs, states, outputs, **kwargs):
    """A Loop over trip count "m" and condition "go"; states are (name, input, output)."""
    body = graph(nodes, [info("i", INT64, []), info("going", BOOL, [])]
                 + [info(name, kind, shape) for name, _, kind, shape in states],
                 [info(name, kind, shape) for name, kind, shape in body_outputs])
    return node("Loop", ["m", "go"] + [start for _, start, _, _ in states], outputs, body=body, **kwargs)


class Loops(unittest.TestCase):
    def test_scan_outputs_and_zero_trips(self):
        loop = loop_model([node("Identity", ["going"], ["going_out"]), node("Add", ["s", "x"], ["s_out"]),
                           node("Mul", ["s_out", "two"], ["piece"])],
                          [("going_out", BOOL, []), ("s_out", FLOAT, ["n"]), ("piece", FLOAT, ["n"])],
                          [("s", "x", FLOAT, ["n"])], ["last", "all"])
        model = compiled([loop], [info("m", INT64, []), info("go", BOOL, []), info("x", FLOAT, ["n"])],
                         [info("last", FLOAT, ["n"]), info("all", FLOAT, ["k", "n"])], [constant("two", np.float32(2))])
        x = np.asarray([1, 2, 3], np.float32)
        for m in (0, 1, 7, 100):
            last, everything = model(np.asarray(m), np.asarray(True), x)
            np.testing.assert_array_equal(last, x * (m + 1))
            if m:
                np.testing.assert_array_equal(everything, [2 * x * (i + 2) for i in range(m)])
            else:
                self.assertEqual(everything.shape, (0, 3))
        last, everything = model(np.asarray(5), np.asarray(False), x)
        np.testing.assert_array_equal(last, x)

    def test_sizes_of_what_no_rounds_made(self):
        # Known outside: of a loop variable, of something captured, twice another; not known: what the body computes.
        loop = loop_model([node("Identity", ["going"], ["going_out"]), node("Identity", ["s"], ["s_out"]),
                           node("Concat", ["s", "s"], ["p"], axis=0), node("MatMul", ["rows", "s"], ["q"]),
                           node("NonZero", ["s"], ["r"])],
                          [("going_out", BOOL, []), ("s_out", FLOAT, ["n"]), ("p", FLOAT, None), ("q", FLOAT, None), ("r", INT64, None)],
                          [("s", "x", FLOAT, ["n"])], ["last", "ps", "qs", "rs"])
        model = compiled([loop, node("Shape", ["qs"], ["shape"])],
                         [info("m", INT64, []), info("go", BOOL, []), info("x", FLOAT, ["n"]), info("rows", FLOAT, ["k", "n"])],
                         [info("ps", FLOAT, [None] * 2), info("qs", FLOAT, [None] * 2), info("rs", INT64, [None] * 3), info("shape", INT64, [2])])
        x, rows = np.float32([1, 0, 3]), np.ones((5, 3), np.float32)
        for m in (0, 2, 0):
            ps, qs, rs, shape = model(np.asarray(m), np.asarray(True), x, rows)
            self.assertEqual((ps.shape, qs.shape, rs.shape), ((m, 6), (m, 5), (m, 1, 2) if m else (0, 1, 0)))
            np.testing.assert_array_equal(shape, [m, 5])
        scan = node("Scan", ["x"], ["all"], body=graph([node("Neg", ["row"], ["piece"])], [info("row", FLOAT, ["w"])], [info("piece", FLOAT, ["w"])]),
                    num_scan_inputs=1, scan_output_axes=[1])
        model = compiled([scan], [info("x", FLOAT, ["n", "w"])], [info("all", FLOAT, ["w", "n"])])
        for n in (0, 3, 0):
            self.assertEqual(model(np.ones((n, 4), np.float32)).shape, (4, n))

    def test_sizes_that_the_body_declares(self):
        # What is taken out of a sequence has sizes that only a run tells; the body says one number, and is not held to it.
        given = [info("m", INT64, []), info("go", BOOL, []), sequence_info("s", FLOAT, ("p", "q"))]

        def taken(declared):
            return loop_model([node("Identity", ["going"], ["going_out"]), node("SequenceAt", ["s", "i"], ["piece"])],
                              [("going_out", BOOL, []), ("piece", FLOAT, declared)], [], ["all"])

        items = [np.full((3, 2), i, np.float32) for i in range(4)]
        for declared, empty in ((["k", 2], (0, 0, 2)), ([3, 2], (0, 3, 2)), ([5, None], (0, 5, 0)), ([0, 7], (0, 0, 7)), ([2], (0, 0, 0)),
                                ([2**40, 2], (0, 2**40, 2)), ([-1, 2], (0, 0, 2)), (None, (0, 0, 0))):
            model = compiled([taken(declared), node("Shape", ["all"], ["shape"])], given,
                             [info("all", FLOAT, [None] * 3), info("shape", INT64, [3])])
            for m in (0, 3, 0):
                everything, shape = model(np.asarray(m), np.asarray(True), items)
                self.assertEqual(everything.shape, (m, 3, 2) if m else empty)
                np.testing.assert_array_equal(shape, everything.shape)
                np.testing.assert_array_equal(everything, np.asarray(items[:m]).reshape(everything.shape))

        # Used with a tensor of these sizes, and along another axis.
        model = compiled([taken(["k", 2]), node("ReduceSum", ["all", "first"], ["sum"], keepdims=0), node("Concat", ["sum", "x"], ["y"], axis=0)],
                         [*given, info("x", FLOAT, ["n", 2])], [info("y", FLOAT, [None, None])], [constant("first", np.asarray([0], np.int64))])
        for m in (0, 2):
            self.assertEqual(model(np.asarray(m), np.asarray(True), items, items[0]).shape, (6 if m else 3, 2))
        scan = node("Scan", ["x"], ["all"], body=graph([node("SequenceAt", ["s", "zero"], ["piece"])], [info("row", FLOAT, ["w"])],
                                                       [info("piece", FLOAT, [6, None])]), num_scan_inputs=1, scan_output_axes=[1])
        model = compiled([scan], [info("x", FLOAT, ["n", "w"]), given[2]], [info("all", FLOAT, [None] * 3)],
                         [constant("zero", np.asarray(0))])
        for n in (0, 5, 0):
            self.assertEqual(model(np.ones((n, 4), np.float32), items).shape, (3, n, 2) if n else (6, 0, 0))

    def test_a_condition_that_is_data(self):
        loop = loop_model([node("Mul", ["s", "two"], ["s_out"]), node("ReduceSum", ["s_out"], ["sum"], keepdims=0),
                           node("Less", ["sum", "limit"], ["going_out"])],
                          [("going_out", BOOL, []), ("s_out", FLOAT, ["n"])], [("s", "x", FLOAT, ["n"])], ["last"])
        loop.input[0] = ""
        model = compiled([loop], [info("go", BOOL, []), info("x", FLOAT, ["n"]), info("limit", FLOAT, [])],
                         [info("last", FLOAT, ["n"])], [constant("two", np.float32(2))])
        x = np.asarray([1, 2], np.float32)
        np.testing.assert_array_equal(model(np.asarray(True), x, np.float32(40)), x * 16)
        np.testing.assert_array_equal(model(np.asarray(True), x, np.float32(1)), x * 2)

    def test_a_state_that_grows(self):
        loop = loop_model([node("Identity", ["going"], ["going_out"]), node("Cast", ["i"], ["f"], to=FLOAT),
                           node("Reshape", ["f", "one"], ["row"]), node("Concat", ["s", "row"], ["s_out"], axis=0)],
                          [("going_out", BOOL, []), ("s_out", FLOAT, [None])], [("s", "none", FLOAT, [None])], ["last"])
        model = compiled([loop], [info("m", INT64, []), info("go", BOOL, [])], [info("last", FLOAT, [None])],
                         [constant("none", np.zeros(0, np.float32)), constant("one", np.asarray([1], np.int64))])
        for m in (0, 1, 9):
            np.testing.assert_array_equal(model(np.asarray(m), np.asarray(True)), np.arange(m, dtype=np.float32))

    def test_loops_inside_of_loops_and_branches(self):
        # sum over i < m of (i odd: sum over j < i of x[j % n], else -x[0]), with x captured through two bodies.
        inner = graph([node("Identity", ["ongoing"], ["ongoing_out"]), node("Mod", ["j", "size"], ["at"]),
                       node("Gather", ["x", "at"], ["element"]), node("Add", ["t", "element"], ["t_out"])],
                      [info("j", INT64, []), info("ongoing", BOOL, []), info("t", FLOAT, [])],
                      [info("ongoing_out", BOOL, []), info("t_out", FLOAT, [])])
        odd = graph([node("Loop", ["i", "yes", "zero"], ["inside"], body=inner)], [], [info("inside", FLOAT, [])])
        even = graph([node("Gather", ["x", "first"], ["f"]), node("Neg", ["f"], ["negative"])], [],
                     [info("negative", FLOAT, [])])
        loop = loop_model([node("Identity", ["going"], ["going_out"]), node("Mod", ["i", "two"], ["rest"]),
                           node("Cast", ["rest"], ["is_odd"], to=BOOL),
                           node("If", ["is_odd"], ["part"], then_branch=odd, else_branch=even),
                           node("Add", ["s", "part"], ["s_out"])],
                          [("going_out", BOOL, []), ("s_out", FLOAT, [])], [("s", "zero", FLOAT, [])], ["y"])
        model = compiled([node("Size", ["x"], ["size"]), loop],
                         [info("m", INT64, []), info("go", BOOL, []), info("x", FLOAT, ["n"])], [info("y", FLOAT, [])],
                         [constant("yes", np.asarray(True)), constant("zero", np.float32(0)),
                          constant("first", np.int64(0)), constant("two", np.int64(2))])
        x = np.asarray([1, 10, 100], np.float32)
        for m in (0, 1, 2, 6):
            want = sum((sum(x[j % 3] for j in range(i)) if i % 2 else -x[0]) for i in range(m))
            self.assertEqual(float(model(np.asarray(m), np.asarray(True), x)), float(want))

    def test_sizes_that_a_loop_would_call_alike(self):
        # The loop's variable and what it captures are both number 3 of their bodies, and neither has a fixed length.
        inner = graph([node("Identity", ["on"], ["on_out"]), node("Concat", ["t", "top"], ["t_out"], axis=0)],
                      [info("j", INT64, []), info("on", BOOL, []), info("t", FLOAT, [None, 2])],
                      [info("on_out", BOOL, []), info("t_out", FLOAT, [None, 2])])
        outer = graph([node("Identity", ["going"], ["going_out"]), node("Neg", ["top"], ["piece"]),
                       node("Loop", ["m", "go", "x"], ["grown"], body=inner),
                       node("ReduceSum", ["grown", "first"], ["sum"], keepdims=0)],
                      [info("i", INT64, []), info("going", BOOL, [])],
                      [info("going_out", BOOL, []), info("sum", FLOAT, [2]), info("piece", FLOAT, [None, 2])])
        model = compiled([node("Slice", ["x", "first", "second"], ["top"]),
                          node("Loop", ["m", "go"], ["sums", "pieces"], body=outer)],
                         [info("m", INT64, []), info("go", BOOL, []), info("x", FLOAT, ["n", 2])],
                         [info("sums", FLOAT, [None, 2]), info("pieces", FLOAT, [None, None, 2])],
                         [constant("first", np.asarray([0])), constant("second", np.asarray([1]))])
        x = np.arange(6, dtype=np.float32).reshape(3, 2)
        for m in (1, 4):
            sums, pieces = model(np.asarray(m), np.asarray(True), x)
            np.testing.assert_array_equal(sums, np.broadcast_to(x.sum(axis=0) + m * x[0], (m, 2)))
            np.testing.assert_array_equal(pieces, np.broadcast_to(-x[:1], (m, 1, 2)))
        # A name of the model's own.
        body = graph([node("Identity", ["going"], ["going_out"]), node("Concat", ["t", "w"], ["t_out"], axis=0)],
                     [info("i", INT64, []), info("going", BOOL, []), info("t", FLOAT, [None, 2])],
                     [info("going_out", BOOL, []), info("t_out", FLOAT, [None, 2])])
        model = compiled([node("Loop", ["m", "go", "x"], ["y"], body=body)],
                         [info("m", INT64, []), info("go", BOOL, []), info("x", FLOAT, ["n", 2]),
                          info("w", FLOAT, ["arg3_d0", 2])], [info("y", FLOAT, [None, 2])])
        np.testing.assert_array_equal(model(np.asarray(2), np.asarray(True), x, x[:1]),
                                      np.concatenate([x, x[:1], x[:1]]))

    def test_bytes_that_are_read_in_fours_inside(self):
        # Products take four bytes of x at once: in a body, in a branch, and in code for special sizes.
        w = np.random.default_rng(3).integers(-128, 128, (8, 6)).astype(np.int8)
        product = node("MatMulInteger", ["x", "w"], ["p"])
        numbers = ("n", 6)
        loop = loop_model([node("Identity", ["going"], ["going_out"]), product, node("Add", ["s", "p"], ["s_out"])],
                          [("going_out", BOOL, []), ("s_out", TensorProto.INT32, numbers)],
                          [("s", "zeros", TensorProto.INT32, numbers)], ["sum"])
        then = graph([product], [], [info("p", TensorProto.INT32, numbers)])
        other = graph([node("Identity", ["zeros"], ["z"])], [], [info("z", TensorProto.INT32, numbers)])
        for dims in ({}, {"n": [1, 4]}):
            model = compiled([loop, node("If", ["go"], ["one"], then_branch=then, else_branch=other)],
                             [info("m", INT64, []), info("go", BOOL, []), info("x", TensorProto.UINT8, ["n", 8]),
                              info("zeros", TensorProto.INT32, numbers)],
                             [info("sum", TensorProto.INT32, numbers), info("one", TensorProto.INT32, numbers)],
                             [constant("w", w)], dims=dims)
            for n in (1, 3, 4):
                x = np.random.default_rng(n).integers(0, 256, (n, 8)).astype(np.uint8)
                for start in range(4):  # copied where four bytes do not lie
                    memory = np.zeros(x.size + 4, np.uint8)[start:start + x.size].reshape(x.shape)
                    memory[:] = x
                    total, one = model(np.asarray(3), np.asarray(True), memory, np.zeros((n, 6), np.int32))
                    np.testing.assert_array_equal(one, x.astype(np.int32) @ w)
                    np.testing.assert_array_equal(total, 3 * one)

    def test_more_rounds_than_are_written_out(self):
        loop = loop_model([node("Identity", ["going"], ["going_out"]), node("Add", ["s", "s"], ["twice"]),
                           node("Sub", ["twice", "s"], ["same"]), node("Add", ["same", "step"], ["s_out"])],
                          [("going_out", BOOL, []), ("s_out", FLOAT, [])], [("s", "x", FLOAT, [])], ["y"])
        model = compiled([loop], [info("x", FLOAT, [])], [info("y", FLOAT, [])],
                         [constant("m", np.int64(5000)), constant("go", np.asarray(True)),
                          constant("step", np.float32(1))])
        self.assertEqual(float(model(np.asarray(3, np.float32))), 5003)

    def test_types_that_change_are_refused(self):
        loop = loop_model([node("Identity", ["going"], ["going_out"]), node("Cast", ["s"], ["s_out"], to=INT64)],
                          [("going_out", BOOL, []), ("s_out", INT64, [])], [("s", "x", FLOAT, [])], ["y"], name="l")
        with self.assertRaises(tenon.Error) as caught:
            compiled([loop], [info("m", INT64, []), info("go", BOOL, []), info("x", FLOAT, [])], [info("y", FLOAT, [])])
        self.assertIn('node "l" (Loop, opset 20): loop variable 0 is f32 and becomes i64', str(caught.exception))

    def test_scans_of_any_length(self):
        body = graph([node("Add", ["s", "row"], ["s_out"]), node("Identity", ["s_out"], ["piece"])],
                     [info("s", FLOAT, [2]), info("row", FLOAT, [2])], [info("s_out", FLOAT, [2]), info("piece", FLOAT, [2])])
        for directions in ([0], [1]):
            scan = node("Scan", ["start", "x"], ["last", "all"], body=body, num_scan_inputs=1,
                        scan_input_directions=directions, scan_output_directions=directions)
            model = compiled([scan], [info("start", FLOAT, [2]), info("x", FLOAT, ["n", 2])],
                             [info("last", FLOAT, [2]), info("all", FLOAT, ["n", 2])])
            for n in (0, 1, 50):
                x = np.random.default_rng(n).integers(-9, 9, (n, 2)).astype(np.float32)
                start = np.asarray([1, -1], np.float32)
                flip = (lambda a: a[::-1]) if directions[0] else (lambda a: a)
                want = flip(start + np.cumsum(flip(x), axis=0, dtype=np.float32))
                last, everything = model(start, x)
                np.testing.assert_array_equal(last, start + x.sum(axis=0))
                np.testing.assert_array_equal(everything, want.reshape(n, 2))


class BoundOutputs(unittest.TestCase):
    """A caller's buffer is where the value comes to, wherever it comes from."""

    def model(self, **options):
        then = graph([node("Neg", ["x"], ["a"])], [], [info("a", FLOAT, None)])
        other = graph([node("Identity", ["x"], ["b"])], [], [info("b", FLOAT, None)])
        body = [node("Identity", ["going"], ["going_out"]), node("Add", ["s", "x"], ["s_out"]), node("Identity", ["s"], ["before"])]
        nodes = [node("Relu", ["x"], ["kernel"]), node("Flatten", ["kernel"], ["view"], axis=0),
                 node("Flatten", ["x"], ["view_of_input"], axis=0), node("Identity", ["x"], ["input"]),
                 node("Identity", ["x"], ["input_again"]), node("Identity", ["c"], ["constant"]),
                 node("If", ["flag"], ["branch"], then_branch=then, else_branch=other),
                 loop_model(body, [("going_out", BOOL, []), ("s_out", FLOAT, ["n", 2]), ("before", FLOAT, ["n", 2])],
                            [("s", "x", FLOAT, ["n", 2])], ["loop", "rounds"]),
                 node("NonZero", ["x"], ["counted"])]
        shapes = {"kernel": ["n", 2], "view": [1, None], "view_of_input": [1, None], "input": ["n", 2], "input_again": ["n", 2],
                  "constant": [3], "branch": ["n", 2], "loop": ["n", 2], "rounds": [None, "n", 2], "counted": [2, None]}
        return compiled(nodes, [info("x", FLOAT, ["n", 2]), info("flag", BOOL, []), info("m", INT64, []), info("go", BOOL, [])],
                        [info(name, INT64 if name == "counted" else FLOAT, shape) for name, shape in shapes.items()],
                        [constant("c", np.float32([1, 2, 3]))], **options)

    def expected(self, x, flag, rounds):
        return {"kernel": np.maximum(x, 0), "view": np.maximum(x, 0).reshape(1, -1), "view_of_input": x.reshape(1, -1),
                "input": x, "input_again": x, "constant": np.float32([1, 2, 3]), "branch": -x if flag else x,
                "loop": x * (rounds + 1), "rounds": np.stack([x * (i + 1) for i in range(rounds)]),
                "counted": np.stack(np.nonzero(x))}

    def test_from_everywhere(self):
        # The second model calls functions: one for n = 2, one for the others.
        for options in ({}, {"dims": {"n": [2, 5]}}):
            model = self.model(**options)
            for n, flag, rounds in ((2, True, 3), (3, False, 2), (2, False, 1)):
                x = np.arange(-n, n, dtype=np.float32).reshape(n, 2)
                want = self.expected(x, flag, rounds)
                feeds = {"x": x, "flag": np.asarray(flag), "m": np.asarray(rounds), "go": np.asarray(True)}
                # Each alone, and all at once.
                for names in (*([name] for name in want), list(want)):
                    bound = {name: np.full(want[name].shape, 77, want[name].dtype) for name in names if want[name].size > 0}
                    model.set_inputs(feeds)
                    model.set_outputs(bound)
                    model.invoke()
                    for name, buffer in bound.items():
                        np.testing.assert_array_equal(buffer, want[name], err_msg=name)
                    for name, value in want.items():
                        np.testing.assert_array_equal(model.output(name), value, err_msg=name)
                    model.set_outputs({name: None for name in bound})

    def test_special_sizes_of_a_model_with_sequences(self):
        model = compiled([node("SequenceInsert", ["s", "x"], ["longer"]), node("NonZero", ["x"], ["where"]),
                          node("Compress", ["x", "keep"], ["kept"], axis=0)],
                         [sequence_info("s"), info("x", FLOAT, ["n"]), info("keep", BOOL, ["n"])],
                         [sequence_info("longer"), info("where", INT64, [1, None]), info("kept", FLOAT, [None])],
                         dims={"n": [2, 4]})
        for n in (2, 3, 4, 2):
            x, given = np.arange(n, dtype=np.float32), [np.float32([9]), np.float32([])]
            longer, where, kept = model(given, x, x > 1)
            for got, want in zip(longer, [*given, x], strict=True):
                np.testing.assert_array_equal(got, want)
            np.testing.assert_array_equal(where, np.stack(np.nonzero(x)))
            np.testing.assert_array_equal(kept, x[x > 1])


def sequence_info(name, kind=FLOAT, shape=("k",)):
    return helper.make_tensor_sequence_value_info(name, kind, list(shape))


class Sequences(unittest.TestCase):
    def test_lists_in_and_out(self):
        model = compiled([node("SequenceInsert", ["s", "x", "at"], ["longer"]), node("SequenceLength", ["s"], ["n"]),
                          node("SequenceAt", ["longer", "at"], ["same"])],
                         [sequence_info("s"), info("x", FLOAT, ["k"]), info("at", INT64, [])],
                         [sequence_info("longer"), info("n", INT64, []), info("same", FLOAT, [None])])
        self.assertEqual([value.kind for value in model.inputs], ["sequence", "tensor", "tensor"])
        items = [np.arange(i, dtype=np.float32) for i in (3, 0, 2)]
        x = np.asarray([7, 8], np.float32)
        for at in (-3, 0, 3):
            longer, n, same = model(items, x, np.asarray(at))
            want = list(items)
            want.insert(at, x)
            self.assertEqual(len(longer), 4)
            for one, other in zip(longer, want):
                np.testing.assert_array_equal(one, other)
            self.assertEqual(int(n), 3)
        with self.assertRaises(tenon.Error) as caught:
            model(items, x, np.asarray(5))
        self.assertIn("position 5 is outside of a sequence of 3 tensors", str(caught.exception))

    def test_sequences_of_what_is_no_tensor_are_refused(self):
        tensor = helper.make_tensor_type_proto(FLOAT, ["k"])
        sequence, optional = helper.make_sequence_type_proto, helper.make_optional_type_proto
        for kind, words in ((sequence(sequence(tensor)), "a sequence of sequences"), (optional(sequence(sequence(tensor))), "a sequence of sequences"),
                            (sequence(optional(tensor)), "a sequence of optional values"),
                            (optional(optional(tensor)), "a value that is optional twice over")):
            with self.assertRaisesRegex(tenon.Error, f'input "s": is {words}; only tensors, sequences and optional values are supported'):
                compiled([node("SequenceLength", ["s"], ["n"])], [helper.make_value_info("s", kind)], [info("n", INT64, [])])
        for made, operand in ((node("SequenceConstruct", ["x", "s"], ["y"], name="made"), "inputs of SequenceConstruct"),
                              (node("SequenceInsert", ["s", "s"], ["y"], name="made"), "tensor of SequenceInsert")):
            with self.assertRaisesRegex(tenon.Error, rf'node "made" .*: input 1 "s" \({operand}\) is a sequence, expected a tensor$'):
                compiled([made, node("SequenceLength", ["y"], ["n"])], [sequence_info("s"), info("x", FLOAT, ["k"])], [info("n", INT64, [])])

    def test_a_stack_of_no_tensors(self):
        model = compiled([node("ConcatFromSequence", ["s"], ["y"], axis=0, new_axis=1)], [sequence_info("s")], [info("y", FLOAT, [None] * 2)])
        for items in ([np.ones(3, np.float32)] * 2, [], [np.ones(1, np.float32)], []):
            self.assertEqual(model(items).shape, (len(items), len(items[0]) if items else 0))

    def test_many_strings_of_unknown_sizes(self):
        names = [f"x{i}" for i in range(6)]
        model = compiled([node("Concat", names, ["y"], axis=0)], [info(n, TensorProto.STRING, [n]) for n in names],
                         [info("y", TensorProto.STRING, [None])])
        parts = {n: np.array([f"{n}.{i}" for i in range(k)], object) for k, n in enumerate(names)}
        self.assertEqual(list(model.run(parts)["y"]), [text for n in names for text in parts[n]])

    def test_a_sequence_in_bound_memory(self):
        model = compiled([node("SequenceInsert", ["s", "x"], ["longer"])], [sequence_info("s"), info("x", FLOAT, ["k"])],
                         [sequence_info("longer")])
        memory, items = np.zeros(3 * 64 + 60, np.uint8), [np.float32([1]), np.float32([2, 3])]
        model.set_inputs(s=items, x=items[1])
        model.set_outputs(longer=memory)
        model.invoke()
        for got, expected in zip(model.output("longer"), [*items, items[1]], strict=True):
            np.testing.assert_array_equal(got, expected)
        start = -memory.ctypes.data % 64
        np.testing.assert_array_equal(memory[start + 64:start + 72].view(np.float32), items[1])
        model.set_inputs(s=items * 2)
        with self.assertRaisesRegex(tenon.Error, 'output "longer": its 5 tensors need 320 bytes'):
            model.invoke()
        self.assertEqual(len(model.output("longer")), 5)
        model.set_outputs(longer=None)
        model.invoke()
        with self.assertRaisesRegex(TypeError, "output 'longer' is no tensor: its memory is a NumPy array that is dense"):
            model.set_outputs(longer=memory[::2])

    def test_tensors_of_many_ranks(self):
        undeclared = helper.make_tensor_sequence_value_info("s", FLOAT, None)
        model = compiled([node("SequenceInsert", ["s", "x", "at"], ["longer"]), node("SequenceErase", ["longer", "gone"], ["rest"]),
                          node("SequenceAt", ["s", "at"], ["one"]), node("SequenceLength", ["s"], ["n"])],
                         [undeclared, info("x", FLOAT, ["k"]), info("at", INT64, []), info("gone", INT64, [])],
                         [helper.make_tensor_sequence_value_info("rest", FLOAT, None), info("one", FLOAT, [None, None]),
                          info("n", INT64, [])])
        self.assertEqual((model.inputs[0].shape, model.outputs[0].shape), ((...,), (...,)))
        self.assertIn("s: sequence of float32[...]", repr(model))
        items = [np.float32(3), np.arange(6, dtype=np.float32).reshape(2, 3), np.ones((2, 1, 0, 4), np.float32),
                 np.arange(16, dtype=np.float32).reshape((2,) * 4)]
        x = np.float32([7, 8])
        for at, gone in ((2**63 - 1, 0), (1, 2**63 - 1)):  # the end is no position of this number
            with self.assertRaisesRegex(tenon.Error, "position 9223372036854775807 is outside of any sequence"):
                model(items, x, np.asarray(at), np.asarray(gone))
        for _ in range(2):
            rest, one, n = model(items, x, np.asarray(1), np.asarray(-2))
            for got, want in zip(rest, [items[0], x, items[1], items[3]], strict=True):
                self.assertEqual(got.shape, want.shape)
                np.testing.assert_array_equal(got, want)
            np.testing.assert_array_equal(one, items[1])
            self.assertEqual(int(n), 4)
        with self.assertRaisesRegex(tenon.Error, "tensor 3 of a sequence has 4 dimensions where 2 are wanted"):
            model(items, x, np.asarray(3), np.asarray(0))
        memory = np.zeros(6 * 64, np.uint8)
        model.set_inputs(s=items, x=x, at=np.asarray(1), gone=np.asarray(0))
        model.set_outputs(rest=memory)
        model.invoke()
        self.assertEqual([item.shape for item in model.output("rest")], [(2,), (2, 3), (2, 1, 0, 4), (2, 2, 2, 2)])

    def test_a_rank_that_nothing_tells(self):
        undeclared = helper.make_tensor_sequence_value_info("s", FLOAT, None)
        with self.assertRaisesRegex(tenon.Error, "the tensors of the sequence may differ in their number of dimensions, and "
                                                 'the model does not declare that of output 0 \\("one"\\)'):
            compiled([node("SequenceAt", ["s", "at"], ["one"])], [undeclared, info("at", INT64, [])],
                     [info("one", FLOAT, None)])
        with self.assertRaisesRegex(tenon.Error, "tensors of f32 and of i64 are in one sequence"):
            compiled([node("SequenceInsert", ["s", "x"], ["longer"])], [undeclared, info("x", INT64, [])],
                     [helper.make_tensor_sequence_value_info("longer", FLOAT, None)])
        # Declared ranks join, and a run holds them to it.
        model = compiled([node("ConcatFromSequence", ["s"], ["y"], axis=0)], [undeclared], [info("y", FLOAT, [None, 2])])
        np.testing.assert_array_equal(model([np.ones((1, 2), np.float32)] * 3), np.ones((3, 2)))
        with self.assertRaisesRegex(tenon.Error, "tensor 1 of a sequence has 1 dimension where 2 are wanted"):
            model([np.ones((1, 2), np.float32), np.ones(2, np.float32)])

    def test_branches_whose_sequences_differ_in_rank(self):
        then = graph([node("SequenceConstruct", ["x", "x"], ["a"])], [], [sequence_info("a", shape=("n",))])
        other = graph([node("ReduceSum", ["x"], ["sum"], keepdims=0), node("SequenceConstruct", ["sum"], ["b"])], [],
                      [sequence_info("b", shape=())])
        model = compiled([node("If", ["flag"], ["s"], then_branch=then, else_branch=other),
                          node("SequenceInsert", ["s", "x"], ["y"])],
                         [info("x", FLOAT, ["n"]), info("flag", BOOL, [])],
                         [helper.make_tensor_sequence_value_info("y", FLOAT, None)])
        x = np.float32([1, 2, 3])
        self.assertEqual([item.shape for item in model(x, np.asarray(True))], [(3,)] * 3)
        y = model(x, np.asarray(False))
        self.assertEqual([item.shape for item in y], [(), (3,)])
        self.assertEqual(float(y[0]), 6)

    def test_a_sequence_of_strings_in_bound_memory(self):
        strings = sequence_info("s", TensorProto.STRING)
        model = compiled([node("SequenceInsert", ["s", "x"], ["longer"])], [strings, info("x", TensorProto.STRING, ["k"])],
                         [sequence_info("longer", TensorProto.STRING)])
        items, x = [np.array(["a", "bc"], object), np.array([], object)], np.array(["zwölf"], object)
        memory = np.zeros(2 * 64 + 9 + 60, np.uint8)
        model.set_inputs(s=items, x=x)
        model.set_outputs(longer=memory)
        for _ in range(2):
            model.invoke()
            self.assertEqual([item.tolist() for item in model.output("longer")], [["a", "bc"], [], ["zwölf"]])
            start = -memory.ctypes.data % 64
            self.assertEqual(memory[start + 128:start + 137].tobytes(), "abczwölf".encode())
        model.set_outputs(longer=memory[:128])
        with self.assertRaisesRegex(tenon.Error, 'output "longer": its 3 tensors need 137 bytes'):
            model.invoke()
        self.assertEqual([item.tolist() for item in model.output("longer")], [["a", "bc"], [], ["zwölf"]])

    def test_a_sequence_of_strings_of_many_ranks_in_a_loop(self):
        # Starts with tensors of one rank and gets those of another in the first round.
        body = graph([node("Identity", ["going"], ["going_out"]), node("SequenceAt", ["q", "i"], ["one"]),
                      node("SequenceInsert", ["q", "one"], ["more"]), node("SequenceInsert", ["more", "word"], ["q_out"])],
                     [info("i", INT64, []), info("going", BOOL, []), sequence_info("q", TensorProto.STRING, ("k",))],
                     [info("going_out", BOOL, []), helper.make_tensor_sequence_value_info("q_out", TensorProto.STRING, None)])
        body.value_info.append(info("one", TensorProto.STRING, [None]))
        model = compiled([node("SequenceConstruct", ["first", "first"], ["start"]),
                          node("Loop", ["m", "", "start"], ["last"], body=body)],
                         [info("m", INT64, []), info("first", TensorProto.STRING, ["k"]), info("word", TensorProto.STRING, [])],
                         [helper.make_tensor_sequence_value_info("last", TensorProto.STRING, None)])
        first, word = np.array(["a", "bc"], object), np.array("zip", object)
        last = model(np.asarray(2), first, word)
        self.assertEqual([item.tolist() for item in last], [["a", "bc"]] * 3 + ["zip", ["a", "bc"], "zip"])
        with self.assertRaisesRegex(tenon.Error, "tensor 3 of a sequence has 0 dimensions where 1 is wanted"):
            model(np.asarray(4), first, word)

    def test_a_sequence_grown_in_a_loop(self):
        body = graph([node("Identity", ["going"], ["going_out"]), node("Cast", ["i"], ["f"], to=FLOAT),
                      node("Mul", ["x", "f"], ["scaled"]), node("SequenceInsert", ["s", "scaled"], ["s_out"])],
                     [info("i", INT64, []), info("going", BOOL, []), sequence_info("s")],
                     [info("going_out", BOOL, []), sequence_info("s_out")])
        model = compiled([node("SequenceEmpty", [], ["empty"], dtype=FLOAT),
                          node("Loop", ["m", "go", "empty"], ["s_last"], body=body),
                          node("ConcatFromSequence", ["s_last"], ["y"], axis=0, new_axis=1)],
                         [info("m", INT64, []), info("go", BOOL, []), info("x", FLOAT, ["k"])],
                         [info("y", FLOAT, [None, None])])
        x = np.asarray([1, 2], np.float32)
        for m in (1, 40):
            np.testing.assert_array_equal(model(np.asarray(m), np.asarray(True), x), np.outer(np.arange(m), x))

    def test_a_sequence_that_a_loop_leaves_as_it_is(self):
        body = graph([node("Identity", ["on"], ["on_out"]), node("Identity", ["s"], ["s_out"]), node("Add", ["a", "a"], ["a_out"])],
                     [info("i", INT64, []), info("on", BOOL, []), sequence_info("s"), info("a", FLOAT, [2])],
                     [info("on_out", BOOL, []), sequence_info("s_out"), info("a_out", FLOAT, [2])])
        first = np.asarray([1, 2], np.float32)
        for given in (True, False):  # the model's own input, and one made inside
            parts = [sequence_info("list")] if given else []
            made = [] if given else [node("SequenceEmpty", [], ["none"]), node("SequenceInsert", ["none", "x"], ["list"])]
            model = compiled(made + [node("Loop", ["m", "", "list", "x"], ["same", "twice"], body=body),
                                     node("SequenceInsert", ["same", "twice"], ["more"]),
                                     node("SequenceInsert", ["list", "x"], ["other"])],
                             parts + [info("m", INT64, []), info("x", FLOAT, [2])],
                             [sequence_info(name) for name in ("same", "more", "other")])
            for m in (0, 3):
                lists = ([first],) if given else ()
                same, more, other = model(*lists, np.asarray(m), first)
                self.assertEqual([[t.tolist() for t in s] for s in (same, more, other)],
                                 [[[1, 2]], [[1, 2], [1 << m, 2 << m]], [[1, 2], [1, 2]]])

    def test_splits_of_run_time_lengths(self):
        model = compiled([node("SplitToSequence", ["x", "lengths"], ["s"], axis=1)],
                         [info("x", FLOAT, ["n", "m"]), info("lengths", INT64, ["p"])],
                         [sequence_info("s", shape=(None, None))])
        x = np.arange(12, dtype=np.float32).reshape(2, 6)
        pieces = model(x, np.asarray([1, 0, 5]))
        for one, other in zip(pieces, np.split(x, [1, 1], axis=1)):
            np.testing.assert_array_equal(one, other)

    def test_optional_values(self):
        kind = helper.make_optional_type_proto(helper.make_tensor_type_proto(FLOAT, ["k"]))
        model = compiled([node("OptionalHasElement", ["o"], ["there"]), node("Identity", ["o"], ["same"])],
                         [helper.make_value_info("o", kind)],
                         [info("there", BOOL, []), helper.make_value_info("same", kind)])
        there, same = model(None)
        self.assertFalse(bool(there))
        self.assertIsNone(same)
        x = np.asarray([1, 2], np.float32)
        there, same = model(x)
        self.assertTrue(bool(there))
        np.testing.assert_array_equal(same, x)

    def test_optional_values_that_a_branch_makes(self):
        tensor = helper.make_tensor_type_proto(FLOAT, ["k"])
        kind = helper.make_optional_type_proto(tensor)
        branches = {"then_branch": graph([node("Optional", ["x"], ["a"])], [], [helper.make_value_info("a", kind)]),
                    "else_branch": graph([node("Optional", [], ["b"], type=tensor)], [], [helper.make_value_info("b", kind)])}
        model = compiled([node("If", ["flag"], ["o"], **branches), node("OptionalHasElement", ["o"], ["there"])],
                         [info("x", FLOAT, ["k"]), info("flag", BOOL, [])],
                         [info("there", BOOL, []), helper.make_value_info("o", kind)])
        x = np.asarray([1, 2], np.float32)
        there, made = model(x, np.asarray(True))
        self.assertTrue(bool(there))
        np.testing.assert_array_equal(made, x)
        there, made = model(x, np.asarray(False))
        self.assertFalse(bool(there))
        self.assertIsNone(made)


if __name__ == "__main__":
    sys.exit(unittest.main())
