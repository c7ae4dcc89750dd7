/* The frame of kernels: their parameter block, slots and end. See kernel.h. */
#include "device/vulkan/kernel.h"

#include "base/half.h"

enum { /* numbers of the format that only the frame needs */
       BLOCK = 2,
       ARRAY_STRIDE = 6,
       BUILT_IN = 11,
       BINDING = 33,
       DESCRIPTOR_SET = 34,
       OFFSET = 35,
       NUM_WORKGROUPS = 24,
       WORKGROUP_ID = 26,
       LOCAL_INDEX = 29,
       MODEL_COMPUTE = 5,
       MODE_LOCAL_SIZE = 17,
       MODE_KEEP_NAN = 4461,
       CAPABILITY_KEEP_NAN = 4466
};

static void use(kernel *k, spirv_id variable) {
  if (k->n_interface == (int)COUNT_OF(k->interface))
    k->why = "too many variables";
  else
    k->interface[k->n_interface++] = variable;
}

/* --- the parameter block --- */

static void open_block(kernel *k) {
  spirv *s = &k->s;
  uint32_t n = (uint32_t)k->env->target->block_bytes / 16;
  spirv_id vector = spirv_vector(s, s->u32, 4);
  spirv_id array = spirv_type(s, SPV_TypeArray, SPV_ARGS(vector, spirv_u32(s, n)));
  spirv_decorate(s, array, SPV_ARGS(ARRAY_STRIDE, 16));
  spirv_id type = spirv_type(s, SPV_TypeStruct, SPV_ARGS(array));
  spirv_decorate(s, type, SPV_ARGS(BLOCK));
  spirv_put(s, SPV_DECORATIONS, SPV_MemberDecorate, SPV_ARGS(type, 0, OFFSET, 0));
  k->block = spirv_global(s, SPV_Uniform, type);
  spirv_decorate(s, k->block, SPV_ARGS(DESCRIPTOR_SET, 0));
  spirv_decorate(s, k->block, SPV_ARGS(BINDING, 0));
  use(k, k->block);
}

/* Component c of vector `at` (u32) of the block. */
static val block_word(kernel *k, val at, uint32_t c) {
  spirv *s = &k->s;
  val zero = spirv_u32(s, 0), component = spirv_u32(s, c);
  val p = spirv_op(s, SPV_AccessChain, spirv_pointer(s, SPV_Uniform, s->u32),
                   SPV_ARGS(k->block, zero, at, component));
  return spirv_op(s, SPV_Load, s->u32, SPV_ARGS(p));
}

val k_head(kernel *k, int word, int half) {
  return block_word(k, k_u32(k, (uint32_t)word / 2), (uint32_t)(word % 2 * 2 + half));
}

/* The first workgroup of a part. */
static val part_first(kernel *k, val number) {
  spirv *s = &k->s;
  val word = k_add(k, number, k_u32(k, BLOCK_HEADER)), odd = k_and(k, word, k_u32(k, 1));
  val zero = k_u32(k, 0), at = k_shr(k, word, 1), component = k_shl(k, odd, 1);
  val p = spirv_op(s, SPV_AccessChain, spirv_pointer(s, SPV_Uniform, s->u32),
                   SPV_ARGS(k->block, zero, at, component));
  return spirv_op(s, SPV_Load, s->u32, SPV_ARGS(p));
}

/* The part of a workgroup: the last whose first workgroup is not above it, by halving; and that workgroup. A loop, so that the
 * number of parts makes no other shader. */
static val find_part(kernel *k, val group, val *out_first) {
  val zero = k_u32(k, 0), low = k_var(k, zero), first = k_var(k, zero);
  val high = k_var(k, block_word(k, zero, 1));
  int turns = __builtin_ctz(LAUNCH_PARTS);
  k_loop l = k_loop_rolled(k, k_index(k, 0), k_index(k, turns), k_index(k, 1));
  val from = k_get(k, low), to = k_get(k, high),
      one_part = k_le(k, to, k_add(k, from, k_u32(k, 1)));
  k_loop_break(k, &l, one_part);
  val middle = k_shr(k, k_add(k, from, to), 1), next = part_first(k, middle);
  val before = k_le(k, next, group);
  k_set(k, low, k_select(k, before, middle, from));
  k_set(k, high, k_select(k, before, to, middle));
  k_set(k, first, k_select(k, before, next, k_get(k, first)));
  k_loop_end(k, &l);
  *out_first = k_get(k, first);
  return k_get(k, low);
}

