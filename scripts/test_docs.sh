#!/usr/bin/env bash
# The documents say what is there:
#   - a block of code below a line `<!-- PATH -->` stands in that file, word for word;
#   - links to files lead to files;
#   - every ```c block of docs/c-api.md compiles as the body of a function.
set -u

root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root" || exit 2
passed=0 failed=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# result OK NAME: counts one test.
result() {
  if [ "$1" = true ]; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    echo "failed: $2"
  fi
}

documents=(./*.md docs/*.md docs/decisions/*.md)

# Each quoted block becomes $work/quote-N, its file's name and the place of the quote $work/quote-N.of.
awk -v out="$work/quote-" '
  FNR == 1 { path = ""; inside = 0 }
  inside && /^```$/ { inside = 0; path = ""; close(file); next }
  inside { print >file; next }
  /^<!-- [a-zA-Z0-9_.\/-]+ -->$/ { path = $2; next }
  path != "" && /^```/ {
    inside = 1
    file = out (++n)
    print path, FILENAME ":" FNR >(file ".of")
    close(file ".of")
    next
  }
  /[^ ]/ { path = "" }' "${documents[@]}"

for of in "$work"/quote-*.of; do
  read -r path place <"$of"
  quote=$(cat "${of%.of}") ok=false
  if [ -f "$path" ] && [[ $(cat "$path") == *"$quote"* ]]; then ok=true; fi
  result $ok "$place: not what $path says"
done

# Links, relative to their document; those to the web are not followed.
while IFS=$'\t' read -r document place link; do
  ok=false
  if [ -e "$(dirname "$document")/${link%%#*}" ]; then ok=true; fi
  result $ok "$place: there is no $link"
done < <(awk '
  FNR == 1 { code = 0 }
  /^```/ { code = !code }
  code || /^    / { next }
  {
    rest = $0
    while (match(rest, /\]\([^)]*\)/)) {
      link = substr(rest, RSTART + 2, RLENGTH - 3)
      rest = substr(rest, RSTART + RLENGTH)
      if (link !~ /^(https?:|#)/) print FILENAME "\t" FILENAME ":" FNR "\t" link
    }
  }' "${documents[@]}")

# Snippets: the names that they use without declaring them are arguments.
awk -v out="$work/snippet-" '
  inside && /^```$/ { print "}" >file; close(file); inside = 0; next }
  inside { print >file; next }
  /^```c$/ {
    inside = 1
    file = out (++n) ".c"
    print "#include <sinew/sinew.h>\n#include <stdio.h>" >file
    print "void snippet(sn_ctx *ctx, sn_graph *g, sn_store *store, sn_session *s, sn_value x," >file
    print "             sn_value loss, float *data, size_t size);" >file
    print "void snippet(sn_ctx *ctx, sn_graph *g, sn_store *store, sn_session *s, sn_value x," >file
    print "             sn_value loss, float *data, size_t size) {" >file
    print "(void)ctx, (void)g, (void)store, (void)s, (void)x, (void)loss, (void)data, (void)size;" >file
    print "#line " FNR + 1 " \"" FILENAME "\"" >file
  }' docs/c-api.md
for snippet in "$work"/snippet-*.c; do
  ok=true
  "${CC:-cc}" -std=c17 -Wall -Wextra -Werror -Wno-unused -fsyntax-only -Iinclude "$snippet" || ok=false
  result $ok "docs/c-api.md: a snippet does not compile"
done

echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
