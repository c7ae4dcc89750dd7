/* From groups to a program: sections, values and their homes, parts, steps, order.
 *
 * Sections. `prepare`: what depends on constants and unassigned states alone. `commit`: groups that do nothing but make
 * new values of states, in place; and copies of other assigned values. All else is `main`. */
#include "ops/cost.h"
#include "ops/table.h"
#include "plan/fuse_steps.h"

static uint32_t add_value(assembly *a, uint32_t source, value_home home, uint32_t index) {
  program *p = a->p;
  fuse *f = a->f;
  if (!fuse_room(&p->memory, (void **)&p->values, (int)p->n_values, &a->cap_values,
                 sizeof *p->values)) {
    f->status = SN_ERR_NO_MEMORY;
    return 0;
  }
  if (p->n_values == 0)
    p->n_values = 1;
  const sn_type *type = &f->g->values[source].type;
  program_value *v = &p->values[p->n_values];
  *v = (program_value){.type = *type,
                       .count = dim_count(f->g, type->shape),
                       .home = home,
                       .index = index,
                       .source = source,
                       .first = -1,
                       .last = -1};
  int64_t most = 1;
  for (int d = 0; d < type->shape.rank; d++)
    if (!mul_fits(most, sn_dim_max(f->g, type->shape.dim[d]), &most))
      f->status = diag_fail(f->g->ctx, SN_ERR_NO_MEMORY, "plan: a value is too large");
  if (!mul_fits(most, (int64_t)sn_dtype_size(type->dtype), &v->bytes))
    f->status = diag_fail(f->g->ctx, SN_ERR_NO_MEMORY, "plan: a value is too large");
  return f->status == SN_OK ? p->n_values++ : 0;
}

/* --- leaves --- */

static sn_status add_leaf(assembly *a, const node *n, program_leaf *list, int *n_list,
                          value_home home) {
  bool live = a->f->values[n->first].state == VALUE_LEAF;
  program_leaf *leaf = &list[*n_list];
  *leaf = (program_leaf){.name = arena_strdup(&a->p->memory, graph_leaf_name(a->f->g, n)),
                         .type = a->f->g->values[n->first].type};
  if (!leaf->name)
    return SN_ERR_NO_MEMORY;
  for (int k = 0; home == HOME_STATE && k < a->f->g->n_assigns; k++)
    leaf->assigned = leaf->assigned || a->f->g->assigns[k].state.id == n->first;
  if (live || leaf->assigned) {
    leaf->value = add_value(a, n->first, home, (uint32_t)*n_list);
    a->f->values[n->first].id = leaf->value;
  }
  a->leaf_index[n->first] = *n_list;
  ++*n_list;
  return a->f->status;
}

static sn_status add_constant(assembly *a, const node *n) {
  const sn_bytes *data = &((const attrs_constant *)n->attrs)->data;
  if (a->f->values[n->first].state != VALUE_LEAF)
    return SN_OK;
  program_constant *c = &a->p->constants[a->p->n_constants];
  *c = (program_constant){arena_copy(&a->p->memory, data->data, data->size), data->size};
  if (!c->data)
    return SN_ERR_NO_MEMORY;
  a->f->values[n->first].id = add_value(a, n->first, HOME_CONSTANT, (uint32_t)a->p->n_constants++);
  return a->f->status;
}

static sn_status add_leaves(assembly *a) {
  const sn_graph *g = a->f->g;
  program *p = a->p;
  size_t n = 1;
  for (uint32_t i = 0; i < g->n_nodes; i++)
    n += g->nodes[i].op == OP_input || g->nodes[i].op == OP_state || g->nodes[i].op == OP_constant;
  p->inputs = arena_array(&p->memory, n, sizeof *p->inputs);
  p->states = arena_array(&p->memory, n, sizeof *p->states);
  p->constants = arena_array(&p->memory, n, sizeof *p->constants);
  a->leaf_index = arena_array(&a->f->memory, g->n_values, sizeof *a->leaf_index);
  if (!p->inputs || !p->states || !p->constants || !a->leaf_index)
    return SN_ERR_NO_MEMORY;
  for (uint32_t i = 0; i < g->n_nodes; i++) {
    const node *leaf = &g->nodes[i];
    if (leaf->op == OP_input)
      SN_TRY(add_leaf(a, leaf, p->inputs, &p->n_inputs, HOME_INPUT));
    else if (leaf->op == OP_state)
      SN_TRY(add_leaf(a, leaf, p->states, &p->n_states, HOME_STATE));
    else if (leaf->op == OP_constant)
      SN_TRY(add_constant(a, leaf));
  }
  return SN_OK;
}

