#!/bin/sh
# usage: check_install.sh BUILD SOURCE WORK VERSION CC
# Installs BUILD into WORK/prefix, then builds SOURCE's consumer with pkg-config and with CMake, shared and static.
set -eu
build=$1 source=$2 work=$3 version=$4 cc=$5
rm -rf "$work"
mkdir -p "$work/cmake"
cmake --install "$build" --prefix "$work/prefix" > "$work/install.log"
prefix=$work/prefix
libdir=$(dirname "$(find "$prefix" -name tenon-runtime.pc)")/..
libdir=$(cd "$libdir" && pwd)
export PKG_CONFIG_PATH="$libdir/pkgconfig" LD_LIBRARY_PATH="$libdir"
failed=0

fail() {
  echo "FAILED: $*" >&2
  failed=1
}

# expect_version PROGRAM: it runs and prints the installed version.
expect_version() {
  printed=$("$1") || fail "$1 exited with $?"
  [ "$printed" = "$version" ] || fail "$1 printed '$printed', not '$version'"
}

parts=runtime
[ -e "$libdir/libtenon.so" ] && parts="runtime compiler"

for part in $parts; do
  case $part in runtime) module=tenon-runtime library=libtenon_runtime ;; compiler) module=tenon library=libtenon ;; esac
  [ "$(pkg-config --modversion "$module")" = "$version" ] || fail "$module has another version"
  # shellcheck disable=SC2046
  "$cc" -o "$work/pc-$part" "$source/consumer.c" $(pkg-config --cflags --libs "$module")
  expect_version "$work/pc-$part"
  soname=$(objdump -p "$libdir/$library.so" | awk '$1 == "SONAME" { print $2 }')
  [ "$soname" = "$library.so.${version%.*}" ] || fail "$library.so has the SONAME '$soname'" # 0.x: a minor version's own
  [ "$(readlink "$libdir/$soname")" = "$library.so.$version" ] || fail "$soname does not lead to $library.so.$version"
done
# shellcheck disable=SC2046
"$cc" -o "$work/pc-static" "$source/consumer.c" $(pkg-config --cflags tenon-runtime) "$libdir/libtenon_runtime.a" \
  $(pkg-config --libs-only-l --static tenon-runtime | sed 's/-ltenon_runtime//')
expect_version "$work/pc-static"

# needed_by LIBRARY: what the loader brings along.
needed_by() { objdump -p "$1" | awk '$1 == "NEEDED" { print $2 }'; }

# public_names LIBRARY: the API that it holds, local copies counted.
public_names() { nm --defined-only "$1" | awk '$3 ~ /^tn_[^_]/ { sub(/@.*/, "", $3); print $3 }' | sort -u; }

if [ "$parts" != runtime ]; then
  # One copy of everything: the compiler's library brings the runtime's along, and holds none of it.
  needed_by "$libdir/libtenon.so" | grep -qx "libtenon_runtime.so.${version%.*}" ||
    fail "libtenon.so does not need libtenon_runtime.so"
  for kind in so a; do
    public_names "$libdir/libtenon.$kind" > "$work/compiler-names"
    public_names "$libdir/libtenon_runtime.$kind" > "$work/runtime-names"
    for names in compiler runtime; do [ -s "$work/$names-names" ] || fail "the $names's library (.$kind) is empty"; done
    twice=$(comm -12 "$work/compiler-names" "$work/runtime-names")
    [ -z "$twice" ] || fail "both libraries (.$kind) define" "$twice"
  done
  # A program over both has each function from the one that has it, found without LD_LIBRARY_PATH through $ORIGIN.
  # shellcheck disable=SC2046
  "$cc" -o "$work/both" "$source/both.c" $(pkg-config --cflags --libs tenon) "-Wl,-rpath,$libdir"
  (unset LD_LIBRARY_PATH && expect_version "$work/both") || failed=1
  # shellcheck disable=SC2046
  "$cc" -o "$work/both-static" "$source/both.c" $(pkg-config --cflags tenon) "$libdir/libtenon.a" "$libdir/libtenon_runtime.a" \
    $(pkg-config --libs --static tenon | sed 's/-ltenon_runtime//; s/-ltenon//')
  expect_version "$work/both-static"
  if needed_by "$work/both-static" | grep libtenon; then fail "the program over static libraries needs shared ones"; fi
  # Libraries of two builds do not mix: what libtenon.so asks for inside is the same version's.
  objdump -p "$libdir/libtenon.so" | grep -q "TENON_PRIVATE_$version\$" || fail "libtenon.so takes any libtenon_runtime.so"
