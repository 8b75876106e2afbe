# SPDX-License-Identifier: Apache-2.0
"""RNN, GRU and LSTM of ONNX models against a plain reading of their definitions: rows of the batch with lengths of their
own, both directions, sizes that are whole vectors and not, with and without everything that is optional."""

import itertools
import unittest

import numpy as np
from onnx import TensorProto, helper, numpy_helper

import tenon

FLOAT, INT32 = TensorProto.FLOAT, TensorProto.INT32
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def step(kind, x, h, c, w, r, b, peepholes, linear, most):
    """One step of one row: returns the new h and c. Gates are in ONNX's order; their sums are clipped to [-most,
    most]."""
    def gate(function, value):
        return function(np.clip(value, -most, most))

    n = h.size
    wx = [w[g * n:(g + 1) * n] @ x + b[g * n:(g + 1) * n] for g in range(GATES[kind])]
    rb = [b[(GATES[kind] + g) * n:(GATES[kind] + g + 1) * n] for g in range(GATES[kind])]

    def rh(g, state):
        return r[g * n:(g + 1) * n] @ state + rb[g]

    if kind == "RNN":
        return gate(np.tanh, wx[0] + rh(0, h)), c
    if kind == "GRU":
        z, reset = gate(sigmoid, wx[0] + rh(0, h)), gate(sigmoid, wx[1] + rh(1, h))
        fresh = gate(np.tanh, wx[2] + (reset * rh(2, h) if linear else rh(2, reset * h)))
        return (1 - z) * fresh + z * h, c
    i = gate(sigmoid, wx[0] + rh(0, h) + peepholes[:n] * c)
    f = gate(sigmoid, wx[2] + rh(2, h) + peepholes[2 * n:] * c)
    c = f * c + i * gate(np.tanh, wx[3] + rh(3, h))
    return gate(sigmoid, wx[1] + rh(1, h) + peepholes[n:2 * n] * c) * np.tanh(c), c


def layer(kind, x, w, r, b, lengths, h0, c0, peepholes, directions, linear, most):
    y = np.zeros((x.shape[0], directions, x.shape[1], r.shape[2]))
    for d, row in itertools.product(range(directions), range(x.shape[1])):
        h, c = h0[d, row], c0[d, row]
        for t in range(lengths[row]) if d == 0 else reversed(range(lengths[row])):
            h, c = step(kind, x[t, row], h, c, w[d], r[d], b[d], peepholes[d], linear, most)
            y[t, d, row] = h
    return y


class Recurrent(unittest.TestCase):
    def check(self, kind, batch, hidden, directions, full, linear=False, steps=5, most=0.0):
        """`full`: with everything that may be left out."""
        random = np.random.default_rng(batch * 1000 + hidden)
        features, gates = 6, GATES[kind] * hidden

        def values(*shape):
            return random.standard_normal(shape).astype(np.float32) * np.float32(0.5)

        x, w = values(steps, batch, features), values(directions, gates, features)
        r = values(directions, gates, hidden) / np.float32(hidden ** 0.5)  # larger ones make differences grow
        b = values(directions, 2 * gates) * np.float32(full)
        h0, c0 = (values(directions, batch, hidden) * np.float32(full) for _ in range(2))
        peepholes = values(directions, 3 * hidden) * np.float32(full and kind == "LSTM")
        lengths = random.integers(0, steps + 1, batch).astype(np.int32) if full else np.full(batch, steps, np.int32)
        names = ["x", "w", "r"] + (["b", "lengths", "h0"] if full else [])
        if full and kind == "LSTM":
            names += ["c0", "p"]
        inputs = [helper.make_tensor_value_info("x", FLOAT, ["steps", "batch", features])]
        if full:
            inputs.append(helper.make_tensor_value_info("lengths", INT32, ["batch"]))
        constants = {"w": w, "r": r} | ({"b": b, "h0": h0, "c0": c0, "p": peepholes} if full else {})
        more = {"linear_before_reset": int(linear)} if kind == "GRU" else {}
        if most:
            more["clip"] = most
        node = helper.make_node(kind, names, ["y"], hidden_size=hidden,
                                direction="bidirectional" if directions == 2 else "forward", **more)
        graph = helper.make_graph([node], "g", inputs, [helper.make_tensor_value_info("y", FLOAT, None)],
                                  [numpy_helper.from_array(constants[n], n) for n in constants if n in names])
        model = tenon.compile(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9),
                              threads=1)
        got = model.run({"x": x, "lengths": lengths} if full else {"x": x})["y"]
        expected = layer(kind, x, w, r, b, lengths, h0, c0, peepholes, directions, linear, most or np.inf)
        np.testing.assert_allclose(got, expected, rtol=2e-5, atol=2e-6)

    def test_sizes(self):
        for kind, (batch, hidden) in itertools.product(GATES, [(1, 3), (4, 16), (5, 37), (7, 32), (3, 144)]):
            with self.subTest(kind=kind, batch=batch, hidden=hidden):
                self.check(kind, batch, hidden, 1, full=False)

    def test_everything_that_is_optional(self):
        for kind, (batch, hidden) in itertools.product(GATES, [(1, 17), (6, 32), (9, 5)]):
            with self.subTest(kind=kind, batch=batch, hidden=hidden):
                self.check(kind, batch, hidden, 2, full=True)

    def test_weights_that_no_near_cache_holds(self):
        for kind, hidden, (batch, steps) in itertools.product(("GRU", "LSTM"), (301, 320), [(1, 9), (11, 9), (9, 3)]):
            with self.subTest(kind=kind, batch=batch, hidden=hidden, steps=steps):
                self.check(kind, batch, hidden, 1, full=batch > 9, steps=steps)

    def test_a_reset_after_the_product(self):
        for batch, hidden in [(1, 8), (5, 20)]:
            with self.subTest(batch=batch, hidden=hidden):
                self.check("GRU", batch, hidden, 2, full=True, linear=True)

    def test_clipped_gates(self):
        """The cell state is not clipped: it grows beyond the limit, and h is computed from it."""
        for kind, most in itertools.product(GATES, (0.2, 0.6)):
            with self.subTest(kind=kind, most=most):
                self.check(kind, 3, 20, 2, full=True, steps=9, most=most)


if __name__ == "__main__":
    unittest.main()
