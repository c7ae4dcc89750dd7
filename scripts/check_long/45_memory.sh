#!/usr/bin/env bash
# The CPU device under the memory sanitizer at length: every mode of the op walk and 2,000 random graphs, about ten minutes on
# one core.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
PLAN_GRAPHS=2000 PLAN_MODES=15 exec "$root/scripts/check_memory.sh"
