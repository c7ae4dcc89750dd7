/* Matmul parts: a workgroup makes tiles of TILE by TILE elements from panels of TILE by TILE in shared memory, which
 * the operands' regions fill. See emit.h. */
#include "spike/emitter.h"

#include <string.h>

enum { TILE = 8 };

typedef struct tiles {
  const matmul_part *part;
  spirv_id m, n;           /* of this thread's element, counted over the group of axes */
  spirv_id size_m, size_n; /* extents of the groups */
  spirv_id inside_m, inside_n;
  spirv_id row, column; /* of the thread in the tile */
  spirv_id shared[2];   /* f32 [TILE * TILE] */
} tiles;

static spirv_id shared_at(emitter *e, spirv_id array, spirv_id index) {
  spirv_id pointer = spirv_pointer(&e->s, SPV_Workgroup, e->s.f32);
  return spirv_op(&e->s, SPV_AccessChain, pointer, SPV_ARGS(array, index));
}

static spirv_id below(emitter *e, spirv_id a, spirv_id b) {
  return spirv_op(&e->s, SPV_SLessThan, e->s.boolean, SPV_ARGS(a, b));
}

/* This thread's element of a panel: the operand's region where the element exists, else 0. Axes that the operand does not
 * have are unknown meanwhile. */
static void fill_panel(emitter *e, const tiles *t, const matmul_product *p, int operand, spirv_id k,
                       spirv_id size_k) {
  spirv *s = &e->s;
  const matmul_part *m = t->part;
  int first_m = m->n_batch, first_n = first_m + m->n_m, first_k = first_n + m->n_n;
  sn_dim extents[REGION_AXES];
  spirv_id axis[REGION_AXES];
  memcpy(axis, e->axis, sizeof axis);
  memcpy(extents, m->extent, sizeof extents);
  memcpy(extents + first_k, p->k, (size_t)p->n_k * sizeof *p->k);
  spirv_id exists = spirv_op(s, SPV_LogicalAnd, s->boolean,
                             SPV_ARGS(operand ? t->inside_n : t->inside_m, below(e, k, size_k)));
  spirv_if inside = spirv_if_begin(s, exists);
  emit_coordinates(e, k, first_k, p->n_k, extents);
  for (int d = operand ? first_m : first_n; d < (operand ? first_n : first_k); d++)
    e->axis[d] = 0;
  spirv_id x = emit_region(e, operand ? &p->b : &p->a);
  x = spirv_if_value(s, &inside, s->f32, x, spirv_f32(s, 0));
  memcpy(e->axis, axis, sizeof axis);
  spirv_id place = emit_index_op(
      e, SPV_IAdd, emit_index_op(e, SPV_IMul, t->row, emit_index_number(e, TILE)), t->column);
  spirv_do(s, SPV_Store, SPV_ARGS(shared_at(e, t->shared[operand], place), x));
}

/* acc += sum over k of a * b, panel by panel. */
static void accumulate(emitter *e, const tiles *t, const matmul_product *p, spirv_id acc) {
  spirv *s = &e->s;
  spirv_id size_k = emit_extent(e, p->n_k, p->k), tile = emit_index_number(e, TILE);
  spirv_loop panels = spirv_loop_begin(s, e->index, emit_index_number(e, 0), size_k, tile);
  fill_panel(e, t, p, 0, emit_index_op(e, SPV_IAdd, panels.index, t->column), size_k);
  fill_panel(e, t, p, 1, emit_index_op(e, SPV_IAdd, panels.index, t->row), size_k);
  emit_barrier(e);
  spirv_id sum = spirv_op(s, SPV_Load, s->f32, SPV_ARGS(acc));
  for (int k = 0; k < TILE; k++) {
    spirv_id a = emit_index_op(e, SPV_IAdd, emit_index_op(e, SPV_IMul, t->row, tile),
                               emit_index_number(e, k));
    spirv_id b = emit_index_op(e, SPV_IAdd, t->column, emit_index_number(e, k * TILE));
    a = spirv_op(s, SPV_Load, s->f32, SPV_ARGS(shared_at(e, t->shared[0], a)));
    b = spirv_op(s, SPV_Load, s->f32, SPV_ARGS(shared_at(e, t->shared[1], b)));
    sum = spirv_glsl(s, GLSL_Fma, s->f32, SPV_ARGS(a, b, sum));
  }
  spirv_do(s, SPV_Store, SPV_ARGS(acc, sum));
  emit_barrier(e);
  spirv_loop_end(s, &panels);
}

