/* The counter of drawn_check.h. */
#include "support/drawn_check.h"

#include "ir/dtype.h"

#include <stdio.h>

/* Whether a run can be demanded: of arguments that the row says, and of attributes that have few values. */
static int values_of(const attr_desc *a) {
  int n = 0;
  if (a->kind == ATTR_FLAG)
    return 2;
  if (a->kind == ATTR_ENUM)
    while (a->words[n])
      n++;
  return n;
}

static int missing_words(const drawn_tally *t, int op, int64_t least, void (*say)(const char *)) {
  const op_desc *o = &op_table_get()->ops[op];
  int missing = 0;
  char line[160];
  for (int a = 0; a < o->n_attrs && a < 12 && op != OP_state; a++)
    for (int v = 0; v < values_of(&o->attrs[a]); v++)
      if (t->word[op][a][v] < least) {
        snprintf(line, sizeof line, "%s: %s=%d ran %lld times", o->name, o->attrs[a].name, v,
                 (long long)t->word[op][a][v]);
        say(line);
        missing++;
      }
  return missing;
}

int drawn_tally_missing(const drawn_tally *t, int64_t least, void (*say)(const char *line)) {
  const op_table *table = op_table_get();
  int missing = 0;
  char line[160];
  for (int op = 1; op < table->n; op++) {
    const drawn_row *row = drawn_op_row(op);
    const char *name = table->ops[op].name;
    if (!row || t->op[op] < least) {
      snprintf(line, sizeof line, row ? "%s: ran %lld times" : "%s: has no row (%lld)", name,
               (long long)t->op[op]);
      say(line);
      missing++;
      continue;
    }
    for (int i = 0; row->takes[i]; i++)
      for (int dtype = 1; dtype < SN_DTYPE_COUNT; dtype++)
        if (drawn_fits_letter(row->takes[i], (sn_dtype)dtype) &&
            t->argument[op][i][dtype] < least) {
          snprintf(line, sizeof line, "%s: argument %d of %s ran %lld times", name, i,
                   sn_dtype_name((sn_dtype)dtype), (long long)t->argument[op][i][dtype]);
          say(line);
          missing++;
        }
    missing += missing_words(t, op, least, say);
  }
  return missing;
}

void drawn_tally_print(const drawn_tally *t) {
  const op_table *table = op_table_get();
  printf(
      "%lld graphs, %lld runs (%lld that must fail); values compared: %lld exact, %lld near; %lld "
      "ops refused\n%-20s %9s  by argument: %s\n",
      (long long)t->graphs, (long long)t->runs, (long long)t->failing, (long long)t->exact,
      (long long)t->near, (long long)t->refused, "op", "runs", "f32 f16 bf16 i32 u8 bool");
  for (int op = 1; op < table->n; op++) {
    const drawn_row *row = drawn_op_row(op);
    printf("%-20s %9lld ", table->ops[op].name, (long long)t->op[op]);
    for (int i = 0; row && row->takes[i]; i++) {
      printf(i ? " |" : "");
      for (int dtype = 1; dtype < SN_DTYPE_COUNT; dtype++)
        if (drawn_fits_letter(row->takes[i], (sn_dtype)dtype))
          printf(" %lld", (long long)t->argument[op][i][dtype]);
    }
    printf("\n");
  }
}
