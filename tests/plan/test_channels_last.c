/* Values that stand with their channels last: which do, that results are the reference's, and that the proof sees to it. */
#include "support/image_graphs.h"
#include "support/plan_run.h"
#include "support/test.h"

#include <stdlib.h>

static sn_ctx *ctx;
static sn_graph *g;

static bool start(const image_graph *of, int64_t channels) {
  g = NULL;
  return CHECK(sn_ctx_create(NULL, &ctx) == SN_OK) && CHECK(sn_graph_create(ctx, &g) == SN_OK) &&
         CHECK(image_graph_build(of, g, channels) == SN_OK);
}

static void end(void) {
  sn_graph_destroy(g);
  sn_ctx_destroy(ctx);
}

static int count_last(const program *p) {
  int n = 0;
  for (uint32_t v = 1; v < p->n_values; v++)
    n += p->values[v].channels > 0;
  return n;
}

/* --- which --- */

static void check_counts(const image_graph *of, int channels_last, int least, int most) {
  compiled c;
  compile_options o = {.channels_last = channels_last};
  if (!CHECK(compile_graph(g, &o, &c) == SN_OK))
    return;
  int n = count_last(c.program);
  if (n < least || n > most)
    FAIL("%s: %d values have their channels last", of->name, n);
  compile_destroy(&c);
}

TEST_WALK(counts) {
  const image_graph *of;
  for (int k = 0; (of = image_graph_at(k)) != NULL; k++)
    if (test_begin("%s", of->name)) {
      if (start(of, 16)) {
        check_counts(of, 0, 0, 0);
        check_counts(of, 5, 0, 0); /* 16, 32 and 3 are no multiples */
        check_counts(of, 16, of->least < 0 ? 0 : of->least, of->least < 0 ? 0 : INT32_MAX);
      }
      end();
      test_end();
    }
}

/* What is seen from outside stays as it is. */
TEST(leaves_are_row_major) {
  const image_graph *of;
  for (int k = 0; (of = image_graph_at(k)) != NULL; k++) {
    compiled c;
    if (start(of, 16) &&
        CHECK(compile_graph(g, &(compile_options){.channels_last = 1}, &c) == SN_OK)) {
      for (uint32_t v = 1; v < c.program->n_values; v++)
        CHECK(!c.program->values[v].channels || c.program->values[v].home == HOME_ARENA);
      compile_destroy(&c);
    }
    end();
  }
}

static const image_graph *find_graph(const char *name) {
  int k = 0;
  while (image_graph_at(k) && strcmp(image_graph_at(k)->name, name) != 0)
    k++;
  return image_graph_at(k);
}

static int count_pointwise(int channels_last) {
  compiled c;
  int n = 0;
  if (!CHECK(compile_graph(g, &(compile_options){.channels_last = channels_last}, &c) == SN_OK))
    return -1;
  for (int i = 0; i < program_steps(c.program); i++)
    n += c.program->steps[i].kind == STEP_POINTWISE;
  compile_destroy(&c);
  return n;
}

/* The norm's rows make it, and store it for the convolution behind all sums. */
TEST(a_concat_has_no_step) {
  compiled c;
  if (start(find_graph("decoder"), 16) && CHECK_EQ_INT(count_pointwise(0), 1) &&
      CHECK_EQ_INT(count_pointwise(16), 0) &&
      CHECK(compile_graph(g, &(compile_options){.channels_last = 16}, &c) == SN_OK)) {
    for (int i = 0; i < program_steps(c.program); i++) {
      const step *s = &c.program->steps[i];
      const loop_part *l = &s->parts[0].u.loop;
      for (int k = 0; s->kind == STEP_ROW && k < l->code.n; k++)
        CHECK(l->code.code[k].op != REGION_STORE || l->code.code[k].row ||
              l->code.code[k].phase == l->n_phases - 1);
    }
    compile_destroy(&c);
  }
  end();
}

/* --- results --- */

