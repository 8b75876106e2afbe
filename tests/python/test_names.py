# SPDX-License-Identifier: Apache-2.0
"""Names in models are untrusted. No command prints terminal commands, line ends or direction marks from them, and
emitted C compiles.

ctest sets TENON_CLI."""

import shutil
import subprocess
import tempfile
import unicodedata
import unittest
from pathlib import Path

import numpy as np
from onnx import TensorProto, helper, numpy_helper
from product import required

ROOT = Path(__file__).resolve().parents[2]
ENDING = ("\x1b[31m\r\n\a\b\x01\x7f\u0085\u009b2J\u202e\u2066\u200f\u2028\ufeff\U000e0041*/ int x[-1]; /*\"'\\` <b>&%s%n ??/"
          "\nFORGED: line\\")


def bad(name):
    return name + ENDING


def value(name, dtype, shape):
    return helper.make_tensor_value_info(bad(name), dtype, shape)


def model(change="", rows=2):
    """Every name ends in unprintable characters; `change` introduces one error."""
    weights = numpy_helper.from_array(np.arange(12, dtype=np.float32).reshape(4, 3), bad("w"))
    scale = numpy_helper.from_array(np.ones((2, 2, 5) if change == "rank" else 3, np.float32), bad("scale"))
    if change == "external":
        weights.ClearField("raw_data")
        weights.data_location = TensorProto.EXTERNAL
        weights.external_data.add(key="location", value=bad("data"))
    nodes = [helper.make_node("MatMul", [bad("nowhere" if change == "missing" else "x"), bad("w")], [bad("t")], name=bad("product")),
             helper.make_node(bad("twice"), [bad("t")], [bad("u")], name=bad("call"), domain=bad("local")),
             helper.make_node("Softmax", [bad("u")], [bad("s")], name=bad("softmax"), doc_string=bad("node")),
             helper.make_node("LayerNormalization", [bad("s"), bad("scale")], [bad("y")], name=bad("norm")),
             helper.make_node("Reshape", [bad("t"), bad("shape")], [bad("z")], name=bad("reshape"))]
    if change == "operator":
        nodes.append(helper.make_node(bad("Nope"), [bad("y")], [bad("q")], name=bad("none")))
    if change == "domain":
        nodes.append(helper.make_node("Relu", [bad("y")], [bad("q")], domain=bad("strange")))
    if change == "attribute":
        nodes[2].attribute.append(helper.make_attribute(bad("axis"), 1))
    if change == "twice":
        nodes.append(helper.make_node("Relu", [bad("y")], [bad("t")], name=bad("again")))
    inner = [helper.make_node("Add", [bad("a"), bad("a")], [bad("b")], name=bad("sum"))]
    local = helper.make_function(bad("local"), bad("twice"), [bad("a")], [bad("b")], inner, [helper.make_opsetid("", 17)])
    graph = helper.make_graph(nodes, bad("graph"), [value("x", TensorProto.FLOAT, [rows, 4]), value("shape", TensorProto.INT64, [2])],
                              [value("y", TensorProto.FLOAT, [rows, 3]), value("z", TensorProto.FLOAT, None)], [weights, scale],
                              doc_string=bad("graph"))
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(bad("local"), 1), helper.make_opsetid(bad("strange"), 1)]
    made = helper.make_model(graph, opset_imports=opsets, producer_name=bad("maker"), domain=bad("domain"), functions=[local])
    made.ir_version = 8
    made.metadata_props.add(key=bad("key"), value=bad("value"))
    return made.SerializeToString()


