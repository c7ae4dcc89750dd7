#!/usr/bin/env bash
# On a bare Debian 12 (debootstrap's minbase with git, make and CA certificates), a clone of this
# repository and one command are enough: `make demo`, and in a second, fresh system `make test`.
# Checks the last commit, not the working tree. Needs root; packages come from where the host's own
# apt gets them.
set -eu

root=$(cd "$(dirname "$0")/../.." && pwd)
suite=bookworm
. "$root/scripts/bare_debian.sh"
shared=${SINEW_SHARED:-$root/../shared}

if [ "$(id -u)" -ne 0 ]; then
  echo "skipped bare_debian: needs root"
  echo "0 passed, 0 failed, 1 skipped"
  exit 0
fi

work=$(mktemp -d "${TMPDIR:-/tmp}/sinew-bare-XXXXXX")
cleanup() {
  local system
  for system in demo test; do umount "$work/$system/proc" 2>/dev/null || true; done
  # Never across a mount that would not go away.
  rm -rf --one-file-system "$work"
}
trap cleanup EXIT
trap 'exit 1' INT TERM HUP

mirror=$(host_mirror $suite)
bare_debian $suite "$work/base" git,make,ca-certificates "$mirror"
# The host's sources serve the bare system only when the host runs the same release.
if [ -n "$mirror" ]; then
  rm -rf "$work/base/etc/apt"
  cp -a /etc/apt "$work/base/etc/apt"
  if [ -d /usr/share/keyrings ]; then cp -an /usr/share/keyrings "$work/base/usr/share/"; fi
fi
git clone -q --bare --no-hardlinks "$root" "$work/base/sinew.git"
mkdir -p "$work/base/home/user"
if [ -d "$shared" ]; then cp -rL "$shared" "$work/base/home/user/shared"; fi

passed=0 failed=0
for target in demo test; do
  system=$work/$target
  cp -a "$work/base" "$system"
  mount -t proc proc "$system/proc"
  echo "bare_debian: git clone, make $target"
  if env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/home/user LANG=C.UTF-8 \
    ${http_proxy:+http_proxy="$http_proxy"} ${https_proxy:+https_proxy="$https_proxy"} \
    ${no_proxy:+no_proxy="$no_proxy"} \
    chroot "$system" sh -c "cd /home/user && git clone -q /sinew.git sinew && cd sinew && make $target" \
    >"$work/$target.log" 2>&1 </dev/null; then
    passed=$((passed + 1))
    tail -n 3 "$work/$target.log"
  else
    failed=$((failed + 1))
    echo "bare_debian: make $target failed:"
    tail -n 60 "$work/$target.log"
  fi
done

echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
