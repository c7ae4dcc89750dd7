/* Operands of matmuls that are one load, packed and read in drawn blocks, against an evaluation of the access element by
 * element: convolutions and their gradients of 1 to 3 dims with padding, strides, dilation, groups, odd sizes and sizes 0; permuted and split axes;
 * halves; divisors. On every instruction set. */
#include "device/cpu/matmul.h"
#include "support/cpu_case.h"
#include "support/test.h"

#include <stdlib.h>

enum { MOST_AXES = 12, SPATIAL = 3, GUARD = 64 };

/* One axis of the drawn operand, in the order batch, rows, k. */
typedef struct drawn_axis {
  int64_t extent, at, moves[SPATIAL]; /* of the element number; of each spatial coordinate */
} drawn_axis;

typedef struct world {
  uint32_t seed;
  sn_dtype dtype;
  int n_batch, n_rows, n_k;
  drawn_axis axes[MOST_AXES];
  int64_t count, base, offset[SPATIAL], size[SPATIAL], divisor[SPATIAL];
  bool checked[SPATIAL];
  int n_spatial;
  /* as a region */
  program p;
  program_value values[2];
  void *address[2];
  term terms[1 + SPATIAL][ACCESS_TERMS];
  check checks[SPATIAL];
  instr load;
  region code;
  matmul_part part;
  int64_t extent[REGION_AXES];
} world;

static int64_t draw(world *w, int64_t below) {
  w->seed = w->seed * 1664525u + 1013904223u;
  return (int64_t)(w->seed >> 8) % below;
}

static int n_axes(const world *w) { return w->n_batch + w->n_rows + w->n_k; }

/* --- drawn operands --- */

static drawn_axis *add_axis(world *w, int *group, int64_t extent, int64_t at) {
  drawn_axis *x = &w->axes[n_axes(w)];
  *x = (drawn_axis){.extent = extent, .at = at};
  (*group)++;
  return x;
}

typedef enum role { FORWARD, GRAD_WEIGHT, GRAD_INPUT, ROLES } role;

/* x [N, C, spatial…] read through windows: axes n, channel, places and kernel, as rows and k of one of the three. */
static void draw_window(world *w, role as) {
  int64_t size[SPATIAL], place[SPATIAL], kernel[SPATIAL], by[SPATIAL], dilation[SPATIAL];
  int64_t groups = draw(w, 3) ? 1 : 1 + draw(w, 3), images = draw(w, 12) ? 1 + draw(w, 3) : 0;
  int64_t channels = draw(w, 12) ? 1 + draw(w, 6) : 0, inner = 1, strides[SPATIAL];
  w->n_spatial = 1 + (int)draw(w, SPATIAL);
  for (int d = w->n_spatial - 1; d >= 0; d--) {
    size[d] = draw(w, 20) ? 1 + draw(w, w->n_spatial == 1 ? 90 : w->n_spatial == 2 ? 20 : 7) : 0;
    kernel[d] = 1 + draw(w, w->n_spatial == 1 ? 9 : 3);
    place[d] = 1 + draw(w, w->n_spatial == 1 ? 80 : w->n_spatial == 2 ? 20 : 6);
    by[d] = 1 + (draw(w, 3) ? 0 : draw(w, 3));
    dilation[d] = (1 + (draw(w, 3) ? 0 : draw(w, 3))) * (as == GRAD_INPUT ? -1 : 1);
    w->offset[d] = as == GRAD_INPUT ? draw(w, 4) : -draw(w, 4);
    w->divisor[d] = as == GRAD_INPUT && draw(w, 6) == 0 ? 2 : 1;
    w->checked[d] = true;
    w->size[d] = size[d];
    strides[d] = inner;
    inner *= size[d];
  }
  int64_t image = groups * channels * inner;
  w->count = images * image;
  if (groups > 1)
    add_axis(w, &w->n_batch, groups, channels * inner);
  int *outer = as == GRAD_WEIGHT ? &w->n_k : &w->n_rows,
      *other = as == GRAD_WEIGHT ? &w->n_rows : &w->n_k;
  for (int pass = 0; pass < 2; pass++) {
    bool places = (as == GRAD_WEIGHT) == (pass == 1);
    if (places)
      add_axis(w, outer, images, image);
    else
      add_axis(w, other, channels, inner);
    for (int d = 0; d < w->n_spatial; d++) {
      int64_t moves = places ? by[d] : dilation[d];
      drawn_axis *x =
          add_axis(w, places ? outer : other, places ? place[d] : kernel[d], strides[d] * moves);
      x->moves[d] = moves;
    }
  }
  for (int d = 0; d < w->n_spatial; d++)
    w->base += w->offset[d] * strides[d];
}

