/* Which way a matmul part goes. See emit_matmul.h. Extents that are numbers decide here; where the number of rows
 * is known only at a run, there are several ways, each with the numbers of rows for which it runs. */
#include "device/vulkan/emit_matmul_sums.h"
#include "device/vulkan/emit_matmul_window.h"
#include "device/vulkan/emit_pairs.h"

#include <math.h>

/* Greatest extents of a part. */
typedef struct extents {
  int64_t batch, side[2], k;
} extents;

static extents extents_of(const emit_env *env, const matmul_part *p) {
  extents x = {.batch = sizes_most(env, p->n_batch, p->extent)};
  x.side[0] = sizes_most(env, p->n_m, p->extent + p->n_batch);
  x.side[1] = sizes_most(env, p->n_n, p->extent + p->n_batch + p->n_m);
  for (int a = 0; a < p->n_accs; a++) {
    int64_t k = 0;
    for (int i = 0; i < p->accs[a].n_products; i++) {
      const matmul_product *product = &p->accs[a].products[i];
      if (!add_fits(k, sizes_most(env, product->n_k, product->k), &k))
        k = INT64_MAX;
    }
    x.k = max_i64(x.k, k);
  }
  return x;
}

enum { LAUNCH = 6500 };

static double ceil_div(double a, double b) { return (double)(int64_t)((a + b - 1) / b); }

/* --- tiles --- */

/* What the cost of tiles depends on. Cycles of a panel, as an H200 takes them: where a unit has one workgroup, and
 * where others fill its pauses; how many panels the beginning and the end of a workgroup are worth. */
typedef struct tile_cost {
  int rows, columns, depth;
  double alone, shared, once;
  double
      checks; /* what 4096 elements add where each has its place and checks; half of it where others fill the pauses */
  double launch; /* what a second launch costs */
} tile_cost;

static double tiles_of(const extents *x, const tile_cost *c) {
  return (double)x->batch * ceil_div((double)x->side[0], c->rows) *
         ceil_div((double)x->side[1], c->columns);
}

/* Cycles of all units together that the other parts of the step take. */
static double others_cost(const emitter *e, const tile_cost *c) {
  double sum = 0;
  for (int i = 0; i < e->step->n_parts; i++) {
    const matmul_part *other = &e->step->parts[i].u.matmul;
    if (i == e->part)
      continue;
    extents x = extents_of(&e->env, other);
    double panels = ceil_div((double)x.k, c->depth) * other->n_accs + c->once;
    sum += tiles_of(&x, c) * panels * c->shared;
  }
  return sum;
}

/* Windows: each element has its own place and checks. */
static bool has_checks(const emitter *e, const matmul_part *p) {
  for (int a = 0; a < p->n_accs; a++)
    for (int i = 0; i < p->accs[a].n_products; i++)
      for (int side = 0; side < 2; side++) {
        operand o;
        vk_operand_read(e, p, &p->accs[a].products[i], side, &o);
        if (!o.plain || o.n_checks > 0)
          return true;
      }
  return false;
}

/* Cycles that a part takes, roughly: as long as its longest workgroups, and no less than all of the step's work.
 * Pieces of k cost a launch and their way through memory. */
static double tiles_cost(const emitter *e, const matmul_part *p, const extents *x,
                         const tile_cost *c, int splits) {
  enum { BYTES_A_CYCLE = 1000 };
  double units = e->env.target->units, elements = (double)(c->rows + c->columns) * c->depth;
  double checks = has_checks(e, p) ? c->checks * elements / 4096 : 0;
  double panels = ceil_div(ceil_div((double)x->k, splits), c->depth) * p->n_accs + c->once;
  double groups = tiles_of(x, c) * splits;
  double even =
      c->rows * c->columns <= 2048 ? 2 : 4; /* turns after which units end at about the same time */
  double turns = groups > even * units ? groups / units : ceil_div(groups, units);
  double one = c->alone + checks, several = turns * (c->shared + checks / 2);
  double longest = panels * (turns > 1 ? fmax(one, several) : one);
  double all = groups * panels * (c->shared + checks / 2) + others_cost(e, c);
  double result = (double)x->batch * (double)x->side[0] * (double)x->side[1] * p->n_accs;
  double pieces = splits > 1 ? c->launch + 8 * result * splits / BYTES_A_CYCLE : 0;
  return fmax(longest, all / units) + pieces;
}

