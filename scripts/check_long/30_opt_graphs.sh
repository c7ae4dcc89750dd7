#!/usr/bin/env bash
# 20,000 random graphs through the optimiser, each compared with the reference: a failure is printed as the
# smallest graph that shows it.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
build=${1:-$root/build}
cmake --build "$build" --target test_opt_random >/dev/null
OPT_GRAPHS=20000 exec "$build/tests/test_opt_random" random_graphs
