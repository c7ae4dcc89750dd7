/* The structure of a module's functions: where blocks go, which dominate which, that values are defined on every way
 * to their use, that merges are well-formed. spirv-val does the same; this one knows the instructions that an
 * installed one may not. See spirv_vm_inner.h. */
#include "support/spirv_vm_inner.h"

#include <stdlib.h>

#define NONE UINT32_MAX

/* --- ways --- */

/* The block of a label in the function of block `from`; NONE after a finding. */
static uint32_t block_of(vm_module *m, uint32_t from, uint32_t at, uint32_t label) {
  bool is = label < m->bound && m->ids[label].what == ID_LABEL;
  uint32_t b = is ? m->ids[label].ref : NONE;
  if (!is || m->blocks.at[b].function != m->blocks.at[from].function) {
    vm_wrong(m, at, "%%%u is no block of the function", label);
    return NONE;
  }
  return b;
}

static bool add_way(vm_module *m, uint32_t from, uint32_t at, uint32_t label) {
  uint32_t to = block_of(m, from, at, label);
  if (to == NONE)
    return false;
  if (to == m->functions.at[m->blocks.at[to].function].first_block)
    return vm_wrong(m, at, "a branch to the first block");
  PUSH(m->ways, to);
  m->blocks.at[from].n_ways++;
  return true;
}

static bool find_ways(vm_module *m, uint32_t b) {
  uint32_t at = m->blocks.at[b].last;
  const uint32_t *w = m->words + at;
  m->blocks.at[b].first_way = m->ways.n;
  switch (vm_code_at(m, at)) {
  case VM_Branch: return add_way(m, b, at, w[1]);
  case VM_BranchConditional: return add_way(m, b, at, w[2]) && add_way(m, b, at, w[3]);
  case VM_Switch: {
    if (vm_length(m, at) % 2 == 0)
      return vm_wrong(m, at, "a case without its label, or of 64 bits");
    bool ok = add_way(m, b, at, w[2]);
    for (uint32_t i = 4; i < vm_length(m, at) && ok; i += 2)
      ok = add_way(m, b, at, w[i]);
    return ok;
  }
  default: return true;
  }
}

/* --- dominators (Cooper, Harvey, Kennedy) --- */

typedef struct walk {
  vm_module *m;
  uint32_t *back; /* blocks in reverse post-order, from the end on */
  uint32_t n, next;
  uint32_t *stack, *way;
} walk;

/* Blocks that can be reached, each before those it leads to but for loops. Without recursion. */
static void sort_blocks(walk *k, uint32_t root) {
  vm_module *m = k->m;
  uint32_t depth = 0, visited = 0;
  k->next = k->n;
  k->stack[0] = root;
  k->way[0] = 0;
  m->blocks.at[root].order = visited;
  for (;;) {
    const vm_block *b = &m->blocks.at[k->stack[depth]];
    if (k->way[depth] < b->n_ways) {
      uint32_t to = m->ways.at[b->first_way + k->way[depth]++];
      if (m->blocks.at[to].order == NONE) {
        m->blocks.at[to].order = ++visited;
        k->stack[++depth] = to;
        k->way[depth] = 0;
      }
      continue;
    }
    k->back[--k->next] = k->stack[depth];
    if (depth-- == 0)
      break;
  }
  for (uint32_t i = k->next; i < k->n; i++)
    m->blocks.at[k->back[i]].order = i;
}

static uint32_t common(const vm_module *m, uint32_t a, uint32_t b) {
  while (a != b) {
    while (m->blocks.at[a].order > m->blocks.at[b].order)
      a = m->blocks.at[a].dominator;
    while (m->blocks.at[b].order > m->blocks.at[a].order)
      b = m->blocks.at[b].dominator;
  }
  return a;
}

