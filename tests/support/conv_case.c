/* See conv_case.h. */
#include "support/conv_case.h"

#include "support/test.h"

#include <math.h>
#include <stdlib.h>

conv_case *conv_case_new(uint32_t seed) {
  conv_case *c = calloc(1, sizeof *c);
  *c = (conv_case){.seed = seed * 2654435761u + 7, .n = 1, .groups = 1, .ci = 1, .co = 1};
  for (int d = 0; d < CONV_DIMS; d++) {
    c->kernel[d] = CONV_KERNEL;
    c->stride[d] = c->dilation[d] = 1;
  }
  for (int v = 1; v < CONV_VALUES; v++)
    c->values[v] = (program_value){.type = {.dtype = SN_F32}, .home = HOME_ARENA, .last = 1};
  c->p = (program){.n_values = CONV_VALUES,
                   .values = c->values,
                   .n_states = 1,
                   .states = c->states,
                   .steps = &c->step,
                   .n_main = 1};
  return c;
}

conv_case *conv_case_new_same(int64_t n, int64_t ci, int64_t co, int64_t rows, int64_t columns) {
  conv_case *c = conv_case_new(77);
  c->n = n;
  c->ci = ci;
  c->co = co;
  c->size[0] = c->windows[0] = rows;
  c->size[1] = c->windows[1] = columns;
  c->before[0] = c->before[1] = 1;
  return c;
}

void conv_case_free(conv_case *c) {
  for (int v = 1; v < CONV_VALUES; v++)
    free(c->address[v]);
  free(c);
}

/* --- sizes and numbers --- */

int64_t conv_case_draw(conv_case *c, int64_t below) {
  c->seed = c->seed * 1664525u + 1013904223u;
  return (int64_t)(c->seed >> 8) % below;
}

void conv_case_fit(conv_case *c, int d, int64_t after, int64_t more) {
  int64_t reach = c->dilation[d] * (c->kernel[d] - 1) + 1;
  c->size[d] = max_i64(1, reach - c->before[d] - after) + more;
  c->windows[d] = (c->size[d] + c->before[d] + after - reach) / c->stride[d] + 1;
}

conv_case_axes conv_case_axes_forward(bool grouped, bool several_images) {
  int n = grouped, window = n + several_images;
  return (conv_case_axes){.group = grouped ? 0 : -1,
                          .n = several_images ? n : -1,
                          .window = window,
                          .co = window + 2,
                          .ci = window + 3,
                          .tap = window + 4,
                          .n_part = window + 3};
}

conv_case_axes conv_case_axes_weights(bool several_images) {
  return (conv_case_axes){.group = -1,
                          .ci = 0,
                          .tap = 1,
                          .co = 3,
                          .n = several_images ? 4 : -1,
                          .window = 4 + several_images,
                          .n_part = 4};
}

void conv_case_add(conv_case *c, int value, sn_dtype dtype, int64_t count) {
  c->values[value].type.dtype = dtype;
  c->values[value].count = count;
  free(c->address[value]);
  c->address[value] = malloc((size_t)count * 4 + 4);
  for (int64_t i = 0; i < count; i++)
    dtype_store(dtype, c->address[value], i,
                c->fractions ? (double)(conv_case_draw(c, 1 << 20) - (1 << 19)) / (1 << 18)
                             : (double)(conv_case_draw(c, 9) - 4));
}

void conv_case_tensors(conv_case *c) {
  conv_case_add(c, CONV_IMAGES, SN_F32, c->n * c->groups * c->ci * c->size[0] * c->size[1]);
  conv_case_add(c, CONV_WEIGHTS, SN_F32, c->groups * c->co * c->ci * c->kernel[0] * c->kernel[1]);
  conv_case_add(c, CONV_RESULTS, SN_F32, c->n * c->groups * c->co * c->windows[0] * c->windows[1]);
}

/* --- steps --- */

