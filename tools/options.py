#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes what is made from the table of options (src/options): Python's keywords and stub, and docs/options.md.

usage: options.py --check | --update     with the built package in PYTHONPATH

What stands between the two lines about the table in each of these files belongs to this tool. --check fails when it is
not what the table makes.
"""

import re
import sys
from pathlib import Path

from tenon import _tenon

ROOT = Path(__file__).resolve().parents[1]
BETWEEN = re.compile(r"(?<=The table of options, by tools/options.py --update:)( -->)?\n.*?(?=^ *(?:#|<!--) The table's end)",
                     re.DOTALL | re.MULTILINE)

KEYWORDS = {
    "flag": ("bool", "False"), "count": ("int | None", "None"), "bytes": ("int | None", "None"),
    "text": ("str | None", "None"), "path": ("str | os.PathLike[str] | None", "None"),
    "words": ("str | Iterable[str] | None", "None"),
    "dims": ("Mapping[str, Union[int, Sequence[int]]] | None", "None"), "sizes": ("Mapping[str, int] | None", "None"),
    "pairs": ("Mapping[str, str] | None", "None"), "names": ("Iterable[str]", "()"),
    "annotations": ("Iterable[OnDevice]", "()"),
    "file": ("str | os.PathLike[str] | None", "None"),
}  # fmt: skip
FIELDS = {
    "flag": "bool", "count": "int", "bytes": "int", "text": "str", "path": "str", "words": "str",
    "dims": "list[tuple[str, int]]", "sizes": "list[tuple[str, int]]", "pairs": "list[tuple[str, str]]",
    "names": "list[str]", "annotations": "list[tuple[str, str, bool, bool]]", "file": "str",
}  # fmt: skip
TYPES = {"file": "text, or the file with it", "dims": "names and sizes", "sizes": "names and sizes", "pairs": "pairs of names", "annotations": "values and devices", "caller": "the program's"}


def keyword(row):
    kind, usual = KEYWORDS[row["kind"]]
    if row["kind"] == "names" and "=" in (row["value"] or ""):
        kind = "Mapping[str, Any] | Iterable[str]"
    return f"    {row['python']}: {kind} = {'True' if row['reversed'] else usual},\n"


def keywords(rows, declared):
    """Those with a position first; declarations have `dims` of their own, of one size each."""
    rows = [row for row in rows if row["python"] and (row["declared"] and row["kind"] != "dims" if declared else not row["alone"])]
    first = sorted((row for row in rows if row["position"]), key=lambda row: row["position"])
    rest = [row for row in rows if not row["position"]]
    return "".join([*map(keyword, first), *(["    *,\n"] if rest else []), *map(keyword, rest)])


def stub(rows):
    return "".join(f"    {row['name']}: {FIELDS[row['kind']]}\n" for row in rows if row["kind"] != "caller")


def value_of(row):
    if row["kind"] != "count" and row["kind"] not in ("sizes", "dims"):
        return TYPES.get(row["kind"], row["kind"])
    top = f" to {row['high']:,}" if row["high"] < 2**62 else " or more"
    return f"{TYPES.get(row['kind'], row['kind'])}, {row['low']}{top}"


def page(rows):
    lines = ["", "| C | command line | Python | value | default | code | `.te` | |", "| --- | --- | --- | --- | --- | --- | --- | --- |"]
    for row in rows:
        flag = f"`{row['cli']}`" if row["cli"] else ""
        python = f"`{row['python']}`{', the opposite' if row['reversed'] else ''}" if row["python"] else ""
        marks = ("yes" if row["code"] else "", "yes" if row["declared"] else "")
        lines.append(f"| `{row['name']}` | {flag} | {python} | {value_of(row)} | {row['usual']} | {marks[0]} | {marks[1]} | {row['help']} |")
    return "\n".join([*lines, "", ""])


def main():
    if sys.argv[1:] not in (["--check"], ["--update"]):
        sys.exit(__doc__)
    rows, stale = _tenon.options(), []
    for path, texts in (("bindings/python/tenon/__init__.py", [keywords(rows, False), keywords(rows, True)]),
                        ("bindings/python/tenon/_tenon.pyi", [stub(rows)]), ("docs/options.md", [page(rows)])):
        file, parts = ROOT / path, iter(texts)
        old = file.read_text(encoding="utf-8")
        new, count = BETWEEN.subn(lambda match: (match.group(1) or "") + "\n" + next(parts), old)
        if count != len(texts):
            sys.exit(f"{path}: the lines around the table are missing")
        if new != old:
            stale.append(path)
        if new != old and sys.argv[1] == "--update":
            file.write_text(new, encoding="utf-8")
    if stale and sys.argv[1] == "--check":
        sys.exit(f"not what the table of options makes: {', '.join(stale)}; run tools/options.py --update")


main()
