#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds the documentation, and comments in the source, to the files that they point to.

usage: check_links.py [ROOT]

In every Markdown file: the target of a relative link exists, and so does a path of the project in `code` (one that starts
with a folder of the root); and so does a C file that a comment below src names, by its name or the end of its path. A * in
a path stands for anything, and so does a word in capitals: tests/unit/test_NAME.c.
"""

import re
import sys
from pathlib import Path

from check_common import check_tree

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
CODE = re.compile(r"`([^`\s]+)`")
COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
FILE = re.compile(r"(?<![\w./%<\"-])[a-z][a-z_0-9/]{2,}\.[ch]\b")
FOLDERS = ("src/", "include/", "tools/", "tests/", "docs/", "examples/", "bench/", "bindings/", "cmake/", ".ci/")
SKIPPED_FOLDERS = {"build", ".deps", ".git", "dist", "fixtures"}


def exists(base, path):
    if (base / path).exists():
        return True
    pattern = re.sub(r"(?<![A-Za-z])[A-Z]{2,}(?![A-Za-z])", "*", path).rstrip("/")
    return next(base.glob(pattern), None) is not None


def check_file(root, path):
    in_listing = False
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if line.lstrip().startswith("```"):
            in_listing = not in_listing
        if in_listing:
            continue
        for target in LINK.findall(line):
            if not re.match(r"[a-z]+:|#", target) and not (path.parent / target.split("#")[0]).exists():
                yield number, f"the link {target} points to nothing"
        for code in CODE.findall(line):
            name = code.split(":")[0]
            if name.startswith(FOLDERS) and "{" not in name and not exists(root, name):
                yield number, f"there is no {name}"


def check_comments(root, path, names):
    """`names`: the paths of the C files that there are, and each of their ends."""
    text = path.read_text()
    for comment in COMMENT.finditer(text):
        for match in FILE.finditer(comment.group(0)):
            if match.group(0) not in names:
                yield text.count("\n", 0, comment.start() + match.start()) + 1, f"there is no {match.group(0)}"


def ends(path):
    """a/b/c.h: itself, b/c.h and c.h."""
    return {"/".join(path.parts[i:]) for i in range(len(path.parts))}


def check(root):
    problems = []
    sources = [path.relative_to(root) for folder in ("src", "include", "tests") for path in (root / folder).rglob("*.[ch]")]
    names = set().union(*map(ends, sources))
    for path in sorted(path for path in sources if path.parts[0] == "src"):
        problems += [f"{path.as_posix()}:{line}: {text}" for line, text in check_comments(root, root / path, names)]
    for path in sorted(root.rglob("*.md")):
        relative = path.relative_to(root)
        if SKIPPED_FOLDERS.intersection(relative.parts):
            continue
        problems += [f"{relative.as_posix()}:{line}: {text}" for line, text in check_file(root, path)]
    return problems


if __name__ == "__main__":
    sys.exit(check_tree(check))
