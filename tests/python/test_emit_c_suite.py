#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The ONNX project's node tests of control flow, sequences and optional values through emitted C: all of them as functions of
one object, with the runtime's results byte for byte."""

import contextlib
import io
import os
import tempfile
import unittest
import warnings
from pathlib import Path

import numpy as np
import onnx
from onnx.backend.test.loader import load_model_tests

import tenon
from emit_c_batch import Batch

KINDS = ("If", "Loop", "Scan", "Sequence", "Optional", "SplitToSequence", "ConcatFromSequence")
LEAST = 58
UNSUPPORTED = Path(__file__).resolve().parent.parent / "onnx" / "unsupported.txt"


def operators(graph):
    for node in graph.node:
        yield node.op_type
        for attribute in node.attribute:
            yield from operators(attribute.g)
            for one in attribute.graphs:
                yield from operators(one)


def is_meant(model):
    kinds = [kind for function in model.functions for kind in operators(function)] + list(operators(model.graph))
    return any(kind.startswith(KINDS) for kind in kinds)


def cases():
    """Name, model and inputs of each test."""
    with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")  # of what the package computes for its own tests
        tests = load_model_tests(kind="node")
    for case in tests:
        if is_meant(case.model):
            yield case.name, case.model, list(case.data_sets[0][0])


class Suite(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = Path(scratch.name)

    def test_results_are_those_of_the_runtime(self):
        skipped = {line.split()[0] for line in UNSUPPORTED.read_text(encoding="utf-8").splitlines()
                   if line.strip() and not line.startswith("#")}
        models, calls, wanted = {}, [], {}
        for name, model, inputs in cases():
            if name not in skipped:
                results = tenon.compile(model, cache=False, threads=1)(*inputs)
                models[name], wanted[name] = model, list(results) if isinstance(results, tuple) else [results]
                calls.append((name, inputs))
        self.assertGreaterEqual(len(models), LEAST)
        batch = Batch(self.folder, models, os.environ.get("TENON_CFLAGS", "").split())
        batch.build()
        results = batch.call([(name, inputs, batch.rooms(name, wanted[name]), 1 << 16) for name, inputs in calls])
        for name, result in zip(models, results):
            with self.subTest(name):
                batch.compare(self, name, wanted[name], result)


if __name__ == "__main__":
    unittest.main()
