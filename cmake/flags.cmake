# How every target of the project is compiled, as one interface target: sinew_flags.

# Asserts state invariants and stay on in the default build; Release drops them.
set(CMAKE_C_FLAGS_RELWITHDEBINFO "-O2 -g")
set(CMAKE_C_FLAGS_RELEASE "-O2 -DNDEBUG")
if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "Build type" FORCE)
endif()

set(CMAKE_C_STANDARD 17)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

add_library(sinew_flags INTERFACE)
target_compile_definitions(sinew_flags INTERFACE _POSIX_C_SOURCE=200809L)
target_compile_options(sinew_flags INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wmissing-prototypes -Wvla -Wstrict-prototypes
  # Results must not depend on the compiler's mood: no contraction, and never -ffast-math.
  -ffp-contract=off -fno-math-errno
  # gcc 12's vectoriser of straight-line code drops the rounding in double -> float -> double when two
  # neighbouring values are stored; loops are right.
  $<$<C_COMPILER_ID:GNU>:-fno-tree-slp-vectorize>
  # File names in messages are relative to the source tree, the same on every machine.
  -fmacro-prefix-map=${PROJECT_SOURCE_DIR}/=)

if(SINEW_WERROR)
  target_compile_options(sinew_flags INTERFACE -Werror)
endif()

if(SINEW_FUZZ AND NOT CMAKE_C_COMPILER_ID MATCHES "Clang")
  message(FATAL_ERROR "SINEW_FUZZ needs clang: configure with -DCMAKE_C_COMPILER=clang")
endif()

if(SINEW_SANITIZE MATCHES "memory" AND NOT CMAKE_C_COMPILER_ID MATCHES "Clang")
  message(FATAL_ERROR "SINEW_SANITIZE=memory needs clang: configure with -DCMAKE_C_COMPILER=clang")
endif()

set(sinew_instrument ${SINEW_SANITIZE})
if(SINEW_FUZZ)
  list(APPEND sinew_instrument fuzzer-no-link)
endif()
if(sinew_instrument)
  list(JOIN sinew_instrument "," sinew_instrument)
  target_compile_options(sinew_flags INTERFACE
    -fsanitize=${sinew_instrument} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(sinew_flags INTERFACE -fsanitize=${sinew_instrument})
endif()

# Of the library: a thread of 128 KiB may call it (docs/c-api.md), so no function takes much of that. Instrumented code does.
add_library(sinew_small_frames INTERFACE)
if(NOT sinew_instrument AND NOT SINEW_COVERAGE)
  target_compile_options(sinew_small_frames INTERFACE -Wframe-larger-than=49152)
endif()

if(SINEW_COVERAGE)
  target_compile_options(sinew_flags INTERFACE --coverage -O0)
  target_link_options(sinew_flags INTERFACE --coverage)
endif()