static void find_dominators(walk *k, uint32_t root) {
  vm_module *m = k->m;
  m->blocks.at[root].dominator = root;
  for (bool changed = true; changed;) {
    changed = false;
    for (uint32_t i = k->next; i < k->n; i++) {
      uint32_t from = k->back[i];
      const vm_block *b = &m->blocks.at[from];
      for (uint32_t w = 0; w < b->n_ways; w++) {
        vm_block *to = &m->blocks.at[m->ways.at[b->first_way + w]];
        uint32_t d = to->dominator == NONE ? from : common(m, from, to->dominator);
        changed = changed || d != to->dominator;
        to->dominator = d;
      }
    }
  }
}

static bool dominates(const vm_module *m, uint32_t a, uint32_t b) {
  while (m->blocks.at[b].order > m->blocks.at[a].order)
    b = m->blocks.at[b].dominator;
  return a == b;
}

static void find_order(vm_module *m, const vm_function *f) {
  uint32_t n = f->n_blocks;
  walk k = {.m = m, .n = n};
  k.back = calloc(3 * (size_t)n, sizeof *k.back);
  if (!k.back)
    abort();
  k.stack = k.back + n;
  k.way = k.stack + n;
  for (uint32_t i = 0; i < n; i++)
    m->blocks.at[f->first_block + i].order = m->blocks.at[f->first_block + i].dominator = NONE;
  sort_blocks(&k, f->first_block);
  find_dominators(&k, f->first_block);
  free(k.back);
}

/* --- merges --- */

static bool reached(const vm_module *m, uint32_t b) { return m->blocks.at[b].order != NONE; }

static bool find_merge(vm_module *m, uint32_t i) {
  vm_block *b = &m->blocks.at[i];
  uint32_t at = b->merge_at;
  bool loop = at && vm_code_at(m, at) == VM_LoopMerge;
  if (!at)
    return true;
  b->merge = block_of(m, i, at, m->words[at + 1]);
  b->next = loop ? block_of(m, i, at, m->words[at + 2]) : NONE;
  if (b->merge == NONE || (loop && b->next == NONE))
    return false;
  int last = vm_code_at(m, b->last);
  if (last == VM_Return || last == VM_ReturnValue || (!loop && last == VM_Branch))
    return vm_wrong(m, at, "a merge without a choice");
  if (b->merge == i || (reached(m, b->merge) && !dominates(m, i, b->merge)))
    return vm_wrong(m, at, "the merge block is reached in other ways");
  if (loop && reached(m, b->next) && !dominates(m, i, b->next))
    return vm_wrong(m, at, "the loop's next block is reached in other ways");
  return true;
}

/* A choice without a merge leaves a construct one way. */
static bool check_choice(vm_module *m, const vm_function *f, const vm_block *b) {
  if (b->merge_at || vm_code_at(m, b->last) != VM_BranchConditional)
    return true;
  for (uint32_t i = f->first_block; i < f->first_block + f->n_blocks; i++)
    for (uint32_t w = 0; w < 2; w++) {
      uint32_t to = m->ways.at[b->first_way + w];
      if (m->blocks.at[i].merge == to || m->blocks.at[i].next == to)
        return true;
    }
  return vm_wrong(m, b->last, "a condition without a merge");
}

static bool check_back_edges(vm_module *m, const vm_function *f, uint32_t head) {
  const vm_block *h = &m->blocks.at[head];
  bool loop = h->next != NONE;
  int n = 0;
  for (uint32_t i = f->first_block; i < f->first_block + f->n_blocks; i++)
    for (uint32_t w = 0; w < m->blocks.at[i].n_ways && reached(m, i); w++) {
      if (m->ways.at[m->blocks.at[i].first_way + w] != head || !dominates(m, head, i))
        continue;
      n++;
      if (!loop)
        return vm_wrong(m, m->blocks.at[i].last, "a way back to a block that heads no loop");
      if (!dominates(m, h->next, i))
        return vm_wrong(m, m->blocks.at[i].last, "a way back that is not the loop's");
    }
  return n <= 1 || vm_wrong(m, h->merge_at, "a loop with several ways back");
}

