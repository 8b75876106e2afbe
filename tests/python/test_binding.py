#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The Python package: what goes in, what comes out, and the words of what goes wrong."""

import concurrent.futures
import ctypes
import os
import platform
import subprocess
import sys
import tempfile
import threading
import unittest
import warnings
from pathlib import Path

import numpy as np
from onnx import TensorProto, helper, numpy_helper

import tenon

try:
    import ml_dtypes
except ImportError:
    ml_dtypes = None


def model_of(nodes, inputs, outputs, opset=20):
    values = [[helper.make_tensor_value_info(*value) for value in side] for side in (inputs, outputs)]
    return helper.make_model(helper.make_graph(nodes, "g", *values), opset_imports=[helper.make_opsetid("", opset)],
                             ir_version=9)


def add_model():
    return model_of([helper.make_node("Add", ["a", "b"], ["sum"])],
                    [("a", TensorProto.FLOAT, ["n", 4]), ("b", TensorProto.FLOAT, ["n", 4])],
                    [("sum", TensorProto.FLOAT, ["n", 4])])


def two_outputs_model():
    return model_of([helper.make_node("Neg", ["x"], ["negative"]), helper.make_node("Abs", ["x"], ["absolute"])],
                    [("x", TensorProto.FLOAT, [3])],
                    [("negative", TensorProto.FLOAT, [3]), ("absolute", TensorProto.FLOAT, [3])])


def compiled(model, **options):
    return tenon.compile(model, cache=False, threads=options.pop("threads", 1), **options)


class Exporter:
    """Any library's tensor, as DLPack sees it."""

    def __init__(self, array, device=(1, 0)):
        self.array = array
        self.shape = array.shape
        self.exports = 0
        self.device = device

    def __dlpack__(self, **options):
        self.exports += 1
        capsule = self.array.__dlpack__()
        pointer = ctypes.pythonapi.PyCapsule_GetPointer
        pointer.restype, pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
        for place, number in zip((8, 12), self.device):  # DLTensor.device
            ctypes.c_int32.from_address(pointer(capsule, b"dltensor") + place).value = number
        return capsule

    def __dlpack_device__(self):
        return self.device


