#!/usr/bin/env bash
# The kernels for 64-bit ARM: everything cross-compiled, and the tests of the CPU device, all op cases and random graphs run
# under qemu's user mode. PLAN_GRAPHS is how many of the latter.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
build=$root/build-neon
passed=0 failed=0

cmake -S "$root" -B "$build" -DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=aarch64 \
  -DCMAKE_C_COMPILER=aarch64-linux-gnu-gcc -DCMAKE_EXE_LINKER_FLAGS=-static \
  -DSINEW_WERROR=ON >/dev/null
tests=(test_compile_ops test_compile_random_graphs)
for source in "$root"/tests/device/cpu/test_*.c; do
  name=$(basename "$source" .c)
  tests+=("test_device_cpu_${name#test_}")
done
cmake --build "$build" --parallel "$(nproc)" --target sinew_cli "${tests[@]}" >/dev/null

for name in "${tests[@]}"; do
  if PLAN_GRAPHS=${PLAN_GRAPHS:-200} qemu-aarch64 "$build/tests/$name" >"$build/$name.log" 2>&1; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    tail -n 20 "$build/$name.log"
  fi
  echo "$name: $(tail -n 1 "$build/$name.log")"
done
printf '%d passed, %d failed, 0 skipped\n' "$passed" "$failed"
[ "$failed" -eq 0 ]
