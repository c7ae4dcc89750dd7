#!/usr/bin/env bash
# run_tests.sh never passes by accident: crashes, bad exit statuses, missing executables, time-outs
# and, in CI, unlisted skips count as failures. It says what took longest, and what took too long, which
# is no failure.
set -u

root=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0 failed=0 said=

# expect LAST_LINE STATUS BODY...: the runner's verdict on executables with these shell bodies.
expect() {
  local last=$1 status=$2 got=0 n=0 body
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

# said YES PATTERN, said NO PATTERN: whether the last run had a line like that.
said() {
  local has=NO
  if grep -Eqx -e "$2" <<<"$said"; then has=YES; fi
  if [ "$has" = "$1" ]; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    printf 'failed: a line "%s": expected %s; said:\n%s\n' "$2" "$1" "$said"
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

# Times: of all, of the ten slowest, and of what is over the limit.
TEST_SLOW=1 expect "3 passed, 0 failed, 0 skipped" 0 true 'sleep 1.5' true
said YES ' *[0-9.]+ s in all, .* the slowest:'
said YES ' *[12]\.[0-9]+ s  test_2'
said YES 'slow: test_2 took [12] s, the limit is 1 s'
said NO 'slow: test_[13] .*'
TEST_SLOW=1 CI=true expect "1 passed, 0 failed, 0 skipped" 0 'sleep 1.2'
said YES 'slow: test_1 .*'
expect "2 passed, 0 failed, 0 skipped" 0 true true
said NO 'slow: .*'

# An executable in parts: each with its own line and result.
parts="$(counts 1 0 0); case \$2 in 1/2) exit 0 ;; 2/2) exit 1 ;; esac"
TEST_PARTS='test_1 2' expect "3 passed, 1 failed, 0 skipped" 1 "$parts" "$(counts 1 0 0)"
said YES ' *1 passed .* test_1\.1of2'
said YES ' *1 passed +1 failed .* test_1\.2of2'
said YES '--- test_1\.2of2'
said YES ' *1 passed .* test_2'
said NO '.* test_1'

# No more than ten.
expect "12 passed, 0 failed, 0 skipped" 0 true true true true true true true true true true true true
shown=$(grep -c '^ *[0-9.]* s  test_' <<<"$said")
said=$shown
said YES 10

echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
