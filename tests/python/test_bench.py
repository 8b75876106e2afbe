# SPDX-License-Identifier: Apache-2.0
"""The benchmarks' generators and comparisons of answers. Nothing here is timed.

ctest sets TENON_BENCH_PROGRAMS, the folder of the programs bench_machine and bench_tenon, beside which bench_numerics is.
"""

import contextlib
import io
import json
import math
import re
import sys
import tempfile
import types
import unittest
import unittest.mock
from pathlib import Path

import numpy as np
import onnx
import tenon
from onnx import numpy_helper
from onnx.reference import ReferenceEvaluator
from product import required

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))

import bench_declarations  # noqa: E402
import bench_kernels  # noqa: E402
import bench_devices  # noqa: E402
import bench_lengths  # noqa: E402
import bench_models  # noqa: E402
import bench_numerics  # noqa: E402
import bench_operators  # noqa: E402
import declaration_engines  # noqa: E402
import kernel_cases  # noqa: E402
import measure  # noqa: E402
import networks  # noqa: E402
import operator_cases  # noqa: E402
import publish  # noqa: E402
import serve  # noqa: E402

# What torchvision and transformers give for sum(p.numel() for p in model.parameters()).
PARAMETERS = {"lenet5": 61706, "squeezenet1_1": 1235496, "mobilenet_v2": 3504872, "resnet50": 25557032,
              "minilm": 22713216}


def count_parameters(model):
    """Elements of the weights, without the running means and variances, which are no parameters."""
    sizes = {tensor.name: int(np.prod(tensor.dims)) for tensor in model.graph.initializer
             if tensor.dims and numpy_helper.to_array(tensor).dtype == np.float32}
    running = sum(sizes[name] for node in model.graph.node if node.op_type == "BatchNormalization"
                  for name in node.input[3:])
    return sum(sizes.values()) - running


def small_cases():
    yield kernel_cases.product("product", 5, 33, 17, "b")
    yield kernel_cases.product("product", 7, 19, 40, "a")
    yield kernel_cases.product("product", 6, 8, 10, None, batch=3)
    yield kernel_cases.product("vector", 1, 64, 48, "b")
    yield kernel_cases.convolution("images", 6, 10, 3, 2, 1, 9)
    yield kernel_cases.convolution("images", 8, 8, 3, 1, 8, 7)
    yield from kernel_cases.memory_cases("memory", 64 << 10)
    yield kernel_cases.call_case()