fi

doc=$prefix/share/doc/tenon
for file in LICENSE README.md CHANGELOG.md docs/README.md docs/cli.md; do
  [ -s "$doc/$file" ] || fail "$file is not installed"
done

for library in $(needed_by "$libdir/libtenon_runtime.so"); do
  case $library in
    libc.so.6 | libm.so.6 | ld-linux-*) ;;
    *) fail "libtenon_runtime.so needs $library; the runtime stands on libc alone" ;;
  esac
done

# Drivers that are plug-ins stand on libc, show one function, and are found from the program and from the library.
for plugin in "$build"/lib/tenon/tenon-*.so; do
  plugin=$libdir/tenon/$(basename "$plugin")
  for library in $(needed_by "$plugin"); do
    case $library in libc.so.6 | libm.so.6 | ld-linux-*) ;; *) fail "$plugin needs $library" ;; esac
  done
  [ "$(nm -D --defined-only "$plugin" | awk '{ print $3 }')" = tn_plugin_driver ] || fail "$plugin shows other names"
done
if [ "$parts" != runtime ]; then
  printf '#include <stdio.h>\n#include <tenon/compile.h>\nint main(void) { char *text; if (tn_targets_text(&text)) return 1; puts(text); }\n' > "$work/targets.c"
  # shellcheck disable=SC2046
  "$cc" -o "$work/targets" "$work/targets.c" $(pkg-config --cflags --libs tenon)
  for program in "$prefix/bin/tenon targets" "$work/targets"; do
    (cd / && TENON_CACHE_DIR="$work/cache" POCL_CACHE_DIR="$work/cache/pocl" $program) > "$work/targets.text" || fail "$program exited with $?"
    grep -q '^  cuda' "$work/targets.text" || fail "$program says nothing of cuda"
    for plugin in "$build"/lib/tenon/tenon-*.so; do
      if grep "no file $(basename "$plugin")" "$work/targets.text"; then fail "$program does not find $plugin"; fi
    done
  done
fi

# The part that programs carry with them is small. Sanitizers' code is not counted.
if [ "$(uname -m)" = x86_64 ] && ! nm -D "$libdir/libtenon_runtime.so" | grep -qE '__(asan|tsan)_init'; then
  strip -o "$work/stripped.so" "$libdir/libtenon_runtime.so"
  size=$(wc -c < "$work/stripped.so")
  [ "$size" -le 327680 ] || fail "libtenon_runtime.so has $size bytes, stripped; at most 327680 are allowed"
fi

cmake_parts="$parts runtime_static"
[ "$parts" = runtime ] || cmake_parts="$cmake_parts compiler_static"
cp "$source/consumer.c" "$work/cmake/consumer.c"
cp "$source/consumer.cmake" "$work/cmake/CMakeLists.txt"
cmake -S "$work/cmake" -B "$work/cmake/build" -G Ninja -DCMAKE_C_COMPILER="$cc" -DCMAKE_PREFIX_PATH="$prefix" \
  -DTenon_PARTS="$(echo "$cmake_parts" | tr ' ' ';')" > "$work/cmake.log"
cmake --build "$work/cmake/build" > "$work/cmake-build.log" || { cat "$work/cmake-build.log" >&2; exit 1; }
for part in $cmake_parts; do expect_version "$work/cmake/build/consumer_$part"; done

# Every public header stands alone, in strict C and in C++.
for header in "$prefix"/include/tenon/*.h; do
  echo "#include <tenon/$(basename "$header")>" > "$work/header.c"
  "$cc" -std=c17 -pedantic -Wall -Wextra -Werror -fsyntax-only -I"$prefix/include" "$work/header.c" ||
    fail "$header is not strict C17"
  if command -v c++ > /dev/null; then
    c++ -x c++ -std=c++17 -Wall -Wextra -Werror -fsyntax-only -I"$prefix/include" "$work/header.c" ||
      fail "$header is not C++"
  fi
done
exit $failed
