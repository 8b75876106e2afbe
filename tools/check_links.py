#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds the documentation to the files that it points to.

usage: check_links.py [ROOT]

In every Markdown file: the target of a relative link exists, and so does a path of the project in `code` (one that starts
with a folder of the root). A * in a path stands for anything, and so does a word in capitals: tests/unit/test_NAME.c.
"""

import re
import sys
from pathlib import Path

from check_common import check_tree

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
CODE = re.compile(r"`([^`\s]+)`")
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


def check(root):
    problems = []
    for path in sorted(root.rglob("*.md")):
        relative = path.relative_to(root)
        if SKIPPED_FOLDERS.intersection(relative.parts):
            continue
        problems += [f"{relative.as_posix()}:{line}: {text}" for line, text in check_file(root, path)]
    return problems


if __name__ == "__main__":
    sys.exit(check_tree(check))
