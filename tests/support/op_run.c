/* See op_run.h. */
#include "support/op_run.h"

#include "ops/table.h"
#include "support/test.h"

#include <math.h>

bool op_run_load(op_run *r, const char *text) {
  *r = (op_run){0};
  r->in = r->c.in;
  if (!CHECK(sn_ctx_create(NULL, &r->ctx) == SN_OK))
    return false;
  arena_init(&r->memory, r->ctx);
  r->loaded = case_load(r->ctx, op_table_get(), text, &r->c) == SN_OK;
  return r->loaded || FAIL("%s: %s", text, sn_ctx_message(r->ctx));
}

sn_status op_run_status(op_run *r) {
  sn_graph *g = NULL;
  sn_value first;
  sn_status status = case_graph(&r->c, &g, &first);
  if (status == SN_OK)
    status = case_run(&r->c, g, REF_F64, &r->memory, r->out);
  sn_graph_destroy(g);
  return status;
}

bool op_run_execute(op_run *r) {
  return op_run_status(r) == SN_OK || FAIL("%s: %s", r->c.line, sn_ctx_message(r->ctx));
}

bool op_run_text(op_run *r, const char *text) { return op_run_load(r, text) && op_run_execute(r); }

void op_run_end(op_run *r) {
  if (r->loaded)
    case_free(&r->c);
  if (r->ctx)
    arena_clear(&r->memory);
  sn_ctx_destroy(r->ctx);
  *r = (op_run){0};
}

double op_run_distance(const double *a, const double *b, int64_t n) {
  double distance = 0;
  for (int64_t i = 0; i < n; i++)
    if (a[i] != b[i])
      distance = fmax(distance, isfinite(a[i]) && isfinite(b[i]) ? fabs(a[i] - b[i]) : INFINITY);
  return distance;
}
