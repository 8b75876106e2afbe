#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The ONNX project's node tests through emitted C, as functions of one object. Results of control flow, sequences
and optional values must equal the runtime's, byte for byte. With --all, all other tests run too, within the suite's
tolerances. With --part K/N, only the K-th of N parts runs, split as in tests/onnx/backend_suite.py."""

import contextlib
import io
import os
import sys
import tempfile
import unittest
import warnings
from pathlib import Path

import numpy as np
import onnx
from onnx.backend.test.loader import load_model_tests

import tenon
from emit_c_batch import Batch, tensors_of

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "onnx"))
from backend_suite import in_part, part_of  # noqa: E402

KINDS = ("If", "Loop", "Scan", "Sequence", "Optional", "SplitToSequence", "ConcatFromSequence")
LEAST, LEAST_OF_ALL = 58, 1600
TABLES = {"LabelEncoder", "TfIdfVectorizer"}  # which emitted C does not do, nor strings
UNSUPPORTED = Path(__file__).resolve().parent.parent / "onnx" / "unsupported.txt"


def operators(graph):
    for node in graph.node:
        yield node.op_type
        for attribute in node.attribute:
            yield from operators(attribute.g)
            for one in attribute.graphs:
                yield from operators(one)


def kinds_of(model):
    return {kind for function in model.functions for kind in operators(function)} | set(operators(model.graph))


def cases():
    """The node tests that the binding passes."""
    with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")  # of what the package computes for its own tests
        tests = load_model_tests(kind="node")
    skipped = {line.split()[0] for line in UNSUPPORTED.read_text(encoding="utf-8").splitlines()
               if line.strip() and not line.startswith("#")}
    return [case for case in tests if case.name not in skipped]


def is_plain(value):
    """Neither strings nor the types for which the package has no array."""
    return all(isinstance(one, (np.ndarray, np.generic)) and one.dtype != object for one in tensors_of(value))


class Suite(unittest.TestCase):
    part = (1, 1)

    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = Path(scratch.name)

    def test_results_are_those_of_the_runtime(self):
        models, calls, wanted = {}, [], {}
        for case in cases():
            if any(kind.startswith(KINDS) for kind in kinds_of(case.model)):
                inputs = list(case.data_sets[0][0])
                results = tenon.compile(case.model, cache=False, threads=1)(*inputs)
                models[case.name] = case.model
                wanted[case.name] = list(results) if isinstance(results, tuple) else [results]
                calls.append((case.name, inputs))
        self.assertGreaterEqual(len(models), LEAST)
        batch = Batch(self.folder, models, os.environ.get("TENON_CFLAGS", "").split())
        batch.build()
        results = batch.call([(name, inputs, batch.rooms(name, wanted[name]), 1 << 16) for name, inputs in calls])
        for name, result in zip(models, results):
            with self.subTest(name):
                batch.compare(self, name, wanted[name], result)

    def run_all(self):
        """The other tests, in batches: one object of all would take long to compile."""
        plain = [case for case in cases() if not kinds_of(case.model) & TABLES
                 and all(is_plain(value) for values in case.data_sets[0] for value in values)]
        self.assertGreaterEqual(len(plain), LEAST_OF_ALL)
        plain = [case for case in plain if in_part(case.name, Suite.part)]
        for start in range(0, len(plain), 60):  # the command takes 64
            with tempfile.TemporaryDirectory() as folder:
                self.run_batch(folder, plain[start:start + 60])

    def run_batch(self, folder, some):
        batch = Batch(folder, {case.name: case.model for case in some}, os.environ.get("TENON_CFLAGS", "").split())
        batch.build()
        results = batch.call([(case.name, list(case.data_sets[0][0]), batch.rooms(case.name, case.data_sets[0][1]), 1 << 24)
                              for case in some])
        for case, (kind, message, _, outputs) in zip(some, results):
            with self.subTest(case.name):
                self.assertEqual((kind, message), (0, "nothing failed"))
                for want, got in zip(case.data_sets[0][1], outputs):
                    arrays = [data for _, data in got[2]] if len(got) == 3 else [got[1]]
                    for one, data in zip(tensors_of(want), arrays, strict=True):
                        have = np.frombuffer(data, one.dtype).reshape(one.shape)
                        # The suite's tolerance is less than half a unit in the last place of bfloat16: two are let pass.
                        rtol = 2**-6 if one.dtype.name == "bfloat16" else case.rtol
                        np.testing.assert_allclose(have.astype(np.float64), one.astype(np.float64), rtol, case.atol)


if __name__ == "__main__":
    if "--part" in sys.argv:
        Suite.part = part_of(sys.argv[sys.argv.index("--part") + 1])
    if "--all" in sys.argv:
        sys.exit(not unittest.TextTestRunner().run(Suite("run_all")).wasSuccessful())
    unittest.main()