/* A dense value whose axes lie in a drawn order, some of them broadcast. */
static void draw_dense(world *w) {
  int n = 2 + (int)draw(w, 4);
  int64_t extent[MOST_AXES], at[MOST_AXES] = {0}, count = 1;
  int order[MOST_AXES];
  for (int i = 0; i < n; i++) {
    extent[i] = draw(w, 4) == 0 ? 1 + draw(w, 60) : draw(w, 9);
    order[i] = i;
  }
  for (int i = n - 1; i > 0; i--) {
    int j = (int)draw(w, i + 1), swap = order[i];
    order[i] = order[j];
    order[j] = swap;
  }
  for (int i = 0; i < n; i++)
    if (draw(w, 6)) {
      at[order[i]] = count;
      count *= extent[order[i]];
    }
  w->count = count;
  int batch = (int)draw(w, 2), rows = (int)draw(w, n - batch + 1);
  for (int i = 0; i < n; i++)
    add_axis(w,
             i < batch          ? &w->n_batch
             : i < batch + rows ? &w->n_rows
                                : &w->n_k,
             extent[i], at[i]);
}

static int add_terms(world *w, term *out, const int64_t *steps) {
  int n = 0;
  for (int a = 0; a < n_axes(w); a++) {
    int64_t e = w->axes[a].extent, by = 2;
    if (steps[a] == 0 && draw(w, 2))
      continue;
    if (e % by == 0 && draw(w, 6) == 0) { /* the same in two digits */
      out[n++] = (term){.axis = (uint8_t)a, .stride = steps[a], .div = 1, .mod = by};
      out[n++] = (term){.axis = (uint8_t)a, .stride = steps[a] * by, .div = by};
    } else {
      out[n++] = (term){.axis = (uint8_t)a, .stride = steps[a], .div = 1};
    }
  }
  return n;
}

static world *make_world(uint32_t seed) {
  world *w = calloc(1, sizeof *w);
  static const sn_dtype dtypes[] = {SN_F32, SN_F32, SN_F32, SN_F16, SN_BF16};
  int64_t steps[MOST_AXES];
  w->seed = seed * 2654435761u + 12345;
  w->dtype = dtypes[draw(w, 5)];
  if (draw(w, 4))
    draw_window(w, (role)draw(w, ROLES));
  else
    draw_dense(w);
  for (int a = 0; a < n_axes(w); a++) {
    steps[a] = w->axes[a].at;
    w->extent[a] = w->axes[a].extent;
  }
  w->load = (instr){.op = REGION_LOAD, .dtype = (uint8_t)w->dtype};
  access *at = &w->load.at;
  *at = (access){.value = 1, .base = w->base, .terms = w->terms[0], .checks = w->checks};
  at->n_terms = add_terms(w, w->terms[0], steps);
  for (int d = 0; d < w->n_spatial; d++) {
    for (int a = 0; a < n_axes(w); a++)
      steps[a] = w->axes[a].moves[d];
    w->checks[at->n_checks++] = (check){.n_terms = add_terms(w, w->terms[1 + d], steps),
                                        .terms = w->terms[1 + d],
                                        .offset = w->offset[d],
                                        .size = w->size[d] / w->divisor[d],
                                        .divisor = w->divisor[d]};
  }
  w->code = (region){1, &w->load};
  w->part = (matmul_part){.n_batch = w->n_batch};
  size_t each = w->dtype == SN_F32 ? 4 : 2;
  w->address[1] = malloc((size_t)w->count * each + (w->count == 0)); /* no byte beyond */
  for (int64_t i = 0; i < w->count; i++)
    dtype_store(w->dtype, w->address[1], i, (double)(draw(w, 2000) - 1000) / 8);
  w->p = (program){.n_values = 2, .values = w->values};
  return w;
}

