#!/usr/bin/env bash
# The software driver of a newer Mesa than Debian 12 has, in a folder with a newer Debian: it has cooperative matrices (8 x 8 x 8 of f16), and later
# validation layers know more. Products and attention in `fast` run through matrices of a real driver there, with the shapes
# that a GPU of 132 units gets: every case of every op, random graphs, products of sizes around those of tiles, a workload's golden.
# Needs root. Half an hour on two cores.
set -eu

root=$(cd "$(dirname "$0")/../.." && pwd)
build=${1:-$root/build}
shared=${SINEW_SHARED:-$root/../shared}
. "$root/scripts/bare_debian.sh"
suite=trixie

if [ "$(id -u)" -ne 0 ]; then
  echo "skipped newer_driver: needs root"
  echo "0 passed, 0 failed, 1 skipped"
  exit 0
fi
work=$(mktemp -d "${TMPDIR:-/tmp}/sinew-driver-XXXXXX")
system=$work/system
cleanup() {
  umount "$system/proc" 2>/dev/null || true
  rm -rf --one-file-system "$work" # never across a mount that would not go away
}
trap cleanup EXIT
trap 'exit 1' INT TERM HUP

mirror=$(host_mirror "$(. /etc/os-release && echo "${VERSION_CODENAME:-}")")
bare_debian $suite "$system" ca-certificates,libvulkan1,vulkan-validationlayers "$mirror"
mount -t proc proc "$system/proc"
inside() {
  env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
    ${http_proxy:+http_proxy="$http_proxy"} chroot "$system" "$@" </dev/null
}
sed "s/ $suite / $suite-backports /" "$system/etc/apt/sources.list" >"$system/etc/apt/sources.list.d/backports.list"
if ! inside sh -c "apt-get -q update && apt-get -q install -y --no-install-recommends -t $suite-backports mesa-vulkan-drivers" \
  >"$work/log" 2>&1; then
  tail -n 20 "$work/log"
  exit 1
fi

# What runs there was built here, with a C library that is older or as old.
cmake --build "$build" --target all tests >/dev/null
mkdir -p "$system/sinew/build/tests" "$system/sinew/scripts"
cp "$build/sinew" "$system/sinew/build/"
cp "$root/scripts/test_vulkan.sh" "$system/sinew/scripts/"
for test in ops random_graphs edges workload_goldens; do
  cp "$build/tests/test_compile_$test" "$system/sinew/build/tests/"
done
if [ -d "$shared" ]; then
  mkdir "$system/shared"
  cp -rL "$shared/workloads" "$shared/data" "$system/shared/"
fi
if ! inside /sinew/build/sinew devices | grep '^vulkan.*matrices.*tested$'; then
  echo "that driver has no matrices that work:"
  inside /sinew/build/sinew devices
  exit 1
fi

passed=0 failed=0 skipped=0
# run NAME VARIABLE=VALUE... COMMAND...: adds what its last line counts.
run() {
  local name=$1 status=0 p f s
  shift
  echo "=== $name"
  inside env SINEW_SHARED=/shared SINEW_TEST_DEVICE=vulkan SINEW_VULKAN_VALIDATE=1 SINEW_CACHE=off GALLIVM_PERF=nopt "$@" \
    >"$work/log" 2>&1 || status=$?
  tail -n 30 "$work/log"
  read -r p f s < <(awk '/^[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped$/ { c = $1 " " $3 " " $5 }
    END { print (c ? c : "0 1 0") }' "$work/log")
  if [ "$status" -ne 0 ] && [ "$f" -eq 0 ]; then f=1; fi
  passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
}
tests=/sinew/build/tests
run "exact" bash /sinew/scripts/test_vulkan.sh
fast=(SINEW_TEST_PRECISION=fast SINEW_VULKAN_UNITS=132)
run "fast" "${fast[@]}" bash /sinew/scripts/test_vulkan.sh
run "fast, edges" "${fast[@]}" $tests/test_compile_edges =matmuls =convolutions
run "fast, a golden" "${fast[@]}" $tests/test_compile_workload_goldens =live_step/StableDiffusion

echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
