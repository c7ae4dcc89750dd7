/* Recomputation (sn_recompute): the same gradients, bit for bit, from values that are computed again instead
 * of kept. */
#include "ops/table.h"
#include "ref/ref.h"
#include "support/fault.h"
#include "support/fixture.h"
#include "support/graph_run.h"
#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>

enum { VOCAB = 11, WIDTH = 8, HEADS = 2, TOKENS = 24, MAX_PARAMETERS = 64 };

typedef struct model {
  int blocks;
  bool marked, dropout;
  sn_value parameters[MAX_PARAMETERS], key, loss;
  int n;
} model;

static sn_value parameter(sn_graph *g, model *m, const char *name, sn_shape shape) {
  sn_value w = sn_state(g, name, SN_F32, shape, SN_INIT_NORMAL, 0.5);
  return m->parameters[m->n++] = w;
}

static sn_value named(sn_graph *g, model *m, int block, const char *name, sn_shape shape) {
  char full[64];
  snprintf(full, sizeof full, "%d.%s", block, name);
  return parameter(g, m, full, shape);
}

/* x + attention(norm(x)), then + mlp(norm(…)), with dropout in both. */
static sn_value block(sn_graph *g, model *m, int i, sn_value x) {
  sn_value n = sn_rms_norm(g, x, named(g, m, i, "norm", SN_SHAPE(WIDTH)), SN_NONE, 1, 1e-5);
  sn_value qkv = sn_matmul(g, n, named(g, m, i, "qkv", SN_SHAPE(WIDTH, 3 * WIDTH)), false, false);
  sn_value a = sn_attention_packed(g, qkv, HEADS, HEADS, 0.5, SN_CAUSAL_END, 0);
  if (m->dropout)
    a = sn_dropout(g, a, m->key, 0.3, SN_AUTO);
  x = sn_add(g, x, sn_matmul(g, a, named(g, m, i, "o", SN_SHAPE(WIDTH, WIDTH)), false, false));
  sn_value h = sn_layer_norm(g, x, SN_NONE, SN_NONE, 1, 1e-5);
  h = sn_gelu(g, sn_matmul(g, h, named(g, m, i, "up", SN_SHAPE(WIDTH, 4 * WIDTH)), false, false));
  h = sn_matmul(g, h, named(g, m, i, "down", SN_SHAPE(4 * WIDTH, WIDTH)), false, false);
  if (m->dropout)
    h = sn_dropout(g, h, m->key, 0.3, SN_AUTO);
  return sn_add(g, x, h);
}

/* Marked: at the end of each block, the last aside, which is what the backward pass starts with. */
static void build(sn_graph *g, model *m) {
  m->key = sn_random_key(g, "key");
  sn_value ids = sn_input(g, "ids", SN_I32, SN_SHAPE(1, TOKENS));
  sn_value x = sn_gather(g, parameter(g, m, "embed", SN_SHAPE(VOCAB, WIDTH)), ids);
  x = sn_add(g, x, parameter(g, m, "position", SN_SHAPE(TOKENS, WIDTH)));
  for (int i = 0; i < m->blocks; i++) {
    x = block(g, m, i, x);
    if (m->marked && i + 1 < m->blocks)
      x = sn_recompute(g, x);
  }
  sn_value logits = sn_matmul(g, x, parameter(g, m, "head", SN_SHAPE(WIDTH, VOCAB)), false, false);
  sn_value labels = sn_input(g, "labels", SN_I32, SN_SHAPE(1, TOKENS));
  m->loss = sn_cross_entropy(g, logits, labels, -1, 0, SN_REDUCTION_MEAN);
}

