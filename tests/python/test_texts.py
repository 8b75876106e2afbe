# SPDX-License-Identifier: Apache-2.0
"""The texts that executables keep: they tell the whole way of each kernel, and `tenon build` goes it again."""

import sys
import tempfile
import unittest
from pathlib import Path

import onnx
from onnx import TensorProto
from product import graph, info, node, tenon, write_mlp

import tenon as binding

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))
import networks

ALL = ("declarations", "graph", "loops", "schedules")


def parts(text):
    """Kernel -> its part of a text: what is between the comment that names it and the next one."""
    found, lines = {}, []
    for line in text.split("\n"):
        if line.startswith(("# ", "// ")):
            lines = found.setdefault(line.split(" ", 1)[1], [])
        else:
            lines.append(line)
    return {name: "\n".join(lines).rstrip("\n") for name, lines in found.items()}


def recurrent():
    """An LSTM, whose weights are inputs: kernels in the body of a loop, and open dimensions."""
    values = {"x": ["time", "batch", 8], "w": [1, 64, 8], "r": [1, 64, 16]}
    outputs = [info("y", TensorProto.FLOAT, ["time", 1, "batch", 16])]
    lstm = node("LSTM", list(values), ["y"], hidden_size=16)
    inputs = [info(name, TensorProto.FLOAT, shape) for name, shape in values.items()]
    return onnx.helper.make_model(graph([lstm], inputs, outputs), ir_version=8,
                                  opset_imports=[onnx.helper.make_opsetid("", 17)])


def scores(*lengths):
    """Attention's scores for so many keys, one after another: declarations of one structure."""
    inputs, outputs, nodes = [], [], []
    for n in lengths:
        shapes = {f"q{n}": [2, 3, 4, 8], f"k{n}": [2, 3, n, 8], f"m{n}": [4, n]}
        inputs += [info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()]
        nodes += [node("Transpose", [f"k{n}"], [f"t{n}"], perm=[0, 1, 3, 2]), node("MatMul", [f"q{n}", f"t{n}"], [f"s{n}"]),
                  node("Add", [f"s{n}", f"m{n}"], [f"y{n}"])]
        outputs.append(info(f"y{n}", TensorProto.FLOAT, [2, 3, 4, n]))
    return onnx.helper.make_model(graph(nodes, inputs, outputs), ir_version=8,
                                  opset_imports=[onnx.helper.make_opsetid("", 17)])


def models():
    encoder = networks.Encoder("encoder", hidden=96, layers=1, heads=4, inner=384)
    yield "lenet5", networks.lenet5()[0], {}
    yield "mobilenet_v2", networks.mobilenet_v2()[0], {}
    yield "an encoder", encoder.build()[0], {}
    yield "an LSTM", recurrent(), {}
    yield "an LSTM, also for one size", recurrent(), {"dims": {"time": [4]}}


class TextsTest(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = Path(scratch.name)

    def stage(self, kernel, stage):
        schedule = () if stage == "te" else ("--schedule", self.folder / "trace")
        return tenon("build", self.folder / "kernels.te", "--kernel", kernel, *schedule, "--emit", stage).stdout.rstrip("\n")

    def test_declarations_and_traces_make_the_same_loops_again(self):
        for name, model, options in models():
            with self.subTest(model=name):
                compiled = binding.compile(model, threads=1, cache=False, texts="all", **options)
                declarations, traces, loops = (parts(compiled.text(text)) for text in ("declarations", "schedules", "loops"))
                self.assertGreater(len(loops), 0)
                self.assertEqual(list(declarations), list(loops))
                self.assertEqual(list(traces), list(loops))
                (self.folder / "kernels.te").write_text(compiled.text("declarations"), encoding="utf-8")
                for kernel in loops:
                    (self.folder / "trace").write_text(traces[kernel] + "\n", encoding="utf-8")
                    self.assertEqual(self.stage(kernel, "te"), declarations[kernel])
                    self.assertEqual(self.stage(kernel, "trace"), traces[kernel])
                    self.assertEqual(self.stage(kernel, "tir"), loops[kernel])

    def test_kernels_of_the_cache_have_the_same_texts(self):
        cache = self.folder / "cache"
        for name, model, options in models():
            with self.subTest(model=name):
                fresh = binding.compile(model, threads=1, cache=False, texts=ALL, **options)
                binding.compile(model, threads=1, cache_directory=cache, **options)
                kernels = sum(path.name.startswith("obj-") for path in cache.iterdir())
                fresh.save(self.folder / "fresh.tnx")
                binding.compile(model, threads=1, cache_directory=cache, texts="all", **options).save(self.folder / "cached.tnx")
                self.assertEqual((self.folder / "fresh.tnx").read_bytes(), (self.folder / "cached.tnx").read_bytes())
                self.assertEqual(kernels, sum(path.name.startswith("obj-") for path in cache.iterdir()))

    def test_a_schedule_does_not_depend_on_the_kernels_before(self):
        both = parts(binding.compile(scores(6, 18), threads=1, cache=False).text("schedules"))
        for length in (6, 18):
            alone = parts(binding.compile(scores(length), threads=1, cache=False).text("schedules"))
            self.assertTrue(any("dot_general" in name for name in alone))
            self.assertEqual({name: both[name] for name in alone}, alone)

    def test_what_is_kept(self):
        model, _, _ = write_mlp(self.folder)
        for texts, kept in ((None, {"schedules"}), ("none", set()), ("all", set(ALL)), (["loops", "graph"], {"loops", "graph"})):
            compiled = binding.compile(model, threads=1, cache_directory=self.folder / "cache", texts=texts)
            self.assertEqual({text for text in ALL if compiled.text(text) is not None}, kept)
            path = self.folder / "model.tnx"
            compiled.save(path)
            self.assertEqual({text for text in ALL if binding.load(path).text(text) is not None}, kept)

    def test_what_cannot_be_kept_is_named(self):
        model, _, _ = write_mlp(self.folder)
        for texts, message in (("loops,,graph", r'there is no text "" that an executable could keep: there are schedules, graph, '
                                "declarations, loops, all and none"),
                               ("loop", 'there is no text "loop" that'),
                               ("none,loops", 'texts to keep are "none,loops": none does not go with others')):
            with self.assertRaisesRegex(binding.Error, message):
                binding.compile(model, texts=texts, cache=False)


if __name__ == "__main__":
    unittest.main()
