#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# usage: check_cppcheck.sh CACHE PATH...
# Runs cppcheck over the paths; CACHE is a folder that remembers unchanged files.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
cache=$1
shift
mkdir -p "$cache"
cd "$root"
# cppcheck must be told which functions never return.
{
  echo '<?xml version="1.0"?><def format="2">'
  find "$@" -name '*.[ch]' -exec grep -hoE '_Noreturn [^(]*[a-z_0-9]+\(' {} + | grep -oE '[a-z_0-9]+\(' | tr -d '(' | sort -u |
    sed 's/.*/<function name="&"><noreturn>true<\/noreturn><arg nr="variadic"><\/arg><\/function>/'
  echo '</def>'
} > "$cache/noreturn.cfg"
exec cppcheck --quiet --error-exitcode=1 --std=c11 --language=c --platform=unix64 -j2 \
  --enable=warning,performance,portability --inline-suppr --suppressions-list=tools/cppcheck-suppressions.txt \
  --library="$cache/noreturn.cfg" --cppcheck-build-dir="$cache" --template='{file}:{line}: {message} [{id}]' \
  -Isrc -Iinclude -D_GNU_SOURCE -D__GNUC__=12 -D__x86_64__=1 -D__STDC_VERSION__=201710L -DTENON_VERSION='"0"' "$@"
