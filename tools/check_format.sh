#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# usage: check_format.sh [ROOT] [--fix]
# Refuses C files that clang-format would write otherwise; with --fix, writes them so.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
mode="--dry-run -Werror"
for argument; do
  case $argument in --fix) mode=-i ;; *) root=$argument ;; esac
done
cd "$root"
# DLPack's header keeps the form in which DLPack ships it.
folders=$(for folder in include src tests bindings bench examples; do [ ! -d $folder ] || echo $folder; done)
# shellcheck disable=SC2086
complaints=$(find $folders -name '*.[ch]' ! -name dlpack.h ! -path 'tests/lint/fixtures/*' -print0 |
  xargs -0 clang-format-19 --style=file $mode 2>&1) || true
[ -n "$complaints" ] || exit 0
# One line a file will do: the formatter repairs all of it.
short=$(echo "$complaints" | grep 'clang-format-violations' | sort -t: -k1,1 -u |
  sed 's/^\([^:]*:[0-9]*\):.*/\1: clang-format would write this otherwise; run .\/dev format/')
echo "${short:-$complaints}" >&2
exit 1
