/* Values into instructions: the planner's side of element.h. Coordinates are expressions over a group's axes; what an
 * element reads is loaded, found in a register of the group, or computed in place where its value floats. */
#include "ops/table.h"
#include "plan/fuse.h"

/* Of what is computed again rather than stored: arithmetic, in multiplications; how many times smaller numbers of rows are. */
enum { CHEAP_FLOPS = 2, CHEAP_SHARE = 16 };

typedef struct nested {
  elem_ctx c;
  emission *e;
  const node *n;
  int depth;
} nested;

/* Large ones (parts) are often alone. */
bool fuse_room(arena *memory, void **array, int n, int *cap, size_t each) {
  enum { LARGE = 1024 };
  if (n < *cap)
    return true;
  int wider = *cap ? *cap * 2 : each < LARGE ? 8 : 1;
  void *grown = arena_array(memory, (size_t)wider, each);
  if (!grown)
    return false;
  if (n)
    memcpy(grown, *array, (size_t)n * each);
  *array = grown;
  *cap = wider;
  return true;
}

static reg give_up(emission *e) {
  e->f->failed = true;
  return 0;
}

static reg no_memory(emission *e) {
  e->f->status = SN_ERR_NO_MEMORY;
  return give_up(e);
}

reg emit_add(emission *e, const instr *i) {
  if (e->f->failed)
    return 0; /* its arguments may not be there */
  reg r = dag_add(e->into, i);
  if (e->into->no_memory)
    return no_memory(e);
  return e->into->full ? give_up(e) : r;
}

/* --- services --- */

static reg service_input(elem_ctx *c, int i, const place *at) {
  nested *n = (nested *)c;
  if (n->e->root_axes && n->depth == 0 && !n->e->root_place) {
    n->e->root_place = fuse_keep_place(n->e->f, at);
    n->e->root_shape = c->in[i].shape;
  }
  return emit_value(n->e, n->n->in[i].id, at, n->depth + 1);
}

static reg service_add(elem_ctx *c, const instr *i) { return emit_add(((nested *)c)->e, i); }

/* The root of a row part opens its inner axes, or finds those of the group. */
static void service_axes(elem_ctx *c, int n, const sn_dim *extents, coord *out) {
  nested *own = (nested *)c;
  fuse_group *g = own->e->f->groups[own->e->group];
  bool fits = own->e->root_axes && own->depth == 0 && g->n_outer + n <= REGION_AXES;
  bool fresh = g->n_axes == g->n_outer;
  for (int k = 0; k < n && fits; k++) {
    int axis = g->n_outer + k;
    fits = fresh || (axis < g->n_axes && g->extent[axis] == extents[k]);
    if (fresh)
      g->extent[axis] = extents[k];
    out[k] = coord_axis(axis);
  }
  if (fits && fresh)
    g->n_axes = g->n_outer + n;
  if (!fits || g->n_axes != g->n_outer + n) {
    memset(out, 0, (size_t)n * sizeof *out);
    (void)give_up(own->e);
  }
}

static reg service_reduce(elem_ctx *c, reduce_kind kind, sn_dtype dtype, reg body) {
  instr i = {.op = REGION_REDUCE, .code = (uint8_t)kind, .dtype = (uint8_t)dtype, .a = body};
  return emit_add(((nested *)c)->e, &i);
}

void fuse_require_size(fuse *f, const node *n, sn_dim size, const char *what) {
  int64_t lo, hi;
  dim_range(f->g, size, &lo, &hi);
  if (lo >= 0)
    return;
  for (int k = 0; k < f->n_requirements; k++)
    if (f->requirements[k].size == size)
      return;
  const char *message = arena_printf(&f->memory, "%s: %s", graph_op(f->g, n)->name, what);
  if (!message || !fuse_room(&f->memory, (void **)&f->requirements, f->n_requirements,
                             &f->cap_requirements, sizeof *f->requirements)) {
    f->status = SN_ERR_NO_MEMORY;
    return;
  }
  f->requirements[f->n_requirements++] = (program_requirement){size, message};
}

/* Known already: fuse_facts.c. */
static void service_require_size(elem_ctx *c, sn_dim size, const char *what) {
  (void)c;
  (void)size;
  (void)what;
}