class NetworksTest(unittest.TestCase):
    def test_parameters_are_those_of_the_originals(self):
        for name, expected in PARAMETERS.items():
            with self.subTest(name):
                model, _ = networks.BUILDERS[name]()
                self.assertEqual(count_parameters(model), expected)

    def check(self, model, feeds):
        compiled = tenon.compile(model.SerializeToString(), threads=1)
        results = compiled.run(feeds)
        expected = ReferenceEvaluator(model).run(None, feeds)
        self.assertEqual(len(results), len(expected))
        ours = [results[value.name] for value in compiled.outputs]
        self.assertLess(measure.largest_difference(ours, expected), 1e-4)

    def test_a_decoder_updates_its_cache(self):
        model, feeds = networks.Decoder("decoder", hidden=48, layers=2, heads=3, capacity=12, vocabulary=101).build()
        self.check(model, feeds)
        expected = ReferenceEvaluator(model).run(None, feeds)
        aliased = tenon.compile(model.SerializeToString(), threads=1, aliases={"present.*": "past.*"})
        buffers = self.buffers(aliased, feeds)
        aliased.set_inputs({name: buffers[name] for name in feeds})
        aliased.set_outputs({value.name: buffers[value.name] for value in aliased.outputs})
        aliased.invoke()
        self.assertLess(measure.largest_difference([buffers[value.name] for value in aliased.outputs], expected), 1e-4)
        for name in feeds:
            if name.startswith("past."):
                changed = np.flatnonzero((buffers[name] != feeds[name]).any(axis=(0, 1, 3)))
                self.assertEqual(list(changed), list(feeds["cache_position"]))

    @staticmethod
    def buffers(model, feeds):
        return serve.bound_buffers(*([(value.name, value.shape, value.dtype, value.capacity) for value in values]
                                     for values in (model.inputs, model.outputs)), feeds)

    def test_a_decoder_grows_its_cache(self):
        model, feeds = networks.GrowingDecoder("growing", hidden=48, layers=2, heads=3, capacity=12,
                                               vocabulary=101).build()
        self.check(model, feeds)
        expected = ReferenceEvaluator(model).run(None, feeds)
        growing = tenon.compile(model.SerializeToString(), threads=1, aliases={"present.*": "past.*"},
                                capacities={"past": 20})
        self.assertEqual(growing.inputs[1].capacity, (None, None, 20, None))
        buffers = self.buffers(growing, feeds)
        growing.set_inputs({name: buffers[name] for name in feeds})
        growing.set_outputs({value.name: buffers[value.name] for value in growing.outputs})
        growing.invoke()
        self.assertLess(measure.largest_difference([buffers[value.name] for value in growing.outputs], expected), 1e-4)

    def test_a_growing_decoder_generates_as_a_copying_one_does(self):
        """A prompt and then token by token, in one function and one buffer for each cache."""
        model, feeds = networks.GrowingDecoder("growing", hidden=48, layers=2, heads=3, capacity=2,
                                               vocabulary=101).build()
        copying = tenon.compile(model.SerializeToString(), threads=1)
        growing = tenon.compile(model.SerializeToString(), threads=1, aliases={"present.*": "past.*"},
                                capacities={"past": 64})
        caches = [name for name in feeds if name.startswith("past.")]
        dense = {name: np.zeros((1, 3, 0, 16), np.float32) for name in caches}
        rooms = {name: serve.aligned(np.zeros((1, 3, 64, 16), np.float32)) for name in caches}
        ids, past = np.array([[5, 7, 11, 13, 2]]), 0
        while past < 50:
            new = ids.shape[1]
            wanted = copying.run({"input_ids": ids, **dense})
            growing.set_inputs({"input_ids": ids, **{name: rooms[name][:, :, :past] for name in caches}})
            growing.set_outputs({name.replace("past", "present"): rooms[name][:, :, :past + new] for name in caches})
            growing.invoke()
            logits = growing.output("logits")
            self.assertLess(measure.largest_difference([logits], [wanted["logits"]]), 1e-4)
            past += new
            for name in caches:
                dense[name] = wanted[name.replace("past", "present")]
                self.assertLess(measure.largest_difference([rooms[name][:, :, :past]], [dense[name]]), 1e-4)
            ids = wanted["logits"][:, -1].argmax(axis=-1)[:, None]

    def test_lenet(self):
        self.check(*networks.lenet5())

    def test_encoder(self):
        for length in (networks.SEQUENCE, None):
            encoder = networks.Encoder("small", hidden=24, layers=2, heads=3, inner=40, vocabulary=50,
                                       positions=networks.SEQUENCE)
            self.check(*encoder.build(length))


