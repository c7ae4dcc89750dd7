/* Size expressions: canonical form, text, ranges, values, division, limits. Expressions are written as the
 * text form reads them, in a graph with the symbols a, b (to 100) and c (to 7). */
#include "ir/dim.h"

#include "ops/table.h"
#include "support/test.h"

#include <stdio.h>

static sn_ctx *ctx;
static sn_graph *graph;

static bool start(void) {
  graph = NULL;
  if (!CHECK(sn_ctx_create(NULL, &ctx) == SN_OK))
    return false;
  if (!CHECK(sn_graph_create(ctx, &graph) == SN_OK))
    return false;
  sn_symbol(graph, "a", 100);
  sn_symbol(graph, "b", 100);
  sn_symbol(graph, "c", 7);
  return true;
}

static void end(void) {
  sn_graph_destroy(graph);
  sn_ctx_destroy(ctx);
}

static const char *text_of(sn_dim d) { return graph_shape_text(graph, (sn_shape){1, {d}}); }

/* --- a small reader of its own, on the public functions: + - * / and brackets, left to right --- */

static sn_dim read_sum(const char **at);

static sn_dim read_factor(const char **at) {
  sn_dim d = 0;
  if (**at == '(') {
    (*at)++;
    d = read_sum(at);
    (*at)++;
    return d;
  }
  if (**at >= 'a' && **at <= 'c') {
    char name[2] = {*(*at)++, '\0'};
    return sn_symbol(graph, name, name[0] == 'c' ? 7 : 100);
  }
  for (; **at >= '0' && **at <= '9'; (*at)++)
    d = d * 10 + (**at - '0');
  return d;
}

static sn_dim read_product(const char **at) {
  sn_dim d = read_factor(at);
  while (**at == '*' || **at == '/') {
    char op = *(*at)++;
    sn_dim e = read_factor(at);
    d = op == '*' ? sn_dim_mul(graph, d, e) : sn_dim_div(graph, d, e);
  }
  return d;
}

static sn_dim read_sum(const char **at) {
  sn_dim d = 0;
  char op = '+';
  do {
    if (**at == '-' || **at == '+')
      op = *(*at)++;
    sn_dim e = read_product(at);
    d = op == '+' ? sn_dim_add(graph, d, e) : sn_dim_sub(graph, d, e);
  } while (**at == '+' || **at == '-');
  return d;
}

static sn_dim dim(const char *written) { return read_sum(&written); }

/* --- canonical form --- */

static const struct {
  const char *a, *b;
} equal[] = {
    {"a+b", "b+a"},
    {"a*b", "b*a"},
    {"a-a", "0"},
    {"(a+1)*(a-1)", "a*a-1"},
    {"(a+b)*(a+b)", "a*a+2*a*b+b*b"},
    {"2*(a+3)-6", "a+a"},
    {"a*0+5", "5"},
    {"(4*a+6)/2", "2*a+3"},
    {"(4*a)/4", "a"},
    {"(a*b*2)/2", "a*b"},
    {"(a+5)/2", "2+(a+1)/2"},
    {"(5*a)/3", "a+(2*a)/3"},
    {"(a-1)/2", "(a+1)/2-1"},
    {"(0-a)/2", "(a)/2-a"},
    {"(2*a)/4", "a/2"},
    {"(2*a+1)/4", "a/2"},
    {"(2*a+2)/4", "(a+1)/2"},
    {"(6*a+9*b+7)/12", "(2*a+3*b+2)/4"},
    {"(a/2)/3", "a/6"},
    {"((a+1)/2+1)/2", "(a+3)/4"},
    {"(((a+1)/2+1)/2+1)/2", "(a+7)/8"},
    {"c/8", "0"},
    {"(c+8)/16", "0"},
    {"(c+9)/8", "1+(c+1)/8"},
    {"a/1", "a"},
    {"a/2+b", "b+a/2"},
    {"(a/2)*b", "b*(a/2)"},
    {"(b/2)*(a/2)", "(a/2)*(b/2)"},
    {"7/2", "3"},
    {"(0-7)/2", "0-4"},
};

static const struct {
  const char *a, *b;
} different[] = {
    {"a", "b"},     {"a*b", "a+b"},       {"a/2", "a/3"},
    {"a/2*2", "a"}, {"(a+1)/2", "a/2"},   {"a*a", "a"},
    {"2*a", "a"},   {"a+1", "a"},         {"a/2+b/2", "(a+b)/2"},
    {"c/7", "0"},   {"(2*a+3)/4", "a/2"}, {"a-b", "b-a"},
};

