#!/usr/bin/env bash
# run_tests.sh never passes by accident: crashes, bad exit statuses, missing executables, time-outs
# and, in CI, unlisted skips count as failures.
set -u

root=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0 failed=0

# expect LAST_LINE STATUS BODY...: the runner's verdict on executables with these shell bodies.
expect() {
  local last=$1 status=$2 got=0 said n=0 body
  shift 2
  rm -f "$work"/test_*
  : >"$work/tests.txt"
  for body in "$@"; do
    n=$((n + 1))
    echo "$work/test_$n" >>"$work/tests.txt"
    if [ "$body" != missing ]; then
      printf '#!/bin/sh\n%s\n' "$body" >"$work/test_$n"
      chmod +x "$work/test_$n"
    fi
  done
  said=$("$root/scripts/run_tests.sh" -x -b "$work" 2>&1) || got=$?
  if [ "$(tail -n 1 <<<"$said")" = "$last" ] && [ "$got" -eq "$status" ]; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    printf 'failed: expected "%s", %d; exit status %d, said:\n%s\n' "$last" "$status" "$got" "$said"
  fi
}

counts() { echo "echo '$1 passed, $2 failed, $3 skipped'"; }
skip='echo "skipped walk/a: b: no such device"; echo "0 passed, 0 failed, 1 skipped"'

unset CI
expect "5 passed, 0 failed, 0 skipped" 0 "$(counts 2 0 0)" "$(counts 3 0 0)"
expect "2 passed, 1 failed, 0 skipped" 1 "$(counts 2 1 0); exit 1"
expect "2 passed, 1 failed, 0 skipped" 1 "$(counts 2 0 0); exit 1"
expect "0 passed, 1 failed, 0 skipped" 1 'kill -SEGV $$'
expect "0 passed, 1 failed, 0 skipped" 1 missing
expect "1 passed, 0 failed, 0 skipped" 0 true
expect "1 passed, 1 failed, 0 skipped" 1 true false
TEST_TIMEOUT=1 expect "0 passed, 1 failed, 0 skipped" 1 'exec sleep 20'
expect "0 passed, 0 failed, 1 skipped" 0 "$skip"
CI=true expect "0 passed, 1 failed, 0 skipped" 1 "$skip"
CI=true expect "0 passed, 1 failed, 0 skipped" 1 "$(counts 0 0 1)"

echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
