#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds the makers of graphs and declarations to one order, whichever compiler made Tenon: nodes, values, stages and
variables are numbered as they are made, and C leaves open in which order the arguments of a call, and the elements of an
initialiser, are evaluated.

usage: check_order.py [ROOT]

No call and no initialiser has two arguments, or elements, that make something. A function makes something when it
calls one that does; the first ones are MAKERS and the functions of rows and rules, POINTED, which are called by pointers.

What it reads is C as clang-format leaves it.
"""

import re
import sys

from check_common import check_tree
from check_style import NOT_FUNCTIONS, blank, functions

ROOMS = ("src/graph", "src/import", "src/te", "src/ir")
MAKERS = {"tn__node_create_named", "value_create", "tn__var_create", "tn__buffer_create", "tn__lower_name"}
POINTED = {"apply", "declare", "expand", "infer"}
CALL = re.compile(r"(->|\.)?\b([A-Za-z_]\w*)\s*\(")
KEYWORDS = NOT_FUNCTIONS | {"case"}


def bodies(root):
    """Yields (file, name, first line, code of the whole function) of every function."""
    for room in ROOMS:
        for path in sorted((root / room).rglob("*.[ch]")):
            text = path.read_text()
            lines = blank(text).splitlines()
            for name, _, first, last in functions(text):
                yield path.relative_to(root).as_posix(), name, first, "\n".join(lines[first - 1:last])


def calls(code):
    return {(pointed is not None, name) for pointed, name in
            ((match.group(1), match.group(2)) for match in CALL.finditer(code)) if name not in KEYWORDS}


def find_makers(found):
    """(file, name) of all functions that make something; a name that several files have is the file's own there."""
    called = {(file, name): calls(code[code.index("{"):]) for file, name, _, code in found}
    homes = {}
    for file, name in called:
        homes.setdefault(name, []).append(file)
    makers = {key for key in called if key[1] in MAKERS}
    readers = {}
    for key, names in called.items():
        for pointed, name in names:
            if pointed:
                continue
            home = key[0] if key[0] in homes.get(name, ()) else homes.get(name, [None])[0]
            readers.setdefault((home, name), set()).add(key)
    waiting = list(makers)
    while waiting:
        for reader in readers.get(waiting.pop(), ()):
            if reader not in makers:
                makers.add(reader)
                waiting.append(reader)
    return makers, homes


def parts(code, start):
    """The pieces between commas of the group whose bracket is at `start`, and whether it is a block of statements."""
    pieces, depth, begin = [], 0, start + 1
    for at in range(start, len(code)):
        char = code[at]
        if char in "([{":
            depth += 1
        elif char in ")]}":
            depth -= 1
            if depth == 0:
                return pieces + [(begin, at)], False
        elif depth == 1 and char == ",":
            pieces.append((begin, at))
            begin = at + 1
        elif depth == 1 and char == ";":
            return [], True
    return [], True


def groups(code):
    """Where the brackets of calls and of initialisers are."""
    for match in re.finditer(r"[({]", code):
        before = code[:match.start()].rstrip()
        word = re.search(r"(\w+)$", before)
        if match.group() == "{" and (before.endswith(("=", ",", "{", ")"))):
            yield match.start()
        elif match.group() == "(" and word and word.group(1) not in KEYWORDS:
            yield match.start()


def check_function(file, name, first, code, is_maker):
    body = code.index("{")
    for start in groups(code):
        if start <= body:
            continue
        pieces, is_block = parts(code, start)
        if is_block:
            continue
        making = [sorted(called for pointed, called in calls(code[begin:end]) if is_maker(file, pointed, called))
                  for begin, end in pieces]
        making = [names[0] for names in making if names]
        if len(making) > 1:
            yield (f"{file}:{first + code.count(chr(10), 0, start)}: {name} leaves to the C compiler whether {making[0]} or "
                   f"{making[1]} comes first; call one after the other")


def check(root):
    found = list(bodies(root))
    makers, homes = find_makers(found)
    if not makers:
        return [f"{root}: none of the functions is there that make something, {', '.join(sorted(MAKERS))}"]

    def is_maker(file, pointed, name):
        if pointed:
            return name in POINTED
        return ((file if file in homes.get(name, ()) else homes.get(name, [None])[0]), name) in makers

    problems = []
    for file, name, first, code in found:
        problems.extend(check_function(file, name, first, code, is_maker))
    return problems


if __name__ == "__main__":
    sys.exit(check_tree(check))