static val input(kernel *k, uint32_t which, bool vector) {
  spirv *s = &k->s;
  spirv_id type = vector ? spirv_vector(s, s->u32, 3) : s->u32;
  spirv_id v = spirv_global(s, SPV_Input, type);
  spirv_decorate(s, v, SPV_ARGS(BUILT_IN, which));
  use(k, v);
  return spirv_op(s, SPV_Load, type, SPV_ARGS(v));
}

static void open_main(kernel *k) {
  spirv *s = &k->s;
  spirv_id type = spirv_type(s, SPV_TypeFunction, SPV_ARGS(s->none));
  s->now = SPV_HEAD;
  k->main = spirv_op(s, SPV_Function, s->none, SPV_ARGS(0, type));
  spirv_begin(s, spirv_label(s));
  s->now = SPV_PROLOGUE;
  val id = input(k, WORKGROUP_ID, true), all = input(k, NUM_WORKGROUPS, true);
  val x = k_part(k, id, 0), y = k_part(k, id, 1), width = k_part(k, all, 0);
  val flat = k_add(k, k_mul(k, y, width), x), group = flat;
  k->local = k_to_index(k, input(k, LOCAL_INDEX, false));
  k->base = k_u32(k, BLOCK_HEADER / 2);
  if (k->merged) {
    val first, number = find_part(k, flat, &first);
    val begin = block_word(k, k_u32(k, 0), 2), stride = block_word(k, k_u32(k, 0), 3);
    k->base = k_shr(k, k_add(k, begin, k_mul(k, number, stride)), 1);
    group = k_sub(k, flat, first);
  }
  k->group = k_to_index(k, group);
  val inside = k_lt(k, flat, block_word(k, k_u32(k, 0), 0));
  /* Loads of slots join the prologue while the body is emitted, so the body begins with a block of its own. */
  s->now = SPV_BODY;
  spirv_id body = spirv_label(s);
  spirv_go(s, body);
  spirv_begin(s, body);
  k->guard = k_if_begin(k, inside);
}

kernel *kernel_open(emit_env *env, int threads, bool merged) {
  kernel *k = mem_alloc(env->ctx, sizeof *k);
  if (!k)
    return NULL;
  k->env = env;
  k->threads = threads;
  k->merged = merged;
  spirv_start(&k->s, env->ctx);
  k->index = env->wide ? k->s.i64 : k->s.i32;
  if (env->target->chains)
    k_chain_open(k);
  open_block(k);
  open_main(k);
  return k;
}

/* --- slots --- */

/* See k_amount: numbers are the same only where they stand in the same place. */
static bool same_amount(const amount *have, const sn_dim *from, const amount *want) {
  bool symbols = true;
  for (int i = 0; i < want->n; i++)
    symbols = symbols && !dim_is_number(want->dims[i]);
  return (from == want->dims || symbols) && amount_equal(have, want);
}

static int find_slot(kernel *k, const slot *want) {
  for (int i = 0; i < k->n_slots; i++) {
    const slot *s = &k->slots[i];
    if (s->kind == want->kind && s->value == want->value && s->byte == want->byte &&
        same_amount(&s->of, k->slot_vals[i].from, &want->of))
      return i;
  }
  if (k->n_slots == KERNEL_SLOTS) {
    k->why = "too many sizes and values";
    return 0;
  }
  slot *s = &k->slots[k->n_slots];
  *s = *want;
  k->slot_vals[k->n_slots].from = s->of.dims;
  if (s->of.n > 0)
    s->of.dims = arena_copy(k->env->memory, s->of.dims, (size_t)s->of.n * sizeof *s->of.dims);
  k->s.failed = k->s.failed || (s->of.n > 0 && !s->of.dims);
  return k->n_slots++;
}

