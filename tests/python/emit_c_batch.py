# SPDX-License-Identifier: Apache-2.0
"""Several models as functions of one emitted object, called by one C program with inputs of any kind. With TENON_EMIT_TARGET=c99
the kernels are C as well, and results agree with the runtime's as far as sums in another order do."""

import os
import re
from pathlib import Path

import numpy as np
import onnx

from product import required, run, tenon as cli

TARGET = os.environ.get("TENON_EMIT_TARGET")
OPTIONS = ("--target", TARGET) if TARGET else ()
CODE = "m.c" if TARGET == "c99" else "m.o"


WARNINGS = ("-std=c99", "-Wall", "-Wextra", "-pedantic", "-Werror")


def code_of(folder, flags):
    """Compiles the object that a program links. C kernels are compiled here, without warnings, at -O1 plus the
    optimisations based on aliasing and overflow rules. A second compiler must not warn either."""
    if CODE == "m.c":
        run(required("TENON_CC"), *WARNINGS, "-O1", "-fstrict-aliasing", *flags, "-c", "-o", folder / "m.o", folder / "m.c")
        if os.environ.get("TENON_OTHER_CC"):
            run(os.environ["TENON_OTHER_CC"], *WARNINGS, "-fsyntax-only", folder / "m.c")
    return folder / "m.o"


def assert_same(test, want, data, name=""):
    """Are these bytes those of the array; where kernels are C, almost?"""
    want = np.ascontiguousarray(want)
    if CODE == "m.o" or want.size == 0 or want.dtype.kind not in "fV":
        test.assertEqual(data, want.tobytes(), name)
        return
    got = np.frombuffer(data, want.dtype).reshape(want.shape)
    rtol = 2e-5 if want.dtype.itemsize > 2 else 2**-9 if want.dtype == np.float16 else 2**-6  # 16 bits: two units
    np.testing.assert_allclose(got.astype(np.float64), want.astype(np.float64), rtol=rtol, atol=2e-6, err_msg=name)


HELPERS = """
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "m.h"

static void *memory(int64_t bytes) {
  void *data = 0;
  if (posix_memalign(&data, 64, (size_t)bytes + 64) != 0) exit(9);
  memset(data, 0x5a, (size_t)bytes + 64);
  return data;
}

static inline int64_t get(FILE *file) {
  int64_t number;
  if (fread(&number, 8, 1, file) != 1) exit(9);
  return number;
}

static inline void *get_bytes(FILE *file) {
  int64_t bytes = get(file);
  void *data = memory(bytes);
  if (fread(data, 1, (size_t)bytes, file) != (size_t)bytes) exit(9);
  return data;
}

static void put(FILE *file, int64_t number) {
  if (fwrite(&number, 8, 1, file) != 1) exit(9);
}

static void put_bytes(FILE *file, const void *data, int64_t bytes) {
  put(file, bytes);
  if (fwrite(data, 1, (size_t)bytes, file) != (size_t)bytes) exit(9);
}
"""

LISTS = """
static inline tn_m_list *get_list(FILE *file) {
  tn_m_list *list = memory(sizeof *list);
  int64_t i, d;
  list->count = get(file);
  list->tensors = memory((list->count > 0 ? list->count : 0) * (int64_t)sizeof(tn_m_tensor));
  for (i = 0; i < list->count; i++) {
    tn_m_tensor *t = &list->tensors[i];
    t->rank = get(file);
    for (d = 0; d < t->rank; d++)
      if (d < TN_M_MAX_RANK) t->dims[d] = get(file); else (void)get(file);
    t->data = get_bytes(file);
  }
  return list;
}

static inline tn_m_list *room(FILE *file) {
  tn_m_list *list = memory(sizeof *list);
  list->capacity = get(file);
  list->bytes = get(file);
  list->tensors = memory(list->capacity * (int64_t)sizeof(tn_m_tensor));
  list->data = memory(list->bytes);
  return list;
}

static inline void put_list(FILE *file, const tn_m_list *list, int32_t status, int64_t element) {
  int64_t i, d, bytes, at = 0;
  put(file, list->count);
  put(file, list->needed);
  for (i = 0; i < list->count && status == 0; i++) {
    const tn_m_tensor *t = &list->tensors[i];
    bytes = element;
    put(file, t->rank);
    for (d = 0; d < t->rank; d++) put(file, t->dims[d]), bytes *= t->dims[d];
    if (t->data != (char *)list->data + at) exit(7); /* one after another */
    at += (bytes + 63) / 64 * 64;
    put_bytes(file, t->data, bytes);
  }
  if (status == 0 && at != list->needed) exit(6);
}
"""


def is_list(value):
    """Is the input or output, a ValueInfoProto, a sequence or an optional value?"""
    return value.type.WhichOneof("value") != "tensor_type"


