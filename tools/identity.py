# SPDX-License-Identifier: Apache-2.0
"""Digests of what the compiler makes of a fixed set of models and declarations, to prove that a change left it alone.

usage: identity.py digest TENON FOLDER FILE.json    compile everything with the command TENON, in FOLDER
       identity.py compare BEFORE.json AFTER.json   exit status 1 when there is a difference that nobody explained

A kernel is its code: sections and relocations of its object, without names. A constant is its type, its shape and its
bytes. Names, keys and the identity of the build are left out. tests/identity/intended.txt explains differences.
"""

import fnmatch
import hashlib
import json
import os
import re
import shutil
import struct
import subprocess
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
INTENDED = ROOT / "tests" / "identity" / "intended.txt"
TARGETS = ("x86-64-v3", "x86-64-v4", "aarch64")
THREADS = 2  # stated, so that the machine's own number does not count


# ---- what is compiled ------------------------------------------------------------------------------------------------


def models(folder):
    """The models by name: the light ones that the onnx package brings along, and networks with seeded weights."""
    import onnx

    sys.path.insert(0, str(ROOT / "bench"))
    import networks

    light = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
    found = {path.stem: path for path in sorted(light.glob("light_*.onnx"))}
    if not found:
        raise SystemExit("identity: the onnx package has no light models")
    for name, model in (("minilm", networks.minilm()[0]), ("mobilenet_v2", networks.mobilenet_v2()[0]), ("quantised", quantised())):
        found[name] = folder / f"{name}.onnx"
        onnx.save(model, found[name])
    return found


