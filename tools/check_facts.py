#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds the passes to the table of core operators: what several operators have in common is a fact in their rows, and
nobody asks for names instead.

usage: check_facts.py [ROOT]

- The name of an operator is compared in one place, tn__g_is_op. Elsewhere it is for messages.
- Only files that hold rules, each of which rewrites one operator, ask tn__g_is_op or look a producer up by its name.
- No list of names but in builders, and no function that asks one node for two of them.
- No table with rows for several operators but those of rewrite rules, each of which rewrites one, of ONNX's operators, and
  of what the VM has for each (src/program): what a pass asks several operators is a function or a fact in their rows.
- Of ONNX's operators, the functions that serve several compare names; the importer itself has the rows of ops_table.c.

The names are those of the rows, src/graph/ops. What it reads is C as clang-format leaves it.
"""

import re
import sys
from pathlib import Path

from check_common import check_tree
from check_style import functions

ROOMS = ("src/graph", "src/kernels", "src/program", "src/driver", "src/inspect", "src/import", "src/schedule")
ROW = re.compile(r'(?:\.name = |TN__ROW\w*\(\s*(?:[-\w]+,\s*|"[^"\n]*\[[^"\n]*",\s*)*)"([a-z_0-9]+)"')
NAME = r'"([a-z_0-9]+)"'
# Where rules stand: a rule begins at one operator and may look at those around it.
RULES = re.compile(r"^src/(graph/(build|grow)/\w+|graph/parse|graph/passes/(rules_\w+|attention|layout|pack|phases|pointwise|quads|quantized|raise|rewrite|rows|winograd)|"
                   r"program/(lists|strings))\.c$")
ASKS = re.compile(r"\b(?:tn__g_is_op|tn__pass_producer_of)\s*\(")
ASKED = re.compile(r"\btn__g_is_op\(([^,()]*(?:\([^()]*\)[^,()]*)*), " + NAME + r"\)")
COMPARED = re.compile(r"->op [!=]= tn__op_find\(|->op->name\s*(?:\[\w+\]\s*)?[!=]=|\bstrn?cmp\s*\((?:[^();]|\([^();]*\))*->op->name\b")
IMPORTED = re.compile(r"^src/import/onnx/(?!ops_)")
IMPORTED_COMPARED = re.compile(r"\bstrcmp\(n->name, ")
TABLE = re.compile(r"(?:\b(\w+)|\})\s+\*?(?:const\s+)?(\w+)\[\w*\]\s*=\s*\{(.*?)\};", re.DOTALL)
TABLES = {"tn__rewrite_rule", "tn__onnx_op", "char"}
TABLES_OF_CODE = re.compile(r"^src/program/(lists|strings)\.c$")
LIST = re.compile(r"\{\s*" + NAME + r"\s*,\s*" + NAME)


def rows(root):
    names = set()
    for path in sorted((root / "src/graph/ops").glob("*.c")):
        names.update(ROW.findall(path.read_text()))
    return names


def without_comments(text):
    """`text` with comments blanked, the rest in place."""
    return re.sub(r"//[^\n]*|/\*.*?\*/", lambda m: re.sub(r"[^\n]", " ", m.group(0)), text, flags=re.DOTALL)


def check_file(relative, text, names):
    code = without_comments(text)

    def line(at):
        return code.count("\n", 0, at) + 1

    lines = code.splitlines()
    for name, _, first, last in functions(text):
        body = "\n".join(lines[first - 1:last])
        start = sum(len(each) + 1 for each in lines[:first - 1])
        if name != "tn__g_is_op":
            for match in COMPARED.finditer(body):
                yield (f"{relative}:{line(start + match.start())}: {name} compares an operator's name; "
                       "ask a fact of its row, or tn__g_is_op in a rule")
        for match in IMPORTED_COMPARED.finditer(body) if IMPORTED.search(relative) else ():
            yield (f"{relative}:{line(start + match.start())}: {name} compares an ONNX operator's name; "
                   "ask a fact of its row in ops_table.c")
        if not RULES.search(relative):
            for match in ASKS.finditer(body):
                if not re.match(r"tn__(g_is_op|pass_producer_of)$", name):
                    yield (f"{relative}:{line(start + match.start())}: {name} asks for an operator by name, which only rules do; "
                           "ask a fact of its row")
        asked = {}
        for match in ASKED.finditer(body):
            asked.setdefault(match.group(1), set()).add(match.group(2))
        for node, several in asked.items():
            if len(several) > 1:
                yield (f"{relative}:{first}: {name} asks whether {node} is one of {', '.join(sorted(several))}; "
                       "what they have in common is a fact in their rows")
    for match in () if TABLES_OF_CODE.search(relative) else TABLE.finditer(code):
        several = sorted({word for word in re.findall(NAME, match.group(3)) if word in names})
        if len(several) > 1 and match.group(1) not in TABLES:
            yield (f"{relative}:{line(match.start())}: the table {match.group(2)} has rows for operators, {several[0]}, "
                   f"{several[1]} ...; what they differ in is a fact or a function in their rows")
    for match in LIST.finditer(code):
        if "graph/build/" not in relative and {match.group(1), match.group(2)} <= names:
            yield (f"{relative}:{line(match.start())}: a list of operators, {match.group(1)}, {match.group(2)} ...; "
                   "what they have in common is a fact in their rows")


def check(root):
    names = rows(root)
    if not names:
        return [f"{root}/src/graph/ops: no row of an operator found"]
    problems = []
    for room in ROOMS:
        for path in sorted((root / room).rglob("*.[ch]")):
            if path.parent != root / "src/graph/ops":
                problems.extend(check_file(path.relative_to(root).as_posix(), path.read_text(), names))
    return problems


if __name__ == "__main__":
    sys.exit(check_tree(check))