void conv_case_add_term(conv_case *c, access *at, int axis, int64_t stride) {
  if (axis < 0)
    return;
  term *t = &c->terms[c->n_terms++];
  *t = (term){.axis = (uint8_t)axis, .stride = stride, .div = 1};
  at->terms = at->n_terms++ ? at->terms : t;
}

term *conv_case_term(conv_case *c, const access *at, int axis) {
  term *t = &c->terms[at->terms - c->terms];
  while (t->axis != axis)
    t++;
  return t;
}

access conv_case_at_axis(conv_case *c, int value, int axis) {
  access at = {.value = (uint32_t)value};
  conv_case_add_term(c, &at, axis, 1);
  return at;
}

/* Which tap is at place y of a window. */
static int64_t tap_at(const conv_case *c, int d, int64_t y) {
  return c->turned ? c->kernel[d] - 1 - y : y;
}

/* An element before the images' first, or behind their last, is 0: a check says so where there can be one. */
static void add_windows(conv_case *c, access *at) {
  access of[CONV_DIMS] = {{0}};
  for (int d = 0; d < CONV_DIMS; d++) {
    int64_t line = d ? 1 : c->size[1], by = c->turned ? -c->dilation[d] : c->dilation[d];
    conv_case_add_term(c, at, c->axes.window + d, c->stride[d] * line);
    conv_case_add_term(c, at, c->axes.tap + d, by * line);
    at->base += (tap_at(c, d, 0) * c->dilation[d] - c->before[d]) * line;
  }
  at->checks = c->checks;
  for (int d = 0; d < CONV_DIMS; d++) {
    int64_t reach = (c->windows[d] - 1) * c->stride[d] + (c->kernel[d] - 1) * c->dilation[d] + 1;
    if (c->before[d] == 0 && reach <= c->size[d])
      continue;
    conv_case_add_term(c, &of[d], c->axes.window + d, c->stride[d]);
    conv_case_add_term(c, &of[d], c->axes.tap + d, c->turned ? -c->dilation[d] : c->dilation[d]);
    c->checks[at->n_checks++] = (check){.n_terms = 2,
                                        .terms = of[d].terms,
                                        .offset = tap_at(c, d, 0) * c->dilation[d] - c->before[d],
                                        .size = c->size[d],
                                        .divisor = 1};
  }
}

access conv_case_at(conv_case *c, int tensor) {
  access at = {.value = (uint32_t)tensor};
  if (tensor == CONV_WEIGHTS) {
    int64_t taps = c->kernel[0] * c->kernel[1];
    conv_case_add_term(c, &at, c->axes.group, c->co * c->ci * taps);
    conv_case_add_term(c, &at, c->axes.co, c->ci * taps);
    conv_case_add_term(c, &at, c->axes.ci, taps);
    conv_case_add_term(c, &at, c->axes.tap, c->kernel[1]);
    conv_case_add_term(c, &at, c->axes.tap + 1, 1);
    return at;
  }
  bool images = tensor == CONV_IMAGES;
  int64_t channels = images ? c->ci : c->co, *dims = images ? c->size : c->windows;
  int64_t plane = dims[0] * dims[1];
  conv_case_add_term(c, &at, c->axes.group, channels * plane);
  conv_case_add_term(c, &at, c->axes.n, c->groups * channels * plane);
  conv_case_add_term(c, &at, images ? c->axes.ci : c->axes.co, plane);
  if (images) {
    add_windows(c, &at);
    return at;
  }
  conv_case_add_term(c, &at, c->axes.window, dims[1]);
  conv_case_add_term(c, &at, c->axes.window + 1, 1);
  return at;
}

instr conv_case_read(access at) { return (instr){.op = REGION_LOAD, .dtype = SN_F32, .at = at}; }

instr conv_case_write(access at, reg a) {
  return (instr){.op = REGION_STORE, .dtype = SN_F32, .a = a, .at = at};
}

