/* Batches of tokens: every window once an epoch, in another order each time, as a function of the index. */
#include "support/test.h"

#include <sinew/train.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 4096 };

static int32_t text[MOST]; /* token i is i, so that ids tell where they come from */

static sn_token_data data_of(int64_t n, int64_t context, int64_t batch, uint64_t seed) {
  for (int i = 0; i < MOST; i++)
    text[i] = i;
  return (sn_token_data){text, n, context, batch, seed};
}

/* Windows in an epoch, where batches are of one row. */
static int64_t windows_of(sn_token_data d) {
  d.batch = 1;
  return sn_token_epoch(&d);
}

static void row_of(const sn_token_data *d, int64_t row, int32_t *ids, int32_t *labels) {
  sn_token_data one = *d;
  one.batch = 1;
  sn_token_batch(&one, row, ids, labels);
}

/* Marks where each window of an epoch starts; all on one grid, inside the text, each once. */
static void check_epoch(const sn_token_data *d, int64_t epoch) {
  int64_t w = windows_of(*d), first = d->n;
  char *seen = calloc((size_t)d->n + 1, 1);
  int32_t ids[MOST], labels[MOST];
  for (int64_t i = 0; i < w; i++) {
    row_of(d, epoch * w + i, ids, labels);
    if (!CHECK(ids[0] >= 0 && labels[d->context - 1] < d->n))
      break;
    for (int64_t t = 0; t < d->context; t++)
      CHECK(ids[t] == ids[0] + t && labels[t] == ids[t] + 1);
    CHECK_EQ_INT(seen[ids[0]]++, 0);
    first = ids[0] < first ? ids[0] : first;
  }
  for (int64_t i = 0; i < w; i++)
    CHECK_EQ_INT(seen[first + i * d->context], 1);
  free(seen);
}

TEST(every_window_once_an_epoch) {
  static const int64_t sizes[][2] = {{4096, 7}, {1000, 10}, {1001, 10}, {1009, 10},
                                     {33, 16},  {32, 16},   {31, 16},   {17, 16},
                                     {2, 1},    {3, 1},     {65, 1},    {64, 1}};
  for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++)
    for (uint64_t seed = 0; seed < 3; seed++) {
      sn_token_data d = data_of(sizes[k][0], sizes[k][1], 1, seed);
      for (int64_t epoch = 0; epoch < 4; epoch++)
        check_epoch(&d, epoch);
      if (test_failed()) {
        FAIL("%d tokens, context %d", (int)d.n, (int)d.context);
        return;
      }
    }
}

/* Nearly all of the text is seen. */
TEST(epochs_cover_the_text) {
  sn_token_data d = data_of(4096, 16, 1, 3);
  CHECK(windows_of(d) * d.context > d.n - 2 * d.context);
  char seen[MOST] = {0};
  int32_t ids[16], labels[16];
  for (int64_t i = 0; i < 40 * windows_of(d); i++) {
    row_of(&d, i, ids, labels);
    memset(seen + ids[0], 1, 16);
  }
  int missed = 0;
  for (int i = 0; i < MOST; i++)
    missed += !seen[i];
  CHECK(missed < 8);
}

static int equal_rows(const sn_token_data *a, int64_t from_a, const sn_token_data *b,
                      int64_t from_b, int64_t n) {
  int32_t x[64], y[64], labels[64];
  int equal = 0;
  for (int64_t i = 0; i < n; i++) {
    row_of(a, from_a + i, x, labels);
    row_of(b, from_b + i, y, labels);
    equal += x[0] == y[0];
  }
  return equal;
}

TEST(epochs_and_seeds_differ) {
  sn_token_data a = data_of(4000, 8, 1, 1), b = data_of(4000, 8, 1, 2);
  int64_t w = windows_of(a);
  CHECK(equal_rows(&a, 0, &a, w, w) < w / 20);
  CHECK(equal_rows(&a, w, &a, 2 * w, w) < w / 20);
  CHECK(equal_rows(&a, 0, &b, 0, w) < w / 20);
  CHECK(equal_rows(&a, 0, &a, 0, w) == w);
}

/* Shuffled: neighbours in an epoch are not neighbours in the text. */
TEST(order_is_shuffled) {
  sn_token_data d = data_of(4096, 4, 1, 9);
  int32_t a[4], b[4], labels[4];
  int64_t w = windows_of(d);
  int follows = 0;
  for (int64_t i = 0; i + 1 < w; i++) {
    row_of(&d, i, a, labels);
    row_of(&d, i + 1, b, labels);
    follows += b[0] == a[0] + 4;
  }
  CHECK(follows < 20);
}

/* Batch k is rows k·batch …, whatever was asked for before. */
TEST(batch_is_a_function_of_its_index) {
  sn_token_data d = data_of(1000, 8, 5, 4);
  int32_t ids[40], labels[40], again[40], again_labels[40], row[8], row_labels[8];
  for (int64_t index = 70; index >= 0; index -= 7) {
    sn_token_batch(&d, index, ids, labels);
    for (int b = 0; b < 5; b++) {
      row_of(&d, index * 5 + b, row, row_labels);
      CHECK_EQ_MEM(ids + 8 * b, row, sizeof row);
      CHECK_EQ_MEM(labels + 8 * b, row_labels, sizeof row);
    }
    sn_token_batch(&d, index, again, again_labels);
    CHECK_EQ_MEM(ids, again, sizeof ids);
    CHECK_EQ_MEM(labels, again_labels, sizeof ids);
  }
  CHECK_EQ_INT(sn_token_epoch(&d), (windows_of(d) + 4) / 5);
}

TEST(too_little_data) {
  int32_t ids[4] = {7, 7, 7, 7}, labels[4] = {7, 7, 7, 7};
  static const int64_t sizes[][3] = {{4, 4, 1}, {3, 4, 1}, {0, 4, 1},
                                     {9, 0, 1}, {9, 4, 0}, {9, -4, 1}};
  for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
    sn_token_data d = data_of(sizes[k][0], sizes[k][1], sizes[k][2], 0);
    CHECK_EQ_INT(sn_token_epoch(&d), 0);
    sn_token_batch(&d, 3, ids, labels);
    CHECK_EQ_INT(ids[0], 7);
  }
}

/* More rows in a batch than there are windows: epochs follow each other within it. */
TEST(batch_larger_than_an_epoch) {
  sn_token_data d = data_of(9, 4, 16, 0);
  int32_t ids[64], labels[64];
  CHECK_EQ_INT(sn_token_epoch(&d), 1);
  sn_token_batch(&d, 0, ids, labels);
  for (int i = 0; i < 64; i++)
    CHECK(ids[i] >= 0 && ids[i] < 8 && labels[i] == ids[i] + 1);
}

/* Any index stays inside the text. */
TEST(far_indices) {
  static const int64_t far[] = {INT64_MAX, INT64_MAX / 2, -1, INT64_MIN, INT64_C(1) << 40};
  sn_token_data d = data_of(100, 8, 4, 2);
  int32_t ids[32], labels[32];
  for (size_t k = 0; k < sizeof far / sizeof *far; k++) {
    sn_token_batch(&d, far[k], ids, labels);
    for (int i = 0; i < 32; i++)
      CHECK(ids[i] >= 0 && ids[i] < 99 && labels[i] == ids[i] + 1);
  }
}