class Running(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.add = compiled(add_model())
        cls.a = np.arange(12, dtype=np.float32).reshape(3, 4)
        cls.b = 100 * cls.a

    def test_inputs_by_position_name_and_dictionary(self):
        expected = self.a + self.b
        for result in (self.add(self.a, self.b), self.add(self.a, b=self.b), self.add(b=self.b, a=self.a),
                       self.add({"a": self.a, "b": self.b}), self.add.run({"a": self.a, "b": self.b})["sum"]):
            np.testing.assert_array_equal(result, expected)
            self.assertEqual(result.dtype, np.float32)

    def test_results_are_the_callers_own(self):
        first = self.add(self.a, self.b)
        second = self.add(self.a, self.a)
        np.testing.assert_array_equal(first, self.a + self.b)
        np.testing.assert_array_equal(second, self.a + self.a)
        first[0] = 7  # writable
        self.assertTrue(first.flags.c_contiguous)

    def test_results_of_any_size_are_whole_and_large_ones_aligned(self):
        fixed = compiled(model_of([helper.make_node("Neg", ["x"], ["y"])], [("x", TensorProto.FLOAT, [5, 4096])],
                                  [("y", TensorProto.FLOAT, [5, 4096])]))
        open_size = compiled(add_model())
        x = np.arange(5 * 4096, dtype=np.float32).reshape(5, 4096)
        for result in (fixed(x), open_size(x.reshape(-1, 4), -2 * x.reshape(-1, 4)).reshape(x.shape)):
            np.testing.assert_array_equal(result, -x)
            self.assertEqual(result.ctypes.data % tenon.ALIGNMENT, 0)
        for rows in (0, 1, 255, 256, 257):
            y = x.reshape(-1, 4)[:rows]
            np.testing.assert_array_equal(open_size(y, y), 2 * y)

    def test_memory_of_results_is_taken_again_when_nothing_shows_it(self):
        for size in ([5, 4096], [None, 4096]):
            model = compiled(model_of([helper.make_node("Neg", ["x"], ["y"])], [("x", TensorProto.FLOAT, size)],
                                      [("y", TensorProto.FLOAT, size)]))
            x = np.arange(5 * 4096, dtype=np.float32).reshape(5, 4096)
            result = model(x)
            place, part = result.ctypes.data, result[2:, ::3]
            del result
            other = model(2 * x)
            self.assertNotEqual(other.ctypes.data, place)
            np.testing.assert_array_equal(part, -x[2:, ::3])
            np.testing.assert_array_equal(other, -2 * x)
            place = other.ctypes.data
            del other
            self.assertEqual(model(x).ctypes.data, place)
            with concurrent.futures.ThreadPoolExecutor(4) as pool:
                for factor, own in enumerate(pool.map(lambda factor: model(factor * x), range(64))):
                    np.testing.assert_array_equal(own, -factor * x)

    def test_several_outputs_are_a_tuple(self):
        model = compiled(two_outputs_model())
        x = np.array([-1, 2, -3], np.float32)
        negative, absolute = model(x)
        np.testing.assert_array_equal(negative, -x)
        np.testing.assert_array_equal(absolute, abs(x))
        self.assertEqual(list(model.run({"x": x})), ["negative", "absolute"])

    def test_any_layout_goes_in(self):
        expected = self.a + self.b
        wide = np.zeros((3, 8), np.float32)
        wide[:, ::2] = self.a
        shifted = np.zeros(13, np.float32)[1:].reshape(3, 4)
        shifted[:] = self.a
        frozen = self.a.copy()
        frozen.flags.writeable = False
        for a in (np.asfortranarray(self.a), wide[:, ::2], shifted, self.a[::-1].copy()[::-1], frozen, self.a.tolist()):
            np.testing.assert_array_equal(self.add(a, self.b), expected)
        np.testing.assert_array_equal(self.add(np.broadcast_to(self.a[0], (3, 4)), self.b), self.a[0] + self.b)
        self.assertEqual(self.add(np.empty((0, 4), np.float32), np.empty((0, 4), np.float32)).shape, (0, 4))

    def test_dlpack_goes_in(self):
        exporter = Exporter(self.a)
        np.testing.assert_array_equal(self.add(exporter, self.b), self.a + self.b)
        self.assertEqual(exporter.exports, 1)

    def test_dlpack_goes_out(self):
        result = self.add(self.a, self.b)
        seen = np.from_dlpack(result)  # as any library would
        self.assertEqual(seen.ctypes.data, result.ctypes.data)

    def test_bindings_stay(self):
        model = compiled(add_model())
        a, b, total = self.a.copy(), self.b.copy(), np.zeros((3, 4), np.float32)
        model.set_inputs({"a": a}, b=b)
        model.set_outputs(sum=total)
        for step in range(3):
            a[0, 0] = step
            model.invoke()
            np.testing.assert_array_equal(total, a + b)
        model(self.a, self.a)  # what is bound is not used, and stays
        a[:] = 1
        model.invoke()
        np.testing.assert_array_equal(total, 1 + b)
        np.testing.assert_array_equal(model.output("sum"), total)
        model.set_outputs(sum=None)
        model.set_inputs(a=b)
        del a, b  # the model keeps them alive
        model.invoke()
        np.testing.assert_array_equal(model.output("sum"), 2 * self.b)
        np.testing.assert_array_equal(total, 1 + self.b)

    def test_two_models_in_flight(self):
        models = [compiled(add_model()) for _ in range(2)]
        totals = [np.zeros((3, 4), np.float32) for _ in models]
        for model, total in zip(models, totals):
            model.set_inputs(a=self.a, b=self.b)
            model.set_outputs(sum=total)
        for _ in range(20):
            for total in totals:
                total[...] = 0
            for model in models:
                model.start()
            for call in (models[0].invoke, models[0].start, lambda: models[0](self.a, self.b), lambda: models[0].set_inputs(a=self.b)):
                with self.assertRaisesRegex(tenon.Error, "the session is in flight: tn_session_start\\(\\) gave it an invoke"):
                    call()
            for model, total in zip(models, totals):
                model.wait()
                np.testing.assert_array_equal(total, self.a + self.b)
        with self.assertRaisesRegex(tenon.Error, "there is nothing to wait for"):
            models[0].wait()
        models[1].start()
        del model, models  # nobody waits: its memory outlives it

    def test_bound_through_dlpack(self):
        model = compiled(add_model())
        a, total = Exporter(self.a.copy()), Exporter(np.zeros((3, 4), np.float32))
        model.set_inputs(a=a, b=a)
        model.set_outputs(sum=total)
        model.invoke()
        np.testing.assert_array_equal(total.array, 2 * self.a)
        self.assertEqual((a.exports, total.exports), (2, 1))

    def test_wrong_bindings(self):
        model = compiled(add_model())
        with self.assertRaisesRegex(TypeError, "the model has no output 'total'; it has \\['sum'\\]"):
            model.set_outputs(total=self.a)
        with self.assertRaisesRegex(TypeError, "output 'sum' is a list, not an array that can be written"):
            model.set_outputs(sum=[1, 2])
        with self.assertRaisesRegex(tenon.Error, 'input "a": the tensor is f64 and the executable wants f32'):
            model.set_inputs(a=self.a.astype(np.float64))
        with self.assertRaisesRegex(tenon.Error, 'input "a" of function "main" is not bound'):
            model.invoke()
        frozen = self.a.copy()
        frozen.flags.writeable = False
        with self.assertRaises((ValueError, BufferError)):
            model.set_outputs(sum=frozen)

    def test_special_sizes(self):
        model = compiled(add_model(), dims={"n": [1, 3]})
        for rows in (1, 2, 3, 4):
            a = np.arange(rows * 4, dtype=np.float32).reshape(rows, 4)
            np.testing.assert_array_equal(model(a, a), 2 * a)

    def test_signature(self):
        self.assertEqual(self.add.inputs, (tenon.Value("a", "float32", ("n", 4)), tenon.Value("b", "float32", ("n", 4))))
        self.assertEqual([value.name for value in self.add.outputs], ["sum"])
        self.assertIn("a: float32['n', 4]", repr(self.add))

    def test_threads_may_share_a_model(self):
        wrong = []

        def work(seed):
            a = np.full((5, 4), seed, np.float32)
            for _ in range(100):
                if not (self.add(a, a) == 2 * seed).all():
                    wrong.append(seed)

        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])

    def test_sizes_that_depend_on_values(self):
        model = compiled(model_of([helper.make_node("NonZero", ["x"], ["y"])], [("x", TensorProto.FLOAT, ["n"])],
                                  [("y", TensorProto.INT64, [1, "m"])]))
        for x in ([0, 1, 0, 2], [0, 0], [3, 4, 5]):
            np.testing.assert_array_equal(model(x), np.nonzero(x)[0].reshape(1, -1))

    def test_very_many_pieces_of_unknown_size(self):
        """As the detections of a hundred classes are put together."""
        count = 90
        names = [f"x{i}" for i in range(count)]
        model = model_of([helper.make_node("Concat", names, ["y"], axis=0)],
                         [(name, TensorProto.FLOAT, [f"n{i}"]) for i, name in enumerate(names)],
                         [("y", TensorProto.FLOAT, ["n"])])
        pieces = [np.full(i % 3, i, np.float32) for i in range(count)]
        np.testing.assert_array_equal(compiled(model)(*pieces), np.concatenate(pieces))

    def test_constants_may_be_empty(self):
        """As exported shifted windows have them that shift by nothing."""
        model = model_of([helper.make_node("ScatterND", ["x", "rows", "nothing"], ["y"])],
                         [("x", TensorProto.FLOAT, [3, 0])], [("y", TensorProto.FLOAT, [3, 0])])
        model.graph.initializer.extend([helper.make_tensor("rows", TensorProto.INT64, [2, 1], [0, 2]),
                                        helper.make_tensor("nothing", TensorProto.FLOAT, [2, 0], [])])
        self.assertEqual(compiled(model)(np.zeros((3, 0), np.float32)).shape, (3, 0))

    def test_every_type(self):
        for proto, dtype in ((TensorProto.DOUBLE, np.float64), (TensorProto.FLOAT16, np.float16),
                             (TensorProto.INT8, np.int8), (TensorProto.UINT8, np.uint8), (TensorProto.INT16, np.int16),
                             (TensorProto.UINT16, np.uint16), (TensorProto.INT32, np.int32),
                             (TensorProto.UINT32, np.uint32), (TensorProto.INT64, np.int64),
                             (TensorProto.UINT64, np.uint64), (TensorProto.BOOL, np.bool_)):
            with self.subTest(dtype=dtype):
                model = compiled(model_of([helper.make_node("Identity", ["x"], ["y"])], [("x", proto, [6])],
                                          [("y", proto, [6])]))
                x = np.array([0, 1, 0, 1, 1, 0]).astype(dtype)
                result = model(x)
                np.testing.assert_array_equal(result, x)
                self.assertEqual(result.dtype, dtype)

    @unittest.skipIf(ml_dtypes is None, "ml_dtypes is not installed")
    def test_bfloat16(self):
        model = compiled(model_of([helper.make_node("Cast", ["x"], ["f"], to=TensorProto.FLOAT),
                                   helper.make_node("Neg", ["f"], ["n"]),
                                   helper.make_node("Cast", ["n"], ["y"], to=TensorProto.BFLOAT16)],
                                  [("x", TensorProto.BFLOAT16, [3])], [("y", TensorProto.BFLOAT16, [3])]))
        x = np.array([1, 2.5, -3], ml_dtypes.bfloat16)
        result = model(x)
        self.assertEqual(result.dtype, ml_dtypes.bfloat16)
        np.testing.assert_array_equal(result.astype(np.float32), -x.astype(np.float32))


