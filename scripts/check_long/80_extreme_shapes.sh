#!/usr/bin/env bash
# Single operations of extreme shapes (one row of millions, millions of one, long lines of k) on the CPU, and shorter ones on the first GPU
# or software driver: none may crash or fail. About two minutes.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
build=${1:-$root/build}
shapes=$(mktemp)
trap 'rm -f "$shapes"' EXIT
cat >"$shapes" <<'SHAPES'
matmul NT 1 1 3000000
matmul NN 1 1 3000000
matmul TN 1 1 3000000
matmul NT 2 3 500001
matmul NN 3 2 500001
matmul TN 7 1 300007
matmul NT 1 3000000 1
matmul NN 3000000 1 1
matmul NN 100000 3 2
matmul TN 3 100000 2
matmul NN 9 9 200001
matmul NT 16 17 100003
matmul TN 33 5 65537
matmul NN 1 5 33000 weights
matmul NT 1 1 40000 weights
conv forward 1 1 1 300000 1 1 3 1 1
conv grad-input 1 1 1 300000 1 1 3 1 1
conv grad-weight 1 1 1 300000 1 1 3 1 1
conv forward 1 40000 1 3 1 1 3 1 1
conv grad-weight 1 40000 1 3 1 1 3 1 1
conv grad-input 1 40000 1 3 1 1 3 1 1
attention 1 1 1 1 200000 8
attention backward 1 1 1 1 100000 8
add 3000001
exp 3000001
bias_gelu backward 3 300001
layer_norm 1 1000003
layer_norm backward 1 1000003
rms_norm backward 2 1000003
softmax 1 2000003
softmax backward 1 2000003
cross_entropy 1 2000003
cross_entropy backward 2 1000003
batch_norm 1 1 2000 1000
max_pool 1 1 2000 1000 3 2 1
sum all 3000 1001
sum rows 1 3000001
sum columns 3000001 1
sum rows 3000001 1
sum columns 1 3000001
argmax 1 3000001
transpose 1 3000001
transpose 3000001 1
gather backward 2 1 1000000
scatter_add 2 1 1000000
cumsum rows 1 3000001
cumsum columns 3000001 1
topk 1 1000001 5
sample 1 1000001 5
permutation 1000001
SHAPES
"$build/sinew" bench ops --device cpu --shapes "$shapes" --repeat 1 >/dev/null
if "$build/sinew" devices | grep -q '^vulkan'; then
  sed -E -i 's/\b([0-9])0([0-9]{5})\b/\1\2/g' "$shapes" # a tenth of millions
  "$build/sinew" bench ops --device vulkan --shapes "$shapes" --repeat 1 >/dev/null
fi
