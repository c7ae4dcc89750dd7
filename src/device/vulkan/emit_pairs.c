/* See emit_pairs.h. */
#include "device/vulkan/emit_pairs.h"

#include "device/vulkan/emit_alike.h"

/* --- numbers --- */

static val upper(kernel *k, val x) { return k_and(k, x, k_u32(k, 0xffff0000)); }
static val size_of(kernel *k, val bits) { return k_and(k, bits, k_u32(k, 0x7fffffff)); }

/* Upper halves of eight words, numbers' and rests', as four words. */
static void join(kernel *k, const val half[4], const val rest[4], val out[4]) {
  for (int i = 0; i < 4; i++) {
    const val *of = i < 2 ? half : rest;
    out[i] = k_or(k, k_shr(k, of[2 * (i & 1)], 16), upper(k, of[2 * (i & 1) + 1]));
  }
}

/* The bits of a number, rounded where its upper half alone counts. */
static val rounded(kernel *k, val bits) { return k_add(k, bits, k_u32(k, 0x8000)); }

/* Where there are infinities, NaN, or what would be rounded to an infinity: those are cut off and have no rest, but NaN stay such. */
static void wild_words(kernel *k, const val bits[4], val out[4]) {
  val half[4], rest[4], infinite = k_u32(k, 0x7f800000);
  for (int i = 0; i < 4; i++) {
    val size = size_of(k, bits[i]), cut = upper(k, bits[i]);
    val wild = k_le(k, k_u32(k, 0x7f7f8000), size);
    half[i] = k_select(k, wild, cut, upper(k, rounded(k, bits[i])));
    half[i] = k_select(k, k_lt(k, infinite, size), k_u32(k, 0x7fc00000), half[i]);
    val left = k_sub(k, k_bits(k, bits[i], k->s.f32), k_bits(k, half[i], k->s.f32));
    left = k_bits(k, left, k->s.u32);
    rest[i] = k_select(k, wild, left, rounded(k, left));
    rest[i] = k_select(k, k_le(k, infinite, size), k_u32(k, 0), rest[i]);
  }
  join(k, half, rest, out);
}

void pairs_words(kernel *k, const val x[4], val out[4]) {
  val bits[4], half[4], rest[4], words[4], most = k_u32(k, 0);
  for (int i = 0; i < 4; i++) {
    bits[i] = k_bits(k, x[i], k->s.u32);
    half[i] = rounded(k, bits[i]);
    val left = k_sub(k, x[i], k_bits(k, upper(k, half[i]), k->s.f32));
    rest[i] = rounded(k, k_bits(k, left, k->s.u32));
    most = k_max(k, most, size_of(k, bits[i]));
  }
  join(k, half, rest, words);
  for (int i = 0; i < 4; i++)
    words[i] = k_var(k, words[i]);
  k_if wild = k_if_begin(k, k_le(k, k_u32(k, 0x7f7f8000), most));
  wild_words(k, bits, out);
  for (int i = 0; i < 4; i++)
    k_set(k, words[i], out[i]);
  k_if_end(k, &wild);
  for (int i = 0; i < 4; i++)
    out[i] = k_get(k, words[i]);
}

/* A number from words of its half and of what that leaves; second: it is the upper one of each. */
static val number(kernel *k, val half, val rest, bool second) {
  val words[2] = {half, rest};
  for (int i = 0; i < 2; i++)
    words[i] = k_bits(k, second ? upper(k, words[i]) : k_shl(k, words[i], 16), k->s.f32);
  return k_add(k, words[0], words[1]);
}

val pairs_load(kernel *k, uint32_t value, val i) {
  val address = k_address_for(k, value, USE_OPERAND);
  val word = k_add(k, k_shl(k, k_shr(k, i, 2), 2), k_and(k, k_shr(k, i, 1), k_index(k, 1)));
  val half = k_load(k, k->s.u32, address, word);
  val rest = k_load(k, k->s.u32, address, k_add(k, word, k_index(k, 2)));
  val second = k_eq(k, k_and(k, i, k_index(k, 1)), k_index(k, 1));
  return k_select(k, second, number(k, half, rest, true), number(k, half, rest, false));
}

