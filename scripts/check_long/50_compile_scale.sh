#!/usr/bin/env bash
# Training graphs of 1,000 to 32,000 nodes through the whole compiler: prints what each took and checks that plans and times
# grow with the graph.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
build=${1:-$root/build}
cmake --build "$build" --target test_compile_scale >/dev/null
COMPILE_SCALE=all exec "$build/tests/test_compile_scale"
