#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the C interface with the one that tools/abi keeps (docs/abi.md), or accepts a new one.

usage: abi.py [--update] [--cc COMPILER] [--library FILE] [LIBRARY...]

LIBRARY is libtenon_runtime, libtenon or libtenon_tune; all when none is named. What is looked at is a library made here from the public
headers alone, in which every function that they declare is defined and does nothing: it is the same on every machine, and
the libraries that are built hold to it, because their functions are compiled against these headers and lint.symbols
compares the names and versions of what they export. --library compares a library that was built with -g by gcc instead.
"""

import argparse
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from check_symbols import HEADERS, version

ROOT = Path(__file__).resolve().parents[1]
KEPT = ROOT / "tools/abi"
TYPES = {"libtenon_runtime": ("kernel_abi.h", "dlpack.h")}  # headers without functions
SHAPE = ["--drop-private-types", "--no-corpus-path", "--no-comp-dir-path", "--no-show-locs", "--no-elf-needed",
         "--no-architecture", "--load-all-types", "--type-id-style", "hash"]
ADVICE = """
{name}: the C interface is not the one of tools/abi/{name}.abi. If that is not meant, undo it: programs that are
compiled now would break. If it is meant, accept it with `./dev abi --update`, and say so in CHANGELOG.md. Once a version
is released, its interface does not change: the minor version grows (TN_VERSION_MINOR in include/tenon/base.h), and with it
the SONAME while the major version is 0. CONTRIBUTING.md has the rule.
"""


def run(*command, **options):
    return subprocess.run([str(word) for word in command], check=True, **options)


def definitions(text):
    """Every function that is declared with TN_API, as one that does nothing."""
    for declaration in re.findall(r"^TN_API\b([^;{]*);", text, re.MULTILINE):
        yield re.sub(r"TN_(MUST_USE|NEVER_NULL|PRINTF\([^)]*\))", "", declaration).strip() + " { __builtin_trap(); }\n"


def uses(text):
    """The names of types, so that those which no function takes are described, too."""
    for names in re.findall(r"^(?:typedef [^{}\n]*)?\{?[^{}\n]*\} (\w+);|^typedef [^{};]*\(\*(\w+)\)\(|^typedef \w+ \w+ (\w+);",
                            text, re.MULTILINE):
        yield f"  {''.join(names)} *use_{''.join(names)};\n"


def empty_library(name, include, compiler, folder):
    """A library with the interface of `name` and nothing behind it."""
    major, minor, _ = version(include)
    source = "".join(f'#include "tenon/{header.name}"\n' for header in sorted((include / "tenon").glob("*.h")))
    text = "".join((include / "tenon" / header).read_text() for header in HEADERS[name] + TYPES.get(name, ()))
    source += "".join(definitions(text)) + "__attribute__((used)) static void types(void) {\n" + "".join(uses(text)) + "}\n"
    (folder / "interface.c").write_text(source)
    (folder / "interface.map").write_text(f"TENON_{major}.{minor} {{ global: tn_*; local: *; }};\n")
    number = f"{major}.{minor}" if major == "0" else major
    run(compiler, "-std=c17", "-g", "-O0", "-fPIC", "-shared", f"-I{include}", "-o", f"{name}.so", "interface.c",
        "-Wl,--version-script=interface.map", f"-Wl,-soname,{name}.so.{number}", cwd=folder)
    return folder / f"{name}.so"


def describe(library, include, out):
    run("abidw", *SHAPE, "--headers-dir", include, "--out-file", out, library)


def compare(kept, now, every_type):
    """What differs, as text; empty when nothing does."""
    more = ["--non-reachable-types"] if every_type else []
    done = subprocess.run(["abidiff", *more, "--suppressions", KEPT / "not_public.ini", kept, now], capture_output=True,
                          text=True)
    return done.stdout + done.stderr if done.returncode else ""


def main():
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--update", action="store_true")
    parser.add_argument("--cc", default="gcc")
    parser.add_argument("--include", type=Path, default=ROOT / "include")
    parser.add_argument("--kept", type=Path, default=KEPT)
    parser.add_argument("--library", type=Path)
    parser.add_argument("names", nargs="*")
    arguments = parser.parse_args()
    failed = False
    for name in arguments.names or HEADERS:
        kept = arguments.kept / f"{name}.abi"
        with tempfile.TemporaryDirectory() as folder:
            now = Path(folder) / f"{name}.abi"
            library = arguments.library or empty_library(name, arguments.include, arguments.cc, Path(folder))
            describe(library, arguments.include, now)
            if arguments.update:
                kept.write_text(now.read_text())
                continue
            report = compare(kept, now, every_type=not arguments.library)
            if report:
                print(report + ADVICE.format(name=name))
                failed = True
    return failed


if __name__ == "__main__":
    sys.exit(main())
