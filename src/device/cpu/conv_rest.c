/* The epilogue of a part that is cut into phases, on all its results at once: see conv.h.
 *
 * The results of a phase lie apart in memory, so an epilogue on each phase would go through all memory once a phase, a few
 * bytes of each line at a time. Instead the phases leave their bare sums where one of the epilogue's stores will put its
 * result, and the epilogue follows as a loop that loads them from there. */
#include "device/cpu/conv.h"
#include "device/cpu/loop.h"

static bool has_value(const instr *i) { return i->op == REGION_LOAD || i->op == REGION_STORE; }

static const char *start_of(const cpu_run *r, const instr *i) {
  return cpu_address(r, i->at.value);
}
static const char *end_of(const cpu_run *r, const instr *i) {
  const program_value *v = &r->program->values[i->at.value];
  return start_of(r, i) + cpu_size(r, v->count) * (int64_t)sn_dtype_size(v->type.dtype);
}

/* Whether no other access of the epilogue is of the memory that a store writes to. */
static bool is_alone(const cpu_run *r, const region *code, int store) {
  const instr *s = &code->code[store];
  bool alone = true;
  for (int i = 0; i < code->n && alone; i++) {
    const instr *o = &code->code[i];
    alone = i == store || !has_value(o) || start_of(r, o) >= end_of(r, s) ||
            start_of(r, s) >= end_of(r, o);
  }
  return alone;
}

/* Elements from one point of an axis to the next; 0: it does not go evenly. */
static int64_t step_along(const cpu_run *r, const access *at, int axis) {
  int64_t by = 0;
  bool even = true;
  for (int t = 0; t < at->n_terms; t++)
    if (at->terms[t].axis == axis) {
      even = even && cpu_size(r, at->terms[t].div) <= 1 && cpu_size(r, at->terms[t].mod) == 0;
      by += cpu_size(r, at->terms[t].stride);
    }
  return even ? by : 0;
}

/* Whether every point has an element of its own: along the axes, in some order, each step is past all that the axes before reach. */
static bool is_one_to_one(const cpu_run *r, const access *at, const matmul_part *t) {
  int64_t reach = 1; /* of the axes so far */
  uint32_t done = 0;
  int n = conv_axes(t);
  for (int k = 0; k < n; k++) {
    int64_t least = INT64_MAX;
    int axis = 0;
    for (int a = 0; a < n; a++) {
      int64_t by = cpu_size(r, t->extent[a]) <= 1 ? INT64_MAX - 1 : step_along(r, at, a);
      if (!(done >> a & 1) && by < least) {
        least = by;
        axis = a;
      }
    }
    done |= UINT32_C(1) << axis;
    if (cpu_size(r, t->extent[axis]) <= 1)
      continue;
    if (least < reach)
      return false;
    reach = least * cpu_size(r, t->extent[axis]);
  }
  return true;
}

static bool is_plain_store(const cpu_run *r, const instr *i) {
  bool plain = i->op == REGION_STORE && i->dtype == SN_F32 && i->at.n_checks == 0 &&
               r->program->values[i->at.value].type.dtype == SN_F32;
  for (int t = 0; t < i->at.n_terms && plain; t++)
    plain = i->at.terms[t].axis != TERM_REG;
  return plain;
}

/* The store that takes the sums for a while; -1: none can. */
static int find_store(const cpu_run *r, const matmul_part *t) {
  for (int i = 0; i < t->epilogue.n; i++)
    if (is_plain_store(r, &t->epilogue.code[i]) && is_alone(r, &t->epilogue, i) &&
        is_one_to_one(r, &t->epilogue.code[i].at, t))
      return i;
  return -1;
}

/* Whether a part may have such a rest at all; extents and memory decide in a run. */
static bool may_have_rest(const matmul_part *t) {
  bool may = t->n_accs == 1 && t->epilogue.n > 2 && conv_any_divisor(t);
  for (int i = 0; i < t->epilogue.n && may; i++)
    may = t->epilogue.code[i].op != REGION_ACC || t->epilogue.code[i].dtype == SN_F32;
  return may;
}

size_t conv_rest_bytes(const matmul_part *t) {
  return may_have_rest(t) ? ((size_t)t->epilogue.n + 3) * sizeof(instr) : 0;
}

size_t conv_rest_need(const step *s) {
  size_t most = 0;
  for (int i = 0; i < s->n_parts; i++) {
    const matmul_part *t = &s->parts[i].u.matmul;
    size_t bytes = 0;
    if (!may_have_rest(t))
      continue;
    bytes = region_bytes(&t->epilogue, loop_lanes_of(&t->epilogue));
    for (int k = 0; k < t->epilogue.n; k++) /* accumulators become loads like one of the stores */
      bytes += (size_t)t->epilogue.n * access_bytes(&t->epilogue.code[k].at);
    most = bytes > most ? bytes : most;
  }
  return most;
}

bool conv_make_rest(conv_maker *k, const matmul_part *t, matmul_part *out_bare, loop_part *out) {
  int store = may_have_rest(t) ? find_store(k->r, t) : -1;
  instr *bare = store < 0 ? NULL : conv_make(k, 2 * sizeof *bare);
  instr *code = bare ? conv_make(k, (size_t)t->epilogue.n * sizeof *code) : NULL;
  if (!code)
    return false;
  const access *at = &t->epilogue.code[store].at;
  bare[0] = (instr){.op = REGION_ACC, .dtype = SN_F32};
  bare[1] = (instr){.op = REGION_STORE, .dtype = SN_F32, .a = 0, .at = *at};
  *out_bare = *t;
  out_bare->epilogue = (region){2, bare};
  for (int i = 0; i < t->epilogue.n; i++) {
    code[i] = t->epilogue.code[i];
    if (code[i].op == REGION_ACC)
      code[i] = (instr){.op = REGION_LOAD, .dtype = SN_F32, .at = *at};
  }
  *out = (loop_part){.n_axes = conv_axes(t), .n_phases = 1, .code = {t->epilogue.n, code}};
  memcpy(out->extent, t->extent, sizeof out->extent);
  return true;
}

sn_status conv_run_rest(cpu_run *r, const step *rest) {
  if (!rest)
    return SN_OK;
  cpu_sync(r);
  return cpu_run_loop(r, rest);
}
