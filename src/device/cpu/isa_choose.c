/* Which instruction sets this processor has. See isa.h; cmake/isa.cmake compiles those listed here. */
#include "device/cpu/isa.h"

#include <stdio.h>
#if defined(__x86_64__)
#include <cpuid.h>
#include <stdatomic.h>
#endif

/* The best first. SINEW_PORTABLE: a build without the others. */
#if defined(SINEW_PORTABLE)
#define CPU_ISAS(row) row(portable)
#elif defined(__x86_64__)
#define CPU_ISAS(row) row(avx512) row(avx2) row(portable)
#elif defined(__aarch64__)
#define CPU_ISAS(row) row(neon) row(portable)
#else
#define CPU_ISAS(row) row(portable)
#endif

#define ISA_ROW(name) extern const cpu_isa cpu_isa_##name;
CPU_ISAS(ISA_ROW)
#undef ISA_ROW

static bool has_portable(void) { return true; }
#if defined(__x86_64__)
/* Which not every compiler knows by name. Asked once: on a virtual machine the instruction takes tens of microseconds. */
static bool has_f16c(void) {
  static atomic_int known; /* 1: no, 2: yes */
  unsigned a, b, c, d;
  if (!known)
    known = __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C) ? 2 : 1;
  return known == 2;
}
static bool has_avx2(void) {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
}
static bool has_avx512(void) {
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
}
#elif defined(__aarch64__)
static bool has_neon(void) { return true; }
#endif

static const struct {
  const cpu_isa *isa;
  bool (*has)(void);
} rows[] = {
#define ISA_ROW(name) {&cpu_isa_##name, has_##name},
    CPU_ISAS(ISA_ROW)
#undef ISA_ROW
};

const cpu_isa *cpu_isa_at(int index) {
  for (size_t i = 0; i < COUNT_OF(rows); i++)
    if (rows[i].has() && index-- == 0)
      return rows[i].isa;
  return NULL;
}

const cpu_isa *cpu_isa_best(void) { return cpu_isa_at(0); }

sn_status cpu_isa_find(sn_ctx *ctx, const char *name, const cpu_isa **out) {
  char known[128] = "";
  size_t used = 0;
  *out = NULL;
  if (!name || !*name) {
    *out = cpu_isa_best();
    return SN_OK;
  }
  for (int i = 0; cpu_isa_at(i); i++) {
    if (strcmp(cpu_isa_at(i)->name, name) == 0)
      *out = cpu_isa_at(i);
    if (used < sizeof known)
      used += (size_t)snprintf(known + used, sizeof known - used, "%s%s", i ? ", " : "",
                               cpu_isa_at(i)->name);
  }
  if (*out)
    return SN_OK;
  return diag_fail(ctx, SN_ERR_INVALID, "SINEW_CPU: expected one of %s, got \"%s\"", known, name);
}
