/* Cuts steps: see conv.h. */
#include "device/cpu/conv.h"

/* The phases of a part to `to`; their number, 0 where it stays whole after all. */
static int make_phases(conv_maker *k, const matmul_part *from, conv_map m, int64_t phases,
                       part *to) {
  int n = 0, n_axes = conv_axes(from);
  for (int64_t phase = 0; phase < phases; phase++) {
    int64_t rest = phase;
    bool empty = false;
    for (int a = n_axes - 1; a >= 0; a--) {
      m.from[a] = rest % m.by[a];
      rest /= m.by[a];
      empty = empty || m.from[a] >= cpu_size(k->r, from->extent[a]);
    }
    if (!empty && !conv_make_phase(k, from, &m, &to[n++].u.matmul))
      return 0;
  }
  return n;
}

/* --- sizes --- */

static size_t take(size_t count, size_t each) { return (count * each + 15) / 16 * 16; }

static size_t access_size(const access *at) {
  size_t bytes = take((size_t)at->n_terms, sizeof(term)) +
                 take((size_t)at->n_checks, sizeof(check)) + take(ACCESS_TERMS, sizeof(term));
  for (int c = 0; c < at->n_checks; c++)
    bytes += take((size_t)at->checks[c].n_terms, sizeof(term));
  return bytes;
}

static size_t region_size(const region *code) {
  size_t bytes = take((size_t)code->n + 2, sizeof(instr));
  for (int i = 0; i < code->n; i++)
    bytes += access_size(&code->code[i].at);
  return bytes;
}

/* What a load's divisors multiply to; 0: one is no number. */
static int64_t divisors_of(const region *code) {
  const instr *load = conv_has_divisor(code) ? conv_load(code) : NULL;
  int64_t product = 1;
  for (int c = 0; load && c < load->at.n_checks && product <= CONV_PHASES; c++)
    product *= dim_is_number(load->at.checks[c].divisor) ? load->at.checks[c].divisor : 0;
  return product;
}

/* At most so many phases, and the bytes of each. */
static int64_t most_phases(const matmul_part *t, size_t *each) {
  int64_t phases = 1;
  *each = take((size_t)t->n_accs, sizeof(matmul_acc)) + region_size(&t->epilogue);
  for (int c = 0; c < t->n_accs; c++) {
    *each += take((size_t)t->accs[c].n_products, sizeof(matmul_product));
    for (int i = 0; i < t->accs[c].n_products; i++) {
      const matmul_product *p = &t->accs[c].products[i];
      phases = min_i64(phases * divisors_of(&p->a), CONV_PHASES + 1);
      phases = min_i64(phases * divisors_of(&p->b), CONV_PHASES + 1);
      *each += region_size(&p->a) + region_size(&p->b);
    }
  }
  return max_i64(1, min_i64(phases, CONV_PHASES));
}

/* The parts of a step once they are cut, at most; bytes of all that is new. */
static int64_t most_parts(const step *s, size_t *bytes) {
  int64_t n = 0;
  *bytes = 0;
  for (int i = 0; i < s->n_parts; i++) {
    const matmul_part *t = &s->parts[i].u.matmul;
    size_t each;
    int64_t phases = conv_any_divisor(t) ? most_phases(t, &each) : 1;
    n += phases;
    *bytes += phases > 1 ? (size_t)phases * each + conv_rest_bytes(t) : 0;
  }
  *bytes += take(2, sizeof(step)) + take((size_t)n, sizeof(part)) +
            take((size_t)s->n_parts, sizeof(part));
  return n;
}

size_t conv_split_bytes(const step *s) {
  size_t bytes;
  return most_parts(s, &bytes) > s->n_parts ? cpu_take_bytes(bytes) : 0;
}

/* A step whose parts are added one by one. */
static step *make_step(conv_maker *k, const step *like, archetype kind, int64_t n_parts) {
  step *own = conv_make(k, sizeof *own);
  part *parts = conv_make(k, (size_t)n_parts * sizeof *parts);
  if (!own || !parts)
    return NULL;
  *own = *like;
  own->kind = kind;
  own->parts = parts;
  own->n_parts = 0;
  return own;
}

/* A part's phases to `to`, and what is left behind them to `rest`; the part itself where it stays whole. */
static int split_part(conv_maker *k, const part *from, part *to, step *rest) {
  conv_map m;
  matmul_part bare = from->u.matmul;
  int64_t phases = conv_find_phases(k->r, &from->u.matmul, &m);
  part *last = (part *)rest->parts + rest->n_parts;
  bool parted = phases > 1 && conv_make_rest(k, &from->u.matmul, &bare, &last->u.loop);
  int made = phases > 1 ? make_phases(k, &bare, m, phases, to) : 0;
  if (made == 0)
    *to = *from;
  rest->n_parts += made > 0 && parted;
  return made > 0 ? made : 1;
}

sn_status conv_split(cpu_run *r, const step *s, const step **out, const step **out_rest) {
  size_t bytes;
  int64_t n = most_parts(s, &bytes);
  *out = s;
  *out_rest = NULL;
  if (n == s->n_parts)
    return SN_OK;
  char *memory = cpu_take(r, bytes);
  if (!memory)
    return SN_ERR_INTERNAL;
  conv_maker k = {r, memory, memory + bytes};
  step *own = make_step(&k, s, STEP_MATMUL, n);
  step *rest = make_step(&k, s, STEP_POINTWISE, s->n_parts);
  if (!own || !rest)
    return SN_ERR_INTERNAL;
  for (int i = 0; i < s->n_parts; i++)
    own->n_parts += split_part(&k, &s->parts[i], (part *)own->parts + own->n_parts, rest);
  *out = own;
  *out_rest = rest->n_parts > 0 ? rest : NULL;
  return SN_OK;
}
