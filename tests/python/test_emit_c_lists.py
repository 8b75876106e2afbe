#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Lists in emitted C: what loops collect, sequences and optional values, in the caller's workspace."""

import unittest

import numpy as np
import tenon
from onnx import TensorProto, helper

from emit_c_batch import Batch
from product import graph, info, node
from test_emit_c import BOOL, FLOAT, INT64, Emitted, Program, constant, loop_of, model_of

INDEX, BAD_VALUE, BAD_SIZE, OUTPUT_TOO_SMALL, WORKSPACE_TOO_SMALL = 1, 3, 6, 7, 8
OPTIONAL = helper.make_optional_type_proto(helper.make_tensor_type_proto(FLOAT, None))
SEQUENCE = helper.make_sequence_type_proto(helper.make_tensor_type_proto(FLOAT, None))


def of_type(name, kind):
    return helper.make_value_info(name, kind)


def collecting_loop(shape, rounds="m"):
    """Collects what its variable was in each round, and the number of the round."""
    body = graph([node("Identity", ["going"], ["going_out"]), node("Add", ["s", "s"], ["s_out"]),
                  node("Identity", ["s"], ["piece"]), node("Identity", ["i"], ["number"])],
                 [info("i", INT64, []), info("going", BOOL, []), info("s", FLOAT, shape)],
                 [info("going_out", BOOL, []), info("s_out", FLOAT, shape), info("piece", FLOAT, shape),
                  info("number", INT64, [])])
    return node("Loop", [rounds, "go", "x"], ["last", "all", "numbers"], body=body, name="rounds")


