#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Finds copies and sorts of possibly empty data: memcpy, memmove, qsort and bsearch reject NULL even for a size of 0,
and an empty vector, file or tensor has NULL data.

usage: check_copies.py [ROOT]

Rejects a call in src or bindings if one of its pointers is a member called data, list or items, its size is not a
constant, and neither its line (`> 0`, `!= NULL`) nor one of the four before it (`> 0`, `== 0) return`) has a condition.
Use tn__copy(), tn__copy_within() or tn__sort() of base/copy.h instead.

Parses C as formatted by clang-format.
"""

import re
import sys

from check_common import check_tree
from check_style import blank

FOLDERS = ("src", "bindings")
CALL = re.compile(r"\b(memcpy|memmove|qsort|bsearch)\(")
MEMBER = re.compile(r"(?:\.|->)(?:data|list|items)\b(?!\[|\.|->)")
SIZEOF = re.compile(r"sizeof\s*(?:\((?:[^()]|\([^()]*\))*\)|\*?[\w.\->]+(?:\[\w+\])*)")
CONSTANT = re.compile(r"[\d\s*+\-()A-Z_]+")
GUARD = re.compile(r">\s*[01]\b|!=\s*(?:NULL|0)\b")
GUARD_BEFORE = re.compile(r">\s*[01]\b|==\s*0\)\s*return")
LINES_BEFORE = 4
INSTEAD = {"memcpy": "tn__copy()", "memmove": "tn__copy_within()", "qsort": "tn__sort()", "bsearch": "a condition"}


def arguments(code, at):
    """Returns the arguments of the call whose bracket opens before `at`."""
    parts, depth, part = [], 0, ""
    for char in code[at:]:
        depth += (char in "([{") - (char in ")]}")
        if depth < 0:
            break
        if char == "," and depth == 0:
            parts.append(part)
            part = ""
        else:
            part += char
    return [" ".join(p.split()) for p in parts + [part]]


def is_unsafe(name, given):
    pointers, size = {"qsort": (given[:1], given[1]), "bsearch": (given[1:2], given[2])}.get(name, (given[:2], given[-1]))
    if CONSTANT.fullmatch(SIZEOF.sub("1", size)):
        return False
    return any(MEMBER.search(p) for p in pointers)


def check_file(path, text):
    """Returns the problems in a file."""
    code = blank(text)
    complaints = []
    for call in CALL.finditer(code):
        given = arguments(code, call.end())
        line = code.count("\n", 0, call.start())
        own = code[code.rfind("\n", 0, call.start()) + 1:call.start()]
        before = "\n".join(code.split("\n")[max(0, line - LINES_BEFORE):line])
        if len(given) < 3 or not is_unsafe(call[1], given) or GUARD.search(own) or GUARD_BEFORE.search(before):
            continue
        complaints.append(f"{path}:{line + 1}: {call[1]} of what may be empty and NULL: use {INSTEAD[call[1]]}")
    return complaints


def check(root):
    complaints = []
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*.[ch]")):
            name = path.relative_to(root)
            if str(name) != "src/base/copy.h":
                complaints += check_file(name, path.read_text())
    return complaints


if __name__ == "__main__":
    sys.exit(check_tree(check))
