#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Keys and values in one tensor that grows, [2, batch, heads, length, width], as exporters of GPT-2 write it."""

import ctypes
import mmap
import sys
import unittest

import numpy as np
from onnx import TensorProto, helper, numpy_helper

import tenon
from product import graph, info, node

HEADS, WIDTH, CAPACITY = 2, 1024, 24  # a row is a page
FLOAT = TensorProto.FLOAT


def model_of(kind, depends=False):
    """Attention of x to all rows so far; `kind` is how the members of the stack are taken out and put together."""
    nodes = [node("MatMul", ["x", "wk"], ["k"]), node("MatMul", ["x", "wv"], ["v"])]
    if kind == "split":
        nodes += [node("Split", ["past"], ["keys", "values"], axis=0, num_outputs=2),
                  node("Squeeze", ["keys", "front"], ["pk"]), node("Squeeze", ["values", "front"], ["pv"])]
    else:
        nodes += [node("Gather", ["past", "first"], ["pk"], axis=0), node("Gather", ["past", "second"], ["pv"], axis=0)]
    if kind == "transposed":  # Hugging Face's first: keys are put together as columns
        nodes += [node("Transpose", ["pk"], ["pkt"], perm=[0, 1, 3, 2]), node("Transpose", ["k"], ["kt"], perm=[0, 1, 3, 2]),
                  node("Concat", ["pkt", "kt"], ["KT"], axis=-1), node("Transpose", ["KT"], ["K"], perm=[0, 1, 3, 2])]
    else:
        nodes += [node("Concat", ["pk", "k"], ["K"], axis=-2), node("Transpose", ["K"], ["KT"], perm=[0, 1, 3, 2])]
    if depends:
        nodes += [node("ReduceMax", ["K"], ["top"], keepdims=1), node("Mul", ["v", "top"], ["new_v"])]
    nodes += [node("Concat", ["pv", "new_v" if depends else "v"], ["V"], axis=-2),
              node("Unsqueeze", ["K", "front"], ["K1"]), node("Unsqueeze", ["V", "front"], ["V1"]),
              node("Concat", ["K1", "V1"], ["present"], axis=0), node("MatMul", ["x", "KT"], ["scores"]),
              node("Mul", ["scores", "scale"], ["logits"]), node("Softmax", ["logits"], ["weights"], axis=-1),
              node("MatMul", ["weights", "V"], ["y"])]
    rng = np.random.default_rng(3)
    initializers = {"first": np.int64(0), "second": np.int64(-1), "front": np.int64([0]), "scale": np.float32(1 / WIDTH),
                    "wk": rng.normal(size=(WIDTH, WIDTH)).astype(np.float32) / 32,
                    "wv": rng.normal(size=(WIDTH, WIDTH)).astype(np.float32) / 32}
    model = helper.make_model(
        graph(nodes, [info("x", FLOAT, [1, HEADS, "seq", WIDTH]), info("past", FLOAT, [2, 1, HEADS, "past_length", WIDTH])],
              [info("y", FLOAT, [1, HEADS, "seq", WIDTH]), info("present", FLOAT, [2, 1, HEADS, "total", WIDTH])],
              [numpy_helper.from_array(np.asarray(value), name) for name, value in initializers.items()]),
        opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    return model


def compiled(model, **options):
    return tenon.compile(model, cache=False, threads=1, **options)


GROWING = {"aliases": {"present": "past"}, "capacities": {"past_length": CAPACITY}}


class StackedCache(unittest.TestCase):
    def test_only_new_rows_are_written(self):
        libc, page = ctypes.CDLL(None, use_errno=True), mmap.PAGESIZE
        rng = np.random.default_rng(4)
        for kind in ("gather", "split", "transposed"):
            plain, growing = compiled(model_of(kind)), compiled(model_of(kind), **GROWING)
            memory = mmap.mmap(-1, 2 * HEADS * CAPACITY * WIDTH * 4)
            start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
            buffer = np.frombuffer(memory, np.float32).reshape(2, 1, HEADS, CAPACITY, WIDTH)
            buffer[:] = np.nan  # what does not count is not looked at
            past, length = np.zeros((2, 1, HEADS, 0, WIDTH), np.float32), 0
            for seq in (5, 1, 1, 3, 1):
                x = rng.normal(size=(1, HEADS, seq, WIDTH)).astype(np.float32)
                want, past = plain(x, past)
                rows = [(member * CAPACITY + row) * page for member in range(2 * HEADS) for row in range(CAPACITY)
                        if not length <= row < length + seq]
                if page == WIDTH * 4:
                    for row in rows:
                        self.assertEqual(libc.mprotect(ctypes.c_void_p(start + row), ctypes.c_size_t(page), 1), 0)  # PROT_READ
                growing.set_inputs(x=x, past=buffer[:, :, :, :length])
                growing.set_outputs(present=buffer[:, :, :, :length + seq])
                growing.invoke()
                self.assertEqual(libc.mprotect(ctypes.c_void_p(start), ctypes.c_size_t(len(memory)), 3), 0)
                length += seq
                np.testing.assert_allclose(growing.output("y"), want, rtol=1e-4, atol=1e-5)
                np.testing.assert_array_equal(buffer[:, :, :, :length], past)
            growing.set_inputs(x=np.zeros((1, HEADS, CAPACITY, WIDTH), np.float32), past=buffer[:, :, :, :length])
            with self.assertRaisesRegex(tenon.Error, f"{CAPACITY + length} elements along dimension 3 do not fit into {CAPACITY}"):
                growing.invoke()

    def test_without_a_capacity(self):
        with self.assertRaisesRegex(tenon.Error, r'output "present" cannot alias input "past": it is longer along dimension '
                                                 r'"past_length", which needs a capacity'):
            compiled(model_of("gather"), aliases={"present": "past"})

    def test_new_values_that_depend_on_all_keys_are_refused(self):
        with self.assertRaisesRegex(tenon.Error, "no output aliases an input and grows along its dimension"):
            compiled(model_of("gather", depends=True), **GROWING)


if __name__ == "__main__":
    sys.exit(unittest.main())