/* More accumulators go through the small tiles, which have room for their sums. */
enum { MOST_ACCS = 2, MOST_SPLITS = 64, LEAST_PIECE = 128, MOST_SCRATCH = 1 << 26 /* elements */ };

static bool may_split(const matmul_part *p, const extents *x, int splits) {
  double all = (double)x->batch * (double)x->side[0] * (double)x->side[1] * p->n_accs * splits;
  return splits == 1 || (all <= MOST_SCRATCH && x->k / splits >= LEAST_PIECE);
}

/* The best way so far. */
typedef struct choice {
  matmul_way way;
  double cost; /* below 0: none yet */
} choice;

static void consider(const emitter *e, const matmul_part *p, const extents *x, matmul_way way,
                     const tile_cost *c, choice *best) {
  for (int n = 1; n <= MOST_SPLITS && may_split(p, x, n); n += n < 8 ? 1 : n / 4) {
    double cost = tiles_cost(e, p, x, c, n);
    if (best->cost >= 0 && cost >= best->cost)
      continue;
    best->cost = cost;
    best->way = way;
    best->way.splits = n;
  }
}

/* A failing requirement notes that by an atomic operation of the whole device, which the memory model of matrices
 * makes another capability. */
static bool requires_something(const region *r) {
  for (int i = 0; i < r->n; i++)
    if (r->code[i].op == REGION_REQUIRE)
      return true;
  return false;
}

static bool may_use_matrices(const matmul_part *p) {
  bool requires = requires_something(&p->epilogue);
  for (int a = 0; a < p->n_accs; a++)
    for (int i = 0; i < p->accs[a].n_products; i++)
  requires = requires || requires_something(&p->accs[a].products[i].a) ||
             requires_something(&p->accs[a].products[i].b);
  return !requires;
}

const matrix_shape matmul_matrices[MATRIX_SHAPES] = {
    [MATRIX_LARGE] = {128, 64, {2, 2}, 1, 32},
    [MATRIX_64] = {64, 64, {2, 2}, 1, 32},
    [MATRIX_DEEP] = {64, 64, {1, 2}, 2, 64},
};

const direct_shape matmul_directs[DIRECT_SHAPES] = {
    [DIRECT_SMALL] = {{2, 2}, {1, 1}, 8, true},   [DIRECT_EVEN] = {{2, 2}, {1, 1}, 4, true},
    [DIRECT_WIDE] = {{2, 4}, {2, 1}, 2, false},   [DIRECT_LONG] = {{2, 4}, {1, 1}, 8, false},
    [DIRECT_MIDDLE] = {{2, 4}, {1, 1}, 4, false}, [DIRECT_SHORT] = {{2, 4}, {1, 1}, 2, false},
    [DIRECT_OWN] = {{2, 2}, {1, 2}, 1, true},     [DIRECT_ROW] = {{2, 2}, {1, 4}, 1, true},
    [DIRECT_SQUARE] = {{2, 2}, {2, 2}, 2, true},  [DIRECT_COLUMN] = {{2, 2}, {2, 1}, 4, true},
};

/* Windows whose elements are no neighbours: panels have tables for those. */
static bool is_scattered(const emitter *e, const matmul_part *p) {
  for (int a = 0; a < p->n_accs; a++)
    for (int i = 0; i < 2 * p->accs[a].n_products; i++) {
      operand o;
      vk_operand_read(e, p, &p->accs[a].products[i / 2], i % 2, &o);
      if (o.plain && o.n_checks > 0 && o.width == 1)
        return true;
    }
  return false;
}

