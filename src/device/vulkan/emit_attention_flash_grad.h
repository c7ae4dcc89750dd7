/* What the files of attention's gradient by packed operands share. See emit_attention_flash_grad.c. */
#ifndef SINEW_DEVICE_VULKAN_EMIT_ATTENTION_FLASH_GRAD_H
#define SINEW_DEVICE_VULKAN_EMIT_ATTENTION_FLASH_GRAD_H

#include "device/vulkan/emit_attention_flash.h"
#include "device/vulkan/emit_attention_grad.h"

enum {
  QUERY_OPERANDS = 4, /* q, d_out along; q, d_out across */
  KEY_OPERANDS = 3    /* k, v along; k across */
};

/* What both kernels read. */
typedef struct flash_packed {
  const backward *g;
  flash_operand o[QUERY_OPERANDS + KEY_OPERANDS]; /* those of queries, then those of keys */
  int64_t
      facts; /* byte of scratch, by padded row of queries: base, common; where `ranges`: low, high */
  bool ranges; /* queries differ in what they see, or there are keys that none sees */
} flash_packed;
static inline int flash_facts_power(const flash_packed *p) { return p->ranges ? 4 : 3; }

/* The launch of one of the two kernels. */
sn_status flash_grad_side(emitter *e, const flash_packed *p, bool keys, bool after,
                          grad_rest *rest) SN_MUST_USE;

#endif
