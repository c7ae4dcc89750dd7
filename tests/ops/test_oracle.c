/* The definitions against other engines: every line of tests/fixtures/oracle (docs/oracle.md) for
 * every op. An op that no line covers must stand in the table here with the reason; one that has lines
 * and a gradient must have a line with that. */
#include "ops/table.h"
#include "support/oracle.h"
#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>

static const char *const files[] = {"pointwise", "reduce", "shape", "linear", "norm",      "loss",
                                    "attention", "rope",   "conv",  "choose", "onnx_nodes"};

typedef struct excuse {
  const char *op, *why;
} excuse;

static const excuse without_oracle[] = {
    {"input", "a leaf: the caller's numbers"},
    {"state", "a leaf: the store's numbers"},
    {"constant", "a leaf: given numbers"},
    {"barrier", "x itself; nothing outside has such a fence"},
    {"uniform", "our own mapping of Philox words and stream identities to numbers"},
    {"normal", "our own mapping of Philox words and stream identities to numbers"},
    {"bernoulli", "our own mapping of Philox words and stream identities to numbers"},
    {"randint", "our own mapping of Philox words and stream identities to numbers"},
    {"permutation", "our own mapping of Philox words and stream identities to numbers"},
    {"dropout", "its mask comes from our own mapping of Philox words"},
};

static const char *excuse_of(const char *op) {
  for (size_t i = 0; i < COUNT_OF(without_oracle); i++)
    if (strcmp(without_oracle[i].op, op) == 0)
      return without_oracle[i].why;
  return NULL;
}

/* All lines of all files, in memory: `place` is "file:line". */
typedef struct fixture {
  const char *text;
  char place[64];
} fixture;

typedef struct fixtures {
  fixture *lines;
  int n;
  char *files[COUNT_OF(files)];
} fixtures;

static char *read_whole(const char *path) {
  FILE *f = fopen(path, "rb");
  if (!f)
    return NULL;
  size_t n = 0, size = 1 << 20;
  char *text = malloc(size + 1);
  if (text)
    n = fread(text, 1, size, f);
  if (text)
    text[n] = '\0';
  fclose(f);
  CHECK(n < size);
  return text;
}

static void cut_lines(fixtures *all, const char *name, char *text) {
  for (int line = 1; text && *text; line++) {
    char *end = strchr(text, '\n');
    if (end)
      *end++ = '\0';
    if (*text && *text != '#') {
      fixture *wider = realloc(all->lines, (size_t)(all->n + 1) * sizeof *wider);
      if (!CHECK(wider != NULL))
        return;
      all->lines = wider;
      fixture *f = &all->lines[all->n++];
      f->text = text;
      snprintf(f->place, sizeof f->place, "%s.txt:%d", name, line);
    }
    text = end;
  }
}

static void read_fixtures(fixtures *all) {
  for (size_t i = 0; i < COUNT_OF(files); i++) {
    char path[128];
    snprintf(path, sizeof path, "tests/fixtures/oracle/%s.txt", files[i]);
    all->files[i] = read_whole(test_source(path));
    if (!all->files[i])
      FAIL("%s cannot be read", path);
    else
      cut_lines(all, files[i], all->files[i]);
  }
}

static void free_fixtures(fixtures *all) {
  for (size_t i = 0; i < COUNT_OF(files); i++)
    free(all->files[i]);
  free(all->lines);
}

static bool line_is_of(const fixture *f, const char *op) {
  size_t n = strlen(op);
  return strncmp(f->text, op, n) == 0 && f->text[n] == '(';
}

static void check_line(const op_table *table, const fixture *f, oracle_counts *counts) {
  sn_ctx *ctx;
  oracle_line l;
  if (!CHECK(sn_ctx_create(NULL, &ctx) == SN_OK))
    return;
  if (oracle_load(ctx, table, f->text, &l) != SN_OK) {
    FAIL("%s: %s", f->place, sn_ctx_message(ctx));
  } else {
    oracle_check(&l, f->place, counts);
    oracle_free(&l);
  }
  sn_ctx_destroy(ctx);
}

