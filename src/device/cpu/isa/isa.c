/* The table of one instruction set. */
#include "device/cpu/isa.h"

#include "device/cpu/isa/vec.h"

extern const cpu_isa ISA(cpu_isa);
const cpu_isa ISA(cpu_isa) = {.name = ISA_NAME};