/* Both halves of a slot. Everything made from slots stands in the prologue, so that it is known everywhere. */
static const val *slot_halves(kernel *k, int i) {
  struct slot_vals *v = &k->slot_vals[i];
  if (v->half[0])
    return v->half;
  spirv_section now = k->s.now;
  k->s.now = SPV_PROLOGUE;
  val at = k->merged ? k_add(k, k->base, k_u32(k, (uint32_t)i / 2))
                     : k_u32(k, (uint32_t)(BLOCK_HEADER + i) / 2);
  v->half[0] = block_word(k, at, i & 1 ? 2 : 0);
  v->half[1] = block_word(k, at, i & 1 ? 3 : 1);
  k->s.now = now;
  return v->half;
}

static val slot_word(kernel *k, const slot *want) {
  int i = find_slot(k, want);
  struct slot_vals *v = &k->slot_vals[i];
  if (v->word)
    return v->word;
  const val *half = slot_halves(k, i);
  spirv_section now = k->s.now;
  k->s.now = SPV_PROLOGUE;
  v->word = k_bits(k, k_vector(k, 2, half), k->s.u64);
  k->s.now = now;
  return v->word;
}

static val amount_slot(kernel *k, const amount *of, uint32_t which) {
  slot want = {.kind = SLOT_AMOUNT, .value = which, .of = *of};
  int i = find_slot(k, &want);
  struct slot_vals *v = &k->slot_vals[i];
  if (v->index)
    return v->index;
  val bits = k->env->wide ? slot_word(k, &want) : slot_halves(k, i)[0];
  spirv_section now = k->s.now;
  k->s.now = SPV_PROLOGUE;
  v->index = k_bits(k, bits, k->index);
  k->s.now = now;
  return v->index;
}

val k_amount(kernel *k, const amount *of) {
  bool plain = of->n == 1 && of->tile == 1;
  if (of->n == 0 || (plain && !k->ones && (of->dims[0] == 0 || of->dims[0] == 1)))
    return k_index(k, of->n ? of->dims[0] : 1);
  return amount_slot(k, of, 0);
}

val k_amount_apart(kernel *k, const amount *of) { return amount_slot(k, of, 1); }

val k_size_of(kernel *k, const sn_dim *d) { return k_amount(k, &(amount){1, 1, d}); }

val k_size(kernel *k, sn_dim d) {
  val n = k_size_of(k, &d);
  for (int i = 0; i < k->n_slots; i++) /* that place is nobody's */
    if (k->slot_vals[i].from == &d)
      k->slot_vals[i].from = NULL;
  return n;
}

val k_sizes(kernel *k, int n, const sn_dim *dims) { return k_amount(k, &(amount){n, 1, dims}); }

bool value_stays(const emit_env *env, uint32_t value) {
  const program_value *v = &env->program->values[value];
  return v->home == HOME_CONSTANT || v->home == HOME_PREPARED ||
         (v->home == HOME_STATE && !env->program->states[v->index].assigned);
}

/* Whoever has an address may use it. */
static void must_have_waited(kernel *k) {
  if (k->env->target->chains && !k->waited)
    k->why = "it uses memory before it waits for others";
}

val k_address_for(kernel *k, uint32_t value, value_use use) {
  if (!value)
    k->why = "it uses a value that is not there";
  if (!value_stays(k->env, value))
    must_have_waited(k);
  if (k->env->uses)
    k->env->uses[value] |= (unsigned char)use;
  if (use == USE_OTHER && k->env->pairs && k->env->pairs[value])
    k->why = "a value that is stored as pairs is used as numbers";
  if (value == k->env->aside)
    return k_scratch(k, k->env->aside_at);
  return slot_word(k, &(slot){.kind = SLOT_ADDRESS, .value = value});
}

val k_address(kernel *k, uint32_t value) { return k_address_for(k, value, USE_OTHER); }

static int number_slot(kernel *k, uint32_t bits, uint32_t which) {
  return find_slot(k, &(slot){.kind = SLOT_NUMBER, .value = which, .byte = bits});
}

val k_number(kernel *k, float x, uint32_t which) {
  int i = number_slot(k, f32_bits(x), which);
  const val *half = slot_halves(k, i);
  struct slot_vals *v = &k->slot_vals[i];
  spirv_section now = k->s.now;
  k->s.now = SPV_PROLOGUE;
  v->index = v->index ? v->index : k_bits(k, half[0], k->s.f32);
  k->s.now = now;
  return v->index;
}

