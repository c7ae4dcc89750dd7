#!/usr/bin/env bash
# Builds with gcov's instrumentation, runs the test executables and prints the share of lines that
# ran, for each file of src/ (lowest first) and in all.
set -eu
cd "$(dirname "$0")/.."
build="build-coverage"

if [ ! -f $build/CMakeCache.txt ]; then cmake -S . -B $build -DSINEW_COVERAGE=ON >/dev/null; fi
cmake --build $build --parallel "$(nproc)" --target tests >/dev/null
find $build -name '*.gcda' -delete
scripts/run_tests.sh -b $build -x

# Every object counts, also those that no test ever reached (.gcno without .gcda).
cd $build
find . -path '*sinew_objects.dir*' -name '*.gcno' -print0 | xargs -0 gcov -n 2>/dev/null |
  awk -v root="$(cd .. && pwd)/" '
    /^File / {
      file = substr($0, 7, length($0) - 7)
      mine = index(file, root "src/") == 1 && file ~ /\.c$/
    }
    /^Lines executed:/ && mine {
      split($0, part, /[:% ]+/)
      printf "%6.1f %% of %5d  %s\n", part[3], part[5], substr(file, length(root) + 1) | "sort -n"
      ran += part[3] * part[5] / 100
      all += part[5]
      mine = 0
    }
    END {
      close("sort -n")
      if (all) printf "%6.1f %% of %5d  in all\n", 100 * ran / all, all
    }'