/* --- sections --- */

static int count_assigns(const sn_graph *g, uint32_t value) {
  int n = 0;
  for (int k = 0; k < g->n_assigns; k++)
    n += g->assigns[k].value.id == value;
  return n;
}

static uint32_t state_of(const sn_graph *g, uint32_t value) {
  for (int k = 0; k < g->n_assigns; k++)
    if (g->assigns[k].value.id == value)
      return g->assigns[k].state.id;
  return 0;
}

static bool is_output(const sn_graph *g, uint32_t value) {
  for (int k = 0; k < g->n_outputs; k++)
    if (g->outputs[k].value.id == value)
      return true;
  return false;
}

static bool is_member(const fuse_group *g, uint32_t value) {
  for (int k = 0; k < g->n_members; k++)
    if (g->members[k] == value)
      return true;
  return false;
}

/* Whether a load of a state is of the element to which the group stores the state's new value, at each point. */
static bool loads_what_it_stores(const fuse_group *g, const access *load, uint32_t made) {
  for (int k = 0; k < g->d.n; k++) {
    const instr *i = &g->d.nodes[k].i;
    if (i->op == REGION_STORE && i->at.value == made)
      return access_same_map(load, &i->at);
  }
  return false;
}

/* Makes nothing but new values of states, and reads no state that another makes anew, nor other elements of those that it
 * makes. */
static bool may_commit(const fuse *f, const fuse_group *g) {
  if (!g->commits || g->kind != GROUP_LOOP)
    return false;
  for (int k = 0; k < g->d.n; k++) {
    const instr *i = &g->d.nodes[k].i;
    if (i->op == REGION_REDUCE || i->op == REGION_REQUIRE)
      return false;
    for (int s = 0; i->op == REGION_LOAD && s < f->g->n_assigns; s++)
      if (f->g->assigns[s].state.id == i->at.value &&
          !loads_what_it_stores(g, &i->at, f->g->assigns[s].value.id))
        return false;
  }
  for (int k = 0; k < g->n_members; k++) {
    uint32_t v = g->members[k];
    if (f->values[v].stored ||
        (f->values[v].pinned && (count_assigns(f->g, v) != 1 || is_output(f->g, v))))
      return false;
  }
  return true;
}

static bool may_prepare(const fuse *f, const fuse_group *g) {
  for (int k = 0; k < g->n_members; k++)
    if (f->values[g->members[k]].pinned)
      return false;
  return g->prepared && g->n_members;
}

/* An update of a state that nothing else reads and whose new value it is. */
static bool takes_state(const fuse *f, const fuse_group *g) {
  uint32_t base = g->updates, made = g->n_members ? g->members[0] : 0;
  const node *n = &f->g->nodes[g->anchor];
  return base && n->in[1].id != base && n->in[2].id != base &&
         f->values[base].state == VALUE_LEAF && f->values[base].uses == 1 &&
         count_assigns(f->g, made) == 1 && state_of(f->g, made) == base && !is_output(f->g, made);
}

/* Whether a group may fail the run or makes what must be seen before anything is committed. */
static bool must_be_early(const fuse_group *g, uint32_t watched) {
  for (int k = 0; k < g->d.n; k++)
    if (g->d.nodes[k].i.op == REGION_REQUIRE)
      return true;
  return watched && is_member(g, watched);
}

static uint32_t watched_value(const fuse *f) {
  for (int k = 0; f->options->watched && k < f->g->n_outputs; k++)
    if (strcmp(f->g->outputs[k].name, f->options->watched) == 0)
      return f->g->outputs[k].value.id;
  return 0;
}

/* Groups that read leaves only could run at any time before their readers; just before keeps what they make short-lived, and
 * keeps it out of steps of early stages. */
static void delay_sources(fuse *f, fuse_group **order, int n) {
  for (int k = 0; k < n; k++)
    order[k]->soonest = INT32_MAX;
  for (int k = 0; k < n; k++) {
    const fuse_group *g = order[k];
    for (int r = 0; r < g->n_reads + g->n_after; r++) {
      int of = r < g->n_reads ? g->reads[r] : fuse_root(f, g->after[r - g->n_reads]);
      f->groups[of]->soonest = (int)min_i64(g->stage, f->groups[of]->soonest);
    }
  }
  for (int k = 0; k < n; k++)
    if (!order[k]->n_reads && !order[k]->n_after && !order[k]->prepared &&
        order[k]->soonest != INT32_MAX)
      order[k]->stage = order[k]->soonest - 1;
}

