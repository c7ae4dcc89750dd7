#!/usr/bin/env bash
# Enforces who may include whom. The table is the design's; it stands here once.
#
# Own headers, the C library and <sinew/...> are always allowed. A row lists what more a folder may
# include: folders of src/, or single headers of a folder that is otherwise closed to it. A folder
# below a row's folder (ops/pointwise) obeys that row, unless it has a row of its own.
set -eu
cd "$(dirname "$0")/.."

table='
base           :
ir             : base
step           : base ir
ops            : base ir step
ref            : base ir ops
grad           : base ir ops
opt            : base ir ops
plan           : base ir step ops
device         : base ir/dtype.h step plan/program.h
device/cpu     : base ir/dtype.h step plan/program.h device
device/vulkan  : base ir/dtype.h step plan/program.h device
compile        : base ir step ops ref grad opt plan device
run            : base ir step ops ref plan device compile
io             : base ir/dtype.h ir/dim.h
nn             : base/null.h
train          : base/null.h
lm             : base/null.h
cli            :
'

# shellcheck disable=SC2016 # awk, not the shell, reads what is quoted
find src include -name '*.[ch]' -o -name '*.def' | sort | xargs awk -v table="$table" '
  # Whether `path` (ops/table.h) is `entry` or lies in it; device does not open device/cpu.
  function covers(entry, path,   rest) {
    if (entry == path) return 1
    if (index(path, entry "/") != 1) return 0
    rest = path
    do {
      if (!sub(/\/[^\/]*$/, "", rest)) return 0
      if (rest in allowed) return rest == entry
    } while (rest != entry)
    return 1
  }
  # The row that a file of src/ obeys: the longest one that it lies in.
  function row_of(path) {
    while (sub(/\/[^\/]*$/, "", path)) if (path in allowed) return path
    return ""
  }
  function problem(text) {
    printf "%s:%d: %s\n", FILENAME, FNR, text
    bad = 1
  }
  BEGIN {
    count = split(table, lines, "\n")
    for (i = 1; i <= count; i++) {
      if (split(lines[i], parts, ":") < 2) continue
      gsub(/ /, "", parts[1])
      allowed[parts[1]] = parts[2]
    }
  }
  FNR == 1 {
    public = FILENAME ~ /^include\//
    own = FILENAME
    sub(/^(src|include)\//, "", own)
    row = row_of(own)
    if (!public && row == "") problem("the folder is not in the table of scripts/lint_includes.sh")
  }
  match($0, /^[ \t]*#[ \t]*include[ \t]*"[^"]*"/) {
    target = $0
    sub(/^[^"]*"/, "", target)
    sub(/".*$/, "", target)
    if (public) {
      problem("a public header includes \"" target "\"; only <sinew/...> and the C library")
      next
    }
    if (target !~ /\// || target ~ /\.\./) {
      problem("\"" target "\" is not written relative to src/")
      next
    }
    if (row_of(target) == row) next
    count = split(allowed[row], entries, " ")
    for (i = 1; i <= count; i++) if (covers(entries[i], target)) next
    problem(row " may not include " target)
  }
  END { exit bad }'
