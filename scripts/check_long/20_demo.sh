#!/usr/bin/env bash
# The demonstration as a user sees it: at most 90 s, a first loss like a guess, a held-out loss below the
# bigram entropy of the held-out text, and at least nine of ten sampled sentences in the grammar.
# shellcheck disable=SC2016 # awk, not the shell, reads what is quoted
set -u
root=$(cd "$(dirname "$0")/../.." && pwd)
sinew=${1:-$root/build}/sinew
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0 failed=0

check() {
  local what=$1
  shift
  if "$@"; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    echo "failed: $what"
  fi
}

started=$(date +%s)
"$sinew" demo --out "$work/out" >"$work/log" 2>"$work/progress"
check "the demo ends well" [ $? -eq 0 ]
spent=$(($(date +%s) - started))
grep -E '^(first loss|held-out loss|sampled sentences)' "$work/log"
tail -n 1 "$work/progress"
echo "took $spent s"
check "within 90 s" [ $spent -le 90 ]
check "the first loss is within 5 % of a guess" awk '/^first loss/ {
  guess = log($7); exit !($3 > 0.95 * guess && $3 < 1.05 * guess) }' "$work/log"
check "the held-out loss is below the bigram entropy" awk '/^held-out loss/ {
  entropy = $NF; sub(/\)/, "", entropy); exit !($3 < entropy) }' "$work/log"
check "90 % of the sentences parse" awk '/^sampled sentences/ { exit !($3 >= 0.9 * $5 && $5 >= 40) }' \
  "$work/log"

echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