TEST(equal_expressions_are_equal_handles) {
  if (start())
    for (size_t i = 0; i < COUNT_OF(equal); i++) {
      sn_dim x = dim(equal[i].a), y = dim(equal[i].b);
      if (x != y)
        FAIL("%s is %s, %s is %s", equal[i].a, text_of(x), equal[i].b, text_of(y));
    }
  CHECK_EQ_STR(sn_graph_message(graph), "");
  end();
}

TEST(different_expressions_are_different_handles) {
  if (start())
    for (size_t i = 0; i < COUNT_OF(different); i++)
      if (dim(different[i].a) == dim(different[i].b))
        FAIL("%s and %s are both %s", different[i].a, different[i].b, text_of(dim(different[i].a)));
  end();
}

TEST(numbers_stay_numbers) {
  if (start()) {
    CHECK_EQ_INT(sn_dim_add(graph, 2, 3), 5);
    CHECK_EQ_INT(sn_dim_sub(graph, 2, 3), -1);
    CHECK_EQ_INT(sn_dim_mul(graph, -2, 3), -6);
    CHECK_EQ_INT(sn_dim_div(graph, -7, 2), -4);
    CHECK(dim_is_number(dim("a-a+4")));
    CHECK(!dim_is_number(dim("a")));
    CHECK_EQ_INT(sn_dim_max(graph, 9), 9);
  }
  end();
}

/* --- text --- */

static const struct {
  const char *is, *printed;
} texts[] = {
    {"5", "[5]"},
    {"a", "[a]"},
    {"b+a", "[a+b]"},
    {"1+b*a+a*a*a-2*b", "[a*a*a+a*b-2*b+1]"},
    {"0-a", "[-a]"},
    {"0-3*a-1", "[-3*a-1]"},
    {"(a+1)/2", "[((a+1)/2)]"},
    {"5*((a+1)/3)*b", "[5*b*((a+1)/3)]"},
    {"((a*b)/3+(a+1)/2)/5", "[((((a+1)/2)+((a*b)/3))/5)]"},
};

TEST(expressions_print) {
  if (start())
    for (size_t i = 0; i < COUNT_OF(texts); i++)
      CHECK_EQ_STR(text_of(dim(texts[i].is)), texts[i].printed);
  end();
}

/* What is printed reads back to the same handle, through the parser of graphs. */
TEST(printed_expressions_parse) {
  if (start())
    for (size_t i = 0; i < COUNT_OF(equal); i++) {
      sn_graph *read = NULL;
      char source[400], *again = NULL;
      const char *printed = text_of(dim(equal[i].a));
      snprintf(source, sizeof source,
               "symbol a 100\nsymbol b 100\nsymbol c 7\n"
               "%%1 = input() name=\"x\" dtype=f32 shape=[2]\n"
               "%%2 = slice(%%1) axis=0 start=%.*s stop=%s step=1\n",
               (int)strlen(printed) - 2, printed + 1, equal[i].b);
      if (CHECK(sn_graph_parse(ctx, source, &read) == SN_OK) &&
          CHECK(sn_graph_print(read, &again) == SN_OK)) {
        const attrs_slice *a = read->nodes[1].attrs;
        CHECK_EQ_INT(a->start, a->stop);
        CHECK_STR_HAS(again, "symbol c 7\n");
      } else {
        FAIL("%s: %s", source, sn_ctx_message(ctx));
      }
      sn_text_free(ctx, again);
      sn_graph_destroy(read);
    }
  end();
}

/* The order of terms does not depend on which divisions came first. */
TEST(text_does_not_depend_on_history) {
  char first[100];
  if (start())
    snprintf(first, sizeof first, "%s", text_of(dim("(a+1)/2+b/3+(a*b)/2")));
  end();
  if (start()) {
    dim("(a*b)/2");
    dim("b/3");
    dim("b/5");
    CHECK_EQ_STR(text_of(dim("(a*b)/2+(a+1)/2+b/3")), first);
  }
  end();
}

/* --- ranges and values --- */

static const struct {
  const char *is;
  int64_t lo, hi;
} ranges[] = {
    {"7", 7, 7},         {"a", 0, 100},
    {"2*a+3", 3, 203},   {"a-b", -100, 100},
    {"a*b", 0, 10000},   {"5-a", -95, 5},
    {"(a+1)/2", 0, 50},  {"(a-1)/2+1", 0, 50},
    {"c*(a/10)", 0, 70}, {"(c-3)*(c-4)", -37, 61},
};

