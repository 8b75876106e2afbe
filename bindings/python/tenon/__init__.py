# SPDX-License-Identifier: Apache-2.0
"""Compile ONNX models, and kernels from declarations, to native code and run them.

    import tenon

    model = tenon.compile("model.onnx")
    y = model(x)                       # NumPy in, NumPy out; by position or by name
    results = model.run({"input": x})  # {output name: array}
    model.save("model.tnx")
    model = tenon.load("model.tnx")    # starts at once, without compiling

    model.set_inputs(input=x)          # bound once: every invoke reads and writes there
    model.set_outputs(output=y)
    model.invoke()

    scale = tenon.build_te("kernel scale(X: f32[N], by: f32) -> Y: f32[N] { Y[i] = X[i] * by }")
    y = scale(x, 0.5)                  # docs/te-language.md is the language

    tenon.tune("model.onnx", budget="10m", output="model.schedules")  # docs/tuning.md
    model = tenon.compile("model.onnx", tuned="model.schedules")

Whatever speaks DLPack (PyTorch's tensors, say) goes in and may be bound without a copy; results are NumPy arrays, which
other libraries take without a copy: torch.from_dlpack(model(x)).
"""

from __future__ import annotations

import math
import operator
import os
import sys
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Union

import numpy as np

from . import _tenon
from ._tenon import Error
from .tuning import Build, Builder, BuildInput, Progress, Run, Runner, TunedKernel, Tuning, tune

__all__ = ["Build", "BuildInput", "Builder", "DeviceArray", "Error", "Kernel", "Model", "OnDevice", "Progress", "Run", "Runner", "TunedKernel",
           "Tuning", "Value", "__version__", "build_te", "compile", "load", "on_device", "tune"]
__version__: str = _tenon.version

ALIGNMENT = 64  # of results: what does not fit the caches is written fastest there, and lists want it
# Bytes up to which results are copied into a plain array: that takes less time than making an aligned one.
_COPIED = 4096

# Tenon's codes of element types, which are DLPack's: kind and bits. bfloat16 has a NumPy type only with ml_dtypes.
_NAMES = {
    0x0008: "int8", 0x0010: "int16", 0x0020: "int32", 0x0040: "int64",
    0x0108: "uint8", 0x0110: "uint16", 0x0120: "uint32", 0x0140: "uint64",
    0x0210: "float16", 0x0220: "float32", 0x0240: "float64",
    0x0410: "bfloat16", 0x0608: "bool", 0x0380: "string",
}  # fmt: skip
_BFLOAT16 = 0x0410
_STRING = 0x0380
_DTYPES = {code: np.dtype(name) for code, name in _NAMES.items() if code not in (_BFLOAT16, _STRING)}
_DTYPES[_STRING] = np.dtype(object)
_KINDS = ("tensor", "sequence", "optional", "optional sequence")  # in the order of tn_value_kind
_SIZE_RULES = ("exact", "capacity", "memory")  # in the order of tn_size_rule


def _numpy_dtype(code: int) -> np.dtype:
    if code in _DTYPES:
        return _DTYPES[code]
    try:
        import ml_dtypes
    except ImportError as error:
        raise TypeError("NumPy has no bfloat16: install the package ml_dtypes") from error
    return np.dtype(ml_dtypes.bfloat16)


@dataclass(frozen=True)
class Value:
    """An input or output of a model. A dimension that is not fixed is its symbol's name, or None if it has none.

    Where `dtype` is "string", arrays have NumPy's type object and hold str; given are those, bytes, and NumPy's own
    arrays of strings. Bytes that are not UTF-8 come and go as Python's "surrogateescape" has them.

    `kind` is "tensor"; "sequence" for a list of arrays; or "optional" and "optional sequence" for an array and a list
    that may be None. All arrays of a list have the element type that is told here, and the number of dimensions, unless
    `shape` is `(...,)`: then each has its own.
    `capacity`, where it is not None, is the buffer's size along each dimension in which the array may grow in it, None for
    the others: an array `buffer[:, :, :n]` is then used in place.
    `strided` is whether any view of an array is used in place, which otherwise only dense ones are.
    `size_rule` is what size an array has that is bound: "exact", the shape that follows from the shapes of the inputs;
    "capacity", any that has room, for an output whose size depends on the values of inputs; "memory", bytes, for one that
    is a list or optional.
    `device` is where its memory is: a type and a number, as an array's `__dlpack_device__()` tells them; (1, 0) is the
    CPU, where NumPy's arrays are. An array that is there is used where it is (`Model.device_array`); one on the CPU is
    copied there, or from there.
    `default` is the shape of the array that an input has when it is left out; None: it must be given.
    """

    name: str
    dtype: str
    shape: tuple[Union[int, str, None], ...]
    kind: str = "tensor"
    capacity: tuple[Union[int, None], ...] | None = None
    strided: bool = False
    size_rule: str = "exact"
    device: tuple[int, int] = (1, 0)
    default: tuple[int, ...] | None = None