instr conv_case_alu(alu code, reg a, reg b) {
  return (instr){.op = REGION_ALU, .code = (uint8_t)code, .dtype = SN_F32, .a = a, .b = b};
}

void conv_case_make_step(conv_case *c, int n_a, int n_epilogue) {
  const conv_case_axes *x = &c->axes;
  int n_batch = x->group >= 0, n_part = x->n_part, n = 6 + n_batch + (x->n >= 0);
  int64_t all[9], *extent = all + 1; /* of axes that are not there, too */
  extent[x->group] = c->groups;
  extent[x->n] = c->n;
  extent[x->ci] = c->ci;
  extent[x->co] = c->co;
  for (int d = 0; d < CONV_DIMS; d++) {
    extent[x->window + d] = c->windows[d];
    extent[x->tap + d] = c->kernel[d];
  }
  c->product = (matmul_product){.n_k = n - n_part, .a = {n_a, c->a}, .b = {1, c->b}};
  memcpy(c->product.k, extent + n_part, (size_t)(n - n_part) * sizeof *extent);
  c->acc = (matmul_acc){1, &c->product};
  c->part.u.matmul = (matmul_part){.n_batch = n_batch,
                                   .n_m = n_part - n_batch - 1,
                                   .n_n = 1,
                                   .n_accs = 1,
                                   .accs = &c->acc,
                                   .epilogue = {n_epilogue, c->epilogue}};
  memcpy(c->part.u.matmul.extent, extent, (size_t)n_part * sizeof *extent);
  c->step = (step){.kind = STEP_MATMUL, .n_parts = 1, .parts = &c->part};
}

/* --- runs --- */

void conv_case_clear(conv_case *c) {
  for (int i = 0; i < c->step.n_parts; i++) {
    const region *code = &c->step.parts[i].u.matmul.epilogue;
    for (int k = 0; k < code->n; k++)
      if (code->code[k].op == REGION_STORE) {
        uint32_t v = code->code[k].at.value;
        memset(c->address[v], 0xff, (size_t)c->values[v].count * sizeof(float));
      }
  }
}

void conv_case_run(conv_case *c, const cpu_isa *isa, int threads) {
  cpu_case k = {.program = &c->p, .addresses = c->address, .threads = threads, .isa = isa};
  CHECK(sn_ctx_create(NULL, &k.ctx) == SN_OK);
  CHECK(cpu_case_run(&k, &c->step) == SN_OK);
  sn_ctx_destroy(k.ctx);
}

/* --- what is expected --- */

/* Where the tensors' numbers are along the windows of a row: one tap of one pair of channels. */
typedef struct line {
  double *numbers[CONV_RESULTS + 1];
  int64_t at[CONV_RESULTS + 1], step[CONV_RESULTS + 1];
} line;

static void add_line(const line *l, int tensor, int64_t first, int64_t end) {
  int a = tensor % CONV_RESULTS + 1, b = a % CONV_RESULTS + 1; /* the other two */
  double *to = l->numbers[tensor], sum = 0;
  const double *x = l->numbers[a], *y = l->numbers[b];
  for (int64_t i = first; i < end; i++) {
    double product = x[l->at[a] + i * l->step[a]] * y[l->at[b] + i * l->step[b]];
    if (tensor == CONV_WEIGHTS)
      sum += product;
    else
      to[l->at[tensor] + i * l->step[tensor]] += product;
  }
  if (tensor == CONV_WEIGHTS)
    to[l->at[tensor]] += sum;
}