class Memory(unittest.TestCase):
    """What is bound twice, and results that are inputs again."""

    def test_outputs_share_nothing(self):
        model = compiled(two_outputs_model())
        x, store = np.array([-1, 2, -3], np.float32), np.zeros(8, np.float32)
        model.set_inputs(x=x)
        for step in (1, 2, -1):  # strided ones are written through copies
            view = store[::step][:3]
            model.set_outputs(negative=view, absolute=view)
            with self.assertRaisesRegex(tenon.Error, 'output "absolute" shares memory with output "negative"'):
                model.invoke()
        model.set_outputs(negative=store[:6:2], absolute=store[5::-2])
        model.invoke()
        np.testing.assert_array_equal(store, [1, 3, -2, 2, 3, 1, 0, 0])
        model.set_inputs(x=store[1:4])
        with self.assertRaisesRegex(tenon.Error, 'output "negative" shares memory with input "x"'):
            model.invoke()
        folded = np.lib.stride_tricks.as_strided(store, (3, 4), (4, 4), writeable=True)
        add = compiled(add_model())
        with self.assertRaisesRegex(tenon.Error, r"has strides \[1, 1\]: its elements share memory"):
            add.set_outputs(sum=folded)

    def test_products_are_fed_back(self):
        model = compiled(model_of([helper.make_node("MatMul", ["x", "w"], ["y"])],
                                  [("x", TensorProto.FLOAT, ["n", 70]), ("w", TensorProto.FLOAT, [70, 70])],
                                  [("y", TensorProto.FLOAT, ["n", 70])]))
        rng = np.random.default_rng(5)
        x, w = (rng.normal(size=size).astype(np.float32) / 8 for size in ((90, 70), (70, 70)))
        want, called, bound = x.astype(np.float64), x, x
        model.set_inputs(w=w)
        for _ in range(10):
            want = want @ w
            called = model(called, w)
            model.set_inputs(x=bound)
            model.invoke()
            bound = model.output("y")
            for result in (called, bound):
                np.testing.assert_allclose(result, want, rtol=1e-4, atol=1e-5 * abs(want).max())

    def test_sizes_of_values_are_bound_with_room(self):
        nodes = [helper.make_node("Range", ["zero", "end", "one"], ["places"]), helper.make_node("Neg", ["x"], ["minus"]),
                 helper.make_node("Reshape", ["x", "shape"], ["shaped"])]
        proto = model_of(nodes, [("x", TensorProto.FLOAT, ["n"]), ("end", TensorProto.INT64, []),
                                 ("shape", TensorProto.INT64, [2])],
                         [("places", TensorProto.INT64, ["m"]), ("minus", TensorProto.FLOAT, ["n"]),
                          ("shaped", TensorProto.FLOAT, ["r", "c"])])
        proto.graph.initializer.extend([numpy_helper.from_array(np.array(number), name)
                                        for name, number in (("zero", 0), ("one", 1))])
        model = compiled(proto)
        self.assertEqual([value.size_rule for value in (*model.inputs, *model.outputs)],
                         ["exact"] * 3 + ["capacity", "exact", "capacity"])
        self.assertEqual(model.infer_shapes({"x": [12], "end": [], "shape": [2]}),
                         {"places": (None,), "minus": (12,), "shaped": (None, None)})
        with self.assertRaisesRegex(TypeError, r"the inputs that have shapes are \['end', 'shape', 'x'\], not \['x'\]"):
            model.infer_shapes({"x": [12]})
        with self.assertRaisesRegex(TypeError, r"shapes come by the inputs' names, as in \{'end': \(2, 3\)\}, not in a list"):
            model.infer_shapes([[12], [], [2]])
        with self.assertRaisesRegex(ValueError, "input 'x' has rank 1"):
            model.infer_shapes({"x": [3, 4], "end": [], "shape": [2]})
        with self.assertRaisesRegex(tenon.Error, r'input "shape": the tensor has shape \[3\] and the executable wants \[2\]'):
            model.infer_shapes({"x": [12], "end": [], "shape": [3]})
        x, places, shaped = np.arange(12, dtype=np.float32), np.full(9, -1), np.full((9, 2), -1, np.float32)
        model.set_outputs(places=places, shaped=shaped)
        for end, shape in ((3, [3, 4]), (9, [6, -1]), (0, [1, 12])):
            want = x.reshape(shape)
            result = model(x, end, shape)
            for got, expected in zip(result, (np.arange(end), -x, want)):
                np.testing.assert_array_equal(got, expected, strict=True)
            places[:], shaped[:] = -1, -1
            model.set_inputs(x=x, end=np.array(end), shape=np.array(shape))
            model.invoke()
            np.testing.assert_array_equal(model.output("places"), np.arange(end))
            np.testing.assert_array_equal(places, [*range(end), *[-1] * (9 - end)])
            np.testing.assert_array_equal(model.output("shaped"), want)
            np.testing.assert_array_equal(shaped.reshape(-1), [*x, *[-1] * 6])
        model.set_inputs(end=np.array(10))
        with self.assertRaisesRegex(tenon.Error, r'output "places": the value has shape \[10\] and needs 80 bytes'):
            model.invoke()
        np.testing.assert_array_equal(model.output("places"), np.arange(10))


