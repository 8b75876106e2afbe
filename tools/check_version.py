#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds what speaks of the version to include/tenon/base.h, where it stands.

usage: check_version.py [ROOT]

"producer: tenon X.Y.Z" in documentation and find_package(Tenon X.Y) in examples are this version; "Since X.Y" of a public
header is this one or an earlier; the changelog has a section for what is not released yet, or for this version, on top.
"""

import re
import sys

from check_common import check_tree
from check_symbols import version

# What is said to be this very version, by file.
CURRENT = (("README.md", r"producer: tenon ([\d.]+)"), ("docs/executable-format.md", r"`tenon ([\d.]+)`"),
           ("include/tenon/*.h", r'"tenon ([\d.]+)"'), ("include/tenon/base.h", r'of the library that runs: "([\d.]+)"'),
           ("examples/*/CMakeLists.txt", r"find_package\(Tenon ([\d.]+)"))


def numbers(text):
    return [int(part) for part in text.split(".")]


def findings(root, pattern, expression):
    for path in sorted(root.glob(pattern)):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            for found in re.findall(expression, line):
                yield f"{path.relative_to(root).as_posix()}:{number}", found


def check(root):
    now = version(root / "include")
    text = ".".join(now)
    for pattern, expression in CURRENT:
        for place, found in findings(root, pattern, expression):
            if found.split(".") != now[:len(found.split("."))]:
                yield f"{place}: it says {found}, and the version is {text} (include/tenon/base.h)"
    for place, found in findings(root, "include/tenon/*.h", r"\bSince (\d+\.\d+)"):
        if numbers(found) > numbers(text)[:2]:
            yield f"{place}: since {found}, and the version is {text}"
    for place, found in list(findings(root, "CHANGELOG.md", r"^## \[(.*)\]"))[:1]:
        if found not in ("Unreleased", text):
            yield f"{place}: the section on top is for {found}, and the version is {text}"


if __name__ == "__main__":
    sys.exit(check_tree(lambda root: list(check(root))))
