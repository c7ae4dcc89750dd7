#!/usr/bin/env bash
# 20,000 drawn graphs and all pairs of ops on the first GPU, or the software driver, in `exact`: hours there.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
build=${1:-$root/build}
if ! "$build/sinew" devices | grep -q '^vulkan'; then
  echo "skipped drawn graphs: no Vulkan driver"
  echo "0 passed, 0 failed, 1 skipped"
  exit 0
fi
cmake --build "$build" --target test_long_drawn_graphs test_long_op_pairs >/dev/null
export SINEW_TEST_DEVICE=vulkan SINEW_TEST_PRECISION=exact SINEW_VULKAN_VALIDATE=0 SINEW_CACHE=off
DRAWN_GRAPHS=${DRAWN_GRAPHS:-20000} "$build/tests/test_long_drawn_graphs"
exec "$build/tests/test_long_op_pairs"
