#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs clang-tidy over the C files of src/ and bindings/, two at a time, only where the preprocessed text has changed.

usage: check_tidy.py [--quick | --analyzer] BUILD [FILE...]

--quick leaves out the static analyzer (clang-analyzer-*), which takes 97 % of the time; --analyzer runs it alone.

BUILD is a clang build with compile_commands.json. What passed is remembered for all checkouts, by a hash of the
preprocessed text with its comments and macros, the configuration and clang-tidy's version: in TENON_TIDY_CACHE, or below
XDG_CACHE_HOME or ~/.cache. What nobody has asked about for a month goes.
"""

import hashlib
import json
import os
import shlex
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TIDY = "clang-tidy-19"
CONFIG = ROOT / ".clang-tidy"
# In addition to the checks of .clang-tidy.
CHECKS = {"--quick": "-clang-analyzer-*", "--analyzer": "-bugprone-*,-performance-*,-misc-*"}


def read_commands(build):
    """File -> (folder, compiler arguments without output), the first command of each file."""
    commands = {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        file = (Path(entry["directory"]) / entry["file"]).resolve()
        arguments = shlex.split(entry["command"])
        for option in ("-o", "-c"):
            if option in arguments:
                at = arguments.index(option)
                del arguments[at:at + (2 if option == "-o" else 1)]
        arguments = [a for a in arguments if Path(entry["directory"], a).resolve() != file]
        commands.setdefault(file, (entry["directory"], arguments))
    return commands


def fingerprint(file, command, salt):
    """A hash of everything that decides what clang-tidy says about `file`, wherever the checkout is. Comments may turn
    checks off, and macros are checked where they are defined."""
    folder, arguments = command
    text = subprocess.run([*arguments, "-E", "-P", "-CC", "-dD", "-o", "-", str(file)], cwd=folder, capture_output=True,
                          check=True).stdout
    everything = text + b"\0" + "\0".join([file.name, *arguments[1:]]).encode()
    return hashlib.sha256(salt + everything.replace(str(ROOT).encode(), b".")).hexdigest()


def open_cache():
    """The folder of what passed, without what is out of use."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    cache = Path(os.environ.get("TENON_TIDY_CACHE") or home / "tenon-tidy")
    cache.mkdir(parents=True, exist_ok=True)
    for stamp in cache.iterdir():
        if stamp.stat().st_mtime < time.time() - 30 * 86400:
            stamp.unlink(missing_ok=True)
    return cache


def tidy(file, command, checks):
    """clang-tidy's complaints, or an empty text."""
    folder, arguments = command
    run = subprocess.run([TIDY, "--quiet", f"--config-file={CONFIG}", f"--checks={checks}", "--warnings-as-errors=*", str(file), "--",
                          *arguments[1:]], cwd=folder, capture_output=True, text=True)
    return "" if run.returncode == 0 else (run.stdout + run.stderr).strip() or f"{file}: clang-tidy failed"


def check(file, command, cache, salt, checks):
    """(complaints, whether clang-tidy ran)."""
    stamp = cache / fingerprint(file, command, salt)
    known = stamp.exists()
    complaint = "" if known else tidy(file, command, checks)
    if not complaint:
        stamp.touch()
    return complaint, not known


def main():
    mode = sys.argv.pop(1) if sys.argv[1] in CHECKS else ""
    checks = CHECKS.get(mode, "")
    build = Path(sys.argv[1]).resolve()
    cache = open_cache()
    commands = read_commands(build)
    wanted = [Path(name).resolve() for name in sys.argv[2:]]
    for file in wanted:  # a file outside of the build is checked with the include paths of the library
        commands.setdefault(file, (str(ROOT), ["clang-19", "-std=c17", f"-I{ROOT}/src", f"-I{ROOT}/include"]))
    own = [file for file in commands if ROOT / "src" in file.parents or ROOT / "bindings" in file.parents]
    version = subprocess.run([TIDY, "--version"], capture_output=True, check=True).stdout
    salt = version + CONFIG.read_bytes() + checks.encode()
    jobs = min(2, os.cpu_count() or 1)
    with ThreadPoolExecutor(jobs) as pool:
        refused = ran = 0
        for text, fresh in pool.map(lambda file: check(file, commands[file], cache, salt, checks), sorted(wanted or own)):
            ran += fresh
            if text:
                refused += 1
                print(text, file=sys.stderr, flush=True)
    print(f"{len(wanted or own)} files, {refused} refused; {ran} had not passed before as they are")
    return 1 if refused else 0


if __name__ == "__main__":
    sys.exit(main())
