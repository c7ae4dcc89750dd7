#!/usr/bin/env bash
# Installs what is missing, for the groups named: build (default), test, dev, fuzz, long, vulkan.
# Does nothing, at once, when nothing is missing. Only Debian and Ubuntu are served; elsewhere it
# says what to install.
set -eu

missing=()

# need PACKAGE COMMAND...: the package is missing unless one of the commands exists.
need() {
  local package=$1 command
  shift
  for command in "$@"; do
    if command -v "$command" >/dev/null 2>&1; then return; fi
  done
  missing+=("$package")
}

# Without the C library's headers a compiler is of no use; Debian packages them apart.
need_libc_headers() {
  echo '#include <stdio.h>' | cc -E -x c - >/dev/null 2>&1 || missing+=(libc6-dev)
}

# The sanitizer and fuzzer runtimes come in a package named after clang's version.
need_clang_runtime() {
  local version=14
  if command -v clang >/dev/null 2>&1; then version=$(clang -dumpversion | cut -d. -f1); fi
  if ! echo 'int main(void) { return 0; }' |
    clang -x c -fsanitize=address -o /dev/null - >/dev/null 2>&1; then
    missing+=("libclang-rt-$version-dev")
  fi
}

# need_file PACKAGE FILE...: the package is missing unless one of the files exists.
need_file() {
  local package=$1 file
  shift
  for file in "$@"; do
    if [ -e "$file" ]; then return; fi
  done
  missing+=("$package")
}

for group in "${@:-build}"; do
  case $group in
    build)
      need gcc cc
      need make make
      need cmake cmake
      need_libc_headers
      ;;
    test)
      need g++ c++
      need pkg-config pkg-config
      need binutils nm
      ;;
    dev)
      need clang clang
      need clang-format-14 clang-format-14 clang-format
      need clang-tidy clang-tidy
      need shellcheck shellcheck
      need_clang_runtime
      ;;
    fuzz)
      need clang clang
      need_clang_runtime
      ;;
    long)
      need debootstrap debootstrap
      need git git
      need gcc-aarch64-linux-gnu aarch64-linux-gnu-gcc
      need qemu-user qemu-aarch64
      need_file libc6-dev-arm64-cross /usr/aarch64-linux-gnu/include/stdio.h
      ;;
    vulkan) # the software driver and what checks shaders; tests that need them are skipped without
      need_file libvulkan1 /usr/lib/*/libvulkan.so.1 /usr/lib/libvulkan.so.1
      need_file mesa-vulkan-drivers /usr/share/vulkan/icd.d/lvp_icd*.json
      need_file vulkan-validationlayers \
        /usr/share/vulkan/explicit_layer.d/VkLayer_khronos_validation.json
      need spirv-tools spirv-val
      ;;
    *)
      echo "setup: unknown group '$group' (build, test, dev, fuzz, long, vulkan)" >&2
      exit 2
      ;;
  esac
done

if [ ${#missing[@]} -eq 0 ]; then exit 0; fi

as_root=()
if [ "$(id -u)" -ne 0 ]; then as_root=(sudo); fi
if ! command -v apt-get >/dev/null 2>&1 ||
  { [ ${#as_root[@]} -gt 0 ] && ! command -v sudo >/dev/null 2>&1; }; then
  echo "setup: please install (Debian names): ${missing[*]}" >&2
  exit 1
fi

echo "setup: installing ${missing[*]}"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q)
# A foreign source that is out of order makes update fail; what counts is whether install works.
"${apt[@]}" update >"$log" 2>&1 || true
if ! "${apt[@]}" install -y --no-install-recommends "${missing[@]}" >>"$log" 2>&1; then
  cat "$log" >&2
  echo "setup: could not install ${missing[*]}" >&2
  exit 1
fi
