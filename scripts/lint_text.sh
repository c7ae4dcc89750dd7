#!/usr/bin/env bash
# Plain text rules: no left-over markers, carriage returns, trailing blanks, missing last newline;
# no tabs in C; every C file begins with a comment that says what it is for.
set -eu
cd "$(dirname "$0")/.."

files() {
  find src include tests examples tools scripts cmake .ci -type f \
    \( -name '*.[ch]' -o -name '*.cpp' -o -name '*.def' -o -name '*.sh' -o -name '*.cmake' \
    -o -name '*.in' -o -name '*.txt' -o -name '*.glsl' -o -path .ci/run \) \
    -not -path 'tests/fuzz/corpus/*' -print0
  find . -maxdepth 1 -type f \( -name '*.md' -o -name CMakeLists.txt -o -name Makefile \) -print0
}

bad=0
files | sort -z | xargs -0 awk '
  function problem(text) {
    printf "%s:%d: %s\n", FILENAME, FNR, text
    bad = 1
  }
  FNR == 1 { c = FILENAME ~ /\.(c|h|cpp|def)$/ }
  FNR == 1 && c && !/^(\/\/|\/\*)/ { problem("the file does not begin with what it is for") }
  # Spelled so that this line does not find itself.
  /(^|[^A-Za-z_])(TOD[O]|FIXM[E]|XX[X])([^A-Za-z_]|$)/ { problem("left-over marker") }
  /\r/ { problem("carriage return") }
  /[ \t]$/ { problem("trailing blank") }
  c && /\t/ { problem("tab") }
  END { exit bad }' || bad=1

while IFS= read -r -d '' file; do
  if [ -s "$file" ] && [ -n "$(tail -c 1 "$file")" ]; then
    echo "$file:$(wc -l <"$file"): no newline at the end"
    bad=1
  fi
done < <(files)
exit $bad
