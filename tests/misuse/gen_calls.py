#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Generates C from the rows of calls.txt: for each public function a function that calls it with valid arguments, or
with one NULL.

usage: gen_calls.py CALLS.txt OUT.inc HEADER...

A row is `FUNCTION PARAMETER...`, with a word for each parameter of the header, in order:

  name       a pointer that must not be NULL, or a value
  name?      a pointer that may be NULL
  name=EXPR  pass this C expression, without blanks, instead of the default for its type (below)

`-` before the function: the call with valid arguments may fail, because it would be slow or needs a device. `*` before
the function: use hand_FUNCTION(null) of misuse.h. The program fails for a public function without a row, a row without
a function, and a row whose parameters differ from the header's.
"""

import re
import sys
from pathlib import Path

# Default arguments by type, from misuse.c and misuse_tune.c.
DEFAULTS = {
    "const tn_allocator *": "NULL", "const tn_executable *": "executable()", "tn_executable *": "executable()",
    "tn_session *": "session()", "const tn_module *": "module()", "tn_module *": "module()", "tn_tensor *": "tensor()",
    "const DLTensor *": "&x", "tn_thread_pool *": "pool()", "const tn_thread_pool *": "pool()", "tn_profile *": "profile()",
    "const tn_profile *": "profile()", "tn_explanation *": "explanation()", "const tn_explanation *": "explanation()",
    "tn_te *": "building()", "const tn_te *": "te()", "tn_schedule *": "schedule()", "const tn_schedule *": "schedule()",
    "tn_build *": "build()", "const tn_build *": "build()", "tn_schedule *const *": "&schedules[0]", "tn_te *const *": "&tes[0]",
    "tn_te_expr *": "number()", "tn_te_tensor *": "input()", "tn_te_expr *const *": "axes()", "const int64_t *": "shape_of_x",
    "tn_builder *": "builder()", "const tn_builder *": "builder()", "tn_runner *": "runner()", "const tn_runner *": "runner()",
    "tn_measurer *": "measurer()", "const tn_measurer *": "measurer()", "tn_tuner *": "tuner()", "const tn_tuner *": "tuner()",
    "tn_simulator *": "simulator()", "const tn_simulator *": "simulator()", "tn_database *": "database()", "const tn_database *": "database()",
    "const tn_tune_task *": "&task", "const tn_record *": "record()", "const tn_time_distribution *": "&times",
    "const tn_build_input *": "&build_input", "const tn_build_result *": "&build_result", "const tn_run_result *": "&run_result",
    "const tn_machine_limits *": "&limits", "int": "1", "size_t": "0", "int64_t": "1", "uint64_t": "1", "double": "1", "bool": "false",
    "tn_dtype": "TN_F32", "DLDevice": "(DLDevice){kDLCPU,0}", "tn_binding": "TN_BIND_NEXT", "tn_trial_handle": "1",
    "tn_status *": "a_status()", "const tn_status *": "a_status()",
}
SIZED = {"tn_machine_limits", "tn_check_result", "tn_worker_statistics", "tn_measure_statistics", "tn_tuner_view", "tn_task_view",
         "tn_database_change"}


def fail(text):
    sys.exit(f"gen_calls.py: {text}")


def split_list(text):
    """Splits a parameter list at commas outside brackets."""
    parts, depth, part = [], 0, ""
    for c in text:
        depth += (c in "([") - (c in ")]")
        if c == "," and depth == 0:
            parts.append(part.strip())
            part = ""
        else:
            part += c
    return [p for p in parts + [part.strip()] if p not in ("", "void")]


def parameter(text):
    """Returns the name, the type and whether the parameter is a pointer."""
    function = re.search(r"\(\*\s*(\w+)\)", text)
    if function:  # a pointer to a function or to an array
        return function[1], text.replace(function[0], "(*)"), True
    match = re.match(r"(.*?)(\w+)((?:\[\w*\])?)$", text)
    name, kind = match[2], match[1].strip()
    return name, kind + (" *" if match[3] else ""), "*" in kind or bool(match[3]) or kind.endswith("_callback")


def functions(header):
    text = re.sub(r"/\*.*?\*/", "", Path(header).read_text(), flags=re.S)
    text = re.sub(r"^\s*#.*?(?<!\\)$", "", text, flags=re.M | re.S)
    for match in re.finditer(r"TN_API\s+(.*?);", text, flags=re.S):
        declaration = re.sub(r"\b(TN_MUST_USE|TN_NEVER_NULL|TN_PRINTF\([^)]*\))", "", " ".join(match[1].split()))
        result, name, rest = re.match(r"(.*?)\b(tn_\w+)\((.*)\)$", declaration.strip()).groups()
        parts = split_list(rest)
        yield name, result.strip(), [parameter(p) for p in parts if p != "..."]


def rows(path):
    found = {}
    for number, line in enumerate(Path(path).read_text().splitlines(), 1):
        words = line.split("#")[0].split()
        if not words:
            continue
        mark = words[0][0] if words[0][0] in "-*" else ""
        name = words[0][len(mark):]
        if name in found:
            fail(f"{path}:{number}: {name} has a second row")
        found[name] = (mark, words[1:])
    return found


def local(kind, index, lines):
    """Returns a variable for an output parameter."""
    base = kind[:-1].strip()
    if base.startswith("const ") and base.count("*") == 0:
        return None
    value = "{.size = sizeof(" + base + ")}" if base in SIZED else "{0}" if base.startswith(("tn_", "DL")) and "*" not in base else "0"
    lines.append(f"  {base} made{index} = {value};")
    return f"&made{index}"


def emit(name, result, parameters, row):
    mark, words = row
    if mark == "*":
        return [], [(p[0], False) for p in parameters]
    if len(words) != len(parameters):
        fail(f"{name} has {len(parameters)} parameters and its row {len(words)}")
    lines, arguments, nullable = [f"static tn_status *call_{name}(int null) {{"], [], []
    for i, ((own, kind, pointer), word) in enumerate(zip(parameters, words)):
        text, _, given = word.partition("=")
        optional, text = text.endswith("?"), text.rstrip("?")
        if text != own:
            fail(f"{name}: the row says {text} where the header has {own}")
        value = given or DEFAULTS.get(kind)
        if value is None and pointer:
            value = local(kind, i, lines)
        if value is None:
            fail(f"{name}: {own} ({kind}) has no default: give it an argument")
        arguments.append(f"null == {i} ? NULL : {value}" if pointer else value)
        nullable.append((own, pointer, optional))
    call = f"{name}({', '.join(arguments)})"
    if result == "tn_status *":
        lines.append(f"  return {call};")
    elif result == "void":
        lines.append(f"  {call};\n  return NULL;")
    else:
        lines.append(f"  {result} result = {call};\n  (void)result;\n  return NULL;")
    return lines + ["}"], nullable


def main():
    calls, out, headers = sys.argv[1], sys.argv[2], sys.argv[3:]
    known, lines, table = rows(calls), [], []
    for header in headers:
        for name, result, parameters in functions(header):
            if name not in known:
                fail(f"{name} of {header} has no row in {calls}: say which of its arguments may be NULL")
            mark = known[name][0]
            body, nullable = emit(name, result, parameters, known.pop(name))
            lines += body
            status, who = int(result == "tn_status *"), "hand" if mark == "*" else "call"
            table.append(f'  {{"{name}", {who}_{name}, NULL, -1, {status}, {int(mark == "-")}, 0}},')
            for i, (own, *flags) in enumerate(nullable):
                if mark == "*" or not flags[0]:
                    continue
                table.append(f'  {{"{name}", call_{name}, "{own}", {i}, {status}, {int(mark == "-")}, {int(flags[1])}}},')
    if known:
        fail(f"{calls} has rows for what no header declares: {', '.join(known)}")
    Path(out).write_text("/* Made by gen_calls.py. */\n" + "\n".join(lines) + "\n\nstatic const row rows[] = {\n" +
                         "\n".join(table) + "\n};\n")


if __name__ == "__main__":
    main()
