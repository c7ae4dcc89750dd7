#!/usr/bin/env bash
# fuzz.sh [SECONDS] [FILTER]: runs every tests/fuzz/fuzz_<name>.c for a while, with address and
# undefined-behaviour sanitizers. Starts from tests/fuzz/corpus/<name>/, keeps what it finds in
# build-fuzz/corpus/<name>/ and inputs that break something in build-fuzz/broken/.
set -eu
cd "$(dirname "$0")/.."
seconds=${1:-60}
filter=${2-}
build="build-fuzz"

if [ ! -f $build/CMakeCache.txt ]; then
  cmake -S . -B $build -DCMAKE_C_COMPILER=clang -DSINEW_FUZZ=ON -DSINEW_TESTS=OFF \
    -DSINEW_SANITIZE=address,undefined
fi
cmake --build $build --parallel "$(nproc)" --target fuzzers

mkdir -p $build/broken
passed=0 failed=0
while read -r fuzzer; do
  name=$(basename "$fuzzer")
  name=${name#fuzz_}
  case $name in *"$filter"*) ;; *) continue ;; esac
  mkdir -p "$build/corpus/$name"
  seeds=() dictionary=()
  if [ -f "tests/fuzz/$name.dict" ]; then dictionary=(-dict="tests/fuzz/$name.dict"); fi
  if [ -d "tests/fuzz/corpus/$name" ]; then seeds=("tests/fuzz/corpus/$name"); fi
  if "$fuzzer" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 \
    "${dictionary[@]}" -artifact_prefix="$build/broken/$name-" "$build/corpus/$name" "${seeds[@]}" \
    >"$build/$name.log" 2>&1 </dev/null; then
    passed=$((passed + 1))
    echo "fuzz $name: ok, $(awk '/number_of_executed_units/ { print $2 }' "$build/$name.log") runs"
  else
    failed=$((failed + 1))
    tail -n 40 "$build/$name.log"
    echo "fuzz $name: FAILED, see $build/broken/ and $build/$name.log"
  fi
done <$build/fuzzers.txt
echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
