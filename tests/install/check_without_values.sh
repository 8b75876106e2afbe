#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# usage: check_without_values.sh ROOT WORK CC TENON
# Builds the runtime without values that are not tensors (-DTENON_VALUES=OFF), runs a model of tensors with it, and sees
# that one with sequences is refused and that nothing of such values is in the library.
set -eu
root=$1 work=$2 cc=$3 tenon=$4
mkdir -p "$work"
cmake -S "$root" -B "$work/build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_C_COMPILER="$cc" -DTENON_COMPILER=OFF \
  -DTENON_VALUES=OFF -DTENON_TESTS=OFF > "$work/configure.log"
cmake --build "$work/build" > "$work/build.log" || { tail -30 "$work/build.log" >&2; exit 1; }
"$tenon" compile "$root/examples/embed/model.onnx" -o "$work/embed.tnx" --no-cache > "$work/compile.log"
"$cc" -std=c17 -I"$root/include" "$root/tests/install/without_values.c" "$work/build/src/libtenon_runtime.a" -lm -ldl \
  -pthread -o "$work/without_values"
"$work/without_values" "$work/embed.tnx" "$root/tests/fixtures/flow-1.4.tnx"
if nm "$work/build/src/libtenon_runtime.a" | grep -E ' [tT] tn__(list|strings|regex|to_lower|table|string_builtin)'; then
  echo "FAILED: the library without such values has some of their functions" >&2
  exit 1
fi