/* late: writes a state in place, or depends on what does. */
static void find_late(assembly *a, fuse_group *g, uint32_t watched) {
  fuse *f = a->f;
  g->takes_state = takes_state(f, g);
  g->late = g->takes_state;
  for (int r = 0; r < g->n_reads && !g->late; r++)
    g->late = f->groups[g->reads[r]]->late;
  for (int r = 0; r < g->n_after && !g->late; r++)
    g->late = f->groups[fuse_root(f, g->after[r])]->late;
  a->early = a->early || (g->late && must_be_early(g, watched));
}

/* What must be known before anything is committed, and all that it depends on. From the last group back. */
static void find_needed_early(const fuse *f, fuse_group *g, uint32_t watched) {
  g->needed_early = g->needed_early || must_be_early(g, watched);
  for (int r = 0; g->needed_early && r < g->n_reads; r++)
    f->groups[g->reads[r]]->needed_early = true;
  for (int r = 0; g->needed_early && r < g->n_after; r++)
    f->groups[fuse_root(f, g->after[r])]->needed_early = true;
}

static double bytes_made(const fuse *f, const fuse_group *g) {
  double bytes = 0;
  for (int k = 0; k < g->n_members; k++)
    bytes += type_bytes(f->g, &f->g->values[g->members[k]].type);
  return bytes;
}

/* Updates of neighbouring stages are one step: some dozens of steps in all, whatever the number of parameters. */
static void bundle_updates(const fuse *f, fuse_group **order, int n) {
  enum { BUNDLES = 32 };
  double total = 0, seen = 0;
  for (int k = 0; k < n; k++)
    total += may_commit(f, order[k]) ? bytes_made(f, order[k]) : 0;
  for (int k = 0; k < n; k++) {
    if (!may_commit(f, order[k]))
      continue;
    order[k]->bundle = total > 0 ? (int)(BUNDLES * seen / total) : 0;
    seen += bytes_made(f, order[k]);
  }
}

/* Once the watched output is known nothing can stop a run. What follows may then be part of the commit, so that the update
 * of a parameter stands right behind its gradient, whose memory is free again: a training step does not hold all gradients
 * at once. Without a watched output a run can be cancelled up to its end, and updates come last. */
static void find_lean(assembly *a, fuse_group **order, int n) {
  uint32_t watched = watched_value(a->f);
  bool updates = false;
  for (int k = n - 1; k >= 0; k--) {
    find_needed_early(a->f, order[k], watched);
    updates = updates || may_commit(a->f, order[k]);
  }
  a->lean = watched && updates && !a->early;
  if (!a->lean)
    return;
  for (int k = 0; k < n; k++)
    order[k]->late = order[k]->late || !order[k]->needed_early;
  bundle_updates(a->f, order, n);
}

/* Updates in place make what depends on them part of the commit; where that may not be, none is made in place. */
static sn_status find_sections(assembly *a) {
  fuse *f = a->f;
  fuse_group **order;
  int n;
  SN_TRY(fuse_sort_groups(f, &order, &n));
  delay_sources(f, order, n);
  for (int k = 0; k < n; k++)
    find_late(a, order[k], watched_value(f));
  find_lean(a, order, n);
  for (int k = 0; k < n; k++) {
    fuse_group *g = order[k];
    bool late = g->late && !a->early;
    g->takes_state = g->takes_state && !a->early;
    g->final = (!late || a->lean) && may_commit(f, g);
    bool ready = may_prepare(f, g);
    for (int r = 0; r < g->n_reads; r++)
      ready = ready && f->groups[g->reads[r]]->section == SECTION_PREPARE;
    for (int r = 0; r < g->n_after; r++)
      ready = ready && f->groups[fuse_root(f, g->after[r])]->section == SECTION_PREPARE;
    g->section = ready ? SECTION_PREPARE : g->final || late ? SECTION_COMMIT : SECTION_MAIN;
  }
  return SN_OK;
}

/* --- values of groups --- */

