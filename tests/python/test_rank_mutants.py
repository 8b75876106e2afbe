# SPDX-License-Identifier: Apache-2.0
"""Holds the importer to ONNX's own judgement of nodes that are wrong in one thing.

Every model of the ONNX backend suite that has one node is changed in one thing at a time: the number of dimensions or
the element type of one operand, the number of operands or results, an operand that is left out, an attribute. What
ONNX refuses (its checker, its strict shape inference, or the types of its schemas) and Tenon imports must stand in
tests/onnx/lenient.txt with the reason why it helps; lines there that nothing needs are errors, too. No model may bring
the importer down, also of those with several changes at once: the program that imports them is built with sanitizers in
that build's run of this test.
"""

import contextlib
import io
import os
import random
import re
import struct
import subprocess
import sys
import tempfile
import warnings
from collections import Counter
from pathlib import Path

import onnx
import onnx.checker
import onnx.defs
import onnx.shape_inference

LIST = Path(__file__).resolve().parents[1] / "onnx" / "lenient.txt"
MOST_RANK = 5
TYPES = ("FLOAT", "FLOAT16", "BFLOAT16", "INT32", "INT64", "UINT8", "BOOL", "STRING")
OLDEST, NEWEST = 7, 28
SEVERAL = 10000
Option = onnx.defs.OpSchema.FormalParameterOption


class Case:
    """A node in its operator set, and the types of its operands by name."""

    def __init__(self, node, opset, types, what=""):
        self.node, self.opset, self.types, self.what = node, opset, types, what

    def schema(self):
        return onnx.defs.get_schema(self.node.op_type, self.opset, self.node.domain)

    def changed(self, what, types=None):
        node = onnx.NodeProto()
        node.CopyFrom(self.node)
        return Case(node, self.opset, {**self.types, **(types or {})}, what)

    def model(self):
        """The bytes of a model around the node, whose results are declared by name only."""
        named = [name for name in dict.fromkeys(self.node.input) if name]
        graph = onnx.GraphProto(name="g", node=[self.node])
        graph.input.extend(onnx.ValueInfoProto(name=name, type=self.types[name]) for name in named)
        graph.output.extend(onnx.ValueInfoProto(name=name) for name in self.node.output if name)
        opsets = [onnx.helper.make_opsetid("", self.opset if not self.node.domain else 20)]
        if self.node.domain:
            opsets.append(onnx.helper.make_opsetid(self.node.domain, self.opset))
        return onnx.ModelProto(ir_version=10, graph=graph, opset_import=opsets).SerializeToString()


def suite_cases():
    """A case for each one-node model of the suite; those that differ in nothing that matters here are one."""
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")  # the package computes its expected results as it is imported
        from onnx.backend.test.case.node import collect_testcases

        models = [case.model for case in collect_testcases(None)]
    cases = {}
    for model in models:
        if len(model.graph.node) != 1:
            continue
        node = model.graph.node[0]
        opset = max(entry.version for entry in model.opset_import if entry.domain == node.domain)
        types = {value.name: value.type for value in model.graph.input}
        if model.graph.initializer or any(name and name not in types for name in node.input) or opset > NEWEST:
            continue
        case = Case(node, opset, types)
        cases.setdefault(case.model(), case)
    return list(cases.values())


def older(cases):
    """The first of the cases that older versions of its operator take, in these."""
    done, found = {(case.node.op_type, case.schema().since_version) for case in cases}, []
    for case in cases:
        since = case.schema().since_version
        while since > OLDEST:
            earlier = Case(case.node, since - 1, case.types)
            try:
                since = earlier.schema().since_version
            except onnx.defs.SchemaError:
                break
            if since >= OLDEST and (case.node.op_type, since) not in done and onnx_accepts(earlier):
                done.add((case.node.op_type, since))
                found.append(earlier)
    return found


# ---- what is changed ------------------------------------------------------------------------------------------------


def tensors(case):
    """(place, name) of the operands that are tensors."""
    return [(i, name) for i, name in enumerate(case.node.input)
            if name and case.types[name].WhichOneof("value") == "tensor_type"
            and list(case.node.input).count(name) == 1]


