/* See program_make.h. What tells about programs looks at their regions itself: it must not share faults with the passes. */
#include "support/program_make.h"

int make_draw(uint64_t *state, int n) {
  *state += UINT64_C(0x9e3779b97f4a7c15);
  uint64_t z = *state;
  z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
  return (int)((z ^ (z >> 31)) % (uint64_t)n);
}

void program_make_start(program_make *m, sn_ctx *ctx) {
  *m = (program_make){0};
  m->failed = program_create(ctx, &m->p) != SN_OK;
  (void)make_value(m, HOME_CONSTANT, 0); /* id 0 is unused */
}

/* Doubles an array of the program's memory. */
static bool grow(program_make *m, void **array, size_t n, size_t wider, size_t each) {
  void *grown = m->failed ? NULL : arena_array(&m->p->memory, wider, each);
  m->failed = !grown;
  if (m->failed)
    return false;
  if (n)
    memcpy(grown, *array, n * each);
  *array = grown;
  return true;
}

uint32_t make_value(program_make *m, value_home home, int64_t bytes) {
  if (m->failed)
    return 0;
  program *p = m->p;
  if (p->n_values == m->cap_values) {
    uint32_t wider = m->cap_values ? 2 * m->cap_values : 16;
    if (!grow(m, (void **)&p->values, p->n_values, wider, sizeof *p->values))
      return 0;
    m->cap_values = wider;
  }
  program_value *v = &p->values[p->n_values];
  *v = (program_value){.count = bytes / 4, .bytes = bytes, .home = home};
  v->type = (sn_type){SN_F32, {1, {bytes / 4}}};
  if (home >= HOME_INPUT && p->n_values)
    v->index = (uint32_t)m->next_index[home]++;
  return p->n_values++;
}

static int length(const uint32_t *list) {
  int n = 0;
  while (list[n])
    n++;
  return n;
}

static access whole(program_make *m, uint32_t value) {
  term *t = arena_alloc(&m->p->memory, sizeof *t);
  if (!t) {
    m->failed = true;
    return (access){0};
  }
  *t = (term){.axis = 0, .stride = 1, .div = 1, .mod = 0};
  return (access){.value = value, .n_terms = 1, .terms = t};
}

static void fill_part(program_make *m, part *one, const uint32_t *reads, const uint32_t *writes) {
  int n = length(reads), k = length(writes), at = 0;
  instr *code = arena_array(&m->p->memory, (size_t)(n + k + 1), sizeof *code);
  m->failed |= !code;
  if (m->failed)
    return;
  for (int i = 0; i < n; i++)
    code[at++] = (instr){.op = REGION_LOAD, .dtype = SN_F32, .at = whole(m, reads[i])};
  if (n == 0)
    code[at++] = (instr){.op = REGION_NUMBER, .dtype = SN_F32, .x = 1};
  for (int i = 0; i < k; i++)
    code[at++] = (instr){.op = REGION_STORE, .dtype = SN_F32, .at = whole(m, writes[i])};
  uint32_t sized = k ? writes[0] : n ? reads[0] : 0;
  one->u.loop = (loop_part){.n_axes = 1, .n_phases = 1, .code = {at, code}};
  one->u.loop.extent[0] = m->p->values[sized].count;
}

void make_step(program_make *m, const uint32_t *reads, const uint32_t *writes) {
  if (m->failed)
    return;
  program *p = m->p;
  if (m->n_steps == m->cap_steps) {
    int wider = m->cap_steps ? 2 * m->cap_steps : 16;
    if (!grow(m, (void **)&p->steps, (size_t)m->n_steps, (size_t)wider, sizeof *p->steps))
      return;
    m->cap_steps = wider;
  }
  part *one = arena_alloc(&p->memory, sizeof *one);
  m->failed = !one;
  if (m->failed)
    return;
  fill_part(m, one, reads, writes);
  p->steps[m->n_steps] = (step){.kind = STEP_POINTWISE, .n_parts = 1, .parts = one, .name = "made"};
  p->steps[m->n_steps].flops = m->n_steps;
  m->n_steps++;
}

void make_after(program_make *m, const uint32_t *values) {
  if (m->failed)
    return;
  step *s = &m->p->steps[m->n_steps - 1];
  s->n_after = length(values);
  s->after = arena_copy(&m->p->memory, values, (size_t)s->n_after * sizeof *values);
  m->failed = !s->after;
}

