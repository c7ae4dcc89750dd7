/* Three sums of columns as two parts with two sums each: gradients of norms have two sums, and three where two norms have the same gradient.
 * One of the sums, and what it reads, is made twice, the second time to go to scratch memory; but three sums would be shaders of their own, for
 * a few launches. See emit_rows.h. */
#include "device/vulkan/emit_rows.h"

enum { SUMS = 3 };

/* The sums of a part, each stored once behind its points; false: it has not this form. */
static bool find_sums(const loop_part *p, int sum[SUMS], int store[SUMS]) {
  int n = 0, stored = 0;
  for (int i = 0; i < p->code.n; i++) {
    const instr *in = &p->code.code[i];
    bool reduces = in->op == REGION_REDUCE;
    if (in->op == REGION_REQUIRE || (reduces && (in->code != REDUCE_SUM || n == SUMS)))
      return false;
    if (reduces)
      sum[n++] = i;
    if (in->op != REGION_STORE && !(in->row && in->phase > 0))
      continue;
    if (in->op != REGION_STORE || !in->row || stored == SUMS || stored >= n ||
        in->a != (reg)sum[stored])
      return false;
    store[stored++] = i;
  }
  return p->n_phases == 1 && n == SUMS && stored == SUMS;
}

/* The sum that both parts have: of what is loaded. */
static int common_sum(const loop_part *p, const int sum[SUMS]) {
  for (int s = 0; s < SUMS; s++)
    if (p->code.code[p->code.code[sum[s]].a].op == REGION_LOAD)
      return s;
  return -1;
}

typedef struct cutter {
  const instr *from;
  instr *to;
  int n, at[REGION_MAX]; /* where an instruction is now, + 1; 0: nowhere yet */
} cutter;

/* An instruction behind what it reads, or of that only what is done once a row. */
static void add(cutter *c, int i, bool rows) {
  const instr *in = &c->from[i];
  const reg args[3] = {in->a, in->b, in->c};
  int n = instr_arguments(in);
  for (int a = 0; a < n; a++)
    add(c, args[a], rows);
  if (c->at[i] > 0 || (rows && !in->row))
    return;
  instr *made = &c->to[c->n++];
  *made = *in;
  made->a = n > 0 ? (reg)(c->at[in->a] - 1) : in->a;
  made->b = n > 1 ? (reg)(c->at[in->b] - 1) : in->b;
  made->c = n > 2 ? (reg)(c->at[in->c] - 1) : in->c;
  c->at[i] = c->n;
}

bool row_cut_sums(emitter *e, const loop_part *p, loop_part out[2], uint32_t *out_common) {
  int sum[SUMS], store[SUMS];
  if (!find_sums(p, sum, store) || row_deal_of(e, p).wide == 1)
    return false;
  int common = common_sum(p, sum), made = 0;
  if (common < 0)
    return false;
  *out_common = p->code.code[store[common]].at.value;
  for (int s = 0; s < SUMS; s++) {
    instr *to = arena_array(e->env.memory, (size_t)p->code.n, sizeof *to);
    cutter c = {.from = p->code.code, .to = to};
    if (s == common)
      continue;
    if (!to)
      return false;
    for (int rows = 1; rows >= 0; rows--) {
      add(&c, sum[s], rows);
      add(&c, sum[common], rows);
    }
    add(&c, store[s], false);
    add(&c, store[common], false);
    out[made] = *p;
    out[made++].code = (region){c.n, to};
  }
  return true;
}
