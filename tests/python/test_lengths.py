# SPDX-License-Identifier: Apache-2.0
"""One compilation for every length: an encoder with 2,048 places runs at lengths of every kind, without compiling again."""

import sys
import unittest
from pathlib import Path

import numpy as np
from onnx.reference import ReferenceEvaluator

import tenon

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))
import networks

VOCABULARY, LONGEST = 64, 2048
# All tails of the tiles that there are, what is around powers of two and multiples of odd tile sizes, primes, the ends.
LENGTHS = sorted({*range(1, 35), *(edge + step for edge in (48, 64, 96, 128, 192, 256, 384, 512, 1024) for step in (-1, 0, 1)),
                  41, 97, 251, 343, 509, 769, 1021, 1531, 2039, LONGEST - 1, LONGEST})


def encoder(length):
    return networks.Encoder("encoder", hidden=48, layers=1, heads=3, inner=80, vocabulary=VOCABULARY,
                            positions=LONGEST).build(length)[0]


def sentence(length):
    """Tokens of both kinds, of which the last third does not count."""
    rng = np.random.default_rng(length)
    counts = (np.arange(length) < (2 * length + 2) // 3).astype(np.int64)
    return {"input_ids": rng.integers(0, VOCABULARY, (1, length)), "attention_mask": counts[None],
            "token_type_ids": rng.integers(0, 2, (1, length))}


class LengthsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.model = encoder(None)

    def assert_right(self, compiled, names, expected, length):
        results = dict(zip(names, compiled(**sentence(length))))
        for name, value in expected.items():
            np.testing.assert_allclose(results[name], value, rtol=1e-4, atol=2e-5, err_msg=f"{name} of {length} tokens")

    def test_every_length_is_right(self):
        names = [output.name for output in self.model.graph.output]
        reference = ReferenceEvaluator(self.model)
        open_models = [tenon.compile(self.model, threads=threads, cache=False) for threads in (1, 2)]
        for length in LENGTHS:
            expected = dict(zip(names, reference.run(None, sentence(length))))
            for compiled in open_models:
                self.assert_right(compiled, names, expected, length)

    def test_an_open_length_says_what_a_known_one_does(self):
        names = [output.name for output in self.model.graph.output]
        compiled = tenon.compile(self.model, threads=1, cache=False)
        for length in (1, 7, 130, LONGEST - 1, LONGEST):
            exact = tenon.compile(self.model, threads=1, cache=False, dims={"sequence": length})
            self.assert_right(compiled, names, dict(zip(names, exact(**sentence(length)))), length)


if __name__ == "__main__":
    unittest.main()
