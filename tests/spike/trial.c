/* See trial.h. */
#include "spike/trial.h"

#include "base/half.h"
#include "spike/emit.h"
#include "spike/evaluate.h"
#include "spike/vulkan.h"
#include "support/command.h"
#include "support/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- the device, opened once. It is never closed: Vulkan's layers lose a few bytes when they are unloaded, which
 * a leak checker would lay to our account; while they are loaded they still hold them. --- */

static gpu *device;
static bool tried;
static char reason[160];

static void forget(void) { gpu_forget(device); }

bool trial_possible(void) {
  if (!tried) {
    tried = true;
    device = gpu_open(reason, sizeof reason);
    if (device)
      atexit(forget);
  }
  if (!device)
    test_skip("%s", reason);
  return device != NULL;
}

gpu *trial_device(void) { return device; }

/* --- values --- */

static size_t element_size(unsigned dtype) {
  return dtype == SN_F32 || dtype == SN_I32 ? 4 : dtype == SN_F16 || dtype == SN_BF16 ? 2 : 1;
}

static size_t bytes_of(const trial *t, uint32_t v) {
  return (size_t)t->count[v] * element_size(t->dtype[v]);
}

uint32_t trial_value(trial *t, sn_dtype dtype, int64_t n) {
  uint32_t v = t->n_values ? t->n_values : 1;
  if (v == TRIAL_VALUES)
    abort();
  t->n_values = v + 1;
  t->dtype[v] = (uint8_t)dtype;
  t->count[v] = n;
  t->data[v] = calloc((size_t)n + 1, 4);
  if (!t->data[v])
    abort();
  return v;
}

uint32_t trial_drawn(trial *t, sn_dtype dtype, int64_t n, int high) {
  uint32_t v = trial_value(t, dtype, n), state = 2463534242u + 977u * v;
  for (int64_t i = 0; i < n; i++) {
    state ^= state << 13;
    state ^= state >> 17;
    state ^= state << 5;
    float f = (float)(state >> 8) * 0x1p-22f - 2;
    uint32_t whole = high ? (state >> 8) % (uint32_t)high : 0;
    uint16_t half = dtype == SN_F16 ? half_from_f32(f) : bf16_from_f32(f);
    char *at = (char *)t->data[v] + (size_t)i * element_size(dtype);
    if (dtype == SN_F32)
      memcpy(at, &f, 4);
    else if (dtype == SN_I32)
      memcpy(at, &whole, 4);
    else if (element_size(dtype) == 2)
      memcpy(at, &half, 2);
    else
      *at = (char)whole;
  }
  return v;
}

float *trial_floats(const trial *t, uint32_t value) { return t->data[value]; }
int32_t *trial_ints(const trial *t, uint32_t value) { return t->data[value]; }

void trial_end(trial *t) {
  for (uint32_t v = 1; v < t->n_values; v++)
    free(t->data[v]);
  *t = (trial){0};
}

/* --- comparing --- */

static double number_at(const void *data, int dtype, int64_t i) {
  float f;
  int32_t n;
  uint16_t half;
  switch (dtype) {
  case SN_F32: memcpy(&f, (const char *)data + 4 * i, 4); return (double)f;
  case SN_I32: memcpy(&n, (const char *)data + 4 * i, 4); return n;
  case SN_F16: memcpy(&half, (const char *)data + 2 * i, 2); return (double)half_to_f32(half);
  case SN_BF16: memcpy(&half, (const char *)data + 2 * i, 2); return (double)bf16_to_f32(half);
  default: return ((const uint8_t *)data)[i];
  }
}

static bool agree(const trial *t, double expected, double got) {
  if (expected != expected || got != got)
    return expected != expected && got != got;
  return expected == got || fabs(expected - got) <= t->tolerance * (1 + fabs(expected));
}

static void compare(const trial *t, bool wide, uint32_t v, const void *got) {
  for (int64_t i = 0; i < t->count[v]; i++) {
    double expected = number_at(t->data[v], t->dtype[v], i), x = number_at(got, t->dtype[v], i);
    if (!agree(t, expected, x)) {
      FAIL("%d-bit indices: value %u, element %lld: expected %.9g, got %.9g", wide ? 64 : 32, v,
           (long long)i, expected, x);
      return;
    }
  }
}

