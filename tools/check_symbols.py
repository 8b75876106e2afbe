#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds the built libraries to two promises: no global mutable state, and just the public API exported.

usage: check_symbols.py ROOT ARCHIVE... SHARED...

An archive (.a) may define no object in a writable section; constant tables with pointers (.data.rel.ro) are fine, for
the loader makes them read-only. A shared library (.so) exports just what its headers in ROOT/include/tenon declare with
TN_API, under the version of base.h, and the runtime what TN__LINKED marks (src/base/linked.h). Nothing public is in two
libraries of a kind.
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


# Which headers a shared library stands for; another's, all of them.
HEADERS = {"libtenon_runtime": ("base.h", "runtime.h"), "libtenon": ("compile.h", "te.h"), "libtenon_tune": ("tune.h", "database.h")}


def functions(files, mark):
    """The names of the functions (and constants) that the headers declare with the mark."""
    names = set()
    for header in files:
        for declaration in re.findall(rf"^{mark}\b([^;{{]*)", header.read_text(), re.MULTILINE):
            names.add(re.search(r"(tn_\w+)\s*(\(|$)", declaration.split(";")[0]).group(1))
    return names


def version(include):
    """The three numbers, as text."""
    text = "".join(header.read_text() for header in sorted(include.glob("tenon/*.h")))
    return [re.search(rf"#define TN_VERSION_{part} (\d+)", text).group(1) for part in ("MAJOR", "MINOR", "PATCH")]


def wanted(root, name):
    """What the library exports: symbol -> version."""
    include = root / "include/tenon"
    headers = sorted(include.glob("*.h"))
    major, minor, patch = version(root / "include")
    stands_for = HEADERS.get(name.split(".")[0], [header.name for header in headers])
    symbols = dict.fromkeys(functions([include / header for header in stands_for], "TN_API"), f"TENON_{major}.{minor}")
    linked = sorted((root / "src").rglob("*.h"))
    if "runtime.h" in stands_for:
        symbols |= dict.fromkeys(GDB_LIST, f"TENON_{major}.{minor}")
        linked = sorted((root / "src/runtime").rglob("*.h"))
    elif "compile.h" in stands_for:
        linked = [header for header in linked if "runtime" not in header.relative_to(root / "src").parts]
    else:
        return symbols
    symbols |= dict.fromkeys(functions(linked, "TN__LINKED"), f"TENON_PRIVATE_{major}.{minor}.{patch}")
    return symbols


# GDB finds the names of kernels in memory through a list that belongs to the process (src/runtime/executable/debug.c): an exception to both.
GDB_LIST = {"__jit_debug_register_code", "__jit_debug_descriptor"}

# LLVM's options belong to the process, too, and are set when the first kernel is compiled (src/codegen/llvm/module.c).
EXCEPTIONS = {("debug.c.o", name) for name in GDB_LIST | {"jit_lock"}} | {("module.c.o", "llvm_options_once")}

# GNU ld exports these marks of its own from a library that is linked against another one which exports them, as LLVM's does.
LINKER_MARKS = {"__bss_start", "_edata", "_end"}


def exported(shared):
    """symbol -> version, or "" when it has none."""
    symbols = {}
    for line in lines_of("nm", "-D", "--defined-only", shared):
        kind, symbol = line.split()[-2:]
        if kind != "A":  # a version's own mark
            name, _, version = symbol.partition("@")
            symbols[name] = version.lstrip("@")
    return {name: version for name, version in symbols.items() if name not in LINKER_MARKS}


def check_shared(root, library):
    name = Path(library).name
    have, want = exported(library), wanted(Path(root), name)
    for symbol in sorted(have.keys() - want.keys()):
        yield f"{name}: {symbol} is exported, but no header says so (include/tenon with TN_API, src/runtime with TN__LINKED)"
    for symbol in sorted(want.keys() - have.keys()):
        yield f"{name}: {symbol} is declared, but not exported"
    for symbol in sorted(have.keys() & want.keys()):
        if have[symbol] != want[symbol]:
            yield f"{name}: {symbol} has {have[symbol] or 'no version'}, not {want[symbol]}"


def defined_twice(libraries):
    """What is public is in one library alone, so that a status of one is a status of the other."""
    owner = {}
    for library in libraries:
        for line in lines_of("nm", "--defined-only", library):
            match = re.match(r"[0-9a-f]+ [TDRBG] (tn_[^_]\w*)", line, re.IGNORECASE)
            if match and owner.setdefault(match.group(1), library) != library:
                yield f"{Path(library).name}: {match.group(1)} is in {Path(owner[match.group(1)]).name}, too"


def check(root, libraries):
    problems = []
    for library in libraries:
        name = Path(library).name
        if name.endswith(".a"):
            for member, symbol in mutable_objects(library):
                if (member, symbol) in EXCEPTIONS:
                    continue
                problems.append(f"{name}: {member}: {symbol} is global mutable state")
        else:
            problems += check_shared(root, library)
    problems += defined_twice([library for library in libraries if not str(library).endswith(".a")])
    problems += defined_twice([library for library in libraries if str(library).endswith(".a")])
    return problems


if __name__ == "__main__":
    sys.exit(report(check(sys.argv[1], sys.argv[2:])))