class EmitLists(Emitted):
    def collecting(self, shape=(3,), sizes=()):
        return Program(self, model_of([collecting_loop(shape)],
                                      [info("m", INT64, []), info("go", BOOL, []), info("x", FLOAT, shape)],
                                      [info("last", FLOAT, shape), info("all", FLOAT, [None, *shape]),
                                       info("numbers", INT64, [None])]), sizes=sizes, late=True, planned=False, rounds=2)

    # ---- what loops collect

    def test_a_loop_of_so_many_rounds_as_an_input_says(self):
        program = self.collecting()
        for m in (0, 1, 2, 7, 100):
            program.check(np.asarray(m), np.asarray(True), self.floats(3), workspace=1 << 20)
        program.check(np.asarray(5), np.asarray(False), self.floats(3))
        kind, said = program.fails(np.asarray(7), np.asarray(True), self.floats(3), capacities=[12, 7 * 12 - 1, 56])
        self.assertEqual((kind, said[0]), (OUTPUT_TOO_SMALL, "an output does not fit its capacity"))
        self.assertIn("dims 7 3", said)

    def test_a_loop_over_open_sizes(self):
        program = self.collecting(shape=("n", 2), sizes=("n",))
        for n in (0, 1, 5):
            for m in (0, 1, 6):
                program.check(np.asarray(m), np.asarray(True), self.floats(n, 2), sizes=(n,))

    def test_a_loop_of_constant_length(self):
        model = model_of([collecting_loop([4], "six")], [info("go", BOOL, []), info("x", FLOAT, [4])],
                         [info("last", FLOAT, [4]), info("all", FLOAT, [None, 4]), info("numbers", INT64, [None])],
                         [constant("six", np.int64(6))])
        Program(self, model, late=True, planned=False).check(np.asarray(True), self.floats(4))

    def test_scan(self):
        body = graph([node("Add", ["sum", "row"], ["sum_out"]), node("Mul", ["sum_out", "row"], ["piece"])],
                     [info("sum", FLOAT, [4]), info("row", FLOAT, [4])],
                     [info("sum_out", FLOAT, [4]), info("piece", FLOAT, [4])])
        for rows in (200, "n"):  # fewer rounds are laid out one behind the other
            sizes = ("n",) if rows == "n" else ()
            for reverse in (0, 1):
                scan = node("Scan", ["start", "x"], ["sum", "pieces"], body=body, num_scan_inputs=1,
                            scan_output_directions=[reverse])
                model = model_of([scan], [info("start", FLOAT, [4]), info("x", FLOAT, [rows, 4])],
                                 [info("sum", FLOAT, [4]), info("pieces", FLOAT, [rows, 4])])
                program = Program(self, model, sizes=sizes, late=True, planned=False)
                program.check(self.floats(4), self.floats(200, 4), sizes=(200,) if sizes else ())

    def test_loops_in_loops(self):
        inner = graph([node("Identity", ["g2"], ["g3"]), node("Mul", ["t", "s"], ["t_out"]),
                       node("Identity", ["t_out"], ["piece"])],
                      [info("j", INT64, []), info("g2", BOOL, []), info("t", FLOAT, [2])],
                      [info("g3", BOOL, []), info("t_out", FLOAT, [2]), info("piece", FLOAT, [2])])
        loop = loop_of([node("Identity", ["going"], ["going_out"]), node("Loop", ["i", "", "s"], ["t", "rows"], body=inner),
                        node("ReduceSum", ["rows", "zero"], ["total"], keepdims=0), node("Add", ["s", "one"], ["s_out"])],
                       [("s", "x", FLOAT, [2])], [("going_out", BOOL, []), ("s_out", FLOAT, [2]), ("total", FLOAT, [2])],
                       ["last", "totals"])
        model = model_of([loop], [info("m", INT64, []), info("go", BOOL, []), info("x", FLOAT, [2])],
                         [info("last", FLOAT, [2]), info("totals", FLOAT, [None, 2])],
                         [constant("one", np.float32(1)), constant("zero", np.asarray([0]))])
        program = Program(self, model, late=True, planned=False, rounds=3)
        for m in (0, 1, 5):
            program.check(np.asarray(m), np.asarray(True), self.floats(2))

    # ---- sequences

    def grown(self, position):
        """A sequence grown in a loop by pieces of different length, joined."""
        inserted = ["list", "piece"] + (["at"] if position else [])
        body = graph([node("Identity", ["going"], ["going_out"]), node("Add", ["i", "one"], ["end"]),
                      node("Reshape", ["end", "one_long"], ["ends"]), node("Slice", ["x", "zero_long", "ends"], ["piece"]),
                      node("SequenceInsert", inserted, ["list_out"])],
                     [info("i", INT64, []), info("going", BOOL, []), of_type("list", SEQUENCE)],
                     [info("going_out", BOOL, []), of_type("list_out", SEQUENCE)])
        return model_of([node("SequenceEmpty", [], ["empty"]), node("SequenceInsert", ["empty", "x"], ["start"]),
                         node("Loop", ["m", "", "start"], ["list"], body=body),
                         node("ConcatFromSequence", ["list"], ["y"], axis=0), node("SequenceLength", ["list"], ["n"])],
                        [info("m", INT64, []), info("x", FLOAT, [9])] + ([info("at", INT64, [])] if position else []),
                        [info("y", FLOAT, [None]), info("n", INT64, [])],
                        [constant("one", np.int64(1)), constant("one_long", np.asarray([1])),
                         constant("zero_long", np.asarray([0]))])

    def test_sequences_grow_in_loops(self):
        program = Program(self, self.grown(False), late=True, planned=False, rounds=2)
        for m in (0, 1, 3, 9, 40):
            program.check(np.asarray(m), self.floats(9))
        program = Program(self, self.grown(True), late=True, planned=False)
        for m, at in ((3, 0), (5, 1), (1, -1), (20, -1), (30, 0)):
            program.check(np.asarray(m), self.floats(9), np.asarray(at))
        for at in (2, -2):
            kind, said = program.fails(np.asarray(1), self.floats(9), np.asarray(at), capacities=[1000, 8])
            self.assertEqual((kind, said[0]), (INDEX, "an index is out of range"))
            self.assertIn("(SequenceInsert, opset 20)", said[1])

    def edited(self):
        """Split, with one taken out; one of what is left, and all of it stacked."""
        return model_of([node("SplitToSequence", ["x", "lengths"], ["list"], axis=1),
                         node("SequenceErase", ["list", "out"], ["less"]), node("SequenceErase", ["list"], ["short"]),
                         node("SequenceAt", ["less", "at"], ["one"]), node("ConcatFromSequence", ["less"], ["y"], axis=1),
                         node("SequenceLength", ["short"], ["n"])],
                        [info("x", FLOAT, [2, "n"]), info("lengths", INT64, [None]), info("out", INT64, []),
                         info("at", INT64, [])],
                        [info("one", FLOAT, [2, None]), info("y", FLOAT, [2, None]), info("n", INT64, [])])

    def test_sequences_are_split_and_taken_apart(self):
        program = Program(self, self.edited(), sizes=("n", "lengths_dim_0"), late=True, planned=False)
        for lengths, out, at in (((1, 2, 3), 0, 1), ((4, 0, 2), 1, -1), ((1, 1, 1, 3), -1, -3), ((0, 6), 0, 0)):
            program.check(self.floats(2, 6), np.asarray(lengths), np.asarray(out), np.asarray(at),
                          sizes=(6, len(lengths)))
        x = self.floats(2, 6)
        for lengths, out, at, kind in (((1, 2, 3), 3, 0, INDEX), ((1, 2, 3), 0, 2, INDEX), ((1, 2, 3), -4, 0, INDEX),
                                       ((1, 2, 2), 0, 0, BAD_VALUE), ((1, 2, 4), 0, 0, BAD_VALUE),
                                       ((-1, 7), 0, 0, BAD_VALUE), ((), 0, 0, BAD_VALUE), ((6,), 0, 0, INDEX)):
            with self.subTest(lengths=lengths, out=out, at=at):
                inputs = (x, np.asarray(lengths, np.int64), np.asarray(out), np.asarray(at))
                with self.assertRaises(Exception):
                    program.runtime(*inputs)
                self.assertEqual(program.fails(*inputs, sizes=(6, len(lengths)), capacities=[1000, 1000, 8])[0], kind)

    def test_pieces_without_their_axis(self):
        model = model_of([node("SplitToSequence", ["x"], ["list"], axis=0, keepdims=0),
                          node("SequenceInsert", ["list", "z", "one"], ["more"]),
                          node("ConcatFromSequence", ["more"], ["y"], axis=1, new_axis=1)],
                         [info("x", FLOAT, ["n", 3]), info("z", FLOAT, ["k"])], [info("y", FLOAT, [3, None])],
                         [constant("one", np.int64(1))])
        program = Program(self, model, sizes=("n", "k"), late=True, planned=False)
        program.check(self.floats(4, 3), self.floats(3), sizes=(4, 3))
        kind, said = program.fails(self.floats(4, 3), self.floats(2), sizes=(4, 2), capacities=[100])
        self.assertEqual((kind, said[0]), (BAD_SIZE, "a size is negative, too large, or does not fit another"))

    def test_an_empty_sequence_cannot_be_joined(self):
        model = model_of([node("SplitToSequence", ["x"], ["list"], axis=0), node("SequenceErase", ["list"], ["less"]),
                          node("ConcatFromSequence", ["less"], ["y"], axis=0)],
                         [info("x", FLOAT, ["n"])], [info("y", FLOAT, [None])])
        program = Program(self, model, sizes=("n",), late=True, planned=False)
        program.check(self.floats(4), sizes=(4,))
        self.assertEqual(program.fails(self.floats(1), sizes=(1,), capacities=[100])[0], BAD_VALUE)

    def test_tensors_that_differ_in_rank(self):
        model = model_of([node("SequenceConstruct", ["x", "z"], ["list"]), node("SequenceAt", ["list", "at"], ["one"])],
                         [info("x", FLOAT, [3]), info("z", FLOAT, [2, 2]), info("at", INT64, [])],
                         [info("one", FLOAT, [None, None])])
        program = Program(self, model, late=True, planned=False)
        program.check(self.floats(3), self.floats(2, 2), np.asarray(1))
        self.assertEqual(program.fails(self.floats(3), self.floats(2, 2), np.asarray(0), capacities=[100])[0], BAD_SIZE)

    # ---- optional values

    def test_optional_values_from_branches(self):
        model = model_of([node("If", ["flag"], ["o"],
                               then_branch=graph([node("Optional", ["x"], ["a"])], [], [of_type("a", OPTIONAL)]),
                               else_branch=graph([node("Optional", [], ["b"], type=OPTIONAL.optional_type.elem_type)], [],
                                                 [of_type("b", OPTIONAL)])),
                          node("OptionalHasElement", ["o"], ["has"])],
                         [info("x", FLOAT, [3]), info("flag", BOOL, [])], [info("has", BOOL, [])])
        program = Program(self, model, planned=False)
        for flag in (True, False):
            program.check(self.floats(3), np.asarray(flag))
        needed = model_of([*model.graph.node, node("OptionalGetElement", ["o"], ["y"], name="get")],
                          list(model.graph.input), [info("has", BOOL, []), info("y", FLOAT, [3])])
        program = Program(self, needed, late=True, planned=False)
        x = self.floats(3)
        program.check(x, np.asarray(True))
        kind, said = program.fails(x, np.asarray(False), capacities=[1, 12])
        self.assertEqual((kind, said[0]), (BAD_VALUE, "a value is not one that the operator allows"))
        self.assertIn('node "get"', said[1])

    # ---- what callers give and get

    def batch(self, **models):
        batch = Batch(self.folder, models, self.flags)
        batch.build()
        return batch, {name: tenon.compile(model, cache=False, threads=1) for name, model in models.items()}

    def check_calls(self, batch, runtime, name, calls, spare=0):
        """The results of calls of a function are those of the runtime."""
        wanted = [list(w) if isinstance(w := runtime[name](*inputs), tuple) else [w] for inputs in calls]
        results = batch.call([(name, inputs, batch.rooms(name, want, spare), 1 << 16) for inputs, want in zip(calls, wanted)])
        for want, result in zip(wanted, results):
            batch.compare(self, name, want, result)

    def edits(self):
        return model_of([node("SequenceInsert", ["s", "x", "at"], ["more"]), node("SequenceAt", ["s", "at"], ["one"]),
                         node("SequenceLength", ["more"], ["n"])],
                        [of_type("s", helper.make_sequence_type_proto(helper.make_tensor_type_proto(FLOAT, [None]))),
                         info("x", FLOAT, [3]), info("at", INT64, [])],
                        [of_type("more", helper.make_sequence_type_proto(helper.make_tensor_type_proto(FLOAT, [None]))),
                         info("one", FLOAT, [None]), info("n", INT64, [])])

    def test_sequences_come_in_and_go_out(self):
        batch, runtime = self.batch(main=self.edits())
        self.assertIn("inputs[0]: sequence of f32[?] s\n", batch.header)
        self.assertIn("outputs[0]: sequence of f32[?] more\n", batch.header)
        sequence = [self.floats(2), self.floats(0), self.floats(5), self.floats(40)]
        self.check_calls(batch, runtime, "main", [(sequence, self.floats(3), np.asarray(at)) for at in (0, 2, 3, -1, -4)])
        self.check_calls(batch, runtime, "main", [([self.floats(1)], self.floats(3), np.asarray(0))], spare=3)

    def test_what_is_wrong_with_lists(self):
        batch, _ = self.batch(main=self.edits())
        x, at = self.floats(3), np.asarray(0)
        sequence = [self.floats(2), self.floats(5)]
        room, one, n = (3, 3 * 64), 5 * 4, 8
        calls = [([self.floats(2), self.floats(2, 2)], BAD_SIZE, room), ([self.floats(2), np.float32(1)], BAD_SIZE, room),
                 (None, BAD_VALUE, room), ([], INDEX, room), (sequence, OUTPUT_TOO_SMALL, (2, 3 * 64)),
                 (sequence, OUTPUT_TOO_SMALL, (3, 3 * 64 - 1)), (sequence, 0, room)]
        results = batch.call([("main", (s, x, at), [r, one, n], 1 << 16) for s, _, r in calls])
        self.assertEqual([kind for kind, *_ in results], [kind for _, kind, _ in calls])
        self.assertEqual([outputs[0][:2] for *_, outputs in results[4:]], [(3, 3 * 64)] * 3)
        self.assertEqual([outputs[0][1] for *_, outputs in results[:4]], [-1] * 4)  # needed: not known
        used = results[-1][2]
        (kind, _, again, _), (less, _, needed, _) = batch.call(
            [("main", (sequence, x, at), [room, one, n], bytes_) for bytes_ in (used, 128)])
        self.assertEqual((kind, again, less), (0, used, WORKSPACE_TOO_SMALL))
        self.assertGreater(needed, 128)

    def test_optional_values_come_in_and_go_out(self):
        models = {}
        for name, kind in (("maybe", helper.make_tensor_type_proto(FLOAT, [None])),
                           ("sequence", helper.make_sequence_type_proto(helper.make_tensor_type_proto(FLOAT, [None])))):
            kind = helper.make_optional_type_proto(kind)
            models[name] = model_of([node("OptionalHasElement", ["o"], ["has"]), node("Identity", ["o"], ["same"])],
                                    [of_type("o", kind)], [info("has", BOOL, []), of_type("same", kind)])
        batch, runtime = self.batch(**models)
        x = self.floats(4)
        self.check_calls(batch, runtime, "maybe", [(x,), (None,)])
        self.check_calls(batch, runtime, "sequence", [([x, self.floats(2)],), ([],), (None,)])
        results = batch.call([("maybe", ([x, x],), [1, (2, 128)], 1 << 16), ("maybe", ([],), [1, (2, 128)], 1 << 16)])
        self.assertEqual([kind for kind, *_ in results], [BAD_VALUE, BAD_VALUE])

    def test_tensors_of_any_rank_come_in_and_go_out(self):
        model = model_of([node("SequenceInsert", ["s", "x"], ["more"])], [of_type("s", SEQUENCE), info("x", FLOAT, [3])],
                         [of_type("more", SEQUENCE)])
        batch, runtime = self.batch(main=model)
        self.assertIn("inputs[0]: sequence of f32[...] s\n", batch.header)
        self.check_calls(batch, runtime, "main", [([self.floats(2, 3, 1), np.asarray(1, np.float32)], self.floats(3)),
                                                  ([], self.floats(3)), ([self.floats(*[1] * 16)], self.floats(3))])
        kind, *_ = batch.call([("main", ([self.floats(*[1] * 17)], self.floats(3)), [(9, 999)], 1 << 16)])[0]
        self.assertEqual(kind, BAD_SIZE)

    # ---- the workspace

    def test_a_workspace_grows_until_it_is_enough(self):
        for program, inputs, capacities in (
                (self.collecting(shape=(40,)), (np.asarray(60), np.asarray(True), self.floats(40)), [160, 9600, 480]),
                (Program(self, self.grown(True), late=True, planned=False),
                 (np.asarray(33), self.floats(9), np.asarray(0)), [2000, 8])):
            wanted = program.runtime(*inputs)
            workspace, tries = 0, 0
            while True:
                kind, _ = program.fails(*inputs, capacities=capacities, workspace=workspace)
                if kind == 0:
                    break
                self.assertEqual(kind, WORKSPACE_TOO_SMALL)
                self.assertGreater(program.used, workspace)
                workspace, tries = program.used, tries + 1
            self.assertGreater(tries, 2)
            _, outputs = program.call(inputs, (), capacities, 1 << 20)
            for want, got in zip(wanted, outputs):
                self.assertEqual(got[:want.nbytes], np.ascontiguousarray(want).tobytes())
            used = program.used
            self.assertLess(used, 1 << 20)
            printed, exact = program.call(inputs, (), capacities, used)
            self.assertEqual((printed[0], exact, program.used), ("0", outputs, used))
            # Doubling costs no more than three times what the lists have in the end, and their records.
            if program.runtime.inputs[0].name == "m" and wanted[0].nbytes == 160:
                self.assertLess(used, 4 * (60 * (192 + 64) + 60 * 2 * 32))


if __name__ == "__main__":
    unittest.main()