TEST(ranges_hold_every_value) {
  if (start())
    for (size_t i = 0; i < COUNT_OF(ranges); i++) {
      int64_t lo, hi;
      dim_range(graph, dim(ranges[i].is), &lo, &hi);
      CHECK_EQ_INT(lo, ranges[i].lo);
      CHECK_EQ_INT(hi, ranges[i].hi);
      CHECK_EQ_INT(sn_dim_max(graph, dim(ranges[i].is)), hi);
      for (int64_t a = 0; a <= 100; a += 7)
        for (int64_t c = 0; c <= 7; c++) {
          int64_t v, bindings[] = {a, 100 - a, c};
          CHECK(dim_eval(graph, dim(ranges[i].is), bindings, &v));
          CHECK(lo <= v && v <= hi);
        }
    }
  end();
}

static int64_t floor_div(int64_t a, int64_t b) {
  int64_t q = a / b;
  return q * b > a ? q - 1 : q;
}

/* Random expressions: the handle's value is the value of the steps that built it. */
TEST(values_are_those_of_the_steps) {
  uint64_t state = 1;
  if (!start())
    return;
  for (int round = 0; round < 3000; round++) {
    int64_t bindings[] = {round % 101, (round * 7) % 101, round % 8};
    sn_dim d[8] = {dim("a"), dim("b"), dim("c"), 3, -2};
    int64_t v[8] = {bindings[0], bindings[1], bindings[2], 3, -2};
    for (int k = 5; k < 8; k++) {
      state = state * UINT64_C(6364136223846793005) + 1442695040888963407u;
      unsigned i = (unsigned)(state >> 33) % (unsigned)k, j = (unsigned)(state >> 43) % (unsigned)k;
      int64_t by = 1 + (int64_t)((state >> 53) % 7);
      int what = (int)((state >> 60) % 4);
      d[k] = what == 0   ? sn_dim_add(graph, d[i], d[j])
             : what == 1 ? sn_dim_sub(graph, d[i], d[j])
             : what == 2 ? sn_dim_mul(graph, d[i], d[j])
                         : sn_dim_div(graph, d[i], by);
      v[k] = what == 0   ? v[i] + v[j]
             : what == 1 ? v[i] - v[j]
             : what == 2 ? v[i] * v[j]
                         : floor_div(v[i], by);
    }
    for (int k = 0; k < 8 && sn_graph_status(graph) == SN_OK; k++) {
      int64_t got, lo, hi;
      dim_range(graph, d[k], &lo, &hi);
      CHECK(dim_eval(graph, d[k], bindings, &got));
      CHECK_EQ_INT(got, v[k]);
      CHECK(lo <= got && got <= hi);
    }
    if (sn_graph_status(graph) != SN_OK) { /* beyond the limits: start afresh */
      CHECK_STR_HAS(sn_graph_message(graph), "size expression: too large");
      end();
      if (!start())
        return;
    }
  }
  end();
}

TEST(overflow_of_a_value_is_found) {
  if (start()) {
    sn_dim big = sn_symbol(graph, "big", (INT64_C(1) << 56) - 1);
    int64_t v, bindings[] = {0, 0, 0, (INT64_C(1) << 40)};
    CHECK(!dim_eval(graph, sn_dim_mul(graph, big, big), bindings, &v));
    CHECK(dim_eval(graph, sn_dim_mul(graph, big, 4), bindings, &v));
    CHECK_EQ_INT(v, INT64_C(1) << 42);
    CHECK_EQ_INT(sn_dim_max(graph, sn_dim_mul(graph, big, big)), DIM_LIMIT);
  }
  end();
}

/* --- division of expressions --- */

static const struct {
  const char *a, *b, *q; /* q NULL: b does not divide a */
} quotients[] = {
    {"6", "3", "2"},
    {"6", "4", NULL},
    {"6", "0", NULL},
    {"0", "3", "0"},
    {"0", "a", "0"},
    {"0", "0", NULL},
    {"a", "a", "1"},
    {"6*a", "3", "2*a"},
    {"6*a", "2*a", "3"},
    {"6*a*b", "2*b", "3*a"},
    {"6*a*b+4*b", "2*b", "3*a+2"},
    {"6*a+3", "2", NULL},
    {"a+b", "a", NULL},
    {"a*b", "a*a", NULL},
    {"3", "a", NULL},
    {"a*a-1", "a+1", "a-1"},
    {"a*b+a+b+1", "b+1", "a+1"},
    {"(a+b)*(a+b)*3", "a+b", "3*a+3*b"},
    {"a*a+1", "a+1", NULL},
    {"((a+1)/2)*b*4", "(a+1)/2", "4*b"},
};

