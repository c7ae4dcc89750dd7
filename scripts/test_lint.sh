#!/usr/bin/env bash
# The lint scripts find what they are for: each fault is planted alone in a small clean tree and
# must be reported at its place.
set -u

root=$(cd "$(dirname "$0")/.." && pwd)
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
passed=0 failed=0

clean_tree() {
  rm -rf "${tree:?}"/*
  mkdir -p "$tree"/{src/{ir,device/cpu,nn},include/sinew,tests,examples,scripts,cmake,.ci}
  cp "$root"/scripts/lint_*.sh "$tree/scripts"
  printf '/* Fine. */\n#include "base/arena.h"\n#include "ir/dim.h"\n#include <stdio.h>\n' \
    >"$tree/src/ir/fine.c"
  printf '/* Fine. */\n#include "device/device.h"\n#include "device/cpu/pool.h"\n' \
    >"$tree/src/device/cpu/fine.c"
  printf '/* Fine. */\n#include <sinew/base.h>\n#include "nn/layer.h"\n' >"$tree/src/nn/fine.c"
}

# Counts one test: whether `script` says `expected` ("" for: no problem) about the tree.
expect() {
  local script=$1 expected=$2 said status=0
  said=$("$tree/scripts/$script" 2>&1) || status=$?
  if [ -z "$expected" ] && [ "$status" -eq 0 ]; then
    passed=$((passed + 1))
  elif [ -n "$expected" ] && [ "$status" -ne 0 ] && [[ $said == *"$expected"* ]]; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    printf 'failed: %s: expected "%s", exit status %s, said:\n%s\n' \
      "$script" "$expected" "$status" "$said"
  fi
}

# plant SCRIPT FILE TEXT EXPECTED: a file with that text (printf's escapes) in a clean tree.
plant() {
  clean_tree
  mkdir -p "$(dirname "$tree/$2")"
  printf '%b' "$3" >"$tree/$2"
  expect "$1" "$4"
}

for script in lint_includes.sh lint_text.sh lint_sizes.sh; do
  clean_tree
  expect $script ""
done

c='/* Bad. */\n'
plant lint_includes.sh src/ir/bad.c "$c#include \"ops/table.h\"\n" "src/ir/bad.c:2: ir may not"
plant lint_includes.sh src/ir/bad.c "$c#include \"dim.h\"\n" "src/ir/bad.c:2: \"dim.h\" is not"
plant lint_includes.sh src/nn/bad.h "$c\n# include \"ir/dim.h\"\n" "src/nn/bad.h:3: nn may not"
plant lint_includes.sh src/device/cpu/bad.c "$c#include \"device/vulkan/emit.h\"\n" "device/cpu may not"
plant lint_includes.sh src/device/cpu/bad.c "$c#include \"ir/graph.h\"\n" "device/cpu may not"
plant lint_includes.sh src/device/bad.c "$c#include \"device/cpu/pool.h\"\n" "device may not"
plant lint_includes.sh src/ops/math/bad.c "$c#include \"opt/rules.h\"\n" "ops may not include opt"
plant lint_includes.sh src/strange/bad.c "$c" "not in the table"
plant lint_includes.sh include/sinew/bad.h "$c#include \"base/arena.h\"\n" "a public header"

plant lint_text.sh src/ir/bad.c 'int x;\n' "src/ir/bad.c:1: the file does not begin"
plant lint_text.sh src/ir/bad.c "$c/* TO""DO: later */\n" "src/ir/bad.c:2: left-over marker"
plant lint_text.sh src/ir/bad.c "${c}int x;\r\n" "src/ir/bad.c:2: carriage return"
plant lint_text.sh src/ir/bad.c "${c}int x; \n" "src/ir/bad.c:2: trailing blank"
plant lint_text.sh src/ir/bad.c "${c}\tint x;\n" "src/ir/bad.c:2: tab"
plant lint_text.sh src/ir/bad.c "${c}int x;" "no newline at the end"

repeat() { awk -v n="$1" -v text="$2" 'BEGIN { while (n-- > 0) printf "%s\\n", text }'; }
plant lint_sizes.sh src/ir/bad.c "$c$(repeat 800 'int x;')" "src/ir/bad.c:801: the file has 801"
plant lint_sizes.sh src/ir/bad.c "${c}int f(int a,\n      int b) {\n$(repeat 119 '  f();')}\n" \
  "src/ir/bad.c:3: a function of 121 lines"
plant lint_sizes.sh src/ir/fine2.c "${c}int f(void) {\n$(repeat 118 '  f();')}\n" ""

echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