program *program_make_end(program_make *m, int n_prepare, int n_commit) {
  program *p = m->p;
  if (m->failed) {
    program_destroy(p);
    return NULL;
  }
  p->n_prepare = n_prepare;
  p->n_commit = n_commit;
  p->n_main = m->n_steps - n_prepare - n_commit;
  p->n_inputs = m->next_index[HOME_INPUT];
  p->n_outputs = m->next_index[HOME_OUTPUT];
  p->n_states = m->next_index[HOME_STATE];
  return p;
}

/* --- at random --- */

enum { MOST_STEPS = 4096, STATES = 3, READS = 4 };

typedef struct maker {
  program_make m;
  uint64_t state;
  const random_program *how;
  uint32_t pool[MOST_STEPS]; /* values that may be read */
  int n_pool;
  bool gone[4 * MOST_STEPS]; /* by value: another is in place of it */
} maker;

static int64_t some_bytes(maker *w) {
  int64_t limit = w->how->largest / 4;
  return make_draw(&w->state, 20) == 0 ? 0 : 4 * (1 + make_draw(&w->state, (int)limit));
}

/* Some of the pool, mostly the youngest, each once; returns how many. */
static int some_reads(maker *w, uint32_t *reads) {
  int n = 0, wanted = make_draw(&w->state, READS);
  for (int i = 0; i < wanted && w->n_pool; i++) {
    int back = make_draw(&w->state, make_draw(&w->state, 3) ? 6 : w->n_pool);
    uint32_t v = w->pool[back < w->n_pool ? w->n_pool - 1 - back : 0];
    bool seen = w->gone[v];
    for (int k = 0; k < n; k++)
      seen |= reads[k] == v;
    if (!seen)
      reads[n++] = v;
  }
  reads[n] = 0;
  return n;
}

static void random_step(maker *w, value_home home) {
  uint32_t reads[READS + 1], writes[3] = {0};
  int n = some_reads(w, reads);
  int64_t bytes = some_bytes(w);
  uint32_t v = make_value(&w->m, home, bytes);
  writes[0] = v;
  if (make_draw(&w->state, 5) == 0)
    writes[1] = make_value(&w->m, home, some_bytes(w));
  make_step(&w->m, reads, writes);
  if (w->m.failed)
    return;
  program_value *values = w->m.p->values;
  bool plain = w->how->plain;
  if (!plain && n && make_draw(&w->state, 6) == 0 && values[reads[0]].home == home) {
    values[v].bytes = values[reads[0]].bytes;
    values[v].count = values[reads[0]].count;
    values[v].in_place_of = reads[0];
    w->gone[reads[0]] = true;
  } else if (!plain && make_draw(&w->state, 8) == 0) {
    make_step(&w->m, (uint32_t[]){0}, (uint32_t[]){v, 0}); /* another piece */
  }
  if (!plain && w->n_pool && make_draw(&w->state, 10) == 0)
    make_after(&w->m, (uint32_t[]){w->pool[make_draw(&w->state, w->n_pool)], 0});
  w->pool[w->n_pool++] = v;
  if (writes[1])
    w->pool[w->n_pool++] = writes[1];
}

/* Steps that read and write a state each. */
static int commit_states(maker *w, const uint32_t *states) {
  for (int i = 0; i < STATES && !w->m.failed; i++) {
    uint32_t reads[READS + 2];
    int n = some_reads(w, reads);
    uint32_t fresh = make_value(&w->m, HOME_STATE, w->m.p->values[states[i]].bytes);
    w->m.next_index[HOME_STATE]--;
    if (w->m.failed)
      return 0;
    w->m.p->values[fresh].index = w->m.p->values[states[i]].index;
    reads[n] = states[i];
    reads[n + 1] = 0;
    for (int k = 0; k < n; k++)
      reads[n] = reads[k] == states[i] ? 0 : reads[n];
    make_step(&w->m, reads, (uint32_t[]){fresh, 0});
  }
  return STATES;
}

program *make_random_program(sn_ctx *ctx, const random_program *how) {
  static maker w; /* large; every field that is read is set anew */
  memset(&w, 0, sizeof w);
  w.state = how->seed;
  w.how = how;
  program_make_start(&w.m, ctx);
  uint32_t states[STATES];
  int n_prepare = 0, n_commit = 0;
  for (int i = 0; i < STATES; i++)
    states[i] = w.pool[w.n_pool++] = make_value(&w.m, HOME_STATE, 256 * (i + 1));
  if (!how->plain)
    for (int i = 0; i < how->steps / 6; i++)
      random_step(&w, HOME_PREPARED);
  n_prepare = w.m.n_steps;
  for (int i = 0; i < how->steps && w.n_pool < MOST_STEPS - 4; i++)
    random_step(&w, HOME_ARENA);
  if (!how->plain)
    n_commit = commit_states(&w, states);
  return program_make_end(&w.m, n_prepare, n_commit);
}