static void consider_matrices(const emitter *e, const matmul_part *p, const extents *x,
                              choice *best) {
  static const double alone[2][MATRIX_SHAPES] = {{2100, 1500, 1900}, {3300, 2400, 2900}};
  static const double shared[2][MATRIX_SHAPES] = {{1100, 640, 1280}, {2300, 1460, 2400}};
  static const double once[MATRIX_SHAPES] = {2, 1.5, 1.3};
  const gpu_target *t = e->env.target;
  bool three = e->env.precision == SN_PRECISION_FAST, f16 = three ? t->f16 : !t->bf16;
  if (e->env.precision == SN_PRECISION_EXACT || !(t->bf16 || t->f16) || !may_use_matrices(p) ||
      (direct_fits(e, &matmul_directs[0], p) && !is_scattered(e, p)))
    return;
  for (int i = 0; i < MATRIX_SHAPES; i++) {
    const matrix_shape *s = &matmul_matrices[i];
    matmul_way way = {.matrix = s, .products = three ? 3 : 1, .half = f16 ? SN_F16 : SN_BF16};
    tile_cost c = {s->rows,          s->columns, s->depth, alone[three][i],
                   shared[three][i], once[i],    900,      LAUNCH};
    if (matrix_fits(s, t, p, way.products))
      consider(e, p, x, way, &c, best);
  }
}

static bool reads_image(const emit_env *env, const region *r) {
  for (int i = 0; i < r->n; i++)
    if (r->code[i].op == REGION_LOAD && env->program->values[r->code[i].at.value].channels > 0)
      return true;
  return false;
}

/* Errors of convolutions behind each other add up, and gradients go through all of them: where there are many, all but gradients have products
 * of 21 bits. (With 16 for all, the gradients of ResNet-50, 110 such steps, are off by 2e-3 of their norms, with 16 for gradients alone by
 * 3e-4; those of a U-Net, 43 steps, by 4e-6 with 16 for all.) */
bool matmul_is_deep(const emit_env *env) {
  enum { MANY = 64 };
  const program *p = env->program;
  int n = 0;
  for (int i = 0; i < p->n_prepare + p->n_main + p->n_commit; i++) {
    const step *s = &p->steps[i];
    const matmul_acc *acc = s->kind == STEP_MATMUL ? s->parts[0].u.matmul.accs : NULL;
    if (acc && s->parts[0].u.matmul.n_accs > 0 && acc->n_products > 0)
      n += reads_image(env, &acc->products[0].a) || reads_image(env, &acc->products[0].b);
  }
  return n > MANY;
}

/* Costs of shapes, by whether an operand is packed once or both are converted; gradients of convolutions by themselves, and so what has an operand
 * packed and no windows. `last`: shapes behind it are no gain there, but shaders more. */
typedef struct direct_cost {
  double alone[DIRECT_SHAPES], shared[DIRECT_SHAPES];
  int last;
} direct_cost;

enum { PACKED, PACKED_GRADIENT, CONVERTED, CONVERTED_GRADIENT, PACKED_PLAIN };
static const direct_cost direct_costs[] = {
    [PACKED] = {{480, 620, 940, 800, 870, 850, 800},
                {549, 305, 390, 790, 640, 280, 160},
                DIRECT_OWN},
    [PACKED_GRADIENT] = {{600, 615, 663, 698, 682, 676, 660},
                         {700, 360, 453, 925, 500, 317, 185},
                         DIRECT_MIDDLE},
    [CONVERTED] = {{571, 580, 575, 650, 637, 625, 580},
                   {650, 394, 496, 1125, 625, 375, 200},
                   DIRECT_OWN},
    [CONVERTED_GRADIENT] = {{650, 700, 750, 545, 775, 700, 700},
                            {650, 224, 488, 1020, 700, 350, 213},
                            DIRECT_MIDDLE},
    [PACKED_PLAIN] = {{480, 620, 592, 800, 870, 850, 800, 800, 680, 540},
                      {549, 305, 296, 790, 640, 280, 160, 250, 340, 590},
                      DIRECT_COLUMN},
};

