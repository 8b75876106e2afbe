# SPDX-License-Identifier: Apache-2.0
"""Compiles, runs and checks one node model of each operator in a program under MemorySanitizer, which ends it when a
branch, an address or written bytes depend on memory that was never set."""

import os
import subprocess
import sys
import tempfile
import unittest
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import product

TENON = product.required("TENON_CLI")
COMMON = ["--no-cache", "--no-measure", "--threads", "1", "--target", "x86-64-v3" if os.uname().machine == "x86_64" else "aarch64"]
REPORTED = 86  # the exit status of MemorySanitizer's reports


def node_models(folder):
    """One model of each operator: the smallest."""
    from onnx.backend.test.case.node import collect_testcases

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cases = collect_testcases(None)
    best = {}
    for case in cases:
        if case.model is None or len(case.model.graph.node) != 1:
            continue
        node = case.model.graph.node[0]
        key, size = (node.domain, node.op_type), case.model.ByteSize()
        if key not in best or size < best[key][0]:
            best[key] = size, case
    found = []
    for (domain, op), (_, case) in sorted(best.items()):
        path = folder / f"{domain.replace('.', '_')}{op}.onnx".lower()
        path.write_bytes(case.model.SerializeToString())
        found.append(path)
    return found


def run(*command):
    environment = {**os.environ, "MSAN_OPTIONS": f"exitcode={REPORTED}"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, errors="replace")
    return done.returncode, done.stderr


class InitializedTest(unittest.TestCase):
    def test_one_model_of_each_operator(self):
        with tempfile.TemporaryDirectory() as scratch:
            models = node_models(Path(scratch))

            def both(model):
                compiled, text = run(TENON, "compile", model, *COMMON, "-o", model.with_suffix(".tnx"))
                if compiled != 0:
                    return model.stem, compiled, None, text
                # Random inputs may be refused (indices, strings): an error, and no report.
                ran, text = run(TENON, "run", model, *COMMON, "--check")
                return model.stem, compiled, ran, text

            with ThreadPoolExecutor(2) as pool:
                results = list(pool.map(both, models))
        self.assertGreater(sum(compiled == 0 for _, compiled, _, _ in results), 100)
        self.assertGreater(sum(ran == 0 for _, _, ran, _ in results), 60)
        ends = (0, 1, 2, None)
        self.assertEqual([(name, text[-3000:]) for name, compiled, ran, text in results if compiled not in ends or ran not in ends], [])


if __name__ == "__main__":
    unittest.main()
