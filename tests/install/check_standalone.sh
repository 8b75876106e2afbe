#!/bin/sh
# usage: check_standalone.sh ROOT WORK CC TENON
# Compiles the model of examples/embed to an object and a header, builds examples/standalone with CMake and with make, as
# a part of a program, as a shared library and for any number of rows, and runs all of them. Nothing but libc is needed, and no allocation.
set -eu
root=$1 work=$2 cc=$3 tenon=$4
rm -rf "$work"
mkdir -p "$work"
cp -r "$root/examples/standalone" "$work/standalone"
cd "$work/standalone"
"$tenon" compile "$root/examples/embed/model.onnx" --dim rows=2 --emit c -o model --no-cache > "$work/compile.log"
"$tenon" compile "$root/examples/embed/model.onnx" --emit c -o batch --no-cache > "$work/compile-open.log"
cmake -S . -B build -G Ninja -DCMAKE_C_COMPILER="$cc" > "$work/cmake.log"
cmake --build build > "$work/cmake-build.log"
make all CC="$cc" > "$work/make.log"
printf '6 0\n0 2\n6 0\n7 0\n' > "$work/expected"
for program in build/standalone build/shared ./standalone ./shared; do
  "$program" > "$work/printed"
  diff "$work/expected" "$work/printed" || { echo "FAILED: $program printed something else" >&2; exit 1; }
done
printf '6 0\n6 0\n0 2\n7 0\n2 0\n' > "$work/expected-open"
for program in build/open ./open; do
  "$program" > "$work/printed"
  diff "$work/expected-open" "$work/printed" || { echo "FAILED: $program printed something else" >&2; exit 1; }
done
nm -u model.o > "$work/undefined"
[ ! -s "$work/undefined" ] || { echo "FAILED: the object needs $(cat "$work/undefined")" >&2; exit 1; }
if nm -u standalone open | grep -E ' (malloc|calloc|realloc|aligned_alloc|posix_memalign|mmap)(@|$)'; then
  echo "FAILED: the program allocates" >&2
  exit 1
fi
for header in model batch; do
  printf '#include "%s.h"\n' "$header" > includes.cc
  "$cc" -x c++ -std=c++11 -fsyntax-only -Wall -Wextra -pedantic -Werror includes.cc 2> "$work/cxx.log" ||
    grep -q 'not installed\|cannot execute' "$work/cxx.log" || { cat "$work/cxx.log" >&2; exit 1; }
  "$cc" -x c -std=c99 -fsyntax-only -Wall -Wextra -pedantic -Werror includes.cc
done