@dataclass(frozen=True)
class OnDevice:
    """What on_device() says of a value."""

    value: str
    device: str
    constrain_body: bool = True
    constrain_result: bool = False


def on_device(value: str, device: str, *, constrain_body: bool = True, constrain_result: bool = False) -> OnDevice:
    """Says of a value of a model, by its name, where it lives, for compile(annotations=[...]): "opencl:0", a target's own name.
    `constrain_body`: the value itself is there, `constrain_result`: what is read in its place is. With one of the two there
    may be a copy between them; with both there is none (docs/devices.md)."""
    for what, text in (("value", value), ("device", device)):
        if not isinstance(text, str):
            raise TypeError(f"on_device: the {what} is a name, not {text!r}")
    if not (constrain_body or constrain_result):
        raise ValueError(f"on_device: nothing is said of {value!r}: constrain_body, constrain_result or both are True")
    return OnDevice(value, device, bool(constrain_body), bool(constrain_result))


class DeviceArray:
    """An array in the memory of a device that a model runs on, from `Model.device_array`. It is given to that model, or
    bound, where values are on its device, and used there without a copy; other libraries of the device take it through
    DLPack. What was there before is not changed when it is made. Runs are over when they return, so nobody needs to wait.
    It may outlive the model."""

    def __init__(self, core: _tenon.Model, code: int, shape: tuple[int, ...], device: tuple[int, int]) -> None:
        self._core = core
        self._code = code
        self.dtype = _NAMES[code]
        self.shape = shape
        self.device = device
        self._tensor = core.device_tensor(*device, code, shape)

    def __dlpack__(self, *, stream: Any = None, max_version: tuple[int, int] | None = None,
                   dl_device: tuple[int, int] | None = None, copy: bool | None = None) -> Any:
        if copy or (dl_device is not None and tuple(dl_device) != self.device):
            raise BufferError("a tensor on a device is passed where it is: numpy() copies it")
        return self._tensor.dlpack(max_version is not None and max_version[0] >= 1)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """Refused: NumPy would else make an array of one object of it."""
        raise TypeError("an array on a device does not become one of NumPy's by itself: numpy() copies it")

    def numpy(self) -> np.ndarray:
        """A copy on the CPU."""
        array = np.empty(self.shape, _numpy_dtype(self._code))
        self._core.copy_tensor((self._tensor.dlpack(False), 0), _as_argument(array, self._code)[0])
        return array

    def assign(self, array: Any) -> None:
        """Copies an array of this type and shape, or one on this model's devices, into it."""
        if not hasattr(array, "__dlpack__") or isinstance(array, np.ndarray):
            array = np.ascontiguousarray(array)
        self._core.copy_tensor(_as_argument(array, self._code)[0], (self._tensor.dlpack(False), 0))