def quantised():
    """Products and convolutions of bytes: depths that are no multiple of four, groups, padding, operands that only a run knows."""
    import numpy as np
    from onnx import TensorProto, helper, numpy_helper

    rng = np.random.default_rng(14)
    arrays = {"scale": np.float32(0.02), "zero": np.uint8(120), "none": np.int8(0)}
    nodes = []

    def weights(name, *shape):
        arrays[name] = rng.integers(-127, 128, shape).astype(np.int8)
        return name

    def node(op, inputs, output, **attributes):
        nodes.append(helper.make_node(op, inputs, [output], **attributes))

    def convolution(x, name, shape, output, **attributes):
        node("QLinearConv", [x, "scale", "zero", weights(name, *shape), "scale", "none", "scale", "zero"], output, **attributes)

    convolution("image", "w0", (32, 3, 7, 7), "c0", pads=[3] * 4, strides=[2, 2])
    convolution("c0", "w1", (48, 8, 3, 3), "c1", pads=[1] * 4, group=4)
    convolution("c1", "w2", (40, 48, 1, 1), "pixels")
    node("QLinearMatMul", ["rows", "scale", "zero", weights("m0", 70, 33), "scale", "none", "scale", "zero"], "product")
    node("MatMulInteger", ["rows", "right", "zero"], "sums")
    node("MatMulInteger", ["row", "right"], "few")
    nodes.append(helper.make_node("DynamicQuantizeLinear", ["floats"], ["bytes", "own", "middle"]))
    node("MatMulInteger", ["bytes", weights("m1", 64, 96), "middle"], "dynamic")
    kinds = {"image": ("UINT8", ["n", 3, 56, 56]), "rows": ("UINT8", ["n", 70]), "row": ("UINT8", [1, 70]), "right": ("INT8", [70, 24]),
             "floats": ("FLOAT", ["n", 64])}
    inputs = [helper.make_tensor_value_info(name, getattr(TensorProto, kind), shape) for name, (kind, shape) in kinds.items()]
    made = {"pixels": "UINT8", "product": "UINT8", "sums": "INT32", "few": "INT32", "dynamic": "INT32"}
    outputs = [helper.make_tensor_value_info(name, getattr(TensorProto, kind), None) for name, kind in made.items()]
    graph = helper.make_graph(nodes, "quantised", inputs, outputs, [numpy_helper.from_array(np.asarray(a), name) for name, a in arrays.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


def declarations():
    """(file, kernel) of each declaration."""
    files = [ROOT / "examples" / "lenet" / "lenet.te", *sorted((ROOT / "tests" / "identity").glob("*.te"))]
    return [(path, name) for path in files for name in re.findall(r"^kernel (\w+)", path.read_text(), re.MULTILINE)]


# ---- digests ---------------------------------------------------------------------------------------------------------


def string_at(table, offset):
    return table[offset:table.index(b"\0", offset)].decode()


def object_digest(elf):
    """(label, digest, bytes of code) of a relocatable ELF64 object."""
    section_offset, = struct.unpack_from("<Q", elf, 0x28)
    size, count = struct.unpack_from("<HH", elf, 0x3A)
    sections = [struct.unpack_from("<IIQQQQIIQQ", elf, section_offset + i * size) for i in range(count)]
    bytes_of = [b"" if s[1] == 8 else elf[s[4]:s[4] + s[5]] for s in sections]  # 8: SHT_NOBITS
    symbols, label = [], "?"
    for number, section in enumerate(sections):
        if section[1] != 2:  # SHT_SYMTAB
            continue
        names = bytes_of[section[6]]
        for at in range(0, len(bytes_of[number]), 24):
            name, info, _, where, value, _ = struct.unpack_from("<IBBHQQ", bytes_of[number], at)
            symbols.append((where, value))
            if info == 0x12 and label == "?":  # a global function
                label = re.sub(r"_[0-9a-f]{8}$", "", string_at(names, name))
    hasher, code = hashlib.sha256(), 0
    for number, section in enumerate(sections):
        kind, flags = section[1], section[2]
        if kind == 1 and flags & 2:  # SHT_PROGBITS, SHF_ALLOC
            hasher.update(b"section %d %d %d " % (number, flags, section[8]) + bytes_of[number])
            code += len(bytes_of[number]) if flags & 4 else 0
        elif kind == 4:  # SHT_RELA
            for at in range(0, len(bytes_of[number]), 24):
                offset, info, addend = struct.unpack_from("<QQq", bytes_of[number], at)
                hasher.update(repr((offset, info & 0xFFFFFFFF, symbols[info >> 32], addend)).encode())
    return label, hasher.hexdigest()[:24], code


def constants_of(executable):
    """A digest of each constant of an executable."""
    data = executable.read_bytes()
    header_size, record_size, count = struct.unpack_from("<III", data, 12)
    sections = {}
    for i in range(count):
        kind, _, offset, size = struct.unpack_from("<IIQQ", data, header_size + i * record_size)
        sections[kind] = data[offset:offset + size]
    table, contents, out = sections[7], sections[6], []
    number, size = struct.unpack_from("<II", table, 0)
    for i in range(number):
        _, dtype, rank, _, dims, offset, length = struct.unpack_from("<IIIIQQQ", table, 8 + i * size)
        shape = struct.unpack_from(f"<{rank}q", table, dims)
        digest = hashlib.sha256(contents[offset:offset + length]).hexdigest()[:24]
        out.append([f"type {dtype} {list(shape)}", digest, length])
    return sorted(out)


def run(command, cache):
    result = subprocess.run([str(word) for word in command], capture_output=True, text=True,
                            env=os.environ | {"TENON_CACHE_DIR": str(cache)})
    if result.returncode != 0:
        raise SystemExit(f"identity: {' '.join(map(str, command))} failed:\n{result.stderr}")


def digest_model(tenon, model, target, folder):
    cache, output = folder / "cache", folder / "model.tnx"
    shutil.rmtree(cache, ignore_errors=True)
    run([tenon, "compile", model, "-o", output, "--target", target, "--threads", THREADS], cache)
    kernels = []
    for entry in cache.glob("obj-*"):
        data = entry.read_bytes()
        kernels.append(object_digest(data[data.index(b"\x7fELF\x02\x01"):]))
    return {"kernels": sorted(kernels), "constants": constants_of(output)}


def digest_declaration(tenon, path, kernel, target, folder):
    output = folder / "kernel.o"
    run([tenon, "build", path, "--kernel", kernel, "--emit", "obj", "--target", target, "--threads", THREADS, "-o",
         output], folder / "cache")
    return {"kernels": [object_digest(output.read_bytes())], "constants": []}


def digest(tenon, folder, output):
    folder.mkdir(parents=True, exist_ok=True)
    tenon, all_models, found = Path(tenon).resolve(), models(folder), {}
    for target in TARGETS:
        for name, path in all_models.items():
            found[f"{name} {target}"] = digest_model(tenon, path, target, folder)
        for path, kernel in declarations():
            found[f"{path.stem}.{kernel} {target}"] = digest_declaration(tenon, path, kernel, target, folder)
    output.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")


# ---- comparing -------------------------------------------------------------------------------------------------------


def reasons():
    """(pattern, reason) of each line of the list, `PATTERN: REASON`; the pattern is of `INPUT TARGET KIND LABEL`."""
    lines = INTENDED.read_text().splitlines() if INTENDED.exists() else []
    lines = [line for line in lines if line.strip() and not line.startswith("#")]
    return [tuple(part.strip() for part in line.split(":", 1)) for line in lines]


def differences(before, after):
    """(what, number before, number after) for all that is not equal."""
    for name in sorted(before.keys() | after.keys()):
        for kind in ("kernels", "constants"):
            items = [list(map(tuple, side.get(name, {}).get(kind, []))) for side in (before, after)]
            # A kernel's label is its name, which does not count; a constant's is its type and shape, which do.
            told = slice(1, None) if kind == "kernels" else slice(None)
            labels = {item[told]: item[0] for side in items for item in side}
            old, new = (Counter(item[told] for item in side) for side in items)
            gone, come = old - new, new - old
            for label in sorted({labels[item] for item in (*gone, *come)}):
                counts = [sum(n for item, n in side.items() if labels[item] == label) for side in (gone, come)]
                yield f"{name} {kind[:-1]} {label}", *counts


def compare(before, after):
    known, used, unexplained = reasons(), Counter(), []
    for what, gone, come in differences(before, after):
        pattern = next((pattern for pattern, _ in known if fnmatch.fnmatchcase(what, pattern)), None)
        if pattern is None:
            unexplained.append(f"DIFFERS  {what}: {gone} before, {come} after, not equal")
        else:
            used[pattern] += 1
    for pattern, reason in known:
        print(f"intended, {used[pattern]} times: {pattern}: {reason}")
    print(*unexplained, sep="\n", end="\n" if unexplained else "")
    kernels, constants = (sum(len(entry[kind]) for entry in after.values()) for kind in ("kernels", "constants"))
    print(f"{len(after)} compilations, {kernels} kernels, {constants} constants: "
          f"{sum(used.values())} differences are intended, {len(unexplained)} are not")
    return 1 if unexplained else 0


def main(arguments):
    if len(arguments) == 4 and arguments[0] == "digest":
        digest(arguments[1], Path(arguments[2]), Path(arguments[3]))
        return 0
    if len(arguments) == 3 and arguments[0] == "compare":
        return compare(*(json.loads(Path(path).read_text()) for path in arguments[1:]))
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