class CasesTest(unittest.TestCase):
    def test_a_device_that_takes_too_long_is_a_complaint(self):
        row = {"model": "m", "threads": 2, "ratio": 3.0, "difference": 1e-6}
        options = bench_devices.parse_arguments(["--limit", "2.5"])
        self.assertEqual(list(bench_devices.complaints_of(row, options)),
                         ["m, 2 threads: 3.00 times the CPU's time, the limit is 2.5"])
        self.assertEqual(list(bench_devices.complaints_of(row | {"ratio": 2.0}, options)), [])
        self.assertEqual(list(bench_devices.complaints_of(row | {"ratio": 2.0, "difference": 0.1}, options)),
                         ["m, 2 threads: the answers differ by 1.0e-01 of the largest output"])

    def test_lengths_are_spread(self):
        lengths = bench_lengths.spread(32, 512)
        self.assertEqual((lengths[0], lengths[-1]), (1, 512))
        self.assertEqual(len(lengths), 32)
        self.assertEqual(bench_lengths.spread(10, 512), [1, 2, 4, 8, 16, 32, 64, 128, 256, 512])

    def test_networks_have_as_many_distinct_convolutions_as_torchvision_s(self):
        self.assertEqual(len(kernel_cases.resnet50_shapes()), 23)
        self.assertEqual(len(kernel_cases.mobilenet_v2_shapes()), 30)

    def test_traffic_of_maps_and_reductions(self):
        for label, total in kernel_cases.FOOTPRINTS.items():
            for case in kernel_cases.memory_cases(label, total):
                with self.subTest(f"{label} {case.name}"):
                    self.assertTrue(0.7 * total <= case.bytes <= 1.1 * total, case.bytes)
                    elements = sum(map(math.prod, [*case.inputs.values(), case.output]))
                    self.assertEqual(case.bytes, 4 * elements)
                    self.assertEqual(case.stream == "read", math.prod(case.output) < elements / 10)

    def test_models_are_held_to_the_roofline_of_their_kernels(self):
        def kernel(calls, seconds, share):
            return {"calls": calls, "measured_seconds": seconds, "roofline_share": share}

        kernels = [kernel(2, 0.003, 0.5), kernel(1, 0.001, 0.25), kernel(0, None, None)]
        self.assertAlmostEqual(bench_models.least_of({"kernels": kernels}), 3.25)
        self.assertIsNone(bench_models.least_of({"kernels": [kernel(1, 0.001, None)]}))
        self.assertIsNone(bench_models.least_of({"kernels": []}))

    def test_turns_are_held_to_the_limits_beside_them(self):
        case = kernel_cases.Case("", "", [], {}, {}, (), instructions=10.0, bytes=1000)
        turns = {"fma": [[10.0, 10.0], [10.0, 10.0], [80.0, 80.0]], "memory": [[9.0, 10.0, 90.0], [20.0], [20.0]],
                 "tenon": [[20.0, 90.0, 1.0], [20.0], [100.0]]}
        share, least, bound = bench_kernels.roofline(case, turns, {"fma": "20"}, 1)
        # The turns: memory 10 of 20, memory 20 of 20, arithmetic 80 of 100.
        self.assertAlmostEqual(share, 0.8)
        self.assertEqual((least, bound == "arithmetic"), (20.0, False))

    def test_programs_agree_with_the_reference(self):
        options = types.SimpleNamespace(programs=Path(required("TENON_BENCH_PROGRAMS")), check=True, clock="wall")
        report = {"rows": [], "complaints": [], "limits": []}
        cases = list(small_cases())
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            bench_kernels.run_cases(cases, 1, options, report, lambda model, feeds: ReferenceEvaluator(model).run(
                None, feeds)[0])
        self.assertEqual(report["complaints"], [])
        self.assertEqual(len(printed.getvalue().splitlines()), len(cases))

    def test_a_wrong_answer_is_a_complaint(self):
        options = types.SimpleNamespace(programs=Path(required("TENON_BENCH_PROGRAMS")), check=True, clock="wall")
        report = {"rows": [], "complaints": [], "limits": []}
        with contextlib.redirect_stdout(io.StringIO()):
            bench_kernels.run_cases([kernel_cases.product("product", 5, 33, 17, "b")], 1, options, report,
                                    lambda model, feeds: ReferenceEvaluator(model).run(None, feeds)[0] + 1)
        self.assertEqual(len(report["complaints"]), 1)
        self.assertIn("tenon: its answer differs from the reference", report["complaints"][0])