/* Loss and gradients of two runs, one behind the other; *out_peak: bytes live at most during a run. */
static float *train(model *m, size_t *out_size, size_t *out_peak) {
  fault_heap heap = {0};
  fixture f = {.ctx = fault_ctx(&heap)};
  sn_value grads[MAX_PARAMETERS];
  size_t size = sizeof(float);
  float *bytes = NULL;
  CHECK(sn_graph_create(f.ctx, &f.g) == SN_OK && sn_store_create(f.ctx, &f.store) == SN_OK);
  build(f.g, m);
  CHECK_EQ_INT(sn_grad(f.g, m->loss, m->parameters, m->n, grads), SN_OK);
  sn_output(f.g, "loss", m->loss);
  for (int i = 0; i < m->n; i++)
    sn_output(f.g, sn_value_name(f.g, m->parameters[i]), grads[i]);
  int32_t ids[TOKENS], labels[TOKENS];
  for (int i = 0; i < TOKENS; i++) {
    ids[i] = (3 * i + 1) % VOCAB;
    labels[i] = (5 * i * i + 2) % VOCAB;
  }
  /* The reference holds what is alive and no more, so its peak shows what the graph keeps. */
  sn_session_options on_ref = {.device = "ref"};
  if (fixture_ready(&f, &on_ref) &&
      CHECK(sn_session_write(f.session, "ids", ids, sizeof ids) == SN_OK) &&
      CHECK(sn_session_write(f.session, "labels", labels, sizeof labels) == SN_OK)) {
    for (int i = 0; i < m->n; i++) {
      sn_entry e;
      CHECK_EQ_INT(sn_store_find(f.store, sn_value_name(f.g, m->parameters[i]), &e), SN_OK);
      size += e.size;
    }
    bytes = calloc(2, size);
    for (int run = 0; bytes && run < 2; run++) {
      char *at = (char *)bytes + (size_t)run * size;
      size_t before = heap.bytes;
      heap.peak = before;
      CHECK(fixture_run(&f));
      *out_peak = heap.peak - before;
      for (int i = 0; i <= m->n; i++) {
        sn_entry e = {.size = sizeof(float)};
        const char *name = i ? sn_value_name(f.g, m->parameters[i - 1]) : "loss";
        CHECK(i == 0 || sn_store_find(f.store, name, &e) == SN_OK);
        CHECK_EQ_INT(sn_session_read(f.session, name, at, e.size), SN_OK);
        at += e.size;
      }
    }
  }
  fixture_end(&f);
  CHECK_EQ_INT(heap.blocks, 0);
  *out_size = 2 * size;
  return bytes;
}

static void check_equal(int blocks, bool dropout, double peak_at_most) {
  model kept = {.blocks = blocks, .dropout = dropout};
  model again = {.blocks = blocks, .dropout = dropout, .marked = true};
  size_t size, size_again, peak, peak_again;
  float *a = train(&kept, &size, &peak), *b = train(&again, &size_again, &peak_again);
  if (CHECK(a && b && size == size_again)) {
    CHECK_EQ_MEM(a, b, size);
    CHECK(a[0] > 0.1f && a[1] != 0 && a[size / sizeof *a / 2 - 1] != 0);
    /* The runs differ where there is dropout, and only there: the loss is no constant. */
    CHECK((a[0] != a[size / sizeof *a / 2]) == dropout);
    if (!((double)peak_again <= peak_at_most * (double)peak))
      FAIL("%d blocks: %zu bytes at most, %zu when recomputed", blocks, peak, peak_again);
  }
  free(a);
  free(b);
}

TEST(the_same_gradients_bit_by_bit) {
  check_equal(2, false, 1);
  check_equal(3, false, 1);
}

TEST(dropout_drops_the_same_again) { check_equal(3, true, 1); }

TEST(the_peak_falls) { check_equal(8, true, 0.6); }

/* --- what the graph looks like --- */

typedef struct parts {
  uint32_t n_forward;
  bool *before; /* by node of the forward pass: lies before a boundary, is none and no leaf */
  bool *live;
} parts;

static bool look(sn_graph *g, model *m, parts *p) {
  sn_value grads[MAX_PARAMETERS];
  build(g, m);
  p->n_forward = g->n_nodes;
  p->before = calloc(g->n_nodes, sizeof *p->before);
  for (uint32_t i = g->n_nodes; p->before && i-- > 0;)
    for (int k = 0; k < g->nodes[i].n_in; k++) {
      const node *from = graph_node(g, g->nodes[i].in[k]);
      if ((p->before[i] || g->nodes[i].boundary) && from->n_in && !from->boundary)
        p->before[from - g->nodes] = true;
    }
  bool ok = CHECK(sn_grad(g, m->loss, m->parameters, m->n, grads) == SN_OK);
  char name[32];
  for (int i = 0; i < m->n; i++) {
    snprintf(name, sizeof name, "g%d", i);
    sn_output(g, name, grads[i]);
  }
  p->live = calloc(g->n_nodes, sizeof *p->live);
  if (ok && p->live)
    graph_mark_live(g, p->live);
  return ok && CHECK(p->before && p->live);
}

/* Live nodes of the backward pass that read a value which should have died. */
static int stale_reads(const sn_graph *g, const parts *p) {
  int n = 0;
  for (uint32_t i = p->n_forward; i < g->n_nodes; i++)
    for (int k = 0; p->live[i] && k < g->nodes[i].n_in; k++) {
      uint32_t v = g->nodes[i].in[k].id, from = g->values[v].node;
      n += v && from < p->n_forward && p->before[from];
    }
  return n;
}

static int count_live(const sn_graph *g, const parts *p, int op, uint32_t from) {
  int n = 0;
  for (uint32_t i = from; i < g->n_nodes; i++)
    n += p->live[i] && g->nodes[i].op == op;
  return n;
}