static bool check_merges(vm_module *m, const vm_function *f) {
  uint32_t end = f->first_block + f->n_blocks;
  for (uint32_t i = f->first_block; i < end; i++) {
    if (reached(m, i) && !find_merge(m, i))
      return false;
    const vm_block *b = &m->blocks.at[i];
    for (uint32_t k = f->first_block; k < i && b->merge != NONE; k++)
      if (m->blocks.at[k].merge == b->merge)
        return vm_wrong(m, b->merge_at, "the merge block is that of another choice");
  }
  for (uint32_t i = f->first_block; i < end; i++) {
    const vm_block *b = &m->blocks.at[i];
    if (!reached(m, i))
      continue;
    if (i > f->first_block && b->dominator >= i)
      return vm_wrong(m, b->at, "a block before the one that dominates it");
    if (!check_choice(m, f, b) || !check_back_edges(m, f, i))
      return false;
  }
  return true;
}

/* --- uses --- */

typedef struct use {
  vm_module *m;
  uint32_t block;
} use;

static bool known_at(vm_module *m, uint32_t id, uint32_t block) {
  const vm_id *of = &m->ids[id];
  if (of->what == ID_CONSTANT)
    return of->block == NONE || m->blocks.at[of->block].function == m->blocks.at[block].function;
  return of->what == ID_VALUE && m->blocks.at[of->block].function == m->blocks.at[block].function &&
         dominates(m, of->block, block);
}

static bool check_use(void *user, uint32_t at, char letter, uint32_t id) {
  use *u = user;
  return letter != 'v' || known_at(u->m, id, u->block) ||
         vm_wrong(u->m, at, "%%%u is not known on every way to its use", id);
}

static bool check_phi(vm_module *m, uint32_t b, uint32_t at) {
  const uint32_t *w = m->words + at;
  uint32_t n = vm_length(m, at), ways = 0;
  for (uint32_t i = 0; i < m->blocks.n; i++)
    for (uint32_t k = 0; k < m->blocks.at[i].n_ways && reached(m, i); k++)
      if (m->ways.at[m->blocks.at[i].first_way + k] == b) {
        bool given = false;
        for (uint32_t j = 4; j < n; j += 2)
          given = given || w[j] == m->blocks.at[i].label;
        if (!given)
          return vm_wrong(m, at, "nothing is given for the way from %%%u", m->blocks.at[i].label);
        ways++;
        break;
      }
  if (n % 2 == 0 || (n - 3) / 2 != ways)
    return vm_wrong(m, at, "%u ways lead here", ways);
  for (uint32_t j = 3; j < n; j += 2)
    if (w[j] == 0 || w[j] >= m->bound || !vm_type_of(m, w[j]) ||
        !known_at(m, w[j], m->ids[w[j + 1]].ref))
      return vm_wrong(m, at, "%%%u is not known on its way", w[j]);
    else if (m->ids[w[j]].type != w[1])
      return vm_wrong(m, at, "%%%u has another type", w[j]);
  return true;
}

static bool check_uses(vm_module *m, uint32_t b) {
  use u = {m, b};
  bool phis = true;
  uint32_t last = m->blocks.at[b].last;
  for (uint32_t at = m->blocks.at[b].at; at <= last; at += vm_length(m, at)) {
    int code = vm_code_at(m, at);
    if (!vm_each_operand(m, code, at, check_use, &u))
      return false;
    phis = phis && (code == VM_Label || code == VM_Phi);
    if (code == VM_Phi && (!phis || !check_phi(m, b, at)))
      return phis ? false : vm_wrong(m, at, "a phi behind other instructions");
  }
  return true;
}

bool vm_check_blocks(vm_module *m) {
  for (uint32_t b = 0; b < m->blocks.n; b++)
    if (!find_ways(m, b))
      return false;
  for (uint32_t i = 0; i < m->functions.n; i++) {
    find_order(m, &m->functions.at[i]);
    if (!check_merges(m, &m->functions.at[i]))
      return false;
  }
  for (uint32_t b = 0; b < m->blocks.n; b++)
    if (reached(m, b) && !check_uses(m, b))
      return false;
  return true;
}
