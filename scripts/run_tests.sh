#!/usr/bin/env bash
# Runs the test executables of a build and the scripts scripts/test_*.sh, and adds up.
#
#   run_tests.sh [-b BUILD] [-j JOBS] [-l] [-x] [FILTER]
#     -l  the long checks: tests/long and scripts/check_long, one after the other
#     -x  executables only
#     FILTER  part of the name of the executable or script
#
# Each prints `skipped NAME: REASON` for what it left out and ends with
# `N passed, N failed, N skipped`; one that prints no such line counts as one test.
# With CI=true a skip whose reason is not in .ci/allowed-skips counts as failed.
# TEST_TIMEOUT (seconds) limits each; default 900, long checks 7200.
#
# Before the closing counts come the time of all and the ten that took longest. An executable over
# TEST_SLOW seconds (default 45, none for the long checks) gets a line `slow: …`, which is no failure:
# on a busy or a slow machine it may well be so.
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)

# Executables that would take over 45 s on two cores run in so many parts, side by side.
parts="test_device_vulkan_attention_matrix 5 test_device_vulkan_kernels 3 test_device_vulkan_matmul_fast 2"
parts+=" ${TEST_PARTS-}"

# --- One test: run_tests.sh --one "PATH<tab>PART", called below through xargs

# The name of a test, and of its files: that of the executable and, behind a dot, the part (2of3).
name_of() {
  local path part
  IFS=$'\t' read -r path part <<<"$1"
  echo "${path##*/}${part:+.${part/\//of}}"
}

run_one() {
  local path part name out status=0 counts started took limit=()
  IFS=$'\t' read -r path part <<<"$1"
  name=$(name_of "$1")
  out=$RUN_TESTS_RESULTS/$name.out
  started=$(date +%s.%N)
  if command -v timeout >/dev/null 2>&1; then limit=(timeout -k 10 "$TEST_TIMEOUT"); fi
  local command=("${limit[@]}" "$path")
  if [[ $path == *.sh ]]; then command+=("$RUN_TESTS_BUILD"); fi
  if [ -n "$part" ]; then command+=(--part "$part"); fi
  # The outer redirection keeps the shell from announcing a crash in the midst of the table.
  { "${command[@]}" >"$out" 2>&1 </dev/null || status=$?; } 2>/dev/null
  took=$(echo "$started $(date +%s.%N)" | awk '{ printf "%.2f", $2 - $1 }')
  echo "$took $name" >"$RUN_TESTS_RESULTS/$name.took"
  if [ "$status" -eq 124 ]; then echo "timed out after $TEST_TIMEOUT s" >>"$out"; fi
  # The counts, and a failure more when the exit status is bad but no test failed (a crash, a leak).
  counts=$(awk -v status="$status" '
    /^[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped$/ { p = $1; f = $3; s = $5; seen = 1 }
    END {
      if (status != 0 && f == 0) f = 1
      else if (!seen) p = 1
      print p + 0, f + 0, s + 0
    }' "$out")
  echo "$counts" >"$RUN_TESTS_RESULTS/$name.counts"
  # shellcheck disable=SC2086 # three numbers
  printf '%5d passed %4d failed %4d skipped %8.2f s  %s\n' $counts "$took" "$name"
}

if [ "${1-}" = --one ]; then
  run_one "$2"
  exit 0
fi

# --- All tests

build=$root/build jobs=2 list=tests.txt scripts=("$root"/scripts/test_*.sh) slow=${TEST_SLOW:-45}
export TEST_TIMEOUT=${TEST_TIMEOUT-}
while getopts b:j:lx option; do
  case $option in
    b) build=$(cd "$OPTARG" && pwd) ;;
    j) jobs=$OPTARG ;;
    l)
      jobs=1 list=long_tests.txt scripts=("$root"/scripts/check_long/*.sh) slow=
      TEST_TIMEOUT=${TEST_TIMEOUT:-7200}
      ;;
    x) scripts=() ;;
    *) exit 2 ;;
  esac
done
shift $((OPTIND - 1))
filter=${1-}
TEST_TIMEOUT=${TEST_TIMEOUT:-900}

results=$(mktemp -d)
trap 'rm -rf "$results"' EXIT
export RUN_TESTS_RESULTS=$results RUN_TESTS_BUILD=$build

{
  cat "$build/$list"
  for script in "${scripts[@]}"; do
    if [ -f "$script" ]; then echo "$script"; fi
  done
} | awk -F/ -v filter="$filter" -v parts="$parts" '
  BEGIN {
    n = split(parts, words, " ")
    for (i = 1; i < n; i += 2) parts_of[words[i]] = words[i + 1]
  }
  !index($NF, filter) { next }
  $NF in parts_of {
    for (i = 1; i <= parts_of[$NF]; i++) print $0 "\t" i "/" parts_of[$NF]
    next
  }
  { print }' >"$results/paths"
if [ ! -s "$results/paths" ]; then
  echo "run_tests: no test matches '$filter'" >&2
  exit 2
fi
started=$(date +%s.%N)
tr '\n' '\0' <"$results/paths" | xargs -0 -n 1 -P "$jobs" "$0" --one

# Output of what failed, after the table so that nothing interleaves.
while read -r test; do
  name=$(name_of "$test")
  read -r _ failed _ <"$results/$name.counts"
  if [ "$failed" -gt 0 ]; then
    printf '\n--- %s\n' "$name"
    cat "$results/$name.out"
  fi
done <"$results/paths"

# Skips, with their reasons. `allowed` is how many of them may be; all of them outside CI.
printf '\n'
{ grep -h '^skipped ' "$results"/*.out || true; } |
  awk -v ci="${CI-}" -v list="$root/.ci/allowed-skips" -v count_file="$results/allowed" '
    BEGIN { while ((getline line < list) > 0) listed[line] = 1 }
    {
      reason = $0
      sub(/^skipped [^:]*: /, "", reason)
      ok = ci != "true" || reason in listed
      allowed += ok
      print $0 (ok ? "" : " (NOT ALLOWED)")
    }
    END { print allowed + 0 >count_file }'

# Where the time went.
cat "$results"/*.took | sort -rn | awk -v started="$started" -v ended="$(date +%s.%N)" -v slow="$slow" '
  NR <= 10 { slowest = slowest sprintf("%10.2f s  %s\n", $1, $2) }
  slow != "" && $1 > slow + 0 && $2 !~ /\.sh$/ {
    over = over sprintf("slow: %s took %.0f s, the limit is %s s\n", $2, $1, slow)
  }
  { sum += $1 }
  END {
    printf "\n%.2f s in all, %.2f s one after the other; the slowest:\n%s%s\n",
      ended - started, sum, slowest, over
  }'

# In CI a skip that is not allowed, or that gave no reason at all, is a failure.
cat "$results"/*.counts | awk -v ci="${CI-}" -v allowed="$(cat "$results/allowed")" '
  { p += $1; f += $2; s += $3 }
  END {
    if (ci == "true" && s > allowed) {
      f += s - allowed
      s = allowed
    }
    printf "%d passed, %d failed, %d skipped\n", p, f, s
    exit f > 0
  }'
