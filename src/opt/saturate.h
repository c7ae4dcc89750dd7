/* Equality saturation: rules until nothing is new or a budget is spent. */
#ifndef SINEW_OPT_SATURATE_H
#define SINEW_OPT_SATURATE_H

#include "opt/rule.h"

typedef struct rule_set {
  rule *rules; /* compiled; by number in rules.def */
  bool enabled[OPT_MAX_RULES];
  uint16_t *by_op[OP_COUNT + 1]; /* rules whose start has that op on top */
  int n_by_op[OP_COUNT + 1];
  uint16_t levels[OP_COUNT + 1];
} rule_set;

/* Compiles the rules that the options allow, in memory of the arena. only: that rule alone; -1: all. */
sn_status rule_set_init(rule_set *s, sn_ctx *ctx, arena *memory, const op_table *table,
                        const opt_options *o, int only) SN_MUST_USE;
sn_status opt_saturate(egraph *e, const rule_set *s, const opt_options *o,
                       opt_report *report) SN_MUST_USE;

#endif
