#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds the #include lines of src/ to the edges between rooms that src/CMakeLists.txt declares with tn_room().

usage: check_rooms.py [ROOT]

A room's files may include their own room's headers, the headers of the rooms that its tn_room() line names, and the
public headers. src/cli is no room: it may use base, the table of options and the public headers; nor is src/tune_cli,
which may use src/cli and parts of the tuner, too. Headers of libraries belong to the room that wraps the library.
"""

import re
import sys
from pathlib import Path

from check_common import check_tree

# Library headers, by prefix, and the rooms that may see them.
LIBRARIES = {
    "llvm-c/": {"codegen/llvm"},
    "llvm/": {"codegen/llvm"},
    "CL/": {"runtime/opencl"},
    "protobuf-c/": {"import/onnx"},
    "sqlite3.h": {"tune/database"},
    "zlib.h": {"driver", "inspect", "program", "runtime", "cli", "tune/search"},
}
# Headers that the build generates, by name.
GENERATED = re.compile(r"^[A-Za-z0-9_/-]+\.(pb-c|inc)\.h$")
# The programs: their folders are no rooms.
PROGRAMS = {"cli": {"base", "options"}, "tune_cli": {"base", "options", "cli", "machine", "target/text", "tune/search", "tune/tuner", "tune/worker"}}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
# The contract between generated code and the runtime includes nothing but libc.
STANDALONE = {"include/tenon/kernel_abi.h": {"stdint.h", "stddef.h", "stdbool.h"}}


def read_rooms(cmake):
    """Room name -> rooms that it may include, from the tn_room(NAME DEPS...) lines."""
    rooms = {}
    for number, line in enumerate(cmake.read_text().splitlines(), 1):
        match = re.match(r"^\s*tn_room\(([^)]*)\)", line)
        if not match:
            continue
        name, *deps = match.group(1).split()
        if name in rooms:
            raise SystemExit(f"{cmake}:{number}: the room {name} is declared twice")
        rooms[name] = set(deps)
    if not rooms:
        raise SystemExit(f"{cmake}: no tn_room() line found")
    return rooms


def find_cycle(rooms):
    done, path = set(), []

    def visit(name):
        if name in path:
            return path[path.index(name):] + [name]
        if name in done:
            return None
        path.append(name)
        for dep in sorted(rooms.get(name, ())):
            cycle = visit(dep)
            if cycle:
                return cycle
        path.pop()
        done.add(name)
        return None

    for room in sorted(rooms):
        cycle = visit(room)
        if cycle:
            return cycle
    return None


def room_of(path, rooms):
    """The room of a path relative to src/: the longest room name that is its folder."""
    folder = path.parent.as_posix()
    return folder if folder in rooms or folder in PROGRAMS else None


def check_include(room, allowed, target, quoted, root, rooms):
    """The complaint about one #include line, or None."""
    for prefix, users in LIBRARIES.items():
        if target.startswith(prefix):
            return None if room in users else f"only {' and '.join(sorted(users))} may include <{target}>"
    if target.startswith("tenon/"):
        return None if (root / "include" / target).exists() else f"there is no public header {target}"
    owner = room_of(Path(target), rooms)
    if owner is None:
        if not quoted or GENERATED.match(target):
            return None
        return f'"{target}" is not in a room; includes are written "room/header.h"'
    if not (root / "src" / target).exists() and not GENERATED.match(target):
        return f"there is no header src/{target}"
    if owner == room or owner in allowed:
        return None
    names = ", ".join(sorted(allowed)) or "no other room"
    return f"the room {room} may not include {target}: it may use {names} (src/CMakeLists.txt)"


def includes(path):
    for number, line in enumerate(path.read_text().splitlines(), 1):
        match = INCLUDE.match(line)
        if match:
            yield number, match.group(2), match.group(1) == '"'


def check(root):
    rooms = read_rooms(root / "src/CMakeLists.txt")
    problems = []
    cycle = find_cycle(rooms)
    if cycle:
        problems.append(f"src/CMakeLists.txt: the rooms form a cycle: {' -> '.join(cycle)}")
    for path in sorted((root / "src").rglob("*.[ch]")):
        relative = path.relative_to(root / "src")
        room = room_of(relative, rooms)
        if room is None:
            problems.append(f"src/{relative}:1: the folder is no room: add a tn_room() line to src/CMakeLists.txt")
            continue
        allowed = PROGRAMS.get(room) or rooms[room]
        for number, target, quoted in includes(path):
            complaint = check_include(room, allowed, target, quoted, root, rooms)
            if complaint:
                problems.append(f"src/{relative}:{number}: {complaint}")
    for path in sorted((root / "include").rglob("*.h")):
        relative = path.relative_to(root).as_posix()
        for number, target, _ in includes(path):
            if relative in STANDALONE and target not in STANDALONE[relative]:
                problems.append(f"{relative}:{number}: this header includes nothing but libc, not {target}")
            elif room_of(Path(target), rooms) is not None:
                problems.append(f"{relative}:{number}: a public header may not include {target} from inside")
    return problems


if __name__ == "__main__":
    sys.exit(check_tree(check))