class Model:
    """A compiled model. Calls from several threads take turns.

    What a handler of a signal raises, as Ctrl-C does, ends a run of the main thread within tens of milliseconds; arrays
    that were bound as outputs may hold anything then, and the model runs again. A run looks for signals unless one of the
    same model with inputs as small, and no greater numbers among few integers, has taken less than 10 ms before."""

    def __init__(self, core: _tenon.Model) -> None:
        self._core = core
        self._lock = threading.Lock()
        inputs, outputs = core.signature()
        self._input_codes = [value[1] for value in inputs]
        self._output_codes = [value[1] for value in outputs]
        self.inputs, self.outputs = (
            tuple(Value(name, _NAMES[code], shape, _KINDS[kind], capacity, strided, _SIZE_RULES[rule], device, default)
                  for name, code, shape, kind, capacity, strided, rule, device, default in values)
            for values in (inputs, outputs))
        # What every run asks for.
        self._input_names = [value.name for value in self.inputs]
        self._output_names = [value.name for value in self.outputs]
        self._defaults = {value.name: value.default for value in self.inputs if value.default is not None}
        self._plain = all(value.kind == "tensor" for value in (*self.inputs, *self.outputs))
        self._strings = _STRING in self._output_codes
        self._bound_strings: dict[int, np.ndarray] = {}  # arrays that invoke() fills
        fixed = self._plain and not self._strings and all(isinstance(size, int) for value in self.outputs for size in value.shape)
        self._memory: dict[int, np.ndarray] = {}  # of the last results, by output
        self._shapes: list[Any] | None = [value.shape for value in self.outputs] if fixed else None

    def __repr__(self) -> str:
        def signature(values: tuple[Value, ...]) -> str:
            kinds = {"tensor": "", "sequence": "sequence of "}

            def shape(v: Value) -> str:
                return "[...]" if v.shape == (...,) else str(list(v.shape))

            return ", ".join(f"{v.name}: {kinds.get(v.kind, v.kind + ' ')}{v.dtype}{shape(v)}" for v in values)

        return f"<tenon.Model ({signature(self.inputs)}) -> ({signature(self.outputs)})>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Runs the model on inputs by position, by keyword, or from one dictionary; those that have defaults may be left
        out. Returns the output's array, or a tuple of arrays if the model has several outputs. `out`, an array or a tuple
        of one for each output, is where the results go, and is returned; None in the tuple stands for a new array."""
        out = kwargs.pop("out", None) if "out" not in self._input_names else None
        if len(args) == 1 and isinstance(args[0], Mapping):
            kwargs = {**args[0], **kwargs}
            args = ()
        if len(args) > len(self.inputs):
            raise TypeError(f"the model has {len(self.inputs)} inputs, not {len(args)}")
        given = dict(zip(self._input_names, args))
        twice = given.keys() & kwargs.keys()
        if twice:
            raise TypeError(f"input {min(twice)!r} is given by position and by name")
        results = self._run({**given, **kwargs}, self._places(out))
        return results[0] if len(results) == 1 else tuple(results)

    def run(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Runs the model on inputs by name. Returns its outputs by name. Sequences are lists of arrays, optional values
        that are absent None."""
        return dict(zip(self._output_names, self._run(inputs)))

    def set_inputs(self, inputs: Mapping[str, Any] | None = None, /, **more: Any) -> None:
        """Binds arrays as inputs of every following invoke(), until others are bound, or None. They may change in
        between, and are kept alive. Nothing is copied unless an array is strided where the model was not compiled for it, or
        lies where elements of its type do not (`flags.aligned`). Sequences and optional values are copied now."""
        self._bind(False, self.inputs, self._input_codes, {**(inputs or {}), **more})

    def set_outputs(self, outputs: Mapping[str, Any] | None = None, /, **more: Any) -> None:
        """Binds writable arrays as outputs of every following invoke(), until others are bound, or None. An output
        whose size depends on values takes as much of its array as it needs: output() tells the shape. For a sequence or
        an optional value the array is memory: its tensors go there, each at a multiple of 64 bytes."""
        self._bind(True, self.outputs, self._output_codes, {**(outputs or {}), **more})

    def invoke(self) -> None:
        """Runs the model on what is bound. Outputs that are not bound are kept by the model, for output()."""
        with self._lock:
            self._core.invoke_bound()
            self._fill_strings()

    def start(self) -> None:
        """Begins what invoke() does and returns at once: it is done in a thread of the model's, so that two models, or two
        that are loaded from one file, run at the same time. Until wait() has returned, everything else of this model
        that needs its session is refused; arrays that are bound as inputs may be read, and those of outputs are not to be
        touched."""
        with self._lock:
            self._core.start()

    def wait(self) -> None:
        """Returns when what start() began is done, or raises what invoke() would have raised."""
        with self._lock:
            self._core.wait()
            self._fill_strings()

    def _fill_strings(self) -> None:
        for index, array in self._bound_strings.items():
            count = math.prod(self._core.output_shape(index))
            array.reshape(-1)[:count] = _decoded(self._core.bound_strings(index, count))

    def output(self, name: str) -> np.ndarray:
        """A copy of an output of the last invoke()."""
        with self._lock:
            return self._copy_output(_index(self.outputs, "output", name))

    def _bind(self, output: bool, values: tuple[Value, ...], codes: list[int], given: Mapping[str, Any]) -> None:
        what = "output" if output else "input"
        pairs: list[tuple[int, tuple[Any, int]]] = []
        lists: list[tuple[int, Any]] = []
        strings: list[tuple[int, Any]] = []
        for name, value in given.items():
            index = _index(values, what, name)
            if output and value is not None and not hasattr(value, "__dlpack__"):
                raise TypeError(f"output {name!r} is a {type(value).__name__}, not an array that can be written")
            plain = values[index].kind == "tensor"
            if output and codes[index] == _STRING and plain:
                if value is not None and (value.dtype != object or not value.flags.c_contiguous):
                    raise TypeError(f"output {name!r}: strings of a tensor go into a dense array of objects, no other")
                strings.append((index, value))
                pairs.append((index, (None, 0) if value is None else (([b""] * value.size, value.shape), _STRING)))
                continue
            if not output and not plain:
                lists.append((index, _as_list(value, codes[index], values[index].kind)))
            elif value is None:
                pairs.append((index, (None, 0)))
            else:
                pairs.append((index, _as_argument(value, codes[index])[0] if plain else (_as_memory(name, value), 0)))
        with self._lock:
            for index, items in lists:
                self._core.set_list(index, items)
            for index, pair in pairs:
                self._core.bind(output, index, pair)
            for index, array in strings:
                self._bound_strings.pop(index, None)
                if array is not None:
                    self._bound_strings[index] = array

    def device_array(self, name: str, shape: Sequence[int] | None = None) -> DeviceArray:
        """An array for an input or output, of its type and where it is, to be given or bound: nothing is copied then. The
        shape is said where the model leaves it open."""
        values = self.inputs if name in self._input_names else self.outputs
        value = values[_index(values, "input or output", name)]
        code = (self._input_codes if values is self.inputs else self._output_codes)[_index(values, "value", name)]
        if value.kind != "tensor":
            raise TypeError(f"{name!r} is a {value.kind}, which is never on a device")
        shape = value.shape if shape is None else tuple(shape)
        if not all(isinstance(size, (int, np.integer)) for size in shape):
            raise TypeError(f"{name!r} has the shape {shape}: say one of numbers")
        return DeviceArray(self._core, code, tuple(int(size) for size in shape), value.device)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the executable (.tnx) for tenon.load(), `tenon run` and the C API; also over the file that it was loaded
        from. Constants in a file of their own are not copied: a warning tells when they are not found there."""
        self._core.save(os.fspath(path))

    def text(self, name: str) -> str | None:
        """A text that the executable keeps for people, as compile() was told: "schedules", "graph", "declarations" or
        "loops". None when it was left out."""
        return self._core.text(name)

    def _places(self, out: Any) -> list[Any]:
        """By output, the array that the caller gave, or None."""
        places = [None] * len(self.outputs) if out is None else list(out) if isinstance(out, (tuple, list)) else [out]
        if len(places) != len(self.outputs):
            raise TypeError(f"out has {len(places)} arrays, and the model {len(self.outputs)} outputs: {self._output_names}")
        for name, place in zip(self._output_names, places):
            if place is not None and not (self._plain and not self._strings and hasattr(place, "__dlpack__")):
                raise TypeError(f"out: {name!r} cannot go into a {type(place).__name__}")
        return places

    def _run(self, inputs: Mapping[str, Any], places: Sequence[Any] = ()) -> list[Any]:
        try:
            given = [inputs[name] for name in self._input_names]
            complete = len(inputs) == len(given)
        except KeyError:
            given = [inputs.get(name) for name in self._input_names]
            complete = inputs.keys() | self._defaults.keys() == set(self._input_names)
        if not complete:
            raise self._wrong_names(inputs)
        if not self._plain:
            return self._run_lists(given)
        arguments, shapes = [], []
        for name, value, code in zip(self._input_names, given, self._input_codes):
            if value is None and name in self._defaults:
                argument, shape = (None, 0), self._defaults[name]
            elif value is None:
                raise TypeError(f"input {name!r} is an array, not None")
            else:
                argument, shape = _as_argument(value, code)
            arguments.append(argument)
            shapes.append(shape)
        known = self._shapes
        if known is None:
            known = self._known_shapes(shapes)
        # Those whose size only the run tells are the session's first.
        results = [None if None in shape else self._result(index, shape, code)
                   for index, (shape, code) in enumerate(zip(known, self._output_codes))]
        # The buffer protocol cannot name bfloat16.
        outputs = [(None, 0) if array is None else (array.view(np.uint16) if code == _BFLOAT16 else array, code)
                   for array, code in zip(results, self._output_codes)]
        for index, place in enumerate(places):
            if place is not None:
                results[index], outputs[index] = place, _as_argument(place, self._output_codes[index])[0]
        with self._lock:
            self._core.invoke(arguments, outputs)
            return [self._copy_output(index) if array is None else array for index, array in enumerate(results)]

    def _known_shapes(self, shapes: list[Any]) -> list[Any]:
        """Of the outputs, before a run; a dimension that is not known is None."""
        unknown = [(None,)] * len(self.outputs)
        if self._strings or None in shapes:
            return unknown
        try:
            return self._core.infer_shapes(shapes)
        except (Error, ValueError):  # the run says it in its own words
            return unknown

    def infer_shapes(self, shapes: Mapping[str, Sequence[int]]) -> dict[str, tuple[Any, ...]]:
        """The shapes of the outputs for shapes of the inputs, by name, without a run. A dimension that depends on the values
        of inputs is None, and so are those of lists and optional values, whose shapes as inputs are left out. Those of
        inputs with defaults may be left out."""
        tensors = {value.name for value in self.inputs if value.kind == "tensor"}
        if not isinstance(shapes, Mapping):
            raise TypeError(f"shapes come by the inputs' names, as in {{{min(tensors, default='x')!r}: (2, 3)}}, not in a "
                            f"{type(shapes).__name__}")
        shapes = {**self._defaults, **shapes}
        if shapes.keys() != tensors:
            raise TypeError(f"the inputs that have shapes are {sorted(tensors)}, not {sorted(shapes)}")
        found = self._core.infer_shapes([tuple(shapes.get(name, ())) for name in self._input_names])
        return dict(zip(self._output_names, found))

    def _result(self, index: int, shape: tuple[int, ...], code: int) -> np.ndarray:
        """Where an output goes; aligned, unless it is small. Memory that no array shows any more is taken again: pages
        that are new to the process cost more time than many a kernel."""
        dtype = _numpy_dtype(code)
        count = 1
        for size in shape:
            count *= size
        size = count * dtype.itemsize
        if size <= _COPIED:
            return np.empty(shape, dtype)
        # Taken out while it is looked at, because runs of other threads look as well.
        memory = self._memory.pop(index, None)
        if memory is None or memory.size != size + ALIGNMENT or sys.getrefcount(memory) > _UNSHOWN:
            memory = np.empty(size + ALIGNMENT, np.uint8)
        start = -_tenon.address(memory) % ALIGNMENT
        result = memory[start : start + size].view(dtype).reshape(shape)
        self._memory[index] = memory
        return result

    def _run_lists(self, given: list[Any]) -> list[Any]:
        """For models that have sequences or optional values among their inputs or outputs."""
        lists, arguments = {}, []
        for index, (item, value, code) in enumerate(zip(given, self.inputs, self._input_codes)):
            if value.kind == "tensor":
                if item is None and value.default is None:
                    raise TypeError(f"input {value.name!r} is an array, not None")
                arguments.append((None, 0) if item is None else _as_argument(item, code)[0])
            else:
                lists[index] = _as_list(item, code, value.kind)
                arguments.append((None, 0))
        with self._lock:
            for index, items in lists.items():
                self._core.set_list(index, items)
            self._core.invoke(arguments, [(None, 0)] * len(self.outputs))
            return [self._copy_output(i) for i in range(len(self.outputs))]

    def _wrong_names(self, inputs: Mapping[str, Any]) -> TypeError:
        names = self._input_names
        unknown = sorted(inputs.keys() - set(names))
        missing = [name for name in names if name not in inputs and name not in self._defaults]
        return TypeError(f"the model's inputs are {names}"
                         + (f"; missing: {missing}" if missing else "") + (f"; unknown: {unknown}" if unknown else ""))

    def _copy_output(self, index: int) -> Any:
        kind = self.outputs[index].kind
        if kind == "tensor":
            return self._copy_tensor(index, -1)
        count = self._core.list_count(index)
        items = [self._copy_tensor(index, item) for item in range(count)]
        return None if count < 0 else items[0] if kind == "optional" else items

    def _copy_tensor(self, index: int, item: int) -> np.ndarray:
        array = np.empty(self._core.output_shape(index, item), _numpy_dtype(self._output_codes[index]))
        if self._output_codes[index] == _STRING:
            array.reshape(-1)[:] = _decoded(self._core.output_strings(index, item))
            return array
        self._core.copy_output(index, array.reshape(-1).view(np.uint8), item)
        return array


def _holders_of_unshown() -> int:
    """What sys.getrefcount says of memory that no array shows, in one variable; versions of Python count differently."""
    memory = {0: np.empty(1, np.uint8)}.pop(0)
    return sys.getrefcount(memory)


_UNSHOWN = _holders_of_unshown()


def _index(values: tuple[Value, ...], what: str, name: str) -> int:
    names = [value.name for value in values]
    if name not in names:
        raise TypeError(f"the model has no {what} {name!r}; it has {names}")
    return names.index(name)


def _as_memory(name: str, value: Any) -> np.ndarray:
    """The bytes of an array from the first on where a tensor may lie."""
    if not isinstance(value, np.ndarray) or not value.flags.c_contiguous or not value.flags.writeable:
        raise TypeError(f"output {name!r} is no tensor: its memory is a NumPy array that is dense and can be written")
    memory = value.reshape(-1).view(np.uint8)
    return memory[min(-_tenon.address(memory) % ALIGNMENT, memory.size):]


def _as_argument(value: Any, code: int) -> tuple[tuple[Any, int], tuple[int, ...] | None]:
    """(what the core takes, the code of its elements or 0 for the buffer's own) and its shape, if it is known here."""
    if code == _STRING:
        return _as_strings(value)
    if not isinstance(value, np.ndarray):
        if hasattr(value, "__dlpack__") and not isinstance(value, np.generic):
            shape = getattr(value, "shape", None)
            return (value.__dlpack__(), 0), None if shape is None else tuple(shape)
        if value is None:
            raise TypeError("an array is wanted, not None")
        # Numbers and lists become what the model wants; what has a type of its own keeps it.
        value = np.asarray(value, None if hasattr(value, "dtype") else _numpy_dtype(code))
    if value.dtype.kind == "V" and value.dtype.name == "bfloat16":
        return (value.view(np.uint16), _BFLOAT16), value.shape
    return (value, 0), value.shape


def _decoded(texts: list[bytes]) -> list[str]:
    return [text.decode("utf-8", "surrogateescape") for text in texts]


def _as_strings(value: Any) -> tuple[tuple[Any, int], tuple[int, ...]]:
    """str, bytes, or lists or arrays of them, as bytes: UTF-8, with what decoding made of other bytes turned back."""
    array = value if isinstance(value, np.ndarray) else np.array(value, dtype=object)
    if array.dtype.kind not in "OUST":
        raise TypeError(f"strings are wanted, not an array of {array.dtype}")
    texts = []
    for text in array.reshape(-1).tolist():
        if not isinstance(text, (str, bytes)):
            raise TypeError(f"strings are wanted, not a {type(text).__name__}")
        texts.append(text.encode("utf-8", "surrogateescape") if isinstance(text, str) else text)
    return ((texts, array.shape), _STRING), array.shape


def _size(option: str, name: str, value: Any) -> int:
    """Any kind of integer, NumPy's among them."""
    try:
        return operator.index(value)
    except TypeError as error:
        raise TypeError(f"{option}: the size of {name!r} is an integer, not {value!r}") from error


def _is_several(value: Any) -> bool:
    return isinstance(value, Iterable) and not isinstance(value, (str, bytes)) and getattr(value, "ndim", 1) > 0


def _as_list(value: Any, code: int, kind: str) -> list[tuple[Any, int]] | None:
    if value is None:
        return None
    return [_as_argument(item, code)[0] for item in ([value] if kind == "optional" else value)]


def _texts(what: str, value: Any) -> list[str]:
    """Several; one text alone is not taken for its letters."""
    texts = list(value) if _is_several(value) else [None]
    if not all(isinstance(text, str) for text in texts):
        raise TypeError(f"{what}, not {value!r}")
    return texts


def _assignments(option: str, value: Any) -> list[str]:
    """{name: value}, in its order, or texts like "name=value"."""
    if isinstance(value, Mapping):
        return [f"{name}={item}" for name, item in value.items()]
    return _texts(f"{option} is a dictionary or a list of texts", value)


def _annotations(option: str, value: Any) -> list[tuple[str, str, bool, bool]]:
    said = list(value) if _is_several(value) else [None]
    if not all(isinstance(one, OnDevice) for one in said):
        raise TypeError(f"{option} is a list of what on_device() makes, not {value!r}")
    return [(one.value, one.device, one.constrain_body, one.constrain_result) for one in said]


def _fields(given: Mapping[str, Any]) -> dict[str, Any]:
    """What keywords say, as the fields of the C API that they set; those that are None are left out."""
    fields: dict[str, Any] = {}
    for row in _tenon.options():
        field, kind, value = row["name"], row["kind"], given.get(row["python"])
        if value is None:
            continue
        if kind == "dims":
            option = row["python"]
            fields[field] = [(name, _size(option, name, size)) for name, size in value.items() if not _is_several(size)]
            several = {name: [_size(option, name, size) for size in sizes] for name, sizes in value.items() if _is_several(sizes)}
            for name, sizes in several.items():
                if not sizes:
                    raise ValueError(f"{option}: {name!r} has no size")
            fields["special_dims"] = [(name, size) for name, sizes in several.items() for size in sizes]
        elif kind == "sizes":
            fields[field] = [(name, _size(row["python"], name, size)) for name, size in value.items()]
        elif kind == "pairs":
            fields[field] = list(value.items())
        elif kind == "annotations":
            fields[field] = _annotations(row["python"], value)
        elif kind == "names" and "=" in row["value"]:
            fields[field] = _assignments(row["python"], value)
        elif kind == "names":
            fields[field] = _texts(f"{row['python']} is a list of names", value)
        elif kind == "text" and not isinstance(value, str):
            raise TypeError(f"{row['python']} is a text, not {value!r}")
        elif kind == "words":
            fields[field] = value if isinstance(value, str) else ",".join(value)
        elif kind == "path":
            fields[field] = os.fspath(value)
        elif kind == "file":
            fields[field] = value
            if not isinstance(value, str):
                fields[field + "_name"] = os.fspath(value)
                with open(value, encoding="utf-8") as file:
                    fields[field] = file.read()
        else:
            fields[field] = not value if row["reversed"] else value
    return fields


def compile(
    model: Any,
    # The table of options, by tools/options.py --update:
    target: str | None = None,
    threads: int | None = None,
    dims: Mapping[str, Union[int, Sequence[int]]] | None = None,
    cache: bool = True,
    *,
    aliases: Mapping[str, str] | None = None,
    capacities: Mapping[str, int] | None = None,
    strided: Iterable[str] = (),
    machine: str | os.PathLike[str] | None = None,
    measure: bool = True,
    tuned: str | os.PathLike[str] | None = None,
    host: str | None = None,
    place: Mapping[str, Any] | Iterable[str] = (),
    memory: Mapping[str, Any] | Iterable[str] = (),
    annotations: Iterable[OnDevice] = (),
    compile_threads: int | None = None,
    cache_directory: str | os.PathLike[str] | None = None,
    direct_convolutions: bool = False,
    fold_defaults: bool = False,
    texts: str | Iterable[str] | None = None,
    # The table's end.
) -> Model:
    """Compiles an ONNX model: a path, the bytes of one, or an onnx.ModelProto. A graph as text, `.tng`, is taken as well.

    `target` names the machine to compile for (None: this one; "x86-64-v3", ...). A model for a CPU that this machine is
    not can be saved and inspected; running it raises an error that says why. `threads` how many the model runs on
    (None: what affinity and CPU quota allow), `dims` fixes symbolic dimensions, or, with several sizes, names those that get code of their own, `cache` uses the cache on disk.
    `direct_convolutions` keeps convolutions sums of products, where Winograd's algorithm would be faster but less exact.
    `fold_defaults` makes inputs that have defaults (initializers of their names) constants: faster, and no longer inputs.
    `aliases` maps outputs to inputs whose arrays they may be bound to, to be updated in place: {"present.*": "past.*"}.
    `capacities` says the most that dimensions will be along which such outputs grow: {"past": 1024}; arrays that lie in
    buffers of that size, `buffer[:, :, :past]`, are then used in place, and only what is new is written.
    `strided` names inputs of which any view is used where it lies, `x.transpose(2, 0, 1)` or `x[:, ::-2]`, by code that is
    compiled for it: ["image", "mask*"]. Other inputs are copied when they are not dense.
    `machine` is a machine file (docs/targets.md), from whose caches and cores schedules are chosen; `measure=False` chooses them
    from what is usual for this CPU instead of what was measured. Results are the same.
    Ctrl-C ends a compilation of the main thread, too, once the kernel that is made is done.
    `place` says on which of several targets nodes run, {"encoder/*": "opencl:0"}, or texts of the command line's: ["auto"],
    ["@placement.json"]; `memory` what of a device's memory there is, {"opencl:0": "2GiB"} (docs/devices.md).
    `annotations` says of values, by name, where they live: [tenon.on_device("hidden", "opencl:0")].
    `texts` says what is kept for Model.text() and `tenon inspect`: "schedules" (None), "graph", "declarations", "loops",
    several of them, "all" or "none".
    """
    fields = _fields(locals())
    path, data = "model", None  # what messages call it, when it has no path
    if isinstance(model, (str, os.PathLike)):
        path = os.fspath(model)
    elif isinstance(model, (bytes, bytearray, memoryview)):
        data = bytes(model)
    elif hasattr(model, "SerializeToString"):
        data = model.SerializeToString()
    else:
        raise TypeError(f"a model is a path, bytes or an onnx.ModelProto, not {type(model).__name__}")
    return Model(_tenon.compile(path, data, fields))


class Kernel(Model):
    """A kernel from declarations, as build_te() makes it: a model, with the schedule that it was compiled to."""

    def __init__(self, declared: tuple[str | None, str, str, str | None, dict[str, Any]]) -> None:
        self._declared = declared
        core, self.schedule, self.trace = _tenon.build_te(*declared)
        super().__init__(core)

    schedule: str  # as people read and write it (docs/schedules.md): build_te(..., schedule=kernel.schedule) gives the same
    trace: str  # the steps, for this declaration alone: build_te(..., trace=kernel.trace)

    def explain(self) -> dict[str, Any]:
        """How the schedule came about and what is expected of it: "rule", "decisions", "seconds" of one call, "cycles" and
        what they are made of. Nothing is run."""
        return _tenon.explain_te(*self._declared)


def build_te(
    declarations: str | os.PathLike[str],
    kernel: str | None = None,
    dims: Mapping[str, int] | None = None,
    # The table of options, by tools/options.py --update:
    target: str | None = None,
    threads: int | None = None,
    *,
    machine: str | os.PathLike[str] | None = None,
    measure: bool = True,
    tuned: str | os.PathLike[str] | None = None,
    schedule: str | os.PathLike[str] | None = None,
    no_schedule: bool = False,
    plain: bool = False,
    vector_bytes: int | None = None,
    cache_bytes: int | None = None,
    registers: int | None = None,
    search_space: int | None = None,
    # The table's end.
    trace: str | os.PathLike[str] | None = None,
    folder: str | os.PathLike[str] | None = None,
) -> Kernel:
    """Builds a kernel from declarations: a text, or the path (a pathlib.Path) of a .te file. The result is called with arrays
    for the kernel's inputs, in order or by name, and gives its outputs. Arrays have strides of their own and results memory
    of their own (or that of `out=`), whatever the declaration says of `strides` and `over`, which is for C.

    Files that the declarations import lie beside their file, or, of a text, in `folder`.

    `kernel` names one of several (None: the last), `dims` fixes dimensions, and the code is made for them; the others
    follow from the shapes of the inputs. `target`, `threads`, `machine` and `measure` as for compile().
    `schedule` is a schedule that people write, a text or the path of its file (docs/schedules.md); without it the file's own
    counts, unless `no_schedule` says otherwise, or one is chosen. `trace` is a recorded one. `plain` leaves the declaration's
    own loops. `vector_bytes`, `cache_bytes` and `registers` bound what a choice may use, `search_space` how much is weighed.
    """
    fields = _fields(locals())
    name, text = "te", declarations
    if isinstance(declarations, os.PathLike):
        name = os.fspath(declarations)
        if folder is not None:
            raise TypeError("imports of a file are beside it: folder is for a text")
        folder = os.path.dirname(name) or "."
        with open(name, encoding="utf-8") as file:
            text = file.read()
    elif not isinstance(declarations, str):
        raise TypeError(f"declarations are a text or a path, not {type(declarations).__name__}")
    for dim, size in (dims or {}).items():
        if _is_several(size):
            raise TypeError(f"the dimension {dim!r} has one size, not {size!r}")
    if trace is not None:
        if schedule is not None:
            raise TypeError("schedule and trace are two answers to one question")
        fields.update(_fields({"schedule": trace}))
        if not fields["schedule"].startswith("trace "):
            raise TypeError("a trace begins with the word trace; other texts are schedules")
    return Kernel((None if folder is None else os.fspath(folder), name, text, kernel, fields))


def load(
    executable: str | os.PathLike[str] | bytes,
    threads: int | None = None,
    *,
    verify_constants: bool = False,
    device_map: Mapping[str, str] | Iterable[str] = (),
    device_memory: Mapping[str, str] | Iterable[str] = (),
    concurrent_islands: bool = False,
) -> Model:
    """Loads an executable (.tnx) from a path or from bytes. Native code in it is trusted like any program's.
    `verify_constants`: checks the hash of the constants, too, which reads all of them; the rest is always checked.
    `device_map` puts devices in the place of those that the program was placed on: {"island:1": "cpu:0"}.
    `device_memory` limits what it takes of devices: {"opencl:0": "2GiB"}. `concurrent_islands` lets islands work at the
    same time, without protection."""
    devices = (_assignments("device_map", device_map), _assignments("device_memory", device_memory), concurrent_islands)
    if isinstance(executable, bytes):
        return Model(_tenon.load(None, executable, threads or 0, verify_constants, *devices))
    return Model(_tenon.load(os.fspath(executable), None, threads or 0, verify_constants, *devices))