TEST_WALK(results) {
  const image_graph *of;
  int64_t n = 2;
  char why[1000];
  for (int k = 0; (of = image_graph_at(k)) != NULL; k++)
    if (test_begin("%s", of->name)) {
      plan_numbers numbers = {.bindings = &n};
      if (start(of, 8) && plan_check(g, PLAN_PLAIN_FUSED | PLAN_PLAIN_UNFUSED, &numbers, 1, NULL,
                                     why, sizeof why) != PLAN_RIGHT)
        FAIL("%s", why);
      end();
      test_end();
    }
}

/* How many of their values have channels last: the graphs are about them. */
static int count_in(uint64_t seed) {
  compiled c;
  int n = 0;
  if (compile_graph(g, &(compile_options){.channels_last = 1}, &c) == SN_OK) {
    n = count_last(c.program);
    compile_destroy(&c);
  } else {
    FAIL("seed %llu: %s", (unsigned long long)seed, sn_ctx_message(ctx));
  }
  return n;
}

static bool check_random(uint64_t seed, int *n_last) {
  char why[1000];
  bool ok = false;
  g = NULL;
  if (CHECK(sn_ctx_create(NULL, &ctx) == SN_OK) && CHECK(sn_graph_create(ctx, &g) == SN_OK)) {
    sn_status status = image_graph_random(g, seed, 3 + (int)(seed % 16));
    if (status != SN_OK)
      FAIL("seed %llu: %s", (unsigned long long)seed, sn_graph_message(g));
    else if (plan_check(g, seed % 3 ? PLAN_PLAIN_FUSED : PLAN_PLAIN_UNFUSED, &(plan_numbers){0}, 1,
                        NULL, why, sizeof why) == PLAN_WRONG)
      FAIL("seed %llu: %s", (unsigned long long)seed, why);
    else
      ok = true;
    *n_last += ok ? count_in(seed) : 0;
  }
  end();
  return ok;
}

TEST(random_images) {
  enum { GRAPHS = 120 };
  const char *graphs = getenv("PLAN_GRAPHS"), *first = getenv("PLAN_SEED");
  uint64_t n = graphs ? strtoull(graphs, NULL, 10) : GRAPHS,
           at = first ? strtoull(first, NULL, 10) : 1;
  int n_last = 0;
  for (uint64_t seed = at; seed < at + n; seed++)
    if (!check_random(seed, &n_last))
      return;
  CHECK(n_last >= (int)n);
}

/* --- the proof --- */

/* An order that accesses do not have is refused. */
static void check_refused(const compiled *c, uint32_t v, int64_t channels, int64_t pixels) {
  program_value *value = &c->program->values[v], was = *value;
  value->channels = channels;
  value->pixels = pixels;
  if (plan_verify(c->program, c->lowered) == SN_OK)
    FAIL("value %u as %lld channels of %lld", v, (long long)channels, (long long)pixels);
  *value = was;
}

static void check_orders(const compiled *c, uint32_t v) {
  const program_value *value = &c->program->values[v];
  const sn_shape *s = &value->type.shape;
  int64_t last = s->rank ? s->dim[s->rank - 1] : 1, rest = value->count / last;
  if (value->channels) {
    check_refused(c, v, 0, 0);
    check_refused(c, v, value->channels, value->pixels * 7);
    if (value->channels % 2 == 0)
      check_refused(c, v, value->channels / 2, value->pixels * 2);
    check_refused(c, v, -value->channels, -value->pixels);
    check_refused(c, v, value->channels, 0);
  } else if (dim_is_number(value->count) && last > 1 && rest > 1) {
    check_refused(c, v, rest, last);
  }
}

TEST_WALK(proof) {
  const image_graph *of;
  for (int k = 0; (of = image_graph_at(k)) != NULL; k++)
    if (test_begin("%s", of->name)) {
      compiled c;
      if (start(of, 8) &&
          CHECK(compile_graph(g, &(compile_options){.channels_last = 1}, &c) == SN_OK)) {
        for (uint32_t v = 1; v < c.program->n_values; v++)
          check_orders(&c, v);
        compile_destroy(&c);
      }
      end();
      test_end();
    }
}
