#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that the table of readers in docs/security.md, the fuzz targets of tests/fuzz and the source agree.

usage: check_readers.py [ROOT]

The last two columns of the table are an index. The reader of a row is a function with the file that defines it, and
further files that read for it. The target is that of tests/fuzz/fuzz_NAME.c, with seeds in tests/fuzz/corpus/NAME, or
"none: " and a reason. Each target has one row. Each file of src that opens a file, a library or a database for reading
appears in a row.
"""

import re
from pathlib import Path

from check_common import check_tree

PAGE = "docs/security.md"
HEAD = "| input | read by | promise | reader | fuzz target |"
FUNCTION = re.compile(r"^`(\w+)` in `(src/[\w/]+\.c)`")
FILE = re.compile(r"`(src/[\w/]+\.c)`")
TARGET = re.compile(r"^`(\w+)`$")
NO_TARGET = re.compile(r"^none: \w")
OPENS = re.compile(r"(?<![\w.>])(?:tn__file_map_open|dlopen|sqlite3_open_v2|read|recv|open(?=\([^;]*O_RD)|fopen(?=\([^;]*\"r))\(")
# Functions used by all readers, and the bytewise comparison of two files.
PRIMITIVES = {"src/base/file.c", "src/base/beside.c"}


def rows(text):
    """Yields the line number and cells of each row."""
    lines = text.splitlines()
    at = lines.index(HEAD) + 2 if HEAD in lines else len(lines)
    while at < len(lines) and lines[at].startswith("|"):
        yield at + 1, [cell.strip() for cell in lines[at].strip().strip("|").split("|")]
        at += 1


def check_reader(root, cell, named):
    found = FUNCTION.match(cell)
    named.update(FILE.findall(cell))
    if not found:
        return ["the reader begins with a function and its file: `NAME` in `src/ROOM/FILE.c`"]
    name, file = found.groups()
    problems = [f"there is no {path}" for path in FILE.findall(cell) if not (root / path).is_file()]
    if not problems and not re.search(rf"^[a-z_][\w *]*\b{name}\(", (root / file).read_text(), re.MULTILINE):
        problems.append(f"{file} defines no function {name}")
    return problems


def check_target(root, cell, seen):
    found = TARGET.match(cell)
    if not found:
        return [] if NO_TARGET.match(cell) else ["the fuzz target is `NAME`, or none: and why"]
    name = found.group(1)
    problems = []
    if name in seen:
        problems.append(f"the fuzz target {name} has a row already, in line {seen[name]}")
    if not (root / f"tests/fuzz/fuzz_{name}.c").is_file():
        problems.append(f"there is no tests/fuzz/fuzz_{name}.c")
    elif not any((root / f"tests/fuzz/corpus/{name}").glob("*")):
        problems.append(f"there are no seeds in tests/fuzz/corpus/{name}")
    return problems


def opening(root):
    for path in sorted((root / "src").rglob("*.c")):
        text = re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.DOTALL)
        if OPENS.search(text):
            yield str(path.relative_to(root))


def check(root):
    problems, seen, named = [], {}, set()
    count = 0
    for line, cells in rows((root / PAGE).read_text()):
        count += 1
        if len(cells) != 5:
            problems.append(f"{PAGE}:{line}: a row has five cells, and this one {len(cells)}")
            continue
        found = check_reader(root, cells[3], named) + check_target(root, cells[4], seen)
        problems += [f"{PAGE}:{line}: {problem}" for problem in found]
        target = TARGET.match(cells[4])
        if target:
            seen.setdefault(target.group(1), line)
    if count == 0:
        problems.append(f"{PAGE}: the table of readers is missing, which begins with the line {HEAD}")
    for path in sorted((root / "tests/fuzz").glob("fuzz_*.c")):
        name = path.stem[len("fuzz_"):]
        if name not in seen:
            problems.append(f"tests/fuzz/{path.name}: the fuzz target has no row in {PAGE}")
    problems += [f"{path}: it opens files of others, and no row of {PAGE} names it" for path in opening(root)
                 if path not in named | PRIMITIVES]
    return problems


if __name__ == "__main__":
    raise SystemExit(check_tree(check))
