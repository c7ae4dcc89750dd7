#!/usr/bin/env bash
# test_examples.sh BUILD: installs the build into a temporary prefix and uses it as a stranger would:
# every examples/*.c and *.cpp is compiled through pkg-config, as strict C17 and C++17, and run, both
# with the shared and with the static library.
set -u

root=$(cd "$(dirname "$0")/.." && pwd)
build=${1:-$root/build}
passed=0 failed=0

prefix=$(mktemp -d)
trap 'rm -rf "$prefix"' EXIT

# check NAME COMMAND...: one test, its output shown when it fails.
check() {
  local name=$1
  shift
  if "$@" >"$prefix/log" 2>&1; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    echo "failed: $name: $*"
    cat "$prefix/log"
  fi
}

check install cmake --install "$build" --prefix "$prefix"
if [ "$failed" -gt 0 ]; then
  echo "0 passed, 1 failed, 0 skipped"
  exit 1
fi
PKG_CONFIG_PATH=$(dirname "$(find "$prefix" -name sinew.pc)")
export PKG_CONFIG_PATH
libdir=$(pkg-config --variable=libdir sinew)
read -ra cflags <<<"$(pkg-config --cflags sinew)"
read -ra shared <<<"$(pkg-config --libs sinew) -Wl,-rpath,$libdir"
read -ra static <<<"$(pkg-config --static --libs sinew | sed "s|-lsinew|$libdir/libsinew.a|")"
strict=(-O1 -Wall -Wextra -Wpedantic -Werror)

# example SOURCE COMPILER...: compiled and run against each library.
example() {
  local source=$1 name
  name=$(basename "$1")
  shift
  check "$name, shared" "$@" "${strict[@]}" "${cflags[@]}" "$source" -o "$prefix/shared" "${shared[@]}"
  check "$name, shared, run" "$prefix/shared"
  check "$name, static" "$@" "${strict[@]}" "${cflags[@]}" "$source" -o "$prefix/static" "${static[@]}"
  check "$name, static, run" "$prefix/static"
}

for source in "$root"/examples/*.c; do
  if [ -f "$source" ]; then example "$source" "${CC:-cc}" -std=c17; fi
done
for source in "$root"/examples/*.cpp; do
  if [ -f "$source" ]; then example "$source" "${CXX:-c++}" -std=c++17; fi
done

# find_package(Sinew), for one example.
if [ -f "$root/examples/hello.c" ]; then
  mkdir "$prefix/client"
  cat >"$prefix/client/CMakeLists.txt" <<CLIENT
cmake_minimum_required(VERSION 3.16)
project(client C)
find_package(Sinew REQUIRED)
add_executable(client $root/examples/hello.c)
target_link_libraries(client Sinew::sinew)
CLIENT
  check "find_package, configure" \
    cmake -S "$prefix/client" -B "$prefix/client/build" -DCMAKE_PREFIX_PATH="$prefix"
  check "find_package, build" cmake --build "$prefix/client/build"
  check "find_package, run" "$prefix/client/build/client"
fi

# Every public header must stand alone, in C and in C++.
for header in "$prefix"/include/sinew/*.h; do
  include="sinew/$(basename "$header")"
  echo "#include <$include>" >"$prefix/header.c"
  check "<$include> as C" "${CC:-cc}" -std=c17 "${strict[@]}" "${cflags[@]}" -fsyntax-only "$prefix/header.c"
  check "<$include> as C++" \
    "${CXX:-c++}" -std=c++17 "${strict[@]}" "${cflags[@]}" -fsyntax-only -x c++ "$prefix/header.c"
done

echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