class Strides(unittest.TestCase):
    """Views of inputs that are declared to have any strides."""

    def setUp(self):
        nodes = [helper.make_node("Relu", ["image"], ["kept"]), helper.make_node("Mul", ["kept", "scale"], ["y"])]
        self.model = model_of(nodes, [("image", TensorProto.FLOAT, ["c", "h", "w"]), ("scale", TensorProto.FLOAT, ["w"])],
                              [("y", TensorProto.FLOAT, ["c", "h", "w"])])
        self.image = np.random.default_rng(3).normal(size=(9, 12, 15)).astype(np.float32)
        self.scale = np.arange(40, dtype=np.float32)

    def views(self):
        x = self.image
        return {"dense": x, "transposed": x.transpose(2, 0, 1), "every second": x[:, ::2], "backwards": x[..., ::-1],
                "all backwards": x[::-2, ::-1, ::-3], "broadcast": np.broadcast_to(x[0, 0], (4, 3, 15)), "none": x[:, 3:3]}

    def test_every_view_gives_what_its_copy_gives(self):
        model, dense = compiled(self.model, strided=["im*"]), compiled(self.model)
        self.assertEqual([value.strided for value in model.inputs], [True, False])
        self.assertEqual([value.strided for value in dense.inputs], [False, False])
        for name, view in self.views().items():
            with self.subTest(view=name):
                scale = self.scale[:view.shape[2]]
                want = dense(np.ascontiguousarray(view), scale)
                np.testing.assert_array_equal(model(view, scale), want, strict=True)
                model.set_inputs(image=view, scale=scale)
                model.invoke()
                np.testing.assert_array_equal(model.output("y"), want, strict=True)

    def test_bound_views_follow_their_memory(self):
        model, hwc = compiled(self.model, strided=["image"]), self.image.copy()
        model.set_inputs(image=hwc.transpose(2, 0, 1), scale=self.scale[:12])
        for value in (2, 5):
            hwc[1, 7, 4] = value
            model.invoke()
            self.assertEqual(model.output("y")[4, 1, 7], value * self.scale[7])

    def test_names(self):
        with self.assertRaisesRegex(tenon.Error, 'no input "mask" that could have any strides'):
            compiled(self.model, strided=["mask"])
        with self.assertRaisesRegex(TypeError, "strided is a list of names, not 'image'"):
            compiled(self.model, strided="image")


