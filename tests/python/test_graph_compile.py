# SPDX-License-Identifier: Apache-2.0
"""A graph written as text compiles to the kernels and constants of the model that it came from: a sample of ONNX's suite,
and whole networks. TENON_CLI is the command line; arguments are further models.
"""

import contextlib
import io
import os
import random
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import onnx

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
from identity import digest_model  # noqa: E402

SAMPLE = 60
TARGET = "x86-64-v3"


def suite_models():
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")  # the package computes its expected results as it is imported
        from onnx.backend.test.case.node import collect_testcases

        cases = collect_testcases(None)
    random.Random(14).shuffle(cases)
    return [(case.name, case.model.SerializeToString()) for case in cases]


def written(tenon, model, text):
    run = subprocess.run([tenon, "compile", model, "--emit", "graph", "--target", TARGET, "--threads", "2", "-o", text],
                         capture_output=True, text=True, check=False)
    return run.returncode == 0


def same(tenon, name, model, folder):
    """False when the model is not supported."""
    text = folder / "model.tng"
    if not written(tenon, model, text):
        return False
    want, got = (digest_model(tenon, path, TARGET, folder) for path in (model, text))
    for kind in ("kernels", "constants"):
        without_names = [sorted(entry[1:] for entry in side[kind]) for side in (want, got)]
        if without_names[0] != without_names[1]:
            raise SystemExit(f"{name}: the {kind} of its text are not the model's:\n{want[kind]}\n{got[kind]}")
    return True


def main():
    tenon, done = Path(os.environ["TENON_CLI"]), 0
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        for path in map(Path, sys.argv[1:]):
            if not same(tenon, path.name, path, folder):
                raise SystemExit(f"{path} does not compile")
        for name, data in suite_models():
            model = folder / "model.onnx"
            model.write_bytes(data)
            done += same(tenon, name, model, folder)
            if done == int(os.environ.get("TENON_SAMPLE", SAMPLE)):
                break
    print(f"{done + len(sys.argv) - 1} models")


if __name__ == "__main__":
    main()