static void emit_accs(emitter *e, const tiles *t) {
  spirv *s = &e->s;
  for (int i = 0; i < t->part->n_accs && i < EMIT_ACCS; i++) {
    const matmul_acc *acc = &t->part->accs[i];
    spirv_id sum = spirv_local(s, s->f32);
    spirv_do(s, SPV_Store, SPV_ARGS(sum, spirv_f32(s, 0)));
    for (int k = 0; k < acc->n_products; k++)
      accumulate(e, t, &acc->products[k], sum);
    e->acc[i] = spirv_op(s, SPV_Load, s->f32, SPV_ARGS(sum));
  }
}

static spirv_id tile_count(emitter *e, spirv_id size) {
  spirv_id up = emit_index_op(e, SPV_IAdd, size, emit_index_number(e, TILE - 1));
  return emit_index_op(e, SPV_SDiv, up, emit_index_number(e, TILE));
}

/* Coordinates of this thread's element of a tile, counted over batch, m and n. */
static void place_tile(emitter *e, tiles *t, spirv_id number, spirv_id n_m, spirv_id n_n) {
  const matmul_part *p = t->part;
  spirv_id tile = emit_index_number(e, TILE), rest = emit_index_op(e, SPV_SDiv, number, n_n);
  spirv_id tile_n = emit_index_op(e, SPV_SRem, number, n_n),
           tile_m = emit_index_op(e, SPV_SRem, rest, n_m);
  t->m = emit_index_op(e, SPV_IAdd, emit_index_op(e, SPV_IMul, tile_m, tile), t->row);
  t->n = emit_index_op(e, SPV_IAdd, emit_index_op(e, SPV_IMul, tile_n, tile), t->column);
  t->inside_m = below(e, t->m, t->size_m);
  t->inside_n = below(e, t->n, t->size_n);
  emit_coordinates(e, emit_index_op(e, SPV_SDiv, rest, n_m), 0, p->n_batch, p->extent);
  emit_coordinates(e, t->m, p->n_batch, p->n_m, p->extent);
  emit_coordinates(e, t->n, p->n_batch + p->n_m, p->n_n, p->extent);
}

shader emit_matmul(const matmul_part *p, const emit_env *env) {
  emitter *e = emit_start(env);
  spirv *s = &e->s;
  tiles t = {.part = p};
  spirv_id panel = spirv_type(s, SPV_TypeArray, SPV_ARGS(s->f32, spirv_u32(s, TILE * TILE)));
  for (int i = 0; i < 2; i++)
    t.shared[i] = spirv_global(s, SPV_Workgroup, panel);
  threads where = emit_main_begin(e, t.shared[0], t.shared[1]);
  t.row = emit_index_op(e, SPV_SDiv, where.local, emit_index_number(e, TILE));
  t.column = emit_index_op(e, SPV_SRem, where.local, emit_index_number(e, TILE));
  t.size_m = emit_extent(e, p->n_m, p->extent + p->n_batch);
  t.size_n = emit_extent(e, p->n_n, p->extent + p->n_batch + p->n_m);
  spirv_id n_m = tile_count(e, t.size_m), n_n = tile_count(e, t.size_n);
  spirv_id all = emit_index_op(e, SPV_IMul, emit_extent(e, p->n_batch, p->extent),
                               emit_index_op(e, SPV_IMul, n_m, n_n));
  spirv_loop tile = spirv_loop_begin(s, e->index, where.group, all, where.groups);
  place_tile(e, &t, tile.index, n_m, n_n);
  emit_accs(e, &t);
  spirv_id exists = spirv_op(s, SPV_LogicalAnd, s->boolean, SPV_ARGS(t.inside_m, t.inside_n));
  spirv_if inside = spirv_if_begin(s, exists);
  emit_region(e, &p->epilogue);
  spirv_if_end(s, &inside);
  spirv_loop_end(s, &tile);
  if (p->n_accs > EMIT_ACCS)
    e->why = "too many accumulators";
  return emit_main_end(e);
}