/* --- which values --- */

/* What the plan alone says of a value: whether all that load it are operands of products. */
enum { LOADED = 1, LOADED_OTHERWISE = 2 };

typedef struct candidates {
  const program *p;
  const step *s; /* at hand */
  unsigned char *loads;
  bool any; /* the step at hand has one */
} candidates;

static bool is_candidate(const candidates *c, uint32_t value) {
  const program_value *v = &c->p->values[value];
  return v->home == HOME_ARENA && v->type.dtype == SN_F32 && c->loads[value] == LOADED;
}

static bool is_operand(const matmul_part *p, const access *at) {
  for (int a = 0; a < p->n_accs; a++)
    for (int i = 0; i < p->accs[a].n_products; i++) {
      const matmul_product *product = &p->accs[a].products[i];
      const region *sides[2] = {&product->a, &product->b};
      for (int side = 0; side < 2; side++)
        if (sides[side]->n == 1 && at == &sides[side]->code[0].at)
          return true;
    }
  return false;
}

static bool note_load(void *user, const step_use *use) {
  candidates *c = user;
  bool operand =
      c->s->kind == STEP_MATMUL && use->at && is_operand(&c->s->parts[use->part].u.matmul, use->at);
  if (!use->store)
    c->loads[use->value] |= operand ? LOADED : LOADED_OTHERWISE;
  return true;
}

static bool find_candidate(void *user, const step_use *use) {
  candidates *c = user;
  c->any = c->any || is_candidate(c, use->value);
  return true;
}

/* Makes the kernels of all steps that have candidates, in memory of its own. */
static sn_status look(const emit_env *env, candidates *c, arena *memory, unsigned char *uses) {
  const program *p = env->program;
  struct shader_table shaders = {0};
  struct kept_table kept = {0};
  struct alike_table alike = {0};
  emit_env own = *env;
  own.memory = memory;
  own.shaders = &shaders;
  own.alike = env->alike ? &alike : NULL;
  own.uses = uses;
  own.pairs = NULL;
  for (int i = 0; i < program_steps(p); i++) {
    step_launches made;
    c->any = false;
    (void)step_each_use(&p->steps[i], find_candidate, c);
    own.kept = env->kept && i >= p->n_prepare ? &kept : NULL;
    if (c->any)
      SN_TRY(emit_step(&own, &p->steps[i], &made));
  }
  return SN_OK;
}

sn_status pairs_choose(emit_env *env) {
  const program *p = env->program;
  const gpu_target *t = env->target;
  env->pairs = NULL;
  if (env->precision != SN_PRECISION_FAST || !t->places || !t->bf16_places || env->by_hand)
    return SN_OK;
  arena memory;
  arena_init(&memory, env->ctx);
  unsigned char *pairs = arena_array(env->memory, p->n_values, 1);
  unsigned char *uses = arena_array(&memory, p->n_values, 1);
  candidates c = {.p = p, .loads = arena_array(&memory, p->n_values, 1)};
  sn_status status = pairs && uses && c.loads ? SN_OK : SN_ERR_NO_MEMORY;
  for (int i = 0; i < program_steps(p) && status == SN_OK; i++) {
    c.s = &p->steps[i];
    (void)step_each_use(c.s, note_load, &c);
  }
  if (status == SN_OK)
    status = look(env, &c, &memory, uses);
  for (uint32_t v = 1; v < p->n_values && status == SN_OK; v++)
    pairs[v] = is_candidate(&c, v) && uses[v] == (USE_OPERAND | USE_STORE);
  arena_clear(&memory);
  env->pairs = pairs;
  return status;
}
