#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds the calls between compiled files to the edges between rooms, and to one direction inside of a room.

usage: check_calls.py BUILD [ROOT]

BUILD has the objects of src/ (nm reads them). An #include says less than a call: a header can declare what another room
defines. A call from one room to another needs the edge that src/CMakeLists.txt draws. Inside of a room files call one way;
tools/call_circles.txt says how many files of a room may stand in circles, and which functions are seams, that is, are
defined by a room above for the room that calls them. Tables of rows are data, not calls.
"""

import re
import subprocess
import sys
from pathlib import Path

from check_common import report
from check_rooms import read_rooms

OBJECT = re.compile(r"^build (src/CMakeFiles/tn_[a-z_]+\.dir/[a-z][^: ]*\.c\.o):", re.MULTILINE)
CODE = set("TtWi")  # nm's letters for functions


def read_objects(build):
    """File below src -> (functions that it defines, symbols that it wants)."""
    found = {}
    for name in OBJECT.findall((build / "build.ninja").read_text()):  # not what an older build left in the folder
        path = build / name
        lines = subprocess.run(["nm", "-g", str(path)], capture_output=True, text=True, check=True).stdout.split("\n")
        symbols = [line.split()[-2:] for line in lines if line]
        found[name.rsplit(".dir/", 1)[1][:-2]] = ({s for letter, s in symbols if letter in CODE}, {s for letter, s in symbols if letter == "U"})
    return found


def calls_of(objects):
    """File -> file -> the functions that it calls there."""
    home = {symbol: name for name, (defined, _) in objects.items() for symbol in defined}
    calls = {name: {} for name in objects}
    for name, (_, wanted) in objects.items():
        for symbol in sorted(wanted):
            if symbol in home and home[symbol] != name:
                calls[name].setdefault(home[symbol], []).append(symbol)
    return calls


def room_of(name):
    return name.rpartition("/")[0]


def reachable(calls, start, room):
    """Files of the room that can be reached from the calls of `start`."""
    seen, waiting = set(), [start]
    while waiting:
        for name in calls[waiting.pop()]:
            if room_of(name) == room and name not in seen:
                seen.add(name)
                waiting.append(name)
    return seen


def circles(calls, room):
    """The files of a room that can call themselves through others, in order."""
    files = [name for name in calls if room_of(name) == room]
    return [name for name in files if name in reachable(calls, name, room)]


def read_allowed(path):
    """(room -> files that may stand in circles, functions that are seams)"""
    allowed, seams = {}, set()
    for line in path.read_text().splitlines():
        if line and not line.startswith("#"):
            what, detail, _ = line.split(maxsplit=2)
            if what == "seam":
                seams.add(detail)
            else:
                allowed[what] = int(detail)
    return allowed, seams


def check(calls, rooms, allowed, seams):
    problems = []
    for name in sorted(calls):
        room = room_of(name)
        for other, wanted in sorted(calls[name].items()):
            symbols = [symbol for symbol in wanted if symbol not in seams]
            if symbols and room_of(other) not in rooms.get(room, set()) | {room}:
                problems.append(f"src/{name}: the room {room} may not call {room_of(other)}, which has {symbols[0]} "
                                "(src/CMakeLists.txt)")
    for room in sorted(rooms):
        found, most = circles(calls, room), allowed.get(room, 0)
        if len(found) > most:
            problems.append(f"src/{room}: {len(found)} files call each other in circles, {most} may (tools/call_circles.txt): "
                            + ", ".join(Path(name).name for name in found))
        elif len(found) < most:
            problems.append(f"tools/call_circles.txt: {room} has {len(found)} files in circles now, not {most}: say so")
    return problems


def main(arguments):
    if len(arguments) not in (1, 2):
        print(__doc__.split("\n\n")[1], file=sys.stderr)
        return 2
    root = Path(arguments[1] if len(arguments) == 2 else Path(__file__).parents[1]).resolve()
    objects = read_objects(Path(arguments[0]))
    if not objects:
        return report([f"{arguments[0]}: no objects of src/ here; build it first"])
    return report(check(calls_of(objects), read_rooms(root / "src/CMakeLists.txt"), *read_allowed(root / "tools/call_circles.txt")))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
