# SPDX-License-Identifier: Apache-2.0
"""Attention in one kernel, and what looks like it but is not, against float64."""

import unittest

import numpy as np
from onnx import TensorProto, helper, numpy_helper

import tenon


def attention_model(batch, heads, rows, keys, depth, columns, mask, merged, names=(None, None)):
    """softmax(Q K^T / sqrt(depth), masked) V as transformers exports it, from [batch, rows, heads, depth]."""
    row_name, key_name = names[0] or rows, names[1] or keys
    inputs = [("q", [batch, row_name, heads, depth]), ("k", [batch, key_name, heads, depth]),
              ("v", [batch, key_name, heads, columns])]
    constants = [numpy_helper.from_array(np.float32(depth**0.5), "root")]
    nodes = [helper.make_node("Transpose", ["q"], ["qh"], perm=[0, 2, 1, 3]),
             helper.make_node("Transpose", ["k"], ["kh"], perm=[0, 2, 3, 1]),
             helper.make_node("Transpose", ["v"], ["vh"], perm=[0, 2, 1, 3]),
             helper.make_node("MatMul", ["qh", "kh"], ["product"]),
             helper.make_node("Div", ["product", "root"], ["scores"])]
    scores = "scores"
    if mask == "added":
        inputs.append(("mask", [batch, 1, 1, key_name]))
        nodes.append(helper.make_node("Add", ["scores", "mask"], ["masked"]))
    if mask == "causal":
        constants += [numpy_helper.from_array(np.tril(np.ones((1, 1, rows, keys), bool)), "seen"),
                      numpy_helper.from_array(np.float32(-1e9), "low")]
        nodes.append(helper.make_node("Where", ["seen", "scores", "low"], ["masked"]))
    if mask:
        scores = "masked"
    nodes += [helper.make_node("Softmax", [scores], ["weights"], axis=-1),
              helper.make_node("MatMul", ["weights", "vh"], ["result"])]
    if merged:
        nodes.append(helper.make_node("Transpose", ["result"], ["merged"], perm=[0, 2, 1, 3]))
    shape = [batch, row_name, heads, columns] if merged else [batch, heads, row_name, columns]
    output = helper.make_tensor_value_info("merged" if merged else "result", TensorProto.FLOAT, shape)
    graph = helper.make_graph(nodes, "attention", [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in inputs],
                              [output], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def expected(feeds, mask, merged):
    q, k, v = (feeds[name].astype(np.float64).transpose(0, 2, 1, 3) for name in "qkv")
    scores = q @ k.transpose(0, 1, 3, 2) / np.float32(q.shape[-1]**0.5)
    if mask == "added":
        scores = scores + feeds["mask"]
    if mask == "causal":
        scores = np.where(np.tril(np.ones(scores.shape[-2:], bool)), scores, -1e9)
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    result = powers / powers.sum(-1, keepdims=True) @ v
    return result.transpose(0, 2, 1, 3) if merged else result


class Attention(unittest.TestCase):
    def feeds(self, batch, heads, rows, keys, depth, columns, mask):
        random = np.random.default_rng(rows * 1000 + keys)
        feeds = {"q": random.standard_normal((batch, rows, heads, depth), np.float32),
                 "k": random.standard_normal((batch, keys, heads, depth), np.float32),
                 "v": random.standard_normal((batch, keys, heads, columns), np.float32)}
        if mask == "added":
            hidden = random.random((batch, 1, 1, keys)) < 0.3
            hidden[..., 0] = False
            feeds["mask"] = np.where(hidden, np.finfo(np.float32).min, 0).astype(np.float32)
        return feeds

    def check(self, batch, heads, rows, keys, depth, columns, mask, merged=True, threads=1, names=(None, None), dims=None):
        model = attention_model(batch, heads, rows, keys, depth, columns, mask, merged, names)
        feeds = self.feeds(batch, heads, rows, keys, depth, columns, mask)
        result, = tenon.compile(model, threads=threads, cache=False, dims=dims).run(feeds).values()
        np.testing.assert_allclose(result, expected(feeds, mask, merged), rtol=0, atol=4e-6)

    def test_sizes(self):
        for rows, keys, depth, columns in ((7, 7, 32, 32), (13, 49, 16, 16), (49, 13, 8, 24), (197, 197, 64, 64), (8, 1, 32, 32),
                                           (9, 5, 3, 7), (128, 128, 32, 32), (64, 64, 100, 100), (33, 2048, 16, 16), (1, 130, 64, 64)):
            for mask in (None, "added", "causal"):
                with self.subTest(rows=rows, keys=keys, depth=depth, columns=columns, mask=mask):
                    self.check(1, 2, rows, keys, depth, columns, mask)

    def test_batches_and_threads(self):
        for batch, heads, threads in ((3, 1, 1), (2, 3, 2), (1, 1, 2), (1, 5, 4)):
            for merged in (True, False):
                with self.subTest(batch=batch, heads=heads, threads=threads, merged=merged):
                    self.check(batch, heads, 48, 56, 24, 40, "added", merged, threads)

    def test_lengths_that_only_the_run_tells(self):
        for mask in (None, "added"):
            for rows, keys in ((7, 7), (40, 53)):
                with self.subTest(rows=rows, keys=keys, mask=mask):
                    self.check(1, 2, rows, keys, 32, 32, mask, names=("rows", "keys"))
                    self.check(1, 2, rows, keys, 32, 32, mask, names=("rows", "keys"), dims={"keys": keys})

    def test_every_short_length_and_those_around_2048(self):
        for threads in (1, 2):
            model = tenon.compile(attention_model(1, 2, 8, 8, 16, 24, "added", True, ("rows", "keys")), threads=threads, cache=False)
            for rows in (*range(1, 71), 2047, 2048, 2049):
                keys = rows if rows % 3 else 2100 - rows
                with self.subTest(rows=rows, keys=keys, threads=threads):
                    feeds = self.feeds(1, 2, rows, keys, 16, 24, "added")
                    result, = model.run(feeds).values()
                    np.testing.assert_allclose(result, expected(feeds, "added", True), rtol=0, atol=4e-6)

    def test_open_batches(self):
        model = attention_model(1, 2, 8, 8, 32, 32, "added", True, ("rows", "keys"))
        for value in (*model.graph.input, *model.graph.output):
            value.type.tensor_type.shape.dim[0].dim_param = "batch"
        for threads in (1, 3):
            compiled = tenon.compile(model, threads=threads, cache=False)
            for batch, rows, keys in ((1, 5, 9), (3, 40, 17), (2, 29, 100)):
                with self.subTest(batch=batch, rows=rows, keys=keys, threads=threads):
                    feeds = self.feeds(batch, 2, rows, keys, 32, 32, "added")
                    result, = compiled.run(feeds).values()
                    np.testing.assert_allclose(result, expected(feeds, "added", True), rtol=0, atol=4e-6)

    def test_more_keys_than_the_stack_holds(self):
        for rows, keys, threads in ((24, 4096, 1), (30, 2049, 2), (9, 20011, 2)):
            for mask in (None, "causal"):
                with self.subTest(rows=rows, keys=keys, mask=mask):
                    self.check(1, 2, rows, keys, 16, 16, mask, threads=threads)

    def test_rows_that_see_nothing(self):
        """A row of -inf has no softmax: its result is not a number, and the rows beside it are what they are."""
        for names in ((None, None), ("rows", "keys")):
            for rows, keys in ((13, 21), (40, 64)):
                model = attention_model(1, 2, rows, keys, 16, 16, "added", True, names)
                mask = next(value for value in model.graph.input if value.name == "mask")
                mask.type.tensor_type.shape.dim[2].Clear()
                mask.type.tensor_type.shape.dim[2].dim_value = rows
                if names[0]:
                    mask.type.tensor_type.shape.dim[2].dim_param = names[0]
                feeds = self.feeds(1, 2, rows, keys, 16, 16, None)
                feeds["mask"] = np.where(np.random.default_rng(rows).random((1, 1, rows, keys)) < 0.5, -np.inf, 0).astype(np.float32)
                feeds["mask"][:, :, :, 0] = 0
                feeds["mask"][:, :, 3::5] = -np.inf
                result, = tenon.compile(model, threads=1, cache=False).run(feeds).values()
                with np.errstate(invalid="ignore"):
                    np.testing.assert_allclose(result, expected(feeds, "added", True), rtol=0, atol=4e-6, equal_nan=True)
                self.assertTrue(np.isnan(result[:, 3::5]).all())
                self.assertEqual(np.isnan(result).sum(), np.isnan(result[:, 3::5]).size)

    def test_one_thread_and_many_agree_to_the_bit(self):
        model = attention_model(1, 4, 61, 77, 32, 32, "added", True)
        random = np.random.default_rng(1)
        feeds = {i.name: random.standard_normal([d.dim_value for d in i.type.tensor_type.shape.dim], np.float32)
                 for i in model.graph.input}
        one = tenon.compile(model, threads=1, cache=False).run(feeds)["merged"]
        many = tenon.compile(model, threads=3, cache=False).run(feeds)["merged"]
        np.testing.assert_array_equal(one, many)


if __name__ == "__main__":
    unittest.main()