static void free_world(world *w) {
  free(w->address[1]);
  free(w);
}

/* --- what is expected --- */

static int64_t term_sum(const term *t, int n, const int64_t *coords) {
  int64_t sum = 0;
  for (int i = 0; i < n; i++) {
    int64_t x = coords[t[i].axis] / t[i].div;
    sum += t[i].stride * (t[i].mod > 0 ? x % t[i].mod : x);
  }
  return sum;
}

static float element(const world *w, const int64_t *coords) {
  const access *at = &w->load.at;
  for (int c = 0; c < at->n_checks; c++) {
    const check *k = &at->checks[c];
    int64_t v = k->offset + term_sum(k->terms, k->n_terms, coords);
    if (v < 0 || v % k->divisor != 0 || v / k->divisor >= k->size)
      return 0;
  }
  return (float)dtype_load(w->dtype, w->address[1],
                           at->base + term_sum(at->terms, at->n_terms, coords));
}

/* --- blocks --- */

typedef struct opened {
  cpu_run r;
  matmul_work work;
  matmul_operand o;
  axis_group batch;
} opened;

static axis_group group_of(const world *w, int first, int n) {
  axis_group g = {.first = first, .n = n, .count = 1};
  for (int i = 0; i < n; i++)
    g.count *= w->extent[first + i];
  return g;
}

static bool open_operand(world *w, const cpu_isa *isa, opened *out) {
  out->r = cpu_case_alone(NULL, &w->p, NULL, w->address, NULL, 0);
  static _Alignas(64) char room[1 << 18]; /* the thread's scratch */
  out->r.isa = isa;
  out->work = (matmul_work){.r = &out->r, .part = &w->part};
  out->work.pack_room = plan_pack_bytes() <= sizeof room ? (void *)room : NULL;
  out->batch = group_of(w, 0, w->n_batch);
  axis_group rows = group_of(w, w->n_batch, w->n_rows);
  axis_group k = group_of(w, w->n_batch + w->n_rows, w->n_k);
  return CHECK(operand_open(&out->o, &out->r, &w->code, w->extent, n_axes(w), rows, k) == SN_OK);
}

static float expected(const world *w, const opened *at, int64_t row, int64_t k) {
  int64_t coords[REGION_AXES];
  memcpy(coords, at->work.coords, sizeof coords);
  group_coords(&at->o.rows, w->extent, row, coords);
  group_coords(&at->o.k, w->extent, k, coords);
  return element(w, coords);
}

typedef struct range {
  int64_t row, n_rows, k, n_k;
} range;

static range draw_range(world *w, const opened *at) {
  range b = {.row = draw(w, at->o.rows.count), .k = draw(w, at->o.k.count)};
  if (draw(w, 2))
    b.row = b.k = 0;
  b.n_rows = draw(w, 2) ? at->o.rows.count - b.row : 1 + draw(w, at->o.rows.count - b.row);
  b.n_k = draw(w, 2) ? at->o.k.count - b.k : 1 + draw(w, at->o.k.count - b.k);
  b.n_rows = min_i64(b.n_rows, 1500);
  b.n_k = min_i64(b.n_k, 1500);
  return b;
}

