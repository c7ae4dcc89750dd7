/* Checkpoints of a trainer: the store in safetensors, the schedule in its metadata. Rates are written as
 * the bits of the double, so that a resumed run has the same and no locale can spoil them. Files are untrusted. */
#include "base/null.h"

#include "train/schedule.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SCHEDULE_KEY "sinew.schedule"

enum { MOST_PAIRS = 32, SCHEDULE_TEXT = 160 };

static uint64_t bits_of(double x) {
  uint64_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

static double of_bits(uint64_t bits) {
  double x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

static void write_schedule(const sn_schedule *s, char text[SCHEDULE_TEXT]) {
  snprintf(text, SCHEDULE_TEXT, "%d %016" PRIx64 " %016" PRIx64 " %" PRId64 " %" PRId64,
           (int)s->kind, bits_of(s->rate), bits_of(s->final_rate), s->warmup, s->total);
}

sn_status sn_trainer_save(const sn_trainer *t, const char *path,
                          const sn_safetensors_pair *metadata, size_t n_metadata) {
  NEEDS(t);
  NEEDS_ARGUMENT(sn_store_ctx(sn_trainer_store(t)), path);
  NEEDS_ARGUMENT_IF(sn_store_ctx(sn_trainer_store(t)), n_metadata > 0, metadata);
  sn_store *store = sn_trainer_store(t);
  sn_safetensors_pair pairs[MOST_PAIRS];
  char schedule[SCHEDULE_TEXT];
  if (n_metadata >= MOST_PAIRS)
    return sn_ctx_fail(sn_store_ctx(store), SN_ERR_INVALID, "trainer: at most %d pairs, got %zu",
                       MOST_PAIRS - 1, n_metadata);
  write_schedule(sn_trainer_schedule(t), schedule);
  for (size_t i = 0; i < n_metadata; i++)
    pairs[i] = metadata[i];
  pairs[n_metadata] = (sn_safetensors_pair){SCHEDULE_KEY, schedule};
  return sn_store_save(store, path, pairs, n_metadata + 1);
}

/* Only what would be written so. */
static bool parse_schedule(const char *text, sn_schedule *out) {
  char again[SCHEDULE_TEXT], *at;
  long kind = strtol(text, &at, 10);
  if (kind < SN_SCHEDULE_CONSTANT || kind > SN_SCHEDULE_COSINE)
    return false;
  out->kind = (sn_schedule_kind)kind;
  out->rate = of_bits(strtoull(at, &at, 16));
  out->final_rate = of_bits(strtoull(at, &at, 16));
  out->warmup = strtoll(at, &at, 10);
  out->total = strtoll(at, &at, 10);
  write_schedule(out, again);
  return strcmp(text, again) == 0 && schedule_is_usable(out);
}

static sn_status read_schedule(sn_ctx *ctx, const sn_safetensors *file, sn_schedule *out) {
  const char *text = sn_safetensors_metadata(file, SCHEDULE_KEY);
  return text && parse_schedule(text, out)
             ? SN_OK
             : sn_ctx_fail(ctx, SN_ERR_FORMAT, "no schedule of a trainer in its metadata");
}

/* The one element of a tensor, or what *value was where there is no such tensor: the store says so if it needs one. */
static sn_status read_one(sn_safetensors *file, const char *name, sn_dtype dtype, void *value) {
  const sn_safetensors_tensor *t = sn_safetensors_find(file, name);
  return t && t->dtype == dtype && t->count == 1
             ? sn_safetensors_read(file, t->index, dtype, value, 1)
             : SN_OK;
}

/* What a trainer counts and scales by; nothing else would notice that it cannot be. */
static sn_status check_counters(sn_ctx *ctx, sn_safetensors *file) {
  static const char *const names[] = {"train.step", "train.batch", "train.pending", "train.good",
                                      "train.skipped"};
  float scale = 1;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    int32_t n = 0;
    SN_TRY(read_one(file, names[i], SN_I32, &n));
    if (n < 0)
      return sn_ctx_fail(ctx, SN_ERR_FORMAT, "\"%s\" must not be negative, got %d", names[i],
                         (int)n);
  }
  SN_TRY(read_one(file, "train.scale", SN_F32, &scale));
  if (!(scale > 0 && isfinite(scale)))
    return sn_ctx_fail(ctx, SN_ERR_FORMAT, "\"train.scale\" must be above 0, got %g",
                       (double)scale);
  return SN_OK;
}

static sn_status load(sn_store *store, sn_safetensors *file, sn_schedule *out) {
  sn_ctx *ctx = sn_store_ctx(store);
  SN_TRY(read_schedule(ctx, file, out));
  SN_TRY(check_counters(ctx, file));
  return sn_store_load_file(store, file);
}

sn_status sn_trainer_load(sn_trainer *t, const char *path) {
  NEEDS(t);
  sn_store *store = sn_trainer_store(t);
  sn_ctx *ctx = sn_store_ctx(store);
  NEEDS_ARGUMENT(ctx, path);
  sn_schedule schedule;
  sn_safetensors *file;
  SN_TRY(sn_safetensors_open(ctx, path, &file));
  sn_status status = load(store, file, &schedule);
  sn_safetensors_close(file);
  if (status != SN_OK)
    return sn_ctx_within(ctx, status, "%s", path);
  sn_trainer_set_schedule(t, &schedule);
  return SN_OK;
}