def with_rank(value_type, rank):
    """The first dimensions, or dimensions of size 1 behind all."""
    changed = onnx.TypeProto()
    changed.CopyFrom(value_type)
    dims = changed.tensor_type.shape.dim
    while len(dims) > rank:
        dims.pop()
    while len(dims) < rank:
        dims.add().dim_value = 1
    return changed


def mutants(case):
    for at, name in tensors(case):
        own = case.types[name].tensor_type
        for rank in range(MOST_RANK + 1):
            if rank != len(own.shape.dim):
                yield case.changed(f"{operand(case, at)} rank {rank}", {name: with_rank(case.types[name], rank)})
        for type_name in TYPES:
            changed = onnx.TypeProto()
            changed.CopyFrom(case.types[name])
            changed.tensor_type.elem_type = onnx.TensorProto.DataType.Value(type_name)
            if changed.tensor_type.elem_type != own.elem_type:
                yield case.changed(f"{operand(case, at)} type {type_name.lower()}", {name: changed})
    yield from count_mutants(case)
    yield from attribute_mutants(case)


def count_mutants(case):
    node = case.node
    for at, name in enumerate(node.input):
        if name:
            fewer = case.changed(f"{operand(case, at)} absent")
            fewer.node.input[at] = ""
            while fewer.node.input and not fewer.node.input[-1]:
                fewer.node.input.pop()
            yield fewer
    if node.input and node.input[0]:
        more = case.changed("inputs more")
        while len(more.node.input) < len(case.schema().inputs):
            more.node.input.append("")
        more.node.input.append(node.input[0])
        yield more
    more = case.changed("outputs more")
    for i in range(len(node.output), len(case.schema().outputs) + 1):
        more.node.output.append(f"more{i}")
    yield more


def attribute_mutants(case):
    for i, attribute in enumerate(case.node.attribute):
        without = case.changed(f"{attribute.name} attribute-absent")
        del without.node.attribute[i]
        yield without
        other = case.changed(f"{attribute.name} attribute-type")
        wrong = "text" if attribute.type != onnx.AttributeProto.STRING else 1
        other.node.attribute[i].CopyFrom(onnx.helper.make_attribute(attribute.name, wrong))
        yield other
    unknown = case.changed("attributes more")
    unknown.node.attribute.append(onnx.helper.make_attribute("no_such_attribute", 1))
    yield unknown


def several(cases, count):
    """Cases with some changes at a time, of the greatest numbers of dimensions and of sizes, too: whatever comes of it."""
    chance = random.Random(1)
    found = []
    for _ in range(count):
        case = chance.choice(cases)
        for _ in range(chance.choice((2, 2, 3, 4))):
            operands = tensors(case)
            if not operands or chance.random() < 0.1:
                case = chance.choice([*count_mutants(case), *attribute_mutants(case)])
                continue
            name = chance.choice(operands)[1]
            changed = with_rank(case.types[name], chance.choice((0, 1, 2, 3, 4, 5, 6, 8, 9, 12)))
            for dim in changed.tensor_type.shape.dim:
                if chance.random() < 0.2:
                    dim.dim_param = chance.choice("abc")
                elif chance.random() < 0.1:
                    dim.dim_value = chance.choice((0, 1, 2, 3, 7, 1 << 31, 1 << 62))
            if chance.random() < 0.1:
                changed.tensor_type.elem_type = onnx.TensorProto.DataType.Value(chance.choice(TYPES))
            case = case.changed("several", {name: changed})
        found.append(case)
    return found


def operand(case, at):
    inputs = case.schema().inputs
    return inputs[min(at, len(inputs) - 1)].name


# ---- what ONNX says -------------------------------------------------------------------------------------------------


def type_text(value_type):
    element = onnx.TensorProto.DataType.Name(value_type.tensor_type.elem_type).lower()
    return f"tensor({element})"


def check_types(case, schema):
    """What onnx leaves to whoever runs the model: types that the schema has, one for each of its variables."""
    bound = {}
    for at, name in tensors(case):
        formal = schema.inputs[min(at, len(schema.inputs) - 1)]
        text = type_text(case.types[name])
        if text not in formal.types:
            raise ValueError("type")
        if formal.is_homogeneous and bound.setdefault(formal.type_str, text) != text:
            raise ValueError("types")


