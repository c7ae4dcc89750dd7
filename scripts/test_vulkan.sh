#!/usr/bin/env bash
# test_vulkan.sh BUILD: tests of the pipeline and of models once more, on the first GPU with Vulkan's validation layer on, whose
# messages are errors: every case of every op, 100 random graphs, `sinew check` on the families of models, a workload's golden. Graphs are planned fused and
# optimised, and neither: PLAN_MODES. check_gpu.sh runs it with other precisions and more JOBS, without the layer.
set -u

root=$(cd "$(dirname "$0")/.." && pwd)
build=${1:-$root/build}
shared=${SINEW_SHARED:-$root/../shared}
jobs=${JOBS:-2} # the software driver compiles on one core
precision=${SINEW_TEST_PRECISION:-exact} # `sinew check` has bounds for exact results alone
passed=0 failed=0 skipped=0
export SINEW_TEST_DEVICE=vulkan SINEW_VULKAN_VALIDATE=${SINEW_VULKAN_VALIDATE:-1} SINEW_CACHE=off
export GALLIVM_PERF=nopt PLAN_GRAPHS=100 PLAN_MODES=9

logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT

# report NAME STATUS LOG: one test, the end of its output shown when it failed.
report() {
  if [ "$2" -eq 0 ]; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    echo "failed: $1, $precision"
    tail -20 "$3"
  fi
}

check() {
  local name=$1 status=0
  shift
  "$@" >"$logs/check" 2>&1 || status=$?
  report "$name" "$status" "$logs/check"
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

# The ops are dealt out to as many processes as there are jobs; the last one's come when all else is done.
"$build/tests/test_compile_ops" --list >"$logs/list"
most=$(wc -l <"$logs/list")
[ "$jobs" -le "$most" ] || jobs=$most # who has none would run all
ops() {
  local tests
  mapfile -t tests < <(awk -v n="$jobs" -v i="$1" 'NR % n == i { print "=" $0 }' "$logs/list")
  "$build/tests/test_compile_ops" "${tests[@]}" >"$logs/ops$1" 2>&1
}
pids=()
for ((i = 1; i < jobs; i++)); do
  ops "$i" &
  pids[i]=$!
done

# A driver on top of something else, as MoltenVK is: the loader tells of those only who asks.
for icd in /usr/share/vulkan/icd.d/lvp_icd*.json; do
  [ -e "$icd" ] || continue
  sed 's/"library_path"/"is_portability_driver": true, &/; s/\("file_format_version": *\)"[^"]*"/\1"1.0.1"/' "$icd" \
    >"$logs/port.json"
  status=0
  VK_DRIVER_FILES=$logs/port.json VK_ICD_FILENAMES=$logs/port.json "$build/sinew" devices >"$logs/port" 2>&1
  grep -q '^vulkan' "$logs/port" || status=1
  report "a driver on top of something else" "$status" "$logs/port"
done

check "random graphs" "$build/tests/test_compile_random_graphs" random_graphs_are_planned_right
if [ "$precision" != exact ]; then
  :
elif [ -d "$shared/data/hf" ]; then
  for family in gpt2 llama llama-bf16-sharded qwen2 qwen3 gemma3; do
    folder=$shared/data/hf/$family
    check "$family" "$build/sinew" check "$folder" "$folder/golden.json" --device vulkan
  done
  # The workload that a software driver trains within seconds; scripts/check_long has the others.
  check "StableDiffusion" "$build/tests/test_compile_workload_goldens" =live_step/StableDiffusion
else
  skip "no shared data: data/hf"
fi
ops 0
report "ops, part 0 of $jobs" $? "$logs/ops0"
for ((i = 1; i < jobs; i++)); do
  wait "${pids[i]}"
  report "ops, part $i of $jobs" $? "$logs/ops$i"
done
finish
