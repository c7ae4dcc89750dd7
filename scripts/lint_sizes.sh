#!/usr/bin/env bash
# No C file over 800 lines, no function over 120; functions over 80 are named, but let through.
set -eu
cd "$(dirname "$0")/.."

# Reads the layout of clang-format: a function opens with a line at depth 0 that ends in `) {` and
# closes with the first `}` in column one.
find src include tests examples tools -name '*.[ch]' -o -name '*.cpp' | sort | xargs awk '
  function close_file() {
    if (lines > 800) {
      printf "%s:%d: the file has %d lines; the limit is 800\n", file, lines, lines
      bad = 1
    }
  }
  FNR == 1 { close_file(); file = FILENAME; opened = 0 }
  { lines = FNR }
  /^ \*/ { next }
  !opened && /\) \{$/ { opened = FNR; next }
  opened && /^}/ {
    length_ = FNR - opened + 1
    if (length_ > 120) {
      printf "%s:%d: a function of %d lines; the limit is 120\n", FILENAME, opened, length_
      bad = 1
    } else if (length_ > 80) {
      printf "%s:%d: note: a function of %d lines\n", FILENAME, opened, length_
    }
    opened = 0
  }
  END { close_file(); exit bad }'
