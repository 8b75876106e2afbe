#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds the built libraries to two promises: no global mutable state, and nothing exported but the public API.

usage: check_symbols.py ROOT ARCHIVE... SHARED...

An archive (.a) may define no object in a writable section; constant tables with pointers (.data.rel.ro) are fine, for
the loader makes them read-only. A shared library (.so) exports just what ROOT/include/tenon declares with TN_API.
"""

import re
import subprocess
import sys
from pathlib import Path

from check_common import report

WRITABLE = re.compile(r"^\.(data|bss|tdata|tbss)(?!\.rel\.ro)")


def lines_of(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


def mutable_objects(archive):
    """Yields (object file, name) of everything in writable sections."""
    member = "?"
    for line in lines_of("objdump", "-t", archive):
        match = re.match(r"^(\S+\.o):\s", line)
        if match:
            member = match.group(1)
        match = re.match(r"^[0-9a-f]+ (.{7}) (\S+)\s+([0-9a-f]+)\s+(?:\.\w+\s+)?(\S+)$", line)
        if not match:
            continue
        flags, section, size, name = match.groups()
        is_object = "O" in flags or (re.match(r"\.t(data|bss)", section) and "d" not in flags)
        if is_object and (WRITABLE.match(section) or section == "*COM*") and int(size, 16) > 0:
            yield member, name


def declared_api(include):
    names = set()
    for header in sorted((include / "tenon").glob("*.h")):
        for declaration in re.findall(r"^TN_API\b([^;{]*)", header.read_text(), re.MULTILINE):
            names.add(re.search(r"(tn_\w+)\s*\(", declaration).group(1))
    return names


# GDB finds the names of kernels in memory through a list that belongs to the process (src/runtime/debug.c): an exception to both.
GDB_LIST = {"__jit_debug_register_code", "__jit_debug_descriptor", "jit_lock"}

# LLVM's options belong to the process, too, and are set when the first kernel is compiled (src/codegen/llvm/module.c).
EXCEPTIONS = {("debug.c.o", name) for name in GDB_LIST} | {("module.c.o", "llvm_options_once")}

# GNU ld exports these marks of its own from a library that is linked against another one which exports them, as LLVM's does.
LINKER_MARKS = {"__bss_start", "_edata", "_end"}


def exported(shared):
    return {line.split()[-1] for line in lines_of("nm", "-D", "--defined-only", shared)} - LINKER_MARKS


def check(root, libraries):
    problems = []
    api = declared_api(Path(root) / "include")
    for library in libraries:
        name = Path(library).name
        if name.endswith(".a"):
            for member, symbol in mutable_objects(library):
                if (member, symbol) in EXCEPTIONS:
                    continue
                problems.append(f"{name}: {member}: {symbol} is global mutable state")
        else:
            for symbol in sorted(exported(library) - api - GDB_LIST):
                problems.append(f"{name}: {symbol} is exported, but include/tenon does not declare it with TN_API")
    return problems


if __name__ == "__main__":
    sys.exit(report(check(sys.argv[1], sys.argv[2:])))
