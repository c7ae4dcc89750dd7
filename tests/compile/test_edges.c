/* Products at the edges of tiles: matmuls, convolutions and attention with their gradients, of sizes around those that kernels are
 * made of, against the reference, on SINEW_TEST_DEVICE with SINEW_TEST_PRECISION. And states that change between runs: what a
 * device has derived from them must change, too. */
#include "support/chosen.h"
#include "support/golden.h"
#include "support/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* States a and b, the output y and, with gradients, those of both. */
typedef struct product {
  int kind; /* 0: a b; 1: a b'; 2: a' b; 3, 4: convolution of that stride less 2; 5: attention of a with keys and values b */
  int64_t m, n, k;
  bool gradients;
  bool runs; /* every run computes it, not only the first */
} product;

static void build(sn_graph *g, const product *p) {
  int64_t m = p->m, n = p->n, k = p->k;
  bool conv = p->kind == 3 || p->kind == 4;
  sn_shape a = p->kind == 2 ? SN_SHAPE(k, m) : SN_SHAPE(m, k),
           b = p->kind == 1 ? SN_SHAPE(n, k) : SN_SHAPE(k, n);
  if (conv) {
    a = SN_SHAPE(2, k, m, 5);
    b = SN_SHAPE(n, k, 3, 3);
  } else if (p->kind == 5) {
    a = SN_SHAPE(1, 2, m, k);
    b = SN_SHAPE(1, 2, n, k);
  }
  sn_value x = sn_state(g, "a", SN_F32, a, SN_INIT_NORMAL, 1),
           w = sn_state(g, "b", SN_F32, b, SN_INIT_NORMAL, 1), y;
  if (p->runs) /* or else nothing is left for runs: all of it follows from states */
    x = sn_mul(g, x, sn_input(g, "one", SN_F32, SN_SCALAR));
  if (conv)
    y = sn_conv(g, x, w, SN_NONE, SN_INTS(p->kind - 2, p->kind - 2), SN_INTS(1, 1), SN_INTS(1, 1),
                SN_INTS(1, 1), 1);
  else if (p->kind == 5)
    y = sn_attention(g, x, w, w, SN_NONE, SN_NONE, SN_NONE, SN_NONE, 0.25, 0, SN_CAUSAL_NONE, 0,
                     SN_LAYOUT_BHSD);
  else
    y = sn_matmul(g, x, w, p->kind == 2, p->kind == 1);
  sn_output(g, "y", y);
  sn_value flat = sn_reshape(g, y, SN_SHAPE(-1));
  sn_value grads[2], loss = sn_sum(g, sn_mul(g, flat, flat), SN_INTS(0), false);
  if (p->gradients && CHECK(sn_grad(g, loss, (sn_value[]){x, w}, 2, grads) == SN_OK)) {
    sn_output(g, "da", grads[0]);
    sn_output(g, "db", grads[1]);
  }
}

enum { OUTPUTS = 3 };
static const char *const names[OUTPUTS] = {"y", "da", "db"};

/* A run; outputs to be freed. */
static bool run(sn_session *s, int n, float **out, size_t *counts) {
  float one = 1;
  if (sn_session_find_input(s, "one") >= 0 &&
      !CHECK(sn_session_write(s, "one", &one, sizeof one) == SN_OK))
    return false;
  if (!CHECK(sn_session_run(s) == SN_OK))
    return false;
  for (int i = 0; i < n; i++) {
    sn_type type;
    counts[i] = 1;
    if (!CHECK(sn_session_output_type(s, i, &type) == SN_OK))
      return false;
    for (int d = 0; d < type.shape.rank; d++)
      counts[i] *= (size_t)type.shape.dim[d];
    out[i] = malloc(counts[i] * sizeof(float) + 1);
    if (!CHECK(out[i]) ||
        !CHECK(sn_session_read(s, names[i], out[i], counts[i] * sizeof(float)) == SN_OK))
      return false;
  }
  return true;
}

/* The largest difference, as a share of the largest number. */
static double difference(const float *x, const float *y, size_t n) {
  double most = 0, worst = 0;
  for (size_t i = 0; i < n; i++) {
    most = fmax(most, fabs((double)y[i]));
    worst = fmax(worst, fabs((double)x[i] - (double)y[i]));
    if (isnan(x[i]) != isnan(y[i]))
      return INFINITY;
  }
  return most > 0 ? worst / most : worst;
}