/* --- one run --- */

static void validate(const shader *s) {
  const char *path = test_scratch("shader.spv");
  FILE *f = fopen(path, "wb");
  if (!CHECK(f != NULL))
    return;
  fwrite(s->words, sizeof *s->words, s->n, f);
  fclose(f);
  command_result r =
      command_run("/usr/bin/env", "spirv-val", "--target-env", "vulkan1.2", path, NULL);
  if (r.code != 0 && r.code != 127) /* 127: not installed */
    FAIL("spirv-val: %s%s", r.out, r.err);
  command_free(&r);
}

/* The block of parameters, in a buffer behind those of the values. */
static void fill_block(const trial *t, const gpu_buffer *buffers, uint64_t record,
                       uint64_t *block) {
  block[0] = record;
  for (uint32_t v = 1; v < t->n_values; v++)
    block[1 + v] = buffers[v].address;
  memcpy(block + 1 + t->n_values, t->sizes, sizeof t->sizes);
}

static void run_shader(trial *t, const shader *s, gpu_buffer *buffers, bool wide) {
  gpu_buffer *record = &buffers[TRIAL_VALUES], *block = &buffers[TRIAL_VALUES + 1];
  const char *statistics = getenv("SINEW_SPIKE_STATISTICS");
  double seconds = 0;
  for (uint32_t v = 1; v < t->n_values; v++) {
    REQUIRE(gpu_buffer_create(device, bytes_of(t, v), &buffers[v]));
    memcpy(buffers[v].data, t->data[v], bytes_of(t, v));
  }
  REQUIRE(gpu_buffer_create(device, 8, record));
  REQUIRE(gpu_buffer_create(device, 8 * (1 + TRIAL_VALUES + TRIAL_SIZES), block));
  fill_block(t, buffers, record->address, block->data);
  gpu_job job = {.words = s->words,
                 .n_words = s->n,
                 .parameters = block->address,
                 .groups = 7, /* few, so that threads take several points */
                 .repeat = statistics ? 5 : 1};
  CHECK(gpu_run(device, &job, &seconds));
  if (gpu_complaints(device))
    FAIL("validation: %s", gpu_complaint(device));
  if (statistics)
    printf("%s: %d-bit indices: %d instructions, %.3f ms\n", gpu_name(device), wide ? 64 : 32,
           s->instructions, 1e3 * seconds);
}

/* What the device makes of the values, in copies that stay in the buffers. */
static void run_device(trial *t, shader *s, gpu_buffer *buffers, bool wide) {
  if (!s->words) {
    FAIL("cannot be said: %s", s->why);
    return;
  }
  validate(s);
  run_shader(t, s, buffers, wide);
  free(s->words);
}

static void end_device(gpu_buffer *buffers) {
  for (int i = 0; i < TRIAL_VALUES + 2; i++)
    gpu_buffer_destroy(device, &buffers[i]);
}

static void run_trial(trial *t, const loop_part *loop, const matmul_part *matmul) {
  gpu_buffer buffers[2][TRIAL_VALUES + 2] = {{{0}}};
  uint32_t expected[2] = {0, 0};
  eval_env direct = {t->dtype, t->data, t->sizes, expected};
  int first = t->indices == 64, last = t->indices != 32;
  for (int wide = first; wide <= last; wide++) {
    emit_env env = {t->dtype, t->n_values, wide};
    shader s = loop ? emit_loop(loop, &env) : emit_matmul(matmul, &env);
    run_device(t, &s, buffers[wide], wide);
  }
  if (loop)
    eval_loop(loop, &direct);
  else
    eval_matmul(matmul, &direct);
  for (int wide = first; wide <= last; wide++) {
    for (uint32_t v = 1; v < t->n_values && buffers[wide][v].data; v++)
      compare(t, wide, v, buffers[wide][v].data);
    if (buffers[wide][TRIAL_VALUES].data)
      memcpy(t->failure, buffers[wide][TRIAL_VALUES].data, sizeof t->failure);
    CHECK_EQ_UINT(t->failure[0], expected[0]);
    end_device(buffers[wide]);
  }
}

void trial_loop(trial *t, const loop_part *p) { run_trial(t, p, NULL); }
void trial_matmul(trial *t, const matmul_part *p) { run_trial(t, NULL, p); }
