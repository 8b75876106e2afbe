# SPDX-License-Identifier: Apache-2.0
"""Graphs written as text read back as themselves: every model of ONNX's suite, as it is and with every dimension of its
inputs open, as imported and optimised. The program TENON_GRAPH_TEXT (tests/tools/graph_text.c) does it; arguments are
further models.
"""

import contextlib
import io
import os
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import onnx

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "onnx"))
from attack_suite import dimensions, opened_model  # noqa: E402

FLOOR = 2900  # models that must come through: what is not supported is refused before there is a graph


def suite_models(folder):
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")  # the package computes its expected results as it is imported
        from onnx.backend.test.case.node import collect_testcases

        cases = collect_testcases(None)
    for case in cases:
        names = [value.name for value in case.model.graph.input]
        opened = opened_model(case.model, names, dimensions(case.model, names))
        for suffix, model in (("", case.model), (".open", opened)):
            path = folder / f"{case.name}{suffix}.onnx"
            path.write_bytes(model.SerializeToString())
            yield path
    yield from sorted((Path(onnx.__file__).parent / "backend" / "test" / "data").rglob("*.onnx"))


def main():
    with tempfile.TemporaryDirectory() as folder:
        paths = [*suite_models(Path(folder)), *sys.argv[1:]]
        fine = 0
        for first in range(0, len(paths), 500):
            run = subprocess.run([os.environ["TENON_GRAPH_TEXT"], *paths[first:first + 500]], stdout=subprocess.PIPE,
                                 text=True, errors="replace", check=False)
            fine += sum(line.endswith(": ok") for line in run.stdout.splitlines())
            if run.returncode != 0:
                raise SystemExit(f"{run.stdout}status {run.returncode}")
    print(f"{fine} of {len(paths)} models are text that reads back")
    if fine < FLOOR:
        raise SystemExit(f"at least {FLOOR} must be")


if __name__ == "__main__":
    main()