static sn_status add_group_value(assembly *a, const fuse_group *g, uint32_t value) {
  fuse *f = a->f;
  fuse_value *v = &f->values[value];
  if (!v->stored && !v->pinned)
    return SN_OK;
  value_home home = g->section == SECTION_PREPARE ? HOME_PREPARED : HOME_ARENA;
  uint32_t index = 0, old = 0;
  if (g->final || g->takes_state) {
    old = state_of(f->g, value);
    home = HOME_STATE;
    index = (uint32_t)a->leaf_index[old];
  }
  for (int k = 0; k < f->g->n_outputs && home == HOME_ARENA; k++)
    if (f->g->outputs[k].value.id == value) {
      home = HOME_OUTPUT;
      index = (uint32_t)k;
    }
  v->id = add_value(a, value, home, index);
  a->p->values[v->id].channels = v->channels;
  a->p->values[v->id].pixels = v->pixels;
  if (old)
    a->p->values[v->id].in_place_of = f->values[old].id;
  if (home == HOME_OUTPUT)
    a->p->outputs[index].value = v->id;
  return f->status;
}

static sn_status add_outputs(assembly *a) {
  const sn_graph *g = a->f->g;
  a->p->outputs = arena_array(&a->p->memory, (size_t)g->n_outputs + 1, sizeof *a->p->outputs);
  if (!a->p->outputs)
    return SN_ERR_NO_MEMORY;
  a->p->n_outputs = g->n_outputs;
  for (int k = 0; k < g->n_outputs; k++) {
    a->p->outputs[k] = (program_leaf){.name = arena_strdup(&a->p->memory, g->outputs[k].name),
                                      .type = g->values[g->outputs[k].value.id].type};
    if (!a->p->outputs[k].name)
      return SN_ERR_NO_MEMORY;
  }
  return SN_OK;
}

static sn_status add_values(assembly *a) {
  fuse *f = a->f;
  SN_TRY(add_outputs(a));
  for (int k = 0; k < f->n_groups; k++)
    for (int m = 0; f->groups[k]->merged < 0 && !f->groups[k]->dead && m < f->groups[k]->n_members;
         m++)
      SN_TRY(add_group_value(a, f->groups[k], f->groups[k]->members[m]));
  return SN_OK;
}

/* --- copies --- */

/* A part that copies one value of the program to another of the same type; `ends`: in the step that ends the run. */
static sn_status add_copy(assembly *a, uint32_t from, uint32_t to, section where, bool ends) {
  sn_shape shape = a->p->values[from].type.shape;
  sn_dim dummy[REGION_AXES];
  access_room room;
  place at;
  part part_made = {.u.loop = {.n_phases = 1}};
  instr *code = arena_array(&a->p->memory, 2, sizeof *code);
  draft *d = ends ? steps_find_final(a) : NULL;
  if (!d && (d = steps_add(a, STEP_POINTWISE, where)) != NULL) {
    d->stage = ends ? STAGE_FINAL : STAGE_ALONE;
    d->name = "copy";
  }
  if (!code || !d)
    return SN_ERR_NO_MEMORY;
  sn_shape flat = {.rank = 1, .dim = {dim_count(a->f->g, shape)}};
  part_made.u.loop.n_axes = place_of_axes(flat, 0, &at, dummy);
  part_made.u.loop.extent[0] = flat.dim[0];
  code[0] = (instr){.op = REGION_LOAD, .dtype = (uint8_t)a->p->values[from].type.dtype};
  code[1] = (instr){.op = REGION_STORE, .dtype = code[0].dtype};
  for (int k = 0; k < 2; k++) {
    if (!dag_access(a->f->g, &at, flat, false, k ? to : from, &room, &code[k].at))
      return SN_ERR_INTERNAL;
    code[k].row = part_made.u.loop.n_axes == 0;
    if (!steps_keep_access(a, &code[k].at))
      return SN_ERR_NO_MEMORY;
  }
  part_made.u.loop.code = (region){2, code};
  d->bytes += 2 * (double)a->p->values[from].bytes;
  return steps_add_part(a, d, &part_made);
}

/* The section after which a value is there; of leaves, what they are at the start. */
static section made_in(const assembly *a, uint32_t value) {
  int group = fuse_root(a->f, a->f->values[value].group);
  bool late = group >= 0 && a->f->groups[group]->section == SECTION_COMMIT;
  return late ? SECTION_COMMIT : SECTION_MAIN;
}

/* Outputs that nothing computes into their own place: leaves, values with two names. */
static sn_status copy_outputs(assembly *a) {
  const sn_graph *g = a->f->g;
  for (int k = 0; k < g->n_outputs; k++) {
    uint32_t value = g->outputs[k].value.id;
    if (a->p->outputs[k].value)
      continue;
    uint32_t to = add_value(a, value, HOME_OUTPUT, (uint32_t)k);
    a->p->outputs[k].value = to;
    if (!to)
      return a->f->status;
    SN_TRY(add_copy(a, a->f->values[value].id, to, made_in(a, value), false));
  }
  return SN_OK;
}

