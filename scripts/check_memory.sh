#!/usr/bin/env bash
# check_memory.sh [FILTER]: the CPU device under clang's memory and undefined-behaviour sanitizers, in build-memory. Kernels are
# plain code there; arenas, scratch and results hold nothing before a step writes them, and a step that decides by such memory, or
# makes a result of it, fails: `cpu: step 0 (matmul, …) makes element 1 of value 5 of stale memory`. Without a filter: every case of
# every op, random graphs, the graphs that once went wrong, and the tests of the device. Drivers of GPUs are left out: the
# sanitizer does not see what they write. PLAN_GRAPHS and PLAN_MODES say how many graphs and which modes.
set -u
cd "$(dirname "$0")/.." || exit 2
build="build-memory"
filters=(test_compile_repro test_compile_special test_compile_ops test_compile_random_graphs
  test_device_cpu_)
if [ $# -gt 0 ]; then filters=("$@"); fi
export PLAN_GRAPHS=${PLAN_GRAPHS:-100} PLAN_MODES=${PLAN_MODES:-9}
export MSAN_OPTIONS=${MSAN_OPTIONS:-poison_in_free=0} # twice as fast

cmake -S . -B $build -DCMAKE_C_COMPILER=clang -DSINEW_SANITIZE=memory,undefined >/dev/null || exit 2
targets=()
for filter in "${filters[@]}"; do
  while read -r path; do
    case $(basename "$path") in *"$filter"*) targets+=("$(basename "$path")") ;; esac
  done <$build/tests.txt
done
cmake --build $build --parallel "$(nproc)" --target "${targets[@]}" >$build/build.log ||
  { tail -n 40 $build/build.log && exit 2; }

passed=0 failed=0 skipped=0
for filter in "${filters[@]}"; do
  scripts/run_tests.sh -x -b $build "$filter" 2>&1 | tee $build/run.log
  read -r p f s < <(awk '/^[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped$/ { c = $1 " " $3 " " $5 }
    END { print (c ? c : "0 1 0") }' $build/run.log)
  passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
done
printf '\n%d passed, %d failed, %d skipped\n' "$passed" "$failed" "$skipped"
[ "$failed" -eq 0 ]
