#!/bin/sh
# usage: check_runtime_alone.sh ROOT SOURCE WORK VERSION CC
# Builds the runtime without the compiler and puts it through check_install.sh. That CMake finds no LLVM is made sure of.
set -eu
root=$1 source=$2 work=$3 version=$4 cc=$5
mkdir -p "$work"
cmake -S "$root" -B "$work/build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_C_COMPILER="$cc" -DTENON_COMPILER=OFF \
  -DTENON_TESTS=OFF -DCMAKE_DISABLE_FIND_PACKAGE_LLVM=ON > "$work/configure.log"
cmake --build "$work/build" > "$work/build.log" || { tail -30 "$work/build.log" >&2; exit 1; }
[ ! -e "$work/build/src/libtenon.so" ] || { echo "FAILED: the compiler was built" >&2; exit 1; }
sh "$source/check_install.sh" "$work/build" "$source" "$work/install" "$version" "$cc"
