#!/usr/bin/env bash
# format.sh [--check]: lays out all C sources, or reports those that are not laid out.
# The version is fixed because each version of clang-format decides a little differently.
set -eu
cd "$(dirname "$0")/.."

version=14
formatter=clang-format-$version
if ! command -v "$formatter" >/dev/null 2>&1; then formatter=clang-format; fi
if ! "$formatter" --version 2>/dev/null | grep -q "version $version\."; then
  echo "format: clang-format $version is not installed (scripts/setup.sh dev)" >&2
  # A contributor without it can still run the other checks; CI sees to it.
  if [ "${1-}" = --check ] && [ "${CI-}" != true ]; then exit 0; fi
  exit 1
fi

mode=(-i)
if [ "${1-}" = --check ]; then mode=(--dry-run -Werror); fi
find src include tests examples tools \( -name '*.c' -o -name '*.h' -o -name '*.cpp' \) -print0 |
  xargs -0 "$formatter" "${mode[@]}"
