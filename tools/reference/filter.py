#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Turns the comments of a public header into those that Doxygen reads. An INPUT_FILTER: the result goes to stdout.

usage: filter.py HEADER

The headers are written for people, in plain comments, of which these are documentation:
 - the first of a file; and a rule with a title, /* ---- title ---- */, which begins a topic;
 - one above a declaration, field, constant or macro. It covers what follows without an empty line or a comment between;
 - one behind it on its last line, or behind the brace of a struct, which it alone is for.
Lines that are indented by three or more behind an empty line are code; "Since 0.2." says since when something is there.
"""

import re
import sys
from pathlib import Path

TITLE = re.compile(r"/\* -{4} (.*?) -{4,}")
ITEM_ENDS = re.compile(r"[;{}]\s*$|^\s*#.*[^\\]$")
CONSTANT_ENDS = re.compile(r"[,{}]\s*$|^\s*\w+( = [^,]*)?$|;$")


def escaped(text):
    """Without a meaning for Doxygen and Markdown, outside of `code`."""
    parts = text.split("`")
    parts[::2] = [re.sub(r"([\\@<>#%*&])", r"\\\1", part) for part in parts[::2]]
    return "`".join(parts)


def body(comment):
    """The text of a comment, as Markdown with Doxygen's commands."""
    lines = [re.sub(r"^\s*\* ?", "", line) for line in comment[2:-2].split("\n")]
    lines[0] = lines[0].lstrip()
    out, code, was_empty = [], False, False
    for line in lines:
        indented = re.match(r"  ( *\S)", line)
        if not code and was_empty and indented:
            code = True
            out.append("@code{.c}")
        elif code and line.strip() and not indented:
            code = False
            out.append("@endcode")
        out.append(line if code else escaped(line.rstrip()))
        was_empty = not line.strip()
    if code:
        out.append("@endcode")
    return re.sub(r"\s*\bSince (\d+\.\d+)\.?", r"\n@since \1\n", "\n".join(out).strip()).strip()


def separate(declaration):
    """`double a, *b;` as two declarations, which have one comment."""
    match = re.match(r"^(\s*(?:const |struct |unsigned )*\w+ )([^(){}=]*,[^(){}=]*);$", declaration)
    if not match:
        return [declaration]
    return [match.group(1) + name.strip() + ";" for name in match.group(2).split(",")]


class Header:
    def __init__(self):
        self.out = []
        self.above = None  # the comment that covers what follows
        self.in_topic = False
        self.in_enum = False

    def emit(self, text):
        self.out.append(text)

    def end_topic(self):
        if self.in_topic:
            self.emit("/** @} */")
        self.in_topic = False

    def topic(self, comment, stem):
        self.end_topic()
        title = TITLE.match(comment).group(1)
        rest = body("/*" + comment.partition("\n")[2] if "\n" in comment else "/**/")
        slug = re.sub(r"\W+", "_", f"{stem} {title}")
        self.emit(f"/** @defgroup {slug} {title[0].upper()}{title[1:]}\n\n{rest}\n@{{ */")
        self.in_topic = True

    def item(self, text, behind):
        """A declaration, or the part of one that ends a line."""
        code = text.strip()
        self.in_enum = code.endswith("{") and " enum " in code or self.in_enum and not code.startswith("}")
        names_something = re.search(r"\w", code) and not re.match(r"#(?!define)|\}|extern ", code)
        comment = behind or self.above
        if names_something and comment:
            for part in separate(text):
                self.emit(f"/** {body(comment)} */\n{part}")
        else:
            self.emit(text)
        if behind or re.search(r"^\}|\{$", code):
            self.above = None


def filtered(text, stem):
    header = Header()
    pieces = re.split(r"(/\*.*?\*/)", text, flags=re.DOTALL)
    header.emit(f"/** @file\n\n{body(pieces[1])} */")
    pending, fresh = "", True  # code that waits for its end; whether the last line break ended an item
    for index, piece in enumerate(pieces[2:]):
        if piece.startswith("/*"):
            if not pending.strip():
                if TITLE.match(piece):
                    header.topic(piece, stem)
                    header.above = None
                else:
                    header.above = piece
            elif "\n" not in pieces[index + 3].partition(";")[0] and not pieces[index + 3].startswith("\n"):
                pass  # in the middle of a line: says nothing to readers of the reference
            else:
                header.item(pending.rstrip(), piece)
                pending = ""
            continue
        lines = piece.split("\n")
        for number, line in enumerate(lines):
            last = number == len(lines) - 1
            if line == "#ifdef __cplusplus" and lines[number + 1] == "}":
                header.end_topic()
            pending += line
            if last:
                break
            if not pending.strip():
                if number > 0:
                    header.above = None
                header.emit("")
                pending = ""
            elif (CONSTANT_ENDS if header.in_enum else ITEM_ENDS).search(pending) and pending.count("(") == pending.count(")"):
                header.item(pending, None)
                pending = ""
            else:
                pending += "\n"
    header.emit(pending)
    return "\n".join(header.out) + "\n"


if __name__ == "__main__":
    path = Path(sys.argv[1])
    sys.stdout.write(filtered(path.read_text(), path.stem))
