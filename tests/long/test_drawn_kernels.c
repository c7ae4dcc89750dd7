/* Drawn graphs (support/drawn_graph.h) on the interpreter of SPIR-V (support/vm_program.h), at the sizes drawn and where symbols are 0:
 * DRAWN_GRAPHS of them (3,000) from DRAWN_SEED on. Every second begins with an op, each op in turn; DRAWN_OP names the op that all
 * begin with. */
#include "ops/table.h"
#include "support/drawn_graph.h"
#include "support/test.h"
#include "support/vm_program.h"

#include <stdio.h>
#include <stdlib.h>

enum { GRAPHS = 3000 };

static uint64_t number_from(const char *variable, uint64_t usual) {
  const char *n = getenv(variable);
  return n ? strtoull(n, NULL, 10) : usual;
}

/* Where sizes are 0 the reference and devices differ in whether they look at indices with which nothing is computed: that is open. */
static bool is_open(const char *why) {
  return strstr(why, "the reference fails, the program does not");
}

static bool interpret(drawn_graph *d, uint64_t seed) {
  char why[1000];
  int64_t none[DRAWN_SYMBOLS] = {0};
  plan_numbers n[2] = {d->numbers, d->numbers};
  n[0].tolerance = n[1].tolerance = 1e-4; /* a slice has no larger number that its error goes by */
  n[1].bindings = none;
  uint64_t way = hash_bytes(HASH_SEED, &seed, sizeof seed) >> 20;
  vm_check_options o = {.compile = {.no_fusion = way & 1, .no_opt = way & 2},
                        .wide = way % 5 == 0,
                        .precision = way % 3 ? SN_PRECISION_EXACT : SN_PRECISION_FAST};
  bool ok = true;
  for (int i = 0; i < 2 && ok; i++)
    ok = vm_check(d->g, &n[i], 1, &o, NULL, why, sizeof why) != PLAN_WRONG || is_open(why);
  char *body = NULL;
  if (ok || sn_graph_print(d->g, &body) != SN_OK)
    return ok;
  printf("seed %llu: %s\n# n = %lld, m = %lld\n%s\n", (unsigned long long)seed, why,
         (long long)d->bindings[0], (long long)d->bindings[1], body);
  sn_text_free(d->ctx, body);
  return false;
}

static int first_op(uint64_t seed) {
  const char *name = getenv("DRAWN_OP");
  for (int op = 1; op < OP_COUNT && name; op++)
    if (strcmp(op_table_get()->ops[op].name, name) == 0)
      return op;
  return seed % 2 ? (int)(seed / 2 % (OP_COUNT - 1)) + 1 : 0;
}

TEST(drawn_kernels) {
  uint64_t graphs = number_from("DRAWN_GRAPHS", GRAPHS), first = number_from("DRAWN_SEED", 1);
  for (uint64_t seed = first; seed < first + graphs; seed++) {
    uint8_t bytes[256];
    sn_ctx *ctx = NULL;
    drawn_graph d = {.only_op = first_op(seed)};
    size_t size = drawn_bytes(seed, bytes, sizeof bytes);
    if (!CHECK(sn_ctx_create(NULL, &ctx) == SN_OK))
      return;
    if (drawn_graph_make(&d, ctx, bytes, size) == SN_OK && !interpret(&d, seed))
      FAIL("seed %llu", (unsigned long long)seed);
    drawn_graph_end(&d);
    sn_ctx_destroy(ctx);
  }
}
