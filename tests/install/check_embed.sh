#!/bin/sh
# usage: check_embed.sh BUILD ROOT WORK CC TENON
# Installs BUILD, builds examples/embed against it with CMake and with make, and runs it on the model that TENON compiles.
set -eu
build=$1 root=$2 work=$3 cc=$4 tenon=$5
rm -rf "$work"
mkdir -p "$work"
cmake --install "$build" --prefix "$work/prefix" > "$work/install.log"
libdir=$(dirname "$(dirname "$(find "$work/prefix" -name tenon-runtime.pc)")")
cp -r "$root/examples/embed" "$work/embed"
cd "$work/embed"
"$tenon" compile model.onnx -o model.tnx --no-cache > "$work/compile.log"
cmake -S . -B build -G Ninja -DCMAKE_C_COMPILER="$cc" -DCMAKE_PREFIX_PATH="$work/prefix" > "$work/cmake.log"
cmake --build build > "$work/cmake-build.log"
PKG_CONFIG_PATH="$libdir/pkgconfig" make embed CC="$cc" > "$work/make.log"
printf '6 0\n0 2\n6 0\n7 0\n' > "$work/expected"
for program in build/embed ./embed; do
  LD_LIBRARY_PATH="$libdir" "$program" model.tnx > "$work/printed"
  diff "$work/expected" "$work/printed" || { echo "FAILED: $program printed something else" >&2; exit 1; }
done
if LD_LIBRARY_PATH="$libdir" ./embed model.onnx 2> "$work/printed"; then
  echo "FAILED: a file that is no executable was accepted" >&2
  exit 1
fi
grep -q '^embed: model.onnx: not a Tenon executable' "$work/printed"
