#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Keeps what is true of one architecture only in the files that are there for it.

usage: check_targets.py [ROOT]

Names of architectures, of their features and of their ELF machines stand in src/target and in src/codegen/llvm/arch*.c (ELF
machines in its linker, too). Everything else asks a target what it can do (tn__target_can), what a row of a table says, or
a hook.
"""

import re
import sys
from pathlib import Path

from check_common import check_tree

COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
NAME = re.compile(r"\b(?:TN__ARCH_|TN__X86_|TN__ARM_|EM_X86_64\b|EM_AARCH64\b)\w*")
HOMES = re.compile(r"src/target/|src/codegen/llvm/arch\w*\.c$")
LINKER = "src/codegen/llvm/link.c"


def check(root):
    problems = []
    for path in sorted((root / "src").rglob("*.[ch]")):
        name = str(path.relative_to(root))
        if HOMES.match(name):
            continue
        # Comments keep their lines, so that those of code can be told.
        text = COMMENT.sub(lambda match: "\n" * match.group().count("\n"), path.read_text())
        for number, line in enumerate(text.split("\n"), 1):
            for word in NAME.findall(line):
                if name != LINKER or not word.startswith("EM_"):
                    problems.append(f"{name}:{number}: {word} is of one architecture; ask tn__target_can or a row of src/target, "
                                    "or write a hook in src/codegen/llvm/arch_*.c")
    return problems


if __name__ == "__main__":
    sys.exit(check_tree(check))