def tensors_of(value):
    return [] if value is None else list(value) if isinstance(value, (list, tuple)) else [value]


def padded(bytes_):
    return -(-bytes_ // 64) * 64


class Batch:
    """`models`: C identifier -> ModelProto. Inputs are arrays, lists of them, and None, as the runtime takes them."""

    def __init__(self, folder, models, flags=()):
        self.folder, self.models, self.flags = Path(folder), models, flags
        names = []
        for name, model in models.items():
            onnx.save(model, self.folder / f"{name}.onnx")
            names.append(f"{name}={self.folder / name}.onnx")
        cli("compile", *names, "--emit", "c", "-o", self.folder / "m", "--threads", "1", "--no-cache", *OPTIONS)
        self.header = (self.folder / "m.h").read_text(encoding="utf-8")

    def parameters(self, name):
        match = re.search(rf"static inline int32_t tn_m_{name}\(([^;{{]*?)\);", self.header, re.DOTALL)
        return [word.strip() for word in match.group(1).split(",")]

    def values_of_sizes(self, name, inputs):
        """By the name of the parameter, from what the header says of each input."""
        text = self.header[self.header.index(f'/* The function "{name}":'):]
        values = {}
        for i, value in enumerate(inputs):
            dims = re.search(rf" \*   inputs\[{i}\]: [a-z0-9]+\[([^\]]*)\]", text)
            if dims and isinstance(value, np.ndarray):
                values.update(zip(dims.group(1).split(", "), value.shape))
        return values

    def case(self, index, name):
        """One C function that reads a call from a file and writes what came of it to another."""
        graph = self.models[name].graph
        parameters = self.parameters(name)
        sizes = [word.split()[1] for word in parameters if re.fullmatch(r"int64_t \w+", word) and
                 word != "int64_t workspace_bytes"]
        given = any("workspace_bytes" in word for word in parameters)
        late = any("capacities" in word for word in parameters)
        inputs, outputs = len(graph.input), len(graph.output)
        lines = [f"static void case_{index}(FILE *in, FILE *out) {{",
                 f"  const void *inputs[{inputs + 1}];", f"  void *outputs[{outputs + 1}], *workspace;",
                 f"  int64_t capacities[{outputs + 1}] = {{0}}, dims[{outputs + 1}][TN_M_MAX_RANK];",
                 "  int64_t bytes, used = -1, i;", "  int32_t status;", "  memset(dims, 0, sizeof dims);"]
        lines += [f"  int64_t size_{s} = get(in);" for s in sizes]
        lines += [f"  inputs[{i}] = {'get_list' if is_list(v) else 'get_bytes'}(in);" for i, v in enumerate(graph.input)]
        for i, value in enumerate(graph.output):
            lines.append(f"  outputs[{i}] = room(in);" if is_list(value) else
                         f"  capacities[{i}] = get(in), outputs[{i}] = memory(capacities[{i}]);")
        lines.append("  bytes = get(in);")
        arguments = [f"size_{s}" for s in sizes]
        if f"#define TN_M_{name.upper()}_WORKSPACE " in self.header:
            lines.append(f"  bytes = TN_M_{name.upper()}_WORKSPACE;")
        elif not given:
            asked = re.search(rf"int64_t tn_m_{name}_workspace_size\(([^)]*)\);", self.header).group(1)
            lines.append(f"  bytes = tn_m_{name}_workspace_size("
                         f"{', '.join(arguments + (['inputs'] if 'inputs' in asked else []))});")
        lines.append("  workspace = memory(bytes < 0 ? 0 : bytes);")
        arguments += ["inputs", "outputs"] + (["capacities", "dims"] if late else []) + ["workspace"] \
            + (["bytes", "&used"] if given else [])
        lines += [f"  status = tn_m_{name}({', '.join(arguments)});", "  put(out, status);", "  put(out, used);",
                  "  put_bytes(out, tn_m_message(status), (int64_t)strlen(tn_m_message(status)));"]
        for i, value in enumerate(graph.output):
            if is_list(value):
                element = self.element(value)
                lines.append(f"  put_list(out, outputs[{i}], status, {element});")
            else:
                lines += [f"  for (i = 0; i < TN_M_MAX_RANK; i++) put(out, dims[{i}][i]);",
                          f"  put_bytes(out, outputs[{i}], capacities[{i}]);"]
        lines.append("  (void)i, (void)capacities;\n}")
        return "\n".join(lines), sizes, late

    @staticmethod
    def element(value):
        kind = value.type
        while kind.WhichOneof("value") != "tensor_type":
            kind = getattr(kind, kind.WhichOneof("value")).elem_type
        return onnx.helper.tensor_dtype_to_np_dtype(kind.tensor_type.elem_type).itemsize

    def build(self):
        cases, self.known = [], {}
        for index, name in enumerate(self.models):
            text, sizes, late = self.case(index, name)
            cases.append(text)
            self.known[name] = (index, sizes, late)
        calls = "\n".join(f"    if (index == {i}) case_{i}(in, out);" for i in range(len(cases)))
        text = HELPERS + (LISTS if "} tn_m_list;" in self.header else "") + "\n".join(cases) + f"""
int main(int argc, char **argv) {{
  FILE *in = fopen(argv[1], "rb"), *out = fopen(argv[2], "wb");
  int64_t calls;
  if (argc != 3 || !in || !out) return 8;
  for (calls = get(in); calls > 0; calls--) {{
    const int64_t index = get(in);
{calls}
  }}
  fclose(out);
  return 0;
}}
"""
        (self.folder / "program.c").write_text(text, encoding="utf-8")
        run(required("TENON_CC"), "-std=c99", "-D_POSIX_C_SOURCE=200112L", "-Wall", "-Wextra", "-Werror", "-O1", *self.flags,
            "-o", self.folder / "program", self.folder / "program.c", code_of(self.folder, self.flags))
        (self.folder / "other.cc").write_text('#include "m.h"\n', encoding="utf-8")
        run(required("TENON_CC"), "-x", "c++", "-std=c++11", "-Wall", "-Wextra", "-pedantic", "-Werror", "-fsyntax-only",
            self.folder / "other.cc")

    def call(self, calls):
        """`calls`: (name, inputs, rooms, workspace); of each output the room is bytes, or for lists (tensors, bytes).
        Returns for each (kind of status, message, bytes used, results): results are (dimensions, bytes) of tensors, and
        (count, bytes needed, [(dimensions, bytes)]) of lists."""
        words = [np.int64(len(calls))]
        for name, inputs, rooms, workspace in calls:
            index, sizes, _ = self.known[name]
            values = self.values_of_sizes(name, inputs)
            words += [np.int64(index), *(np.int64(values[s]) for s in sizes)]
            for value, given in zip(self.models[name].graph.input, inputs):
                if is_list(value):
                    words.append(np.int64(-1 if given is None else len(tensors_of(given))))
                for array in tensors_of(given):
                    if is_list(value):
                        words += [np.int64(array.ndim), np.asarray(array.shape, np.int64)]
                    words += [np.int64(array.nbytes), np.ascontiguousarray(array)]
            words += [np.asarray(room, np.int64) for room in rooms] + [np.int64(workspace)]
        (self.folder / "calls").write_bytes(b"".join(word.tobytes() for word in words))
        run(self.folder / "program", self.folder / "calls", self.folder / "results")
        data = (self.folder / "results").read_bytes()
        rank = int(re.search(r"TN_M_MAX_RANK = (\d+)", self.header).group(1))
        at = 0

        def numbers(count):
            nonlocal at
            at += 8 * count
            return [int(n) for n in np.frombuffer(data, np.int64, count, at - 8 * count)]

        def text():
            nonlocal at
            length, = numbers(1)
            at += length
            return data[at - length:at]

        results = []
        for name, *_ in calls:
            status, used = numbers(2)
            message, outputs = text().decode(), []
            for value in self.models[name].graph.output:
                if not is_list(value):
                    outputs.append((numbers(rank), text()))
                    continue
                count, needed = numbers(2)
                items = []
                for _ in range(count if status == 0 else 0):
                    dims = numbers(numbers(1)[0])
                    items.append((dims, text()))
                outputs.append((count, needed, items))
            results.append((status % 16, message, used, outputs))
        assert at == len(data), (at, len(data))
        return results

    def rooms(self, name, wanted, spare=0):
        """Of outputs that are as large as those of the runtime, which are given."""
        return [(len(tensors_of(w)) + spare, sum(padded(a.nbytes) for a in tensors_of(w)) + 64 * spare) if is_list(value)
                else w.nbytes for value, w in zip(self.models[name].graph.output, wanted)]

    def compare(self, test, name, wanted, result):
        """Are results those of the runtime, byte for byte?"""
        kind, message, _, outputs = result
        test.assertEqual((kind, message), (0, "nothing failed"), name)
        for value, want, got in zip(self.models[name].graph.output, wanted, outputs):
            if is_list(value):
                test.assertEqual(got[0], -1 if want is None else len(tensors_of(want)), name)
                test.assertEqual([list(a.shape) for a in tensors_of(want)], [dims for dims, _ in got[2]], name)
                for array, (_, data) in zip(tensors_of(want), got[2]):
                    assert_same(test, array, data, name)
                continue
            assert_same(test, want, got[1], name)
            if self.known[name][2]:
                test.assertEqual(list(want.shape), got[0][:want.ndim], name)
