#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints src/text/case_table.inc: Unicode's simple case mappings as runs of code points that move by one distance."""

import unicodedata


def runs(change):
    found = []
    for code in range(0x80, 0x110000):
        other = change(chr(code))
        if len(other) != 1 or ord(other) == code:
            continue
        delta = ord(other) - code
        if found and found[-1][2] == delta:
            first, last, _, step = found[-1]
            if step is None and code - last <= 2:
                found[-1] = (first, code, delta, code - last)
                continue
            if code - last == step:
                found[-1] = (first, code, delta, step)
                continue
        found.append((code, code, delta, None))
    return found


def table(name, change):
    print(f"static const case_run {name}[] = {{")
    line = "   "
    for first, last, delta, step in runs(change):
        item = f" {{0x{first:x}, {last - first}, {step or 1}, {delta}}},"
        if len(line) + len(item) > 118:
            print(line)
            line = "   "
        line += item
    print(line)
    print("};")


print(f"/* Unicode {unicodedata.unidata_version}, written by tools/make_case_table.py. Not formatted by hand. */")
table("to_lower", str.lower)
table("to_upper", str.upper)
