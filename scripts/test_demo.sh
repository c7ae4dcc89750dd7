#!/usr/bin/env bash
# test_demo.sh BUILD: the demonstration in small: what it leaves behind, a model that generates, and
# that a run which was interrupted and resumed ends with the very bytes of one that was not.
# shellcheck disable=SC2016 # awk, not the shell, reads what is quoted
set -u
sinew=$(cd "$1" && pwd)/sinew
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

# A second is too short for any machine, so both runs take the fewest steps that the demo makes.
demo() { "$sinew" demo --seconds 0.01 "$@"; }

demo --out "$work/whole" >"$work/out" 2>"$work/err"
check "the demo ends well" [ $? -eq 0 ]
for file in model.safetensors config.json checkpoint.safetensors loss.csv loss.svg; do
  check "it leaves $file" [ -s "$work/whole/$file" ]
done
check "nothing half-written stays" [ "$(find "$work/whole" -type f | wc -l)" -eq 5 ]
check "loss.csv has its columns" grep -qx 'step,loss,heldout' "$work/whole/loss.csv"
check "loss.csv has every step once" awk -F, 'NR > 1 && $1 != NR - 1 { bad = 1 } END { exit bad || NR < 121 }' \
  "$work/whole/loss.csv"
check "the first loss is that of a guess, within 5 %" awk '/^first loss/ {
  guess = log($7); exit !($3 > 0.95 * guess && $3 < 1.05 * guess) }' "$work/out"
check "it tells how to go on" grep -q "generate $work/whole --prompt" "$work/out"

"$sinew" generate "$work/whole" --prompt "Once upon a time" -n 5 >"$work/out" 2>&1
check "its model generates" [ $? -eq 0 ]
check "from the prompt on" grep -q '^Once upon a time ' "$work/out"
"$sinew" generate "$work/whole" --prompt "Once upon a zebra" >"$work/out" 2>&1
check "an unknown word is named" grep -q '"zebra"' "$work/out"

# Interrupted as soon as it has begun to train, then resumed.
"$sinew" demo --seconds 0.01 --out "$work/parts" >"$work/out" 2>"$work/err" &
pid=$!
for _ in $(seq 3000); do
  if grep -q 'step' "$work/err" || ! kill -0 $pid 2>/dev/null; then break; fi
  sleep 0.01
done
kill -INT $pid 2>/dev/null
wait $pid
code=$?
check "an interrupted demo ends with 130" [ $code -eq 130 ]
check "it tells how to resume" grep -q -- '--resume' "$work/out"
demo --out "$work/parts" --resume >"$work/out" 2>&1
check "it resumes" [ $? -eq 0 ]
check "where it stopped" grep -q '^resumed at step [1-9]' "$work/out"
check "interrupted or not, the bytes are the same" \
  cmp "$work/whole/checkpoint.safetensors" "$work/parts/checkpoint.safetensors"
check "and so are the weights" cmp "$work/whole/model.safetensors" "$work/parts/model.safetensors"

demo --out "$work/no/such/folder" >"$work/out" 2>&1
check "a folder that cannot be made is an error" [ $? -eq 1 ]
demo --out "$work/none" --resume >"$work/out" 2>&1
check "resuming from nothing is an error" [ $? -eq 1 ]
head -c 1000 "$work/whole/checkpoint.safetensors" >"$work/parts/checkpoint.safetensors"
demo --out "$work/parts" --resume >"$work/out" 2>&1
check "so is a checkpoint cut short" [ $? -eq 1 ]
check "which is named" grep -q 'checkpoint.safetensors' "$work/out"

echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