/* States whose new value was not made in their own place. A state that is read for another and assigned itself is
 * copied out first. */
static sn_status copy_states(assembly *a) {
  const sn_graph *g = a->f->g;
  for (int k = 0; k < g->n_assigns; k++) {
    uint32_t value = g->assigns[k].value.id, state = g->assigns[k].state.id;
    uint32_t from = a->f->values[value].id, old = a->f->values[state].id;
    const program_value *made = &a->p->values[from];
    if (made->home == HOME_STATE && made->in_place_of == old && made->source == value &&
        from != old)
      continue;
    if (made->home == HOME_STATE && value != state && a->p->states[made->index].assigned) {
      uint32_t aside = add_value(a, value, HOME_ARENA, 0);
      if (!aside)
        return a->f->status;
      SN_TRY(add_copy(a, from, aside, SECTION_MAIN, false));
      from = aside;
    }
    uint32_t to = add_value(a, value, HOME_STATE, (uint32_t)a->leaf_index[state]);
    if (!to)
      return a->f->status;
    a->p->values[to].in_place_of = old;
    SN_TRY(add_copy(a, from, to, SECTION_COMMIT, true));
  }
  return SN_OK;
}

/* --- memory that is taken over --- */

/* What lies in the memory of a value, one in place of the other, moves to another home as one. */
static void settle_chain(program *p, uint32_t value, value_home home, uint32_t index) {
  for (; value; value = p->values[value].in_place_of) {
    p->values[value].home = home;
    p->values[value].index = index;
  }
}

sn_status steps_take_base(assembly *a, const fuse_group *g, uint32_t made, uint32_t *base) {
  fuse *f = a->f;
  uint32_t source = a->p->values[*base].source;
  const fuse_value *v = &f->values[source];
  value_home home = a->p->values[made].home;
  if (g->takes_state)
    return SN_OK;
  bool ours = v->state == VALUE_MEMBER && !v->pinned && v->readers_of_store == 1 &&
              a->p->values[*base].home == HOME_ARENA && (home == HOME_ARENA || home == HOME_OUTPUT);
  if (ours) {
    settle_chain(a->p, *base, home, a->p->values[made].index);
  } else {
    uint32_t copy = add_value(a, source, home, a->p->values[made].index);
    if (!copy)
      return f->status;
    SN_TRY(add_copy(a, *base, copy, (section)g->section, false));
    *base = copy;
  }
  a->p->values[made].in_place_of = *base;
  return SN_OK;
}

static void mark_prepares(assembly *a) {
  for (int k = 0; k < a->p->n_prepare; k++)
    for (int q = 0; q < a->p->n_states; q++)
      if (a->p->states[q].value && steps_reads(&a->p->steps[k], a->p->states[q].value))
        a->p->states[q].prepares = true;
}

static sn_status keep_messages(const fuse *f, program *p) {
  p->requirements =
      arena_copy(&p->memory, f->requirements, (size_t)f->n_requirements * sizeof *f->requirements);
  p->sites = arena_copy(&p->memory, f->sites, (size_t)f->n_sites * sizeof *f->sites);
  if (!p->requirements || !p->sites)
    return SN_ERR_NO_MEMORY;
  p->n_requirements = f->n_requirements;
  p->n_sites = f->n_sites;
  for (int k = 0; k < p->n_requirements; k++)
    if (!(p->requirements[k].what = arena_strdup(&p->memory, p->requirements[k].what)))
      return SN_ERR_NO_MEMORY;
  for (int k = 0; k < p->n_sites; k++)
    if (!(p->sites[k].format = arena_strdup(&p->memory, p->sites[k].format)))
      return SN_ERR_NO_MEMORY;
  return SN_OK;
}

sn_status fuse_steps(fuse *f) {
  assembly a = {.f = f, .p = f->out};
  program *p = f->out;
  SN_TRY(add_leaves(&a));
  SN_TRY(find_sections(&a));
  SN_TRY(add_values(&a));
  SN_TRY(steps_from_groups(&a));
  SN_TRY(copy_outputs(&a));
  SN_TRY(copy_states(&a));
  SN_TRY(steps_order(&a));
  SN_TRY(keep_messages(f, p));
  mark_prepares(&a);
  if (f->g->status != SN_OK)
    return graph_check(f->g, f->g->ctx);
  return program_copy_dims(p, f->g);
}