class NamesTest(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = Path(scratch.name)
        np.save(self.folder / "x.npy", np.ones((2, 4), np.float32))
        np.save(self.folder / "shape.npy", np.array([3, 2]))
        np.save(self.folder / "other.npy", np.array([-3, 2]))

    def check_text(self, what, text):
        raw = sorted({f"U+{ord(c):04X}" for c in text if c != "\n" and unicodedata.category(c) in ("Cc", "Cf", "Zl", "Zp")} - {"U+0009"})
        self.assertEqual(raw, [], what)
        self.assertFalse([line for line in text.splitlines() if line.lstrip(" #|").startswith("FORGED")], what)

    def tenon(self, *words, status=0):
        done = subprocess.run([required("TENON_CLI"), *map(str, words)], capture_output=True, cwd=self.folder)
        self.check_text(words, (done.stdout + done.stderr).decode())
        self.assertEqual(done.returncode, status, (words, done.stderr.decode()))
        return done.stdout.decode() + done.stderr.decode()

    def test_commands_show_names(self):
        (self.folder / "m.onnx").write_bytes(model())
        (self.folder / "open.onnx").write_bytes(model(rows=bad("N")))
        for words in (["run", "m.onnx"], ["run", "m.onnx", "--json"], ["run", "m.onnx", "--check"], ["run", "m.onnx", "--profile"],
                      ["run", "m.onnx", "--profile", "trace.json"], ["explain", "m.onnx", "--no-run"], ["explain", "m.onnx", "--json"],
                      ["inspect", "m.onnx"], ["inspect", "m.onnx", "--json"], ["inspect", "open.onnx"],
                      ["compile", "open.onnx", "-o", "open.tnx"], ["compile", "m.onnx", "-o", "m.tnx", "--texts", "all"],
                      ["inspect", "m.tnx"], ["inspect", "m.tnx", "--json"], ["inspect", "m.tnx", "--text"], ["inspect", "open.tnx"],
                      ["inspect", "m.tnx", "--schedules"], ["run", "m.tnx"],
                      ["compile", "m.onnx", "-o", "d.tnx", "--explain-devices"],
                      ["compile", "m.onnx", "-o", "d.tnx", "--print-after", "all"],
                      *(["compile", "m.onnx", "--emit", stage] for stage in ("graph", "te", "schedule", "tir", "llvm", "asm"))):
            with self.subTest(words=words):
                self.tenon(*words)
        self.check_text("the trace", (self.folder / "trace.json").read_text())

    def test_errors_show_names(self):
        (self.folder / "m.onnx").write_bytes(model())
        (self.folder / "open.onnx").write_bytes(model(rows=bad("N")))
        for words in (["run", "open.onnx"], ["run", "m.onnx", "--input", "none=x.npy"], ["explain", "open.onnx"],
                      ["run", "m.onnx", "--input", bad("x") + "=x.npy", "--input", bad("shape") + "=other.npy"],
                      ["run", "m.onnx", "--input", bad("x") + "=shape.npy"], ["compile", "m.onnx", "-o", "x.tnx", "--alias", "y=x"],
                      ["compile", "m.onnx", "-o", "x.tnx", "--dim", "none=3"]):
            with self.subTest(words=words):
                self.tenon(*words, status=1)
        for change in ("missing", "operator", "domain", "rank", "attribute", "twice", "external"):
            (self.folder / "wrong.onnx").write_bytes(model(change))
            for command in ("compile", "run", "explain"):
                with self.subTest(change=change, command=command):
                    self.tenon(command, "wrong.onnx", status=1, *(["-o", "w.tnx"] if command == "compile" else []))

    def test_emitted_c_compiles(self):
        (self.folder / "m.onnx").write_bytes(model())
        compilers = [name for name in ("gcc", "clang-19") if shutil.which(name)]
        for target, name in (("c99", "portable"), ("native", "machine")):
            self.tenon("compile", "m.onnx", "--emit", "c", "-o", name, "--target", target)
            files = [name + ".h"] + ([name + ".c"] if target == "c99" else [])
            for file in files:
                self.check_text(file, (self.folder / file).read_text())
            (self.folder / "use.c").write_text(f'#include "{name}.h"\n')
            for compiler in compilers:
                for file in ["use.c", *files[1:]]:
                    done = subprocess.run([compiler, "-std=c99", "-Wall", "-Wextra", "-Werror", f"-I{ROOT}/include", "-c", file, "-o",
                                           "out.o"], cwd=self.folder, capture_output=True, text=True)
                    self.assertEqual(done.returncode, 0, (compiler, file, done.stderr))


if __name__ == "__main__":
    unittest.main()