static void compare(const product *p, sn_session *const *s, const char *when) {
  float *out[2][OUTPUTS] = {{0}};
  size_t counts[OUTPUTS] = {0};
  int n = p->gradients ? OUTPUTS : 1;
  double bound = fmax(1e-5, precision_tolerance(chosen_precision()));
  bool ok = true;
  for (int d = 0; d < 2 && ok; d++)
    ok = run(s[d], n, out[d], counts);
  for (int i = 0; i < n && ok; i++) {
    double error = difference(out[0][i], out[1][i], counts[i]);
    if (!(error < bound))
      FAIL("kind %d, %d x %d x %d, %s: %s is off by %.3g", p->kind, (int)p->m, (int)p->n, (int)p->k,
           when, names[i], error);
  }
  for (int i = 0; i < 2 * OUTPUTS; i++)
    free(out[i / OUTPUTS][i % OUTPUTS]);
}

/* One element of a becomes an infinity. */
static bool spoil(sn_store *store, const product *p) {
  size_t bytes = (size_t)(p->kind == 5  ? 2 * p->m * p->k
                          : p->kind > 2 ? 10 * p->m * p->k
                                        : p->m * p->k) *
                 sizeof(float);
  float *a = malloc(bytes);
  bool ok = CHECK(a) && CHECK(sn_store_read(store, "a", a, bytes) == SN_OK);
  if (ok) {
    a[bytes / sizeof(float) / 2] = INFINITY;
    ok = CHECK(sn_store_write(store, "a", a, bytes) == SN_OK);
  }
  free(a);
  return ok;
}

/* The device beside the reference; then with other numbers, and with an infinity. */
static void check(const product *p) {
  sn_ctx *ctx = NULL;
  sn_graph *g = NULL;
  sn_store *store = NULL;
  sn_session *s[2] = {NULL, NULL};
  sn_session_options of[2] = {{.device = chosen_device(), .precision = chosen_precision()},
                              {.device = "ref"}};
  bool ok = CHECK(sn_ctx_create(NULL, &ctx) == SN_OK) && CHECK(sn_graph_create(ctx, &g) == SN_OK) &&
            CHECK(sn_store_create(ctx, &store) == SN_OK);
  if (ok)
    build(g, p);
  ok = ok && CHECK(sn_graph_status(g) == SN_OK) && CHECK(sn_store_init(store, g, 7) == SN_OK);
  for (int d = 0; d < 2 && ok; d++)
    ok = CHECK(sn_session_create(g, store, &of[d], &s[d]) == SN_OK);
  if (ok)
    compare(p, s, "at first");
  if (ok && CHECK(sn_store_init(store, g, 8) == SN_OK))
    compare(p, s, "after a change");
  if (ok && !p->gradients && spoil(store, p))
    compare(p, s, "with an infinity");
  for (int d = 0; d < 2; d++)
    sn_session_destroy(s[d]);
  sn_store_destroy(store);
  sn_graph_destroy(g);
  sn_ctx_destroy(ctx);
}

static const int64_t sizes[] = {15, 16, 17, 31, 33, 64, 65, 100};
enum { SIZES = sizeof sizes / sizeof *sizes };

/* Every size meets several others on each side. Gradients of attention cancel, so that a single product of 8 bits leaves 3 % of them open:
 * `half` is not asked for those. */
static void check_kind(int kind, int64_t most_m) {
  bool cancels = kind == 5 && chosen_precision() == SN_PRECISION_HALF;
  for (int i = 0; i < SIZES; i++)
    for (int j = 0; j < 2; j++) {
      product p = {
          kind,          sizes[i], sizes[(i + 3 * j + 1) % SIZES], sizes[(5 * i + j) % SIZES],
          j && !cancels, true};
      p.runs = i % 4 != 3;
      p.m = p.m < most_m ? p.m : most_m;
      if (kind == 5) /* heads as models have them */
        p.k = i % 2 ? 64 : 32;
      check(&p);
    }
}

TEST(matmuls) {
  for (int kind = 0; kind < 3; kind++)
    check_kind(kind, 1000);
}
TEST(convolutions) {
  check_kind(3, 17);
  check_kind(4, 17);
}
TEST(attention) { check_kind(5, 100); }