/* Each waits for a gradient. What is held back of a node on leaves only is its smallest argument, so of
 * the embedding the ids and not the table. */
static void check_barriers(const sn_graph *g, const parts *p) {
  for (uint32_t i = p->n_forward; i < g->n_nodes; i++) {
    const node *n = &g->nodes[i];
    if (!p->live[i] || n->op != OP_barrier)
      continue;
    CHECK(n->in[1].id && g->values[n->in[1].id].node >= p->n_forward);
    const node *from = graph_node(g, n->in[0]);
    CHECK(from->boundary || from->op == OP_input);
  }
}

TEST(nothing_in_the_backward_pass_reads_what_should_have_died) {
  graph_run r;
  model m = {.blocks = 4, .marked = true, .dropout = true};
  parts p;
  REQUIRE(graph_run_start(&r));
  if (look(r.g, &m, &p)) {
    CHECK_EQ_INT(stale_reads(r.g, &p), 0);
    /* Three blocks of four again, the first with its embedding, and no more than that. */
    CHECK_EQ_INT(count_live(r.g, &p, OP_attention, p.n_forward), 3);
    CHECK_EQ_INT(count_live(r.g, &p, OP_gather, p.n_forward), 1);
    /* One barrier for each segment's one way in: ids and two boundaries; the keys are leaves. */
    CHECK_EQ_INT(count_live(r.g, &p, OP_barrier, 0), 3);
    check_barriers(r.g, &p);
    CHECK_EQ_INT(sn_graph_verify(r.g), SN_OK);
  }
  free(p.before);
  free(p.live);
  graph_run_end(&r);
}

/* The check itself: without marks the backward pass does read the forward one. */
TEST(without_marks_nothing_is_computed_again) {
  graph_run r;
  model m = {.blocks = 4};
  parts p;
  REQUIRE(graph_run_start(&r));
  if (look(r.g, &m, &p)) {
    CHECK_EQ_INT(count_live(r.g, &p, OP_attention, p.n_forward), 0);
    CHECK_EQ_INT(count_live(r.g, &p, OP_barrier, 0), 0);
    for (uint32_t i = 0; i < p.n_forward; i++)
      p.before[i] = r.g->nodes[i].n_in > 0;
    CHECK(stale_reads(r.g, &p) > 20);
  }
  free(p.before);
  free(p.live);
  graph_run_end(&r);
}

/* --- odd places for marks --- */

typedef enum mark_at { NOWHERE, LEAF, LOSS, ASIDE, ALL, RESULT_1, ACROSS, PLACES } mark_at;

/* A small net with a value that jumps over a boundary, an op of two results, and a side branch. */
static sn_value odd_loss(graph_run *r, mark_at where, sn_value *x) {
  sn_graph *g = r->g;
  *x = sn_input(g, "x", SN_F32, SN_SHAPE(3, 5));
  sn_value h = sn_tanh(g, sn_affine(g, *x, 2, 0.1)), skip = sn_exp(g, h);
  sn_value top = sn_topk(g, skip, 3, 1, true);
  sn_value index = sn_cast(g, sn_value_result(g, top, 1), SN_F32);
  sn_value mid = sn_mul(g, sn_sqr(g, top), sn_affine(g, index, 1, 1));
  sn_value late = sn_sum(g, sn_sin(g, mid), SN_INTS(1), true), aside = sn_cos(g, late);
  sn_value loss = sn_sum(g, sn_mul(g, late, skip), SN_ALL_AXES, false);
  const sn_value marks[PLACES] = {[LEAF] = *x,
                                  [LOSS] = loss,
                                  [ASIDE] = aside,
                                  [ALL] = *x,
                                  [RESULT_1] = sn_value_result(g, top, 1),
                                  [ACROSS] = late};
  if (where != NOWHERE)
    (void)sn_recompute(g, marks[where]);
  for (uint32_t i = 0; where == ALL && i < g->n_nodes; i++)
    (void)sn_recompute(g, node_result(&g->nodes[i], 0));
  return loss;
}