class Compiling(unittest.TestCase):
    def test_models_from_paths_bytes_and_protos(self):
        proto = add_model()
        x = np.ones((2, 4), np.float32)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.onnx"
            path.write_bytes(proto.SerializeToString())
            for model in (path, str(path), path.read_bytes(), proto):
                np.testing.assert_array_equal(compiled(model)(x, x), 2 * x)

    def test_dimensions_can_be_fixed(self):
        model = compiled(add_model(), dims={"n": 2})
        self.assertEqual(model.inputs[0].shape, (2, 4))

    def test_saved_executables_load(self):
        model = compiled(add_model(), threads=2)
        x = np.ones((2, 4), np.float32)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "model.tnx")
            model.save(path)
            loaded = tenon.load(path, threads=1)
            loaded.save(Path(folder) / "again.tnx")
            for other in (loaded, tenon.load(Path(folder) / "again.tnx"), tenon.load(Path(path).read_bytes())):
                np.testing.assert_array_equal(other(x, x), 2 * x)
            # Over the file that it was loaded from, and what was loaded from bytes.
            before = Path(path).read_bytes()
            os.chmod(path, 0o600)
            loaded.save(path)
            self.assertEqual((Path(path).read_bytes(), os.stat(path).st_mode & 0o777), (before, 0o600))
            for executable in (path, before):
                with self.assertRaisesRegex(tenon.Error, "it is compiled already: an executable is loaded, not compiled"):
                    tenon.compile(executable)
            tenon.load(before).save(Path(folder) / "bytes.tnx")
            self.assertEqual((Path(folder) / "bytes.tnx").read_bytes(), before)
            Path(path).unlink()  # the bytes are those that were loaded
            loaded.save(path)
            self.assertEqual(Path(path).read_bytes(), before)

    def test_saving_tells_of_constants_that_stay_behind(self):
        proto = model_of([helper.make_node("Add", ["x", "w"], ["y"])], [("x", TensorProto.FLOAT, [4])],
                         [("y", TensorProto.FLOAT, [4])])
        proto.graph.initializer.append(numpy_helper.from_array(np.ones(4, np.float32), "w"))
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            (folder / "m.onnx").write_bytes(proto.SerializeToString())
            (folder / "other").mkdir()
            subprocess.run([os.environ["TENON_CLI"], "compile", folder / "m.onnx", "-o", folder / "m.tnx", "--constants",
                            folder / "m.bin", "--no-cache"], check=True, capture_output=True)
            model = tenon.load(folder / "m.tnx")
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                model.save(folder / "again.tnx")
            with self.assertWarnsRegex(RuntimeWarning, "other/m.tnx looks for its constants in .*other/m.bin: copy .*m.bin there") as told:
                model.save(folder / "other" / "m.tnx")
            self.assertEqual(told.filename, __file__)  # the caller's line
            with self.assertRaisesRegex(tenon.Error, "would take the place of its constants"):
                model.save(folder / "m.bin")

    def test_a_cache_that_cannot_be_used_is_told(self):
        with tempfile.NamedTemporaryFile() as file:
            with self.assertWarnsRegex(RuntimeWarning, "cache") as told:
                model = tenon.compile(add_model(), cache_directory=file.name + "/below", measure=False)
            self.assertEqual(model.inputs[0].name, "a")
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                self.assertRaisesRegex(RuntimeWarning, "cache", tenon.compile, add_model(), cache_directory=file.name + "/below",
                                       measure=False)

    def test_none_is_no_array(self):
        model, x = compiled(add_model()), np.ones((1, 4), np.float32)
        self.assertRaisesRegex(TypeError, "input 'b' is an array, not None", model, x, None)
        self.assertRaisesRegex(TypeError, "input 'a' is an array, not None", model.run, {"a": None, "b": x})

    def test_sizes_are_integers_of_any_kind(self):
        for size in (np.int64(2), np.uint8(2), np.array(2)):
            self.assertEqual(compiled(add_model(), dims={"n": size}).inputs[0].shape, (2, 4))
        special = compiled(add_model(), dims={"n": np.array([2, 3])})
        self.assertEqual(special.inputs[0].shape, ("n", 4))
        for wrong in (2.0, "2", None, ["2"], [None]):
            with self.assertRaisesRegex(TypeError, "dims: the size of 'n' is an integer, not "):
                compiled(add_model(), dims={"n": wrong})
        self.assertRaisesRegex(ValueError, "dims: 'n' has no size", compiled, add_model(), dims={"n": []})
        self.assertRaisesRegex(TypeError, "capacities: the size of 'n' is an integer, not", compiled, add_model(),
                               capacities={"n": 2.5})
        scale = tenon.build_te("kernel scale(X: f32[N]) -> Y: f32[N] { Y[i] = X[i] * 2 }", dims={"N": np.int32(3)})
        self.assertEqual(scale.inputs[0].shape, (3,))

    def test_constants_are_verified_when_asked_for(self):
        weights = np.arange(1000, 1064, dtype=np.float32)
        proto = model_of([helper.make_node("Add", ["x", "w"], ["y"])], [("x", TensorProto.FLOAT, [64])],
                         [("y", TensorProto.FLOAT, [64])])
        proto.graph.initializer.append(numpy_helper.from_array(weights, "w"))
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.tnx"
            compiled(proto).save(path)
            self.assertEqual(tenon.load(path, verify_constants=True)(np.zeros(64, np.float32))[0], 1000)
            content = bytearray(path.read_bytes())
            content[content.index(weights.tobytes()) + 5] ^= 1
            path.write_bytes(content)
            tenon.load(path)
            for damaged in (path, bytes(content)):
                with self.assertRaisesRegex(tenon.Error, "constants"):
                    tenon.load(damaged, verify_constants=True)

    def test_devices(self):
        two = model_of([helper.make_node("Abs", ["x"], ["a"], name="one"), helper.make_node("Neg", ["a"], ["b"], name="two")],
                       [("x", TensorProto.FLOAT, [4])], [("b", TensorProto.FLOAT, [4])])
        x, options = np.array([1, -2, 3, -4], np.float32), {"target": "native;island;island -device=1"}
        with tempfile.TemporaryDirectory() as folder:
            path, said = Path(folder) / "m.tnx", Path(folder) / "place.json"
            said.write_text('{"one": "island:0",\n "two": "island:1"}', encoding="utf-8")
            for place in ({"one": "island:0", "two": "island:1"}, ["one=island:0", "two=island:1"], [f"@{said}"]):
                tenon.compile(two.SerializeToString(), cache=False, place=place, memory={"island:0": "1MiB", "island:1": 4096}, **options).save(path)
                for device_map in ({}, {"island:1": "island:5"}, {"island:0": "cpu:0", "island:1": "cpu:0"}, ["island:0=island:1"]):
                    np.testing.assert_array_equal(tenon.load(path, device_map=device_map)(x), -abs(x))
            free = tenon.load(path, device_memory={"island:0": "1MiB", "cpu:0": 1 << 26}, concurrent_islands=True)
            np.testing.assert_array_equal(free(x), -abs(x))
            with self.assertRaisesRegex(tenon.Error, r"the program may have 8 bytes of island:1 \(tn_load_options.memory\)"):
                tenon.load(path, device_memory=["island:1=8"])(x)
            with self.assertRaisesRegex(TypeError, "device_memory is a dictionary or a list of texts, not 'a=b'"):
                tenon.load(path, device_memory="a=b")
            with self.assertWarnsRegex(RuntimeWarning, '"island:7=cpu:0" has no effect: the executable has no such device'):
                np.testing.assert_array_equal(tenon.load(path, device_map={"island:7": "cpu:0"})(x), -abs(x))
            with self.assertRaisesRegex(tenon.Error, '"island:1=cpu:0" and "island:1=island:0" put one device in two places'):
                tenon.load(path, device_map=["island:1=cpu:0", "island:1=island:0"])
            with self.assertRaisesRegex(tenon.Error, r'the program does not run on that device; it runs on cpu:0 \(the host\), island:0, island:1'):
                tenon.load(path, device_memory={"island:2": "1MiB"})
            said.write_text('{"one": "island:0",\n "two": 2}', encoding="utf-8")
            with self.assertRaisesRegex(tenon.Error, 'place.json: line 2: the device of "two" is a number; a placement is'):
                tenon.compile(two.SerializeToString(), place=[f"@{said}"], **options)
        with self.assertRaisesRegex(tenon.Error, 'more than "island:0=15" allows: place less there'):
            tenon.compile(two.SerializeToString(), place={"*": "island:0"}, memory={"island:0": 15}, **options)
        with self.assertRaisesRegex(TypeError, "place is a dictionary or a list of texts, not 'auto'"):
            tenon.compile(two.SerializeToString(), place="auto")
        with self.assertRaisesRegex(TypeError, r"place is a dictionary or a list of texts, not \[\('\*', 'cpu'\)\]"):
            tenon.compile(two.SerializeToString(), place=[("*", "cpu")])
        with self.assertRaisesRegex(TypeError, r"target is a text, not \['cpu', 'island'\]"):
            tenon.compile(two.SerializeToString(), target=["cpu", "island"])
        with self.assertRaisesRegex(TypeError, "device_map is a dictionary or a list of texts, not 'a=b'"):
            tenon.load(b"", device_map="a=b")

    def test_a_model_for_another_machine(self):
        """It can be saved and inspected; every method that would run it reports why it cannot."""
        foreign = "aarch64" if platform.machine() == "x86_64" else "x86-64-v3"
        text = "graph \"g\" {\n  input x: f32[n]\n  y: f32[n] = negate(x)\n  output \"y\" = y\n}\n"
        x = np.zeros(3, np.float32)
        with tempfile.TemporaryDirectory() as folder:
            source, path = Path(folder) / "m.tng", Path(folder) / "m.tnx"
            source.write_text(text, encoding="utf-8")
            model = tenon.compile(source, target=foreign, cache=False)
            self.assertEqual((model.inputs[0].name, model.outputs[0].shape), ("x", ("n",)))
            model.save(path)
            told = subprocess.run([os.environ["TENON_CLI"], "inspect", path], check=True, capture_output=True, text=True).stdout
            self.assertIn(foreign, told)
            for run in (lambda: model(x), lambda: model.run({"x": x}), lambda: model.set_inputs(x=x), model.invoke, model.start, model.wait):
                with self.assertRaisesRegex(tenon.Error, f"the model cannot run here, only be saved: the executable was compiled for {foreign[:6]}"):
                    run()
            with self.assertRaisesRegex(tenon.Error, "the executable was compiled for"):
                tenon.load(path)

    def test_arrays_on_devices(self):
        two = model_of([helper.make_node("Abs", ["x"], ["a"], name="one"), helper.make_node("Neg", ["a"], ["b"], name="two")],
                       [("x", TensorProto.FLOAT, ["n"])], [("b", TensorProto.FLOAT, ["n"])])
        model = tenon.compile(two.SerializeToString(), cache=False, place={"*": "island:0"}, target="native;island")
        x = np.array([1, -2, 3, -4], np.float32)
        self.assertEqual([value.device for value in (*model.inputs, *model.outputs)], [(12, 0), (12, 0)])
        there, back = model.device_array("x", (4,)), model.device_array("b", [4])
        self.assertEqual((there.device, there.dtype, there.shape), ((12, 0), "float32", (4,)))
        self.assertEqual(there.__dlpack_device__(), (12, 0))
        there.assign(x)
        np.testing.assert_array_equal(there.numpy(), x)
        np.testing.assert_array_equal(model(there), -abs(x))  # from the device to NumPy
        self.assertIs(model(there, out=back), back)
        np.testing.assert_array_equal(back.numpy(), -abs(x))
        self.assertIs(model(x + 1, out=back), back)
        np.testing.assert_array_equal(back.numpy(), -abs(x + 1))
        model.set_inputs(x=there)
        model.set_outputs(b=back)
        model.invoke()
        np.testing.assert_array_equal(model.output("b"), -abs(x))
        there.assign(back)  # on the device
        there.assign(2 * x)
        model.invoke()
        np.testing.assert_array_equal(back.numpy(), -abs(2 * x))
        for versions in (None, (0, 8), (1, 1)):
            capsule = there.__dlpack__(max_version=versions)
            self.assertIn("dltensor_versioned" if versions == (1, 1) else '"dltensor"', repr(capsule))
            del capsule
        with self.assertRaisesRegex(BufferError, "a tensor on a device is passed where it is"):
            there.__dlpack__(dl_device=(1, 0))
        with self.assertRaisesRegex(TypeError, r"numpy\(\) copies it"):
            np.asarray(there)
        with self.assertRaisesRegex(TypeError, r"numpy\(\) copies it"):
            np.allclose(there, x)
        with self.assertRaisesRegex(tenon.Error, r"a copy is between tensors of one type of numbers and one shape"):
            there.assign(x[:2])
        with self.assertRaisesRegex(TypeError, r"'x' has the shape \('n',\): say one of numbers"):
            model.device_array("x")
        with self.assertRaisesRegex(TypeError, "the model has no input or output 'y'"):
            model.device_array("y", (4,))
        with self.assertRaisesRegex(tenon.Error, 'input "x": the tensor is on opencl:0 and must be on island:0 or cpu:0'):
            model(Exporter(x, device=(4, 0)))
        other = tenon.compile(two.SerializeToString(), cache=False, place={"*": "island:0"}, target="native;island")
        with self.assertRaisesRegex(tenon.Error, 'input "x": the tensor says that it is on island:0, but its memory is not'):
            other(there)
        model.set_inputs(x=None)
        model.set_outputs(b=None)
        del model  # the arrays keep what they need
        np.testing.assert_array_equal(there.numpy(), 2 * x)

    def test_arrays_on_devices_of_sizes_that_values_tell(self):
        picked = model_of([helper.make_node("Compress", ["x", "m"], ["c"], name="pick", axis=0),
                           helper.make_node("Neg", ["c"], ["y"], name="negate")],
                          [("x", TensorProto.FLOAT, ["n"]), ("m", TensorProto.BOOL, ["n"])],
                          [("y", TensorProto.FLOAT, [None])])
        model = tenon.compile(picked.SerializeToString(), cache=False, place={"*": "island:0"}, target="native;island")
        x, m = np.arange(1, 6, dtype=np.float32), np.array([1, 0, 1, 1, 0], bool)
        self.assertEqual((model.outputs[0].device, model.outputs[0].size_rule), ((12, 0), "capacity"))
        np.testing.assert_array_equal(model(x, m), -x[m])
        with self.assertRaisesRegex(TypeError, r"'y' has the shape \(None,\): say one of numbers"):
            model.device_array("y")
        room, few = model.device_array("y", (5,)), model.device_array("y", (2,))
        room.assign(np.full(5, 7, np.float32))
        model.set_inputs(x=x, m=m)
        model.set_outputs(y=room)
        model.invoke()
        np.testing.assert_array_equal(model.output("y"), -x[m])
        np.testing.assert_array_equal(room.numpy(), [-1, -3, -4, 7, 7])
        model.set_outputs(y=few)
        with self.assertRaisesRegex(tenon.Error, r'"y": the value has shape \[3\] and needs 12 bytes, and the bound'):
            model.invoke()
        np.testing.assert_array_equal(model.output("y"), -x[m])

    def test_the_cache_is_where_it_was_put(self):
        with tempfile.TemporaryDirectory() as folder:
            tenon.compile(add_model(), threads=1, cache_directory=folder)
            self.assertTrue(any(Path(folder).rglob("*")))
            x = np.ones((2, 4), np.float32)
            np.testing.assert_array_equal(tenon.compile(add_model(), threads=1, cache_directory=folder)(x, x), 2 * x)

    def test_convolutions_stay_direct_when_asked_to(self):
        random = np.random.default_rng(7)
        weights = random.standard_normal((64, 64, 3, 3)).astype(np.float32)
        model = model_of([helper.make_node("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1])],
                         [("x", TensorProto.FLOAT, [1, 64, 24, 24])], [("y", TensorProto.FLOAT, [1, 64, 24, 24])])
        model.graph.initializer.append(numpy_helper.from_array(weights, "w"))
        x = random.standard_normal((1, 64, 24, 24)).astype(np.float32)
        padded = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (1, 1), (1, 1)))
        exact = sum(np.einsum("nchw,oc->nohw", padded[:, :, i:i + 24, j:j + 24], weights[:, :, i, j])
                    for i in range(3) for j in range(3))
        with tempfile.TemporaryDirectory() as folder:  # the cache must tell the two apart
            tiled, direct = (tenon.compile(model, threads=1, cache_directory=folder, direct_convolutions=wanted)(x)
                             for wanted in (False, True))
        self.assertLess(np.abs(direct - exact).max(), 2e-6 * np.abs(exact).max())
        self.assertLess(np.abs(tiled - exact).max(), 2e-5 * np.abs(exact).max())
        self.assertGreater(np.abs(tiled - exact).max(), np.abs(direct - exact).max())

    def test_threads_to_compile_for_have_no_say_in_answers(self):
        random = np.random.default_rng(8)
        for channels, side in ((16, 30), (32, 14), (16, 14)):  # by Winograd's algorithm for one thread, not for sixteen
            model = model_of([helper.make_node("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1])],
                             [("x", TensorProto.FLOAT, [1, channels, side, side])],
                             [("y", TensorProto.FLOAT, [1, channels, side, side])])
            weights = random.standard_normal((channels, channels, 3, 3)).astype(np.float32)
            model.graph.initializer.append(numpy_helper.from_array(weights, "w"))
            x = random.standard_normal((1, channels, side, side)).astype(np.float32)
            one, several, many = (compiled(model, threads=threads, target="x86-64-v2")(x) for threads in (1, 4, 16))
            with self.subTest(channels=channels, side=side):
                self.assertEqual(one.tobytes(), several.tobytes())
                self.assertEqual(one.tobytes(), many.tobytes())


class Mistakes(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.add = compiled(add_model())
        cls.x = np.ones((2, 4), np.float32)

    def check(self, error, words, function, *args, code=None, **kwargs):
        with self.assertRaises(error) as caught:
            function(*args, **kwargs)
        self.assertEqual(str(caught.exception), words)
        if code is not None:
            self.assertEqual(caught.exception.code, code)

    def test_inputs_that_do_not_fit(self):
        self.check(tenon.Error, 'input "b": the tensor has shape [2, 5] and the executable wants [n, 4]', self.add,
                   self.x, np.ones((2, 5), np.float32), code="invalid argument")
        self.check(tenon.Error, 'input "a": the tensor is f64 and the executable wants f32', self.add,
                   self.x.astype(np.float64), self.x, code="invalid argument")
        self.check(tenon.Error, 'input "b": dimension 0 ("n") is 3, but input "a" has 2 for it', self.add, self.x,
                   np.ones((3, 4), np.float32), code="invalid argument")
        self.check(TypeError, 'Tenon has no tensors of 2 dimensions with elements of format ">f"', self.add,
                   self.x.astype(">f4"), self.x)

    def test_devices_that_are_not_the_cpu(self):
        words = "the tensor is on the CPU with device_id 3; there is one CPU, number 0: set device_id to 0"
        self.check(tenon.Error, f'input "b": {words}', self.add, self.x, Exporter(self.x, device=(1, 3)),
                   code="invalid argument")
        words = "the tensor is on cuda:0 and must be on cpu:0: copy it there first"
        self.check(tenon.Error, f'input "b": {words}', self.add, self.x, Exporter(self.x, device=(2, 0)),
                   code="invalid argument")
        devices = [value.device for value in (*self.add.inputs, *self.add.outputs)]
        self.assertEqual(devices, [self.add(self.x, self.x).__dlpack_device__()] * 3)
        np.testing.assert_array_equal(self.add(self.x, Exporter(self.x, device=(0, 0))), self.x + self.x)

    def test_inputs_that_are_missing_or_too_many(self):
        self.check(TypeError, "the model's inputs are ['a', 'b']; missing: ['b']", self.add, self.x)
        self.check(TypeError, "the model's inputs are ['a', 'b']; unknown: ['c']", self.add, self.x, self.x, c=1)
        self.check(TypeError, "input 'a' is given by position and by name", self.add, self.x, a=self.x)
        self.check(TypeError, "the model has 2 inputs, not 3", self.add, self.x, self.x, self.x)

    def test_a_failed_run_leaves_the_model_usable(self):
        self.assertRaises(tenon.Error, self.add, self.x, self.x.astype(np.int32))
        np.testing.assert_array_equal(self.add(self.x, self.x), 2 * self.x)

    def test_arguments_that_make_no_sense(self):
        """Every method of the extension's model raises, and the process survives."""
        core = tenon.compile(two_outputs_model(), cache=False, threads=1)._core
        x = np.ones(3, np.float32)
        values = [None, -1, 0, 1, 99, 1 << 40, "x", (), (None,), [], [None], x, (x,), [x], {}, 3.5]
        blocks = ("start", "wait", "save")
        for name in [n for n in dir(core) if not n.startswith("_") and n not in blocks]:
            calls = [(), *((a,) for a in values), *((a, b) for a in values for b in values)]
            calls += [(bool(i % 2), values[i % 6], (values[i % 7], values[i % 16])) for i in range(96)]
            for arguments in calls:
                try:
                    getattr(core, name)(*arguments)
                except Exception:  # any exception, but no signal
                    pass
        for output, index in ((True, 2), (True, -1), (False, 1), (False, -1)):
            with self.assertRaisesRegex(Exception, "number|tuple|argument"):
                core.bind(output, index, (None,))

    def test_names_that_are_no_text(self):
        data = add_model().SerializeToString()
        odd = tenon.compile(data.replace(b"\n\x01a", b"\n\x01\xff"), cache=False)
        self.assertEqual([value.name for value in odd.inputs], ["\\xff", "b"])
        np.testing.assert_array_equal(odd(self.x, self.x), 2 * self.x)
        with self.assertRaisesRegex(tenon.Error, r'input "\\xff": the tensor is f64'):
            odd(self.x.astype(np.float64), self.x)

    def test_files_that_are_no_models(self):
        self.check(tenon.Error, "/nowhere.tnx: cannot open: No such file or directory", tenon.load, "/nowhere.tnx",
                   code="not found")
        self.check(tenon.Error, "not a Tenon executable: it does not start with a .tnx header", tenon.load, b"PK",
                   code="data loss")
        self.check(TypeError, "a model is a path, bytes or an onnx.ModelProto, not int", tenon.compile, 3)
        with self.assertRaises(tenon.Error) as caught:
            tenon.compile("/nowhere.onnx", cache=False)
        self.assertEqual(caught.exception.code, "not found")
        with self.assertRaises(tenon.Error) as caught:
            tenon.compile(add_model(), target="z80", cache=False)
        self.assertEqual(caught.exception.code, "invalid argument")

    def test_options_of_the_wrong_type(self):
        self.assertRaises(TypeError, tenon.compile, add_model(), dims={"n": "two"})
        self.assertRaises(TypeError, tenon.compile, add_model(), dims={3: 2})
        self.assertRaises(TypeError, tenon.compile, add_model(), aliases={"y": 1})
        with self.assertRaisesRegex(tenon.Error, 'no output "z" with an input "x" to alias'):
            tenon.compile(add_model(), aliases={"z": "x"}, cache=False)


if __name__ == "__main__":
    sys.exit(unittest.main())
