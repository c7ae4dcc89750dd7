/* See program.h: the life of a program, its sizes under bindings, and the walk over what its steps touch. Called by the
 * planner's passes, the verifier, sessions and devices.
 *
 * Invariants: all memory of a program is its arena's, but for itself and its dims; step_each_use visits every load and store
 * of a step once, in the order of parts and, within a part, of the code.
 */
#include "plan/program.h"

sn_status program_create(sn_ctx *ctx, program **out_program) {
  *out_program = mem_alloc(ctx, sizeof **out_program);
  if (!*out_program)
    return SN_ERR_NO_MEMORY;
  arena_init(&(*out_program)->memory, ctx);
  return SN_OK;
}

sn_status program_copy_dims(program *p, const sn_graph *from) {
  sn_graph *dims;
  SN_TRY(graph_create(p->memory.ctx, from->table, &dims));
  if (!dim_copy_all(dims, from)) {
    sn_graph_destroy(dims);
    return SN_ERR_NO_MEMORY;
  }
  sn_graph_destroy(p->dims);
  p->dims = dims;
  return SN_OK;
}

void program_destroy(program *p) {
  if (!p)
    return;
  sn_ctx *ctx = p->memory.ctx;
  sn_graph_destroy(p->dims);
  arena_clear(&p->memory);
  mem_free(ctx, p, sizeof *p);
}

/* --- sizes --- */

int program_sizes(const program *p) { return p->dims ? dim_handle_count(p->dims) : 0; }

static sn_status check_bindings(const sn_graph *dims, sn_ctx *ctx, const int64_t *bindings) {
  for (int s = 0; s < dim_symbol_count(dims); s++) {
    int64_t max = dim_symbol_max(dims, s);
    if (bindings[s] < 0 || bindings[s] > max)
      return diag_fail(ctx, SN_ERR_INVALID, "symbol \"%s\": must be 0 to %lld, is %lld",
                       dim_symbol_name(dims, s), (long long)max, (long long)bindings[s]);
  }
  return SN_OK;
}

sn_status program_bind(const program *p, sn_ctx *ctx, const int64_t *bindings, int64_t *sizes) {
  if (p->dims)
    SN_TRY(check_bindings(p->dims, ctx, bindings));
  for (int i = 0; i < program_sizes(p); i++)
    if (!dim_eval(p->dims, DIM_HANDLES - i, bindings, &sizes[i]))
      return diag_fail(ctx, SN_ERR_INVALID, "a size is too large under these symbols");
  for (int i = 0; i < p->n_requirements; i++)
    if (size_at(sizes, p->requirements[i].size) < 0)
      return diag_fail(ctx, SN_ERR_INVALID, "%s", p->requirements[i].what);
  return SN_OK;
}

/* --- what a step touches --- */

typedef struct walk {
  bool (*visit)(void *user, const step_use *use);
  void *user;
  int part;
} walk;

static bool walk_region(const walk *w, const region *r) {
  for (int i = 0; i < r->n; i++) {
    const instr *code = &r->code[i];
    if ((code->op != REGION_LOAD && code->op != REGION_STORE) || !code->at.value)
      continue;
    step_use use = {
        .value = code->at.value,
        .store = code->op == REGION_STORE,
        .part = w->part,
        .at = &code->at,
    };
    if (!w->visit(w->user, &use))
      return false;
  }
  return true;
}

static bool walk_matmul(const walk *w, const matmul_part *m) {
  for (int i = 0; i < m->n_accs; i++)
    for (int k = 0; k < m->accs[i].n_products; k++) {
      const matmul_product *product = &m->accs[i].products[k];
      if (!walk_region(w, &product->a) || !walk_region(w, &product->b))
        return false;
    }
  return walk_region(w, &m->epilogue);
}

static bool walk_operands(const walk *w, const strided *operands, int n, bool store) {
  for (int i = 0; i < n; i++) {
    if (!operands[i].value)
      continue;
    step_use use = {
        .value = operands[i].value, .store = store, .part = w->part, .core = &operands[i]};
    if (!w->visit(w->user, &use))
      return false;
  }
  return true;
}

static bool walk_core(const walk *w, const core_part *c) {
  return walk_operands(w, c->in, c->n_in, false) && walk_operands(w, c->out, c->n_out, true);
}

bool step_each_use(const step *s, bool (*visit)(void *user, const step_use *use), void *user) {
  walk w = {visit, user, 0};
  for (; w.part < s->n_parts; w.part++) {
    const part *p = &s->parts[w.part];
    bool go_on = s->kind == STEP_POINTWISE || s->kind == STEP_ROW ? walk_region(&w, &p->u.loop.code)
                 : s->kind == STEP_MATMUL                         ? walk_matmul(&w, &p->u.matmul)
                                                                  : walk_core(&w, &p->u.core);
    if (!go_on)
      return false;
  }
  return true;
}
