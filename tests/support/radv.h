/* Mesa's compiler for AMD's GPUs, which needs no GPU: the driver RADV with "null hardware". It says whether a shader becomes machine code, and
 * what that needs of the registers that its threads share.
 *
 * It is for executables that use no other driver: Vulkan's loader finds this one alone behind radv_open. */
#ifndef SINEW_TESTS_SUPPORT_RADV_H
#define SINEW_TESTS_SUPPORT_RADV_H

#include "device/vulkan/launch.h"

typedef struct radv_code {
  int registers; /* vectors of a thread */
  int spilled;   /* that had no room, and go through memory */
  int bytes;
} radv_code;

/* What RDNA2 (Navi 21) has. NULL: there is no such driver, or no loader; `out_why`, of so many bytes. Kept until the process ends. */
struct radv *radv_open(char *out_why, size_t size);
/* `subgroup`: 32 or 64, for shaders that are made for any. False: the driver refused. */
bool radv_compile(struct radv *r, const shader *s, int subgroup, radv_code *out);

#endif
