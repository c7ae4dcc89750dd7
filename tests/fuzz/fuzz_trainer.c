/* Fuzzes checkpoints of a trainer. An input is the header of the file, as text up to a zero, and then the data behind it: so the
 * header's length is always right (fuzz_safetensors has those that are not). Any file is refused with a message, and then nothing
 * has changed; or it leaves a trainer that can go on and whose own checkpoint gives the same again. */
#include "support/fuzz_files.h"

#include <math.h>
#include <sinew/train.h>
#include <stdlib.h>
#include <string.h>

/* A sum of w · x: the smallest model with all that a trainer keeps. */
typedef struct lesson {
  sn_ctx *ctx;
  sn_store *store;
  sn_graph *graph;
  sn_trainer *trainer;
} lesson;

static void lesson_begin(lesson *l) {
  static const float x[2] = {0.5f, -2};
  fuzz_demand(sn_ctx_create(NULL, &l->ctx) == SN_OK);
  fuzz_demand(sn_store_create(l->ctx, &l->store) == SN_OK);
  fuzz_demand(sn_graph_create(l->ctx, &l->graph) == SN_OK);
  sn_graph *g = l->graph;
  sn_value w = sn_state(g, "w", SN_F32, SN_SHAPE(2), SN_INIT_ONES, 0);
  sn_value loss =
      sn_sum(g, sn_sqr(g, sn_mul(g, w, sn_input(g, "x", SN_F32, SN_SHAPE(2)))), SN_ALL_AXES, false);
  sn_session_options session = {.device = "cpu", .threads = 1, .no_optimizer = true};
  sn_trainer_options options = {.optimizer = {.kind = SN_ADAMW},
                                .schedule = {SN_SCHEDULE_COSINE, 0.1, 0.01, 2, 10},
                                .accumulate = 2,
                                .loss_scale = 1024,
                                .session = &session};
  sn_param param = {.state = w};
  fuzz_demand(sn_trainer_create(g, loss, &param, 1, l->store, &options, &l->trainer) == SN_OK);
  fuzz_demand(sn_session_write(sn_trainer_session(l->trainer), "x", x, sizeof x) == SN_OK);
}

static void lesson_end(lesson *l) {
  sn_trainer_destroy(l->trainer);
  sn_graph_destroy(l->graph);
  sn_store_destroy(l->store);
  sn_ctx_destroy(l->ctx);
}

/* Whether the trainer's checkpoint is that file. */
static bool saves_as(const lesson *l, const char *file) {
  size_t n, m;
  fuzz_demand(sn_trainer_save(l->trainer, fuzz_path("saved"), NULL, 0) == SN_OK);
  uint8_t *a = fuzz_get("saved", &n), *b = fuzz_get(file, &m);
  bool same = n == m && memcmp(a, b, n) == 0;
  free(a);
  free(b);
  return same;
}

static void put_checkpoint(const uint8_t *bytes, size_t size) {
  const uint8_t *end = size ? memchr(bytes, 0, size) : NULL;
  size_t header = end ? (size_t)(end - bytes) : size, data = end ? size - header - 1 : 0;
  uint8_t *file = calloc(1, 8 + header + data);
  fuzz_demand(file != NULL);
  for (int i = 0; i < 8; i++)
    file[i] = (uint8_t)((uint64_t)header >> 8 * i);
  if (header)
    memcpy(file + 8, bytes, header);
  if (data)
    memcpy(file + 8 + header, end + 1, data);
  fuzz_put("given", file, 8 + header + data);
  free(file);
}

/* What was loaded is what a trainer could have saved. */
static void check_goes_on(lesson *l) {
  const sn_schedule *s = sn_trainer_schedule(l->trainer);
  lesson other;
  float loss;
  fuzz_demand(s->rate >= 0 && isfinite(s->rate) && s->final_rate >= 0 && isfinite(s->final_rate));
  fuzz_demand(s->warmup >= 0 && s->total >= 0);
  fuzz_demand(sn_trainer_steps(l->trainer) >= 0 && sn_trainer_batches(l->trainer) >= 0);
  fuzz_demand(sn_trainer_save(l->trainer, fuzz_path("again"), NULL, 0) == SN_OK);
  lesson_begin(&other);
  fuzz_demand(sn_trainer_load(other.trainer, fuzz_path("again")) == SN_OK);
  fuzz_demand(saves_as(&other, "again"));
  for (int i = 0; i < 2; i++) {
    sn_status status = sn_trainer_step(other.trainer, &loss);
    fuzz_demand(status == SN_OK || (status == SN_ERR_NUMERIC && *sn_ctx_message(other.ctx)));
  }
  lesson_end(&other);
}

/* A trainer that nothing has changed. To make one takes long, so it stays until a file was loaded. */
static lesson *fresh(void) {
  static lesson l;
  static bool saved;
  if (!l.ctx)
    lesson_begin(&l);
  if (!saved)
    fuzz_demand(sn_trainer_save(l.trainer, fuzz_path("fresh"), NULL, 0) == SN_OK);
  saved = true;
  return &l;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
  lesson *l = fresh();
  put_checkpoint(bytes, size);
  sn_status status = sn_trainer_load(l->trainer, fuzz_path("given"));
  if (status != SN_OK) {
    fuzz_demand(status != SN_ERR_INTERNAL && *sn_ctx_message(l->ctx) && saves_as(l, "fresh"));
    return 0;
  }
  check_goes_on(l);
  lesson_end(l);
  *l = (lesson){0};
  return 0;
}
