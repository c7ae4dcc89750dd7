#!/usr/bin/env bash
# test_vulkan.sh BUILD: tests of the pipeline and of models once more, on the first GPU with Vulkan's validation layer on, whose
# messages are errors: every case of every op, 100 random graphs, `sinew check` on the families of models. Graphs are planned fused and
# optimised, and neither: PLAN_MODES.
set -u

root=$(cd "$(dirname "$0")/.." && pwd)
build=${1:-$root/build}
shared=${SINEW_SHARED:-$root/../shared}
passed=0 failed=0 skipped=0
export SINEW_TEST_DEVICE=vulkan SINEW_VULKAN_VALIDATE=1 SINEW_CACHE=off GALLIVM_PERF=nopt PLAN_GRAPHS=100 PLAN_MODES=9

log=$(mktemp) ops_log=$(mktemp)
trap 'rm -f "$log" "$ops_log"' EXIT

# check NAME COMMAND...: one test, the end of its output shown when it fails.
check() {
  local name=$1
  shift
  if "$@" >"$log" 2>&1; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    echo "failed: $name: $*"
    tail -20 "$log"
  fi
}

skip() {
  skipped=$((skipped + 1))
  echo "skipped vulkan: $1"
}

finish() {
  echo "$passed passed, $failed failed, $skipped skipped"
  [ "$failed" -eq 0 ]
  exit
}

if ! "$build/sinew" devices | grep -q '^vulkan'; then
  skip "no Vulkan: neither a driver nor the validation layer, or one of them"
  finish
fi

# The driver compiles on one core: one half of the ops goes beside all else.
"$build/tests/test_compile_ops" 'every_op/[a-l]*' 'refused*' >"$ops_log" 2>&1 &
ops=$!
check "ops from m on" "$build/tests/test_compile_ops" 'every_op/[m-z]*'
check "random graphs" "$build/tests/test_compile_random_graphs" random_graphs_are_planned_right

if [ -d "$shared/data/hf" ]; then
  for family in gpt2 llama llama-bf16-sharded qwen2 qwen3 gemma3; do
    folder=$shared/data/hf/$family
    check "$family" "$build/sinew" check "$folder" "$folder/golden.json" --device vulkan
  done
else
  skip "no shared data: data/hf"
fi
if wait "$ops"; then
  passed=$((passed + 1))
else
  failed=$((failed + 1))
  echo "failed: ops up to l: $build/tests/test_compile_ops"
  tail -20 "$ops_log"
fi
finish
