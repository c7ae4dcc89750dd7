/* The e-graph by itself: union-find, hash-consing, types, congruence after a deferred rebuild. */
#include "opt/egraph.h"
#include "support/test.h"

typedef struct bench {
  sn_ctx *ctx;
  sn_graph *g;
  egraph e;
} bench;

static bool start(bench *b) {
  *b = (bench){0};
  return CHECK(sn_ctx_create(NULL, &b->ctx) == SN_OK) &&
         CHECK(graph_create(b->ctx, op_table_get(), &b->g) == SN_OK) &&
         CHECK(egraph_init(&b->e, b->g, b->g->table) == SN_OK);
}

static void end(bench *b) {
  egraph_end(&b->e);
  sn_graph_destroy(b->g);
  sn_ctx_destroy(b->ctx);
}

static class_id leaf(bench *b, const char *name, sn_shape shape) {
  attrs_input a;
  memset(&a, 0, sizeof a);
  a.name = graph_intern(b->g, name);
  a.dtype = SN_F32;
  a.shape = shape;
  return egraph_add(&b->e, OP_input, NULL, 0, &a, NULL, true);
}

static class_id apply(bench *b, int op, class_id x, class_id y) {
  class_id in[2] = {x, y};
  return egraph_add(&b->e, op, in, y ? 2 : 1, "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", NULL, true);
}

TEST(equal_nodes_are_one) {
  bench b;
  if (start(&b)) {
    class_id x = leaf(&b, "x", SN_SHAPE(2, 3)), y = leaf(&b, "y", SN_SHAPE(2, 3));
    CHECK(x != y);
    CHECK_EQ_UINT(apply(&b, OP_add, x, y), apply(&b, OP_add, x, y));
    CHECK_EQ_UINT(apply(&b, OP_add, x, y), apply(&b, OP_add, y, x)); /* a sum has no order */
    CHECK(apply(&b, OP_sub, x, y) != apply(&b, OP_sub, y, x));
    CHECK(apply(&b, OP_neg, x, 0) != apply(&b, OP_abs, x, 0));
  }
  end(&b);
}

TEST(types_that_differ_never_merge) {
  bench b;
  if (start(&b)) {
    class_id x = leaf(&b, "x", SN_SHAPE(2, 3)), y = leaf(&b, "y", SN_SHAPE(3, 2));
    CHECK(!egraph_merge(&b.e, x, y));
    CHECK(egraph_find(&b.e, x) != egraph_find(&b.e, y));
    CHECK_EQ_UINT(apply(&b, OP_add, x, y), 0); /* infer refuses; no error */
    CHECK(b.e.status == SN_OK && b.g->status == SN_OK);
  }
  end(&b);
}

TEST(congruence_comes_with_the_rebuild) {
  bench b;
  if (start(&b)) {
    class_id x = leaf(&b, "x", SN_SHAPE(4)), y = leaf(&b, "y", SN_SHAPE(4)),
             z = leaf(&b, "z", SN_SHAPE(4));
    class_id fx = apply(&b, OP_exp, x, 0), fy = apply(&b, OP_exp, y, 0);
    class_id gx = apply(&b, OP_mul, fx, z), gy = apply(&b, OP_mul, fy, z);
    class_id hx = apply(&b, OP_neg, gx, 0), hy = apply(&b, OP_neg, gy, 0);
    CHECK(egraph_merge(&b.e, x, y));
    CHECK(egraph_find(&b.e, fx) != egraph_find(&b.e, fy)); /* deferred */
    egraph_rebuild(&b.e);
    CHECK_EQ_UINT(egraph_find(&b.e, fx), egraph_find(&b.e, fy));
    CHECK_EQ_UINT(egraph_find(&b.e, gx), egraph_find(&b.e, gy));
    CHECK_EQ_UINT(egraph_find(&b.e, hx), egraph_find(&b.e, hy));
    CHECK_EQ_UINT(apply(&b, OP_exp, y, 0), egraph_find(&b.e, fx)); /* found under either name */
    int live = 0;
    for (const enode *n = egraph_class(&b.e, hx)->first; n; n = n->next)
      live += !n->dead;
    CHECK_EQ_INT(live, 1);
  }
  end(&b);
}

TEST(many_merges_of_a_chain) {
  enum { N = 3000 };
  bench b;
  if (start(&b)) {
    static class_id x[N], y[N];
    x[0] = leaf(&b, "x", SN_SHAPE(4));
    y[0] = leaf(&b, "y", SN_SHAPE(4));
    for (int i = 1; i < N; i++) {
      x[i] = apply(&b, i % 2 ? OP_exp : OP_neg, x[i - 1], 0);
      y[i] = apply(&b, i % 2 ? OP_exp : OP_neg, y[i - 1], 0);
    }
    CHECK(egraph_merge(&b.e, x[0], y[0]));
    egraph_rebuild(&b.e);
    for (int i = 0; i < N; i++)
      if (egraph_find(&b.e, x[i]) != egraph_find(&b.e, y[i])) {
        FAIL("%d", i);
        break;
      }
  }
  end(&b);
}

TEST(facts_follow_merges) {
  bench b;
  if (start(&b)) {
    sn_type type = {SN_F32, SN_SHAPE(2)};
    class_id x = leaf(&b, "x", SN_SHAPE(2)), c = egraph_uniform(&b.e, &type, 0.1);
    CHECK(egraph_class(&b.e, c)->uniform && egraph_class(&b.e, c)->value == (double)0.1f);
    CHECK(!egraph_class(&b.e, x)->uniform);
    CHECK(egraph_merge(&b.e, x, c));
    egraph_rebuild(&b.e);
    CHECK(egraph_class(&b.e, x)->uniform && egraph_class(&b.e, x)->constant);
  }
  end(&b);
}

TEST(a_full_egraph_refuses) {
  bench b;
  if (start(&b)) {
    class_id x = leaf(&b, "x", SN_SHAPE(2));
    b.e.max_nodes = 1;
    CHECK_EQ_UINT(apply(&b, OP_exp, x, 0), 0);
    CHECK(b.e.full && b.e.status == SN_OK);
  }
  end(&b);
}