def types_fit(case):
    with contextlib.suppress(ValueError):
        check_types(case, case.schema())
        return True
    return False


def later_types(case):
    """Are the types those of a later version of the operator?"""
    for version in range(case.opset + 1, NEWEST + 1):
        with contextlib.suppress(ValueError):
            check_types(case, onnx.defs.get_schema(case.node.op_type, version, case.node.domain))
            return True
    return False


def onnx_accepts(case):
    context = onnx.checker.C.CheckerContext()
    context.ir_version = 10
    context.opset_imports = {case.node.domain: case.opset, "": case.opset if not case.node.domain else 20}
    try:
        onnx.checker.check_node(case.node, context)
        check_types(case, case.schema())
        opsets = [onnx.helper.make_opsetid(domain, version) for domain, version in context.opset_imports.items()]
        onnx.shape_inference.infer_node_outputs(case.schema(), case.node, dict(case.types), {}, {}, opsets, 10)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError, ValueError, RuntimeError):
        return False
    return True


# ---- what Tenon says ------------------------------------------------------------------------------------------------


def tenon_says(program, cases):
    """A line for each case; a process that ends early is an error that names the case."""
    with tempfile.NamedTemporaryFile(suffix=".models") as file:
        for case in cases:
            model = case.model()
            file.write(struct.pack("<I", len(model)) + model)
        file.flush()
        run = subprocess.run([program, file.name], capture_output=True, text=True, errors="replace", check=False)
    lines = run.stdout.splitlines()
    if run.returncode != 0 or len(lines) != len(cases):
        at = cases[min(len(lines), len(cases) - 1)]
        raise SystemExit(f"the importer broke (status {run.returncode}) at {at.node.op_type}, opset {at.opset}, "
                         f"{at.what}:\n{run.stderr[-5000:]}\n{at.node}")
    return lines


def read_list():
    """[(line, pattern of "operator what", reason)]"""
    entries = []
    for number, line in enumerate(LIST.read_text(encoding="ascii").splitlines(), 1):
        if not line or line.startswith("#"):
            continue
        pattern, separator, reason = line.partition("  ")
        if not separator or not reason.strip():
            raise SystemExit(f"{LIST}:{number}: no reason")
        entries.append((number, re.compile(pattern), reason.strip()))
    return entries


def main():
    program = os.environ["TENON_IMPORT_MODELS"]
    verbose = "-v" in sys.argv
    cases = [case for case in suite_cases() if onnx_accepts(case)]
    cases += older(cases)
    cases = [case for case, line in zip(cases, tenon_says(program, cases)) if line == "ok"]
    changed, seen = [], set()
    for case in cases:
        for mutant in mutants(case):
            model = mutant.model()
            if model not in seen:
                seen.add(model)
                changed.append(mutant)
    says = tenon_says(program, changed)
    entries, needed, failures, counts = read_list(), set(), Counter(), Counter()
    for mutant, line in zip(changed, says):
        accepted, right = line == "ok", onnx_accepts(mutant)
        counts[right, accepted] += 1
        text = f"{mutant.node.op_type}@{mutant.schema().since_version} {mutant.what}"
        if verbose and right and not accepted:
            print(f"REFUSED  {text}: {line}")
        if right or not accepted:
            continue
        if not types_fit(mutant) and later_types(mutant):
            text += " (later)"
        found = [number for number, pattern, _ in entries if pattern.fullmatch(text)]
        needed.update(found)
        if not found:
            failures[text] += 1
    for text, count in sorted(failures.items()):
        print(f"IMPORTED  {text}: ONNX refuses it ({count} times)")
    for number, pattern, _ in entries:
        if number not in needed:
            print(f"UNNEEDED  {LIST.name}:{number}: {pattern.pattern}")
    print(f"{len(cases)} models, {len(changed)} mutants: ONNX refuses {counts[False, False] + counts[False, True]}, of "
          f"which Tenon imports {counts[False, True]}; of the others Tenon refuses {counts[True, False]}")
    tenon_says(program, several(cases, SEVERAL))
    if len(cases) < 800 or counts[False, False] < 10000:
        print("too few models or mutants")
        return 1
    return 1 if failures or any(number not in needed for number, _, _ in entries) else 0


if __name__ == "__main__":
    sys.exit(main())