static sn_status site_status(const node *n) {
  bool divides = n->op == OP_div || n->op == OP_floor_div || n->op == OP_rem || n->op == OP_fmod;
  return divides ? SN_ERR_NUMERIC : SN_ERR_INVALID;
}

static int find_site(fuse *f, const char *format, sn_status status) {
  for (int k = 0; k < f->n_sites; k++)
    if (strcmp(f->sites[k].format, format) == 0)
      return k;
  if (!fuse_room(&f->memory, (void **)&f->sites, f->n_sites, &f->cap_sites, sizeof *f->sites))
    return -1;
  f->sites[f->n_sites] = (program_site){format, status};
  return f->n_sites++;
}

/* A scope as part of a format. */
static const char *escaped(arena *memory, const char *scope) {
  char *out = arena_alloc(memory, 2 * strlen(scope) + 1), *to = out;
  for (; out && *scope; scope++) {
    *to++ = *scope;
    if (*scope == '%')
      *to++ = '%';
  }
  return out;
}

void emit_require(emission *e, const node *n, reg holds, reg shown, const char *message) {
  const char *scope = escaped(&e->f->memory, n->scope), *name = graph_op(e->f->g, n)->name;
  if (!scope) {
    (void)no_memory(e);
    return;
  }
  char *format =
      arena_printf(&e->f->memory, "%s%s%s: %s", scope, *scope ? ": " : "", name, message);
  int site = format ? find_site(e->f, format, site_status(n)) : -1;
  instr i = {
      .op = REGION_REQUIRE, .dtype = SN_BOOL, .a = holds, .b = shown, .index = (uint32_t)site};
  if (site < 0)
    (void)no_memory(e);
  else
    (void)emit_add(e, &i);
}

static void service_require(elem_ctx *c, reg holds, reg shown, const char *message) {
  nested *own = (nested *)c;
  if (own->depth == 0 && own->e->checking == (uint32_t)(own->n - own->e->f->g->nodes) + 1)
    emit_require(own->e, own->n, holds, shown, message);
}

static const elem_services services = {service_input,  service_add,          service_axes,
                                       service_reduce, service_require_size, service_require};

/* --- values --- */

reg emit_node(emission *e, const node *n, const place *at, int depth) {
  const sn_graph *g = e->f->g;
  const op_desc *op = graph_op(g, n);
  sn_type few[MAX_INPUTS], *types = few;
  if (n->n_in > MAX_INPUTS)
    types = arena_array(&e->f->memory, (size_t)n->n_in, sizeof *types);
  if (!types)
    return no_memory(e);
  for (int k = 0; k < n->n_in; k++)
    types[k] = n->in[k].id ? g->values[n->in[k].id].type : (sn_type){0};
  nested own = {.e = e, .n = n, .depth = depth};
  own.c = (elem_ctx){.services = &services,
                     .graph = e->f->g,
                     .op = n->op,
                     .name = op->name,
                     .attrs = n->attrs,
                     .n_in = n->n_in,
                     .in = types,
                     .out = &g->values[n->first].type,
                     .axis_extents = e->f->groups[e->group]->extent};
  return op->impl->element(&own.c, at);
}

place *fuse_keep_place(fuse *f, const place *at) {
  place *kept = arena_copy(&f->memory, at, sizeof *at);
  if (!kept)
    f->status = SN_ERR_NO_MEMORY;
  return kept;
}

/* For comparing only: what lies behind the used coordinates and checks is not there. */
static const place *keep_used(fuse *f, const place *at) {
  size_t size = at->n_checks ? offsetof(place, checks) + (size_t)at->n_checks * sizeof at->checks[0]
                             : offsetof(place, c) + (size_t)at->rank * sizeof at->c[0];
  return arena_copy(&f->memory, at, size);
}

static const memo *find_memo(const fuse_group *g, uint32_t value, const place *at) {
  for (int k = g->memo_head[value % COUNT_OF(g->memo_head)]; k; k = g->memo[k - 1].next)
    if (g->memo[k - 1].value == value && g->memo[k - 1].at && place_equal(g->memo[k - 1].at, at))
      return &g->memo[k - 1];
  return NULL;
}

bool fuse_remember(fuse *f, fuse_group *g, uint32_t value, const place *at, reg r) {
  if (!fuse_room(&f->memory, (void **)&g->memo, g->n_memo, &g->cap_memo, sizeof *g->memo)) {
    f->status = SN_ERR_NO_MEMORY;
    return false;
  }
  int *head = &g->memo_head[value % COUNT_OF(g->memo_head)];
  g->memo[g->n_memo] = (memo){value, *head, r, at};
  *head = ++g->n_memo;
  return true;
}