static int direct_class(const emitter *e, const matmul_part *p, bool kept) {
  if (kept && !p->gradient && !has_checks(e, p))
    return PACKED_PLAIN;
  return (kept ? PACKED : CONVERTED) + p->gradient;
}

/* Whether the first a is a value that is stored as halves. */
static bool has_pairs(const emitter *e, const matmul_part *p) {
  operand o;
  vk_operand_read(e, p, &p->accs[0].products[0], 0, &o);
  return o.plain && is_paired(&e->env, o.at->value);
}

/* The last shape that is offered. Beside other parts those with more subgroups are no gain; with halves of f16 they were not tried. */
static int last_direct(const emitter *e, int class, bool scattered, sn_dtype half) {
  int last = scattered ? DIRECT_WIDE : direct_costs[class].last;
  bool alone = e->step->n_parts == 1 && half == SN_BF16;
  return alone || last < DIRECT_OWN ? last : DIRECT_OWN;
}

static void consider_direct(const emitter *e, const matmul_part *p, const extents *x,
                            choice *best) {
  static const double once[] = {4, 2, 6, 7, 4, 3, 2, 2, 4, 4};
  bool three = e->env.precision == SN_PRECISION_FAST, kept = direct_keeps(e, p);
  double factor = kept && p->n_accs > 1 ? 0.75 : 1; /* what two accumulators share is made once */
  if (e->env.precision == SN_PRECISION_EXACT || !may_use_matrices(p))
    return;
  sn_dtype half = three && !p->gradient && matmul_is_deep(&e->env) ? SN_F16 : SN_BF16;
  bool scattered = is_scattered(e, p);
  int class = direct_class(e, p, kept), last = last_direct(e, class, scattered, half);
  const direct_cost *cost = &direct_costs[class];
  for (int i = 0; i <= last; i++) {
    const direct_shape *s = &matmul_directs[i];
    matmul_way way = {.direct = s, .products = three ? 3 : 1, .half = half};
    tile_cost c = {.rows = 16 * s->fragments[0] * s->subgroups[0],
                   .columns = 16 * s->fragments[1] * s->subgroups[1],
                   .depth = 16 * s->slices,
                   .alone = cost->alone[i] * factor,
                   .shared = cost->shared[i] * factor,
                   .once = once[i],
                   .checks = scattered ? 500 : 45,
                   .launch = 3800};
    if (direct_fits(e, s, p) && (i != DIRECT_SQUARE || has_pairs(e, p)))
      consider(e, p, x, way, &c, best);
  }
}

static choice choose_tiles(const emitter *e, const matmul_part *p, const extents *x) {
  const gpu_target *target = e->env.target;
  static const double alone[] = {1660, 2700, 2060}, shared[] = {1120, 2370, 1710},
                      once[] = {3, 1.5, 1};
  choice best = {.way = {.tiles = &matmul_tiles[TILES_PLAIN], .splits = 1}, .cost = -1};
  if (target->units < 8 || target->max_threads < 256 || target->shared_bytes < 32 << 10 ||
      p->n_accs > MOST_ACCS)
    return best;
  for (int i = TILES_64; i < TILES_PLAIN; i++) {
    const tile_shape *s = &matmul_tiles[i];
    tile_cost c = {s->rows, s->columns, s->depth, alone[i], shared[i], once[i], 900, LAUNCH};
    consider(e, p, x, (matmul_way){.tiles = s}, &c, &best);
  }
  consider_matrices(e, p, x, &best);
  consider_direct(e, p, x, &best);
  return best;
}

/* --- few rows or columns --- */

static int power_from(int64_t n) {
  int p = 1;
  while (p < n)
    p *= 2;
  return p;
}

