/* See emit_pairs.h. */
#include "device/vulkan/emit_pairs.h"

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

val pairs_load(kernel *k, val address, val i) {
  val word = k_add(k, k_shl(k, k_shr(k, i, 2), 2), k_and(k, k_shr(k, i, 1), k_index(k, 1)));
  val half = k_load(k, k->s.u32, address, word);
  val rest = k_load(k, k->s.u32, address, k_add(k, word, k_index(k, 2)));
  val second = k_eq(k, k_and(k, i, k_index(k, 1)), k_index(k, 1));
  return k_select(k, second, number(k, half, rest, true), number(k, half, rest, false));
}

val pairs_load_four(kernel *k, val address, val i) {
  val words = k_load(k, spirv_vector(&k->s, k->s.u32, 4), address, k_shr(k, i, 2)), x[4];
  for (int u = 0; u < 4; u++)
    x[u] = number(k, k_part(k, words, u / 2), k_part(k, words, 2 + u / 2), u % 2);
  return k_vector(k, 4, x);
}

/* --- which values --- */

static bool may_be(const program_value *v) {
  return v->home == HOME_ARENA && v->type.dtype == SN_F32;
}

/* Makes all kernels, in memory of its own. */
static sn_status look(const emit_env *env, arena *memory, unsigned char *uses) {
  const program *p = env->program;
  struct shader_table shaders = {0};
  struct kept_table kept = {0};
  emit_env own = *env;
  own.memory = memory;
  own.shaders = &shaders;
  own.uses = uses;
  own.pairs = NULL;
  for (int i = 0; i < program_steps(p); i++) {
    step_launches made;
    own.kept = env->kept && i >= p->n_prepare ? &kept : NULL;
    SN_TRY(emit_step(&own, &p->steps[i], &made));
  }
  return SN_OK;
}

static bool any_may(const program *p) {
  for (uint32_t v = 1; v < p->n_values; v++)
    if (may_be(&p->values[v]))
      return true;
  return false;
}

sn_status pairs_choose(emit_env *env) {
  const program *p = env->program;
  const gpu_target *t = env->target;
  env->pairs = NULL;
  if (env->precision != SN_PRECISION_FAST || !t->places || !t->bf16_places || env->by_hand ||
      !any_may(p))
    return SN_OK;
  bool *pairs = arena_array(env->memory, p->n_values, sizeof *pairs);
  unsigned char *uses = mem_alloc(env->ctx, p->n_values);
  if (!pairs || !uses) {
    mem_free(env->ctx, uses, uses ? p->n_values : 0);
    return SN_ERR_NO_MEMORY;
  }
  arena memory;
  arena_init(&memory, env->ctx);
  sn_status status = look(env, &memory, uses);
  for (uint32_t v = 1; v < p->n_values && status == SN_OK; v++)
    pairs[v] = may_be(&p->values[v]) && uses[v] == (USE_OPERAND | USE_STORE);
  arena_clear(&memory);
  mem_free(env->ctx, uses, p->n_values);
  env->pairs = pairs;
  return status;
}