static void keep_memo(emission *e, uint32_t value, const place *at, reg r) {
  const place *kept = keep_used(e->f, at);
  if (!kept || !fuse_remember(e->f, e->f->groups[e->group], value, kept, r))
    (void)no_memory(e);
}

static reg emit_float(emission *e, uint32_t value, const place *at, int depth);

/* What a group reads of another must be made before it. */
static bool comes_before(emission *e, int other) {
  fuse_group *g = e->f->groups[e->group];
  if (other < 0)
    return true;
  fuse_group *h = e->f->groups[other];
  if (e->fresh && g->stage <= h->stage)
    g->stage = h->stage + 1;
  h->read = h->read || h->stage < g->stage;
  return h->stage < g->stage;
}

/* Element `at` of a value seen in that shape, which has as many elements. */
static reg emit_load(emission *e, uint32_t value, sn_shape shape, const place *at) {
  access_room room;
  instr i = {.op = REGION_LOAD, .dtype = (uint8_t)e->f->g->values[value].type.dtype};
  const sn_dim *extents = e->f->groups[e->group]->extent;
  nested own = {.c = {.services = &services, .graph = e->f->g, .axis_extents = extents}, .e = e};
  if (!fuse_access(e->f, &own.c, extents, value, shape, at, &room, &i.at))
    return give_up(e);
  return emit_add(e, &i);
}

/* Whether a group computes a value for itself that was stored only later. It then goes on doing so: what a part loads it
 * never computes, so that a proof can tell the two apart. */
bool fuse_computes(const fuse_group *g, uint32_t value) {
  for (int k = g->memo_head[value % COUNT_OF(g->memo_head)]; k; k = g->memo[k - 1].next) {
    const memo *m = &g->memo[k - 1];
    const instr *i = &g->d.nodes[m->r].i;
    if (m->value == value && (!m->at || i->op != REGION_LOAD || i->at.value != value))
      return true;
  }
  return false;
}

static bool computes_already(const emission *e, uint32_t value) {
  return fuse_computes(e->f->groups[e->group], value);
}

/* Whether other loops compute a member for themselves: little arithmetic on one value that is in memory anyway and on numbers of rows
 * (x - mean). It is then never stored: reading it costs what reading that value does. */
static bool is_cheap_again(const emission *e, uint32_t value) {
  const fuse *f = e->f;
  const fuse_value *v = &f->values[value];
  const node_facts *facts = fuse_facts(f, value);
  const node *n = fuse_node(f, value);
  const fuse_group *home = f->groups[fuse_root(f, v->group)];
  if (f->options->no_fusion || f->groups[e->group]->kind != GROUP_LOOP ||
      home->kind != GROUP_LOOP || home->updates)
    return false;
  if (v->pinned || v->wanted || facts->view || facts->reduces || facts->requires ||
      facts->flops > CHEAP_FLOPS)
    return false;
  int whole = 0;
  for (int k = 0; k < n->n_in; k++) {
    const fuse_value *in = &f->values[n->in[k].id];
    if (n->in[k].id && in->elements * CHEAP_SHARE > v->elements) {
      whole++;
      bool made_elsewhere =
          in->state == VALUE_MEMBER && fuse_root(f, in->group) != fuse_root(f, v->group);
      if (in->state != VALUE_LEAF && !made_elsewhere)
        return false;
    }
  }
  return whole == 1;
}

static reg emit_member(emission *e, uint32_t value, const place *at, int depth) {
  const fuse_value *v = &e->f->values[value];
  int home = fuse_root(e->f, v->group);
  if (home != e->group && (computes_already(e, value) || is_cheap_again(e, value)))
    return emit_float(e, value, at, depth);
  if (home != e->group)
    return comes_before(e, home) ? emit_load(e, value, fuse_shape(e->f, value), at) : give_up(e);
  bool same = e->into == &e->f->groups[home]->d && v->at && v->at->rank == at->rank;
  for (int d = 0; same && d < at->rank; d++)
    same = coord_equal(&at->c[d], &v->at->c[d]);
  return same ? v->r : give_up(e);
}

