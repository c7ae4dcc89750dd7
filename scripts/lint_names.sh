#!/usr/bin/env bash
# lint_names.sh BUILD: every name that the shared library exports begins with sn_, every function
# that the headers declare SN_API is exported, and no typedef ends in _t.
set -eu
cd "$(dirname "$0")/.."
library=${1:-build}/libsinew.so

if [ ! -f "$library" ]; then
  echo "$library: not built" >&2
  exit 1
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# _init, _fini and __* come from the toolchain and are not ours to name.
nm -D --defined-only "$library" | awk '$3 !~ /^(_init|_fini|__.*)$/ { print $3 }' >"$work/exported"

# `name file:line` for each SN_API declaration: the name is the word before the first parenthesis.
awk '
  /^([A-Z_]+ )*SN_API / && !/^#/ {
    text = $0
    line = FNR
    while (text !~ /\(/ && (getline more) > 0) text = text " " more
    if (match(text, /[a-zA-Z_0-9]+\(/)) print substr(text, RSTART, RLENGTH - 1), FILENAME ":" line
  }' include/sinew/*.h >"$work/declared"

{
  awk -v library="$library" '!/^sn_/ { print library ": exports " $1 ", which lacks sn_" }' \
    "$work/exported"
  awk 'FILENAME == ARGV[1] { exported[$1]; next }
    !($1 in exported) { print $2 ": " $1 " is declared SN_API but not exported" }' \
    "$work/exported" "$work/declared"
  find src include -name '*.[ch]' -exec awk '
    /^[ \t]*(typedef .*[ *(]|} *)[a-zA-Z_0-9]+_t\)?(\(.*\))?;/ {
      print FILENAME ":" FNR ": a typedef that ends in _t"
    }' {} +
} >"$work/problems"
cat "$work/problems"
[ ! -s "$work/problems" ]
