#!/usr/bin/env bash
# To be sourced: minimal Debian systems in folders, for checks that need one. Root's.

# host_mirror RELEASE: where the host's own apt gets that release from; nothing where it does not.
host_mirror() {
  # shellcheck disable=SC2016 # apt reads what is quoted
  apt-get indextargets --format '$(REPO_URI) $(RELEASE)' 'Created-By: Packages' 2>/dev/null |
    awk -v suite="$1" '$2 == suite { print $1; exit }'
}

# The proxy that the host's apt uses, whatever way it is written down.
use_host_proxy() {
  local proxy
  proxy=$(apt-config shell proxy Acquire::http::Proxy | sed "s/^proxy='\(.*\)'$/\1/")
  if [ -n "$proxy" ] && [ "$proxy" != DIRECT ]; then export http_proxy=$proxy; fi
}

# bare_debian RELEASE FOLDER PACKAGES [MIRROR]: debootstrap's minbase and these packages, with commas between them.
bare_debian() {
  local release=$1 folder=$2 packages=$3 mirror=${4-}
  use_host_proxy
  echo "building a minimal $release"
  if ! debootstrap --variant=minbase --include="$packages" "$release" "$folder" \
    ${mirror:+"$mirror"} >"$folder.log" 2>&1; then
    tail -n 20 "$folder.log"
    return 1
  fi
  cp -L /etc/resolv.conf /etc/hosts "$folder/etc/"
}
