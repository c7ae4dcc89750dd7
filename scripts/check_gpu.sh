#!/usr/bin/env bash
# check_gpu.sh [BUILD] [PART]: what CI cannot see, on the first GPU of this machine: memory, the goldens of the workloads, products at
# edges of tiles, all kernels at the borders of their ways and 5,000 drawn graphs, then what test_vulkan.sh does, each with every precision that it has. PART: memory,
# goldens, edges, borders, drawn or pipeline alone.
# JOBS (the cores): how many processes at once.
set -u

root=$(cd "$(dirname "$0")/.." && pwd)
build=${1:-$root/build}
part=${2:-}
export SINEW_TEST_DEVICE=vulkan SINEW_VULKAN_VALIDATE=0 DRAWN_GRAPHS=${DRAWN_GRAPHS:-5000} JOBS=${JOBS:-$(nproc)}
passed=0 failed=0 skipped=0
log=$(mktemp)
trap 'rm -f "$log"' EXIT

# suite NAME COMMAND...: adds what its last line counts.
suite() {
  local name=$1 status=0 p f s
  shift
  printf '\n=== %s\n' "$name"
  "$@" 2>&1 | tee "$log"
  status=${PIPESTATUS[0]}
  read -r p f s < <(awk '/^[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped$/ { c = $1 " " $3 " " $5 }
    END { print (c ? c : "0 0 0") }' "$log")
  if [ "$status" -ne 0 ] && [ "$f" -eq 0 ]; then f=1; fi
  passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
}

# asked PART: whether it is to run.
asked() { [ -z "$part" ] || [ "$part" = "$1" ]; }

"$build/sinew" devices | grep '^vulkan' | grep -v '(software)' || {
  echo "check_gpu: there is no GPU with Vulkan (sinew devices)" >&2
  exit 1
}
if asked memory; then # first, and alone: it asks the driver how much there is
  suite "memory" "$build/tests/test_device_vulkan_memory"
  suite "memory, long" "$build/tests/test_long_vulkan_memory"
fi
for precision in exact fast half; do
  export SINEW_TEST_PRECISION=$precision
  if asked goldens && [ $precision != half ]; then
    suite "goldens, $precision" "$build/tests/test_compile_workload_goldens" live_step
  fi
  if asked edges; then
    suite "edges, $precision" "$build/tests/test_compile_edges"
  fi
  if asked borders && [ $precision != half ]; then
    suite "borders, $precision" "$build/tests/test_long_borders" driven
  fi
  if asked drawn && [ $precision = exact ]; then
    suite "drawn" "$build/tests/test_long_drawn_graphs"
  fi
  if asked pipeline && [ $precision != half ]; then # where terms cancel, a single product leaves too little
    suite "pipeline, $precision" "$root/scripts/test_vulkan.sh" "$build"
  fi
done

printf '\n%d passed, %d failed, %d skipped\n' "$passed" "$failed" "$skipped"
[ "$failed" -eq 0 ]