static void choose_lanes(const extents *x, const gpu_target *target, bool four, few_shape *f) {
  int64_t points = x->side[!f->side];
  f->threads = 128;
  if (!f->along_k) {
    f->threads = target->max_threads < 256 ? 128 : 256;
    f->many = four ? 4 : 1;
    f->lanes = x->k < 64 ? 4 : x->k < 512 || !four ? 16 : 32;
    return;
  }
  f->lanes = x->k >= 2048 ? 128 : x->k >= 1024 ? 64 : x->k >= 128 ? 32 : 8;
  int groups = f->threads / f->lanes, most = f->few >= 4 ? 4 : 2;
  f->many = 1;
  while (f->many < most && points >= (int64_t)f->many * 2 * groups * 2 * target->units)
    f->many *= 2;
}

static matmul_way choose_few(const emitter *e, const matmul_part *p, const extents *x, int side) {
  matmul_way way = {.few = {.side = side, .few = power_from(x->side[side])}, .splits = 1};
  operand o = {.along_k = true, .width = 1};
  if (p->n_accs > 0 && p->accs[0].n_products > 0)
    vk_operand_read(e, p, &p->accs[0].products[0], !side, &o);
  way.few.along_k = o.along_k;
  choose_lanes(x, e->env.target, o.width == 4, &way.few);
  double each = (double)way.few.threads / way.few.lanes * way.few.many;
  double groups = (double)x->batch * ceil_div((double)x->side[!side], each);
  while (way.splits < MOST_SPLITS && groups * way.splits * 2 <= e->env.target->units &&
         may_split(p, x, way.splits * 2) && x->k / way.splits > 64 * way.few.lanes)
    way.splits *= 2;
  return way;
}

static matmul_way choose(const emitter *e, const matmul_part *p, const extents *x) {
  int side = x->side[1] < x->side[0];
  bool few = x->side[side] <= MATMUL_FEW && p->n_accs <= MOST_ACCS;
  matmul_way way = few ? choose_few(e, p, x, side) : choose_tiles(e, p, x).way;
  way.sorted = way.direct && sums_want_order(e, p, way.splits);
  return way;
}

matmul_way matmul_choose(const emitter *e, const matmul_part *p) {
  extents x = extents_of(&e->env, p);
  return choose(e, p, &x);
}

/* --- the part --- */

sn_status emit_matmul_as(emitter *e, const matmul_part *p, const matmul_way *way, const amount *of,
                         int64_t least, int64_t most) {
  int64_t scratch = 0;
  if (has_join(way)) {
    extents x = extents_of(&e->env, p);
    int64_t rows = of ? min_i64(most, x.side[0]) : x.side[0];
    scratch = scratch_take(&e->env, 4 * way->splits * p->n_accs * x.batch * rows * x.side[1]);
  }
  SN_TRY(way->tiles    ? emit_tiles(e, p, way, scratch, of, least, most)
         : way->matrix ? emit_matrices(e, p, way, scratch, of, least, most)
         : way->direct ? emit_direct(e, p, way, scratch, of, least, most)
                       : emit_few(e, p, way, scratch, of, least, most));
  if (way->sorted)
    return sums_join(e, p, way, scratch, of, least, most);
  return way->splits > 1 ? matmul_join(e, p, way, scratch, of, least, most) : SN_OK;
}

bool dims_are_numbers(int n, const sn_dim *dims) {
  for (int i = 0; i < n; i++)
    if (!dim_is_number(dims[i]))
      return false;
  return true;
}

bool dims_are_positive(int n, const sn_dim *dims) {
  for (int i = 0; i < n; i++)
    if (!dim_is_number(dims[i]) || dims[i] < 1)
      return false;
  return true;
}