/* What must not pass: the check of the checks. */
static const char *const wrong[] = {
    "neg(f32[2]{1,2}) => f32[2]{-1,-2.00001}",
    "neg(f32[2]{1,2}) => f32[1, 2]{-1,-2}",
    "neg(f32[1]{1}) => f16[1]{-1}",
    "neg(f32[1]{nan}) => f32[1]{1}",
    "neg(i32[2]{1,2}) => i32[2]{-1,-3}",
    "neg(f16[1]{1}) => f16[1]{-1.002}",
    "neg(f32[2]{1,2}) => f32[2]{-1,-2} ; w f32[2]{1,3} ; grad f32[2]{-1,-3.00001}",
    "neg(f32[2]{1,2}) => f32[2]{-1,-2} ; w f32[2]{1,3} ; grad f32[1]{-1}",
    "neg(f32[2]{1,2}) => f32[2]{-1,-2} ; w f32[2]{1,3}",
    "neg(f32[2]{1,2}) => f32[2]{-1,-2} ; w f32[2]{1,3} ; grad f32[2]{-1,-3}, f32[2]{-1,-3}",
    "neg(f32[2]{1,2}) => f32[2]{-1,-2} ; tolerance=1",
    "neg(f32[2]{1,2}) => f32[2]{-1,-2} ; tol=0",
    "neg(f32[2]{1,2})",
    "no_such_op(f32[2]{1,2}) => f32[2]{-1,-2}",
};

static void check_text(void *text) {
  oracle_counts counts = {0};
  fixture f = {.text = text, .place = "wrong"};
  check_line(op_table_get(), &f, &counts);
}

TEST(a_wrong_line_is_noticed) {
  for (size_t i = 0; i < COUNT_OF(wrong); i++) {
    test_result result = test_probe(check_text, (void *)(uintptr_t)wrong[i]);
    if (result.failed != 1)
      FAIL("let pass: %s", wrong[i]);
  }
  const char *right = "neg(f32[2]{1,2}) => f32[2]{-1,-2} ; w f32[2]{1,3} ; grad f32[2]{-1,-3} # x";
  CHECK_EQ_INT(test_probe(check_text, (void *)(uintptr_t)right).failed, 0);
}

static void demand(const op_desc *op, const oracle_counts *counts) {
  const char *why = excuse_of(op->name);
  if (counts->lines == 0 && !why)
    FAIL("%s: no fixture covers it", op->name);
  if (counts->lines > 0 && why)
    FAIL("%s: has fixtures, yet stands in the list of ops without", op->name);
  if (counts->lines > 0 && counts->gradient_lines == 0 && !op->impl->no_grad)
    FAIL("%s: no fixture covers its gradient", op->name);
  if (why)
    printf("no outside oracle: %s: %s\n", op->name, why);
}

TEST_WALK(oracle) {
  const op_table *table = op_table_get();
  fixtures all = {0};
  oracle_counts total = {0};
  int covered = 0;
  read_fixtures(&all);
  for (int i = 1; i < table->n; i++) {
    const op_desc *op = &table->ops[i];
    oracle_counts counts = {0};
    if (!test_begin("%s", op->name))
      continue;
    for (int k = 0; k < all.n; k++)
      if (line_is_of(&all.lines[k], op->name))
        check_line(table, &all.lines[k], &counts);
    demand(op, &counts);
    test_end();
    covered += counts.lines > 0;
    total.lines += counts.lines;
    total.values += counts.values;
    total.gradient_lines += counts.gradient_lines;
    total.gradients += counts.gradients;
  }
  printf("oracle: %d of %d ops covered, %d lines, %d values, %d lines with gradients, %d gradient "
         "elements\n",
         covered, table->n - 1, total.lines, total.values, total.gradient_lines, total.gradients);
  free_fixtures(&all);
}
