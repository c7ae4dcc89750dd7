/* Checkpoints of a trainer: the store in safetensors, the schedule in its metadata. Rates are written as
 * the bits of the double, so that a resumed run has the same and no locale can spoil them. */
#include <inttypes.h>
#include <math.h>
#include <sinew/train.h>
#include <stdio.h>
#include <string.h>

#define SCHEDULE_KEY "sinew.schedule"

enum { MOST_PAIRS = 32 };

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

sn_status sn_trainer_save(const sn_trainer *t, const char *path,
                          const sn_safetensors_pair *metadata, size_t n_metadata) {
  const sn_schedule *s = sn_trainer_schedule(t);
  sn_store *store = sn_trainer_store(t);
  sn_safetensors_pair pairs[MOST_PAIRS];
  char schedule[160];
  if (n_metadata >= MOST_PAIRS)
    return sn_ctx_fail(sn_store_ctx(store), SN_ERR_INVALID, "trainer: at most %d pairs, got %zu",
                       MOST_PAIRS - 1, n_metadata);
  snprintf(schedule, sizeof schedule, "%d %016" PRIx64 " %016" PRIx64 " %" PRId64 " %" PRId64,
           (int)s->kind, bits_of(s->rate), bits_of(s->final_rate), s->warmup, s->total);
  for (size_t i = 0; i < n_metadata; i++)
    pairs[i] = metadata[i];
  pairs[n_metadata] = (sn_safetensors_pair){SCHEDULE_KEY, schedule};
  return sn_store_save(store, path, pairs, n_metadata + 1);
}

static sn_status read_schedule(sn_ctx *ctx, const char *path, sn_schedule *out) {
  sn_safetensors *file;
  sn_status status = SN_OK;
  SN_TRY(sn_safetensors_open(ctx, path, &file));
  const char *text = sn_safetensors_metadata(file, SCHEDULE_KEY);
  int kind;
  uint64_t rate, final_rate;
  if (!text ||
      sscanf(text, "%1d %16" SCNx64 " %16" SCNx64 " %18" SCNd64 " %18" SCNd64, &kind, &rate,
             &final_rate, &out->warmup, &out->total) != 5 ||
      kind < SN_SCHEDULE_CONSTANT || kind > SN_SCHEDULE_COSINE || !isfinite(of_bits(rate)) ||
      !isfinite(of_bits(final_rate)))
    status = sn_ctx_fail(ctx, SN_ERR_FORMAT, "%s: no schedule of a trainer in its metadata", path);
  if (status == SN_OK) {
    out->kind = (sn_schedule_kind)kind;
    out->rate = of_bits(rate);
    out->final_rate = of_bits(final_rate);
  }
  sn_safetensors_close(file);
  return status;
}

sn_status sn_trainer_load(sn_trainer *t, const char *path) {
  sn_schedule schedule;
  sn_store *store = sn_trainer_store(t);
  SN_TRY(read_schedule(sn_store_ctx(store), path, &schedule));
  SN_TRY(sn_store_load(store, path));
  sn_trainer_set_schedule(t, &schedule);
  return SN_OK;
}