class OperatorsTest(unittest.TestCase):
    def test_every_operator_gives_what_its_model_declares(self):
        names = set()
        for case in operator_cases.all_cases():
            with self.subTest(case.name):
                self.assertNotIn(case.name, names)
                names.add(case.name)
                model, feeds = case.build()
                compiled = tenon.compile(model.SerializeToString(), threads=1, cache=False)
                results = compiled.run(feeds)
                self.assertEqual(len(results), case.outputs)
                for output in model.graph.output:
                    declared = output.type.tensor_type
                    self.assertEqual(results[output.name].dtype, onnx.helper.tensor_dtype_to_np_dtype(declared.elem_type))
                    for have, dim in zip(results[output.name].shape, declared.shape.dim):
                        self.assertEqual(have, dim.dim_value or have)

    def test_models_are_the_same_each_time(self):
        case = next(operator_cases.all_cases())
        (model, feeds), (again, fed) = case.build(), case.build()
        self.assertEqual(model, again)
        np.testing.assert_array_equal(feeds["x0"], fed["x0"])

    def test_only_rounding_excuses_a_difference(self):
        case = operator_cases.Case("", "", None, steps=1)
        rounded, exact = np.array([3, 200], np.uint8), np.array([3.0, 200.0], np.float32)
        self.assertEqual(bench_operators.agreement(case, [rounded], [rounded])[1], False)
        self.assertEqual(bench_operators.agreement(case, [rounded], [rounded + np.uint8(1)])[1], False)
        self.assertEqual(bench_operators.agreement(case, [rounded], [rounded + np.uint8(2)])[1], True)
        self.assertEqual(bench_operators.agreement(case, [rounded, exact], [rounded, exact + 1])[1], True)
        self.assertEqual(bench_operators.agreement(case, [exact * np.nan], [exact])[1], True)

    def test_the_slowest_are_named(self):
        rows = [{"operator": name, "threads": 1, "difference": 0.5, "wrong": name == "b",
                 **bench_operators.summarize_turns({"tenon": [{"cpu": [9, ms, ms]}], "onnxruntime": [{"cpu": [9, 2, 2]}]},
                                                   "cpu")} for name, ms in (("a", 1), ("b", 4))]
        printed, complaints = io.StringIO(), []
        with contextlib.redirect_stdout(printed):
            bench_operators.summarize(rows, complaints)
        self.assertEqual(printed.getvalue(), "beside ONNX Runtime, threads 1: 1.00 (geometric mean of 2; 1 above 1; "
                                             "worst: b 2.00, a 0.50)\n")
        self.assertEqual(complaints, ["b, 1 threads: answers differ by 5.0e-01 of the largest output"])


