#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds libtenon_runtime.so to what an embedder is promised: it is small and links nothing but libc, libm, libpthread and libdl.

usage: check_runtime_library.py LIBRARY [--size]

The size is that of what is shipped: --size is for builds that are optimised as a release is.
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

MOST_BYTES = 320 * 1024
ALLOWED = re.compile(r"^(lib(c|m|pthread|dl)|ld-linux[-\w]*)\.so")


def needed(library):
    text = subprocess.run(["readelf", "-d", library], capture_output=True, text=True, check=True).stdout
    return re.findall(r"\(NEEDED\).*\[(.*)\]", text)


def stripped_size(library):
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "library.so"
        subprocess.run(["strip", "-o", copy, library], check=True)
        return copy.stat().st_size


def main():
    library = sys.argv[1]
    problems = [f"it links {name}" for name in needed(library) if not ALLOWED.match(name)]
    size = stripped_size(library)
    held = "--size" in sys.argv[2:]
    if held and size > MOST_BYTES:
        problems.append(f"stripped it has {size} bytes, more than {MOST_BYTES}")
    for problem in problems:
        print(f"{library}: {problem}", file=sys.stderr)
    print(f"{size} bytes stripped{'' if held else ', which only a release is held to'}; links {', '.join(needed(library))}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