TEST(expressions_divide) {
  if (start())
    for (size_t i = 0; i < COUNT_OF(quotients); i++) {
      sn_dim q;
      bool divides = dim_divide(graph, dim(quotients[i].a), dim(quotients[i].b), &q);
      if (divides != (quotients[i].q != NULL) || (divides && q != dim(quotients[i].q)))
        FAIL("%s by %s gives %s", quotients[i].a, quotients[i].b, divides ? text_of(q) : "nothing");
    }
  CHECK_EQ_STR(sn_graph_message(graph), "");
  end();
}

/* --- errors --- */

static sn_dim nested(int depth) {
  sn_dim d = dim("a");
  for (int i = 0; i < depth; i++)
    d = sn_dim_add(graph, sn_dim_div(graph, sn_dim_add(graph, sn_dim_mul(graph, d, 2), 1), 3),
                   sn_symbol(graph, "b", 100));
  return d;
}

static sn_dim many_terms(void) {
  sn_dim d = 0;
  for (int i = 1; i < 18; i++)
    d = sn_dim_add(graph, d, sn_dim_div(graph, sn_symbol(graph, "a", 100), i + 1));
  return d;
}

static sn_dim bad_symbol(void) { return sn_symbol(graph, "not a name", 5); }
static sn_dim digit_symbol(void) { return sn_symbol(graph, "1a", 5); }
static sn_dim empty_symbol(void) { return sn_symbol(graph, "", 5); }
static sn_dim null_symbol(void) { return sn_symbol(graph, NULL, 5); }
static sn_dim negative_symbol(void) { return sn_symbol(graph, "n", -1); }
static sn_dim huge_symbol(void) { return sn_symbol(graph, "n", DIM_LIMIT); }
static sn_dim other_maximum(void) { return sn_symbol(graph, "a", 99); }
static sn_dim zero_divisor(void) { return sn_dim_div(graph, dim("a"), 0); }
static sn_dim negative_divisor(void) { return sn_dim_div(graph, dim("a"), -2); }
static sn_dim huge_product(void) { return sn_dim_mul(graph, DIM_LIMIT - 1, 2); }
static sn_dim limit_product(void) { return sn_dim_mul(graph, INT64_C(1) << 28, INT64_C(1) << 28); }
static sn_dim low_product(void) { return sn_dim_mul(graph, -(INT64_C(1) << 28), INT64_C(1) << 28); }
static sn_dim low_sum(void) { return sn_dim_sub(graph, 1 - DIM_LIMIT, 1); }
static sn_dim long_symbol(void) {
  return sn_symbol(graph, "a234567890123456789012345678901234567890123456789012345678901234z", 1);
}
static sn_dim huge_divisor(void) { return sn_dim_div(graph, dim("a"), DIM_LIMIT); }
static sn_dim huge_sum(void) { return sn_dim_add(graph, DIM_LIMIT - 1, 1); }
static sn_dim huge_coefficient(void) { return sn_dim_mul(graph, dim("a"), DIM_LIMIT); }
static sn_dim end_sum(void) { return sn_dim_add(graph, SN_END, 0); }
static sn_dim end_difference(void) { return sn_dim_sub(graph, dim("a"), SN_END); }
static sn_dim high_power(void) { return dim("a*a*a*a*a*a*a*a*a"); }
static sn_dim unknown_handle(void) { return sn_dim_add(graph, DIM_HANDLES - 1000, 1); }
static sn_dim lowest_number(void) { return sn_dim_add(graph, INT64_MIN, 1); }
static sn_dim deep(void) { return nested(DIM_MAX_DEPTH + 1); }