/* A barrier's second argument is waited for, not read. */
static bool emit_wait(emission *e, const node *n) {
  if (n->op != OP_barrier || !n->in[1].id)
    return true;
  fuse *f = e->f;
  fuse_group *g = f->groups[e->group];
  int other = fuse_root(f, f->values[n->in[1].id].group);
  if (other < 0 || other == e->group)
    return true;
  if (!comes_before(e, other))
    return false;
  for (int k = 0; k < g->n_after; k++)
    if (g->after[k] == other)
      return true;
  if (!fuse_room(&f->memory, (void **)&g->after, g->n_after, &g->cap_after, sizeof *g->after)) {
    (void)no_memory(e);
    return false;
  }
  g->after[g->n_after++] = other;
  return true;
}

/* Where a check fails a load gives 0; so does an expression under checks. */
static reg emit_masked(emission *e, reg r, const place *at) {
  check checks[ACCESS_CHECKS];
  if (!at->n_checks || e->f->failed)
    return r;
  const instr made_as = e->into->nodes[r].i, *made = &made_as;
  if (made->op == REGION_LOAD && made->at.n_checks >= at->n_checks)
    return r;
  instr inside = {
      .op = REGION_INSIDE, .dtype = SN_BOOL, .at = {.n_checks = at->n_checks, .checks = checks}};
  for (int k = 0; k < at->n_checks; k++) {
    const struct place_check *c = &at->checks[k];
    checks[k] = (check){c->of.n, c->of.terms, c->of.offset, c->size, c->divisor ? c->divisor : 1};
  }
  instr zero = {.op = REGION_NUMBER, .dtype = made->dtype};
  instr select = {.op = REGION_ALU, .code = ALU_select, .dtype = made->dtype};
  select.b = r;
  select.a = emit_add(e, &inside);
  select.c = emit_add(e, &zero);
  return emit_add(e, &select);
}

/* The value in memory that a value is a reshape of, where that one stands with its channels last and this one has its pixels by
 * themselves, so that terms can say where they are; else 0. */
static uint32_t shown_image(const emission *e, uint32_t value) {
  const fuse *f = e->f;
  sn_shape shape = fuse_shape(f, value);
  while (f->values[value].state == VALUE_FLOAT && fuse_node(f, value)->op == OP_reshape)
    value = fuse_node(f, value)->in[0].id;
  const fuse_value *v = &f->values[value];
  bool there = v->state == VALUE_MEMBER && v->channels && fuse_root(f, v->group) != e->group;
  return there && fuse_is_image(v, shape) && !computes_already(e, value) &&
                 !is_cheap_again(e, value)
             ? value
             : 0;
}

static reg emit_float(emission *e, uint32_t value, const place *at, int depth) {
  const node *n = fuse_node(e->f, value);
  bool view = fuse_facts(e->f, value)->view, within = e->masked;
  uint32_t image = shown_image(e, value);
  if (image)
    return comes_before(e, fuse_root(e->f, e->f->values[image].group))
               ? emit_load(e, image, fuse_shape(e->f, value), at)
               : give_up(e);
  if (!emit_wait(e, n))
    return give_up(e);
  e->masked = within || (!view && at->n_checks);
  reg r = emit_node(e, n, at, depth);
  e->masked = within;
  return view || within ? r : emit_masked(e, r, at);
}

reg emit_value(emission *e, uint32_t value, const place *at, int depth) {
  fuse *f = e->f;
  const fuse_value *v = &f->values[value];
  if (f->failed || f->status != SN_OK)
    return 0;
  bool own = e->into == &f->groups[e->group]->d;
  const memo *known = own ? find_memo(f->groups[e->group], value, at) : NULL;
  if (known)
    return known->r;
  reg r = 0;
  switch (v->state) {
  case VALUE_LEAF: r = emit_load(e, value, fuse_shape(f, value), at); break;
  case VALUE_MEMBER: r = emit_masked(e, emit_member(e, value, at, depth), at); break;
  case VALUE_FLOAT: r = emit_float(e, value, at, depth); break;
  default: return give_up(e);
  }
  if (!own || f->failed)
    return r;
  if (!e->masked)
    keep_memo(e, value, at, r);
  else if (v->state == VALUE_FLOAT && !computes_already(e, value) &&
           !fuse_remember(f, f->groups[e->group], value, NULL, 0))
    return no_memory(e);
  return r;
}
