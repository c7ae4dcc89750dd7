/* See execute.h. Memory as the plan has it: one arena, one for what is prepared, a buffer for each leaf. */
#include "spike/execute.h"

#include "ir/dtype.h"
#include "spike/emit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LEAVES = 64, VALUES = 2048, HOMES = 6 };

typedef struct memory {
  gpu *g;
  execution *x;
  gpu_buffer whole[2];            /* arena, prepared */
  gpu_buffer leaf[HOMES][LEAVES]; /* inputs, outputs, states, constants, by home */
  gpu_buffer block, record;
  uint8_t dtypes[VALUES];
} memory;

static bool fail(execution *x, const char *reason) {
  snprintf(x->why, sizeof x->why, "%s", reason);
  return false;
}

static size_t leaf_bytes(const execution *x, const sn_type *type) {
  size_t n = sn_dtype_size(type->dtype);
  for (int d = 0; d < type->shape.rank; d++)
    n *= (size_t)size_at(x->sizes, type->shape.dim[d]);
  return n;
}

static bool make_leaves(memory *m, value_home home, const program_leaf *leaves, int n,
                        const void *const *data) {
  if (n > LEAVES)
    return fail(m->x, "too many leaves");
  for (int i = 0; i < n; i++) {
    size_t size = leaf_bytes(m->x, &leaves[i].type);
    if (!gpu_buffer_create(m->g, size, &m->leaf[home][i]))
      return fail(m->x, "no memory");
    if (data)
      memcpy(m->leaf[home][i].data, data[i], size);
  }
  return true;
}

static bool make_constants(memory *m) {
  const program *p = m->x->program;
  if (p->n_constants > LEAVES)
    return fail(m->x, "too many constants");
  for (int i = 0; i < p->n_constants; i++) {
    gpu_buffer *b = &m->leaf[HOME_CONSTANT][i];
    if (!gpu_buffer_create(m->g, p->constants[i].size, b))
      return fail(m->x, "no memory");
    memcpy(b->data, p->constants[i].data, p->constants[i].size);
  }
  return true;
}

static uint64_t address_of(const memory *m, const program_value *v) {
  if (v->home == HOME_ARENA || v->home == HOME_PREPARED)
    return m->whole[v->home == HOME_PREPARED].address + (uint64_t)v->offset;
  return m->leaf[v->home][v->index].address;
}

static bool make_block(memory *m) {
  const program *p = m->x->program;
  size_t n_sizes = (size_t)program_sizes(p);
  if (p->n_values > VALUES)
    return fail(m->x, "too many values");
  if (!gpu_buffer_create(m->g, 8 * (1 + p->n_values + n_sizes), &m->block) ||
      !gpu_buffer_create(m->g, 8, &m->record))
    return fail(m->x, "no memory");
  uint64_t *words = m->block.data;
  words[0] = m->record.address;
  for (uint32_t v = 1; v < p->n_values; v++) {
    words[1 + v] = address_of(m, &p->values[v]);
    m->dtypes[v] = (uint8_t)p->values[v].type.dtype;
  }
  memcpy(words + 1 + p->n_values, m->x->sizes, 8 * n_sizes);
  return true;
}

static bool make_memory(memory *m) {
  const execution *x = m->x;
  const program *p = x->program;
  return (gpu_buffer_create(m->g, (size_t)p->arena_bytes, &m->whole[0]) &&
          gpu_buffer_create(m->g, (size_t)p->prepared_bytes, &m->whole[1])) &&
         make_leaves(m, HOME_INPUT, p->inputs, p->n_inputs, x->inputs) &&
         make_leaves(m, HOME_OUTPUT, p->outputs, p->n_outputs, NULL) &&
         make_leaves(m, HOME_STATE, p->states, p->n_states, (const void *const *)x->states) &&
         make_constants(m) && make_block(m);
}

static void free_memory(memory *m) {
  for (int i = 0; i < 2; i++)
    gpu_buffer_destroy(m->g, &m->whole[i]);
  for (int h = 0; h < HOMES; h++)
    for (int i = 0; i < LEAVES; i++)
      gpu_buffer_destroy(m->g, &m->leaf[h][i]);
  gpu_buffer_destroy(m->g, &m->block);
  gpu_buffer_destroy(m->g, &m->record);
}

static bool run_part(memory *m, archetype kind, const part *one) {
  execution *x = m->x;
  emit_env env = {m->dtypes, x->program->n_values, x->wide};
  x->is_core = kind != STEP_POINTWISE && kind != STEP_ROW && kind != STEP_MATMUL;
  if (x->is_core)
    return fail(x, archetype_name(kind));
  shader s =
      kind == STEP_MATMUL ? emit_matmul(&one->u.matmul, &env) : emit_loop(&one->u.loop, &env);
  if (!s.words)
    return fail(x, s.why);
  gpu_job job = {
      .words = s.words, .n_words = s.n, .parameters = m->block.address, .groups = 8, .repeat = 1};
  double seconds;
  bool ok = gpu_run(m->g, &job, &seconds) || fail(x, "the driver failed");
  x->parts++;
  x->instructions += s.instructions;
  free(s.words);
  return ok;
}

bool execute_program(gpu *g, execution *x) {
  memory *m = calloc(1, sizeof *m);
  const program *p = x->program;
  if (!m)
    abort();
  m->g = g;
  m->x = x;
  bool ok = make_memory(m);
  for (int i = 0; i < program_steps(p) && ok; i++)
    for (int k = 0; k < p->steps[i].n_parts && ok; k++)
      ok = run_part(m, p->steps[i].kind, &p->steps[i].parts[k]);
  for (int i = 0; i < p->n_outputs && ok; i++)
    memcpy(x->outputs[i], m->leaf[HOME_OUTPUT][i].data, leaf_bytes(x, &p->outputs[i].type));
  if (ok)
    memcpy(x->failure, m->record.data, sizeof x->failure);
  free_memory(m);
  free(m);
  return ok;
}
