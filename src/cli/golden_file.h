/* Golden files: what another engine computed for a model, as `sinew check` compares with it (docs/formats.md). A file is
 * checked whole before anything is computed: rows have their lengths, every element is a number, and every name is a weight's. */
#ifndef SINEW_CLI_GOLDEN_FILE_H
#define SINEW_CLI_GOLDEN_FILE_H

#include <sinew/sinew.h>

/* GOLDEN_MID: the row of logits that logits_mid holds. GOLDEN_PROMPT: the ids of greedy_from_8 that are given. */
enum { GOLDEN_MID = 11, GOLDEN_PROMPT = 8 };

/* The model that a file must fit. */
typedef struct golden_file_model {
  int64_t vocab;
  const char *const *weights;
  size_t n_weights;
} golden_file_model;

typedef struct golden_file {
  int64_t batch, length;
  int32_t *ids, *labels; /* [batch, length] each, malloc's */
  double loss, logits_l2;
  /* In the document, which must stay. Arrays of numbers, `vocab` in each row of logits. */
  const sn_json *last; /* an array of `batch` rows */
  const sn_json *mid;
  const sn_json *grads;  /* an object: a number for each weight */
  const sn_json *greedy; /* ids, more than GOLDEN_PROMPT; the first ones are those of `ids` */
} golden_file;

/* `path` is for messages. *out is to be freed after an error too. */
sn_status golden_file_read(sn_ctx *ctx, const char *path, const sn_json *root,
                           const golden_file_model *model, golden_file *out) SN_MUST_USE;
void golden_file_free(golden_file *g);
/* Element i of an array that golden_file_read has found to hold numbers or ids. */
double golden_file_number(const sn_json *array, int64_t i);
int64_t golden_file_id(const sn_json *array, int64_t i);

#endif
