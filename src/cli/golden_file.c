/* Golden files, read and checked. See golden_file.h. */
#include "cli/golden_file.h"

#include <stdlib.h>
#include <string.h>

/* What each key holds, for messages. */
static const struct {
  const char *key, *form;
} forms[] = {{"input_ids", "rows of the model's token ids, of one length"},
             {"labels", "a token id for each of input_ids"},
             {"loss", "a number"},
             {"logits_last", "the last row of logits of each sequence"},
             {"logits_mid", "row 11 of the logits of the first sequence"},
             {"logits_l2", "a number"},
             {"grad_l2", "one number for each weight of the model"},
             {"greedy_from_8", "the first 8 ids of input_ids and their continuation"}};

typedef struct reading {
  sn_ctx *ctx;
  const char *path;
  const sn_json *root;
  const golden_file_model *model;
  golden_file *out;
} reading;

static sn_status bad(const reading *r, const char *key) {
  const char *form = "";
  for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
    if (strcmp(forms[i].key, key) == 0)
      form = forms[i].form;
  return sn_ctx_fail(r->ctx, SN_ERR_FORMAT, "%s: \"%s\" is missing, or is not %s", r->path, key,
                     form);
}

static bool is_array(const sn_json *v, int64_t size) {
  return sn_json_type(v) == SN_JSON_ARRAY && (int64_t)sn_json_size(v) == size;
}

/* --- ids --- */

static bool is_id(const reading *r, const sn_json *v) {
  int64_t id;
  return sn_json_int(v, &id) && id >= 0 && id < r->model->vocab;
}

/* Rows of ids, all of one length. */
static bool is_table(const reading *r, const sn_json *rows, int64_t batch, int64_t length) {
  if (!is_array(rows, batch))
    return false;
  for (int64_t b = 0; b < batch; b++) {
    const sn_json *row = sn_json_at(rows, (size_t)b);
    if (!is_array(row, length))
      return false;
    for (int64_t i = 0; i < length; i++)
      if (!is_id(r, sn_json_at(row, (size_t)i)))
        return false;
  }
  return true;
}

/* A [batch, length] table of ids. No memory is asked for before every row is known to be there. */
static sn_status read_ids(const reading *r, const char *key, int32_t **out) {
  const sn_json *rows = sn_json_get(r->root, key);
  int64_t batch = r->out->batch, length = r->out->length;
  if (batch == 0 || length == 0 || !is_table(r, rows, batch, length))
    return bad(r, key);
  *out = calloc((size_t)(batch * length), sizeof **out);
  if (!*out)
    return sn_ctx_fail(r->ctx, SN_ERR_NO_MEMORY, "out of memory");
  for (int64_t i = 0; i < batch * length; i++)
    (*out)[i] = (int32_t)golden_file_id(sn_json_at(rows, (size_t)(i / length)), i % length);
  return SN_OK;
}

/* --- numbers --- */

static sn_status read_number(const reading *r, const char *key, double *out) {
  return sn_json_number(sn_json_get(r->root, key), out) ? SN_OK : bad(r, key);
}

static bool is_row(const reading *r, const sn_json *row) {
  double x;
  if (!is_array(row, r->model->vocab))
    return false;
  for (int64_t i = 0; i < r->model->vocab; i++)
    if (!sn_json_number(sn_json_at(row, (size_t)i), &x))
      return false;
  return true;
}

static sn_status read_logits(const reading *r) {
  golden_file *g = r->out;
  g->last = sn_json_get(r->root, "logits_last");
  g->mid = sn_json_get(r->root, "logits_mid");
  if (!is_array(g->last, g->batch))
    return bad(r, "logits_last");
  for (int64_t b = 0; b < g->batch; b++)
    if (!is_row(r, sn_json_at(g->last, (size_t)b)))
      return bad(r, "logits_last");
  if (g->length <= GOLDEN_MID || !is_row(r, g->mid))
    return bad(r, "logits_mid");
  return read_number(r, "logits_l2", &g->logits_l2);
}

/* The document has no name twice, so as many names as weights are all weights. */
static sn_status read_grads(const reading *r) {
  const golden_file_model *m = r->model;
  const sn_json *grads = r->out->grads = sn_json_get(r->root, "grad_l2");
  double x;
  if (sn_json_type(grads) != SN_JSON_OBJECT || sn_json_size(grads) != m->n_weights)
    return bad(r, "grad_l2");
  for (size_t i = 0; i < m->n_weights; i++) {
    const sn_json *norm = sn_json_get(grads, m->weights[i]);
    if (!norm)
      return sn_ctx_fail(r->ctx, SN_ERR_FORMAT, "%s: \"grad_l2\" has no \"%s\"", r->path,
                         m->weights[i]);
    if (!sn_json_number(norm, &x))
      return bad(r, "grad_l2");
  }
  return SN_OK;
}

static sn_status read_greedy(const reading *r) {
  const sn_json *ids = r->out->greedy = sn_json_get(r->root, "greedy_from_8");
  if (sn_json_type(ids) != SN_JSON_ARRAY || sn_json_size(ids) <= GOLDEN_PROMPT ||
      r->out->length < GOLDEN_PROMPT)
    return bad(r, "greedy_from_8");
  for (size_t i = 0; i < sn_json_size(ids); i++) {
    const sn_json *id = sn_json_at(ids, i);
    if (!is_id(r, id) || (i < GOLDEN_PROMPT && golden_file_id(ids, (int64_t)i) != r->out->ids[i]))
      return bad(r, "greedy_from_8");
  }
  return SN_OK;
}

sn_status golden_file_read(sn_ctx *ctx, const char *path, const sn_json *root,
                           const golden_file_model *model, golden_file *out) {
  const sn_json *rows = sn_json_get(root, "input_ids");
  reading r = {ctx, path, root, model, out};
  *out = (golden_file){.batch = (int64_t)sn_json_size(rows),
                       .length = (int64_t)sn_json_size(sn_json_at(rows, 0))};
  SN_TRY(read_ids(&r, "input_ids", &out->ids));
  SN_TRY(read_ids(&r, "labels", &out->labels));
  SN_TRY(read_number(&r, "loss", &out->loss));
  SN_TRY(read_logits(&r));
  SN_TRY(read_grads(&r));
  return read_greedy(&r);
}

void golden_file_free(golden_file *g) {
  free(g->ids);
  free(g->labels);
  *g = (golden_file){0};
}

double golden_file_number(const sn_json *array, int64_t i) {
  double x = 0;
  (void)sn_json_number(sn_json_at(array, (size_t)i), &x);
  return x;
}

int64_t golden_file_id(const sn_json *array, int64_t i) {
  int64_t id = 0;
  (void)sn_json_int(sn_json_at(array, (size_t)i), &id);
  return id;
}
