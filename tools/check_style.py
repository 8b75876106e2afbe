#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds C and Python files to the project's sizes and names.

usage: check_style.py [ROOT]

- No file above 1,500 lines, no function above 120 lines; C has 120 columns (which clang-format leaves to authors in comments).
- Functions of the library that are not static start with tn_ (public) or tn__ (inside); a name in include/tenon is tn_.
- Macros of headers start with TN or tn__, and the header has the guard of its path.
- No marks of unfinished work.
- A name in quotes, part of a message, is made by tn__shown_text, which shows control characters.
- The environment is read by secure_getenv() in src: it counts for nothing where a program has other rights than its caller.

What it reads is C as this project writes it (formatted by clang-format), not all of C.
"""

import re
import sys
from pathlib import Path

from check_common import check_tree

MAX_FILE_LINES = 1500
MAX_FUNCTION_LINES = 120
MAX_COLUMNS = 120
RAW_NAME = re.compile(r'\btn__arena_printf\((?:(?!tn__shown_text\()[^;])*?\\"%(?:\.\*)?s\\"')
# Folders whose texts are parsed again or contain marks of scalars; names there follow the declaration language.
WORDS_ALONE = {Path("src/schedule"), Path("src/declarations")}
INSECURE = re.compile(r"(?<!_)\bgetenv\(")
UNFINISHED = re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X|HA" r"CK)\b")
# Generated tables are exempt, and DLPack's own header, whose names are DLPack's.
GENERATED = re.compile(r"(\.pb-c\.[ch]|_generated\.[ch]|\.inc)$|^dlpack\.h$")
SKIPPED_FOLDERS = {"build", ".deps", ".git", "dist"}
# tests/lint holds files that are wrong on purpose.
WRONG_ON_PURPOSE = Path("tests/lint/fixtures")
NOT_FUNCTIONS = {"if", "for", "while", "switch", "return", "sizeof", "defined", "do", "else", "_Static_assert"}


def blank(text):
    """`text` with comments, literals, attributes and preprocessor lines blanked, the rest in place."""
    pattern = re.compile(
        r"""//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|^[ \t]*\#(?:[^\n\\]|\\.|\\\n)*""",
        re.DOTALL | re.MULTILINE)
    attribute = re.compile(r"__attribute__\s*\(\(.*?\)\)", re.DOTALL)

    def spaces(match):
        return re.sub(r"[^\n]", " ", match.group(0))

    return attribute.sub(spaces, pattern.sub(spaces, text))


def functions(text):
    """Yields (name, is_static, first_line, last_line) of the function definitions of C text."""
    code = blank(text)
    depth, start, header_start = 0, 0, 0
    for position, char in enumerate(code):
        if char == "{":
            if depth == 0:
                start = position
            depth += 1
        elif char == "}":
            depth -= 1
            if depth == 0:
                header = code[header_start:start]
                match = re.search(r"([A-Za-z_]\w*)\s*\(", header)
                is_function = header.rstrip().endswith(")") and match and "=" not in header.split("(")[0]
                if is_function and match.group(1) not in NOT_FUNCTIONS:
                    leading = len(header) - len(header.lstrip())
                    first = code.count("\n", 0, header_start + leading) + 1
                    last = code.count("\n", 0, position) + 1
                    yield match.group(1), "static" in header.split("(")[0].split(), first, last
                    header_start = position + 1
        elif char == ";" and depth == 0:
            header_start = position + 1
        if depth == 0 and char == "}" and header_start <= start:
            header_start = position + 1  # the end of a type or of a table


def python_functions(text):
    """Yields (name, first_line, last_line) of the functions of Python text."""
    import ast
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node.name, node.lineno, node.end_lineno


def check_names(relative, text):
    parts = relative.parts
    in_library = parts[0] == "src" and parts[1] not in ("cli", "tune_cli")
    if in_library or parts[0] == "include":
        for name, is_static, first, _ in functions(text):
            if not is_static and not name.startswith("tn_"):
                yield first, f"{name} is neither static nor named tn_ or tn__"
    if relative.suffix == ".h" and (in_library or parts[0] == "include"):
        yield from check_header(relative, text)


def check_header(relative, text):
    guard = "TENON_" + re.sub(r"[^A-Z0-9]", "_", "/".join(relative.parts[1:]).upper())
    guard = guard.replace("TENON_TENON_", "TENON_")
    if not re.search(rf"^#ifndef {guard}\n#define {guard}$", text, re.MULTILINE):
        yield 1, f"the header has no guard {guard}"
    for number, line in enumerate(text.splitlines(), 1):
        match = re.match(r"^\s*#\s*define\s+(\w+)", line)
        if match is None or match.group(1) == guard:
            continue
        is_local = f"#undef {match.group(1)}\n" in text  # an X-macro, gone where the header ends
        if not is_local and not re.match(r"TN_|tn__", match.group(1)):
            yield number, f"the macro {match.group(1)} of a header is named neither TN_, TN__ nor tn__"


def check_file(relative, text):
    """Yields (line, complaint)."""
    lines = text.splitlines()
    if GENERATED.search(relative.name):
        return
    if len(lines) > MAX_FILE_LINES:
        yield len(lines), f"the file has {len(lines)} lines, more than {MAX_FILE_LINES}"
    if relative.parts[0] == "src" and not WORDS_ALONE & set(relative.parents):
        for found in RAW_NAME.finditer(text):
            yield text.count("\n", 0, found.start()) + 1, "a name in quotes is part of a message: tn__shown_text shows it"
    for number, line in enumerate(lines, 1):
        if UNFINISHED.search(line):
            yield number, f"a mark of unfinished work: {UNFINISHED.search(line).group(0)}"
        if relative.suffix != ".py" and len(line) > MAX_COLUMNS:
            yield number, f"the line has {len(line)} columns, more than {MAX_COLUMNS}"
        if relative.parts[0] == "src" and INSECURE.search(line):
            yield number, "getenv: a program with other rights than its caller's would obey it; secure_getenv does not"
    if relative.suffix == ".py":
        spans = python_functions(text)
    else:
        spans = ((name, first, last) for name, _, first, last in functions(text))
        yield from check_names(relative, text)
    for name, first, last in spans:
        if last - first + 1 > MAX_FUNCTION_LINES:
            yield first, f"the function {name} has {last - first + 1} lines, more than {MAX_FUNCTION_LINES}"


def files(root):
    for path in sorted(root.rglob("*")):
        relative = path.relative_to(root)
        if SKIPPED_FOLDERS.intersection(relative.parts) or relative.is_relative_to(WRONG_ON_PURPOSE):
            continue
        if path.suffix in {".c", ".h", ".py"} and path.is_file():
            yield path, relative


def check(root):
    problems = []
    for path, relative in files(root):
        for line, complaint in check_file(relative, path.read_text()):
            problems.append(f"{relative.as_posix()}:{line}: {complaint}")
    return problems


if __name__ == "__main__":
    sys.exit(check_tree(check))