val k_failures(kernel *k) { return slot_word(k, &(slot){.kind = SLOT_FAILURES}); }
val k_zeros(kernel *k) { return slot_word(k, &(slot){.kind = SLOT_ZEROS}); }

val k_scratch(kernel *k, int64_t byte) {
  must_have_waited(k);
  return slot_word(k, &(slot){.kind = SLOT_SCRATCH, .byte = byte});
}

int64_t scratch_take(emit_env *env, int64_t bytes) {
  int64_t at = env->scratch;
  env->scratch += (bytes + 255) / 256 * 256;
  return at;
}

/* --- kept memory --- */

static sn_status kept_grow(emit_env *env) {
  struct kept_table *t = env->kept;
  int room = t->room ? 2 * t->room : 32;
  struct kept_entry *more = arena_array(env->memory, (size_t)room, sizeof *more);
  if (!more)
    return SN_ERR_NO_MEMORY;
  if (t->n)
    memcpy(more, t->list, (size_t)t->n * sizeof *more);
  t->list = more;
  t->room = room;
  return SN_OK;
}

int kept_find(const emit_env *env, uint32_t value, const void *key, size_t size) {
  const struct kept_table *t = env->kept;
  for (int i = 0; i < t->n; i++)
    if (t->list[i].value == value && t->list[i].size == size &&
        memcmp(t->list[i].key, key, size) == 0)
      return i;
  return -1;
}

sn_status kept_take(emit_env *env, uint32_t value, const void *key, size_t size, int64_t bytes,
                    int64_t *out_at, bool *out_new) {
  struct kept_table *t = env->kept;
  int found = kept_find(env, value, key, size);
  *out_new = found < 0;
  if (found >= 0) {
    *out_at = t->list[found].at;
    return SN_OK;
  }
  if (t->n == t->room)
    SN_TRY(kept_grow(env));
  void *copy = arena_copy(env->memory, key, size);
  if (!copy)
    return SN_ERR_NO_MEMORY;
  t->list[t->n++] = (struct kept_entry){value, copy, size, t->bytes, bytes};
  *out_at = t->bytes;
  t->bytes += (bytes + 255) / 256 * 256;
  return SN_OK;
}

val k_kept(kernel *k, int64_t byte) {
  return slot_word(k, &(slot){.kind = SLOT_KEPT, .byte = byte});
}

bool kept_may_read(const emit_env *env, uint32_t value) {
  return env->kept && dim_is_number(env->program->values[value].count) && value_stays(env, value);
}

int64_t size_most(const emit_env *env, sn_dim d) {
  int64_t lo, hi;
  dim_range(env->program->dims, d, &lo, &hi);
  return hi;
}

int64_t sizes_most(const emit_env *env, int n, const sn_dim *dims) {
  int64_t product = 1;
  for (int i = 0; i < n; i++)
    if (!mul_fits(product, size_most(env, dims[i]), &product))
      return INT64_MAX;
  return product;
}

val k_divide(kernel *k, val x, const amount *by, val *rem) {
  spirv *s = &k->s;
  val divisor = k_amount(k, by), q;
  if (divisor == k_index(k, 1)) {
    if (rem)
      *rem = k_index(k, 0);
    return x;
  }
  if (k->env->wide) {
    q = k_div(k, x, k_max(k, divisor, k_index(k, 1))); /* by 0 as by 1: see slot_inverse */
  } else {
    const val *half = slot_halves(k, find_slot(k, &(slot){.kind = SLOT_INVERSE, .of = *by}));
    val u = k_bits(k, x, s->u32);
    spirv_id pair = spirv_type(s, SPV_TypeStruct, SPV_ARGS(s->u32, s->u32));
    val product = spirv_op(s, SPV_UMulExtended, pair, SPV_ARGS(u, half[0]));
    val sum = k_add(k, spirv_op(s, SPV_CompositeExtract, s->u32, SPV_ARGS(product, 1)), u);
    q = k_bits(k, spirv_op(s, SPV_ShiftRightLogical, s->u32, SPV_ARGS(sum, half[1])), s->i32);
  }
  if (rem)
    *rem = k_sub(k, x, k_mul(k, q, divisor));
  return q;
}

/* --- the end --- */

