#!/usr/bin/env bash
# lint.sh [BUILD]: all checks of the sources that need no running. Every problem is printed as
# file:line: what; the exit status tells whether there was any.
set -u
cd "$(dirname "$0")/.." || exit 2
build=${1:-build}
bad=0

step() {
  local name=$1
  shift
  if "$@"; then
    echo "lint: $name: ok"
  else
    echo "lint: $name: FAILED"
    bad=1
  fi
}

# shellcheck disable=SC2317 # called through step
check_scripts() {
  if ! command -v shellcheck >/dev/null 2>&1; then
    echo "lint: shellcheck is not installed (scripts/setup.sh dev)" >&2
    [ "${CI-}" != true ]
    return
  fi
  shellcheck -x scripts/*.sh scripts/check_long/*.sh .ci/run
}

step layout scripts/format.sh --check
step includes scripts/lint_includes.sh
step names scripts/lint_names.sh "$build"
step sizes scripts/lint_sizes.sh
step text scripts/lint_text.sh
step scripts check_scripts
exit $bad
