#!/usr/bin/env bash
# The reference workloads, forward and backward, on the first GPU, or the software driver, whose sums are those of a small GPU without units for
# matrices, against their goldens. (SmolLM2-135M's training needs more memory than that driver has: forward only.) Some two minutes on two
# cores.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
build=${1:-$root/build}
if ! "$build/sinew" devices | grep -q '^vulkan'; then
  echo "skipped vulkan goldens: no Vulkan driver"
  echo "0 passed, 0 failed, 1 skipped"
  exit 0
fi
cmake --build "$build" --target test_compile_workload_goldens >/dev/null
export SINEW_TEST_DEVICE=vulkan SINEW_VULKAN_VALIDATE=0 SINEW_CACHE=off
exec "$build/tests/test_compile_workload_goldens" =live_step/SmolVLA =live_step/StableDiffusion =live_step/ResNet-50 \
  =live_step/Whisper-tiny =live_forward/SmolLM2-135M
