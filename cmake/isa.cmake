# The kernels of the CPU device, src/device/cpu/isa/*.c, compiled once for each instruction set; the processor decides at
# run time which of them is used (isa_choose.c has the same lists). Gives sinew_isas (best first) and the object libraries cpu_<set>.

file(GLOB isa_sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/src/device/cpu/isa/*.c)

set(isa_flags_portable "")
set(isa_flags_neon "")
set(isa_flags_avx2 -mavx2 -mfma -mf16c)
set(isa_flags_avx512 ${isa_flags_avx2} -mavx512f -mavx512bw -mavx512vl -mavx512dq
  -mprefer-vector-width=512)

if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
  set(sinew_isas avx512 avx2 portable)
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64)$")
  set(sinew_isas neon portable)
else()
  set(sinew_isas portable)
endif()
# The memory sanitizer knows plain code only.
if(SINEW_SANITIZE MATCHES "memory")
  set(sinew_isas portable)
  set_property(SOURCE ${CMAKE_CURRENT_SOURCE_DIR}/src/device/cpu/isa_choose.c
    APPEND PROPERTY COMPILE_DEFINITIONS SINEW_PORTABLE)
endif()

foreach(isa ${sinew_isas})
  add_library(cpu_${isa} OBJECT ${isa_sources})
  set_target_properties(cpu_${isa} PROPERTIES POSITION_INDEPENDENT_CODE ON)
  target_include_directories(cpu_${isa} PRIVATE include src)
  target_compile_definitions(cpu_${isa} PRIVATE CPU_ISA=${isa} ISA_${isa})
  # Comparisons of floats do not trap anywhere in the product; that they might keeps loops from being vectors.
  target_compile_options(cpu_${isa} PRIVATE ${isa_flags_${isa}} -O3 -fno-trapping-math)
  target_link_libraries(cpu_${isa} PRIVATE sinew_flags sinew_small_frames)
endforeach()