class DeclarationsTest(unittest.TestCase):
    def run_bench(self, *arguments):
        output, errors = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
            status = bench_declarations.main(["--check", "--cli", required("TENON_CLI"), *arguments])
        return status, output.getvalue(), errors.getvalue()

    def test_every_declaration_has_its_loops_or_is_an_application_of_halides(self):
        cases = bench_declarations.read_cases()
        self.assertGreaterEqual(len(cases), 120)
        pipelines = (ROOT / "bench" / "halide_applications.py").read_text(encoding="utf-8")
        for case in cases:
            engines = declaration_engines.engines_of(case, {"numpy": None, "torch": None, "halide": None})
            if case["class"] == "applications":
                self.assertIn(f'"{case["kernel"]}": ', pipelines)
            else:
                self.assertEqual(engines, ["tenon", "plain"], case["kernel"])
        kernels = sum(len(re.findall(r"^kernel \w+\(", path.read_text(), re.MULTILINE))
                      for path in declaration_engines.FOLDER.glob("*.te"))
        self.assertEqual(kernels, len(cases))

    def test_sizes_may_be_constants(self):
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "odd.te").write_text("const N = 9 / 2\nconst M = N + 1\nkernel part[R](X: f32[R]) -> Y: f32[R] { Y[i] = X[i] }\n"
                                                 "kernel odd(X: f32[2 * M, N]) -> Y: f32[M] { Y[i] = X[i, 0] }\n")
            with unittest.mock.patch.object(declaration_engines, "FOLDER", Path(folder)):
                case, = bench_declarations.read_cases()
        self.assertEqual(case, {"class": "odd", "kernel": "odd", "inputs": [("X", [10, 4], "f32")], "outputs": [("Y", [5], "f32")]})

    def test_answers_agree(self):
        status, output, errors = self.run_bench("--only", "product_complex|knapsack|brightness|any_row|equalise$", "--peers",
                                                "plain", "numpy", "--threads", "1", "--threads", "2")
        self.assertEqual((status, errors), (0, ""))
        self.assertEqual(len([line for line in output.splitlines() if re.search(r" [12]  .*e[-+]\d\d", line)]), 10)

    def test_a_build_that_takes_too_long_is_a_row(self):
        status, output, errors = self.run_bench("--only", "linear/product_nn", "--peers", "plain", "--build-limit", "0.0001")
        self.assertEqual((status, errors), (0, ""))
        self.assertRegex(output, r"product_nn +1 +failed .*\n  Tenon: tenon build did not end in 0 s\n")

    def test_what_nobody_else_has_is_a_complaint(self):
        status, _, errors = self.run_bench("--only", "camera_pipe", "--peers", "plain")
        self.assertEqual((status, errors), (1, "bench: camera_pipe: nothing to compare with: no peer has it\n"))

    def test_the_summary_counts_and_takes_means(self):
        def row(kernel, seconds, **ratios):
            return {"class": "c", "kernel": kernel, "threads": 1, "tenon": seconds, "failed": {}, "ratios": ratios,
                    "ratio": max(ratios.values())}

        rows = [row("a", 1e-3, plain=2.0, adams2019=0.5), row("b", 1e-6, plain=4.0), row("c", 1e-3, plain=0.5, adams2019=2.0),
                {"class": "c", "kernel": "d", "threads": 1, "failed": {"tenon": "took long"}, "ratios": {}}]
        self.assertEqual(bench_declarations.summary_of(rows), [{
            "threads": 1, "rows": 4, "beside_gcc": 3, "slower_than_gcc": ["a"], "best_peer_over_tenon": unittest.mock.ANY,
            "beside_adams2019": 2, "adams2019_over_tenon": 1.0, "worst_adams2019_over_tenon": 0.5,
            "worst_beside_adams2019": "c", "not_built": ["d"]}])
        self.assertAlmostEqual(bench_declarations.summary_of(rows)[0]["best_peer_over_tenon"], 16 ** (-1 / 3))

    def test_a_wrong_answer_is_a_complaint(self):
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "odd.te").write_text("kernel odd(X: f32[3]) -> Y: f32[3] { Y[i] = X[i] }\n")
            (Path(folder) / "odd.c").write_text("void odd(const float *X, float *Y) { for (int i = 0; i < 3; i++) Y[i] = -X[i]; }\n")
            (Path(folder) / "repeat.c").write_text((declaration_engines.FOLDER / "repeat.c").read_text())
            with unittest.mock.patch.object(declaration_engines, "FOLDER", Path(folder)):
                status, _, errors = self.run_bench()
        self.assertEqual((status, errors), (1, "bench: odd: the answers differ by 2.0e+00\n"))

    def test_a_declaration_that_cannot_be_built_is_named(self):
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "odd.te").write_text("kernel odd(X: f32[3]) -> Y: f32[3] { Y[i] = Z[i] }\n")
            (Path(folder) / "odd.c").write_text("void odd(const float *X, float *Y) { Y[0] = X[0]; }\n")
            (Path(folder) / "repeat.c").write_text((declaration_engines.FOLDER / "repeat.c").read_text())
            with unittest.mock.patch.object(declaration_engines, "FOLDER", Path(folder)):
                status, _, errors = self.run_bench()
        self.assertEqual(status, 1)
        self.assertRegex(errors, r"^bench: odd: .*odd.te:1:\d+: error: ")


class MeasureTest(unittest.TestCase):
    def test_a_nan_is_a_difference(self):
        one = np.ones(3, np.float32)
        self.assertEqual(measure.largest_difference([one], [one]), 0)
        self.assertEqual(measure.largest_difference([one * 0], [one * 0]), 0)
        self.assertFalse(measure.largest_difference([np.array([1, np.nan, 1], np.float32)], [one]) <= 1)

    def test_shapes_must_agree(self):
        with self.assertRaisesRegex(measure.BenchError, "output 0 is float32 .3,. in one runtime"):
            measure.largest_difference([np.ones(3, np.float32)], [np.ones(4, np.float32)])

    def test_servers_that_end_say_how(self):
        with self.assertRaisesRegex(measure.BenchError, "^x: the process said 'no JSON'$"):
            measure.Server("x", [sys.executable, "-c", "print('no JSON')"])
        with self.assertRaisesRegex(measure.BenchError, "^x: the process ended with status 3: oh$"):
            measure.Server("x", [sys.executable, "-c", "import sys; print('oh', file=sys.stderr); sys.exit(3)"])


