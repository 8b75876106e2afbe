#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds the names of functions that files share to the prefixes of their rooms.

usage: check_names.py [ROOT]

A function that a header below src declares begins with a prefix of its room, which tools/prefixes.txt lists, or with the
name of a type that a header of the room defines: tn__graph_print prints a tn__graph.
"""

import re
import sys
from pathlib import Path

from check_common import check_tree

COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
# A declaration at file scope: clang-format starts it in the first column.
FUNCTION = re.compile(r"^(?!#|typedef)\w[^\n(;={]*?\b((?:tn__|cli_|tune_)\w+)\(", re.MULTILINE)
TYPE = re.compile(r"\b(?:struct|enum|union) (tn__\w+)|^\} (tn__\w+);|^typedef [^;{(]*?\b(tn__\w+);|^typedef [^;{]*?\(\*(tn__\w+)\)",
                  re.MULTILINE)


def read_prefixes(path):
    """Room -> the prefixes of its functions."""
    rows = (line.split() for line in path.read_text().splitlines() if line and not line.startswith("#"))
    return {room: prefixes for room, *prefixes in rows}


def check(root):
    prefixes = read_prefixes(root / "tools/prefixes.txt")
    headers = {}
    for path in sorted((root / "src").rglob("*.h")):
        # Comments keep their lines, so that those of functions can be told.
        text = COMMENT.sub(lambda match: "\n" * match.group().count("\n"), path.read_text())
        headers.setdefault(str(path.parent.relative_to(root / "src")), {})[path] = text
    problems = []
    for room, texts in headers.items():
        if room not in prefixes:
            problems.append(f"src/{room}: tools/prefixes.txt has no row for the room")
            continue
        if prefixes[room] == ["-"]:
            continue
        types = {name for text in texts.values() for match in TYPE.finditer(text) for name in match.groups() if name}
        for path, text in texts.items():
            for match in FUNCTION.finditer(text):
                name = match.group(1)
                if name in (*types, *prefixes[room]) or name.startswith(tuple(f"{prefix}_" for prefix in (*types, *prefixes[room]))):
                    continue
                line = text.count("\n", 0, match.start(1)) + 1
                problems.append(f"{path.relative_to(root)}:{line}: {name} has neither a prefix of src/{room} "
                                f"({', '.join(prefixes[room])}) nor the name of one of its types in front")
    return problems + [f"tools/prefixes.txt: there are no headers in src/{room}" for room in prefixes if room not in headers]


if __name__ == "__main__":
    sys.exit(check_tree(check))
