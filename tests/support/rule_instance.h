/* A graph of the left side of a rule, made from the rule's own pattern and its instance (rules.def). */
#ifndef SINEW_TESTS_SUPPORT_RULE_INSTANCE_H
#define SINEW_TESTS_SUPPORT_RULE_INSTANCE_H

#include "opt/rule.h"

typedef struct rule_instance {
  char text[600];                  /* the instance: one of those of the rule */
  double lo[LETTERS], hi[LETTERS]; /* range of each value; lo = hi: the usual one */
} rule_instance;

/* How many instances a rule has. */
int rule_instance_count(const rule *r);
/* The graph of instance k, whose output "y" is the start. Fails with a message in the context: the instance lacks a
 * letter. */
sn_status rule_instance_graph(sn_ctx *ctx, const rule *r, int k, rule_instance *out,
                              sn_graph **out_graph);
/* For graph_same: numbers in the ranges of the instance. */
double rule_instance_fill(void *instance, const char *name, sn_dtype dtype, int64_t i);

#endif
