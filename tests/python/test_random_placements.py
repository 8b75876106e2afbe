#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""usage: test_random_placements.py SEED COUNT

Random graphs with branches, loops and calls, placed at random: by devices of values, annotations, copies (read or
unread), names and patterns, predicted time and budgets. A placement that compiles computes the results of one CPU,
twice, also with devices mapped to others. A rejected placement has a known reason."""

import collections
import os
import random
import re
import sys
import tempfile
import warnings

import numpy as np

import tenon

SHAPE = (4, 6)
TYPES = {"f32": np.float32, "f64": np.float64}
PLACES = ["cpu:0", "island:0", "island:1", "island:0/texture", "island:1/global", "island:0"]
TARGETS = "native; island; island -device=1"
NOTHING = '{device="cpu:0", body=0, result=0}'
# Allowed reasons for rejecting a random placement.
REASONS = {"contradiction": "contradict", "two memories": "one buffer"}


class Graph:
    """The text of a graph. `density`: how often a value gets a placement."""

    def __init__(self, draw, density):
        self.draw, self.density, self.names, self.operators = draw, density, collections.Counter(), []

    def name(self, kind="v"):
        self.names[kind] += 1
        return f"{kind}{self.names[kind]}"

    def on(self):
        return f' on "{self.draw.choice(PLACES)}"' if self.draw.random() < self.density else ""

    def operator(self, indent, out, type_, text):
        self.operators.append(out)
        return f"{indent}{out}: {type_}[4,6]{self.on()} = {text}"

    def inputs(self, names, indent):
        return [f"{indent}input {name}: f32[4,6]{self.on()}" for name in names]

    def branch(self, a, b, out, depth, indent):
        lines = [f"{indent}{out}: f32[4,6]{self.on()} = if(c, {a}, {b})"]
        for arm in ("then", "else"):
            takes = [self.name("p"), self.name("p")]
            body, values = self.body(takes, depth - 1, indent + "    ", self.draw.randint(0, 4))
            lines += [f'{indent}  graph "{arm}" {{', *self.inputs(takes, indent + "    "), *body,
                      f'{indent}    output "o" = {self.draw.choice(values)}', f"{indent}  }}"]
        return lines

    def loop(self, a, out, depth, indent):
        i, m, zero, limit, more, one, following = (self.name(k) for k in "imzlwoj")
        test, round_ = [self.name("x") for _ in range(3)], [self.name("x") for _ in range(3)]
        body, values = self.body([round_[2]], depth - 1, indent + "    ", self.draw.randint(0, 4))
        def takes(names):
            return [f"{indent}    input {names[0]}: i64[]", f"{indent}    input {names[1]}: i64[]", *self.inputs(names[2:], indent + "    ")]
        return [f"{indent}const {zero}: i64[] = 0", f"{indent}const {limit}: i64[] = {self.draw.randint(0, 4)}",
                f"{indent}{i}: i64[], {m}: i64[], {out}: f32[4,6] = while({zero}, {limit}, {a})", f'{indent}  graph "condition" {{',
                *takes(test), f'{indent}    {more}: bool[] = compare({test[0]}, {test[1]}) {{direction="LT"}}',
                f'{indent}    output "m" = {more}', f"{indent}  }}", f'{indent}  graph "body" {{', *takes(round_),
                f"{indent}    const {one}: i64[] = 1", f"{indent}    {following}: i64[] = add({round_[0]}, {one})", *body,
                f'{indent}    output "a" = {following}', f'{indent}    output "b" = {round_[1]}',
                f'{indent}    output "c" = {self.draw.choice(values)}', f"{indent}  }}"]

    def call(self, a, b, out, depth, indent):
        takes = [self.name("p"), self.name("p")]
        body, values = self.body(takes, depth - 1, indent + "    ", self.draw.randint(0, 3))
        return [f"{indent}{out}: f32[4,6] = call({a}, {b})", f'{indent}  graph "f" {{', *self.inputs(takes, indent + "    "), *body,
                f'{indent}    output "o" = {self.draw.choice(values)}', f"{indent}  }}"]

    def body(self, values, depth, indent, count):
        draw, lines, values = self.draw, [], list(values)
        for _ in range(count):
            what, a, b, out = draw.random(), draw.choice(values), draw.choice(values), self.name()
            if what < .4:
                lines.append(self.operator(indent, out, "f32", f'{draw.choice(["add", "subtract", "maximum", "minimum"])}({a}, {b})'))
            elif what < .55:
                lines.append(self.operator(indent, out, "f32", f'{draw.choice(["negate", "abs", "tanh"])}({a})'))
            elif what < .62:  # operators that a device may lack
                wide, root = self.name("d"), self.name("d")
                lines += [self.operator(indent, wide, "f64", f'convert({a}) {{dtype="f64"}}'), self.operator(indent, root, "f64", f"tanh({wide})"),
                          self.operator(indent, out, "f32", f'convert({root}) {{dtype="f32"}}')]
            elif what < .72:
                lines.append(f'{indent}{out}: f32[4,6] = on_device({a}) {{device="{draw.choice(PLACES)}", body={draw.randint(0, 1)}, result={draw.randint(0, 1)}}}')
            elif what < .78:
                lines.append(f'{indent}{out}: f32[4,6] = device_copy({a}) {{to="{draw.choice(PLACES)}"}}')
                if draw.random() < .3:
                    continue  # a copy without readers
            elif depth == 2 and what < .87:
                lines += self.branch(a, b, out, depth, indent)
            elif depth > 0 and what < .95:
                lines += self.loop(a, out, depth, indent)
            elif depth > 0:
                lines += self.call(a, b, out, depth, indent)
            else:
                lines.append(self.operator(indent, out, "f32", f"negate({a})"))
            values.append(out)
        return lines, values

    def text(self):
        lines, values = self.body(["x", "y"], 2, "  ", self.draw.randint(3, 9))
        return "\n".join(['graph "main" {', "  input c: bool[]", f"  input x: f32[4,6]{self.on()}", f"  input y: f32[4,6]{self.on()}", *lines,
                          f'  output "o1" = {values[-1]}', f'  output "o2" = {self.draw.choice(values)}', "}", ""])


def without_places(text):
    text = re.sub(r' on "[^"]*"', "", text)
    return re.sub(r"(on_device|device_copy)\((\w+)\) \{[^}]*\}", rf"on_device(\2) {NOTHING}", text)


def compiled(text, folder, **options):
    path = os.path.join(folder, "drawn.tng")
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return tenon.compile(path, cache=False, measure=False, threads=1, **options)


def check_same(model, inputs, wanted, why):
    for _ in range(2):
        got = model.run(inputs)
        for name, value in wanted.items():
            np.testing.assert_allclose(got[name], value, rtol=1e-5, atol=1e-6, err_msg=why)


def refused_for(error):
    for name, words in REASONS.items():
        if words in str(error):
            return name
    raise error


def check_said(text, draw, folder, inputs, wanted, counts):
    """Runs as compiled; with devices mapped to others, including unused ones; and with tensors that do not fit."""
    try:
        model = compiled(text, folder, target=TARGETS)
    except tenon.Error as error:
        counts[refused_for(error)] += 1
        return
    check_same(model, inputs, wanted, text)
    path = os.path.join(folder, "drawn.tnx")
    model.save(path)
    maps = {f"island:{i}": draw.choice(["cpu:0", "island:0", "island:1", "island:7"]) for i in draw.sample(range(4), 3)}
    check_same(tenon.load(path, device_map=maps), inputs, wanted, f"{maps}\n{text}")
    for value in model.inputs[1:]:
        if value.device[0] == 1:
            continue
        array = model.device_array(value.name)
        array.assign(inputs[value.name])
        check_same(model, {**inputs, value.name: array}, wanted, text)
        counts["bound"] += 1
    counts["run"] += 1


def check_rules(text, operators, draw, folder, inputs, wanted, counts):
    """Patterns and names for operators without other placements. If every device can run these operators, no
    placement is rejected; otherwise no pattern is. A device without a budget is a fallback for the two with one."""
    rules = [f"{draw.choice(operators)}={draw.choice(PLACES[:3])}" for _ in range(draw.randint(0, 3))] if operators else []
    rules = [f"*={draw.choice(PLACES[:3])}"] * draw.randint(0, 1) + rules
    check_same(compiled(text, folder, target=TARGETS, place=rules), inputs, wanted, f"{rules}\n{text}")
    compiled(text, folder, target="native; opencl", place=["*=opencl:0"])
    budgets = {f"island:{i}": draw.choice([1, 96, 192, 384]) for i in range(2)}
    target = draw.choice([TARGETS, f"island -gflops=9000; {TARGETS.replace('island;', '', 1)}"])
    model = compiled(text, folder, target=target, host="native", place=["auto"], memory=budgets)
    check_same(model, inputs, wanted, f"{budgets}\n{text}")
    counts["budgets"] += 1


def main(first, count):
    warnings.simplefilter("ignore")
    counts = collections.Counter()
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(first, first + count):
            draw = random.Random(seed)
            graph = Graph(draw, draw.choice([.03, .08, .2]))
            text, numbers = graph.text(), np.random.default_rng(seed)
            plain = without_places(text)
            inputs = {"c": np.array(bool(seed % 2)), **{name: numbers.standard_normal(SHAPE).astype(np.float32) for name in "xy"}}
            try:
                wanted = compiled(plain, folder, target="native").run(inputs)
                check_said(text, draw, folder, inputs, wanted, counts)
                check_rules(plain, graph.operators, draw, folder, inputs, wanted, counts)
            except Exception:
                print(f"seed {seed}:\n{text}", flush=True)
                raise
    print(f"{count} graphs from seed {first}: {dict(counts)}")
    assert counts["run"] > count / 4 and counts["budgets"] == count and (count < 20 or counts["bound"] > 0)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
