#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Requires TN_MUST_USE on queries. A function that returns a bool or a count and writes its result through a pointer
leaves that result unset when it returns false or 0. A caller that ignores the return value would read an unset result;
the attribute makes that a compile error.

usage: check_queries.py [ROOT]

A query is a function of src or include that returns bool, int, int64_t or size_t and has an out-parameter. An
out-parameter is a pointer to a number, to an enumeration of types or to a non-const pointer; a pointer named out or
NAME_out; or a pointer after the first, which is the object of the function, through which the definition assigns a
whole struct (`*name = ...`). The attribute belongs on the function's first declaration: in the header, or at the
definition of a static function. Exceptions: `argv`, which is an input array, and `user` and `state`, which are passed
to callbacks.

Parses C as formatted by clang-format.
"""

import re
import sys
from typing import NamedTuple

from check_common import check_tree
from check_style import GENERATED, NOT_FUNCTIONS, blank

FOLDERS = ("src", "include")
RESULTS = {"bool", "int", "int64_t", "size_t"}
NUMBERS = {"bool", "char", "double", "float", "int", "long", "short", "size_t", "ssize_t", "uintptr_t", "unsigned", "tn_dtype",
           "int8_t", "int16_t", "int32_t", "int64_t", "uint8_t", "uint16_t", "uint32_t", "uint64_t", "DLDevice"}
NO_OUTPUT = {"argv", "user", "state"}
QUALIFIERS = {"static", "inline", "extern", "const"}
HEAD = re.compile(r"^((?:[A-Za-z_]\w*[ \n]+)+)([A-Za-z_]\w*)\(", re.MULTILINE)
PARAMETER = re.compile(r"^(.*?)([A-Za-z_]\w*)\s*((?:\[[^\]]*\])*)$", re.DOTALL)


class Function(NamedTuple):
    file: str
    line: int
    name: str
    words: tuple  # before the name
    parameters: tuple  # one text each
    body: str  # "" for a declaration


def closing(code, at):
    """Returns the position of the bracket that closes the one at `at`."""
    depth = 0
    for i in range(at, len(code)):
        depth += (code[i] in "([{") - (code[i] in ")]}")
        if depth == 0:
            return i
    return len(code)


def split(text):
    """Splits a text at commas outside brackets."""
    pieces, depth, begin = [], 0, 0
    for i, char in enumerate(text):
        depth += (char in "([{") - (char in ")]}")
        if char == "," and depth == 0:
            pieces.append(text[begin:i])
            begin = i + 1
    return [" ".join(piece.split()) for piece in pieces + [text[begin:]]]


def functions(root):
    """Yields declarations and definitions of functions that return a bool or a count."""
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*.[ch]")):
            if GENERATED.search(path.name):
                continue
            code = blank(path.read_text())
            for match in HEAD.finditer(code):
                words = match.group(1).split()
                if words[-1] not in RESULTS or match.group(2) in NOT_FUNCTIONS or "typedef" in words:
                    continue
                end = closing(code, match.end() - 1)
                rest = code[end + 1:].lstrip()
                if not rest.startswith(("{", ";", "TN_")):
                    continue
                begin = code.index("{", end) if rest.startswith("{") else end
                body = code[begin:closing(code, begin) + 1] if rest.startswith("{") else ""
                yield Function(path.relative_to(root).as_posix(), code.count("\n", 0, match.start()) + 1, match.group(2),
                               tuple(words), tuple(split(code[match.end():end])), body)


def outputs(function):
    """Yields the names of a function's out-parameters."""
    for place, parameter in enumerate(function.parameters):
        match = PARAMETER.match(parameter)
        if match is None or "(" in parameter:
            continue
        kind, name, sizes = match.groups()
        stars = kind.count("*") + (sizes != "")
        inner = kind[:kind.rindex("*")] if "*" in kind and sizes == "" else kind
        if stars == 0 or name in NO_OUTPUT or inner.rstrip().endswith("const"):
            continue
        element = inner.replace("*", " ").split()
        if stars == 1 and "const" in element:
            continue
        plain = [word for word in element if word not in ("const", "struct", "enum")]
        named = name == "out" or name.endswith("_out")
        if stars > 1 or (plain and plain[-1] in NUMBERS) or named or (
                place > 0 and re.search(rf"[;{{}})]\s*\*{name} = ", function.body)):
            yield name


def check(root):
    found = list(functions(root))
    homes = {}  # of non-static functions: the public declaration
    for function in found:
        if "static" not in function.words and function.file.endswith(".h"):
            homes.setdefault(function.name, function)
    problems, seen = [], set()
    for function in found:
        names = list(outputs(function))
        home = function if "static" in function.words else homes.get(function.name, function)
        if not names or (home.file, home.name) in seen:
            continue
        own = [other for other in found if other.file == home.file and other.name == home.name]
        if any("TN_MUST_USE" in other.words for other in own):
            continue
        seen.add((home.file, home.name))
        problems.append((home.file, home.line, home.name, names[0]))
    return [f"{file}:{line}: {name} writes through {output} and says by its result whether it did; mark it TN_MUST_USE"
            for file, line, name, output in sorted(problems)]


if __name__ == "__main__":
    sys.exit(check_tree(check))