/* Panels with room around: what does not belong to them must stay as it was. */
static void check_pack(world *w, opened *at) {
  static const int widths[] = {12, 32, 1, 6, 16, 8, 4, 33, 48, 70};
  range b = draw_range(w, at);
  int width = widths[draw(w, 10)];
  int64_t panels = (b.n_rows + width - 1) / width, panel = b.n_k * width + draw(w, 3) * 5;
  int64_t count = panels * panel + GUARD, bad = 0;
  float *to = malloc((size_t)count * sizeof *to);
  memset(to, 0xff, (size_t)count * sizeof *to);
  operand_pack(&at->work, &at->o, b.row, b.n_rows, b.k, b.n_k, width, to, panel);
  for (int64_t i = 0; i < count && bad == 0; i++) {
    int64_t row = i / panel * width + i % panel % width, k = i % panel / width;
    bool inside = i < panels * panel && k < b.n_k;
    float want = inside && row < b.n_rows ? expected(w, at, b.row + row, b.k + k) : 0;
    bad += inside ? to[i] != want : to[i] == to[i];
    if (bad)
      FAIL("width %d of %lld x %lld: float %lld (row %lld, k %lld) is %g, expected %g", width,
           (long long)b.n_rows, (long long)b.n_k, (long long)i, (long long)row, (long long)k, to[i],
           want);
  }
  free(to);
}

static void check_read(world *w, opened *at) {
  range b = draw_range(w, at);
  bool k_inner = draw(w, 2);
  int64_t inner = k_inner ? b.n_k : b.n_rows, outer = k_inner ? b.n_rows : b.n_k;
  int64_t line = inner + draw(w, 3) * 7, count = outer * line + GUARD, bad = 0;
  float *to = malloc((size_t)count * sizeof *to);
  memset(to, 0xff, (size_t)count * sizeof *to);
  operand_read(&at->work, &at->o, b.row, b.n_rows, b.k, b.n_k, k_inner, to, line);
  for (int64_t i = 0; i < count && bad == 0; i++) {
    int64_t o = i / line, x = i % line;
    bool inside = o < outer && x < inner;
    float want = inside ? expected(w, at, b.row + (k_inner ? o : x), b.k + (k_inner ? x : o)) : 0;
    bad += inside ? to[i] != want : to[i] == to[i];
    if (bad)
      FAIL("%lld x %lld%s: float %lld is %g, expected %g", (long long)b.n_rows, (long long)b.n_k,
           k_inner ? ", k inner" : "", (long long)i, to[i], want);
  }
  free(to);
}

static void check_strided(world *w, opened *at) {
  const float *from;
  int64_t row_step, k_step;
  range b = draw_range(w, at);
  if (!operand_is_strided(&at->work, &at->o, b.row, b.n_rows, &from, &row_step, &k_step))
    return;
  CHECK(w->dtype == SN_F32);
  for (int64_t i = 0; i < b.n_rows; i++)
    for (int64_t k = 0; k < at->o.k.count; k++)
      if (!CHECK(from[i * row_step + k * k_step] == expected(w, at, b.row + i, k)))
        return;
}

static void check_world(uint32_t seed, const cpu_isa *isa) {
  world *w = make_world(seed);
  opened at;
  if (open_operand(w, isa, &at) && at.o.rows.count > 0 && at.o.k.count > 0 && at.batch.count > 0)
    for (int i = 0; i < 4 && !test_failed(); i++) {
      group_coords(&at.batch, w->extent, draw(w, at.batch.count), at.work.coords);
      check_pack(w, &at);
      check_read(w, &at);
      check_strided(w, &at);
    }
  if (test_failed())
    FAIL("seed %u, instruction set %s", seed, isa->name);
  free_world(w);
}

static void check_worlds(const cpu_isa *isa) {
  for (uint32_t seed = 1; seed <= 3000 && !test_failed(); seed++)
    check_world(seed, isa);
}

TEST_WALK(operands_are_what_their_accesses_say) { cpu_case_each_isa(check_worlds); }
