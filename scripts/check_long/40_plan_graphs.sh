#!/usr/bin/env bash
# 20,000 random graphs through the whole compiler and the cpu device, each compared with the reference at several
# sizes: about 10 minutes on one core. A failure is printed as the smallest graph that shows it.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
build=${1:-$root/build}
cmake --build "$build" --target test_compile_random_graphs >/dev/null
PLAN_GRAPHS=20000 exec "$build/tests/test_compile_random_graphs" random_graphs