TEST(marks_in_odd_places) {
  double want[15];
  for (mark_at where = NOWHERE; where < PLACES; where++) {
    graph_run r;
    sn_value x, dx, dloss[2];
    REQUIRE(graph_run_start(&r));
    sn_value loss = odd_loss(&r, where, &x);
    REQUIRE(sn_grad(r.g, loss, &x, 1, &dx) == SN_OK);
    sn_output(r.g, "dx", dx);
    /* Again on the same graph, and once more through what the first sweep built. */
    CHECK_EQ_INT(sn_grad(r.g, loss, &x, 1, &dloss[0]), SN_OK);
    sn_value second = sn_sum(r.g, sn_sqr(r.g, dx), SN_ALL_AXES, false);
    CHECK_EQ_INT(sn_grad(r.g, second, &x, 1, &dloss[1]), SN_OK);
    sn_output(r.g, "again", dloss[0]);
    sn_output(r.g, "second", dloss[1]);
    REQUIRE(graph_run_execute(&r, NULL));
    if (where == NOWHERE)
      memcpy(want, r.out[0].data, sizeof want);
    CHECK_EQ_MEM(r.out[0].data, want, sizeof want);
    CHECK_EQ_MEM(r.out[1].data, want, sizeof want);
    static double second_want[15];
    if (where == NOWHERE)
      memcpy(second_want, r.out[2].data, sizeof want);
    for (int i = 0; i < 15; i++)
      CHECK_NEAR(r.out[2].data[i], second_want[i], 1e-9 * (1 + second_want[i] * second_want[i]));
    graph_run_end(&r);
  }
  CHECK(want[0] != 0);
}

/* What is used on the far side of its boundary has to live, so it is not computed again. */
TEST(a_value_that_jumps_over_a_boundary_is_kept) {
  graph_run r;
  sn_value x, dx;
  REQUIRE(graph_run_start(&r));
  sn_value loss = odd_loss(&r, ACROSS, &x);
  uint32_t n_forward = r.g->n_nodes;
  REQUIRE(sn_grad(r.g, loss, &x, 1, &dx) == SN_OK);
  sn_output(r.g, "dx", dx);
  bool *live = calloc(r.g->n_nodes, sizeof *live);
  REQUIRE(live != NULL);
  graph_mark_live(r.g, live);
  parts p = {.n_forward = n_forward, .live = live};
  CHECK_EQ_INT(count_live(r.g, &p, OP_exp, n_forward), 0);
  CHECK_EQ_INT(count_live(r.g, &p, OP_topk, n_forward), 1);
  CHECK_EQ_INT(count_live(r.g, &p, OP_tanh, n_forward), 1);
  free(live);
  graph_run_end(&r);
}

/* What two segments use belongs to the earlier one: it is computed again when the gradient has come that
 * far, not before. */
TEST(each_segment_waits_for_its_own_gradient) {
  graph_run r;
  REQUIRE(graph_run_start(&r));
  sn_graph *g = r.g;
  sn_value x = sn_input(g, "x", SN_F32, SN_SHAPE(3)), skip = sn_exp(g, sn_tanh(g, x));
  sn_value first = sn_recompute(g, sn_sin(g, skip));
  sn_value second = sn_recompute(g, sn_mul(g, sn_cos(g, first), skip));
  sn_value loss = sn_sum(g, sn_sqr(g, second), SN_ALL_AXES, false);
  sn_value wrt[3] = {x, first, second}, grads[3];
  uint32_t n_forward = g->n_nodes;
  REQUIRE(sn_grad(g, loss, wrt, 3, grads) == SN_OK);
  int of_x = 0, of_first = 0;
  for (uint32_t i = n_forward; i < g->n_nodes; i++)
    if (g->nodes[i].op == OP_barrier && g->nodes[i].in[0].id == x.id) {
      of_x++;
      CHECK_EQ_INT(g->nodes[i].in[1].id, grads[1].id);
    } else if (g->nodes[i].op == OP_barrier && g->nodes[i].in[0].id == first.id) {
      of_first++;
      CHECK_EQ_INT(g->nodes[i].in[1].id, grads[2].id);
    }
  CHECK(of_x == 1 && of_first == 1);
  graph_run_end(&r);
}

TEST(sizes_may_be_symbols) {
  double want[10];
  for (int marked = 0; marked < 2; marked++) {
    graph_run r;
    sn_value dx;
    REQUIRE(graph_run_start(&r));
    sn_graph *g = r.g;
    sn_value x = sn_input(g, "x", SN_F32, SN_SHAPE(sn_symbol(g, "n", 7), 2));
    sn_value y = sn_softmax(g, sn_exp(g, sn_tanh(g, x)), 0);
    if (marked)
      y = sn_recompute(g, y);
    sn_value loss = sn_sum(g, sn_sqr(g, y), SN_ALL_AXES, false);
    REQUIRE(sn_grad(g, loss, &x, 1, &dx) == SN_OK);
    sn_output(g, "dx", dx);
    REQUIRE(graph_run_execute(&r, (int64_t[]){5}));
    if (!marked)
      memcpy(want, r.out[0].data, sizeof want);
    CHECK_EQ_MEM(r.out[0].data, want, sizeof want);
    CHECK(graph_run_execute(&r, (int64_t[]){0}));
    graph_run_end(&r);
  }
}