/* One tap of one pair of channels. */
static void add_tap(const conv_case *c, int tensor, line *l, int64_t image, int64_t result,
                    int64_t weight) {
  int64_t ky = weight / c->kernel[1] % c->kernel[0], kx = weight % c->kernel[1];
  int64_t off = tap_at(c, 1, kx) * c->dilation[1] - c->before[1], first = 0, end = c->windows[1];
  while (first < end && first * c->stride[1] + off < 0)
    first++;
  while (end > first && (end - 1) * c->stride[1] + off >= c->size[1])
    end--;
  l->at[CONV_WEIGHTS] = weight;
  l->step[CONV_IMAGES] = c->stride[1];
  l->step[CONV_RESULTS] = 1;
  for (int64_t y = 0; y < c->windows[0]; y++) {
    int64_t h = y * c->stride[0] - c->before[0] + tap_at(c, 0, ky) * c->dilation[0];
    l->at[CONV_IMAGES] = (image * c->size[0] + h) * c->size[1] + off;
    l->at[CONV_RESULTS] = (result * c->windows[0] + y) * c->windows[1];
    if (h >= 0 && h < c->size[0])
      add_line(l, tensor, first, end);
  }
}

static double *numbers_of(const conv_case *c, int tensor, bool magnitudes) {
  double *to = malloc((size_t)c->values[tensor].count * sizeof *to + 1);
  for (int64_t i = 0; i < c->values[tensor].count; i++) {
    to[i] = dtype_load(c->values[tensor].type.dtype, c->address[tensor], i);
    to[i] = magnitudes ? fabs(to[i]) : to[i];
  }
  return to;
}

double *conv_case_sums(const conv_case *c, int tensor, bool magnitudes) {
  line l = {.numbers = {NULL}};
  int64_t taps = c->kernel[0] * c->kernel[1];
  for (int v = CONV_IMAGES; v <= CONV_RESULTS; v++)
    l.numbers[v] = numbers_of(c, v, magnitudes);
  for (int64_t i = 0; i < c->values[tensor].count; i++)
    l.numbers[tensor][i] = 0;
  for (int64_t n = 0; n < c->n; n++)
    for (int64_t co = 0; co < c->groups * c->co; co++)
      for (int64_t i = 0; i < c->ci * taps; i++)
        add_tap(c, tensor, &l, (n * c->groups + co / c->co) * c->ci + i / taps,
                n * c->groups * c->co + co, co * c->ci * taps + i);
  for (int v = CONV_IMAGES; v <= CONV_RESULTS; v++)
    if (v != tensor)
      free(l.numbers[v]);
  return l.numbers[tensor];
}

bool conv_case_check(const conv_case *c, int tensor, const double *sums) {
  const float *got = c->address[tensor];
  for (int64_t i = 0; i < c->values[tensor].count; i++)
    if ((double)got[i] != sums[i])
      return FAIL("element %lld: %g, expected %g", (long long)i, (double)got[i], sums[i]);
  return true;
}

static double rms_error(const conv_case *c, int tensor, const double *sums) {
  const float *got = c->address[tensor];
  double sum = 0;
  for (int64_t i = 0; i < c->values[tensor].count; i++)
    sum += ((double)got[i] - sums[i]) * ((double)got[i] - sums[i]);
  return sqrt(sum / (double)c->values[tensor].count);
}

void conv_case_check_errors(conv_case *c, int tensor, const cpu_isa *isa, double most) {
  double *sums = conv_case_sums(c, tensor, false);
  size_t bytes = (size_t)c->values[tensor].count * sizeof(float);
  float *one = malloc(bytes);
  for (int threads = 1; threads <= 4; threads++) {
    conv_case_clear(c);
    conv_case_run(c, isa, threads);
    if (threads == 1)
      memcpy(one, c->address[tensor], bytes);
    CHECK_EQ_MEM(one, c->address[tensor], bytes);
  }
  double error = rms_error(c, tensor, sums);
  instr plain[2] = {c->b[0], conv_case_alu(ALU_cast, 0, 0)};
  c->product.b = (region){2, plain};
  conv_case_clear(c);
  conv_case_run(c, isa, 2);
  double plain_error = rms_error(c, tensor, sums);
  if (!(error <= most * plain_error) || memcmp(one, c->address[tensor], bytes) == 0)
    FAIL("%s: error %.3g, plain %.3g", isa->name, error, plain_error);
  free(one);
  free(sums);
  conv_case_free(c);
}