void kernel_grid(kernel *k, int n, const amount *of) {
  k->n_grid = n;
  for (int i = 0; i < n; i++) {
    k->grid[i] = of[i];
    if (of[i].n > 0)
      k->grid[i].dims =
          arena_copy(k->env->memory, of[i].dims, (size_t)of[i].n * sizeof *of[i].dims);
    k->s.failed = k->s.failed || (of[i].n > 0 && !k->grid[i].dims);
  }
}

static void close_main(kernel *k) {
  spirv *s = &k->s;
  if (k->env->target->chains)
    k_chain_raise(k);
  k_if_end(k, &k->guard);
  spirv_do(s, SPV_Return, 0, NULL);
  spirv_do(s, SPV_FunctionEnd, 0, NULL);
  uint32_t entry[4 + COUNT_OF(k->interface)] = {MODEL_COMPUTE, k->main, 0x6e69616d /* "main" */};
  memcpy(entry + 4, k->interface, (size_t)k->n_interface * sizeof *entry);
  spirv_put(s, SPV_PREAMBLE, SPV_EntryPoint, 4 + k->n_interface, entry);
  spirv_put(s, SPV_PREAMBLE, SPV_ExecutionMode,
            SPV_ARGS(k->main, MODE_LOCAL_SIZE, (uint32_t)k->threads, 1, 1));
  if (k->env->target->keeps_nan) {
    spirv_capability(s, CAPABILITY_KEEP_NAN);
    spirv_put(s, SPV_PREAMBLE, SPV_ExecutionMode, SPV_ARGS(k->main, MODE_KEEP_NAN, 32));
  }
}

/* The shader of these words, the one there is if there is one. */
static const shader *intern(emit_env *env, const uint32_t *words, size_t n, const kernel *k) {
  size_t size = n * sizeof *words;
  uint64_t hash = hash_long(HASH_SEED, words, size);
  struct shader_table *t = env->shaders;
  for (int i = 0; i < t->n; i++)
    if (t->at[i]->hash == hash && t->at[i]->n_words == n &&
        memcmp(t->at[i]->words, words, size) == 0)
      return t->at[i];
  if (t->n == t->room) {
    int room = t->room ? 2 * t->room : 64;
    const shader **at = arena_array(env->memory, (size_t)room, sizeof(shader *));
    if (!at)
      return NULL;
    if (t->n)
      memcpy(at, t->at, (size_t)t->n * sizeof(shader *));
    t->at = at;
    t->room = room;
  }
  shader *made = arena_alloc(env->memory, sizeof *made);
  uint32_t *copy = arena_copy(env->memory, words, size);
  if (!made || !copy)
    return NULL;
  *made = (shader){.words = copy,
                   .n_words = n,
                   .hash = hash,
                   .threads = k->threads,
                   .merged = k->merged,
                   .subgroup = k->subgroups ? env->target->subgroup : 0};
  return t->at[t->n++] = made;
}

/* The kernel's shader; NULL: no memory. Where it is only asked what kernels do (env->uses), that is one without code. */
static const shader *finish(kernel *k) {
  emit_env *env = k->env;
  size_t n = 0;
  if (env->uses)
    return k->s.failed ? NULL : arena_alloc(env->memory, sizeof(shader));
  uint32_t *words = spirv_finish(&k->s, &n);
  const shader *made = words ? intern(env, words, n, k) : NULL;
  mem_free(env->ctx, words, n * sizeof *words);
  return made;
}

sn_status kernel_close(kernel *k, kernel_made *out) {
  emit_env *env = k->env;
  close_main(k);
  sn_status status = SN_OK;
  if (k->why)
    status = diag_fail(env->ctx, SN_ERR_UNSUPPORTED, "vulkan: a kernel cannot be made: %s", k->why);
  else if (!(out->code = finish(k)))
    status = SN_ERR_NO_MEMORY;
  out->part = (launch_part){.n_slots = k->n_slots, .n_grid = k->n_grid};
  memcpy(out->part.grid, k->grid, sizeof k->grid);
  if (k->n_slots > 0)
    out->part.slots = arena_copy(env->memory, k->slots, (size_t)k->n_slots * sizeof *k->slots);
  if (status == SN_OK && k->n_slots > 0 && !out->part.slots)
    status = SN_ERR_NO_MEMORY;
  spirv_free(&k->s);
  mem_free(env->ctx, k, sizeof *k);
  return status;
}