static const struct {
  sn_dim (*build)(void);
  const char *message;
} errors[] = {
    {bad_symbol, "a name must be letters, digits and _"},
    {digit_symbol, "a name must be letters, digits and _, no digit first"},
    {empty_symbol, "1 to 64 characters"},
    {null_symbol, "1 to 64 characters"},
    {negative_symbol, "a maximum must not be negative, and be below 2^56"},
    {huge_symbol, "a maximum must not be negative, and be below 2^56"},
    {other_maximum, "declared twice with different maxima"},
    {zero_divisor, "divisor must be positive"},
    {negative_divisor, "divisor must be positive"},
    {huge_product, "size expression: too large"},
    {huge_sum, "size expression: too large"},
    {limit_product, "size expression: too large"},
    {low_product, "size expression: too large"},
    {low_sum, "size expression: too large"},
    {long_symbol, "1 to 64 characters"},
    {huge_divisor, "divisor must be positive"},
    {huge_coefficient, "too large or belongs to another graph"},
    {end_sum, "too large or belongs to another graph"},
    {end_difference, "too large or belongs to another graph"},
    {high_power, "size expression: too large"},
    {many_terms, "size expression: too large"},
    {deep, "size expression: too large"},
    {unknown_handle, "belongs to another graph"},
    {lowest_number, "belongs to another graph"},
};

TEST(errors_are_sticky_and_say_why) {
  for (size_t i = 0; i < COUNT_OF(errors); i++) {
    if (start()) {
      CHECK_EQ_INT(errors[i].build(), 0);
      CHECK_EQ_INT(sn_graph_status(graph), SN_ERR_INVALID);
      CHECK_STR_HAS(sn_graph_message(graph), errors[i].message);
      CHECK_EQ_INT(sn_dim_add(graph, 1, 1), 0);
      CHECK_EQ_INT(sn_symbol(graph, "z", 3), 0);
    }
    end();
  }
}

TEST(limits_can_be_reached) {
  if (start()) {
    sn_dim d = nested(DIM_MAX_DEPTH);
    CHECK(!dim_is_number(d));
    CHECK_EQ_INT(sn_dim_add(graph, DIM_LIMIT - 2, 1), DIM_LIMIT - 1);
    CHECK(!dim_is_number(dim("a*a*a*a*a*a*a*a")));
    CHECK(dim_valid(graph, SN_END));
    CHECK(!dim_valid(graph, SN_END - 1));
    CHECK(dim_valid(graph, 1 - DIM_LIMIT));
    CHECK(!dim_valid(graph, -DIM_LIMIT));
    CHECK_EQ_INT(sn_dim_max(graph, sn_symbol(graph, "azAZ_09", 0)), 0);
    d = sn_symbol(graph, "a23456789012345678901234567890123456789012345678901234567890123z", 1);
    CHECK(dim_valid(graph, d));
    CHECK(!dim_valid(graph, d - 1)); /* the next handle is not yet made */
    CHECK_EQ_STR(text_of(sn_symbol(graph, "_", 1)), "[_]");
    CHECK(!dim_valid(graph, INT64_MIN));
    CHECK(!dim_valid(graph, INT64_MAX));
    CHECK_EQ_INT(sn_dim_max(graph, INT64_MIN), 0);
    CHECK_EQ_STR(sn_graph_message(graph), "");
  }
  end();
}

/* More expressions than the first table holds. */
TEST(many_expressions_are_found_again) {
  if (start()) {
    enum { MANY = 500 };
    sn_dim made[MANY], a = dim("a");
    for (int i = 0; i < MANY; i++)
      made[i] = sn_dim_add(graph, sn_dim_mul(graph, a, i + 2), i);
    for (int i = 0; i < MANY; i++) {
      CHECK(sn_dim_add(graph, sn_dim_mul(graph, a, i + 2), i) == made[i]);
      CHECK(i == 0 || made[i] != made[i - 1]);
    }
    sn_graph *copy;
    REQUIRE(sn_graph_create(sn_graph_ctx(graph), &copy) == SN_OK);
    CHECK(dim_copy_all(copy, graph));
    for (int i = 0; i < MANY; i++)
      CHECK(sn_dim_add(copy, sn_dim_mul(copy, a, i + 2), i) == made[i]);
    sn_graph_destroy(copy);
  }
  end();
}

/* Growth by sharing must not make text or evaluation explode. */
TEST(sharing_is_bounded) {
  if (start()) {
    sn_dim d = dim("a");
    int steps = 0;
    for (; steps < 100 && sn_graph_status(graph) == SN_OK; steps++)
      d = sn_dim_add(graph, sn_dim_div(graph, sn_dim_mul(graph, d, d), 3), 1);
    CHECK(steps < 12);
    CHECK_STR_HAS(sn_graph_message(graph), "too large");
  }
  end();
}
