/* rope: what must hold between results, whatever the numbers: the walk (test_table.c) checks
 * those. */
#include "support/op_run.h"
#include "support/test.h"

#include <math.h>
#include <stdio.h>

#define ROWS "rope(f32[3, 2, 10], i32[3]{1, 7, 40}) seq_axis=0 "

static const char *const kinds[] = {
    "",
    "scaling=linear factor=4",
    "scaling=dynamic factor=2 original_length=16",
    "scaling=llama3 factor=8 low=1 high=4 original_length=64",
    "scaling=yarn factor=4 low=1 high=8 original_length=128",
};
static const char *const layouts[] = {"layout=half", "layout=interleaved"};

static bool run(op_run *r, int kind, int layout, const char *rest) {
  char text[256];
  snprintf(text, sizeof text, ROWS "dims=8 base=100 %s %s %s", kinds[kind], layouts[layout], rest);
  return op_run_text(r, text);
}

/* <rope(x), y> = <x, rope_inverse(y)> */
TEST(inverse_is_the_adjoint) {
  for (int i = 0; i < 10; i++) {
    op_run to, back = {0};
    if (run(&to, i / 2, i % 2, "attention_factor=1.25") &&
        run(&back, i / 2, i % 2, "attention_factor=1.25 inverse=true")) {
      double one = 0, other = 0;
      int64_t n = to.out[0].count;
      for (int64_t e = 0; e < n; e++)
        back.in[0].data[e] = case_weight("y", e);
      if (op_run_execute(&back))
        for (int64_t e = 0; e < n; e++) {
          one += to.out[0].data[e] * back.in[0].data[e];
          other += to.in[0].data[e] * back.out[0].data[e];
        }
      CHECK(fabs(one) > 1e-3);
      CHECK_NEAR(one, other, 1e-12);
    }
    op_run_end(&to);
    op_run_end(&back);
  }
}

TEST(inverse_turns_back) {
  for (int i = 0; i < 10; i++) {
    op_run to, back = {0};
    if (run(&to, i / 2, i % 2, "attention_factor=1") &&
        run(&back, i / 2, i % 2, "attention_factor=1 inverse=true")) {
      memcpy(back.in[0].data, to.out[0].data, (size_t)to.out[0].count * sizeof(double));
      if (op_run_execute(&back))
        CHECK_NEAR(op_run_distance(back.out[0].data, to.in[0].data, to.out[0].count), 0, 1e-13);
    }
    op_run_end(&to);
    op_run_end(&back);
  }
}

static double norm(const double *x, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; i++)
    sum += x[i] * x[i];
  return sqrt(sum);
}

/* Rows keep their length, times the magnitude; what lies behind dims passes. */
TEST(turning_keeps_norms_and_the_rest) {
  for (int i = 0; i < 10; i++) {
    op_run r;
    double magnitude = i / 2 == 4 ? 0.1 * log(4) + 1 : 1; /* yarn's own */
    if (run(&r, i / 2, i % 2, ""))
      for (int64_t row = 0; row < 6; row++) {
        const double *x = r.in[0].data + row * 10, *y = r.out[0].data + row * 10;
        CHECK_NEAR(norm(y, 8), magnitude * norm(x, 8), 1e-13);
        CHECK(op_run_distance(x, y, 8) > 0.1);
        CHECK(x[8] == y[8] && x[9] == y[9]);
      }
    op_run_end(&r);
  }
}

/* Element j of the interleaved form is element j/2 (j even) or dims/2 + j/2 of the half form. */
static void interleave(double *to, const double *from) {
  for (int64_t row = 0; row < 6; row++)
    for (int64_t j = 0; j < 10; j++)
      to[row * 10 + j] = from[row * 10 + (j >= 8 ? j : j % 2 * 4 + j / 2)];
}

TEST(layouts_are_permutations_of_each_other) {
  for (int kind = 0; kind < 5; kind++) {
    op_run half, inter = {0};
    double expected[60];
    if (run(&half, kind, 0, "") && run(&inter, kind, 1, "")) {
      interleave(inter.in[0].data, half.in[0].data);
      interleave(expected, half.out[0].data);
      if (op_run_execute(&inter))
        CHECK_NEAR(op_run_distance(inter.out[0].data, expected, 60), 0, 1e-14);
    }
    op_run_end(&half);
    op_run_end(&inter);
  }
}

TEST(position_zero_changes_nothing) {
  for (int kind = 0; kind < 5; kind++) {
    op_run r;
    char text[256];
    snprintf(text, sizeof text,
             "rope(f32[3, 2, 10], i32[3]{0}) seq_axis=0 dims=8 base=100 attention_factor=1 %s",
             kinds[kind]);
    if (op_run_text(&r, text))
      CHECK_NEAR(op_run_distance(r.out[0].data, r.in[0].data, 60), 0, 0);
    op_run_end(&r);
  }
}

/* What attention needs of it: q at m times k at n depends on m - n alone. */
TEST(products_depend_on_distance_alone) {
  double first = NAN;
  for (int m = 5; m < 50; m += 11) {
    op_run q, k = {0};
    char text[128];
    snprintf(text, sizeof text, "rope(f32[1, 8], i32[1]{%d}) seq_axis=0 dims=8 base=100", m);
    if (!op_run_text(&q, text))
      return;
    snprintf(text, sizeof text, "rope(f32[1, 8](-1, 2), i32[1]{%d}) seq_axis=0 dims=8 base=100",
             m - 3);
    double dot = 0;
    if (op_run_text(&k, text))
      for (int i = 0; i < 8; i++)
        dot += q.out[0].data[i] * k.out[0].data[i];
    first = isnan(first) ? dot : first;
    CHECK_NEAR(dot, first, 1e-12);
    op_run_end(&q);
    op_run_end(&k);
  }
}

/* Positions are what counts, not rows: any order, one list for all or one for each batch entry, and
 * along whichever axis. */
TEST(positions_go_with_their_rows) {
  op_run whole, part = {0};
  if (!op_run_text(&whole,
                   "rope(f32[2, 3, 4], i32[2, 3]{4, 0, 9, 2, 8, 1}) seq_axis=1 dims=4 base=100"))
    return;
  for (int row = 0; row < 6; row++) {
    static const int positions[] = {4, 0, 9, 2, 8, 1};
    if (op_run_load(&part, "rope(f32[1, 1, 4], i32[1]) seq_axis=-2 dims=4 base=100")) {
      memcpy(part.in[0].data, whole.in[0].data + row * 4, 4 * sizeof(double));
      part.in[1].data[0] = positions[row];
      if (op_run_execute(&part))
        CHECK_NEAR(op_run_distance(part.out[0].data, whole.out[0].data + row * 4, 4), 0, 0);
    }
    op_run_end(&part);
  }
  op_run_end(&whole);
}
