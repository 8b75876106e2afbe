#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# usage: make.sh OUT [INCLUDE]
# Makes the C reference from the public headers in OUT/html, and fails when something has no comment.
set -eu
out=$1
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
include=${2:-$(CDPATH='' cd -- "$here/../../include" && pwd)}
rm -rf "$out"
mkdir -p "$out"
place=$(CDPATH='' cd -- "$out" && pwd)
cd "$(dirname -- "$include")"
{
  cat "$here/Doxyfile"
  printf 'OUTPUT_DIRECTORY = "%s"\nINPUT = include/tenon "%s/main.md"\n' "$place" "$here"
  printf 'FILTER_PATTERNS = "*.h=python3 %s/filter.py"\n' "$here"
} | doxygen -
python3 "$here/check_constants.py" "$place/xml"