program *make_training_program(sn_ctx *ctx, uint64_t seed, int layers) {
  enum { KEPT = 3 };
  program_make m;
  program_make_start(&m, ctx);
  uint32_t x = make_value(&m, HOME_INPUT, 4096);
  uint32_t first = 0;
  for (int l = 0; l < layers; l++) { /* forwards: a few kept values and one that dies at once */
    for (int k = 0; k < KEPT; k++) {
      uint32_t kept = make_value(&m, HOME_ARENA, 4096 << make_draw(&seed, 4));
      make_step(&m, (uint32_t[]){x, 0}, (uint32_t[]){kept, 0});
      first = first ? first : kept;
      x = kept;
    }
    uint32_t brief = make_value(&m, HOME_ARENA, 4096 * (1 + make_draw(&seed, 24)));
    make_step(&m, (uint32_t[]){x, 0}, (uint32_t[]){brief, 0});
    uint32_t next = make_value(&m, HOME_ARENA, 8192);
    make_step(&m, (uint32_t[]){brief, x, 0}, (uint32_t[]){next, 0});
    x = next;
  }
  uint32_t grad = make_value(&m, HOME_ARENA, 8192);
  make_step(&m, (uint32_t[]){x, 0}, (uint32_t[]){grad, 0});
  for (int l = layers - 1; l >= 0; l--)
    for (int k = KEPT - 1; k >= 0 && !m.failed;
         k--) { /* backwards: its gradient, a weight's, the next */
      uint32_t kept = first + (uint32_t)(l * (KEPT + 2) + k);
      int64_t bytes = m.p->values[kept].bytes;
      uint32_t back = make_value(&m, HOME_ARENA, bytes);
      uint32_t weight = make_value(&m, HOME_ARENA, 4096 * (1 + make_draw(&seed, 8)));
      uint32_t output = make_value(&m, HOME_OUTPUT, 4096);
      make_step(&m, (uint32_t[]){grad, kept, 0}, (uint32_t[]){back, 0});
      make_step(&m, (uint32_t[]){grad, kept, 0}, (uint32_t[]){weight, 0});
      make_step(&m, (uint32_t[]){weight, 0}, (uint32_t[]){output, 0});
      grad = back;
    }
  return program_make_end(&m, 0, 0);
}

/* --- told apart --- */

static bool has(const step *s, uint32_t value, region_op op) {
  const region *r = &s->parts[0].u.loop.code;
  for (int i = 0; i < r->n; i++)
    if (r->code[i].op == op && r->code[i].at.value == value)
      return true;
  return false;
}

bool made_reads(const step *s, uint32_t value) { return has(s, value, REGION_LOAD); }
bool made_writes(const step *s, uint32_t value) { return has(s, value, REGION_STORE); }

uint32_t made_root(const program *p, uint32_t value) {
  while (p->values[value].in_place_of)
    value = p->values[value].in_place_of;
  return value;
}

bool made_life(const program *p, uint32_t root, int *first, int *last) {
  *first = *last = -1;
  for (int s = 0; s < program_steps(p); s++) {
    const region *r = &p->steps[s].parts[0].u.loop.code;
    for (int i = 0; i < r->n; i++) {
      uint32_t v = r->code[i].at.value;
      if (!v || made_root(p, v) != root)
        continue;
      *first = *first < 0 ? s : *first;
      *last = s;
    }
  }
  return *first >= 0;
}

int64_t made_peak(const program *p) {
  int64_t peak = 0;
  int n = program_steps(p);
  int64_t *alive = mem_array(p->memory.ctx, (size_t)n + 1, sizeof *alive);
  if (!alive)
    return -1;
  for (uint32_t v = 1; v < p->n_values; v++) {
    int first, last;
    if (p->values[v].home != HOME_ARENA || p->values[v].in_place_of ||
        !made_life(p, v, &first, &last))
      continue;
    for (int s = first; s <= last; s++)
      alive[s] += (p->values[v].bytes + PROGRAM_ALIGN - 1) / PROGRAM_ALIGN * PROGRAM_ALIGN;
  }
  for (int s = 0; s < n; s++)
    peak = max_i64(peak, alive[s]);
  mem_free(p->memory.ctx, alive, ((size_t)n + 1) * sizeof *alive);
  return peak;
}
