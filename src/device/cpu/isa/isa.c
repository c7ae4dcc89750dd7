/* The table of one instruction set. */
#include "device/cpu/isa.h"

#include "device/cpu/isa/vec.h"

extern const struct matmul_kernels ISA(matmul_kernels);
extern const struct lane_kernels ISA(lane_kernels);
extern const struct attention_kernels ISA(attention_kernels);
extern const struct pack_kernels ISA(pack_kernels);
extern const struct core_kernels ISA(core_kernels);
extern const struct pool_kernels ISA(pool_kernels);
extern const struct winograd_kernels ISA(winograd_kernels);

extern const cpu_isa ISA(cpu_isa);
const cpu_isa ISA(cpu_isa) = {
    .name = ISA_NAME,
    .cores = &ISA(core_kernels),
    .pool = &ISA(pool_kernels),
    .matmul = &ISA(matmul_kernels),
    .lanes = &ISA(lane_kernels),
    .attention = &ISA(attention_kernels),
    .pack = &ISA(pack_kernels),
    .winograd = &ISA(winograd_kernels),
};