static bool same_way(const matmul_way *a, const matmul_way *b) {
  const few_shape *x = &a->few, *y = &b->few;
  if (a->tiles != b->tiles || a->matrix != b->matrix || a->direct != b->direct ||
      a->splits != b->splits)
    return false;
  return a->tiles || a->matrix || a->direct ||
         (x->side == y->side && x->few == y->few && x->many == y->many && x->lanes == y->lanes &&
          x->along_k == y->along_k);
}

/* Ways for any number of rows, each chosen for the most rows that it is for. */
static sn_status emit_ranges(emitter *e, const matmul_part *p) {
  static const int64_t ends[] = {1, 4, MATMUL_FEW, 64, 512, INT64_MAX};
  amount rows = {p->n_m, 1, p->extent + p->n_batch};
  extents x = extents_of(&e->env, p);
  int64_t most = x.side[0], least = 1;
  for (int i = 0; i < (int)COUNT_OF(ends) && least <= most; i++) {
    x.side[0] = min_i64(ends[i], most);
    matmul_way way = choose(e, p, &x);
    while (x.side[0] < most) { /* the same way for more rows */
      extents more = x;
      more.side[0] = min_i64(ends[i + 1], most);
      matmul_way next = choose(e, p, &more);
      if (!same_way(&way, &next))
        break;
      x = more;
      i++;
    }
    SN_TRY(emit_matmul_as(e, p, &way, &rows, least, x.side[0]));
    least = x.side[0] + 1;
  }
  return SN_OK;
}

static bool terms_read(int n, const term *terms, int axis) {
  for (int i = 0; i < n; i++)
    if (terms[i].axis == axis)
      return true;
  return false;
}

static bool region_reads(const region *r, int axis) {
  for (int i = 0; i < r->n; i++) {
    const access *at = &r->code[i].at;
    if (terms_read(at->n_terms, at->terms, axis))
      return true;
    for (int c = 0; c < at->n_checks; c++)
      if (terms_read(at->checks[c].n_terms, at->checks[c].terms, axis))
        return true;
  }
  return false;
}

/* Batch axes that no b reads are rows: so one tile serves many of their points. */
void matmul_batch_to_rows(matmul_part *p) {
  for (; p->n_batch > 0; p->n_batch--, p->n_m++)
    for (int a = 0; a < p->n_accs; a++)
      for (int i = 0; i < p->accs[a].n_products; i++)
        if (region_reads(&p->accs[a].products[i].b, p->n_batch - 1))
          return;
}

/* Convolutions from images in shared memory, unless other tiles are better. */
static bool goes_by_window(const emitter *e, const matmul_part *p) {
  if (!window_fits(e, p))
    return false;
  extents x = extents_of(&e->env, p);
  choice other = choose_tiles(e, p, &x);
  return !other.way.direct || other.cost >= window_cost(e, p);
}

/* Phases go the way of their first, which has most products: so they are one launch. */
static matmul_way way_of(emitter *e, const matmul_part *p) {
  const int own = e->part;
  if (p->phase < 2)
    return matmul_choose(e, p);
  e->part -= p->phase - 1;
  matmul_part first = e->step->parts[e->part].u.matmul;
  matmul_batch_to_rows(&first);
  matmul_way way = matmul_choose(e, &first);
  e->part = own;
  return way;
}

sn_status emit_matmul(emitter *e, const part *p) {
  matmul_part m = p->u.matmul;
  if (m.n_accs > EMIT_ACCS)
    return diag_fail(e->env.ctx, SN_ERR_UNSUPPORTED, "matmul: %d accumulators, at most %d",
                     m.n_accs, EMIT_ACCS);
  if (matmul_is_empty(&m))
    return emit_matmul_empty(e, &m);
  matmul_batch_to_rows(&m);
  if (goes_by_window(e, &m))
    return emit_window(e, &m);
  if (!dims_are_numbers(m.n_m, m.extent + m.n_batch))
    return emit_ranges(e, &m);
  matmul_way way = way_of(e, &m);
  return emit_matmul_as(e, &m, &way, NULL, 0, 0);
}