class NumericsTest(unittest.TestCase):
    """A sparse sample of every function is within the bounds that docs/numerics.md states; a smaller bound is not."""

    def run_bench(self, *arguments):
        programs = Path(required("TENON_BENCH_PROGRAMS")).parent
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = bench_numerics.main(["--programs", str(programs), "--threads", "2", *arguments])
        return code, out.getvalue().splitlines(), err.getvalue()

    def test_every_function_of_the_page(self):
        code, rows, errors = self.run_bench("--step", "40009")
        self.assertEqual((code, errors), (0, ""))
        self.assertEqual([row.split()[0] for row in rows[1:]],
                         list(bench_numerics.read_bounds(bench_numerics.PAGE.read_text(encoding="utf-8"))))
        self.assertTrue(all(int(row.split()[1]) >= 2**32 // 40009 for row in rows[1:]))

    def test_a_bound_that_is_passed(self):
        page = Path(self.enterContext(tempfile.TemporaryDirectory())) / "numerics.md"
        page.write_text("| `erf` | 0.5 | 1.5 |\n| `sqrt` | 0.5 | 0.5 |\n")
        with unittest.mock.patch.object(bench_numerics, "PAGE", page):
            code, rows, errors = self.run_bench("--step", "40009")
        self.assertEqual((code, errors), (1, "bench: beyond the bounds of docs/numerics.md: erf\n"))
        self.assertTrue(rows[1].endswith("BEYOND THE BOUND") and not rows[2].endswith("BEYOND THE BOUND"))

    def test_refusals(self):
        for arguments, text in ((["gamma"], "states no bound for gamma"), (["--step", "0"], "--step must be from 1")):
            with contextlib.redirect_stderr(io.StringIO()) as err, self.assertRaises(SystemExit):
                bench_numerics.main(arguments)
            self.assertIn(text, err.getvalue())


class PublishTest(unittest.TestCase):
    """The tables of docs/performance.md are those of the results that are kept."""

    HEAD = {"date": "2026-11-22", "clock": "wall", "runs": 30, "versions": {"tenon": "0.2.0", "onnxruntime": "1.31.1"},
            "machine": {"cpu": "A CPU", "cpus": 2, "load": 0.1}}

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.results = Path(folder.name)

    def test_the_page(self):
        page = publish.PAGE.read_text(encoding="utf-8")
        self.assertEqual(page, publish.published(page, publish.RESULTS), "./dev bench --publish makes the page anew")

    def test_a_result_becomes_a_table(self):
        rows = [{"operator": "Add", "threads": 1, "ratio": 0.5}, {"operator": "Mul", "threads": 1, "ratio": 2.0}]
        (self.results / "operators.json").write_text(json.dumps(self.HEAD | {"rows": rows}))
        text = publish.table_of("operators", self.results)
        self.assertIn("2026-11-22, Tenon 0.2.0, ONNX Runtime 1.31.1; A CPU, 2 CPUs; wall time, medians of 30.", text)
        self.assertIn("1.00 times the ONNX Runtime's time (geometric mean of 2; worst 2.00)", text)
        self.assertIn("| Mul | 1 | 2.00 |\n| Add | 1 | 0.50 |", text)

    def test_what_is_no_result(self):
        (self.results / "models.json").write_text(json.dumps(self.HEAD | {"latency": [{}]}))
        with self.assertRaisesRegex(publish.PublishError, "models.json: this is no result of ./dev bench models"):
            publish.table_of("models", self.results)
        with self.assertRaisesRegex(publish.PublishError, "has no place for the table models"):
            publish.published("nothing", self.results)


if __name__ == "__main__":
    unittest.main()
